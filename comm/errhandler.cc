#include "comm/comm.h"

namespace weft::comm {
namespace {

Pool<Errhandler>& pool() {
  static auto* handlers = new Pool<Errhandler>;
  return *handlers;
}

Errhandler& predefined(Errhandler::Action action, uint32_t abi_handle) {
  Errhandler* handler = pool().make();
  handler->predefined = true;
  handler->action = action;
  handler->abi_handle = abi_handle;
  return *handler;
}

}  // namespace

Errhandler* Errhandler::make(For target, void* function) {
  Errhandler* handler = pool().make();
  handler->action = Action::user;
  handler->target = target;
  handler->function = function;
  return handler;
}
void Errhandler::destroy(Errhandler* handler) { pool().destroy(handler); }

// The numbers are the handles' values in the standard ABI.
Errhandler& errors_are_fatal() {
  static Errhandler& handler = predefined(Errhandler::Action::fatal, 321);
  return handler;
}
Errhandler& errors_abort() {
  static Errhandler& handler = predefined(Errhandler::Action::abort, 322);
  return handler;
}
Errhandler& errors_return() {
  static Errhandler& handler = predefined(Errhandler::Action::return_, 323);
  return handler;
}

}  // namespace weft::comm
