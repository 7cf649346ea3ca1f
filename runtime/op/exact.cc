#include "runtime/op/exact.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/type/construct.h"
#include "runtime/type/predefined.h"

namespace weft::op {
namespace {

using type::Basic;
using type::Datatype;
__extension__ using Wide = unsigned __int128;

constexpr int kCounts = 2;                                 // words behind the digits
constexpr int kWord = 64, kLeastWidth = 32;                // kLeastWidth: with kMostTerms
constexpr int kMostDigits = 2098 / kLeastWidth + 1;        // of double
constexpr uint64_t kMinus = 1, kPlus = uint64_t{1} << 32;  // counts in the first of these words

/// A format of IEEE 754's kind. Places count bits of fixed-point numbers, 0 being the last one of the least subnormal number.
template <class B, int kFractionBits>
struct Binary {
  using Bits = B;
  static constexpr int kFraction = kFractionBits;
  static constexpr int kExponent = 8 * static_cast<int>(sizeof(Bits)) - 1 - kFraction;
  static constexpr int kPlaces = (1 << kExponent) - 2 + kFraction;  // of the greatest number
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  static constexpr Bits kInfinity = static_cast<Bits>(((Bits{1} << kExponent) - 1) << kFraction);
  static constexpr Bits kNaN = static_cast<Bits>(kInfinity | Bits{1} << (kFraction - 1));
};
using Half = Binary<uint16_t, 10>;
using Bfloat = Binary<uint16_t, 7>;
using Single = Binary<uint32_t, 23>;
using Double = Binary<uint64_t, 52>;

/// One number into digits and counts that are 0.
template <class F>
void set(typename F::Bits number, int64_t* digits, int n, int width) {
  const auto magnitude = static_cast<uint64_t>(number) & ~static_cast<uint64_t>(F::kSign);
  const bool negative = number & F::kSign;
  auto& strange = reinterpret_cast<uint64_t&>(digits[n]);
  digits[n + 1] = !negative || magnitude != 0;
  if (magnitude > F::kInfinity) {
    strange = kMinus + kPlus;
  } else if (magnitude == F::kInfinity) {
    strange = negative ? kMinus : kPlus;
  } else {
    const auto exponent = static_cast<int>(magnitude >> F::kFraction);
    const int place = exponent > 0 ? exponent - 1 : 0;
    const uint64_t one = uint64_t{1} << F::kFraction;
    Wide rest = Wide{(magnitude & (one - 1)) | (exponent > 0 ? one : 0)} << place % width;
    for (int64_t* digit = digits + place / width; rest != 0; ++digit, rest >>= width) {
      const auto value = static_cast<int64_t>(static_cast<uint64_t>(rest) & ((uint64_t{1} << width) - 1));
      *digit = negative ? -value : value;
    }
  }
}

/// A whole number without sign, of digits with `width` bits.
struct Magnitude {
  std::array<uint64_t, kMostDigits + 1> digits;
  int count = 0, width = 0;
  bool negative = false;

  /// Carries, and takes the sign off.
  Magnitude(const int64_t* from, int n, int bits) : count(n + 1), width(bits) {
    const int64_t mask = (int64_t{1} << width) - 1;
    int64_t carry = 0;
    for (int i = 0; i < n; ++i) {
      const int64_t sum = from[i] + carry;
      digits[static_cast<size_t>(i)] = static_cast<uint64_t>(sum & mask);
      carry = sum >> width;
    }
    negative = carry < 0;
    digits[static_cast<size_t>(n)] = static_cast<uint64_t>(carry);
    if (negative) negate(static_cast<uint64_t>(mask));
  }

  /// The highest place that is not 0; -1: all are.
  int top() const {
    for (int i = count; i-- > 0;)
      if (const uint64_t digit = digits[static_cast<size_t>(i)]) return i * width + std::bit_width(digit) - 1;
    return -1;
  }
  /// `n` < 64 bits from a place on.
  uint64_t bits(int place, int n) const {
    auto i = static_cast<size_t>(place / width);
    uint64_t found = digits[i] >> place % width;
    for (int have = width - place % width; have < n && ++i < static_cast<size_t>(count); have += width) found |= digits[i] << have;
    return found & ((uint64_t{1} << n) - 1);
  }
  /// Is there anything below a place?
  bool any_below(int place) const {
    const auto whole = static_cast<size_t>(place / width);
    for (size_t i = 0; i < whole; ++i)
      if (digits[i]) return true;
    return digits[whole] & ((uint64_t{1} << place % width) - 1);
  }

 private:
  void negate(uint64_t mask) {
    uint64_t carry = 1;
    for (int i = 0; i + 1 < count; ++i) {
      uint64_t& digit = digits[static_cast<size_t>(i)];
      const uint64_t turned = (~digit & mask) + carry;
      digit = turned & mask;
      carry = turned >> width;
    }
    uint64_t& last = digits[static_cast<size_t>(count - 1)];
    last = ~last + carry;
  }
};

template <class F>
typename F::Bits rounded(const Magnitude& m) {
  const int top = m.top();
  if (top < 0) return 0;
  const int shift = top - F::kFraction;
  uint64_t bits;  // exponent and fraction side by side: what is rounded up beyond the fraction counts the exponent up
  if (shift <= 0) {
    bits = m.bits(0, F::kFraction + 1);
  } else {
    const uint64_t kept = m.bits(shift, F::kFraction + 1);
    const bool up = m.bits(shift - 1, 1) && (kept & 1 || m.any_below(shift - 1));
    bits = (static_cast<uint64_t>(shift) << F::kFraction) + kept + up;
  }
  return static_cast<typename F::Bits>(std::min<uint64_t>(bits, F::kInfinity));
}

template <class F>
typename F::Bits get(const int64_t* digits, int n, int width) {
  if (const auto strange = static_cast<uint64_t>(digits[n])) {
    const bool minus = static_cast<uint32_t>(strange) != 0, plus = strange >= kPlus;
    return minus && plus ? F::kNaN : static_cast<typename F::Bits>(F::kInfinity | (minus ? F::kSign : 0));
  }
  if (digits[n + 1] == 0) return F::kSign;
  const Magnitude m(digits, n, width);
  return static_cast<typename F::Bits>(rounded<F>(m) | (m.negative ? F::kSign : 0));
}

/// Types of so many words, made once.
const Datatype* words(int n) {
  constexpr int kMost = 2 * (kMostDigits + kCounts);
  using Table = std::array<const Datatype*, kMost + 1>;
  static const Table& table = *new Table([] {
    Table made{};
    for (int i = 1; i <= kMost; ++i) {
      Datatype* one = nullptr;
      type::contiguous(i, type::of(Basic::uint64), type::Form::large, one);
      one->committed = true;
      made[static_cast<size_t>(i)] = one;
    }
    return made;
  }());
  return table[static_cast<size_t>(n)];
}

}  // namespace

template <class F>
void ExactSum::widen_all(const ExactSum& sum, const void* from, void* to, uint64_t count) {
  const auto* numbers = static_cast<const typename F::Bits*>(from);
  auto* digits = static_cast<int64_t*>(to);
  const int each = sum.digits_ + kCounts;
  std::memset(digits, 0, count * static_cast<uint64_t>(each) * sizeof *digits);
  for (uint64_t i = 0; i < count; ++i, digits += each) set<F>(numbers[i], digits, sum.digits_, sum.width_);
}

template <class F>
void ExactSum::narrow_all(const ExactSum& sum, const void* from, void* to, uint64_t count) {
  auto* numbers = static_cast<typename F::Bits*>(to);
  const auto* digits = static_cast<const int64_t*>(from);
  const int each = sum.digits_ + kCounts;
  for (uint64_t i = 0; i < count; ++i, digits += each) numbers[i] = get<F>(digits, sum.digits_, sum.width_);
}

template <class F>
ExactSum ExactSum::in(uint64_t parts, uint64_t terms) {
  ExactSum sum;
  sum.parts_ = parts;
  // A digit of so many terms has to fit beside a sign; that of two terms leaves a bit for what set() shifts.
  sum.width_ = kWord - 1 - std::max(1, static_cast<int>(std::bit_width(terms - 1)));
  sum.digits_ = (F::kPlaces + sum.width_ - 1) / sum.width_;
  sum.accumulator_ = words(static_cast<int>(parts) * (sum.digits_ + kCounts));
  sum.widen_ = widen_all<F>;
  sum.narrow_ = narrow_all<F>;
  return sum;
}

std::optional<ExactSum> ExactSum::of(const Op& op, const Datatype& type, uint64_t terms) {
  if (op.id != OpId::sum || terms == 0 || terms > kMostTerms) return {};
  switch (type.basic) {
    case Basic::float16: return in<Half>(1, terms);
    case Basic::bfloat16: return in<Bfloat>(1, terms);
    case Basic::float32: return in<Single>(1, terms);
    case Basic::float64: return in<Double>(1, terms);
    case Basic::complex_float16: return in<Half>(2, terms);
    case Basic::complex_float32: return in<Single>(2, terms);
    case Basic::complex_float64: return in<Double>(2, terms);
    default: return {};
  }
}

}  // namespace weft::op
