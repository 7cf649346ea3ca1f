#include "pml/lane.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "include/mpi.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/config/config.h"

namespace weft::pml {
namespace {

config::Bytes window_variable("pml", "window", "8M",
                              "Room for messages of one process to another before their receives are posted; more waits at the sender.");
config::Bytes unexpected_variable(
    "pml", "unexpected", "64M",
    "Data from all other processes together that may wait here for receives; divides the window in large jobs.");

using obs::Gauge;
const obs::Figures<Counters> figures(
    "pml",
    {
        {"unexpected_bytes", Gauge::level, &Counters::unexpected_bytes, "bytes of messages that wait here for their receives"},
        {"unexpected_bytes_peak", Gauge::peak, &Counters::unexpected_bytes_peak, "the most bytes that have waited here"},
        {"unexpected_messages", Gauge::counter, &Counters::unexpected_messages, "messages that arrived before their receive"},
        {"without_credit", Gauge::counter, &Counters::without_credit, "sends that waited because the peer had no room for eager data"},
        {"held_up", Gauge::counter, &Counters::held_up, "times that a peer had no room even for announcements, and messages waited here"},
        {"lent", Gauge::counter, &Counters::lent, "times that a peer was lent room because a receive waited for what it held back"},
        {"no_room", Gauge::counter, &Counters::no_room, "sends that found the wire full"},
        {"lapsed", Gauge::counter, &Counters::lapsed, "sends offered to be read that have ended by leaving a copy, as nobody came"},
        {"rendezvous", Gauge::counter, &Counters::rendezvous, "sends that waited for their receiver, whatever the reason"},
        {"early", Gauge::counter, &Counters::early, "messages that arrived before an earlier one of the same sender"},
        {"overtaking", Gauge::counter, &Counters::overtaking, "early messages matched at once, since their communicator allows it"},
        {"sleeps", Gauge::counter, &Counters::sleeps, "times that a wait slept"},
        {"helped", Gauge::counter, &Counters::helped, "events that the helper thread took while the program computed"},
        {"ways_lost", Gauge::counter, &Counters::ways_lost, "ways to a peer lost where there were several"},
        {"ways_back", Gauge::counter, &Counters::ways_back, "lost ways that work again"},
        {"sent_again", Gauge::counter, &Counters::sent_again, "messages and fragments that went over another way"},
        {"read_in_place", Gauge::counter, &Counters::read_in_place, "blocks of collectives that were read out of their owners' memory"},
    });
/// What waits now, and all that was recorded.
struct Queues {
  uint64_t posted, unexpected, operations;
};
const obs::Figures<Queues> queue_figures(
    "pml", {
               {"posted_receives", Gauge::level, &Queues::posted, "receives that wait for their messages"},
               {"waiting_messages", Gauge::level, &Queues::unexpected, "messages that wait for their receives"},
               {"operations", Gauge::counter, &Queues::operations, "sends, receives, probes and collectives begun"},
           });

constexpr const char* kAddresses = "btl";
constexpr uint64_t kCloseLimit_ns = 20'000'000'000;  // without any progress
constexpr uint64_t kDrainLimit_ns = 5'000'000'000;
constexpr int64_t kUsualLanes = 4;  // credit is given back early enough for a peer that has so many, and parts of the room accordingly

Pool<Transfer>& transfers() {
  static auto* pool = new Pool<Transfer>;  // handles may be looked at after everything else is gone
  return *pool;
}
Pool<Message>& messages() {
  static auto* pool = new Pool<Message>;
  return *pool;
}

int64_t room_for(uint32_t job_size) {
  return static_cast<int64_t>(std::min(window_variable.get(), unexpected_variable.get() / std::max(1u, job_size)));
}

}  // namespace

uint32_t wire_name(const char* name) {
  uint32_t hash = 2166136261u;
  for (; *name; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619u;
  return hash;
}

Alarm::Alarm() : wake_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
Alarm::~Alarm() { ::close(wake_fd); }
void Alarm::wake() const {
  const uint64_t one = 1;
  if (write(wake_fd, &one, sizeof one) < 0) return;  // full: it is readable already
}

void Alarm::report(ProcessId who) {
  {
    std::lock_guard hold(lock);
    failed.push_back(who);
  }
  raised.store(true, std::memory_order_release);
  wake();
}

/// The behaviour of transfers as requests.
struct TransferOps {
  static void start(Request& request) {
    auto& t = static_cast<Transfer&>(request);
    std::lock_guard hold(t.lane->lock_);
    t.complete.store(false, std::memory_order_relaxed);
    t.active = true;
    t.outcome = {};
    if (t.dest == proc_null) {
      t.lane->end_nowhere(t);
    } else if (t.request_kind == RequestKind::persistent_send) {
      t.lane->start_send(t);
    } else {
      t.source = t.dest;
      t.lane->post(t);
    }
  }
  static bool cancel(Request& request) {
    request.lane->cancel(request);
    return request.outcome.cancelled;
  }
  static void destroy(Request& request) {
    auto& t = static_cast<Transfer&>(request);
    Lane& lane = *t.lane;
    std::lock_guard hold(lane.lock_);
    if (t.stage == Stage::done || t.stage == Stage::idle) return lane.recycle(t);
    t.orphan = true;
    t.plain = false;
  }
  static constexpr Request::Ops table{start, cancel, nullptr, destroy};
};

void Message::destroy(Message* message) { messages().destroy(message); }
Message* make_message() { return messages().make(); }

Message* Lane::no_process() {
  static Message* const message = [] {
    Message* m = messages().make();
    m->predefined = true;
    m->outcome.source = proc_null;
    m->outcome.bytes = 0;
    return m;
  }();
  return message;
}

Lane::Lane(boot::Bootstrap& boot, bool threads, std::vector<std::unique_ptr<btl::Transport>> transports)
    : lock_(threads),
      room_(room_for(boot.job().size)),
      boot_(boot),
      openings_(std::make_shared<Openings>(boot, 0)),
      rover_(boot.job().node_ranks.size(), boot.job().cpus) {
  give_back_at_ = part_of_room(kUsualLanes) / 4;
  const boot::Job& job = boot.job();
  crowded_ = job.node_ranks.size() > job.cpus;
  for (auto& transport : transports) {
    auto wire = std::make_unique<Wire>();
    wire->transport = std::move(transport);
    const btl::Caps& caps = wire->transport->caps();
    wire->name = wire_name(caps.name);
    wire->number = static_cast<uint32_t>(wires_.size());
    wire->self = !strcmp(caps.name, "self");
    wire->cheap = caps.polls_memory;
    wires_.push_back(std::move(wire));
  }
  resident_ = take_transfer(RequestKind::receive);
  sent_ = take_transfer(RequestKind::send);
  nowhere_ = take_transfer(RequestKind::receive);
  nowhere_->outcome.source = proc_null;
  nowhere_->outcome.tag = any_tag;
  for (Transfer* t : {sent_, nowhere_}) {
    t->predefined = true;
    t->stage = Stage::done;
    t->complete.store(true, std::memory_order_relaxed);
  }
}

Lane::~Lane() {
  boot_.on_failure(nullptr);
  std::vector<Unexpected*> left;
  matcher_.each_unexpected([&](Unexpected& u) { left.push_back(&u); });
  for (Unexpected* u : left) discard(*u);
  for (auto& [id, peer] : peers_) {
    for (Unexpected* u : peer->early) discard(*u);
    forget_rails(*peer);
  }
  for (Transfer* t : {sent_, nowhere_, resident_}) recycle(*t);
  while (Transfer* t = free_transfers_) {
    free_transfers_ = t->next;
    transfers().destroy(t);
  }
}

Result<std::unique_ptr<Lane>> Lane::open_over(boot::Bootstrap& boot, bool threads,
                                              std::vector<std::unique_ptr<btl::Transport>> transports) {
  return set_off(std::unique_ptr<Lane>(new Lane(boot, threads, std::move(transports))));
}

/// A lane that is the only one of its process.
Result<std::unique_ptr<Lane>> Lane::set_off(std::unique_ptr<Lane> lane) {
  if (auto done = lane->publish(); !done) return done.failure();
  lane->watch_failures();
  return lane;
}

void Lane::join(const std::vector<std::unique_ptr<Lane>>& lanes, std::shared_ptr<Openings> openings) {
  for (const auto& one : lanes) {
    one->openings_ = openings;
    one->first_ = lanes.front().get();
    one->give_back_at_ = one->part_of_room(std::max<int64_t>(static_cast<int64_t>(lanes.size()), kUsualLanes)) / 4;
    for (const auto& other : lanes)
      if (other != one) one->others_.push_back(other.get());
  }
}

bool Lane::light() const {
  return std::ranges::all_of(wires_, [](const auto& wire) { return wire->transport->caps().light; });
}

void Lane::watch_failures() {
  boot_.on_failure([alarm = alarm_](ProcessId who) { alarm->report(who); });
}

void Lane::poison(Status status) {
  alarm_->poison.store(static_cast<uint8_t>(status), std::memory_order_release);
  alarm_->wake();
}

Context Lane::new_context(Context like, std::optional<uint32_t> number) {
  if (first_ != this) return first_->new_context(like, number);
  std::lock_guard hold(lock_);
  const Context leader = Context{rank_of(boot_.job().rank)} << 28 | (like & kSessionContext);
  constexpr uint32_t reserved = 64;  // for what comm numbers itself
  for (;;) {
    const Context context = leader | ((reserved + 8 * uint64_t{next_context_++}) & 0x07fffff8);
    if (!number || ticket_of(context) % kMostLanes == *number % kMostLanes) return context;
  }
}

bool Lane::same_node(const Team& team, uint32_t rank) {
  const ProcessId who = team.process(rank);
  const auto& here = boot_.job().node_ranks;
  return who.job == 0 && std::binary_search(here.begin(), here.end(), who.rank);
}

void Lane::enlist(Team& team) {
  std::lock_guard hold(teams_lock_);
  teams_[team.context()] = &team;
}
void Lane::discharge(Team& team) {
  std::lock_guard hold(teams_lock_);
  if (auto at = teams_.find(team.context()); at != teams_.end() && at->second == &team) teams_.erase(at);
}

/// While the first of them meet, they sleep, and may be woken side by side: three on one of two CPUs stay there for milliseconds.
void Lane::joins(Household& household, const Team& team) {
  if (lock_.enabled()) return;
  if (households_.empty() && crowded_ && rover_.among_few()) topo::start_at(boot_.job().local_rank);
  households_.emplace(team.context(), &household);
}

// Transfers

/// Leaves the transfer as a new one, but for its kind and its memory.
void Lane::renew(Transfer& t) {
  if (t.type_retained) {
    release(const_cast<type::Datatype*>(t.buffer.type));
    t.type_retained = false;
  }
  t.references.store(1, std::memory_order_relaxed);
  t.predefined = t.user_freed = false;
  t.outcome = {};
  t.plain = t.persistent = false;
  t.active = true;
  t.team_owner = nullptr;
  t.drop_owner = nullptr;
  t.on_done = nullptr;
  t.context = nullptr;
  t.orphan = false;
  t.mode = Mode::standard;
  t.stage = Stage::idle;
  t.prev = nullptr;
}

Transfer* Lane::make_transfer(RequestKind kind) { return transfers().make(kind, &TransferOps::table, this); }

/// Gives the bulk part back, as far as the transport does not work with it any more.
void Lane::release_bulk(Transfer& t) {
  Bulkwork& bulk = *t.bulk;
  if (bulk.offered || bulk.copy) forget_copy(t);
  for (const auto& [wire, region] : bulk.exposed) wires_[wire]->transport->conceal(region);
  operations_.remove(bulk.id);
  if (bulk.in_flight) {
    for (TransferOperation& operation : bulk.operations) operation.transfer = nullptr;  // the last completion deletes it
    t.bulk.release();
    return;
  }
  bulk.reset();
}

Bulkwork& Lane::bulk_of(Transfer& t) {
  if (!t.bulk) {
    t.bulk = std::make_unique<Bulkwork>();
    t.bulk->provide(t, kReadsAWay);
  }
  for (TransferOperation& operation : t.bulk->operations) operation.transfer = &t;
  return *t.bulk;
}

/// The end of a transfer: publishes it, and recycles it if nobody holds it any more.
void Lane::end(Transfer& t, int error) {
  if (sends(t)) --owed_;
  t.withdrawing = false;
  if (t.bulk && t.bulk->used) release_bulk(t);
  if (error) t.outcome.error = error;
  t.stage = Stage::done;
  complete(t);
  if (t.orphan) recycle(t);
}

void Lane::end_nowhere(Transfer& t) {
  t.outcome.source = proc_null;
  t.outcome.tag = any_tag;
  t.outcome.bytes = 0;
  t.stage = Stage::done;
  complete(t);
}

int Lane::explain(const Request& request) {
  const int error = request.outcome.error;
  const bool partitioned =
      request.request_kind == RequestKind::partitioned_send || request.request_kind == RequestKind::partitioned_receive;
  if (partitioned && error == MPI_ERR_TRUNCATE)
    return fail(error, "the partitions of the sender have another size, all together, than those of the receiver");
  if (request.request_kind >= RequestKind::collective && request.request_kind != RequestKind::persistent_send &&
      request.request_kind != RequestKind::persistent_receive)
    return error;
  const auto& t = static_cast<const Transfer&>(request);
  if (error == MPI_ERR_TRUNCATE)
    return fail(error,
                "the message from rank %d with tag %d is longer than the receive buffer of %llu bytes; the part that fits was received",
                t.outcome.source, t.outcome.tag, static_cast<unsigned long long>(t.capacity));
  if (error == MPI_ERR_COUNT)
    return fail(error,
                "the message from rank %d with tag %d has %llu bytes, the receive buffer %llu; the hint mpi_assert_exact_length of the "
                "communicator says that they are equal",
                t.outcome.source, t.outcome.tag, static_cast<unsigned long long>(t.outcome.bytes),
                static_cast<unsigned long long>(t.capacity));
  if (error == MPI_ERR_PROC_ABORTED && t.peer) return fail(error, "%s", t.peer->failure.c_str());
  if (error)
    return fail(error, "the operation with rank %d failed: %s", t.dest,
                last_failure().empty() ? "no details" : std::string(last_failure()).c_str());
  return error;
}

// Start and end

/// Peers fetch one value per process: the addresses of all its wires, each with the wire's name.
Result<void> Lane::publish() {
  Addresses all;
  if (!others_.empty()) {
    const auto lanes = static_cast<uint32_t>(others_.size() + 1);
    const auto* bytes = reinterpret_cast<const std::byte*>(&lanes);
    all.emplace_back(wire_name(kLaneCount), boot::Blob(bytes, bytes + sizeof lanes));
  }
  for (auto& wire : wires_)
    if (std::ranges::find(all, wire->name, &Addresses::value_type::first) == all.end())  // rails of a kind share their address
      all.emplace_back(wire->name, wire->transport->address());
  return boot_.put(kAddresses, encode(all));
}

Result<Addresses> Lane::addresses_of(ProcessId who) {
  auto all = boot_.get(who, kAddresses);
  if (!all) return all.failure();
  auto addresses = decode_addresses(*all);
  if (!addresses) return Failure{"the addresses that " + text_of(who) + " published are damaged: " + addresses.failure().text};
  return addresses;
}

bool Lane::owes() {
  if (owed_ || holding_ || !to_move_.empty() || to_flush_ || owes_on_rails()) return true;
  bool reading = false;
  operations_.each([&](Transfer& t) { reading |= t.stage == Stage::reading; });
  return reading;
}

/// Is there anything to send that has not left yet?
bool Lane::holds_messages() const {
  if (owed_ || holding_ || to_flush_) return true;
  const auto held = [](const btl::Endpoint* endpoint) { return endpoint && endpoint->backlog() > 0; };
  for (const auto& [id, peer] : peers_) {
    if (peer->failed) continue;
    for (const Way& way : peer->ways)
      if (held(way.endpoint)) return true;
    for (size_t t = 0; peer->rails && t < peer->rails->tracks.size(); ++t)
      if (held(peer->rails->tracks[t].endpoint)) return true;
  }
  return false;
}

void Lane::settle() {
  wait_for([](void* lane) { return !static_cast<Lane*>(lane)->holds_messages(); }, this, kDrainLimit_ns);
}

Status Lane::close() {
  if (closed_) return Status::ok;
  closed_ = true;
  auto settled = [](void* lane) { return !static_cast<Lane*>(lane)->owes(); };
  if (wait_for(settled, this, kCloseLimit_ns) == Status::again)
    log(Level::warning, "%llu sends were never received; leaving without them\n%s", static_cast<unsigned long long>(owed_), dump().c_str());
  auto drained = [](void* lane) {
    bool all = true;
    for (auto& wire : static_cast<Lane*>(lane)->wires_) all &= wire->transport->drain();
    return all;
  };
  wait_for(drained, this, kDrainLimit_ns);
  return poisoned();
}

void Lane::report(obs::Tally& tally) {
  std::lock_guard hold(lock_);
  tally.add(figures, counters_);
  tally.add(queue_figures, {matcher_.posted(), matcher_.unexpected(), ring_.count()});
  for (const auto& wire : wires_) wire->transport->report(tally);
}

std::string Lane::dump() {
  std::lock_guard hold(lock_);
  std::string text = matcher_.dump();
  operations_.each([&](const Transfer& t) {
    const char* what = t.stage == Stage::announced ? "waits for its receiver" : "in transfer";
    text += "message of " + std::to_string(t.capacity) + " bytes with tag " + std::to_string(t.tag) + ", peer rank " +
            std::to_string(t.dest) + ": " + what + "\n";
  });
  for (const auto& [id, peer] : peers_)
    if (peer->held_up) text += "messages to " + text_of(id) + " are held up: it takes none of those that it has\n";
  return text;
}

}  // namespace weft::pml
