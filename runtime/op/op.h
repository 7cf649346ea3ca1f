// Reduction operations.
#pragma once

#include <cstdint>

#include "runtime/base/object.h"
#include "runtime/type/datatype.h"

namespace weft::op {

/// The predefined operations; `user` for MPI_Op_create.
enum class OpId : uint8_t { null, sum, min, max, prod, band, bor, bxor, land, lor, lxor, minloc, maxloc, replace, no_op, user };

/// inout[i] = in[i] OP inout[i] for `count` basic elements (MPI's order: in is the left operand).
using Kernel = void (*)(const void* in, void* inout, uint64_t count);
/// out[i] = a[i] OP b[i]. Out may be a or b, but may not overlap them otherwise.
using Kernel3 = void (*)(const void* a, const void* b, void* out, uint64_t count);

/// What an MPI_Op handle points to.
struct Op : Object {
  OpId id = OpId::null;
  const char* name = nullptr;  ///< of a predefined one: "MPI_SUM" ...
  bool commutative = true;
  bool large_count = false;       ///< user function is an MPI_User_function_c
  void* user_function = nullptr;  ///< MPI_User_function* or MPI_User_function_c*
  void* user_context = nullptr;
  Op() : Object(Kind::op) {}
  static void destroy(Op*);
};

/// The kernel for a predefined operation on a basic type; null if the standard does not define the pair.
Kernel kernel(OpId, type::Basic);
Kernel3 kernel3(OpId, type::Basic);

/// The predefined operation of a handle's value (MPI_SUM ...); null if there is none, also for MPI_OP_NULL.
Op* predefined(uintptr_t handle);

/// Makes a user operation: `function` is an MPI_User_function, or an MPI_User_function_c if `large_count`.
Op* create(void* function, bool commutative, bool large_count);

/// True if the operation may be used with the type in a reduction (pairs of a predefined operation and a predefined type that
/// the standard names or other MPIs take, see README.md, or a duplicate of such a type; anything for user operations).
bool valid(const Op&, const type::Datatype&);
/// The same for one-sided accumulation, where derived types made of one predefined type are fine, and so are MPI_REPLACE and
/// MPI_NO_OP.
bool valid_for_accumulate(const Op&, const type::Datatype&);

/// inout = in OP inout for `count` elements of `type`; picks kernel or user function. `type` is laid out as in MPI
/// (user operations get the handle of the type). valid() or valid_for_accumulate() must hold.
void apply(const Op&, const type::Datatype& type, const void* in, void* inout, uint64_t count);

/// out = a OP b without reading out. Fast for predefined operations; user operations get a copy of b in out. Out may be b.
void apply3(const Op&, const type::Datatype& type, const void* a, const void* b, void* out, uint64_t count);

/// False if the result is the same to the last bit however many operands of the type are grouped and ordered: predefined operations on
/// integers, logicals and bytes.
bool order_matters(const Op&, const type::Datatype&);

/// From now on logical operations on Fortran's logicals of `size` bytes give the first `size` bytes at `truth` for true, as their compiler
/// does (MPI 5.0, 20.4); what is not 0 counts as true.
void set_fortran_truth(int size, const void* truth);

/// The type in which a reduction over many ranks adds or multiplies 16-bit floats, so that only its end is rounded; null: the type itself.
const type::Datatype* wide_type(const Op&, const type::Datatype&);
/// `count` elements of a 16-bit float type, to and from wide_type()'s.
void widen(const type::Datatype& narrow, const void* from, void* to, uint64_t count);
void narrow(const type::Datatype& narrow, const void* from, void* to, uint64_t count);

}  // namespace weft::op
