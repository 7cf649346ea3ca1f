// From an error class to the user: which error handler, what text.
#pragma once

#include <new>
#include <string_view>

#include "api/handles.h"
#include "api/state.h"
#include "runtime/base/error.h"

namespace weft::api {

/// Whose error handler applies: a communicator, session, window or file, or the error handler of one to be made; null for none of them
/// (then MPI_COMM_SELF's, or the initial one while there is no MPI_COMM_SELF).
using Owner = Object*;

/// Runs the error handler for `error` (a class or code; its text waits in last_failure()) raised by `function`. Returns
/// `error` if the handler returns. `owner` gives way to what blame() named.
[[gnu::cold, gnu::noinline]] int raise(const char* function, Owner owner, int error);

/// A body names the object whose error handler applies to the error it is about to return, where the arguments do not tell
/// (completion of requests). Forgotten with the next error raised in this thread.
void blame(Owner owner);

/// Ends the whole job with a status: one line for people says who and why, then the launcher is told. For fatal errors and
/// MPI_Abort.
[[noreturn]] void end_job(int status, std::string_view why);

/// The full text ("MPI_Send: dest is 7, ...") of this thread's last raised error if it had this code, else empty.
std::string_view last_raised(int code);

// Error classes and codes (api/error_codes.cc).

/// The class that a class or code belongs to; -1 if there is no such code.
int error_class_of(int code);
/// "MPI_ERR_RANK"; empty for the user's own.
std::string_view error_name(int error_class);
/// What the class means in general, or what the user said by MPI_Add_error_string.
std::string_view error_text(int code);
/// The largest error class or code in use: the attribute MPI_LASTUSEDCODE.
int last_used_code();

namespace tool {
/// Calls the tools that wait for events; see api/tool.
[[gnu::cold, gnu::noinline]] void deliver();
/// Remembers what the instance has counted, which is about to end; state.lock is held.
void keep_figures();
}  // namespace tool

/// What an entry calls once the arguments are good: runs a body; raises what it returns.
template <class Body>
inline int run(const char* function, Owner owner, Body body) {
  int error;
  try {
    error = body();
  } catch (const std::bad_alloc&) {
    error = fail(MPI_ERR_NO_MEM, "out of memory");
  }
  if (state.watched.load(std::memory_order_relaxed)) [[unlikely]]
    tool::deliver();
  if (error != MPI_SUCCESS) [[unlikely]]
    return raise(function, owner, error);
  return error;
}

}  // namespace weft::api
