// Receiving: posting, arrivals, probes, messages that nobody has asked for yet, credit for eager data.
#include <algorithm>
#include <cstring>

#include "include/mpi.h"
#include "pml/lane.h"
#include "runtime/base/clock.h"
#include "runtime/base/copy.h"
#include "runtime/base/error.h"

namespace weft::pml {
namespace {

constexpr int kQuickRounds = 200;       // before a blocking receive waits like everybody else
constexpr size_t kMostEarly = 1 << 15;  // half of the numbers that messages have
constexpr uint64_t kAsideFrom = 4096;   // shorter payloads are copied as soon
constexpr const char* kNonsense = "it sent a message that makes no sense; memory of one side is damaged, or the two run different versions";

/// Stands, with a message's sequence number, among those that are early: the message itself has been matched already.
constexpr uint8_t kMatchedEarly = 0;

/// Is there all that a message of its kind begins with? Other kinds than these look at the length themselves.
bool well_formed(const btl::Header& h) {
  switch (static_cast<MessageKind>(h.kind)) {
    case MessageKind::announce: return h.length >= sizeof(Announcement);
    default: return h.kind >= static_cast<uint8_t>(MessageKind::eager) && h.kind <= static_cast<uint8_t>(MessageKind::last);
  }
}

/// A message that says nothing but itself.
bool plain(const btl::Header& h) { return is(h, MessageKind::eager) && h.flags == 0; }
/// One that is nothing but its data, whatever it asks for.
bool bare(const btl::Header& h) { return plain(h) || (is(h, MessageKind::eager_sync) && h.flags == 0); }

}  // namespace

Message* make_message();

uint64_t message_bytes(const btl::Header& h, const std::byte* payload) {
  if (!is(h, MessageKind::announce)) return h.length;
  Announcement head;
  memcpy(&head, payload, sizeof head);
  return head.total;
}

// Posting

/// A receive has found its message.
void Lane::take_up(Transfer& t, Unexpected& found) {
  const bool timed = found.keeper && t.base && found.header.length >= kOfferFrom;  // copied as it is
  const uint64_t begin = timed ? now_ns() : 0, bytes = std::min<uint64_t>(found.header.length, t.capacity);
  matched(t, found.header, *found.peer, found.payload);
  if (timed) [[unlikely]]
    found.keeper->copied_out(found.peer->id, bytes, now_ns() - begin);
  discard(found);
}

/// What a receive that has found nothing has to do where not all is well.
void Lane::await(Transfer& t) {
  if (any_failed_) refuse_if_failed(t);
  if (!hungry_.empty() && t.stage == Stage::posted) make_room(*t.team, t.source);
}

/// A blocking receive that is ready to be posted.
Status Lane::receive_resident(Transfer& t, Outcome& outcome) {
  post(t);
  if (!crowded_)
    for (int i = 0; i < kQuickRounds && t.stage != Stage::done; ++i) round(false, true);
  if (t.stage != Stage::done) [[unlikely]]
    if (const Status status = wait(t); status != Status::ok) return give_up_receive(t, status);
  if (t.team->promises().exact_length && traffic_of(t.match_context) == Traffic::user) [[unlikely]]
    check_length(t);
  // One by one, as they were stored: a load of several would have to wait until these stores have left for the cache.
  outcome.source = t.outcome.source;
  outcome.tag = t.outcome.tag;
  outcome.bytes = t.outcome.bytes;
  outcome.cancelled = t.outcome.cancelled;
  outcome.error = t.outcome.error;
  return outcome.error ? received_badly(t) : Status::ok;
}

/// As receive_next(), of a message that is there and whose sender waits for an answer. `next` has not been found.
bool Lane::receive_next_synchronous(Peer& from, btl::Endpoint::Next& next, std::byte* to) {
  next.header.kind = static_cast<uint8_t>(MessageKind::eager_sync);
  if (!from.endpoint->receive_next(next, to, 1)) return false;
  control(from, MessageKind::received, next.header.sequence);
  return true;
}

Status Lane::receive_slowly(Team& team, int source, int tag, Traffic traffic, const Buffer& buffer, Outcome& outcome) {
  Request* request = ireceive(team, source, tag, traffic, buffer);
  Status status = wait(*request);
  if (status == Status::ok) {
    outcome = request->outcome;
    if (outcome.error) status = received_badly(static_cast<Transfer&>(*request));
  } else {
    if (!request->complete.load(std::memory_order_acquire)) cancel(*request);
    fail(MPI_ERR_OTHER, "the job is being torn down (%s) during a receive from rank %d", to_string(status), source);
  }
  release(request);
  return status;
}

Status Lane::received_badly(const Transfer& t) {
  explain(t);
  if (t.outcome.error == MPI_ERR_TRUNCATE) return Status::truncated;
  return t.outcome.error == MPI_ERR_PROC_ABORTED ? Status::peer_failed : Status::failed;
}

/// Where the user has promised that each message fills its buffer, a shorter one is an error.
void Lane::check_length(Request& receive) {
  auto& t = static_cast<Transfer&>(receive);
  if (!t.outcome.error && !t.outcome.cancelled && t.outcome.bytes != t.capacity) t.outcome.error = MPI_ERR_COUNT;
}

/// The wait ended before the receive did. Data may still be on its way into the buffer: the transfer is left to its end.
Status Lane::give_up_receive(Transfer& t, Status status) {
  fail(MPI_ERR_OTHER, "the job is being torn down (%s) during a receive from rank %d", to_string(status), t.dest);
  cancel(t);
  if (t.stage != Stage::done) {
    t.orphan = true;
    t.plain = false;
    resident_ = take_transfer(RequestKind::receive);
  }
  return status;
}

Request* Lane::ireceive_slowly(Team& team, int source, int tag, Traffic traffic, const Buffer& buffer) {
  if (source == proc_null) return nowhere_;
  std::lock_guard hold(lock_);
  return &ireceive_here(team, source, tag, traffic, buffer);
}

Request* Lane::receive_init(Team& team, int source, int tag, const Buffer& buffer) {
  std::lock_guard hold(lock_);
  Transfer& t = prepare(RequestKind::persistent_receive, team, source, tag, Traffic::user, buffer);
  t.persistent = true;
  t.active = false;
  if (team.promises().exact_length) t.on_done = check_length;
  return &t;
}

Request* Lane::ireceive(Message* message, const Buffer& buffer) {
  if (!message->arrived) return nowhere_;
  std::lock_guard hold(lock_);
  Unexpected& found = *message->arrived;
  Transfer& t = *take_transfer(RequestKind::receive);
  t.match_context = found.header.context;
  t.source = t.dest = found.header.source;
  t.tag = found.header.tag;
  t.team = nullptr;
  use(t, buffer);
  if (const Team* team = team_of(found.header.context); team && team->promises().exact_length) t.on_done = check_length;
  t.team_owner = message->team_owner;
  take_up(t, found);
  Message::destroy(message);
  return &t;
}

void Lane::cancel(Request& request) {
  std::lock_guard hold(lock_);
  if (request.predefined || request.request_kind > RequestKind::persistent_receive || request.request_kind == RequestKind::collective)
    return;
  auto& t = static_cast<Transfer&>(request);
  if (t.stage == Stage::posted) {
    matcher_.cancel(t);
  } else if (t.stage == Stage::queued) {
    t.peer->pending.remove(t);
    if (t.peer->pending.empty()) restore_quick(*t.peer);
  } else {
    return withdraw(t);
  }
  t.outcome.cancelled = true;
  t.plain = false;
  end(t);
}

/// Asks the receiver of a send that waits for it to forget the message, once. Without an answer the message has been matched.
void Lane::withdraw(Transfer& t) {
  if (!sends(t) || t.stage != Stage::announced || t.withdrawing) return;
  t.withdrawing = true;
  Control word{};
  word.header.context = t.bulk->id;
  word.header.tag = t.bulk->sequence;
  word.header.kind = static_cast<uint8_t>(MessageKind::withdraw);
  word.header.sequence = t.peer->next_sequence++;  // behind the message, whichever way each takes
  answer(*t.peer, word);
  // To itself a process answers at once: programs receive the message if they are not told that it is gone.
  const bool to_itself = t.peer->id == ProcessId{0, boot_.job().rank};
  for (int i = 0; to_itself && i < kQuickRounds && t.stage != Stage::done; ++i) round(true);
}

void Lane::on_withdraw(Peer& from, const btl::Header& h) {
  Unexpected* found = nullptr;
  matcher_.each_unexpected([&](Unexpected& u) {
    if (u.peer != &from) return;
    Announcement head;
    if (is(u.header, MessageKind::announce)) memcpy(&head, u.payload, sizeof head);
    if (head.sender == h.context || (is(u.header, MessageKind::eager_sync) && u.header.sequence == h.tag)) found = &u;
  });
  if (!found) return;
  matcher_.take(*found);
  take_credit(from, found->header.length);
  discard(*found);
  control(from, MessageKind::withdrawn, h.context);
}

void Lane::on_withdrawn(Peer& from, const btl::Header& h) {
  Transfer* t = operations_.find(h.context);
  if (!t || !sends(*t) || t->peer != &from || t->stage != Stage::announced || !t->withdrawing) return;
  if (from.unanswered && t->bulk->sequence >= 0) from.unanswered->take(static_cast<uint16_t>(t->bulk->sequence));
  t->outcome.cancelled = true;
  end(*t);
}

// Arrivals

inline void Lane::deliver(Transfer& t, const btl::Header& h, const std::byte* data, uint64_t bytes) {
  t.outcome.source = h.source;
  t.outcome.tag = h.tag;
  if (bytes > t.capacity) [[unlikely]] {
    bytes = t.capacity;
    t.outcome.error = MPI_ERR_TRUNCATE;
  }
  t.outcome.bytes = bytes;
  if (t.base) [[likely]]
    copy_received(t.base, data, bytes);
  else
    type::unpack(*t.buffer.type, t.buffer.count, data, bytes, t.buffer.address);
  t.stage = Stage::done;  // as end() does, for a transfer that has no bulk
  complete(t);
  if (t.orphan) [[unlikely]]
    recycle(t);
}

/// Takes short messages straight to receives that wait for them, if these are alike, and several: a third of the instructions that it takes
/// through poll(). How many.
int Lane::receive_alike() {
  constexpr size_t kMost = 16;
  Transfer* const first = matcher_.first_alike();
  if (!first || !first->next || first->source < 0 || first->tag < 0 || !quiet()) return 0;
  Peer* const from = first->team->known_peer(first->source);
  if (!from || !comes_next(*from)) return 0;
  std::array<btl::Endpoint::Place, kMost> places;
  size_t count = 0;
  for (const Transfer* t = first; t && count < kMost && t->plain && !t->watched; t = t->next, ++count) {
    places[count].to = t->base;
    places[count].room = t->capacity;
  }
  const btl::Header header = next_message(*first->team, *from, first->source, first->tag, Traffic::user, 0).header;
  const size_t taken = from->endpoint->receive_several(header, std::span(places.data(), count));
  if (taken == 0) return 0;
  uint64_t bytes = 0;
  Transfer* t = first;
  for (size_t i = 0; i < taken; ++i, t = t->next) {
    t->outcome.source = header.source;
    t->outcome.tag = header.tag;
    t->outcome.bytes = places[i].length;
    bytes += places[i].length;
    t->stage = Stage::done;
    t->complete.store(true, std::memory_order_release);
  }
  matcher_.take_alike_until(t);
  from->expected = static_cast<uint16_t>(from->expected + taken);
  from->consumed += static_cast<int64_t>(bytes + taken * kMessageCost);
  after_arrival(*from);
  return static_cast<int>(taken);
}

void* Lane::meet(ProcessId from) { return &peer(from); }

void Lane::arrived(void* cookie, const btl::Header& h, const std::byte* payload) {
  Peer& from = *static_cast<Peer*>(cookie);
  if (!plain(h) || h.sequence != from.expected || from.landing || !from.early.empty()) [[unlikely]]
    return arrived_otherwise(from, h, payload);
  ++from.expected;
  // All calls of what is short and simple come last, so that it needs no registers to be saved.
  Transfer* const t = matcher_.next_alike(h);
  if (!t) return match_or_keep(from, h, payload);
  if (!t->base || h.length > std::min(kShortCopy, t->capacity) || t->on_done || t->watched || t->orphan) [[unlikely]]
    return matched(*t, h, from, payload);
  t->outcome.source = h.source;
  t->outcome.tag = h.tag;
  t->outcome.bytes = h.length;
  copy_short(t->base, payload, h.length);
  t->stage = Stage::done;
  t->complete.store(true, std::memory_order_release);
  from.consumed += static_cast<int64_t>(h.length) + kMessageCost;
  if (from.consumed >= give_back_at_ || sleepers_.load(std::memory_order_relaxed)) [[unlikely]]
    after_arrival(from);
}

/// What may follow an arrival.
void Lane::after_arrival(Peer& from) {
  rouse();
  if (from.consumed >= give_back_at_) give_credit(from);
}

/// What is not the next short message.
[[gnu::noinline]] void Lane::arrived_otherwise(Peer& from, const btl::Header& h, const std::byte* payload) {
  if (from.landing && bare(h) && h.sequence == from.expected) {
    ++from.expected;
    landed(from, h);
    if (!from.early.empty()) drain_early(from);
    return;
  }
  if (!well_formed(h)) [[unlikely]]
    return fail_peer(from, kNonsense);
  if ((h.flags & kCounted) && !arrived_counted(from, h)) return;
  switch (static_cast<MessageKind>(h.kind)) {
    case MessageKind::eager:
    case MessageKind::eager_sync:
    case MessageKind::announce:
    case MessageKind::withdraw:
      if (h.sequence != from.expected) return arrived_early(from, h, payload);
      ++from.expected;
      in_turn(from, h, payload);
      if (!from.early.empty()) drain_early(from);
      return;
    case MessageKind::clear: return on_clear(from, h, payload);
    case MessageKind::fragment: return on_fragment(from, h, payload);
    case MessageKind::written: return on_written(from, h);
    case MessageKind::finished: return on_finished(from, h);
    case MessageKind::credit: return on_credit(from, h);
    case MessageKind::hello: return on_hello(from);
    case MessageKind::ask: return on_ask(from);
    case MessageKind::goodbye: return on_goodbye(from);
    case MessageKind::acknowledge: return on_acknowledge(from, h);
    case MessageKind::resume: return on_resume(from, h);
    case MessageKind::held_up: return on_held_up(from);
    case MessageKind::withdrawn: return on_withdrawn(from, h);
    case MessageKind::received: return on_received(from, h);
    case MessageKind::offer: return on_wish(from, true);
  }
}

/// The receive into whose memory the payload of an eager message goes whose header has arrived: the one that it matches, which is taken out
/// of matching by that. Null: none whose memory is in one piece, or is not. With several ways to the peer the rest of the message may have
/// to come over another one: none then.
Transfer* Lane::lands_early(Peer& from, const btl::Header& h, bool in_one_piece) {
  if (h.flags != 0 || h.sequence != from.expected || from.failed) return nullptr;
  if (from.landing) return (from.landing->base != nullptr) == in_one_piece ? from.landing : nullptr;  // asked again
  if (from.rails || (!from.ways.empty() && from.ways.front().number != polled_)) return nullptr;
  Transfer* t = matcher_.awaits(h);
  if (!t || (t->base != nullptr) != in_one_piece || h.length > t->capacity) return nullptr;
  matcher_.arrived(h);
  t->peer = &from;
  t->stage = Stage::streaming;
  from.landing = t;
  return t;
}

bool Lane::scatter(void* cookie, const btl::Header& h, const std::byte* bytes, uint32_t from, uint32_t count) {
  if (!is(h, MessageKind::eager) && !is(h, MessageKind::eager_sync)) return false;
  Transfer* const t = lands_early(*static_cast<Peer*>(cookie), h, false);
  if (!t) return false;
  type::Cursor cursor(t->buffer.address, t->buffer.count, *t->buffer.type);
  cursor.seek(from);
  cursor.unpack(bytes, count);
  return true;
}

/// The message is complete.
void Lane::landed(Peer& from, const btl::Header& h) {
  Transfer& t = *std::exchange(from.landing, nullptr);
  t.outcome.source = h.source;
  t.outcome.tag = h.tag;
  t.outcome.bytes = h.length;
  end(t);
  came_unasked(from, h.length);
  if (is(h, MessageKind::eager_sync)) control(from, MessageKind::received, h.sequence);
}

/// A message whose turn has come.
void Lane::in_turn(Peer& from, const btl::Header& h, const std::byte* payload) {
  if (is(h, MessageKind::withdraw)) return on_withdraw(from, h);
  match_or_keep(from, h, payload);
}

void Lane::match_or_keep(Peer& from, const btl::Header& h, const std::byte* payload) {
  if (Transfer* t = matcher_.arrived(h))
    matched(*t, h, from, payload);
  else
    keep(from, h, payload);
}

/// A message and the receive that it belongs to have found each other.
void Lane::matched(Transfer& t, const btl::Header& h, Peer& from, const std::byte* payload) {
  t.peer = &from;
  switch (static_cast<MessageKind>(h.kind)) {
    case MessageKind::announce: take_credit(from, h.length); return on_announcement(t, h, from, payload);
    default:
      deliver(t, h, payload, h.length);
      came_unasked(from, h.length);
      if (is(h, MessageKind::eager_sync)) control(from, MessageKind::received, h.sequence);
  }
}

Unexpected& Lane::store(Peer& from, const btl::Header& h, const std::byte* payload) {
  btl::Transport* const here = wires_[polled_]->transport.get();
  const bool aside = bare(h) && h.length >= kAsideFrom && here->set_aside(payload);
  const uint64_t copied = aside ? 0 : h.length;
  auto* u = new (payloads_.take(sizeof(Unexpected) + copied)) Unexpected;
  auto* copy = reinterpret_cast<std::byte*>(u + 1);
  u->header = h;
  u->peer = &from;
  u->payload = aside ? payload : copy;
  u->keeper = aside ? here : nullptr;
  if (copied) copy_received(copy, payload, copied);
  counters_.unexpected_bytes += h.length + kMessageCost;
  counters_.unexpected_bytes_peak = std::max(counters_.unexpected_bytes_peak, counters_.unexpected_bytes);
  return *u;
}

void Lane::discard(Unexpected& u) {
  counters_.unexpected_bytes -= u.header.length + kMessageCost;
  if (u.keeper) u.keeper->give_back(u.peer->id, u.payload);
  payloads_.give(reinterpret_cast<std::byte*>(&u), sizeof u + (u.keeper ? 0 : u.header.length));
}

void Lane::keep(Peer& from, const btl::Header& h, const std::byte* payload) {
  ++counters_.unexpected_messages;
  matcher_.keep(store(from, h, payload));
}

/// The team whose users' messages have a context; null: they are of another kind, or their communicator is not there any more.
Team* Lane::team_of(Context context) const {
  const std::lock_guard hold(teams_lock_);
  const auto found = teams_.find(context);  // a team is listed by its context for users' messages
  return found == teams_.end() ? nullptr : found->second;
}

/// Over several wires, or one that does not keep order, a message may overtake another; it waits here for its turn. Where the users of
/// a communicator do not rely on the order it is matched at once, and only its number waits.
void Lane::arrived_early(Peer& from, const btl::Header& h, const std::byte* payload) {
  ++counters_.early;
  if (from.early.size() == kMostEarly) return fail_peer(from, kNonsense);
  const Team* team = is(h, MessageKind::withdraw) ? nullptr : team_of(h.context);
  if (!team || !team->promises().overtaking) {
    from.early.push_back(&store(from, h, payload));
    return;
  }
  btl::Header number = h;
  number.kind = kMatchedEarly;
  number.length = 0;
  from.early.push_back(&store(from, number, nullptr));
  ++counters_.overtaking;
  match_or_keep(from, h, payload);
}

void Lane::drain_early(Peer& from) {
  for (size_t i = 0; i < from.early.size();) {
    Unexpected* u = from.early[i];
    if (u->header.sequence != from.expected) {
      ++i;
      continue;
    }
    from.early.erase(from.early.begin() + static_cast<ptrdiff_t>(i));
    ++from.expected;
    if (u->header.kind == kMatchedEarly) {
      discard(*u);
    } else if (is(u->header, MessageKind::withdraw)) {
      on_withdraw(from, u->header);
      discard(*u);
    } else if (Transfer* t = matcher_.arrived(u->header)) {
      matched(*t, u->header, from, u->payload);
      discard(*u);
    } else {
      ++counters_.unexpected_messages;
      matcher_.keep(*u);  // as it is: a copy would take room twice for a moment
    }
    i = 0;
  }
}

// Probing

void Lane::fill(Outcome& outcome, const Unexpected& u) const {
  outcome = {};
  outcome.source = u.header.source;
  outcome.tag = u.header.tag;
  outcome.bytes = message_bytes(u.header, u.payload);
}

Unexpected* Lane::look(Team& team, int source, int tag, Outcome& outcome) {
  Unexpected* found = matcher_.find(team.context(), source, tag);
  if (found)
    fill(outcome, *found);
  else if (!hungry_.empty())
    make_room(team, source);
  return found;
}

/// An answer that is there, or comes with a round of progress. Now and then the other lanes get one, too: what is asked for may depend
/// on what this process has under way there.
template <class Answer>
auto Lane::ask(Answer answer) {
  {
    std::lock_guard hold(lock_);
    if (auto found = answer()) return found;
    round(true);
    if (auto found = answer()) return found;
    if (!others_due()) return decltype(answer()){};
  }
  help_others();
  return decltype(answer()){};
}

bool Lane::probe_now(Team& team, int source, int tag, Outcome& outcome) {
  if (source == proc_null) {
    outcome = nowhere_->outcome;
    return true;
  }
  return probe_next(team, source, tag, 1, outcome) || ask([&] { return look(team, source, tag, outcome); }) != nullptr;
}

Message* Lane::take_out(Unexpected& u) {
  matcher_.take(u);
  Message* message = make_message();
  message->arrived = &u;
  message->lane = this;
  fill(message->outcome, u);
  return message;
}

Message* Lane::match_now(Team& team, int source, int tag, Outcome& outcome) {
  if (source == proc_null) {
    outcome = nowhere_->outcome;
    return no_process();
  }
  return ask([&]() -> Message* {
    Unexpected* found = look(team, source, tag, outcome);
    return found ? take_out(*found) : nullptr;
  });
}

Status Lane::probe(Team& team, int source, int tag, Outcome& outcome) {
  if (source == proc_null) {
    outcome = nowhere_->outcome;
    return Status::ok;
  }
  if (!lock_.enabled() && probe_next(team, source, tag, direct_looks(), outcome)) return Status::ok;
  return wait_for_message(team, source, tag, outcome, nullptr);
}

Status Lane::match(Team& team, int source, int tag, Message*& message, Outcome& outcome) {
  if (source == proc_null) {
    outcome = nowhere_->outcome;
    message = no_process();
    return Status::ok;
  }
  return wait_for_message(team, source, tag, outcome, &message);
}

Status Lane::wait_for_message(Team& team, int source, int tag, Outcome& outcome, Message** message) {
  locked([&] { ring_.add(obs::What::probe, team.context(), source, tag, 0); });
  struct Search {
    Lane* lane;
    Team* team;
    int source, tag;
    Outcome* outcome;
    Message** message;
    Peer* failed;
  } search{this, &team, source, tag, &outcome, message, nullptr};
  const Status status = wait_until(
      [](void* argument) {
        auto& s = *static_cast<Search*>(argument);
        if (Unexpected* found = s.lane->look(*s.team, s.source, s.tag, *s.outcome)) {
          if (s.message) *s.message = s.lane->take_out(*found);
          return true;
        }
        s.failed = s.lane->failed_source(*s.team, s.source);
        return s.failed != nullptr;
      },
      &search);
  if (status != Status::ok || !search.failed) return status;
  outcome.error = fail(MPI_ERR_PROC_ABORTED, "%s", search.failed->failure.c_str());
  return Status::peer_failed;
}

}  // namespace weft::pml
