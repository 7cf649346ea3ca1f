#include "runtime/mem/alloc_kinds.h"

#include <algorithm>
#include <array>
#include <vector>

namespace weft::mem {
namespace {

struct Known {
  std::string_view kind;
  std::array<std::string_view, 3> restrictors;
};
constexpr Known known[] = {{"system", {}}, {"mpi", {"alloc_mem", "win_allocate", "win_allocate_shared"}}};

std::vector<std::string_view> cut(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (bool more = !text.empty(); more;) {
    const size_t end = std::min(text.find(at), text.size());
    more = end < text.size();
    std::string_view part = text.substr(0, end);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    parts.push_back(part);
    text.remove_prefix(more ? end + 1 : end);
  }
  return parts;
}

/// A kind and its restrictors, if there is memory of that kind here.
bool is_known(std::string_view entry) {
  const auto parts = cut(entry, ':');
  if (parts.empty()) return false;
  const auto kind = std::ranges::find(known, parts[0], &Known::kind);
  if (kind == std::end(known)) return false;
  return std::all_of(parts.begin() + 1, parts.end(),
                     [&](std::string_view part) { return !part.empty() && std::ranges::count(kind->restrictors, part) > 0; });
}

}  // namespace

std::string offered_alloc_kinds(std::string_view requested) {
  std::vector<std::string_view> offered;
  for (const std::string_view list : {requested, default_alloc_kinds})
    for (const std::string_view entry : cut(list, ','))
      if (is_known(entry) && !std::ranges::count(offered, entry)) offered.push_back(entry);
  std::string text;
  for (const std::string_view entry : offered) text.append(text.empty() ? "" : ",").append(entry);
  return text;
}

bool covers_alloc_kinds(std::string_view offered, std::string_view list) {
  const auto there = cut(offered, ',');
  return std::ranges::all_of(cut(list, ','), [&](std::string_view entry) {
    const std::string_view kind = entry.substr(0, entry.find(':'));
    return is_known(entry) && (std::ranges::count(there, entry) > 0 || std::ranges::count(there, kind) > 0);
  });
}

}  // namespace weft::mem
