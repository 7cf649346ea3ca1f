#include "launcher/tree/shape.h"

#include <algorithm>
#include <charconv>

namespace weft::launcher::tree {

bool names_host(std::string_view name) {
  if (name.empty() || name.front() == '-' || name.size() > 255) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return isalnum(static_cast<unsigned char>(c)) || std::string_view("-._@").find(c) != std::string_view::npos;
  });
}

namespace {

constexpr uint32_t most = 1u << 24;

bool number(std::string_view text, uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value <= most;
}

void add(std::vector<HostSlots>& hosts, HostSlots host) {
  const auto known = std::find_if(hosts.begin(), hosts.end(), [&](const HostSlots& h) { return h.name == host.name; });
  if (known == hosts.end())
    hosts.push_back(std::move(host));
  else
    known->slots += host.slots;
}

/// Splits at commas outside brackets.
std::vector<std::string_view> items(std::string_view list) {
  std::vector<std::string_view> result;
  size_t from = 0;
  int depth = 0;
  for (size_t i = 0; i <= list.size(); i++) {
    if (i < list.size() && list[i] == '[') depth++;
    if (i < list.size() && list[i] == ']') depth--;
    if (i < list.size() && (list[i] != ',' || depth)) continue;
    result.push_back(list.substr(from, i - from));
    from = i + 1;
  }
  return result;
}

/// "node[1-3,07]-a" -> names; false if it is no such thing.
bool expand(std::string_view item, std::vector<std::string>& names) {
  const size_t open = item.find('[');
  if (open == std::string_view::npos) {
    names.emplace_back(item);
    return names_host(item);
  }
  const size_t shut = item.find(']', open);
  if (shut == std::string_view::npos) return false;
  for (std::string_view range : items(item.substr(open + 1, shut - open - 1))) {
    const size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash);
    uint32_t first = 0, last = 0;
    if (!number(low, first)) return false;
    if (dash == std::string_view::npos)
      last = first;
    else if (!number(range.substr(dash + 1), last) || last < first)
      return false;
    for (uint32_t i = first; i <= last; i++) {
      std::string digits = std::to_string(i);
      digits.insert(0, low.size() > digits.size() ? low.size() - digits.size() : 0, '0');
      if (names.size() > most || !expand(std::string(item.substr(0, open)) + digits + std::string(item.substr(shut + 1)), names))
        return false;
    }
  }
  return true;
}

}  // namespace

Result<std::vector<HostSlots>> parse_slurm(std::string_view nodes, std::string_view tasks) {
  std::vector<std::string> names;
  for (std::string_view item : items(nodes))
    if (!expand(item, names)) return Failure{"Slurm's list of nodes, \"" + std::string(nodes) + "\", cannot be read"};
  std::vector<uint32_t> counts;
  for (std::string_view item : tasks.empty() ? std::vector<std::string_view>() : items(tasks)) {
    const size_t open = item.find("(x");
    uint32_t count = 0, times = 1;
    bool good = number(item.substr(0, open), count) && count;
    if (open != std::string_view::npos) good = good && item.back() == ')' && number(item.substr(open + 2, item.size() - open - 3), times);
    if (!good || times > names.size()) return Failure{"Slurm's tasks per node, \"" + std::string(tasks) + "\", cannot be read"};
    counts.insert(counts.end(), times, count);
  }
  std::vector<HostSlots> hosts;
  for (size_t i = 0; i < names.size(); i++) add(hosts, {names[i], i < counts.size() ? counts[i] : 1});
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
