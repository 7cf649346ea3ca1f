// What constructors remember and refuse, and types that are too big to touch or too odd to be kind to.
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/type/cursor.h"
#include "runtime/type/layout.h"
#include "test/unit/type/model.h"

using namespace weft;
using namespace weft::type;
using weft::test::Ref;

namespace {

Datatype& of_handle(MPI_Datatype handle) { return *predefined(reinterpret_cast<uintptr_t>(handle)); }

template <class Make>
Ref made(Make make) {
  Datatype* type = nullptr;
  REQUIRE(make(type) == MPI_SUCCESS);
  return Ref(type);
}
Ref contiguous_of(int64_t n, Datatype& old) {
  return made([&](Datatype*& t) { return contiguous(n, old, Form::small, t); });
}
Ref structure_of(std::vector<int64_t> lengths, std::vector<int64_t> at, std::vector<Datatype*> types) {
  return made([&](Datatype*& t) { return structure(lengths, at, types, Form::small, t); });
}

}  // namespace

TEST_CASE("predefined types have the sizes of C and gfortran") {
  CHECK(of_handle(MPI_INT).size == sizeof(int));
  CHECK(of_handle(MPI_LONG_DOUBLE).extent == sizeof(long double));
  CHECK(of_handle(MPI_COMPLEX32).size == 32);
  CHECK(of_handle(MPI_LOGICAL).size == 4);
  struct LongDoubleInt {
    long double v;
    int i;
  };
  struct ShortInt {
    short v;
    int i;
  };
  CHECK(of_handle(MPI_LONG_DOUBLE_INT).extent == sizeof(LongDoubleInt));
  CHECK(of_handle(MPI_LONG_DOUBLE_INT).size == sizeof(long double) + sizeof(int));
  CHECK(of_handle(MPI_SHORT_INT).extent == sizeof(ShortInt));
  CHECK(of_handle(MPI_SHORT_INT).size == 6);
  CHECK(of_handle(MPI_2INT).contiguous);
  CHECK_FALSE(of_handle(MPI_DOUBLE_INT).contiguous);
  CHECK(predefined(512) == nullptr);
  CHECK(predefined(0) == nullptr);
  CHECK(predefined(kBfloat16Handle)->size == 2);
  CHECK(predefined(kBfloat16Handle + 1) == nullptr);
  CHECK(of(Basic::int32).name == "MPI_INT");
}

TEST_CASE("layouts are normalised") {
  Datatype& real = of_handle(MPI_DOUBLE);
  const Ref row = contiguous_of(10, real);
  const Ref rows = made([&](Datatype*& t) { return vector(5, 1, 1, *row, Form::small, t); });
  CHECK(rows->contiguous);
  CHECK(rows->layout->is_block());
  const Ref columns = made([&](Datatype*& t) { return vector(6, 2, 4, real, Form::small, t); });
  CHECK(columns->layout->shape == Layout::Shape::loop);
  std::vector<int64_t> at = {0, 32, 64, 96}, lengths = {2, 2, 2, 2};
  const Ref even = made([&](Datatype*& t) { return hindexed(lengths, at, real, Form::small, t); });
  CHECK(even->layout->shape == Layout::Shape::loop);
  CHECK(even->layout->stride == 32);
  const Ref joined = structure_of({1, 2, 1}, {0, 8, 24}, {&real, &real, &real});
  CHECK(joined->contiguous);
  std::vector<int64_t> whole = {4, 6}, part = {4, 6}, start = {0, 0};
  const Ref all = made([&](Datatype*& t) { return subarray(whole, part, start, MPI_ORDER_C, real, Form::small, t); });
  CHECK(all->contiguous);
}

TEST_CASE("envelopes keep the arguments") {
  Datatype& real = of_handle(MPI_DOUBLE);
  std::vector<int64_t> lengths = {1, 2}, at = {0, 100};
  for (Form form : {Form::small, Form::large}) {
    const Ref type = made([&](Datatype*& t) { return hindexed(lengths, at, real, form, t); });
    const Envelope& e = *type->envelope;
    CHECK(e.combiner == MPI_COMBINER_HINDEXED);
    CHECK(e.types == std::vector<Datatype*>{&real});
    if (form == Form::small) {
      CHECK(e.integers == std::vector<int>{2, 1, 2});
      CHECK(e.addresses == at);
      CHECK(e.counts.empty());
    } else {
      CHECK(e.integers.empty());
      CHECK(e.counts == std::vector<int64_t>{2, 1, 2, 0, 100});
    }
  }
  std::vector<int64_t> sizes = {4, 6}, part = {2, 3}, start = {1, 2};
  const Ref small = made([&](Datatype*& t) { return subarray(sizes, part, start, MPI_ORDER_C, real, Form::small, t); });
  CHECK(small->envelope->integers == std::vector<int>{2, 4, 6, 2, 3, 1, 2, MPI_ORDER_C});
  const Ref large = made([&](Datatype*& t) { return subarray(sizes, part, start, MPI_ORDER_C, real, Form::large, t); });
  CHECK(large->envelope->integers == std::vector<int>{2, MPI_ORDER_C});
  CHECK(large->envelope->counts == std::vector<int64_t>{4, 6, 2, 3, 1, 2});
}

TEST_CASE("parts of a type outlive their handles") {
  Datatype* inner = nullptr;
  REQUIRE(contiguous(3, of_handle(MPI_INT), Form::small, inner) == MPI_SUCCESS);
  const Ref outer = made([&](Datatype*& t) { return vector(2, 1, 2, *inner, Form::small, t); });
  inner->user_freed = true;
  release(inner);
  const Ref again(handed_out(*outer->envelope->types[0]));
  CHECK_FALSE(again->user_freed);
  CHECK(again->size == 12);
  CHECK(again->envelope->combiner == MPI_COMBINER_CONTIGUOUS);
}

TEST_CASE("structures are padded like the compiler's, marked bounds are not") {
  struct Padded {
    double d;
    char c;
  };
  Datatype &real = of_handle(MPI_DOUBLE), &letter = of_handle(MPI_CHAR);
  const Ref padded = structure_of({1, 1}, {0, offsetof(Padded, c)}, {&real, &letter});
  CHECK(padded->extent == sizeof(Padded));
  const Ref tight = made([&](Datatype*& t) { return resized(*padded, 0, 9, Form::small, t); });
  const Ref nested = structure_of({1, 1}, {0, 9}, {&*tight, &letter});
  CHECK(nested->extent == 9);  // the mark of the inner type counts before the data behind it
  const Ref negative = made([&](Datatype*& t) { return resized(real, 8, -16, Form::small, t); });
  CHECK(negative->lower == 8);
  CHECK(negative->extent == -16);
}

TEST_CASE("huge types without touching memory") {
  Datatype& byte = of_handle(MPI_BYTE);
  const int64_t big = int64_t{1} << 40;
  const Ref strided = made([&](Datatype*& t) { return vector(big, 1, 2, byte, Form::large, t); });
  CHECK(strided->size == static_cast<uint64_t>(big));
  CHECK(strided->extent == 2 * big - 1);
  Cursor cursor(reinterpret_cast<void*>(uintptr_t{1} << 44), 2, *strided);
  CHECK(cursor.total() == 2 * static_cast<uint64_t>(big));
  cursor.seek(static_cast<uint64_t>(big) + 5);
  iovec run;
  CHECK(cursor.runs({&run, 1}, 100) == 1);
  CHECK(reinterpret_cast<uintptr_t>(run.iov_base) == (uintptr_t{1} << 44) + static_cast<uintptr_t>(2 * big - 1 + 10));
  CHECK(elements_in(*strided, static_cast<uint64_t>(big) + 3) == big + 3);
  Datatype* none = nullptr;
  CHECK(contiguous(int64_t{1} << 60, of_handle(MPI_DOUBLE), Form::large, none) == MPI_ERR_VALUE_TOO_LARGE);
  CHECK(vector(1 << 20, 1, int64_t{1} << 45, byte, Form::large, none) == MPI_ERR_VALUE_TOO_LARGE);
  std::vector<int64_t> one = {1}, far = {std::numeric_limits<int64_t>::max()};
  CHECK(indexed(one, far, of_handle(MPI_DOUBLE), Form::large, none) == MPI_ERR_VALUE_TOO_LARGE);
  CHECK(hindexed(one, far, byte, Form::large, none) == MPI_ERR_VALUE_TOO_LARGE);
  CHECK(resized(byte, far[0], far[0], Form::large, none) == MPI_ERR_VALUE_TOO_LARGE);
  Ref nested = contiguous_of(2, byte);
  int depth = 1;
  for (Datatype* next = nullptr; vector(2, 1, 2, *nested, Form::large, next) == MPI_SUCCESS; ++depth) nested = Ref(next);
  CHECK(depth > 30);
  CHECK(depth < 64);
  CHECK_FALSE(last_failure().empty());
}

TEST_CASE("deep nests do not use the stack up, nor the memory") {
  Datatype& byte = of_handle(MPI_BYTE);
  Ref type = contiguous_of(1, byte);
  for (int i = 0; i < 20000; ++i) {  // one more byte, two apart, at each level
    const auto end = static_cast<int64_t>(i) * 2 + 2;
    if (i % 2000) {
      type = made([&](Datatype*& t) { return duplicate(*type, t); });
    } else {
      type = structure_of({1, 1}, {0, end}, {&*type, &byte});
    }
  }
  CHECK(type->size == 11);
  type = contiguous_of(1, byte);
  for (int i = 0; i < 3000; ++i)  // irregular, so that nothing can be fused
    type = structure_of({1, 1}, {0, static_cast<int64_t>(i) * 3 + 2 + i % 2}, {&*type, &byte});
  CHECK(type->size == 3001);
  CHECK(type->layout->depth <= kMaxDepth);
  std::vector<std::byte> memory(static_cast<size_t>(type->true_extent), std::byte{1}), packed(type->size);
  pack(*type, 1, memory.data(), packed.data());
  CHECK(std::count(packed.begin(), packed.end(), std::byte{1}) == 3001);
}

TEST_CASE("bad arguments are refused") {
  Datatype& real = of_handle(MPI_DOUBLE);
  Datatype* none = nullptr;
  std::vector<int64_t> negative = {1, -1}, at = {0, 8}, sizes = {4}, part = {3}, start = {2};
  CHECK(contiguous(-1, real, Form::small, none) == MPI_ERR_COUNT);
  CHECK(vector(1, -1, 1, real, Form::small, none) == MPI_ERR_ARG);
  CHECK(indexed(negative, at, real, Form::small, none) == MPI_ERR_ARG);
  CHECK(subarray(sizes, part, start, MPI_ORDER_C, real, Form::small, none) == MPI_ERR_ARG);
  CHECK(subarray(sizes, part, at, 99, real, Form::small, none) == MPI_ERR_ARG);
  CHECK(subarray({}, {}, {}, MPI_ORDER_C, real, Form::small, none) == MPI_ERR_ARG);
  const int kind[] = {MPI_DISTRIBUTE_BLOCK}, argument[] = {1}, grid[] = {2};
  CHECK(darray({2, 0, sizes, kind, argument, grid, MPI_ORDER_C}, real, Form::small, none) == MPI_ERR_ARG);  // 2 x 1 < 4
  CHECK(darray({2, 2, sizes, kind, argument, grid, MPI_ORDER_C}, real, Form::small, none) == MPI_ERR_ARG);
  CHECK(none == nullptr);
}

TEST_CASE("Fortran kinds") {
  Datatype *a = nullptr, *b = nullptr;
  REQUIRE(f90_real(15, MPI_UNDEFINED, a) == MPI_SUCCESS);
  REQUIRE(f90_real(15, MPI_UNDEFINED, b) == MPI_SUCCESS);
  CHECK(a == b);
  CHECK(a->size == 8);
  CHECK(a->envelope->integers == std::vector<int>{15, MPI_UNDEFINED});
  REQUIRE(f90_complex(6, 30, a) == MPI_SUCCESS);
  CHECK(a->size == 8);
  REQUIRE(f90_integer(12, a) == MPI_SUCCESS);
  CHECK(a->size == 8);
  CHECK(f90_real(MPI_UNDEFINED, MPI_UNDEFINED, a) == MPI_ERR_ARG);
  CHECK(f90_integer(60, a) == MPI_ERR_ARG);
  REQUIRE(match_size(MPI_TYPECLASS_REAL, 8, a) == MPI_SUCCESS);
  CHECK(a == &of_handle(MPI_REAL8));
  CHECK(match_size(MPI_TYPECLASS_REAL, 5, a) == MPI_ERR_ARG);
  CHECK(value_index(of_handle(MPI_DOUBLE), of_handle(MPI_INT)) == &of_handle(MPI_DOUBLE_INT));
  CHECK(value_index(of_handle(MPI_INTEGER), of_handle(MPI_INTEGER)) == &of_handle(MPI_2INTEGER));
  CHECK(value_index(of_handle(MPI_BYTE), of_handle(MPI_INT)) == nullptr);
}
