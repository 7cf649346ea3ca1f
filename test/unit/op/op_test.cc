// Each operation on each type against a scalar model.
#include "runtime/op/op.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "include/mpi.h"
#include "runtime/op/half.h"
#include "runtime/op/kernels.h"
#include "runtime/type/construct.h"
#include "runtime/type/predefined.h"

using namespace weft;
using namespace weft::op;
using type::Basic;
using type::Datatype;

namespace {

Datatype& of_handle(MPI_Datatype handle) { return *type::predefined(reinterpret_cast<uintptr_t>(handle)); }
Op& op_of(MPI_Op handle) { return *op::predefined(reinterpret_cast<uintptr_t>(handle)); }

constexpr size_t kLengths[] = {0, 1, 7, 64, 1003};

/// Checks the kernels of one pair, blocking and in place, at unaligned places too.
template <class T, class Value, class F>
void check(MPI_Op op, MPI_Datatype handle, Value value, F f) {
  Datatype& type = of_handle(handle);
  INFO(type.name << " op " << reinterpret_cast<uintptr_t>(op));
  REQUIRE(valid(op_of(op), type));
  REQUIRE(type.extent == sizeof(T));
  std::mt19937 random(17);
  for (size_t n : kLengths) {
    std::vector<T> a(n + 1), b(n + 1), out(n + 1), expected(n + 1);
    for (size_t i = 0; i <= n; ++i) a[i] = value(random), b[i] = value(random), expected[i] = f(a[i], b[i]);
    const size_t first = n > 1;  // not aligned to vectors
    apply3(op_of(op), type, a.data() + first, b.data() + first, out.data() + first, n);
    apply(op_of(op), type, a.data() + first, b.data() + first, n);
    size_t wrong = 0;
    for (size_t i = first; i < first + n; ++i) wrong += !(out[i] == expected[i]) + !(b[i] == expected[i]);
    REQUIRE(wrong == 0);
  }
}

template <class T>
void integers(std::vector<MPI_Datatype> handles) {
  auto any = [](std::mt19937& r) {
    const int64_t v = static_cast<int64_t>(uint64_t{r()} << 32 | r()) >> (r() % 64);
    return static_cast<T>(r() % 4 ? v : 0);
  };
  using U = unsigned __int128;
  for (MPI_Datatype h : handles) {
    check<T>(MPI_SUM, h, any, [](T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); });
    check<T>(MPI_PROD, h, any, [](T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); });
    check<T>(MPI_MIN, h, any, [](T a, T b) { return a < b ? a : b; });
    check<T>(MPI_MAX, h, any, [](T a, T b) { return a > b ? a : b; });
    check<T>(MPI_BAND, h, any, [](T a, T b) { return static_cast<T>(a & b); });
    check<T>(MPI_BOR, h, any, [](T a, T b) { return static_cast<T>(a | b); });
    check<T>(MPI_BXOR, h, any, [](T a, T b) { return static_cast<T>(a ^ b); });
    if (!valid(op_of(MPI_LAND), of_handle(h))) continue;  // Fortran's: see pairs_test.cc
    check<T>(MPI_LAND, h, any, [](T a, T b) { return static_cast<T>(a && b); });
    check<T>(MPI_LOR, h, any, [](T a, T b) { return static_cast<T>(a || b); });
    check<T>(MPI_LXOR, h, any, [](T a, T b) { return static_cast<T>(!a != !b); });
  }
}

template <class T>
void reals(std::vector<MPI_Datatype> handles) {
  auto any = [](std::mt19937& r) { return static_cast<T>(static_cast<int32_t>(r())) / static_cast<T>(1024); };
  for (MPI_Datatype h : handles) {
    check<T>(MPI_SUM, h, any, [](T a, T b) { return a + b; });
    check<T>(MPI_PROD, h, any, [](T a, T b) { return a * b; });
    check<T>(MPI_MIN, h, any, [](T a, T b) { return a < b ? a : b; });
    check<T>(MPI_MAX, h, any, [](T a, T b) { return a > b ? a : b; });
    CHECK_FALSE(valid(op_of(MPI_BAND), of_handle(h)));
    CHECK_FALSE(valid(op_of(MPI_LAND), of_handle(h)));
  }
}

template <class T>
struct Pairwise {
  T re, im;
  bool operator==(const Pairwise& o) const { return re == o.re && im == o.im; }
};

template <class T>
void complexes(std::vector<MPI_Datatype> handles) {
  auto any = [](std::mt19937& r) {
    auto one = [&] { return static_cast<T>(static_cast<int>(r() % 2000) - 1000); };  // exact, so that contraction does not matter
    return Pairwise<T>{one(), one()};
  };
  using C = Pairwise<T>;
  for (MPI_Datatype h : handles) {
    check<C>(MPI_SUM, h, any, [](C a, C b) { return C{a.re + b.re, a.im + b.im}; });
    check<C>(MPI_PROD, h, any, [](C a, C b) { return C{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; });
    CHECK_FALSE(valid(op_of(MPI_MAX), of_handle(h)));
  }
}

template <class T>
void truths(std::vector<MPI_Datatype> handles) {
  auto any = [](std::mt19937& r) { return static_cast<T>(r() % 2); };
  for (MPI_Datatype h : handles) {
    check<T>(MPI_LAND, h, any, [](T a, T b) { return static_cast<T>(a && b); });
    check<T>(MPI_LOR, h, any, [](T a, T b) { return static_cast<T>(a || b); });
    check<T>(MPI_LXOR, h, any, [](T a, T b) { return static_cast<T>(!a != !b); });
    CHECK_FALSE(valid(op_of(MPI_SUM), of_handle(h)));
  }
}

template <class V, class I>
struct Located {
  V value;
  I index;
  bool operator==(const Located& o) const { return value == o.value && index == o.index; }
};

template <class V, class I>
void located(std::vector<MPI_Datatype> handles) {
  using P = Located<V, I>;
  auto any = [](std::mt19937& r) { return P{static_cast<V>(r() % 5), static_cast<I>(r() % 100)}; };
  for (MPI_Datatype h : handles) {
    auto lower = [](P a, P b) { return a.index < b.index ? a : b; };
    check<P>(MPI_MINLOC, h, any, [&](P a, P b) { return a.value < b.value ? a : b.value < a.value ? b : lower(a, b); });
    check<P>(MPI_MAXLOC, h, any, [&](P a, P b) { return a.value > b.value ? a : b.value > a.value ? b : lower(a, b); });
    CHECK_FALSE(valid(op_of(MPI_SUM), of_handle(h)));
  }
}

}  // namespace

TEST_CASE("operations on integers") {
  integers<int8_t>({MPI_INT8_T, MPI_SIGNED_CHAR, MPI_INTEGER1});
  integers<uint8_t>({MPI_UINT8_T, MPI_UNSIGNED_CHAR});
  integers<int16_t>({MPI_SHORT, MPI_INT16_T, MPI_INTEGER2});
  integers<uint16_t>({MPI_UNSIGNED_SHORT, MPI_UINT16_T});
  integers<int32_t>({MPI_INT, MPI_INT32_T, MPI_INTEGER, MPI_INTEGER4});
  integers<uint32_t>({MPI_UNSIGNED, MPI_UINT32_T});
  integers<int64_t>({MPI_LONG, MPI_LONG_LONG, MPI_INT64_T, MPI_AINT, MPI_COUNT, MPI_OFFSET, MPI_INTEGER8});
  integers<uint64_t>({MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT64_T});
  integers<__int128>({MPI_INTEGER16});
}

TEST_CASE("operations on floating-point numbers") {
  reals<float>({MPI_FLOAT, MPI_REAL, MPI_REAL4});
  reals<double>({MPI_DOUBLE, MPI_DOUBLE_PRECISION, MPI_REAL8});
  reals<long double>({MPI_LONG_DOUBLE});
  reals<__float128>({MPI_REAL16});
  complexes<float>({MPI_C_FLOAT_COMPLEX, MPI_CXX_FLOAT_COMPLEX, MPI_COMPLEX, MPI_COMPLEX8});
  complexes<double>({MPI_C_DOUBLE_COMPLEX, MPI_CXX_DOUBLE_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_COMPLEX16});
  complexes<long double>({MPI_C_LONG_DOUBLE_COMPLEX, MPI_CXX_LONG_DOUBLE_COMPLEX});
  complexes<__float128>({MPI_COMPLEX32});
}

TEST_CASE("operations on truth values, bytes and pairs") {
  truths<uint8_t>({MPI_C_BOOL, MPI_CXX_BOOL, MPI_LOGICAL1});
  truths<uint16_t>({MPI_LOGICAL2});
  truths<uint32_t>({MPI_LOGICAL, MPI_LOGICAL4});
  truths<uint64_t>({MPI_LOGICAL8});
  truths<unsigned __int128>({MPI_LOGICAL16});
  auto any = [](std::mt19937& r) { return static_cast<uint8_t>(r()); };
  check<uint8_t>(MPI_BXOR, MPI_BYTE, any, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a ^ b); });
  CHECK_FALSE(valid(op_of(MPI_SUM), of_handle(MPI_BYTE)));
  CHECK_FALSE(valid(op_of(MPI_SUM), of_handle(MPI_PACKED)));
  located<float, int>({MPI_FLOAT_INT});
  located<double, int>({MPI_DOUBLE_INT});
  located<long, int>({MPI_LONG_INT});
  located<int, int>({MPI_2INT, MPI_2INTEGER});
  located<short, int>({MPI_SHORT_INT});
  located<long double, int>({MPI_LONG_DOUBLE_INT});
  located<float, float>({MPI_2REAL});
  located<double, double>({MPI_2DOUBLE_PRECISION});
}

TEST_CASE("16-bit floats are computed in float and rounded once") {
  struct Format {
    uintptr_t handle;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
  };
  const Format formats[] = {{type::kFloat16Handle, half_to_float, float_to_half},
                            {reinterpret_cast<uintptr_t>(MPI_REAL2), half_to_float, float_to_half},
                            {type::kBfloat16Handle, bfloat_to_float, float_to_bfloat}};
  for (const Format& format : formats) {
    auto handle = reinterpret_cast<MPI_Datatype>(format.handle);
    auto any = [](std::mt19937& r) {  // anything but infinities and NaN, subnormals among them
      for (;;)
        if (const auto bits = static_cast<uint16_t>(r() & 0xbbff); (bits & 0x7f80) != 0x7f80) return bits;
    };
    auto on = [&](auto f) { return [&format, f](uint16_t a, uint16_t b) { return format.narrow(f(format.widen(a), format.widen(b))); }; };
    check<uint16_t>(MPI_SUM, handle, any, on([](float a, float b) { return a + b; }));
    check<uint16_t>(MPI_PROD, handle, any, on([](float a, float b) { return a * b; }));
    const auto less = [&](uint16_t a, uint16_t b) {
      const float x = format.widen(a), y = format.widen(b);
      return x < y || (x == y && std::signbit(x) && !std::signbit(y));
    };
    check<uint16_t>(MPI_MIN, handle, any, [&](uint16_t a, uint16_t b) { return less(b, a) ? b : a; });
    check<uint16_t>(MPI_MAX, handle, any, [&](uint16_t a, uint16_t b) { return less(a, b) ? b : a; });
  }
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto h = static_cast<uint16_t>(bits);
    if ((h & 0x7c00) == 0x7c00 && (h & 0x3ff)) continue;
    if (float_to_half(half_to_float(h)) != h) FAIL("binary16 " << bits);
  }
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto b = static_cast<uint16_t>(bits);
    if ((b & 0x7f80) == 0x7f80 && (b & 0x7f)) continue;
    if (float_to_bfloat(bfloat_to_float(b)) != b) FAIL("bfloat16 " << bits);
  }
  CHECK(float_to_half(65520.0f) == 0x7c00);
  CHECK(float_to_half(65519.0f) == 0x7bff);
  CHECK(float_to_half(0x1p-25f) == 0);    // a tie, to even
  CHECK(float_to_half(0x1.8p-24f) == 2);  // a tie, to even
  CHECK(float_to_half(1.0f + 0x1p-11f) == 0x3c00);
  CHECK(float_to_half(1.0f + 0x1.8p-10f) == 0x3c02);
}

namespace {

/// The tables that this machine can run, the one for all machines first.
std::vector<const KernelTable*> runnable() {
  std::vector<const KernelTable*> tables = {&kernels_base()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) tables.push_back(&kernels_avx2());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    tables.push_back(&kernels_avx512());
#endif
  return tables;
}

/// What each table makes of pairs with many equal values, NaN among them where there is one, equal to what the first one makes.
template <class V, class I>
void same_pairs(Basic basic) {
  using P = Located<V, I>;
  const auto tables = runnable();
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    std::vector<P> in(random() % 300), inout(in.size());
    for (auto* side : {&in, &inout})
      for (P& p : *side) {
        p = {static_cast<V>(static_cast<int>(random() % 5) - 2), static_cast<I>(static_cast<int>(random() % 9) - 4)};
        if (std::numeric_limits<V>::has_quiet_NaN && random() % 8 == 0) p.value = std::numeric_limits<V>::quiet_NaN();
      }
    for (const OpId op : {OpId::minloc, OpId::maxloc})
      for (size_t t = 1; t < tables.size(); ++t) {
        const auto pair = [&](const KernelTable& table) { return table.at[static_cast<unsigned>(op)][static_cast<unsigned>(basic)]; };
        auto expected = inout, got = inout, apart = inout;
        pair(*tables[0]).two(in.data(), expected.data(), in.size());
        pair(*tables[t]).two(in.data(), got.data(), in.size());
        pair(*tables[t]).three(in.data(), inout.data(), apart.data(), in.size());
        INFO("basic type " << static_cast<unsigned>(basic) << ", table " << t << ", seed " << seed);
        bool same = true;
        for (size_t i = 0; i < in.size(); ++i)
          for (const P& p : {got[i], apart[i]})
            same &= memcmp(&p.value, &expected[i].value, sizeof(V)) == 0 && memcmp(&p.index, &expected[i].index, sizeof(I)) == 0;
        CHECK(same);
      }
  }
}

}  // namespace

TEST_CASE("every instruction set finds the same pairs") {
  same_pairs<float, int>(Basic::float_int);
  same_pairs<double, int>(Basic::double_int);
  same_pairs<long, int>(Basic::long_int);
  same_pairs<int, int>(Basic::two_int);
  same_pairs<float, float>(Basic::two_float);
  same_pairs<double, double>(Basic::two_double);
}

namespace {

/// Room for `bytes` at a place that is aligned to `alignment` and to nothing more, and guards around it.
struct Place {
  static constexpr size_t kGuard = 64;
  std::vector<std::byte> memory;
  std::byte* at;
  Place(size_t bytes, size_t alignment, std::mt19937& random) : memory(bytes + 3 * kGuard, std::byte{0x5a}) {
    const auto begin = reinterpret_cast<uintptr_t>(memory.data()) + kGuard;
    at = memory.data() + kGuard + (-begin % kGuard + random() % (kGuard / alignment) * alignment) % kGuard;
  }
  bool guards_whole(size_t bytes) const {
    const auto whole = [](const std::byte* from, const std::byte* to) {
      return std::all_of(from, to, [](std::byte b) { return b == std::byte{0x5a}; });
    };
    return whole(memory.data(), at) && whole(at + bytes, memory.data() + memory.size());
  }
};

/// What a kernel makes at places of any alignment, in place on either side and apart, is `expected`.
void check_places(const KernelPair& kernels, size_t alignment, uint64_t n, const std::vector<std::byte>& a, const std::vector<std::byte>& b,
                  const std::vector<std::byte>& expected, std::mt19937& random) {
  const size_t bytes = expected.size();
  const auto filled = [&](const std::vector<std::byte>& with) {
    Place place(bytes, alignment, random);
    for (size_t i = 0; i < bytes; ++i) place.at[i] = with[i];
    return place;
  };
  const auto right = [&](const Place& place) {
    return std::equal(expected.begin(), expected.end(), place.at) && place.guards_whole(bytes);
  };
  Place left = filled(a), in = filled(a), inout = filled(b), out = filled(a);
  const Place second = filled(b);
  kernels.three(left.at, second.at, out.at, n);
  CHECK(right(out));
  kernels.three(left.at, second.at, left.at, n);
  CHECK(right(left));
  kernels.two(in.at, inout.at, n);
  CHECK(right(inout));
  CHECK(std::equal(in.at, in.at + bytes, a.begin()));
  CHECK((in.guards_whole(bytes) && second.guards_whole(bytes)));
}

/// Not in pairs with a gap, nor in long double.
bool all_bytes_mean_something(unsigned op, Basic basic) {
  return op != static_cast<unsigned>(OpId::minloc) && op != static_cast<unsigned>(OpId::maxloc) && basic != Basic::long_double &&
         basic != Basic::complex_long_double;
}

}  // namespace

TEST_CASE("every instruction set computes the same bits") {
  const unsigned seed = getenv("WEFT_TEST_SEED") ? static_cast<unsigned>(atoi(getenv("WEFT_TEST_SEED"))) : std::random_device()();
  std::mt19937 random(seed);
  std::vector<std::byte> a(1 << 13), b(1 << 13);
  for (auto* side : {&a, &b})
    for (size_t i = 0; i < side->size(); i += 4) {
      const auto word = static_cast<uint32_t>((random() & 0x87ffbbff) | 0x38000000);  // finite as float, double and halves alike
      memcpy(&(*side)[i], &word, 4);
    }
  const auto tables = runnable();
  for (unsigned op = 0; op < kOps; ++op)
    for (unsigned basic = 0; basic < kBasics; ++basic) {
      if (!tables[0]->at[op][basic].two || !all_bytes_mean_something(op, static_cast<Basic>(basic))) continue;
      const auto extent = static_cast<size_t>(type::of(static_cast<Basic>(basic)).extent);
      for (int round = 0; round < 6; ++round) {
        const uint64_t n = random() % ((round % 2 ? 1024 : a.size()) / extent + 1);
        std::vector<std::byte> expected(b.begin(), b.begin() + static_cast<long>(n * extent));
        for (uint64_t i = 0; i < n; ++i) tables[0]->at[op][basic].two(&a[i * extent], &expected[i * extent], 1);
        for (size_t t = 0; t < tables.size(); ++t) {
          if (!tables[t]->at[op][basic].two) continue;
          INFO("operation " << op << ", basic type " << basic << ", table " << t << ", " << n << " elements, seed " << seed);
          check_places(tables[t]->at[op][basic], std::min<size_t>(extent, 16), n, a, b, expected, random);
        }
      }
    }
}

TEST_CASE("every instruction set computes the same 16-bit floats") {
  std::vector<uint16_t> a(0x10000), b(0x10000);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint16_t>(i);
  std::mt19937 random(3);
  const auto tables = runnable();
  for (const Basic basic : {Basic::float16, Basic::bfloat16})
    for (const OpId op : {OpId::sum, OpId::prod, OpId::min, OpId::max})
      for (int round = 0; round < 4; ++round) {
        const auto pair = [&](size_t t) { return tables[t]->at[static_cast<unsigned>(op)][static_cast<unsigned>(basic)]; };
        const auto one = static_cast<uint16_t>(random());
        for (uint16_t& bits : b) bits = round ? static_cast<uint16_t>(random()) : one;
        auto expected = b;
        pair(0).two(a.data(), expected.data(), a.size());
        const auto not_a_number = [&](uint16_t bits) { return (bits & 0x7fff) > (basic == Basic::float16 ? 0x7c00 : 0x7f80); };
        for (size_t t = 1; t < tables.size(); ++t) {
          auto got = b;
          pair(t).two(a.data(), got.data(), a.size());
          size_t wrong = 0;  // which NaN comes of two is left to the processor
          for (size_t i = 0; i < a.size(); ++i) wrong += got[i] != expected[i] && !(not_a_number(got[i]) && not_a_number(expected[i]));
          INFO("operation " << static_cast<unsigned>(op) << ", basic type " << static_cast<unsigned>(basic) << ", table " << t);
          CHECK(wrong == 0);
        }
      }
}

TEST_CASE("logical operations give what Fortran's compiler writes for true") {
  std::mt19937 random(11);
  for (const int32_t yes : {-1, 0x01010101, 1}) {
    set_fortran_truth(4, &yes);
    for (const size_t n : {size_t{1}, size_t{100}, size_t{1024}, size_t{5000}}) {
      std::vector<int32_t> a(n), b(n);
      for (auto* side : {&a, &b})
        for (int32_t& v : *side) v = random() % 2 ? yes : 0;
      auto expected = b, apart = b;
      for (size_t i = 0; i < n; ++i) expected[i] = !a[i] != !b[i] ? yes : 0;
      apply3(op_of(MPI_LXOR), of_handle(MPI_LOGICAL), a.data(), b.data(), apart.data(), n);
      apply(op_of(MPI_LXOR), of_handle(MPI_LOGICAL), a.data(), b.data(), n);
      CHECK((b == expected && apart == expected));
    }
  }
}

namespace {
uint64_t calls, elements;
MPI_Datatype seen;
void user(void* in, void* inout, int* n, MPI_Datatype* type) {
  ++calls, elements += static_cast<uint64_t>(*n), seen = *type;
  for (int i = 0; i < *n && i < 4; ++i) static_cast<int*>(inout)[i] = 2 * static_cast<int*>(in)[i] + static_cast<int*>(inout)[i];
}
void user_zero(void*, void*, int* n, MPI_Datatype*) { ++calls, elements += static_cast<uint64_t>(*n); }
void user_large(void*, void*, MPI_Count* n, MPI_Datatype*) { ++calls, elements += static_cast<uint64_t>(*n); }
}  // namespace

TEST_CASE("user operations") {
  Op* mine = create(reinterpret_cast<void*>(user), false, false);
  int a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, out[3];
  calls = elements = 0;
  apply(*mine, of_handle(MPI_INT), a, b, 3);
  CHECK((b[0] == 12 && b[1] == 24 && b[2] == 36));
  CHECK((calls == 1 && seen == MPI_INT));
  apply3(*mine, of_handle(MPI_INT), a, b, out, 3);
  CHECK((out[0] == 14 && b[0] == 12));
  Datatype* derived = nullptr;
  REQUIRE(type::contiguous(1, of_handle(MPI_INT), type::Form::small, derived) == MPI_SUCCESS);
  apply(*mine, *derived, a, b, 1);
  CHECK(seen == static_cast<MPI_Datatype>(handle_of(*derived)));
  release(derived);
  release(mine);
  // more than an int can count: elements without size, so that no memory is needed
  Datatype* nothing = nullptr;
  REQUIRE(type::resized(of_handle(MPI_BYTE), 0, 0, type::Form::small, nothing) == MPI_SUCCESS);
  for (bool large : {false, true}) {
    Op* counting = create(large ? reinterpret_cast<void*>(user_large) : reinterpret_cast<void*>(user_zero), true, large);
    calls = elements = 0;
    apply(*counting, *nothing, a, b, uint64_t{5} << 31);
    CHECK(elements == uint64_t{5} << 31);
    CHECK(calls == (large ? 1 : 6));
    release(counting);
  }
  release(nothing);
}

TEST_CASE("replacement, nothing, and derived types as in accumulation") {
  int a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40};
  apply(op_of(MPI_NO_OP), of_handle(MPI_INT), a, b, 4);
  CHECK(b[0] == 10);
  Datatype* strided = nullptr;
  REQUIRE(type::vector(2, 1, 2, of_handle(MPI_INT), type::Form::small, strided) == MPI_SUCCESS);
  CHECK_FALSE(valid(op_of(MPI_SUM), *strided));
  CHECK(valid_for_accumulate(op_of(MPI_SUM), *strided));
  apply(op_of(MPI_SUM), *strided, a, b, 1);
  CHECK((b[0] == 11 && b[1] == 20 && b[2] == 33 && b[3] == 40));
  apply(op_of(MPI_REPLACE), *strided, a, b, 1);
  CHECK((b[0] == 1 && b[1] == 20 && b[2] == 3));
  CHECK_FALSE(valid(op_of(MPI_REPLACE), of_handle(MPI_INT)));
  CHECK(op::predefined(32) == nullptr);
  CHECK(op::predefined(0) == nullptr);
  release(strided);
}
