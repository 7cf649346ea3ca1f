#include "runtime/topo/network.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <unordered_set>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/config/config.h"
#include "runtime/topo/fabric.h"

namespace weft::topo {
namespace {

constexpr size_t kMostText = 16u << 20;
constexpr std::string_view kSpace = " \t\r\v\f";

/// Takes what comes before the separator, or all.
std::string_view take(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

/// The same, but separators in [brackets] do not count.
std::string_view take_name(std::string_view& list) {
  size_t end = 0;
  for (bool inside = false; end < list.size() && (inside || list[end] != ','); ++end) inside = inside ? list[end] != ']' : list[end] == '[';
  const std::string_view part = list.substr(0, end);
  list.remove_prefix(std::min(end + 1, list.size()));
  return part;
}

std::optional<uint64_t> number(std::string_view digits) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || digits.size() > 18 || error != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

/// "01-04", or "7": the numbers, and how many digits they have at least.
struct Range {
  uint64_t first, last;
  size_t width;

  static std::optional<Range> parse(std::string_view text) {
    const size_t dash = std::min(text.find('-'), text.size());
    const auto from = number(text.substr(0, dash)), to = dash == text.size() ? from : number(text.substr(dash + 1));
    if (!from || !to || *to < *from) return {};
    return Range{*from, *to, dash};
  }
  bool holds(std::string_view digits) const {
    const auto value = number(digits);
    return value && *value >= first && *value <= last && (digits.size() == width || (digits.size() > width && digits[0] != '0'));
  }
};

/// Whether one name, in which ranges may stand, means this one.
bool matches(std::string_view pattern, std::string_view name) {
  const size_t open = pattern.find('['), close = pattern.find(']');
  if (open == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, open))) return false;
  name.remove_prefix(open);
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  for (std::string_view items = pattern.substr(open + 1, close - open - 1); !items.empty();) {
    const auto range = Range::parse(take(items, ','));
    for (size_t n = 1; range && n <= std::min<size_t>(digits, 18); ++n)
      if (range->holds(name.substr(0, n)) && matches(pattern.substr(close + 1), name.substr(n))) return true;
  }
  return false;
}

/// What is wrong with a list; empty: nothing.
std::string flaw(std::string_view list) {
  constexpr size_t kMostRanges = 3;  // in one name: each may be tried in several ways
  if (list.empty()) return "an empty list";
  while (!list.empty()) {
    std::string_view name = take_name(list);
    if (name.empty()) return "an empty name in a list";
    for (size_t ranges = 0; name.find_first_of("[]") != name.npos; ++ranges) {
      const size_t open = name.find('['), close = name.find(']');
      if (open == name.npos || close == name.npos || close < open) return "unpaired brackets";
      if (ranges == kMostRanges) return "more than three ranges in one name";
      std::string_view items = name.substr(open + 1, close - open - 1);
      do {
        const std::string_view item = take(items, ',');
        if (!Range::parse(item)) return "\"" + std::string(item) + "\" is no range; ranges are written n[01-04,7]";
      } while (!items.empty());
      name.remove_prefix(close + 1);
    }
  }
  return {};
}

/// The names of a file's hosts, each once, at most `most`.
struct Names {
  size_t most;
  std::vector<std::string> list;
  std::unordered_set<std::string> known;

  /// Adds those that a pattern stands for, behind `head`.
  void add(std::string_view pattern, const std::string& head = "") {
    const size_t open = pattern.find('['), close = pattern.find(']');
    if (open == pattern.npos) {
      std::string name = head + std::string(pattern);
      if (known.insert(name).second) list.push_back(std::move(name));
      return;
    }
    for (std::string_view items = pattern.substr(open + 1, close - open - 1); !items.empty();) {
      const auto range = Range::parse(take(items, ','));
      for (uint64_t n = range->first; n <= range->last && list.size() < most; ++n) {
        std::string digits = std::to_string(n);
        digits.insert(0, range->width - std::min(range->width, digits.size()), '0');
        add(pattern.substr(close + 1), head + std::string(pattern.substr(0, open)) + digits);
      }
    }
  }
};

}  // namespace

Result<Network::Switch> Network::parse_line(std::string_view line) {
  Switch made{};
  while (line.find_first_not_of(kSpace) != line.npos) {
    line.remove_prefix(line.find_first_not_of(kSpace));
    std::string_view word = line.substr(0, std::min(line.find_first_of(kSpace), line.size()));
    line.remove_prefix(word.size());
    const std::string_view key = take(word, '=');
    std::string* const value = same_word(key, "SwitchName") ? &made.name
                               : same_word(key, "Nodes")    ? &made.nodes
                               : same_word(key, "Switches") ? &made.switches
                                                            : nullptr;
    if (!value && same_word(key, "LinkSpeed")) continue;
    if (!value) return Failure{"\"" + std::string(key) + "\" is none of SwitchName=, Nodes=, Switches="};
    if (!value->empty()) return Failure{std::string(key) + "= twice"};
    *value = word;
    if (const std::string wrong = flaw(word); !wrong.empty()) return Failure{std::string(key) + "=: " + wrong};
  }
  if (made.name.empty()) return Failure{"no SwitchName="};
  if (made.nodes.empty() == made.switches.empty()) return Failure{"a switch has either Nodes= or Switches="};
  return made;
}

Result<Network> Network::parse(std::string_view text, const std::string& file) {
  if (is_fabric(text) || is_neighbours(text)) {
    const auto lines = is_fabric(text) ? tree_of_fabric(text) : tree_of_neighbours(text);
    return lines ? parse(*lines, "the tree made of " + file) : Result<Network>(Failure{file + ": " + lines.failure().text});
  }
  Network network;
  network.file_ = file;
  std::unordered_set<std::string> known;
  for (size_t next = 1; !text.empty();) {
    const size_t begin = next;
    std::string line;
    for (bool more = true; more && !text.empty(); ++next) {
      std::string_view part = take(text, '\n');
      part = part.substr(0, part.find('#'));
      part = part.substr(0, part.find_last_not_of(kSpace) + 1);
      more = part.ends_with('\\');
      line.append(part.substr(0, part.size() - more));
    }
    if (line.find_first_not_of(kSpace) == line.npos) continue;
    const auto at = [&](const std::string& what) { return Failure{"line " + std::to_string(begin) + " of " + file + ": " + what}; };
    auto made = parse_line(line);
    if (!made) return at(made.failure().text);
    if (!known.insert(made->name).second) return at("a second switch " + made->name);
    made->line = begin;
    network.of_nodes_.add(made->nodes, network.switches_.size());
    network.of_switches_.add(made->switches, network.switches_.size());
    network.switches_.push_back(std::move(*made));
  }
  return network;
}

Result<Network> Network::read(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMostText + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.is_open() || stream.bad()) return Failure{file + ": cannot be read"};
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > kMostText) return Failure{file + ": larger than 16 MiB"};
  return parse(text, file);
}

void Network::Index::add(std::string_view list, size_t at) {
  while (!list.empty()) {
    const std::string name(take_name(list));
    if (name.find('[') == name.npos)
      plain.try_emplace(name, at);
    else
      ranges.emplace_back(name, at);
  }
}

size_t Network::Index::find(std::string_view name) const {
  const auto found = plain.find(std::string(name));
  const size_t first = found == plain.end() ? kNone : found->second;
  for (const auto& [pattern, at] : ranges) {
    if (at >= first) break;  // they are in the order of lines
    if (matches(pattern, name)) return at;
  }
  return first;
}

Result<std::vector<std::string>> Network::above(std::string_view host) const {
  size_t at = of_nodes_.find(host);
  if (at == kNone) at = of_nodes_.find(host.substr(0, host.find('.')));
  std::vector<std::string> path;
  for (; at != kNone; at = of_switches_.find(path.back())) {
    const Switch& s = switches_[at];
    if (path.size() == kLevels)
      return Failure{"line " + std::to_string(s.line) + " of " + file_ + ": more than " + std::to_string(kLevels) +
                     " switches above each other, or a circle of them"};
    path.push_back(s.name);
  }
  return path;
}

std::string Network::text() const {
  std::string lines;
  for (const Switch& s : switches_)
    lines += "SwitchName=" + s.name + (s.nodes.empty() ? " Switches=" + s.switches : " Nodes=" + s.nodes) + "\n";
  return lines;
}

Result<std::string> Network::lines_for_all(const std::string& file) {
  const auto network = read(file);
  if (!network) return network.failure();
  std::string lines = network->text();
  if (lines.size() > config::kMostOfVariable) return Failure{file + " names too much for one job (ranges such as n[1-64] are short)"};
  return lines;
}

std::vector<std::string> Network::hosts(size_t most) const {
  Names names{most, {}, {}};
  for (const Switch& s : switches_)
    for (std::string_view list = s.nodes; !list.empty() && names.list.size() < most;) names.add(take_name(list));
  return std::move(names.list);
}

}  // namespace weft::topo
