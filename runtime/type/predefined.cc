#include "runtime/type/predefined.h"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "runtime/type/layout.h"
#include "runtime/type/signature.h"

namespace weft::type {
namespace {

// external32 sizes: MPI 5.0, table 14.2. sizes of Fortran types: gfortran's defaults.
struct Row {
  uint16_t handle;
  const char* name;
  Basic basic;
  uint8_t size;
  uint8_t alignment;
  uint8_t external;   // bytes of one part in external32
  uint8_t parts = 1;  // complex: 2
};

template <class T>
constexpr Row row(uint16_t handle, const char* name, Basic basic, uint8_t external = sizeof(T)) {
  return {handle, name, basic, sizeof(T), alignof(T), external};
}
template <class Part>
constexpr Row complex_row(uint16_t handle, const char* name, Basic basic, uint8_t external = sizeof(Part)) {
  return {handle, name, basic, 2 * sizeof(Part), alignof(Part), external, 2};
}

using B = Basic;
using quad = __float128;
using wide = __int128;

// Each type whose size is fixed stands before its aliases, so that of() finds it first.
constexpr Row kRows[] = {
    row<char>(583, "MPI_BYTE", B::byte),
    row<char>(519, "MPI_PACKED", B::packed),
    row<short>(520, "MPI_SHORT", B::int16),
    row<int>(521, "MPI_INT", B::int32),
    row<int64_t>(600, "MPI_INT64_T", B::int64),
    row<unsigned short>(524, "MPI_UNSIGNED_SHORT", B::uint16),
    row<unsigned>(525, "MPI_UNSIGNED", B::uint32),
    row<uint64_t>(601, "MPI_UINT64_T", B::uint64),
    row<int64_t>(513, "MPI_AINT", B::int64),
    row<int64_t>(514, "MPI_COUNT", B::int64),
    row<int64_t>(515, "MPI_OFFSET", B::int64),
    row<long>(522, "MPI_LONG", B::int64, 4),
    row<long long>(523, "MPI_LONG_LONG_INT", B::int64),
    row<unsigned long>(526, "MPI_UNSIGNED_LONG", B::uint64, 4),
    row<unsigned long long>(527, "MPI_UNSIGNED_LONG_LONG", B::uint64),
    row<float>(528, "MPI_FLOAT", B::float32),
    complex_row<float>(530, "MPI_C_COMPLEX", B::complex_float32),
    complex_row<float>(531, "MPI_CXX_FLOAT_COMPLEX", B::complex_float32),
    row<double>(532, "MPI_DOUBLE", B::float64),
    complex_row<double>(534, "MPI_C_DOUBLE_COMPLEX", B::complex_float64),
    complex_row<double>(535, "MPI_CXX_DOUBLE_COMPLEX", B::complex_float64),
    row<int>(537, "MPI_INTEGER", B::int32),
    row<float>(538, "MPI_REAL", B::float32),
    complex_row<float>(539, "MPI_COMPLEX", B::complex_float32),
    row<double>(540, "MPI_DOUBLE_PRECISION", B::float64),
    complex_row<double>(541, "MPI_DOUBLE_COMPLEX", B::complex_float64),
    row<long double>(544, "MPI_LONG_DOUBLE", B::long_double),
    complex_row<long double>(548, "MPI_C_LONG_DOUBLE_COMPLEX", B::complex_long_double),
    complex_row<long double>(549, "MPI_CXX_LONG_DOUBLE_COMPLEX", B::complex_long_double),
    row<bool>(568, "MPI_C_BOOL", B::bool_c),
    row<bool>(569, "MPI_CXX_BOOL", B::bool_cxx),
    row<wchar_t>(572, "MPI_WCHAR", B::wchar, 2),
    row<int8_t>(576, "MPI_INT8_T", B::int8),
    row<uint8_t>(577, "MPI_UINT8_T", B::uint8),
    row<char>(579, "MPI_CHAR", B::char_),
    row<char>(542, "MPI_CHARACTER", B::char_),
    row<int8_t>(580, "MPI_SIGNED_CHAR", B::int8),
    row<uint8_t>(581, "MPI_UNSIGNED_CHAR", B::uint8),
    row<int16_t>(584, "MPI_INT16_T", B::int16),
    row<uint16_t>(585, "MPI_UINT16_T", B::uint16),
    row<int32_t>(592, "MPI_INT32_T", B::int32),
    row<uint32_t>(593, "MPI_UINT32_T", B::uint32),
    row<int8_t>(704, "MPI_LOGICAL1", B::logical1),
    row<int8_t>(705, "MPI_INTEGER1", B::int8),
    row<int16_t>(712, "MPI_LOGICAL2", B::logical2),
    row<int16_t>(713, "MPI_INTEGER2", B::int16),
    row<int32_t>(720, "MPI_LOGICAL4", B::logical4),
    row<int32_t>(721, "MPI_INTEGER4", B::int32),
    row<int64_t>(728, "MPI_LOGICAL8", B::logical8),
    row<int64_t>(729, "MPI_INTEGER8", B::int64),
    row<wide>(736, "MPI_LOGICAL16", B::logical16),
    row<wide>(737, "MPI_INTEGER16", B::int128),
    row<int>(536, "MPI_LOGICAL", B::logical4),
    row<int16_t>(kFloat16Handle, "MPIX_C_FLOAT16", B::float16),
    row<int16_t>(714, "MPI_REAL2", B::float16),
    row<float>(722, "MPI_REAL4", B::float32),
    row<double>(730, "MPI_REAL8", B::float64),
    row<quad>(738, "MPI_REAL16", B::float128),
    row<int16_t>(kBfloat16Handle, "MPIX_BFLOAT16", B::bfloat16),
    complex_row<int16_t>(723, "MPI_COMPLEX4", B::complex_float16),
    complex_row<float>(731, "MPI_COMPLEX8", B::complex_float32),
    complex_row<double>(739, "MPI_COMPLEX16", B::complex_float64),
    complex_row<quad>(747, "MPI_COMPLEX32", B::complex_float128),
};
static_assert(sizeof(long double) == 16 && sizeof(long) == 8, "external32 conversions know x86-64 and its like");

struct PairRow {
  uint16_t handle;
  const char* name;
  Basic basic;
  uint16_t value, index;  // handles of the parts
};
constexpr PairRow kPairs[] = {
    {552, "MPI_FLOAT_INT", B::float_int, 528, 521}, {553, "MPI_DOUBLE_INT", B::double_int, 532, 521},
    {554, "MPI_LONG_INT", B::long_int, 522, 521},   {555, "MPI_2INT", B::two_int, 521, 521},
    {556, "MPI_SHORT_INT", B::short_int, 520, 521}, {557, "MPI_LONG_DOUBLE_INT", B::long_double_int, 544, 521},
    {560, "MPI_2REAL", B::two_float, 538, 538},     {561, "MPI_2DOUBLE_PRECISION", B::two_double, 540, 540},
    {562, "MPI_2INTEGER", B::two_int, 537, 537},
};

/// Memory of every predefined type; never destroyed, so that late destructors of programs may still use them.
struct Table {
  Datatype* types[detail::kHandles + detail::kExtensions] = {};
  Datatype* basics[64] = {};
  std::vector<Datatype*> lacking;  // taken out of `types`; derived types may be made of them

  Table() {
    for (const Row& r : kRows) add(r);
    for (const PairRow& p : kPairs) add(p);
  }
  Datatype& slot(uint16_t handle, const char* name, Basic basic) {
    auto* type = new Datatype;
    type->predefined = type->committed = true;
    type->abi_handle = handle;
    type->name = name;
    type->basic = basic;
    type->basic_count = 1;
    types[handle >= kFloat16Handle ? detail::kHandles + (handle - kFloat16Handle) : handle - detail::kFirstHandle] = type;
    if (auto& first = basics[static_cast<size_t>(basic)]; !first) first = type;
    return *type;
  }
  void add(const Row& r) {
    Datatype& type = slot(r.handle, r.name, r.basic);
    type.size = r.size;
    type.extent = type.true_extent = r.size;
    type.contiguous = true;
    type.alignment = r.alignment;
    type.layout = Layout::block(r.size);
    const auto external = static_cast<uint8_t>(r.external * r.parts);
    type.signature = Signature::run({r.basic, r.size, external}, 1);
  }
  void add(const PairRow& p) {
    Datatype& type = slot(p.handle, p.name, p.basic);
    const Datatype& value = *types[p.value - detail::kFirstHandle];
    const Datatype& index = *types[p.index - detail::kFirstHandle];
    const auto up = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
    const int64_t second = up(value.extent, index.alignment);
    type.size = value.size + index.size;
    type.alignment = std::max(value.alignment, index.alignment);
    type.true_extent = second + index.extent;
    type.extent = up(type.true_extent, type.alignment);
    type.layout = Layout::list({{0, value.layout}, {second, index.layout}})->layout;
    type.signature = Signature::sequence({{1, value.signature}, {1, index.signature}});
    type.contiguous = type.layout->is_block() && static_cast<int64_t>(type.size) == type.extent;
  }
};

Table& table() {
  static Table& made = *new Table;
  return made;
}

Datatype& at(uint16_t handle) { return *table().types[handle - detail::kFirstHandle]; }

/// Makes one type like another one, which has the wanted size.
void become(uint16_t handle, const Datatype& like) {
  Datatype& type = at(handle);
  type.size = like.size;
  type.extent = like.extent;
  type.true_extent = like.true_extent;
  type.contiguous = like.contiguous;
  type.alignment = like.alignment;
  type.basic = like.basic;
  type.basic_count = like.basic_count;
  type.layout = like.layout;
  type.signature = like.signature;
}

struct Kind {
  int size;
  uint16_t handle;
};
constexpr Kind kLogicals[] = {{1, 704}, {2, 712}, {4, 720}, {8, 728}, {16, 736}};
constexpr Kind kIntegers[] = {{1, 705}, {2, 713}, {4, 721}, {8, 729}, {16, 737}};
constexpr Kind kReals[] = {{2, 714}, {4, 722}, {8, 730}, {16, 738}};
constexpr Kind kComplexes[] = {{2, 723}, {4, 731}, {8, 739}, {16, 747}};  // by the size of a part

const Datatype* kind(std::span<const Kind> kinds, int size) {
  for (const Kind& k : kinds)
    if (k.size == size) return &at(k.handle);
  return nullptr;
}

/// Pairs of those that have changed; there are kernels for some sizes only.
void pair_again(uint16_t handle, uint16_t part, std::initializer_list<Basic> pairs) {
  const Datatype& value = at(part);
  for (const Basic pair : pairs)
    if (const Datatype& like = *table().basics[static_cast<size_t>(pair)]; like.size == 2 * value.size) return become(handle, like);
  Datatype two;
  two.size = two.extent = two.true_extent = static_cast<int64_t>(2 * value.size);
  two.contiguous = true;
  two.alignment = value.alignment;
  two.basic_count = 2;
  two.layout = Layout::block(two.size);
  two.signature = Signature::sequence({{2, value.signature}});
  become(handle, two);
}

}  // namespace

constinit Datatype* const* detail::by_handle = nullptr;

namespace {
/// Before any other static object of the process is made, which may want a type already.
[[gnu::constructor(101)]] void fill() { detail::by_handle = table().types; }
}  // namespace

bool set_fortran_sizes(const FortranSizes& sizes) {
  struct Change {
    uint16_t handle;
    std::span<const Kind> kinds;
    int size;
  };
  const Change changes[] = {
      {536, kLogicals, sizes.logical}, {537, kIntegers, sizes.integer},       {538, kReals, sizes.real},
      {539, kComplexes, sizes.real},   {540, kReals, sizes.double_precision}, {541, kComplexes, sizes.double_precision}};
  for (const Change& c : changes)
    if (c.size && !kind(c.kinds, c.size)) return false;
  for (const Change& c : changes)
    if (c.size) become(c.handle, *kind(c.kinds, c.size));
  pair_again(560, 538, {Basic::two_float, Basic::two_double});
  pair_again(561, 540, {Basic::two_float, Basic::two_double});
  pair_again(562, 537, {Basic::two_int});
  return true;
}

namespace {
constexpr FortranOption kOptions[] = {
    {"logical1", 704}, {"logical2", 712},  {"logical4", 720},  {"logical8", 728},       {"logical16", 736},
    {"integer1", 705}, {"integer2", 713},  {"integer4", 721},  {"integer8", 729},       {"integer16", 737},
    {"real2", 714},    {"real4", 722},     {"real8", 730},     {"real16", 738},         {"complex4", 723},
    {"complex8", 731}, {"complex16", 739}, {"complex32", 747}, {"double_complex", 541},
};
}  // namespace

std::span<const FortranOption> fortran_options() { return kOptions; }
void set_lacking(const FortranOption& option) {
  table().lacking.push_back(std::exchange(table().types[option.handle - detail::kFirstHandle], nullptr));
}
bool lacking(uintptr_t handle) {
  return std::ranges::any_of(table().lacking, [handle](const Datatype* type) { return type->abi_handle == handle; });
}

Datatype& of(Basic basic) { return *table().basics[static_cast<size_t>(basic)]; }

}  // namespace weft::type
