// Exact sums of doubles in the way of Shewchuk (1997), and what is nearest to them in a format: the model that exact sums are held to.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace weft::test {

/// A sum of doubles that do not overlap, the greatest one last. Sums beyond double are not for it.
class Expansion {
 public:
  Expansion() = default;
  explicit Expansion(std::span<const double> terms) {
    for (const double x : terms) add(x);
  }
  void add(double x) {
    size_t kept = 0;
    for (double y : parts_) {
      if (std::abs(x) < std::abs(y)) std::swap(x, y);
      const double sum = x + y, lost = y - (sum - x);
      if (lost != 0) parts_[kept++] = lost;
      x = sum;
    }
    parts_.resize(kept);
    if (x != 0) parts_.push_back(x);
  }
  int sign() const { return parts_.empty() ? 0 : parts_.back() < 0 ? -1 : 1; }
  Expansion negated() const {
    Expansion other = *this;
    for (double& x : other.parts_) x = -x;
    return other;
  }
  Expansion minus(double x) const {
    Expansion other = *this;
    other.add(-x);
    return other;
  }
  Expansion twice() const {
    Expansion other = *this;
    for (double& x : other.parts_) x *= 2;
    return other;
  }

 private:
  std::vector<double> parts_;
};

/// The bits of the number of a format nearest to a sum, ties to even; zero is +0. `value`: of bits without sign below `infinity`.
template <class Value>
uint64_t nearest(const Expansion& sum, uint64_t infinity, uint64_t sign_bit, Value value) {
  if (sum.sign() < 0) return sign_bit | nearest(sum.negated(), infinity, sign_bit, value);
  uint64_t least = 0, end = infinity;  // the greatest number that is not more
  while (end - least > 1) {
    const uint64_t middle = least + (end - least) / 2;
    (sum.minus(value(middle)).sign() >= 0 ? least : end) = middle;
  }
  const double below = value(least), gap = least + 1 < infinity ? value(least + 1) - below : below - value(least - 1);
  const int beyond = sum.minus(below).twice().minus(gap).sign();
  return least + (beyond > 0 || (beyond == 0 && least % 2));
}

inline uint64_t nearest_double(const Expansion& sum) {
  return nearest(sum, uint64_t{0x7ff} << 52, uint64_t{1} << 63, [](uint64_t bits) { return std::bit_cast<double>(bits); });
}
inline uint64_t nearest_float(const Expansion& sum) {
  return nearest(sum, uint64_t{0x7f800000}, uint64_t{1} << 31,
                 [](uint64_t bits) { return double{std::bit_cast<float>(static_cast<uint32_t>(bits))}; });
}

}  // namespace weft::test
