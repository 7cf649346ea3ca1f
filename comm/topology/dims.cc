#include "comm/topology/dims.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <tuple>

namespace weft::comm {
namespace {

/// In ascending order.
std::vector<int> divisors_of(int n) {
  std::vector<int> low, high;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d) continue;
    low.push_back(static_cast<int>(d));
    if (d * d != n) high.push_back(static_cast<int>(n / d));
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

class Search {
 public:
  explicit Search(int n) : divisors_(divisors_of(n)) {}

  /// Splits `n` into `count` factors none of which is above `most`; false if that cannot be done.
  bool split(int n, int count, int most, std::vector<int>& factors) {
    if (count == 1) {
      if (n > most) return false;
      factors.push_back(n);
      return true;
    }
    if (dead_ends_.contains({n, count, most})) return false;
    for (const int factor : divisors_) {
      if (factor > std::min(n, most)) break;
      if (n % factor || !room(n, count, factor)) continue;
      factors.push_back(factor);
      if (split(n / factor, count - 1, factor, factors)) return true;
      factors.pop_back();
    }
    dead_ends_.emplace(n, count, most);
    return false;
  }

 private:
  /// Whether `count` factors up to `most` can make up `n` by their size.
  static bool room(int n, int count, int most) {
    int64_t product = 1;
    for (int i = 0; i < count && product < n; ++i) product *= most;
    return product >= n;
  }

  std::vector<int> divisors_;
  std::set<std::tuple<int, int, int>> dead_ends_;
};

}  // namespace

std::vector<int> balanced_factors(int n, int count) {
  std::vector<int> factors;
  if (count > 0) Search(n).split(n, count, n, factors);
  return factors;
}

}  // namespace weft::comm
