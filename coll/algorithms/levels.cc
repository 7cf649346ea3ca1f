#include "coll/algorithms/levels.h"

namespace weft::coll {

Levels::Levels(const Hosts& h, Rank me, Rank root) : hosts(h), here(h.on(h.of(me))), seat(h.seat(me)), host(h.of(me)) {
  for (int32_t i = 0; i < h.count(); ++i) leaders.push_back(root >= 0 && h.of(root) == i ? root : h.on(i).front());
  leader = h.seat(leaders[static_cast<size_t>(host)]);
  leads = leader == seat;
}

std::vector<Rank> Levels::peers() const {
  std::vector<Rank> out;
  for (int32_t i = 0; i < hosts.count(); ++i) out.push_back(hosts.on(i)[static_cast<size_t>(seat)]);
  return out;
}

}  // namespace weft::coll
