#include "btl/verbs/card.h"

namespace weft::btl::verbs {

GidPair best_gids(const Card& mine, size_t my_rail, const Card& theirs, size_t their_rail) {
  const bool same_host = mine.host_id == theirs.host_id;
  GidPair best;
  for (const net::Gid& a : mine.rails[my_rail].gids)
    for (const net::Gid& b : theirs.rails[their_rail].gids)
      if (const int worth = net::judge(a, b, same_host); worth > best.worth) best = {a, b, worth};
  return best;
}

}  // namespace weft::btl::verbs
