// The lane: matching queues, protocols, pools and progress under one lock. The interface that coll, comm, rma and api use.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "btl/btl.h"
#include "pml/addresses.h"
#include "pml/buffer.h"
#include "pml/lock.h"
#include "pml/matcher.h"
#include "pml/openings.h"
#include "pml/operations.h"
#include "pml/paths.h"
#include "pml/patience.h"
#include "pml/payloads.h"
#include "pml/peer.h"
#include "pml/prices.h"
#include "pml/request.h"
#include "pml/rover.h"
#include "pml/team.h"
#include "pml/transfer.h"
#include "runtime/boot/boot.h"
#include "runtime/obs/ring.h"

namespace weft::pml {

class Helper;

/// A message taken out of matching by a matched probe (what an MPI_Message handle points to).
struct Message : Object {
  Unexpected* arrived = nullptr;  ///< null for MPI_MESSAGE_NO_PROC
  Lane* lane = nullptr;
  void* team_owner = nullptr;  ///< as of the request that receives it (set by api)
  Outcome outcome;
  Message() : Object(Kind::message) {}
  static void destroy(Message*);
};

/// Work put off until callbacks have returned. Lives in the object that it belongs to; queued at most once at a time.
struct Deferred {
  void (*run)(Deferred&) = nullptr;
  Deferred* next = nullptr;
  bool users = false;  ///< runs code of the user's: not on a thread that is not the program's
};

/// Something that a lane looks at in each round, as nobody rings when it changes.
struct Watch {
  /// Under the lane's lock; may do what deferred work may. Returns how much has happened.
  int (*look)(Watch&) = nullptr;
  Watch* next = nullptr;
  Company* company = nullptr;  ///< those that change it, as far as they can be seen: they end after it
};

/// What a lane counts. Read without a lock for reports: values may be a little old.
struct Counters {
  uint64_t unexpected_bytes = 0;  ///< held for receives to come, each message with kMessageCost
  uint64_t unexpected_bytes_peak = 0;
  uint64_t unexpected_messages = 0;  ///< that arrived before their receive, in all
  uint64_t without_credit = 0;       ///< sends that waited for their receiver because the peer had no room for eager data
  uint64_t held_up = 0;              ///< times that messages waited here because a peer had no room even for their announcements
  uint64_t lent = 0;                 ///< times that a peer was given room beyond its window: a receive waited for what is behind
  uint64_t no_room = 0;              ///< sends that found the wire full
  uint64_t lapsed = 0;               ///< sends offered to be read that have ended by leaving a copy, as nobody came
  uint64_t rendezvous = 0;           ///< sends that waited for their receiver, whatever the reason
  uint64_t early = 0;                ///< messages that arrived before an earlier one
  uint64_t overtaking = 0;           ///< those of them that were matched at once, as their communicator allows
  uint64_t sleeps = 0;
  uint64_t helped = 0;         ///< events that the helper took
  uint64_t ways_lost = 0;      ///< of several to a peer
  uint64_t ways_back = 0;      ///< of those, that work again
  uint64_t sent_again = 0;     ///< messages and fragments that went over another way
  uint64_t read_in_place = 0;  ///< blocks of collectives that were read out of their owners' memory
};

/// News from other threads: the one word that every round of progress looks at, and what stands behind it. Shared with the
/// bootstrap's callback, which may outlive the lane.
struct Alarm {
  std::atomic<bool> raised{false};  ///< there are failed processes to handle
  std::atomic<uint8_t> poison{0};   ///< a Status; every wait ends with it
  int wake_fd = -1;                 ///< eventfd that ends the sleep of waiting threads
  std::mutex lock;
  std::vector<ProcessId> failed;  ///< guarded by `lock`

  Alarm();
  ~Alarm();
  void wake() const;
  /// A process has failed. From any thread.
  void report(ProcessId);
};

/// Memory of an unexpected message besides its data. What is held takes at most twice the sum of both: blocks come in powers of two.
constexpr int64_t kMessageCost = 128;
/// The least room that a lane has at another process's lane.
constexpr int64_t kLeastRoom = 16 << 10;

/// The number that stands for a kind of wire in messages and published addresses.
uint32_t wire_name(const char* name);
/// Among the addresses that a process publishes: its number of lanes, if it has several.
constexpr const char* kLaneCount = "lanes";

/// Point-to-point of one process, or of some of its communicators (lanes.h). Ranks as threads each have their own. Thread-safe if made with
/// `threads` true; otherwise no lock is taken but while a helper may come. All ranks, tags and counts are valid (the API has checked them);
/// `dest`/`source` may be proc_null, sources any_source.
class Lane final : private btl::Sink {
 public:
  /// Opens the transports named by WEFT_NET and publishes their addresses; the caller fences afterwards.
  static Result<std::unique_ptr<Lane>> open(boot::Bootstrap&, bool threads);
  /// The same by a list as in WEFT_NET.
  static Result<std::unique_ptr<Lane>> open_named(boot::Bootstrap&, bool threads, std::string_view names);
  /// The same over given transports (tests).
  static Result<std::unique_ptr<Lane>> open_over(boot::Bootstrap&, bool threads, std::vector<std::unique_ptr<btl::Transport>>);
  ~Lane() override;
  Lane(const Lane&) = delete;

  // For Lanes.
  /// Opens without publishing or watching for failures.
  static Result<std::unique_ptr<Lane>> assemble(boot::Bootstrap&, bool threads);
  /// Makes the lanes of a process known to each other: who waits on one looks after all.
  static void join(const std::vector<std::unique_ptr<Lane>>& lanes, std::shared_ptr<Openings> openings);
  Result<void> publish();
  /// Are all transports cheap enough to be there several times?
  bool light() const;
  const std::shared_ptr<Alarm>& alarm() const { return alarm_; }

  boot::Bootstrap& boot() { return boot_; }

  // Blocking. Outcome.error is the MPI error class; Status says how the wait ended, and fail() has its text.
  [[gnu::always_inline]] Status send(Team& team, int dest, int tag, Traffic traffic, const Buffer& buffer, Mode mode = Mode::standard) {
    if (mode != Mode::synchronous && send_at_once(team, dest, tag, traffic, buffer)) [[likely]]
      return Status::ok;
    return send_slowly(team, dest, tag, traffic, Buffer(buffer), mode);  // a copy, so that the caller's need not be in memory
  }
  /// Sends if nothing stands in the way of a small message; false: nothing has happened. `dest` may be no rank at all.
  [[gnu::always_inline]] bool send_at_once(Team& team, int dest, int tag, Traffic traffic, const Buffer& buffer,
                                           obs::What what = obs::What::send) {
    if (lock_.enabled()) [[unlikely]]
      return false;
    Peer* const to = team.known_peer(dest);
    return to && buffer.type->contiguous && send_quickly(team, *to, dest, tag, traffic, buffer, what);
  }
  [[gnu::always_inline]] Status receive(Team& team, int source, int tag, Traffic traffic, const Buffer& buffer, Outcome& outcome) {
    if (source == proc_null || lock_.enabled() || !buffer.type->contiguous) [[unlikely]]
      return receive_slowly(team, source, tag, traffic, Buffer(buffer), outcome);
    if (receive_next(team, source, tag, traffic, buffer, outcome)) return Status::ok;
    return receive_resident(resident_for(team, source, tag, traffic, buffer), outcome);
  }
  /// Is it worthwhile to look for short messages by receive_at_once() before receives of them are posted?
  bool looks_first() const { return !crowded_ && !lock_.enabled(); }
  /// Receives what comes next from the source, if that is the message and short, and comes in a moment; false: nothing has happened.
  bool receive_at_once(Team& team, int source, int tag, Traffic traffic, const Buffer& buffer, Outcome& outcome) {
    return source != proc_null && !lock_.enabled() && buffer.type->contiguous && receive_next(team, source, tag, traffic, buffer, outcome);
  }

  /// Nonblocking. The request has one reference, the caller's. It may be complete on return, and is then possibly shared with
  /// other such requests (`predefined`): set nothing in a request that is complete.
  Request* isend(Team&, int dest, int tag, Traffic, const Buffer&, Mode = Mode::standard);
  [[gnu::always_inline]] Request* ireceive(Team& team, int source, int tag, Traffic traffic, const Buffer& buffer) {
    if (source == proc_null || lock_.enabled()) [[unlikely]]
      return ireceive_slowly(team, source, tag, traffic, Buffer(buffer));
    return &ireceive_here(team, source, tag, traffic, buffer);
  }

  /// As isend. Where messages cost less together than one by one, all but the first few small ones to a peer since the last round of
  /// progress wait for the next, or until there are enough of them. Their request is shared: set nothing in it.
  [[gnu::always_inline]] Request* isend_among_others(Team& team, int dest, int tag, Traffic traffic, const Buffer& buffer, Mode mode) {
    if (gathering_.load(std::memory_order_relaxed) && dest >= 0) [[unlikely]]
      if (Request* together = gather(team, dest, tag, traffic, Buffer(buffer), mode)) return together;
    if (dest < 0 || lock_.enabled() || !may_send_quickly(buffer, mode)) [[unlikely]]
      return isend(team, dest, tag, traffic, Buffer(buffer), mode);
    if (send_quickly(team, team.peer(static_cast<uint32_t>(dest)), dest, tag, traffic, buffer, obs::What::isend)) [[likely]]
      return sent_;
    return post_send(team, dest, tag, traffic, Buffer(buffer), mode);
  }
  /// The same of a small message that nothing stands in the way of, and whose request is sent(); false: nothing has happened. `dest` may be
  /// no rank at all.
  [[gnu::always_inline]] bool isend_at_once(Team& team, int dest, int tag, const Buffer& buffer) {
    if (gathering_.load(std::memory_order_relaxed) || lock_.enabled() || phase_ == Phase::polling) [[unlikely]]
      return false;
    return send_at_once(team, dest, tag, Traffic::user, buffer, obs::What::isend);
  }
  /// Posts a receive if all there is to it is to wait for its message; null: nothing has happened. The type is predefined and contiguous;
  /// the source may be no rank at all.
  [[gnu::always_inline]] Request* ireceive_at_once(Team& team, int source, int tag, const Buffer& buffer) {
    if (lock_.enabled() || !free_transfers_ || helper_ || any_failed_ || !hungry_.empty() || ring_.keeps_times() ||
        team.promises().exact_length || !matcher_.goes_on_alike(context_of(team.context(), Traffic::user), source, tag)) [[unlikely]]
      return nullptr;
    if (static_cast<uint32_t>(source) >= team.remote_size()) [[unlikely]]
      return nullptr;
    Transfer& t = prepare<true>(RequestKind::receive, team, source, tag, Traffic::user, buffer);
    ring_.add_without_time(obs::What::ireceive, t.match_context, source, tag, t.capacity).type = buffer.type->abi_handle;
    t.stage = Stage::posted;
    matcher_.post_alike(t);
    return &t;
  }
  /// Is it a request of one message whose only reference is the caller's? Then dispose() gives it back, if it has ended well.
  [[gnu::always_inline]] static bool disposable(const Request& r) {
    return r.request_kind <= RequestKind::receive && r.references.load(std::memory_order_acquire) == 1 && !r.lane->lock_.enabled();
  }
  [[gnu::always_inline]] static void dispose(Request& r) {
    auto& t = static_cast<Transfer&>(r);
    if (!t.plain) [[unlikely]]
      return r.lane->recycle(t);
    r.lane->give_back(t);
  }

  /// The request of a send that is complete: shared, needs no release.
  Request* sent() { return sent_; }

  // Persistent: inactive until request->ops->start.
  Request* send_init(Team&, int dest, int tag, const Buffer&, Mode);
  Request* receive_init(Team&, int source, int tag, const Buffer&);

  /// Looks for a matching message after one round of progress; does not wait.
  bool probe_now(Team&, int source, int tag, Outcome&);
  /// Takes a matching message out of matching; null if none is there.
  Message* match_now(Team&, int source, int tag, Outcome&);
  /// Waits for a matching message. It stays (probe) or is taken out (match).
  Status probe(Team&, int source, int tag, Outcome&);
  Status match(Team&, int source, int tag, Message*&, Outcome&);
  /// Receives a matched message; destroys it.
  Request* ireceive(Message*, const Buffer&);
  static Message* no_process();  ///< MPI_MESSAGE_NO_PROC

  /// Tries to cancel a request that is not matched. It completes either way: at once, or, if it is a send that has been announced, when the
  /// receiver's process has answered or received it.
  void cancel(Request&);

  /// One round of progress over all transports and deferred work; number of events. Never re-entered: a call from a callback
  /// returns 0.
  int progress();
  /// The same on all lanes of this process.
  int progress_all() { return progress() + help_others(); }
  /// Ends sends, of all lanes of the process, that wait to be read and may leave copies instead, as far as there is room for these.
  void leave_all_copies();

  /// Waits (spin, yield, sleep by how crowded the node is) until `done` returns true or the job aborts. `done` is called under
  /// the lane's lock, and not again once it has returned true. Operations with a failed peer complete with an error, so that waiting for
  /// requests always ends.
  Status wait_until(bool (*done)(void*), void* argument) { return wait_loop(done, argument, kForever, nullptr); }
  Status wait(Request& request) {
    if (request.complete.load(std::memory_order_acquire)) return Status::ok;
    return wait_until([](void* r) { return static_cast<Request*>(r)->complete.load(std::memory_order_acquire); }, &request);
  }
  /// As wait_until, with a limit: Status::again when the time is over.
  Status wait_for(bool (*done)(void*), void* argument, uint64_t nanoseconds);

  /// As wait_until, for a condition on shared memory that its writers change without a message (node kernels of the collectives):
  /// progresses and yields as usual, but never sleeps longer than about a millisecond at a time, unless those writers, the `company`, wake
  /// who sleeps.
  Status wait_silent(bool (*done)(void*), void* argument, Company& company) { return wait_loop(done, argument, kForever, &company); }
  /// The same, among strangers.
  Status wait_silent(bool (*done)(void*), void* argument);
  /// Wakes another rank's process, if it sleeps: what this thread has written before it finds there then. False: that cannot be.
  bool rouse(Team&, uint32_t rank);
  /// Can others do that to this one?
  bool can_be_roused() const;

  /// Runs `work.run(work)` once in the next round of progress, under the lock, after all callbacks have returned. May be called
  /// from callbacks. The work may post (isend, ireceive), complete requests and defer more; it may not progress or wait.
  void defer(Deferred& work);

  /// From now on until unwatch(), which may be called in its look(). Under the lock; once at a time.
  void watch(Watch&);
  void unwatch(Watch&);
  /// All processes of the node, a team of them, tell each other what CPUs they lend, until leaves(). Without effect where several threads
  /// wait.
  void joins(Household&, const Team&);
  void leaves(Household& h) {
    std::erase_if(households_, [&](const auto& known) { return known.second == &h; });
  }

  /// Marks a request complete: runs on_done, then publishes `complete`. Under the lock (collectives, generalized requests).
  void complete(Request& request) {
    if (request.on_done) request.on_done(request);
    if (request.watched) [[unlikely]]
      unwatch(request);
    request.complete.store(true, std::memory_order_release);
    rouse();
  }
  /// Said of each request that its user has started, outside of all locks: the helper makes progress with it meanwhile, if there is one.
  void look_after(Request& request) {
    if (helper_ && !request.complete.load(std::memory_order_acquire)) [[unlikely]]
      watch(request);
  }
  /// Runs `work` once under the lane's lock (never from inside a callback).
  template <class Work>
  void locked(Work&& work) {
    std::lock_guard hold(lock_);
    work();
  }

  /// A fresh context id led by this process, of a session if `like` is; see Context. With a `number` its traffic goes over the lane of that
  /// number, modulo how many there are (a power of two).
  Context new_context(Context like, std::optional<uint32_t> number = {});

  /// A collective has read so many blocks out of their owners' memory.
  void note_read(uint64_t blocks) {
    locked([&] { counters_.read_in_place += blocks; });
  }

  /// True if a team member shares memory with this process (same node, shm works).
  bool same_node(const Team&, uint32_t rank);

  /// Makes every later wait end with `status` (abort, revocation of the job). Callable from any thread.
  void poison(Status status);
  Status poisoned() const { return static_cast<Status>(alarm_->poison.load(std::memory_order_acquire)); }

  /// Waits until nothing that was sent needs this process's help any more, as nobody may call for a while.
  void settle();

  /// Completes all outstanding traffic this process owes others and closes the transports (MPI_Finalize).
  Status close();

  /// The lane of a process that matches what has this context; connects to nobody. Under the lock.
  Peer& peer_of(ProcessId, Context);
  /// Has the bootstrap told that a process has ended? Under the lock.
  bool has_ended(ProcessId who) { return any_failed_ && failed_process(who, kMostLanes); }
  /// The ways to a process, that for small messages first; asks the bootstrap, connects to nobody.
  Result<std::vector<Path>> paths_to(ProcessId);

  // Measuring. Both sides do the same at the same time, while nothing else is on the way between them.
  /// The ways to a process, which is connected to. None if it cannot be reached.
  std::vector<WayName> ways_to(ProcessId);
  /// Sends everything to a process over this way until told otherwise (null). False if there is none of that name.
  bool confine(ProcessId, const WayName*);
  /// Can messages take a way now? Under the lock.
  bool works(ProcessId, const WayName&);
  /// From now on ways cost what was measured; others cost what both sides publish. The same on both sides of a way.
  void learn(Prices);

  /// Transports that this process could have and does not use.
  const std::vector<Unused>& unused() const { return unused_; }
  /// Sets this thread's failure text for a request that ended with an error, and returns the error class.
  static int explain(const Request&);

  const Counters& counters() const { return counters_; }
  /// Adds what the lane and its transports have counted.
  void report(obs::Tally&);
  const obs::Ring& ring() const { return ring_; }
  obs::Ring& ring() { return ring_; }
  /// Who waits for whom, for reports of hangs.
  std::string dump();

  // For Team: contexts in use, so that failures of processes find the receives that wait for them.
  void enlist(Team&);
  void discharge(Team&);

 private:
  friend struct TransferOps;
  friend class Helper;
  static constexpr uint64_t kForever = ~uint64_t{0};

  struct Sleep;
  struct Correspondents;
  /// A transport, and what decides how often it is polled.
  struct Wire {
    std::unique_ptr<btl::Transport> transport;
    uint32_t name = 0;
    uint32_t number = 0;  ///< among the lane's
    bool self = false;
    bool cheap = false;    ///< polling costs no system call
    bool touched = false;  ///< a peer is connected over it
    bool lively = false;   ///< something came lately
    uint64_t events = 0;
  };
  enum class Phase : uint8_t { idle, polling, working };

  Lane(boot::Bootstrap&, bool threads, std::vector<std::unique_ptr<btl::Transport>>);
  static Result<std::unique_ptr<Lane>> assemble_named(boot::Bootstrap&, bool threads, std::string_view names);
  static Result<std::unique_ptr<Lane>> set_off(std::unique_ptr<Lane>);
  void watch_failures();
  /// The way to a seat; connects to nobody. Under the lock.
  Peer& peer(ProcessId seat);

  // sending (send.cc)
  bool may_send_quickly(const Buffer& buffer, Mode mode) const {
    return phase_ != Phase::polling && buffer.type->contiguous && mode != Mode::synchronous;
  }
  template <bool kGather = false, MessageKind kKind = MessageKind::eager>
  [[gnu::always_inline]] bool send_quickly(Team& team, Peer& to, int dest, int tag, Traffic traffic, const Buffer& buffer, obs::What what) {
    const uint64_t bytes = buffer.count * buffer.type->size;
    if (bytes >= to.quick_below || buffer.memory != mem::MemKind::host) [[unlikely]]
      return false;
    const Context context = context_of(team.context(), traffic);
    const btl::Header header{
        context, tag, static_cast<int32_t>(team.rank()), static_cast<uint32_t>(bytes), to.next_sequence, static_cast<uint8_t>(kKind), 0};
    const void* payload = static_cast<const std::byte*>(buffer.address) + buffer.type->origin;
    if ((kGather ? to.endpoint->gather(header, payload) : to.endpoint->try_inline(header, payload)) != Status::ok) [[unlikely]]
      return false;
    ++to.next_sequence;
    charge(to, bytes);
    ring_.add(what, context, dest, tag, bytes).type = buffer.type->abi_handle;
    return true;
  }
  void charge(Peer& to, uint64_t bytes) {
    to.credit -= static_cast<int64_t>(bytes) + kMessageCost;
    if (to.credit <= 0) [[unlikely]]
      to.quick_below = 0;
  }
  Status send_slowly(Team&, int dest, int tag, Traffic, const Buffer&, Mode);
  Request* send_synchronously(Team&, int dest, int tag, Traffic, const Buffer&);
  Transfer* post_send(Team&, int dest, int tag, Traffic, const Buffer&, Mode);
  void start_send(Transfer&);
  Status emit(Transfer&);
  Status emit_eager(Transfer&, Peer&);
  void await_answer(Transfer&, Peer&, uint16_t sequence);
  Status emit_announcement(Transfer&, Peer&);
  Status emit_in_place(Transfer&, Peer&, const btl::Header&);
  static void left_in_place(btl::Operation&, Status);
  Status put_in_place(Peer&, btl::Endpoint&, const btl::Caps&, const btl::Header&, std::span<const iovec> payload, btl::Operation&);
  Status put_over(Peer&, btl::Endpoint&, const btl::Caps&, const btl::Header&, const void* payload);
  Status put_on_wire(Peer&, btl::Header&, const void* payload);
  Status put_control(Peer&, Control&);
  void answer(Peer&, Control&);
  void control(Peer&, MessageKind, uint64_t context, uint64_t number = 0);
  void queue(Peer&);
  void flush(Peer&);
  bool flush_controls(Peer&);
  bool flush_pending(Peer&);
  void restore_quick(Peer&);

  // messages that leave together (batch.cc)
  Request* gather(Team&, int dest, int tag, Traffic, const Buffer&, Mode);
  void hold(Peer&);
  void send_off();

  // receiving (receive.cc)
  Status receive_slowly(Team&, int source, int tag, Traffic, const Buffer&, Outcome&);
  Status receive_resident(Transfer&, Outcome&);
  /// Receives what comes next from the source, if that is the message and short, past matching and requests. False: nothing has happened.
  /// Nothing else makes progress meanwhile: a short time, and not each time.
  [[gnu::always_inline]] bool receive_next(Team& team, int source, int tag, Traffic traffic, const Buffer& buffer, Outcome& outcome) {
    Peer* const from = next_from(team, source, tag);
    if (!from || buffer.memory != mem::MemKind::host || team.promises().exact_length) return false;
    const uint64_t room = buffer.count * buffer.type->size;
    btl::Endpoint::Next next = next_message(team, *from, source, tag, traffic, room);
    std::byte* const to = static_cast<std::byte*>(buffer.address) + buffer.type->origin;
    if (!from->endpoint->receive_next(next, to, direct_looks()) && !receive_next_synchronous(*from, next, to)) return false;
    ++from->expected;
    ring_.add(obs::What::receive, next.header.context, source, tag, room).type = buffer.type->abi_handle;
    came_unasked(*from, next.header.length);
    outcome = {source, next.header.tag, 0, false, next.header.length};
    return true;
  }
  bool receive_next_synchronous(Peer& from, btl::Endpoint::Next& next, std::byte* to);
  /// The same for probes: the message stays where it is.
  bool probe_next(Team& team, int source, int tag, int looks, Outcome& outcome) {
    if (lock_.enabled()) return false;
    Peer* const from = next_from(team, source, tag);
    if (!from) return false;
    btl::Endpoint::Next next = next_message(team, *from, source, tag, Traffic::user, ~uint32_t{0});
    if (!from->endpoint->peek_next(next, looks)) return false;
    ring_.add(obs::What::probe, team.context(), source, tag, 0);
    outcome = {source, next.header.tag, 0, false, next.header.length};
    return true;
  }
  /// Whom a message comes from that may be taken past everything else, as nothing else is waited for; null: it may not, this time.
  Peer* next_from(Team& team, int source, int tag) {
    Peer* const from = team.known_peer(source);
    if (!from || !matcher_.idle() || (tag < 0 && tag != any_tag)) return nullptr;
    return comes_next(*from) && quiet() && (++direct_ & kDirectAtMost) ? from : nullptr;
  }
  /// Is a peer's next message what stands next on its only way?
  static bool comes_next(const Peer& from) { return from.endpoint && !from.landing && from.early.empty(); }
  /// Is there nothing to do but to wait for messages?
  bool quiet() const {
    return phase_ == Phase::idle && !holding_ && !to_flush_ && !deferred_ && to_move_.empty() && !watches_ && hungry_.empty() &&
           !any_failed_;
  }
  int receive_alike();
  static btl::Endpoint::Next next_message(const Team& team, const Peer& from, int source, int tag, Traffic traffic, uint64_t room) {
    const auto most = static_cast<uint32_t>(std::min<uint64_t>(room, ~uint32_t{0}));
    return {{context_of(team.context(), traffic), tag, source, most, from.expected, static_cast<uint8_t>(MessageKind::eager), 0},
            tag == any_tag};
  }
  static constexpr int kDirectLooks = 200, kFewLooks = 30;  // a microsecond, and a part of one
  /// Where CPUs are shared, few, and one where they have been in vain lately. Not to be asked while other threads may wait.
  int direct_looks() const { return !crowded_ ? kDirectLooks : patience_.pays() ? kFewLooks : 1; }
  static constexpr uint32_t kDirectAtMost = 15;  // of so many and one receives
  /// Blocking receives of contiguous data use one transfer of the lane's own, which needs neither taking nor giving back.
  [[gnu::always_inline]] Transfer& resident_for(Team& team, int source, int tag, Traffic traffic, const Buffer& buffer) {
    Transfer& t = *resident_;
    t.match_context = context_of(team.context(), traffic);
    t.source = t.dest = source;
    t.tag = tag;
    t.team = &team;
    use<true>(t, buffer);
    t.outcome.error = 0;
    t.complete.store(false, std::memory_order_relaxed);
    ring_.add(obs::What::receive, t.match_context, source, tag, t.capacity).type = buffer.type->abi_handle;
    return t;
  }
  static Status received_badly(const Transfer&);
  Status give_up_receive(Transfer&, Status);
  Request* ireceive_slowly(Team&, int source, int tag, Traffic, const Buffer&);
  [[gnu::always_inline]] Transfer& ireceive_here(Team& team, int source, int tag, Traffic traffic, const Buffer& buffer) {
    Transfer& t = prepare(RequestKind::receive, team, source, tag, traffic, buffer);
    ring_.add(obs::What::ireceive, t.match_context, source, tag, t.capacity).type = buffer.type->abi_handle;
    if (team.promises().exact_length && traffic == Traffic::user) [[unlikely]]
      t.on_done = check_length;
    post(t);
    return t;
  }
  /// Brings a receive to the matcher.
  [[gnu::always_inline]] void post(Transfer& t) {
    t.stage = Stage::posted;
    if (Unexpected* found = matcher_.post(t)) return take_up(t, *found);
    if (any_failed_ || !hungry_.empty()) [[unlikely]]
      await(t);
  }
  void take_up(Transfer&, Unexpected&);
  void await(Transfer&);
  void matched(Transfer&, const btl::Header&, Peer&, const std::byte* payload);
  void deliver(Transfer&, const btl::Header&, const std::byte* data, uint64_t bytes);
  void take_credit(Peer& from, uint64_t bytes) {
    from.consumed += static_cast<int64_t>(bytes) + kMessageCost;
    if (from.consumed >= give_back_at_) [[unlikely]]
      give_credit(from);
  }
  /// A message whose data has come with it has been received.
  void came_unasked(Peer& from, uint64_t bytes) {
    take_credit(from, bytes);
    if (bytes >= kOfferFrom) [[unlikely]]
      weigh(from, bytes);
  }
  void keep(Peer&, const btl::Header&, const std::byte* payload);
  Unexpected& store(Peer&, const btl::Header&, const std::byte* payload);
  void discard(Unexpected&);
  Transfer* lands_early(Peer&, const btl::Header&, bool in_one_piece);
  void landed(Peer&, const btl::Header&);
  void match_or_keep(Peer&, const btl::Header&, const std::byte* payload);
  void in_turn(Peer&, const btl::Header&, const std::byte* payload);
  static void check_length(Request& receive);
  Team* team_of(Context) const;
  void after_arrival(Peer&);
  void arrived_otherwise(Peer&, const btl::Header&, const std::byte* payload);
  void arrived_early(Peer&, const btl::Header&, const std::byte* payload);
  void drain_early(Peer&);
  void fill(Outcome&, const Unexpected&) const;
  Unexpected* look(Team&, int source, int tag, Outcome&);
  template <class Answer>
  auto ask(Answer answer);
  Message* take_out(Unexpected&);
  Status wait_for_message(Team&, int source, int tag, Outcome&, Message**);

  // what could be eager, offered to be read (offer.cc)
  bool offers(const Transfer&, Peer&, const Protocols&);
  void weigh(Peer& from, uint64_t bytes);
  btl::Flow flow_from(Peer&);
  bool contended();
  void let_lapse(Transfer&, const Peer&);
  void on_wish(Peer&, bool reads);
  bool recalled(const Transfer&) const;
  void look_after_offers();
  void leave_copies(uint8_t least_age);
  void leave_copy(Transfer&);
  void forget_copy(Transfer&);

  // large messages (rendezvous.cc)
  static constexpr uint64_t kStripeFrom = 256 << 10;  // bytes that are worth waking the other ways for
  Bulkwork& bulk_of(Transfer&);
  void on_announcement(Transfer&, const btl::Header&, Peer&, const std::byte* payload);
  void start_moving(Transfer&);
  void ask_for_data(Transfer&);
  void on_clear(Peer&, const btl::Header&, const std::byte* payload);
  void on_fragment(Peer&, const btl::Header&, const std::byte* payload);
  void on_written(Peer&, const btl::Header&);
  void landed(Transfer&, uint64_t bytes);
  void on_finished(Peer&, const btl::Header&);
  void on_received(Peer&, const btl::Header&);
  void withdraw(Transfer&);
  void on_withdraw(Peer&, const btl::Header&);
  void on_withdrawn(Peer&, const btl::Header&);
  static void abandoned(btl::Operation&);

  // room for what nobody has asked for yet (room.cc)
  bool has_room(const Peer& to, uint64_t bytes) const { return to.credit >= static_cast<int64_t>(bytes) + kMessageCost; }
  int64_t part_of_room(int64_t parts) const { return std::max(room_ / parts, kLeastRoom); }
  void measure_out(Peer& to, uint32_t lanes_there);
  bool has_reserve(const Peer& to, uint64_t bytes) const { return to.credit + to.reserve >= static_cast<int64_t>(bytes) + kMessageCost; }
  Status hold_up(Peer& to);
  void give_credit(Peer&);
  void on_credit(Peer&, const btl::Header&);
  void on_held_up(Peer&);
  void relieve(Peer&);
  void make_room(const Team&, int source);

  /// A way that large data can take.
  struct Outlet {
    btl::Endpoint* endpoint;
    const btl::Caps* caps;
    Track* track;    ///< null: the only way
    size_t slot;     ///< among the ways to the peer, or those of an exposure
    uint64_t limit;  ///< bytes of a piece
    bool full;       ///< it has had no room for one
  };
  /// Those that it can take now, best first: mostly one, so that the others' memory is left as it is.
  struct Outlets {
    std::array<Outlet, kMaxStripes> ways;
    size_t count = 0;
    std::span<Outlet> all() { return {ways.data(), count}; }
  };
  static void share_out(std::span<Outlet>, uint64_t total, uint64_t alone);

  // reading and writing the other side's memory (direct.cc)
  struct WireRail {
    uint32_t wire;  ///< its number
    uint8_t rail;
  };
  Exposure expose(Transfer&, Peer&, uint64_t bytes, size_t most);
  size_t exposing_wires(const Peer&, uint64_t bytes, std::array<WireRail, kMaxStripes>&);
  static bool is_open(const Transfer&, const Outlet&);
  Outlets open_ways(Transfer&);
  bool better_read(const Transfer&, const Outlet&) const;
  bool better_offered(Peer& from, uint64_t bytes, btl::Flow) const;
  bool goes_on_asking(Peer& from, const Bulkwork&) const;
  static bool better_written(const Transfer&, const Outlet&);
  bool spared_if_written(const Transfer&) const;
  void advance(Transfer&, const Outlets&);
  void advance(Transfer&);
  Status read_from(btl::Endpoint&, const btl::Region&, uint64_t offset, std::span<const iovec> local, btl::Operation&);
  bool push_direct(Transfer&, const Outlet&);
  static void direct_done(btl::Operation&, Status);
  void write_again(Peer&, const Stranded&);
  void move_later(Transfer&);
  void move_on(Transfer&);
  void end_direct(Transfer&);
  void go_without(Transfer&);

  // fragments (stream.cc)
  void stream(Transfer&);
  Outlets outlets(Peer&, uint64_t total);
  bool push_stream(Transfer&);
  bool push_over(Transfer&, Outlet&);
  static Piece in_place(Bulkwork&, const Outlet&);
  Status push_zcopy(Bulkwork&, const Outlet&, TransferOperation&, const Piece&);
  static Status push_copy(Transfer&, const Outlet&);

  // several ways to one peer (rails.cc)
  Rails& rails_of(Peer&);
  void lay_rails(Peer&);
  Status put_on_rails(Peer&, btl::Header&, const void* payload);
  Status put_counted(Peer&, btl::Header&, const void* payload, Track*& over);
  Status emit_eager_on_rails(Transfer&, Peer&, btl::Header);
  void hold(Rails&, Track&, const btl::Header&, std::byte* payload);
  void forget(Rails&, Sent&);
  void confirm(Rails&, Track&, uint64_t arrived);
  bool arrived_counted(Peer&, const btl::Header&);
  void on_acknowledge(Peer&, const btl::Header&);
  void on_resume(Peer&, const btl::Header&);
  void on_hello(Peer&);
  void ask(Peer&);
  void on_ask(Peer&);
  void on_goodbye(Peer&);
  void refused(Track&);
  void lose(Peer&, Track&, const std::string& why);
  void close_life(Peer&, Track&);
  void settle(Peer&, Track&, uint64_t arrived);
  void send_again(Peer&, Sent&&);
  void greet(Peer&, Track&);
  bool acknowledge(Peer&, Track&);
  bool attend(Peer&, Track&, bool wake);
  bool flush_rails(Peer&);
  void revive(Peer&, Track&, uint64_t now);
  void raise(Peer&, Track&);
  void mend_rails(uint64_t now);
  void mend(Peer&, uint64_t now);
  void forget_rails(Peer&);
  bool owes_on_rails();
  static void zcopy_done(btl::Operation&, Status);
  void end(Transfer&, int error = 0);
  void end_nowhere(Transfer&);
  void release_bulk(Transfer&);

  // peers and failures (peers.cc)
  Result<Addresses> addresses_of(ProcessId);
  bool owes();
  bool holds_messages() const;
  bool is_here(uint32_t rank) const;
  void connect(Peer&);
  void put_in_order(ProcessId, std::vector<Way>&);
  void choose_ways(Peer&);
  void choose_protocols(Peer&);
  void fail_peer(Peer&, const std::string& why);
  void fail_process(ProcessId);
  Peer* failed_process(ProcessId, uint32_t opening);
  bool concerns(const Peer&, const Team&) const;
  uint32_t lanes_of(Peer& first);
  void fail_receives_from(Peer&);
  Peer* failed_source(Team&, int source);
  void refuse_if_failed(Transfer&);
  static const Way* reading_way(const Peer&);
  static bool is_named(const Way& way, const WayName& name) { return way.wire == name.wire && way.endpoint->rail() == name.rail; }
  void handle_alarm();

  // btl::Sink
  void* meet(ProcessId from) override;
  void arrived(void* cookie, const btl::Header&, const std::byte* payload) override;
  std::byte* landing(void* cookie, const btl::Header&) override;
  bool scatter(void* cookie, const btl::Header&, const std::byte* bytes, uint32_t from, uint32_t count) override;
  void lost(void* cookie, const std::string& why) override;

  // progress and waiting (progress.cc, wait.cc)
  int round(bool thorough, bool waits = false);
  bool untouched_due();
  int poll_quiet_wires();
  void touch(Wire&);
  void sort_wires();
  int move_all();
  int run_later_work();
  int look_around();
  uint64_t awake_for(bool silent) const;
  int spins_for(bool silent);
  bool rivals() const { return rivals_.load(std::memory_order_relaxed); }
  enum class Awaited : uint8_t { unseen, at_work, resting };  // one of several at least
  Awaited awaited() const;
  int spins_by_awaited(int idle, int spins);
  void yield(uint64_t now, Company* silent, bool naps);
  void tell_wires();
  Household* household() const { return households_.empty() ? nullptr : households_.begin()->second; }
  /// Who is told of a silent wait: all of the node, if they are known.
  Company* those_beside(Company* silent) const { return households_.empty() ? silent : household(); }
  void fall_asleep(Company* silent);
  Status wait_loop(bool (*done)(void*), void* argument, uint64_t limit_ns, Company* silent);
  template <class Do>
  void each_company(Company* silent, Do&&);
  bool tell_of_sleep(Company* silent, bool briefly);
  int look_before_sleep();
  void get_up_for(Company* silent);
  bool sleep(uint64_t limit_ns, bool (*done)(void*), void* argument, bool woken = false);
  bool arm_all();
  /// Sends sleeping threads to look again: something has completed, or waits for the next round.
  void rouse() {
    if (sleepers_.load(std::memory_order_relaxed)) [[unlikely]]
      alarm_->wake();
  }
  bool others_due();
  int help_others();
  bool lie_down(Sleep&);
  void get_up();

  // the thread that helps (helper.cc)
  void watch(Request&);
  void unwatch(Request&);

  // transfers: the pool is the lane's, its memory comes from one of the process
  Transfer* make_transfer(RequestKind);
  [[gnu::always_inline]] Transfer* take_plain_transfer(RequestKind kind) {
    Transfer* t = free_transfers_;
    free_transfers_ = t->next;
    t->kind = Kind::request;
    t->complete.store(false, std::memory_order_relaxed);
    t->request_kind = kind;
    return t;
  }
  Transfer* take_transfer(RequestKind kind) {
    if (!free_transfers_) [[unlikely]]
      return make_transfer(kind);
    Transfer* const t = take_plain_transfer(kind);
    if (t->plain) renew(*t);
    return t;
  }
  void recycle(Transfer& t) {
    renew(t);
    give_back(t);
  }
  /// Free transfers are as new ones, or plain and have ended well: the next plain receive takes either as it is.
  [[gnu::always_inline]] void give_back(Transfer& t) {
    t.kind = Kind::freed;
    t.peer = nullptr;
    t.next = free_transfers_;
    free_transfers_ = &t;
  }
  void renew(Transfer&);
  /// `kPlain`: there is a free one, and the type is predefined and contiguous.
  template <bool kPlain = false>
  [[gnu::always_inline]] Transfer& prepare(RequestKind kind, Team& team, int rank, int tag, Traffic traffic, const Buffer& buffer) {
    Transfer& t = kPlain ? *take_plain_transfer(kind) : *take_transfer(kind);
    if constexpr (kPlain) t.plain = true;
    t.match_context = context_of(team.context(), traffic);
    t.source = kind == RequestKind::send || kind == RequestKind::persistent_send ? static_cast<int32_t>(team.rank()) : rank;
    t.tag = tag;
    t.dest = rank;
    t.team = &team;
    use<kPlain>(t, buffer);
    return t;
  }
  /// Gives a transfer its memory. The user may free the datatype before the transfer has ended. `kPlain`: it is known to be contiguous, and
  /// to stay: it is predefined, or the call waits.
  template <bool kPlain = false>
  static void use(Transfer& t, const Buffer& buffer) {
    t.buffer = buffer;
    t.capacity = buffer.count * buffer.type->size;
    t.base = kPlain || buffer.type->contiguous ? static_cast<std::byte*>(buffer.address) + buffer.type->origin : nullptr;
    if (kPlain || buffer.type->predefined) [[likely]]
      return;
    retain(const_cast<type::Datatype*>(buffer.type));
    t.type_retained = true;
  }

  // What every message touches.
  LaneLock lock_;
  Phase phase_ = Phase::idle;  // polling: transports call back; what is to be sent waits until they have returned
  uint32_t rounds_ = 0;
  uint64_t asked_untouched_ = 0;  // ticks
  uint32_t direct_ = 0;           // receives that may have been receive_next()
  uint32_t asked_ = 0;            // in vain, while there are other lanes
  const std::shared_ptr<Alarm> alarm_ = std::make_shared<Alarm>();
  std::atomic<int> sleepers_{0};   // threads that sleep; changed under the lock
  std::vector<Lane*> others_;      // of this process
  std::vector<Wire*> busy_wires_;  // polled each round
  Matcher matcher_;
  Transfer* free_transfers_ = nullptr;
  bool gathers_reads_ = false;           // several receives go on
  btl::Endpoint* reads_from_ = nullptr;  // who may hold reads back
  TransferList to_move_;                 // receives that can go on once the transports have returned
  Peer* to_flush_ = nullptr;             // peers with something to send
  Peer* holding_ = nullptr;              // peers with messages held back
  Request* held_ = nullptr;              // of the small ones of all those messages
  bool hold_back_ = false;               // what is sent now leaves with the next send_off()
  uint32_t polled_ = 0;                  // number of the wire whose callbacks run
  uint64_t mend_at_ = 0;                 // when ways to some peer want to be looked after; 0: never
  Deferred *deferred_ = nullptr, *last_deferred_ = nullptr;
  Watch* watches_ = nullptr;
  bool looks_before_sleep_ = false;
  Helper* helper_ = nullptr;  // constant while threads of the program call
  bool helping_ = false;      // the round under way is the helper's
  int pushed_ = 0;            // fragments, in this round
  int64_t give_back_at_ = 0;
  int64_t room_ = 0;           // for a process's unexpected messages at another one, over all lanes
  std::vector<Peer*> hungry_;  // peers with messages held up
  obs::Ring ring_;
  Payloads payloads_;
  Counters counters_;

  boot::Bootstrap& boot_;
  std::shared_ptr<Openings> openings_;  // shared by the lanes of a process
  std::vector<std::unique_ptr<Wire>> wires_;
  std::vector<Unused> unused_;
  Prices prices_;
  std::unordered_map<ProcessId, std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> railed_;      // peers with several ways
  mutable std::mutex teams_lock_;  // taken under lanes' locks, also those of other lanes
  std::unordered_map<Context, Team*> teams_;
  Operations<Transfer> operations_;
  uint64_t owed_ = 0;             // sends begun and not complete
  uint32_t offers_ = 0;           // of those, such as may end by leaving a copy
  uint32_t offers_looked_ = 0;    // times that they have been looked after
  uint32_t offers_idle_ = 0;      // of those, since one has been taken up
  uint32_t contended_ = 0;        // long messages to come for which CPUs count as contended
  Transfer* resident_ = nullptr;  // for blocking receives
  Transfer* sent_ = nullptr;      // the completed send that quick sends share
  Transfer* nowhere_ = nullptr;   // the completed receive from MPI_PROC_NULL
  Lane* first_ = this;            // of this process; contexts are its
  uint32_t next_context_ = 0;
  bool any_failed_ = false;
  bool crowded_ = false;
  Rover rover_;
  bool wires_told_ = false;                   // that a CPU is lent
  std::map<Context, Household*> households_;  // by their teams: all of the node count on the first
  static constexpr int kMostLooks = 300;
  Patience patience_{2, kMostLooks, 2};  // rounds of waits on a crowded node
  Glances glances_;
  std::atomic<bool> rivals_{false};     // somebody takes the CPU of a thread that has yielded just now
  std::atomic<bool> gathering_{false};  // there are wires that can hold messages back; read without the lock
  bool closed_ = false;
};

}  // namespace weft::pml
