// Ranks as PMIx writes them: "0,1,4-6".
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace weft::boot {

/// Those named, in order; reading ends where it makes no sense any more. At most a million.
inline std::vector<uint32_t> parse_ranks(const std::string& list) {
  std::vector<uint32_t> ranks;
  const char* at = list.c_str();
  while (*at) {
    char* end;
    const unsigned long first = strtoul(at, &end, 10);
    if (end == at) break;
    unsigned long last = first;
    if (*end == '-') last = strtoul(end + 1, &end, 10);
    for (unsigned long r = first; r <= last && r < UINT32_MAX && ranks.size() < 1u << 20; r++) ranks.push_back(uint32_t(r));
    at = *end == ',' ? end + 1 : end;
    if (*end && *end != ',') break;
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace weft::boot
