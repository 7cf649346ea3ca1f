// Types by Fortran kind, and pairs of value and index.
#include <array>
#include <cfloat>
#include <map>
#include <mutex>

#include "include/mpi.h"
#include "runtime/base/error.h"
#include "runtime/type/construct.h"
#include "runtime/type/predefined.h"

namespace weft::type {
namespace {

/// What a kind of gfortran's offers, weakest first.
struct RealKind {
  int digits, range;
  Basic real, complex;
};
constexpr RealKind kReals[] = {
    {6, 37, Basic::float32, Basic::complex_float32},
    {15, 307, Basic::float64, Basic::complex_float64},
    {18, 4931, Basic::long_double, Basic::complex_long_double},
    {33, 4931, Basic::float128, Basic::complex_float128},
};
struct IntegerKind {
  int range;
  Basic basic;
};
constexpr IntegerKind kIntegers[] = {{2, Basic::int8}, {4, Basic::int16}, {9, Basic::int32}, {18, Basic::int64}, {38, Basic::int128}};

/// One object for each set of arguments, for ever: programs compare and keep these handles.
Datatype* parametrised(int combiner, int p, int r, Basic basic) {
  static std::mutex lock;
  static auto& made = *new std::map<std::array<int, 3>, Datatype*>;
  std::lock_guard hold(lock);
  Datatype*& type = made[{combiner, p, r}];
  if (type) return type;
  const Datatype& like = of(basic);
  type = new Datatype;
  type->size = like.size;
  type->extent = type->true_extent = like.extent;
  type->contiguous = type->committed = type->predefined = true;
  type->basic = basic;
  type->basic_count = 1;
  type->alignment = like.alignment;
  type->layout = like.layout;
  type->signature = like.signature;
  auto envelope = std::make_shared<Envelope>();
  envelope->combiner = combiner;
  if (combiner != MPI_COMBINER_F90_INTEGER) envelope->integers.push_back(p);
  envelope->integers.push_back(r);
  type->envelope = std::move(envelope);
  return type;
}

const RealKind* real_kind(int p, int r) {
  if (p == MPI_UNDEFINED && r == MPI_UNDEFINED) return nullptr;
  for (const RealKind& kind : kReals)
    if ((p == MPI_UNDEFINED || kind.digits >= p) && (r == MPI_UNDEFINED || kind.range >= r)) return &kind;
  return nullptr;
}

int no_kind(int p, int r) { return fail(MPI_ERR_ARG, "no Fortran kind has precision %d and range %d", p, r); }

}  // namespace

int f90_real(int p, int r, Datatype*& found) {
  const RealKind* kind = real_kind(p, r);
  if (!kind) return no_kind(p, r);
  found = parametrised(MPI_COMBINER_F90_REAL, p, r, kind->real);
  return MPI_SUCCESS;
}

int f90_complex(int p, int r, Datatype*& found) {
  const RealKind* kind = real_kind(p, r);
  if (!kind) return no_kind(p, r);
  found = parametrised(MPI_COMBINER_F90_COMPLEX, p, r, kind->complex);
  return MPI_SUCCESS;
}

int f90_integer(int r, Datatype*& found) {
  for (const IntegerKind& kind : kIntegers)
    if (kind.range >= r && r != MPI_UNDEFINED) {
      found = parametrised(MPI_COMBINER_F90_INTEGER, 0, r, kind.basic);
      return MPI_SUCCESS;
    }
  return fail(MPI_ERR_ARG, "no Fortran integer kind has range %d", r);
}

/// Reserved by the ABI beside MPI_TYPECLASS_*.
constexpr int kClassLogical = 191;

int match_size(int type_class, int size, Datatype*& found) {
  struct Match {
    int type_class, size;
    MPI_Datatype handle;
  };
  const Match matches[] = {
      {MPI_TYPECLASS_REAL, 2, MPI_REAL2},         {MPI_TYPECLASS_REAL, 4, MPI_REAL4},       {MPI_TYPECLASS_REAL, 8, MPI_REAL8},
      {MPI_TYPECLASS_REAL, 16, MPI_REAL16},       {MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1}, {MPI_TYPECLASS_INTEGER, 2, MPI_INTEGER2},
      {MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4},   {MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8}, {MPI_TYPECLASS_INTEGER, 16, MPI_INTEGER16},
      {MPI_TYPECLASS_COMPLEX, 4, MPI_COMPLEX4},   {MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8}, {MPI_TYPECLASS_COMPLEX, 16, MPI_COMPLEX16},
      {MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32}, {kClassLogical, 1, MPI_LOGICAL1},         {kClassLogical, 2, MPI_LOGICAL2},
      {kClassLogical, 4, MPI_LOGICAL4},           {kClassLogical, 8, MPI_LOGICAL8},         {kClassLogical, 16, MPI_LOGICAL16},
  };
  for (const Match& match : matches)
    if (match.type_class == type_class && match.size == size)
      if ((found = predefined(reinterpret_cast<uintptr_t>(match.handle)))) return MPI_SUCCESS;
  return fail(MPI_ERR_ARG, "there is no Fortran type with typeclass %d and size %d", type_class, size);
}

Datatype* value_index(const Datatype& value, const Datatype& index) {
  struct Pair {
    Basic value, index, pair;
  };
  constexpr Pair kPairs[] = {
      {Basic::float32, Basic::int32, Basic::float_int}, {Basic::float64, Basic::int32, Basic::double_int},
      {Basic::int64, Basic::int32, Basic::long_int},    {Basic::int32, Basic::int32, Basic::two_int},
      {Basic::int16, Basic::int32, Basic::short_int},   {Basic::long_double, Basic::int32, Basic::long_double_int},
  };
  if (!value.predefined || !index.predefined) return nullptr;
  // Pairs of one Fortran type are asked for by the Fortran names.
  const auto both = [&](MPI_Datatype name) {
    return value.abi_handle == reinterpret_cast<uintptr_t>(name) && index.abi_handle == value.abi_handle;
  };
  if (both(MPI_INTEGER)) return predefined(reinterpret_cast<uintptr_t>(MPI_2INTEGER));
  if (both(MPI_REAL)) return predefined(reinterpret_cast<uintptr_t>(MPI_2REAL));
  if (both(MPI_DOUBLE_PRECISION)) return predefined(reinterpret_cast<uintptr_t>(MPI_2DOUBLE_PRECISION));
  for (const Pair& pair : kPairs)
    if (pair.value == value.basic && pair.index == index.basic) return &of(pair.pair);
  return nullptr;
}

}  // namespace weft::type
