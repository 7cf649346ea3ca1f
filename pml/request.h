// Requests: what MPI_Request handles point to, and what collectives and the transports complete.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/object.h"
#include "runtime/type/datatype.h"

namespace weft::pml {

class Lane;

/// What MPI_Status tells, in full width.
struct Outcome {
  int32_t source = -1;  ///< rank in the team, MPI_ANY_SOURCE when empty
  int32_t tag = -2;
  int32_t error = 0;  ///< MPI error class
  bool cancelled = false;
  uint64_t bytes = 0;  ///< packed bytes received
};

enum class RequestKind : uint8_t {
  send,
  receive,
  collective,
  persistent_send,
  persistent_receive,
  persistent_collective,
  generalized,
  partitioned_send,
  partitioned_receive,
};

/// Base of all requests. Derived kinds live in pools of their own; `ops` is their behaviour.
struct Request : Object {
  /// Behaviour of a kind of request. Null members: not applicable.
  struct Ops {
    void (*start)(Request&);           ///< persistent ones
    bool (*cancel)(Request&);          ///< tries to cancel; true if it was cancelled
    int (*query)(Request&, Outcome&);  ///< generalized: fills the outcome; may return a user's error
    void (*destroy)(Request&);         ///< gives back the memory; the last reference is gone
  };

  std::atomic<bool> complete{false};
  bool persistent = false;
  bool active = true;    ///< persistent: started and not yet waited for
  bool watched = false;  ///< the helper counts on its end
  RequestKind request_kind;
  const Ops* ops;
  Lane* lane;
  void* team_owner = nullptr;           ///< the Communicator whose error handler applies (set by api)
  void (*drop_owner)(void*) = nullptr;  ///< if set: team_owner is retained, and dropped by this with the last reference
  Outcome outcome;
  /// Called once at completion, under the lane's lock, before `complete` is set visible; may enqueue work, may not progress.
  void (*on_done)(Request&) = nullptr;
  void* context = nullptr;

  Request(RequestKind k, const Ops* o, Lane* l) : Object(Kind::request), request_kind(k), ops(o), lane(l) {}
  static void destroy(Request* r) {
    void* const owner = r->team_owner;
    const auto drop = r->drop_owner;
    r->ops->destroy(*r);
    if (drop) drop(owner);
  }
};

}  // namespace weft::pml
