#include "coll/hosts.h"

#include <unordered_map>

namespace weft::coll {

Hosts::Hosts(std::span<const int32_t> host_of) {
  std::unordered_map<int32_t, int32_t> numbers;
  for (size_t r = 0; r < host_of.size(); ++r) {
    const int32_t host = numbers.try_emplace(host_of[r], static_cast<int32_t>(numbers.size())).first->second;
    if (host == count()) ranks_.emplace_back();
    std::vector<Rank>& here = ranks_[static_cast<size_t>(host)];
    in_blocks_ = in_blocks_ && (here.empty() || here.back() == static_cast<Rank>(r) - 1);
    host_.push_back(host);
    seat_.push_back(static_cast<Rank>(here.size()));
    here.push_back(static_cast<Rank>(r));
  }
  for (const std::vector<Rank>& ranks : ranks_) alike_ = alike_ && ranks.size() == ranks_.front().size();
}

}  // namespace weft::coll
