// Sums of floating-point numbers without error, rounded once at the end.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/op/op.h"

namespace weft::op {

/// How some numbers are summed exactly (Kulisch's long accumulator): each becomes a fixed-point number as wide as the format's range, these
/// are added as whole numbers, in any order, and the sum is rounded to nearest, ties to even.
///
/// An accumulator is an array of 64-bit words, and the sum of two is the sum of their words: digits of a number in signed words, with so
/// much room above each that `terms` of them cannot overflow and nothing is carried before the end; then counts of what is no number, and
/// of what is not -0.
class ExactSum {
 public:
  static constexpr uint64_t kMostTerms = uint64_t{1} << 31;

  /// For sums (MPI_SUM) of at most `terms` elements of the type; nothing, if it is not made of 16-bit floats, float, double or complex
  /// numbers of these, or with more terms than kMostTerms.
  static std::optional<ExactSum> of(const Op&, const type::Datatype&, uint64_t terms);

  /// The type of accumulators; MPI_SUM adds them.
  const type::Datatype& accumulator() const { return *accumulator_; }
  /// One accumulator for each of `count` elements that lie one after the other.
  void widen(const void* from, void* to, uint64_t count) const { widen_(*this, from, to, count * parts_); }
  /// The elements nearest to `count` sums. As the additions of IEEE 754 have it: NaN where a NaN or infinities of both signs came in
  /// (always the same quiet NaN), an infinity where one came in or the sum is beyond the format, -0 where only -0 came in, else +0 for
  /// zero.
  void narrow(const void* from, void* to, uint64_t count) const { narrow_(*this, from, to, count * parts_); }

 private:
  template <class Format>
  static ExactSum in(uint64_t parts, uint64_t terms);
  template <class Format>
  static void widen_all(const ExactSum&, const void* from, void* to, uint64_t count);
  template <class Format>
  static void narrow_all(const ExactSum&, const void* from, void* to, uint64_t count);

  const type::Datatype* accumulator_ = nullptr;
  uint64_t parts_ = 1;  // real numbers of an element
  int width_ = 0;       // bits of a digit
  int digits_ = 0;
  void (*widen_)(const ExactSum&, const void*, void*, uint64_t) = nullptr;
  void (*narrow_)(const ExactSum&, const void*, void*, uint64_t) = nullptr;
};

}  // namespace weft::op
