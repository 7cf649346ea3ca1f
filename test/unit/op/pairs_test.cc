// All pairs of a predefined operation and a predefined type: which are allowed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <initializer_list>
#include <map>
#include <set>
#include <string>

#include "include/mpi.h"
#include "runtime/op/op.h"
#include "runtime/type/construct.h"
#include "runtime/type/predefined.h"

using namespace weft;
using namespace weft::op;
using type::Datatype;

namespace {

using Names = std::set<std::string>;

/// The groups of MPI 5.0, 6.9.2; pairs: 6.9.4. `characters` and `packed` are in no group there.
const std::map<std::string, Names> kGroups = {
    {"C integer",
     {"MPI_INT", "MPI_LONG", "MPI_SHORT", "MPI_UNSIGNED_SHORT", "MPI_UNSIGNED", "MPI_UNSIGNED_LONG", "MPI_LONG_LONG_INT",
      "MPI_UNSIGNED_LONG_LONG", "MPI_SIGNED_CHAR", "MPI_UNSIGNED_CHAR", "MPI_INT8_T", "MPI_INT16_T", "MPI_INT32_T", "MPI_INT64_T",
      "MPI_UINT8_T", "MPI_UINT16_T", "MPI_UINT32_T", "MPI_UINT64_T"}},
    {"Fortran integer", {"MPI_INTEGER", "MPI_INTEGER1", "MPI_INTEGER2", "MPI_INTEGER4", "MPI_INTEGER8", "MPI_INTEGER16"}},
    {"floating point",
     {"MPI_FLOAT", "MPI_DOUBLE", "MPI_REAL", "MPI_DOUBLE_PRECISION", "MPI_LONG_DOUBLE", "MPI_REAL2", "MPI_REAL4", "MPI_REAL8", "MPI_REAL16",
      "MPIX_C_FLOAT16", "MPIX_BFLOAT16"}},
    {"logical",
     {"MPI_LOGICAL", "MPI_C_BOOL", "MPI_CXX_BOOL", "MPI_LOGICAL1", "MPI_LOGICAL2", "MPI_LOGICAL4", "MPI_LOGICAL8", "MPI_LOGICAL16"}},
    {"complex",
     {"MPI_COMPLEX", "MPI_C_COMPLEX", "MPI_C_DOUBLE_COMPLEX", "MPI_C_LONG_DOUBLE_COMPLEX", "MPI_CXX_FLOAT_COMPLEX",
      "MPI_CXX_DOUBLE_COMPLEX", "MPI_CXX_LONG_DOUBLE_COMPLEX", "MPI_DOUBLE_COMPLEX", "MPI_COMPLEX4", "MPI_COMPLEX8", "MPI_COMPLEX16",
      "MPI_COMPLEX32"}},
    {"byte", {"MPI_BYTE"}},
    {"multi-language", {"MPI_AINT", "MPI_OFFSET", "MPI_COUNT"}},
    {"pairs",
     {"MPI_2REAL", "MPI_2DOUBLE_PRECISION", "MPI_2INTEGER", "MPI_FLOAT_INT", "MPI_DOUBLE_INT", "MPI_LONG_INT", "MPI_2INT", "MPI_SHORT_INT",
      "MPI_LONG_DOUBLE_INT"}},
    {"characters", {"MPI_CHAR", "MPI_CHARACTER"}},
    {"neither", {"MPI_WCHAR", "MPI_PACKED"}},
};

struct Allowed {
  std::initializer_list<MPI_Op> ops;
  Names groups;
};
/// The standard's table, and beyond it what runtime/op/README.md says: characters, and truth of multi-language types.
const Allowed kAllowed[] = {
    {{MPI_MAX, MPI_MIN}, {"C integer", "Fortran integer", "floating point", "multi-language", "characters"}},
    {{MPI_SUM, MPI_PROD}, {"C integer", "Fortran integer", "floating point", "complex", "multi-language", "characters"}},
    {{MPI_LAND, MPI_LOR, MPI_LXOR}, {"C integer", "logical", "multi-language", "characters"}},
    {{MPI_BAND, MPI_BOR, MPI_BXOR}, {"C integer", "Fortran integer", "byte", "multi-language", "characters"}},
    {{MPI_MINLOC, MPI_MAXLOC}, {"pairs"}},
    {{MPI_REPLACE, MPI_NO_OP}, {}},
};

std::string group_of(const std::string& name) {
  for (const auto& [group, names] : kGroups)
    if (names.count(name)) return group;
  return "";
}

bool allowed(uintptr_t op, const std::string& group) {
  for (const Allowed& row : kAllowed)
    if (std::ranges::any_of(row.ops, [&](MPI_Op o) { return reinterpret_cast<uintptr_t>(o) == op; })) return row.groups.count(group) != 0;
  FAIL("operation " << op << " is not in the table");
  return false;
}

template <class Each>
void each_op(Each each) {
  for (uintptr_t handle = 0; handle < 4096; ++handle)
    if (Op* op = op::predefined(handle)) each(*op, handle);
}

}  // namespace

TEST_CASE("pairs of operation and type, all of them") {
  size_t types = 0, pairs = 0, wrong = 0;
  for (uintptr_t handle = 0; handle < 4096; ++handle) {
    Datatype* type = type::predefined(handle);
    if (!type) continue;
    ++types;
    const std::string group = group_of(type->name);
    INFO(type->name);
    REQUIRE(!group.empty());
    Datatype* twin = nullptr;
    REQUIRE(type::duplicate(*type, twin) == MPI_SUCCESS);
    each_op([&](Op& op, uintptr_t o) {
      ++pairs;
      const bool wanted = allowed(o, group);
      // no hole in the table of kernels: what is allowed can be computed
      const bool fine = valid(op, *type) == wanted && valid(op, *twin) == wanted && (!wanted || kernel(op.id, type->basic)) &&
                        valid_for_accumulate(op, *type) == (wanted || op.id == OpId::replace || op.id == OpId::no_op);
      if (fine) return;
      ++wrong;
      UNSCOPED_INFO(op.name << " on " << type->name << " should be " << (wanted ? "allowed" : "refused"));
    });
    release(twin);
  }
  size_t listed = 0;
  for (const auto& [group, names] : kGroups) listed += names.size();
  CHECK(types == listed);
  CHECK(pairs == 14 * types);
  CHECK(wrong == 0);
}

TEST_CASE("types by Fortran kind have the operations of their group") {
  Datatype *integer = nullptr, *real = nullptr, *complex = nullptr;
  REQUIRE(type::f90_integer(9, integer) == MPI_SUCCESS);
  REQUIRE(type::f90_real(15, MPI_UNDEFINED, real) == MPI_SUCCESS);
  REQUIRE(type::f90_complex(6, MPI_UNDEFINED, complex) == MPI_SUCCESS);
  each_op([&](Op& op, uintptr_t o) {
    INFO(op.name);
    CHECK(valid(op, *integer) == allowed(o, "Fortran integer"));
    CHECK(valid(op, *real) == allowed(o, "floating point"));
    CHECK(valid(op, *complex) == allowed(o, "complex"));
  });
}
