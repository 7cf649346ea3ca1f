// Which addresses of their devices two rails use.
#pragma once

#include <cstddef>

#include "btl/card.h"

namespace weft::btl::verbs {

/// The best pair of addresses of two rails.
struct GidPair {
  net::Gid mine, theirs;
  int worth = 0;  ///< see net::judge(); 0: there is none
};
GidPair best_gids(const Card& mine, size_t my_rail, const Card& theirs, size_t their_rail);

/// For partner_of().
inline int gid_worth(const Card& one, size_t one_rail, const Card& other, size_t other_rail) {
  return best_gids(one, one_rail, other, other_rail).worth;
}

}  // namespace weft::btl::verbs
