#include "launcher/tree/shape.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <unordered_map>

#include "launcher/place/hosts.h"
#include "launcher/place/words.h"

namespace weft::launcher::tree {

bool names_host(std::string_view name) {
  if (name.empty() || name.front() == '-' || name.size() > 255) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return isalnum(static_cast<unsigned char>(c)) || std::string_view("-._@").find(c) != std::string_view::npos;
  });
}

namespace {

constexpr uint32_t most = 1u << 20;

bool number(std::string_view text, uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value <= most;
}

/// "node[1-3,07]-a,b" -> names.
Result<std::vector<std::string>> names_of(std::string_view nodes) {
  std::vector<std::string> names;
  for (const std::string& item : placement::split_outside_brackets(nodes, ',')) {
    auto some = placement::expand(item);
    if (!some) return some.failure();
    for (std::string& name : *some)
      if (!names_host(name)) return Failure{"\"" + name + "\" is no name of a host"};
    if (names.size() + some->size() > most) return Failure{"too many hosts"};
    names.insert(names.end(), std::make_move_iterator(some->begin()), std::make_move_iterator(some->end()));
  }
  return names;
}

/// "2(x3),1" -> 2, 2, 2, 1; nothing if it cannot be read or is about more than `most_counts` hosts.
std::optional<std::vector<uint32_t>> counts_of(std::string_view tasks, size_t most_counts) {
  std::vector<uint32_t> counts;
  if (tasks.empty()) return counts;
  for (const std::string& text : placement::split(tasks, ',')) {
    const std::string_view item = text;
    const size_t open = item.find("(x");
    uint32_t count = 0, times = 1;
    bool good = number(item.substr(0, open), count) && count;
    if (open != std::string_view::npos) good = good && item.back() == ')' && number(item.substr(open + 2, item.size() - open - 3), times);
    if (!good || times > most_counts - counts.size()) return {};
    counts.insert(counts.end(), times, count);
  }
  return counts;
}

}  // namespace

Result<std::vector<HostSlots>> parse_slurm(std::string_view nodes, std::string_view tasks) {
  auto names = names_of(nodes);
  if (!names) return Failure{"Slurm's list of nodes, \"" + std::string(nodes) + "\", cannot be read: " + names.failure().text};
  const auto counts = counts_of(tasks, names->size());
  if (!counts) return Failure{"Slurm's tasks per node, \"" + std::string(tasks) + "\", cannot be read"};
  std::vector<HostSlots> hosts;
  std::unordered_map<std::string, size_t> known;
  for (size_t i = 0; i < names->size(); i++) {
    const uint32_t slots = i < counts->size() ? (*counts)[i] : 1;
    const auto [at, fresh] = known.emplace((*names)[i], hosts.size());
    if (fresh)
      hosts.push_back({std::move((*names)[i]), slots});
    else
      hosts[at->second].slots += slots;
  }
  return hosts;
}

std::vector<uint32_t> Shape::children(uint32_t node) const {
  std::vector<uint32_t> list;
  for (uint64_t child = uint64_t{node} * fan_out + 1; child <= uint64_t{node} * fan_out + fan_out && child < count; child++)
    list.push_back(uint32_t(child));
  return list;
}

bool Shape::below(uint32_t node, uint32_t top) const {
  while (node > top) node = parent(node);
  return node == top;
}

uint32_t Shape::next(uint32_t here, uint32_t there) const {
  if (!below(there, here)) return parent(here);
  while (parent(there) != here) there = parent(there);
  return there;
}

}  // namespace weft::launcher::tree
