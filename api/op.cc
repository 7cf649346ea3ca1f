// Bodies: operations.
#include "api/generated/bodies.h"
#include "api/handles.h"
#include "runtime/base/error.h"

namespace weft::body {

using api::decode;
using api::encode;

int Op_create(void* user_fn, int commute, MPI_Op* op, bool large) {
  *op = encode(op::create(user_fn, commute != 0, large));
  return MPI_SUCCESS;
}

int Op_free(MPI_Op* op) {
  op::Op* object = decode(*op);
  object->user_freed = true;
  release(object);
  *op = MPI_OP_NULL;
  return MPI_SUCCESS;
}

int Op_commutative(op::Op& op, int* commute) {
  *commute = op.commutative;
  return MPI_SUCCESS;
}

int Reduce_local(const void* inbuf, void* inoutbuf, MPI_Count count, type::Datatype& datatype, op::Op& op) {
  op::apply(op, datatype, inbuf, inoutbuf, static_cast<uint64_t>(count));
  return MPI_SUCCESS;
}

}  // namespace weft::body
