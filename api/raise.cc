#include "api/raise.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/base/log.h"

namespace weft::api {
namespace {

thread_local Owner blamed;
thread_local int last_code;
thread_local std::string last_text;

comm::Errhandler& handler_of(Owner owner) {
  if (owner && owner->kind == Kind::communicator) return *static_cast<comm::Communicator*>(owner)->errhandler;
  if (owner && owner->kind == Kind::session) return *static_cast<comm::Session*>(owner)->errhandler;
  if (owner && owner->kind == Kind::errhandler) return *static_cast<comm::Errhandler*>(owner);
  if (state.self) return *state.self->errhandler;
  return state.initial_errhandler ? *state.initial_errhandler : comm::errors_are_fatal();
}

/// Calls the user's function, which is of the kind that the handler was made for.
void call_user(const comm::Errhandler& handler, Owner owner, int error) {
  if (handler.target == comm::Errhandler::For::session) {
    MPI_Session handle = owner && owner->kind == Kind::session ? encode(static_cast<comm::Session*>(owner)) : MPI_SESSION_NULL;
    reinterpret_cast<MPI_Session_errhandler_function*>(handler.function)(&handle, &error);
    return;
  }
  comm::Communicator* comm = owner && owner->kind == Kind::communicator ? static_cast<comm::Communicator*>(owner) : state.self;  // or null
  MPI_Comm handle = encode(comm);
  reinterpret_cast<MPI_Comm_errhandler_function*>(handler.function)(&handle, &error);
}

/// "rank 3 on node1" as far as it is known.
std::string who() {
  if (!state.instance) return "process " + std::to_string(getpid());
  const boot::Job& job = state.instance->job();
  return "rank " + std::to_string(job.rank) + " on " + job.host;
}

/// The function in front, unless the text names one already.
std::string full_text(const char* function, int error, std::string_view text) {
  std::string full = function ? std::string(function) + ": " : std::string();
  full += text.empty() ? error_text(error) : text;
  return full;
}

}  // namespace

void blame(Owner owner) { blamed = owner; }

std::string_view last_raised(int code) { return code == last_code ? std::string_view(last_text) : std::string_view(); }

void end_job(int status, std::string_view why) {
  fflush(stdout);
  const std::string reason(why);
  // Weft's own launcher says who and why, once for the job; nobody else does so reliably.
  const bool told = state.instance && state.instance->job().launcher.starts_with("Weft's mpirun");
  if (!told) fprintf(stderr, "weft: %s: %s\n", who().c_str(), reason.c_str());
  if (state.instance) state.instance->boot().abort(status, reason);
  _exit(status);
}

int raise(const char* function, Owner owner, int error) {
  if (blamed) owner = std::exchange(blamed, nullptr);
  last_code = error;
  last_text = full_text(function, error, last_failure());
  clear_failure();
  const comm::Errhandler& handler = handler_of(owner);
  switch (handler.action) {
    case comm::Errhandler::Action::return_: break;
    case comm::Errhandler::Action::user: call_user(handler, owner, error); break;
    case comm::Errhandler::Action::fatal:
    case comm::Errhandler::Action::abort: {
      const int error_class = error_class_of(error);
      const int status = error_class > 0 && error_class < 256 ? error_class : 1;
      end_job(status, "fatal error in " + last_text + " [" + std::string(error_name(error_class)) + "]");
    }
  }
  return error;
}

}  // namespace weft::api
