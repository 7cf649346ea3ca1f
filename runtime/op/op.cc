#include "runtime/op/op.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "include/mpi.h"
#include "runtime/op/kernels.h"
#include "runtime/type/construct.h"
#include "runtime/type/cursor.h"
#include "runtime/type/predefined.h"

namespace weft::op {
namespace {

using type::Basic;
using type::Datatype;

/// Picks for each entry the best kernel that this machine can run.
KernelTable best() {
  KernelTable table = kernels_base();
  auto overlay = [&](const KernelTable& better) {
    for (unsigned op = 0; op < kOps; ++op)
      for (unsigned basic = 0; basic < kBasics; ++basic)
        if (better.at[op][basic].two) table.at[op][basic] = better.at[op][basic];
    table.half = better.half;
    table.bfloat = better.bfloat;
  };
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) overlay(kernels_avx2());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    overlay(kernels_avx512());
#endif
  return table;
}

const KernelTable& table() {
  static const KernelTable& best_one = *new KernelTable(best());
  return best_one;
}

const KernelPair& entry(OpId id, Basic basic) {
  static constexpr KernelPair none;
  return id < OpId::user ? table().at[static_cast<unsigned>(id)][static_cast<unsigned>(basic)] : none;
}

/// Of 16-bit floats.
const Widening& widening(Basic basic) { return basic == Basic::bfloat16 ? table().bfloat : table().half; }

struct Named {
  uint32_t handle;
  OpId id;
  const char* name;
};
constexpr Named kNamed[] = {
    {33, OpId::sum, "MPI_SUM"},         {34, OpId::min, "MPI_MIN"},     {35, OpId::max, "MPI_MAX"},       {36, OpId::prod, "MPI_PROD"},
    {40, OpId::band, "MPI_BAND"},       {41, OpId::bor, "MPI_BOR"},     {42, OpId::bxor, "MPI_BXOR"},     {48, OpId::land, "MPI_LAND"},
    {49, OpId::lor, "MPI_LOR"},         {50, OpId::lxor, "MPI_LXOR"},   {56, OpId::minloc, "MPI_MINLOC"}, {57, OpId::maxloc, "MPI_MAXLOC"},
    {60, OpId::replace, "MPI_REPLACE"}, {61, OpId::no_op, "MPI_NO_OP"},
};
constexpr uint32_t kFirst = 32, kHandles = 32;

struct Table {
  Op* ops[kHandles] = {};
  Table() {
    for (const Named& named : kNamed) {
      Op* op = new Op;
      op->id = named.id;
      op->predefined = true;
      op->abi_handle = named.handle;
      op->name = named.name;
      op->commutative = named.id != OpId::replace && named.id != OpId::no_op;
      ops[named.handle - kFirst] = op;
    }
  }
};

Pool<Op>& pool() {
  static auto& made = *new Pool<Op>;
  return made;
}

/// What Fortran's compiler writes for true where that is not 1, again and again; set once, before it is of use.
struct Truth {
  uint64_t size = 0;
  alignas(64) std::array<std::byte, 4096> values{};
} truth;

bool logical(const Op& op) { return op.id == OpId::land || op.id == OpId::lor || op.id == OpId::lxor; }

/// Does an operation give such logicals? Kernels then have given 1 for true.
bool gives_truth(const Op& op, const Datatype& type) {
  return truth.size == type.size && type.basic >= Basic::logical1 && type.basic <= Basic::logical16 && logical(op);
}

const std::byte* at(const void* address, int64_t offset) { return static_cast<const std::byte*>(address) + offset; }
std::byte* at(void* address, int64_t offset) { return static_cast<std::byte*>(address) + offset; }

/// Logical operations: what kernels have made 1 becomes what is true, block by block in the first cache.
void apply_truth(const KernelPair& kernels, const void* in, void* inout, uint64_t count) {
  constexpr Basic kOfSize[] = {Basic::uint8, Basic::uint16, Basic::uint32, Basic::uint64, Basic::int128};
  const Kernel times = entry(OpId::prod, kOfSize[std::countr_zero(truth.size)]).two;
  const uint64_t most = truth.values.size() / truth.size;
  for (uint64_t done = 0; done < count; done += most) {
    const auto offset = static_cast<int64_t>(done * truth.size);
    const uint64_t some = std::min(most, count - done);
    kernels.two(at(in, offset), at(inout, offset), some);
    times(truth.values.data(), at(inout, offset), some);
  }
}

void apply_user(const Op& op, const Datatype& type, const void* in, void* inout, uint64_t count) {
  auto handle = static_cast<MPI_Datatype>(handle_of(type));
  if (op.large_count) {
    auto length = static_cast<MPI_Count>(count);
    reinterpret_cast<MPI_User_function_c*>(op.user_function)(const_cast<void*>(in), inout, &length, &handle);
    return;
  }
  constexpr uint64_t kMost = std::numeric_limits<int>::max();
  for (uint64_t done = 0; done < count; done += kMost) {
    int length = static_cast<int>(std::min(kMost, count - done));
    const int64_t offset = static_cast<int64_t>(done) * type.extent;
    reinterpret_cast<MPI_User_function*>(op.user_function)(const_cast<std::byte*>(at(in, offset)), at(inout, offset), &length, &handle);
  }
}

/// What MPI_Type_dup has made a type of, often the type itself.
const Datatype& original(const Datatype& type) {
  const Datatype* from = &type;
  while (!from->predefined && from->envelope && from->envelope->combiner == MPI_COMBINER_DUP) from = from->envelope->types[0];
  return *from;
}
bool named(const Datatype& type) { return original(type).predefined; }

/// MPI_INTEGER, MPI_INTEGER1 to MPI_INTEGER16, and those of MPI_Type_create_f90_integer: the same elements as C's integers.
bool fortran_integer(const Datatype& type) {
  constexpr uint32_t kInteger = 537, kInteger1 = 705, kStep = 8, kInteger16 = 737;
  const Datatype& from = original(type);
  if (from.envelope) return from.envelope->combiner == MPI_COMBINER_F90_INTEGER;
  const uint32_t handle = from.abi_handle;
  return handle == kInteger || (handle >= kInteger1 && handle <= kInteger16 && (handle - kInteger1) % kStep == 0);
}

bool defined(const Op& op, const Datatype& type) { return kernel(op.id, type.basic) != nullptr && !(logical(op) && fortran_integer(type)); }

/// Elements of a predefined type lie one after the other, the padding of pairs included.
bool dense(const Datatype& type) { return type.predefined || (type.contiguous && !type.pair()) || named(type); }

/// A derived type: the same runs of memory on both sides.
void apply_runs(const KernelPair& kernels, const Datatype& type, const void* a, const void* b, void* out, uint64_t count) {
  const uint64_t unit = type.size / type.basic_count;
  type::Cursor cursor(out, count, type);
  iovec runs[64];
  while (cursor.left())
    for (size_t i = 0, n = cursor.runs(runs, cursor.left()); i < n; ++i) {
      const int64_t offset = static_cast<std::byte*>(runs[i].iov_base) - static_cast<std::byte*>(out);
      kernels.three(at(a, offset), at(b, offset), runs[i].iov_base, runs[i].iov_len / unit);
    }
}

}  // namespace

void Op::destroy(Op* op) { pool().destroy(op); }

Kernel kernel(OpId id, Basic basic) { return entry(id, basic).two; }
Kernel3 kernel3(OpId id, Basic basic) { return entry(id, basic).three; }

Op* predefined(uintptr_t handle) {
  static const Table& table = *new Table;
  return handle - kFirst < kHandles ? table.ops[handle - kFirst] : nullptr;
}

Op* create(void* function, bool commutative, bool large_count) {
  Op* op = pool().make();
  op->id = OpId::user;
  op->commutative = commutative;
  op->large_count = large_count;
  op->user_function = function;
  return op;
}

bool valid(const Op& op, const Datatype& type) { return op.id == OpId::user || (defined(op, type) && named(type)); }

bool valid_for_accumulate(const Op& op, const Datatype& type) {
  if (op.id == OpId::replace || op.id == OpId::no_op) return true;
  if (op.id == OpId::user) return false;
  return defined(op, type) && (!type.pair() || named(type));
}

void set_fortran_truth(int size, const void* value) {
  std::array<std::byte, 16> one{std::byte{1}};  // of a machine whose first byte is the lowest
  truth.size = memcmp(value, one.data(), static_cast<size_t>(size)) == 0 ? 0 : static_cast<uint64_t>(size);
  for (uint64_t done = 0; done < truth.values.size(); done += static_cast<uint64_t>(size))
    memcpy(&truth.values[done], value, static_cast<size_t>(size));
}

void apply(const Op& op, const Datatype& type, const void* in, void* inout, uint64_t count) {
  if (!count || !type.size || op.id == OpId::no_op) return;
  if (op.id == OpId::user) return apply_user(op, type, in, inout, count);
  if (op.id == OpId::replace) return static_cast<void>(type::copy(type, count, in, type, count, inout));
  const KernelPair& kernels = entry(op.id, type.basic);
  if (gives_truth(op, type)) [[unlikely]]
    return apply_truth(kernels, in, inout, count);
  if (dense(type)) return kernels.two(at(in, type.origin), at(inout, type.origin), count * type.basic_count);
  apply_runs(kernels, type, in, inout, inout, count);
}

void apply3(const Op& op, const Datatype& type, const void* a, const void* b, void* out, uint64_t count) {
  if (!count || !type.size) return;
  const Kernel3 kernel = entry(op.id, type.basic).three;
  if (kernel && dense(type) && !gives_truth(op, type))
    return kernel(at(a, type.origin), at(b, type.origin), at(out, type.origin), count * type.basic_count);
  if (out != b) type::copy(type, count, b, type, count, out);
  apply(op, type, a, out, count);
}

bool order_matters(const Op& op, const Datatype& type) {
  switch (type.basic) {
    case Basic::float16:
    case Basic::bfloat16:
    case Basic::float32:
    case Basic::float64:
    case Basic::long_double:
    case Basic::float128:
    case Basic::complex_float16:
    case Basic::complex_float32:
    case Basic::complex_float64:
    case Basic::complex_long_double:
    case Basic::complex_float128:
    case Basic::float_int:
    case Basic::double_int:
    case Basic::long_double_int:
    case Basic::two_float:
    case Basic::two_double: return true;
    default: return op.id == OpId::user;
  }
}

const Datatype* wide_type(const Op& op, const Datatype& type) {
  if (op.id != OpId::sum && op.id != OpId::prod) return nullptr;
  switch (type.basic) {
    case Basic::float16:
    case Basic::bfloat16: return &type::of(Basic::float32);
    case Basic::complex_float16: return &type::of(Basic::complex_float32);
    default: return nullptr;
  }
}

void widen(const Datatype& narrow, const void* from, void* to, uint64_t count) {
  widening(narrow.basic).widen(from, static_cast<float*>(to), count * narrow.size / 2);
}

void narrow(const Datatype& narrow, const void* from, void* to, uint64_t count) {
  widening(narrow.basic).narrow(static_cast<const float*>(from), to, count * narrow.size / 2);
}

}  // namespace weft::op
