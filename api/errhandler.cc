// Error handlers of communicators and sessions (MPI 5.0, 9.3).
#include "api/generated/bodies.h"
#include "api/handles.h"
#include "api/raise.h"
#include "runtime/base/error.h"

namespace weft::body {

using namespace api;
using For = comm::Errhandler::For;

namespace {

int attach(comm::Errhandler& handler, comm::Errhandler*& slot) {
  retain(&handler);
  release(slot);
  slot = &handler;
  return MPI_SUCCESS;
}

/// What MPI_Comm_call_errhandler and its likes do.
int call(const char* function, Object& owner, int errorcode) {
  if (error_class_of(errorcode) < 0) return fail(MPI_ERR_ARG, "errorcode is %d, which is no error class or code", errorcode);
  clear_failure();
  raise(function, &owner, errorcode);
  return MPI_SUCCESS;
}

/// The user gets a reference of his own, also where he gave his first one back.
MPI_Errhandler hand_out(comm::Errhandler* handler) {
  if (!handler->predefined) {
    retain(handler);
    handler->user_freed = false;
  }
  return encode(handler);
}

template <class Function>
int create(For target, Function* function, MPI_Errhandler* errhandler) {
  *errhandler = encode(comm::Errhandler::make(target, reinterpret_cast<void*>(function)));
  return MPI_SUCCESS;
}

}  // namespace

int Comm_create_errhandler(MPI_Comm_errhandler_function* function, MPI_Errhandler* errhandler) {
  return create(For::communicator, function, errhandler);
}

int Comm_set_errhandler(comm::Communicator& comm, comm::Errhandler& errhandler) { return attach(errhandler, comm.errhandler); }

int Comm_get_errhandler(comm::Communicator& comm, MPI_Errhandler* errhandler) {
  *errhandler = hand_out(comm.errhandler);
  return MPI_SUCCESS;
}

int Comm_call_errhandler(comm::Communicator& comm, int errorcode) { return call("MPI_Comm_call_errhandler", comm, errorcode); }

int Session_create_errhandler(MPI_Session_errhandler_function* function, MPI_Errhandler* errhandler) {
  return create(For::session, function, errhandler);
}

int Session_set_errhandler(comm::Session& session, comm::Errhandler& errhandler) { return attach(errhandler, session.errhandler); }

int Session_get_errhandler(comm::Session& session, MPI_Errhandler* errhandler) {
  *errhandler = hand_out(session.errhandler);
  return MPI_SUCCESS;
}

int Session_call_errhandler(comm::Session& session, int errorcode) { return call("MPI_Session_call_errhandler", session, errorcode); }

int Errhandler_free(MPI_Errhandler* errhandler) {
  comm::Errhandler* freed = decode(*errhandler);
  // With references left to objects and other handles, the handle just given up cannot be told from those.
  if (!freed->predefined && freed->references.load() == 1) freed->user_freed = true;
  release(freed);
  *errhandler = MPI_ERRHANDLER_NULL;
  return MPI_SUCCESS;
}

}  // namespace weft::body
