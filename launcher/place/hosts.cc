#include "launcher/place/hosts.h"

#include <errno.h>
#include <string.h>

#include <algorithm>
#include <unordered_map>

#include "launcher/place/words.h"

namespace weft::placement {
namespace {

constexpr uint32_t kMostSlots = 1u << 24;
constexpr size_t kMostNames = 1u << 18;  // of all hosts together: more than any machine has

Failure at(const std::string& source, const std::string& what) { return {source + ": " + what}; }

/// The colon before a number of slots; none inside an address of IPv6.
size_t slots_colon(std::string_view word) {
  const size_t colon = word.rfind(':');
  return colon != word.npos && word.find(':') == colon ? colon : word.npos;
}

Result<void> read_attribute(std::string_view word, Host& host) {
  const size_t equals = word.find('=');
  const std::string name(word.substr(0, equals));
  const std::string value(equals == word.npos ? "" : word.substr(equals + 1));
  const std::vector<std::string> known = {"slots", "max_slots", "max-slots", "cpu", "count"};
  if (std::ranges::find(known, name) == known.end())
    return Failure{"\"" + name + "\" is not known" + did_you_mean(name, known) + "; a line is: name slots=N max_slots=N"};
  const auto number = parse_number(value, 1, kMostSlots);
  if (!number) return Failure{name + "=N needs a number of 1 or more, not \"" + value + "\""};
  if (name.starts_with("max")) {
    host.most = *number;
  } else {
    host.slots = *number;
    host.firm = true;
  }
  return {};
}

Result<void> read_name(std::string_view word, Host& host) {
  const size_t colon = slots_colon(word);
  if (colon != word.npos) {
    const std::string count(word.substr(colon + 1));
    const auto number = parse_number(count, 1, kMostSlots);
    if (!number) return Failure{"\"" + std::string(word) + "\": host:N needs a number of 1 or more, not \"" + count + "\""};
    host.slots = *number;
    word = word.substr(0, colon);
  }
  if (word.empty()) return Failure{"a host without a name"};
  for (const char c : word)
    if (!isalnum(static_cast<unsigned char>(c)) && !strchr("._-:%@[],", c))
      return Failure{"\"" + std::string(word) + "\" is no name of a host"};
  host.name = word;
  return {};
}

Result<void> read_words(const std::vector<std::string>& words, Host& host) {
  if (auto ok = read_name(words[0], host); !ok) return ok;
  for (size_t i = 1; i < words.size(); ++i) {
    std::string word = words[i];
    while (i + 1 < words.size() && (word.ends_with('=') || words[i + 1].starts_with('='))) word += words[++i];  // slots = 4
    if (word.starts_with("user=") || word.starts_with("binding=") || word.starts_with("if=") || word.starts_with("user:")) continue;
    if (auto ok = read_attribute(word, host); !ok) return ok;
  }
  if (host.most && host.slots > host.most)
    return Failure{"slots=" + std::to_string(host.slots) + " is more than max_slots=" + std::to_string(host.most)};
  host.bare = !host.slots;
  return {};
}

Result<void> expand_into(std::string_view name, std::vector<std::string>& result);

/// One item between the brackets' commas: "7" or "01-04".
Result<void> expand_item(std::string_view head, const std::string& item, std::string_view tail, std::vector<std::string>& result) {
  const size_t dash = item.find('-');
  const std::string from = item.substr(0, dash), to = dash == item.npos ? from : item.substr(dash + 1);
  const auto first = parse_number(from, 0, UINT32_MAX - 1), last = parse_number(to, 0, UINT32_MAX - 1);
  if (!first || !last || *last < *first) return Failure{"\"[" + item + "]\" is no range; ranges are written node[01-04,7]"};
  if (*last - *first >= kMostNames) return Failure{"\"[" + item + "]\" are too many hosts"};
  for (uint32_t i = *first; i <= *last; ++i) {
    std::string digits = std::to_string(i);
    if (digits.size() < from.size()) digits.insert(0, from.size() - digits.size(), '0');
    if (auto ok = expand_into(std::string(head) + digits + std::string(tail), result); !ok) return ok;
    if (result.size() > kMostNames) return Failure{"too many hosts"};
  }
  return {};
}

Result<void> expand_into(std::string_view name, std::vector<std::string>& result) {
  const size_t open = name.find('['), close = name.find(']');
  if (open == name.npos && close == name.npos) {
    result.emplace_back(name);
    return {};
  }
  if (open == name.npos || close == name.npos || close < open)
    return Failure{"\"" + std::string(name) + "\" has unpaired brackets; ranges are written node[01-04,7]"};
  for (const std::string& item : split(name.substr(open + 1, close - open - 1), ','))
    if (auto ok = expand_item(name.substr(0, open), item, name.substr(close + 1), result); !ok) return ok;
  return {};
}

}  // namespace

Result<std::vector<std::string>> expand(std::string_view name) {
  std::vector<std::string> result;
  if (name.find('[') == 0 && std::ranges::count(name, ':') > 1) {  // an address of IPv6
    result.emplace_back(name);
    return result;
  }
  if (auto ok = expand_into(name, result); !ok) return ok.failure();
  return result;
}

void add_hosts(std::vector<Host>& all, const std::vector<Host>& more) {
  std::unordered_map<std::string, size_t> index;
  for (size_t i = 0; i < all.size(); ++i) index.emplace(all[i].name, i);
  for (const Host& host : more) {
    const auto [found, fresh] = index.emplace(host.name, all.size());
    if (fresh) {
      all.push_back(host);
      continue;
    }
    Host& known = all[found->second];
    known.firm |= host.firm;
    known.most += host.most;
    known.slots = std::max(known.slots, 1u) + std::max(host.slots, 1u);
    known.bare = false;
  }
}

namespace {

/// Appends the hosts that `like.name` stands for after "user@", if there is a user.
Result<void> add_named(std::vector<Host>& hosts, const Host& like) {
  const size_t user = like.name.find('@') + 1;  // npos + 1: none
  auto names = expand(std::string_view(like.name).substr(user));
  if (!names) return names.failure();
  if (hosts.size() + names->size() > kMostNames) return Failure{"these are more than " + std::to_string(kMostNames) + " hosts together"};
  for (const std::string& name : *names) {
    hosts.push_back(like);
    hosts.back().name = like.name.substr(0, user) + name;
  }
  return {};
}

/// Line by line.
Result<std::vector<Host>> lines_of(std::string_view text, const std::string& file) {
  std::vector<Host> lines;
  uint32_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    const std::string source = "line " + std::to_string(++number) + " of " + file;
    const std::vector<std::string> words = split_words(std::string_view(line).substr(0, line.find('#')));
    if (words.empty()) continue;
    Host host;
    host.source = source;
    if (auto ok = read_words(words, host); !ok) return at(source, ok.failure().text);
    if (auto ok = add_named(lines, host); !ok) return at(source, ok.failure().text);
  }
  if (lines.empty()) return Failure{file + ": no host is named in it"};
  return lines;
}

}  // namespace

Result<std::vector<Host>> parse_hostfile(std::string_view text, const std::string& file) {
  auto lines = lines_of(text, file);
  if (!lines) return lines;
  std::vector<Host> hosts;
  add_hosts(hosts, *lines);
  return hosts;
}

Result<std::vector<std::string>> parse_sequence(std::string_view text, const std::string& file) {
  auto lines = lines_of(text, file);
  if (!lines) return lines.failure();
  std::vector<std::string> names;
  for (Host& line : *lines) names.push_back(std::move(line.name));
  return names;
}

Result<std::vector<Host>> read_hostfile(const std::string& file) {
  auto text = read_text(file);
  if (!text) return Failure{"hostfile " + text.failure().text};
  return parse_hostfile(*text, file);
}

Result<std::vector<Host>> parse_hosts(std::string_view list) {
  std::vector<Host> named;
  for (const std::string& word : split_outside_brackets(list, ',')) {
    Host host;
    host.source = "-H " + word;
    if (auto ok = read_name(word, host); !ok) return at("-H " + std::string(list), ok.failure().text);
    host.bare = !host.slots;
    if (!host.slots) host.slots = 1;
    if (auto ok = add_named(named, host); !ok) return at("-H " + std::string(list), ok.failure().text);
  }
  std::vector<Host> hosts;
  add_hosts(hosts, named);
  if (hosts.empty()) return Failure{"-H needs the names of hosts"};
  return hosts;
}

bool means(std::string_view name, std::string_view own) {
  if (const size_t user = name.find('@'); user != name.npos) name.remove_prefix(user + 1);
  if (name == own || name == "localhost" || name == "127.0.0.1" || name == "::1") return true;
  const size_t dot = name.find('.'), own_dot = own.find('.');
  if (name.find_first_not_of("0123456789.") == name.npos) return false;  // an address has no short form
  return (dot == name.npos) != (own_dot == own.npos) && name.substr(0, dot) == own.substr(0, own_dot);
}

}  // namespace weft::placement
