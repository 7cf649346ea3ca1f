// Exact sums against Shewchuk's expansions, for all widths of digits: wild exponents, cancellation, subnormals, what is no number.
#include "runtime/op/exact.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "include/mpi.h"
#include "runtime/op/half.h"
#include "runtime/type/predefined.h"
#include "test/unit/op/sum_oracle.h"

using namespace weft;
using namespace weft::op;
using type::Basic;
using weft::test::Expansion;

namespace {

const Op& sum_op() { return *op::predefined(reinterpret_cast<uintptr_t>(MPI_SUM)); }

ExactSum exact_of(Basic basic, uint64_t terms) {
  const auto sum = ExactSum::of(sum_op(), type::of(basic), terms);
  REQUIRE(sum);
  return *sum;
}

/// Adds accumulators two by two, any two at a time.
template <class T>
T sum_in_any_order(const ExactSum& exact, std::vector<T> numbers, std::mt19937_64& random) {
  const size_t bytes = exact.accumulator().size;
  std::vector<std::vector<std::byte>> all;
  std::ranges::shuffle(numbers, random);
  for (const T& x : numbers) {
    all.emplace_back(bytes, std::byte{0xa5});  // what was there does not matter
    exact.widen(&x, all.back().data(), 1);
  }
  while (all.size() > 1) {
    std::swap(all[random() % all.size()], all.back());
    const auto one = std::move(all.back());
    all.pop_back();
    op::apply(sum_op(), exact.accumulator(), one.data(), all[random() % all.size()].data(), 1);
  }
  T result;
  exact.narrow(all[0].data(), &result, 1);
  return result;
}

/// Numbers whose exponents are anywhere in a range, many of them with one that takes them away again.
std::vector<double> wild(std::mt19937_64& random, size_t n, int least, int most) {
  std::vector<double> numbers;
  for (size_t i = 0; i < n; ++i) {
    const auto mantissa = static_cast<double>(static_cast<int64_t>(random()) >> (random() % 60));
    const int exponent = least + static_cast<int>(random() % static_cast<unsigned>(most - least));
    numbers.push_back(std::ldexp(mantissa, exponent - 63));
    if (random() % 3 == 0) numbers.push_back(-numbers[random() % numbers.size()]);
  }
  return numbers;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kMost = std::numeric_limits<double>::max(), kTiny = std::numeric_limits<double>::denorm_min();

uint64_t bits_of_sum(std::vector<double> numbers, uint64_t terms = 16) {
  std::mt19937_64 random(3);
  return std::bit_cast<uint64_t>(sum_in_any_order(exact_of(Basic::float64, terms), std::move(numbers), random));
}
uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }

}  // namespace

TEST_CASE("sums of doubles are those of the model, whatever the order and the width of digits") {
  std::mt19937_64 random(11);
  size_t rounded_otherwise = 0;
  for (int power = 1; power <= 31; ++power) {
    const uint64_t terms = uint64_t{1} << power;
    const ExactSum exact = exact_of(Basic::float64, terms);
    for (int round = 0; round < 40; ++round) {
      const int least = static_cast<int>(random() % 2000) - 1073, most = std::min(1010, least + 1 + static_cast<int>(random() % 300));
      const size_t n = 1 + random() % std::min<uint64_t>(terms, 60);
      auto numbers = wild(random, n, std::min(least, 1000), std::max(most, std::min(least, 1000) + 1));
      numbers.resize(std::min<size_t>(numbers.size(), terms));
      const uint64_t expected = test::nearest_double(Expansion(numbers));
      const double found = sum_in_any_order(exact, numbers, random);
      INFO("terms " << terms << ", " << numbers.size() << " numbers of exponents from " << least);
      REQUIRE(bits(found + 0.0) == expected);
      double plain = 0;
      for (const double x : numbers) plain += x;
      rounded_otherwise += bits(plain) != expected;
    }
  }
  CHECK(rounded_otherwise > 300);  // the data must be such that order matters
}

TEST_CASE("sums of floats are rounded once") {
  std::mt19937_64 random(12);
  size_t rounded_otherwise = 0;
  for (const uint64_t terms : {uint64_t{2}, uint64_t{3}, uint64_t{100}, ExactSum::kMostTerms}) {
    const ExactSum exact = exact_of(Basic::float32, terms);
    for (int round = 0; round < 400; ++round) {
      const int least = static_cast<int>(random() % 200) - 149;
      std::vector<float> numbers;
      for (const double x : wild(random, 1 + random() % std::min<uint64_t>(terms, 50), least, std::min(110, least + 40)))
        numbers.push_back(static_cast<float>(x));
      numbers.resize(std::min<size_t>(numbers.size(), terms));
      const std::vector<double> wide(numbers.begin(), numbers.end());
      const float found = sum_in_any_order(exact, numbers, random);
      REQUIRE(std::bit_cast<uint32_t>(found + 0.0F) == test::nearest_float(Expansion(wide)));
      float plain = 0;
      for (const float x : numbers) plain += x;
      rounded_otherwise += std::bit_cast<uint32_t>(plain) != std::bit_cast<uint32_t>(found);
    }
  }
  CHECK(rounded_otherwise > 100);
}

TEST_CASE("sums of 16-bit floats are rounded once") {
  std::mt19937_64 random(13);
  const auto check = [&](Basic basic, uint16_t infinity, float (*value)(uint16_t)) {
    const ExactSum exact = exact_of(basic, 40);
    for (int round = 0; round < 20000; ++round) {
      std::vector<uint16_t> numbers(2 + (round % 4 == 0) * random() % 38);
      Expansion model;
      for (uint16_t& x : numbers) {
        do x = static_cast<uint16_t>(random());
        while ((x & 0x7fff) >= infinity);
        model.add(value(x));
      }
      const uint64_t expected =
          test::nearest(model, infinity, 0x8000, [&](uint64_t bits) { return double{value(static_cast<uint16_t>(bits))}; });
      const uint16_t found = sum_in_any_order(exact, numbers, random);
      if ((found & 0x7fff) == 0 && expected == 0) continue;  // -0: below
      REQUIRE(found == expected);
    }
  };
  check(Basic::float16, 0x7c00, half_to_float);
  check(Basic::bfloat16, 0x7f80, bfloat_to_float);
}

TEST_CASE("what is no number, zeros and the ends of the range, as IEEE 754 adds them") {
  CHECK(bits_of_sum({1, kInfinity, -kMost}) == bits(kInfinity));
  CHECK(bits_of_sum({-kInfinity, -kInfinity, 5}) == bits(-kInfinity));
  CHECK(bits_of_sum({kInfinity, 1, -kInfinity}) == bits(kNaN));
  CHECK(bits_of_sum({-std::bit_cast<double>(bits(kNaN) | 0x1234), 1}) == bits(kNaN));
  CHECK(bits_of_sum({kNaN, kInfinity}) == bits(kNaN));
  CHECK(bits_of_sum({-0.0, -0.0, -0.0}) == bits(-0.0));
  CHECK(bits_of_sum({-0.0, 0.0}) == bits(0.0));
  CHECK(bits_of_sum({-0.0, 3, -3}) == bits(0.0));
  CHECK(bits_of_sum({-0.0}) == bits(-0.0));
  CHECK(bits_of_sum({kMost, kMost}) == bits(kInfinity));
  CHECK(bits_of_sum({-kMost, -kMost, -kMost}) == bits(-kInfinity));
  CHECK(bits_of_sum({kMost, kMost, kMost, -kMost, -kMost}) == bits(kMost));  // nothing overflows on the way
  CHECK(bits_of_sum({kMost, std::ldexp(1, 970)}) == bits(kInfinity));        // half of the last place
  CHECK(bits_of_sum({kMost, std::ldexp(1, 970), -kTiny}) == bits(kMost));    // a little less
  CHECK(bits_of_sum({kTiny, kTiny, kTiny}) == bits(3 * kTiny));
  CHECK(bits_of_sum({-kTiny, std::numeric_limits<double>::min()}) == bits(std::numeric_limits<double>::min() - kTiny));
  CHECK(bits_of_sum({1, std::ldexp(1, -53)}) == bits(1));                              // a tie: to even
  CHECK(bits_of_sum({1, std::ldexp(1, -53), kTiny}) == bits(1 + std::ldexp(1, -52)));  // none
  CHECK(bits_of_sum({1, std::ldexp(3, -53)}) == bits(1 + std::ldexp(1, -51)));         // a tie: to even, upwards
  CHECK(bits_of_sum({1e300, 1, -1e300}) == bits(1));
}

TEST_CASE("as many terms as there may be do not overflow") {
  const ExactSum exact = exact_of(Basic::float64, ExactSum::kMostTerms);
  for (const double x : {std::nextafter(2.0, 0.0), -std::nextafter(std::ldexp(1, 40), 0.0), -3 * kTiny, kMost}) {
    std::vector<std::byte> one(exact.accumulator().size), other(one.size());
    exact.widen(&x, one.data(), 1);
    for (int i = 0; i < 31; ++i) {
      other = one;
      op::apply(sum_op(), exact.accumulator(), other.data(), one.data(), 1);
    }
    double found = 0;
    exact.narrow(one.data(), &found, 1);
    CHECK(bits(found) == bits(x * std::ldexp(1, 31)));
  }
}

TEST_CASE("which sums can be exact") {
  const Op& product = *op::predefined(reinterpret_cast<uintptr_t>(MPI_PROD));
  CHECK(!ExactSum::of(product, type::of(Basic::float64), 2));
  for (const Basic basic : {Basic::int32, Basic::long_double, Basic::float128, Basic::float_int})
    CHECK(!ExactSum::of(sum_op(), type::of(basic), 2));
  CHECK(!ExactSum::of(sum_op(), type::of(Basic::float64), ExactSum::kMostTerms + 1));
  CHECK(!ExactSum::of(sum_op(), type::of(Basic::float64), 0));
  CHECK(ExactSum::of(sum_op(), type::of(Basic::float64), 1));
}

TEST_CASE("complex numbers are two numbers each") {
  const ExactSum exact = exact_of(Basic::complex_float64, 3);
  const double numbers[3][2] = {{1e100, 1}, {1, 1e-30}, {-1e100, -1}};
  std::vector<std::byte> all(exact.accumulator().size), one(all.size());
  exact.widen(numbers[0], all.data(), 1);
  for (int i = 1; i < 3; ++i) {
    exact.widen(numbers[i], one.data(), 1);
    op::apply(sum_op(), exact.accumulator(), one.data(), all.data(), 1);
  }
  double found[2];
  exact.narrow(all.data(), found, 1);
  CHECK(found[0] == 1);
  CHECK(found[1] == 1e-30);
}
