// MPI_Dims_create's choice.
#pragma once

#include <vector>

namespace weft::comm {

/// Factors of `n`, `count` of them, the largest first, as close to each other as possible: the least largest one, then the least second
/// one, and so on.
std::vector<int> balanced_factors(int n, int count);

}  // namespace weft::comm
