#include "coll/wish.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "runtime/base/status.h"
#include "runtime/base/text.h"

namespace weft::coll {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n";
  const size_t first = text.find_first_not_of(kSpace);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

std::optional<uint64_t> size_of(std::string_view text) {
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return {};
  const std::string_view unit(stop, static_cast<size_t>(text.data() + text.size() - stop));
  if (unit.empty()) return value;
  const size_t power = std::string_view("KkMmGg").find(unit) / 2 + 1;
  if (unit.size() != 1 || power > 3 || value > UINT64_MAX >> (10 * power)) return {};
  return value << (10 * power);
}

/// All names of a list, for messages.
template <class Each>
std::string names(Each each) {
  std::string text;
  each([&](const char* name) { text.append(text.empty() ? "" : ", ").append(name); });
  return text;
}

std::string algorithms_of(Pattern p) {
  return names([&](auto add) {
    for (const Algorithm& a : algorithms())
      if (a.pattern == p) add(a.name);
    if (has_node_kernel(p)) add("node");
  });
}

std::optional<Pattern> pattern_named(std::string_view name) {
  for (int p = 0; p < kPatterns; ++p)
    if (name == to_string(static_cast<Pattern>(p))) return static_cast<Pattern>(p);
  return {};
}

std::string patterns() {
  return names([&](auto add) {
    for (int p = 0; p < kPatterns; ++p) add(to_string(static_cast<Pattern>(p)));
  });
}

/// "64K-1M". False if it is not written so, or holds no size.
bool read_sizes(std::string_view text, Wish& wish) {
  const size_t dash = text.find('-');
  if (dash == text.npos || text.size() == 1) return false;
  const std::string_view from = text.substr(0, dash), to = text.substr(dash + 1);
  const auto first = from.empty() ? uint64_t{0} : size_of(from), end = to.empty() ? UINT64_MAX : size_of(to);
  if (!first || !end || *first >= *end) return false;
  wish.first = *first;
  wish.end = *end;
  return true;
}

/// "16/4" or "16". False if it is not written so.
bool read_place(std::string_view text, Wish& wish) {
  const auto number = [](std::string_view digits, int32_t& n) { return read_number(digits, n) && n > 0; };
  const size_t slash = text.find('/');
  if (!number(trimmed(text.substr(0, slash)), wish.ranks)) return false;
  return slash == text.npos || number(trimmed(text.substr(slash + 1)), wish.hosts);
}

Result<Wish> read_one(std::string_view entry) {
  const size_t sign = entry.find('=');
  if (sign == entry.npos)
    return Failure{"write COLLECTIVE=ALGORITHM, COLLECTIVE:FROM-TO=ALGORITHM or COLLECTIVE@RANKS/HOSTS:FROM-TO=ALGORITHM"};
  const std::string_view left = trimmed(entry.substr(0, sign)), name = trimmed(entry.substr(sign + 1));
  const size_t colon = std::min(left.find(':'), left.size());
  Wish wish;
  wish.text = entry;
  const std::string_view head = left.substr(0, colon);
  const size_t at = std::min(head.find('@'), head.size());
  const auto pattern = pattern_named(trimmed(head.substr(0, at)));
  if (!pattern) return Failure{"the collectives are " + patterns()};
  wish.pattern = *pattern;
  if (at < head.size() && !read_place(head.substr(at + 1), wish))
    return Failure{"communicators are written 16 or 16/4, for those of 16 ranks, for those of 16 ranks on 4 hosts"};
  if (colon < left.size() && !read_sizes(trimmed(left.substr(colon + 1)), wish))
    return Failure{"sizes are written 64K-1M, 1M- or -64K, the first one below the second"};
  wish.node = name == "node" && has_node_kernel(*pattern);
  wish.algorithm = find_algorithm(*pattern, name);
  if (!wish.node && !wish.algorithm)
    return Failure{std::string("the algorithms of ") + to_string(*pattern) + " are " + algorithms_of(*pattern)};
  return wish;
}

}  // namespace

Wishes Wishes::read(std::string_view text, size_t most) {
  Wishes found;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view entry = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (entry.empty()) continue;
    auto wish = found.all.size() < most ? read_one(entry) : Result<Wish>(Failure{"there are too many entries"});
    if (wish) {
      found.all.push_back(std::move(*wish));
    } else {
      found.wrong += (found.wrong.empty() ? "\"" : "; \"") + std::string(entry) + "\": " + wish.failure().text;
    }
  }
  return found;
}

bool has_node_kernel(Pattern p) { return !among_neighbors(p); }

}  // namespace weft::coll
