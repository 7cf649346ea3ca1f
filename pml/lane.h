// The lane: matching queues, protocols, pools and progress under one lock. The interface that coll, comm, rma and api use.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "pml/request.h"
#include "pml/team.h"
#include "runtime/boot/boot.h"
#include "runtime/mem/memory_kind.h"
#include "runtime/type/datatype.h"

namespace weft::pml {

enum class Mode : uint8_t { standard, synchronous, ready };  // buffered is built on standard, in pml/buffered

/// User memory as a message sees it. The datatype is retained while a request uses it.
struct Buffer {
  void* address = nullptr;
  uint64_t count = 0;
  const type::Datatype* type = nullptr;
  mem::MemKind memory = mem::MemKind::host;
};

constexpr int any_source = -1;  // MPI_ANY_SOURCE
constexpr int any_tag = -2;     // MPI_ANY_TAG
constexpr int proc_null = -3;   // MPI_PROC_NULL

/// A message taken out of matching by a matched probe (MPI_Message).
struct Message;

enum class Traffic : uint8_t { user, collective };  ///< separate matching spaces of one team

/// Work put off until callbacks have returned. Lives in the object that it belongs to; queued at most once at a time.
struct Deferred {
  void (*run)(Deferred&) = nullptr;
  Deferred* next = nullptr;
};

/// Everything point-to-point of one process (one lane today; threads on different communicators get their own later).
/// Ranks as threads each have their own. Thread-safe if made with `threads` true; otherwise no lock is ever taken.
/// All ranks, tags and counts are valid (the API has checked them); `dest`/`source` may be proc_null, sources any_source.
class Lane {
 public:
  /// Opens the transports named by WEFT_NET and publishes their addresses; the caller fences afterwards.
  static Result<std::unique_ptr<Lane>> open(boot::Bootstrap&, bool threads);
  virtual ~Lane() = default;

  virtual boot::Bootstrap& boot() = 0;

  // Blocking. Return MPI error classes through Outcome.error as well; Status says how the wait ended.
  virtual Status send(Team&, int dest, int tag, Traffic, const Buffer&, Mode = Mode::standard) = 0;
  virtual Status receive(Team&, int source, int tag, Traffic, const Buffer&, Outcome&) = 0;

  // Nonblocking. The request has one reference, the caller's.
  virtual Request* isend(Team&, int dest, int tag, Traffic, const Buffer&, Mode = Mode::standard) = 0;
  virtual Request* ireceive(Team&, int source, int tag, Traffic, const Buffer&) = 0;

  // Persistent: inactive until request->ops->start.
  virtual Request* send_init(Team&, int dest, int tag, const Buffer&, Mode) = 0;
  virtual Request* receive_init(Team&, int source, int tag, const Buffer&) = 0;

  /// True if a matching message has arrived; does not progress more than once.
  virtual bool probe_now(Team&, int source, int tag, Outcome&) = 0;
  /// Takes a matching message out of matching; null if none is there.
  virtual Message* match_now(Team&, int source, int tag, Outcome&) = 0;
  virtual Request* ireceive(Message*, const Buffer&) = 0;
  static Message* no_process();  ///< MPI_MESSAGE_NO_PROC

  /// Tries to cancel a request (sends: only while nothing has left; receives: while unmatched).
  virtual void cancel(Request&) = 0;

  /// One round of progress over all transports and hooks; number of events. Never re-entered: a call from a callback returns 0.
  virtual int progress() = 0;

  /// Waits (spin, yield, sleep by how crowded the node is) until `done` returns true, the job aborts, or a peer in `team`
  /// (may be null) fails. `done` is called under the lane's lock.
  virtual Status wait_until(bool (*done)(void*), void* argument) = 0;
  Status wait(Request& request) {
    return wait_until([](void* r) { return static_cast<Request*>(r)->complete.load(std::memory_order_acquire); }, &request);
  }
  /// As wait_until, with a limit: Status::again when the time is over.
  virtual Status wait_for(bool (*done)(void*), void* argument, uint64_t nanoseconds) = 0;

  /// As wait_until, for a condition on shared memory that its writers change without ringing any bell (node kernels of the
  /// collectives): progresses and yields as usual, but never sleeps longer than about a millisecond at a time.
  virtual Status wait_silent(bool (*done)(void*), void* argument) = 0;

  /// Runs `work.run(work)` once in the next round of progress, under the lock, after all callbacks have returned. May be called
  /// from callbacks. The work may post (isend, ireceive), complete requests and defer more; it may not progress or wait.
  virtual void defer(Deferred& work) = 0;

  /// Marks a request complete: runs on_done, then publishes `complete`. Under the lock (collectives, generalized requests).
  virtual void complete(Request&) = 0;
  /// Runs `work` once under the lane's lock (never from inside a callback).
  virtual void locked(const std::function<void()>& work) = 0;

  /// A fresh context id led by this process; see Context.
  virtual Context new_context() = 0;

  /// True if a team member shares memory with this process (same node, shm works).
  virtual bool same_node(const Team&, uint32_t rank) = 0;

  /// Makes every later wait end with `status` (abort, revocation of the job).
  virtual void poison(Status status) = 0;

  /// Completes all outstanding traffic this process owes others and closes the transports (MPI_Finalize).
  virtual Status close() = 0;
};

}  // namespace weft::pml
