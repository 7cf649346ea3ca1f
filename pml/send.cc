// Sending: eager, synchronous, announced; and what waits for room on the wire.
#include <algorithm>
#include <cstring>

#include "include/mpi.h"
#include "pml/lane.h"
#include "runtime/base/error.h"
#include "runtime/type/cursor.h"
#include "runtime/type/predefined.h"

namespace weft::pml {
Status Lane::send_slowly(Team& team, int dest, int tag, Traffic traffic, const Buffer& buffer, Mode mode) {
  if (dest == proc_null) return Status::ok;
  Request* request =
      mode == Mode::synchronous ? send_synchronously(team, dest, tag, traffic, buffer) : isend(team, dest, tag, traffic, buffer, mode);
  const Status status = wait(*request);
  const int error = status == Status::ok ? request->outcome.error : 0;
  if (error) explain(*request);
  release(request);
  if (status != Status::ok) {
    fail(MPI_ERR_OTHER, "the job is being torn down (%s) during a send to rank %d", to_string(status), dest);
    return status;
  }
  if (!error) return Status::ok;
  return error == MPI_ERR_PROC_ABORTED ? Status::peer_failed : Status::failed;
}

/// A blocking synchronous send. One that is short, and answered before anything else comes from there, needs no transfer.
Request* Lane::send_synchronously(Team& team, int dest, int tag, Traffic traffic, const Buffer& buffer) {
  Peer* const to = lock_.enabled() || !buffer.type->contiguous ? nullptr : next_from(team, dest, tag);
  if (!to || to->next_is_ambiguous() ||
      !send_quickly<false, MessageKind::eager_sync>(team, *to, dest, tag, traffic, buffer, obs::What::send))
    return isend(team, dest, tag, traffic, buffer, Mode::synchronous);
  const auto sequence = static_cast<uint16_t>(to->next_sequence - 1);
  btl::Endpoint::Next answer{{sequence, 0, 0, 0, 0, static_cast<uint8_t>(MessageKind::received), 0}};
  if (to->endpoint->receive_next(answer, &answer, direct_looks())) return sent_;
  Transfer& t = prepare(RequestKind::send, team, dest, tag, traffic, buffer);
  t.mode = Mode::synchronous;
  t.peer = to;
  ++owed_;
  await_answer(t, *to, sequence);
  return &t;
}

Request* Lane::isend(Team& team, int dest, int tag, Traffic traffic, const Buffer& buffer, Mode mode) {
  std::lock_guard hold(lock_);
  if (dest == proc_null) return sent_;
  if (may_send_quickly(buffer, mode)) [[likely]]
    if (send_quickly(team, team.peer(static_cast<uint32_t>(dest)), dest, tag, traffic, buffer, obs::What::isend)) [[likely]]
      return sent_;
  return post_send(team, dest, tag, traffic, buffer, mode);
}

/// Sends with a transfer: what does not go quickly.
Transfer* Lane::post_send(Team& team, int dest, int tag, Traffic traffic, const Buffer& buffer, Mode mode) {
  Transfer& t = prepare(RequestKind::send, team, dest, tag, traffic, buffer);
  t.mode = mode;
  start_send(t);
  return &t;
}

Request* Lane::send_init(Team& team, int dest, int tag, const Buffer& buffer, Mode mode) {
  std::lock_guard hold(lock_);
  Transfer& t = prepare(RequestKind::persistent_send, team, dest, tag, Traffic::user, buffer);
  t.mode = mode;
  t.persistent = true;
  t.active = false;
  return &t;
}

void Lane::start_send(Transfer& t) {
  Peer& to = t.team->peer(static_cast<uint32_t>(t.dest));
  ring_.add(obs::What::isend, t.match_context, t.dest, t.tag, t.capacity).type = t.buffer.type->abi_handle;
  t.peer = &to;
  ++owed_;
  if (!to.connected) connect(to);
  if (to.failed) return end(t, MPI_ERR_PROC_ABORTED);
  Status status = Status::again;
  if (to.pending.empty() && phase_ != Phase::polling) status = emit(t);
  if (status == Status::ok) return;
  if (status != Status::again) {
    fail_peer(to, std::string(last_failure()));
    if (t.stage != Stage::done) end(t, MPI_ERR_PROC_ABORTED);
    return;
  }
  ++counters_.no_room;
  t.stage = Stage::queued;
  to.pending.push_back(t);
  to.quick_below = 0;
  queue(to);
}

/// Hands the first message of a transfer to the wire. `again`: nothing has happened.
Status Lane::emit(Transfer& t) {
  Peer& to = *t.peer;
  const Protocols& protocols = to.protocols[static_cast<size_t>(t.buffer.memory)];
  if (to.reads && offers(t, to, protocols)) return emit_announcement(t, to);
  if (t.mode == Mode::synchronous) {
    if (t.capacity < protocols.eager_below && has_room(to, t.capacity) && !to.next_is_ambiguous()) return emit_eager(t, to);
  } else if (t.capacity < protocols.eager_below || (t.base && t.capacity < protocols.in_place_below)) {
    const uint64_t leave = t.capacity < protocols.eager_below ? 0 : static_cast<uint64_t>(to.reserve) * 3 / 2;  // for small ones
    if (has_room(to, t.capacity + leave)) return emit_eager(t, to);
    ++counters_.without_credit;
  }
  return emit_announcement(t, to);
}

Status Lane::emit_eager(Transfer& t, Peer& to) {
  const bool synchronous = t.mode == Mode::synchronous;
  const btl::Header header{t.match_context,
                           t.tag,
                           t.source,
                           static_cast<uint32_t>(t.capacity),
                           to.next_sequence,
                           static_cast<uint8_t>(synchronous ? MessageKind::eager_sync : MessageKind::eager),
                           0};
  Status status;
  const Protocols& protocols = to.protocols[static_cast<size_t>(t.buffer.memory)];
  if (to.rails) {
    status = emit_eager_on_rails(t, to, header);
  } else if (t.base && t.capacity < protocols.inline_below) {
    status = put_over(to, *to.endpoint, *to.ways.front().caps, header, t.base);
  } else if (t.base && t.capacity < protocols.in_place_below && !synchronous) {
    return emit_in_place(t, to, header);
  } else {
    type::Cursor cursor(t.buffer.address, t.buffer.count, *t.buffer.type);
    status = to.endpoint->send(header, cursor);
  }
  if (status != Status::ok) return status;
  charge(to, t.capacity);
  if (synchronous)
    await_answer(t, to, to.next_sequence);
  else
    end(t);
  ++to.next_sequence;
  return Status::ok;
}

/// The data of a synchronous send has left, as the message of this number.
void Lane::await_answer(Transfer& t, Peer& to, uint16_t sequence) {
  Bulkwork& bulk = bulk_of(t);
  bulk.id = operations_.add(t);
  bulk.used = true;
  bulk.sequence = sequence;
  if (!to.unanswered) to.unanswered = std::make_unique<Unanswered>();
  to.unanswered->add(sequence, bulk.id);
  t.stage = Stage::announced;
}

/// Without a copy: ends when the wire has taken all of it, which is at once more often than not.
Status Lane::emit_in_place(Transfer& t, Peer& to, const btl::Header& header) {
  Bulkwork& bulk = bulk_of(t);
  TransferOperation& operation = bulk.operations[0];
  const iovec run{t.base, t.capacity};
  operation.done = left_in_place;
  bulk.in_flight = 1;
  bulk.issuing = bulk.used = true;
  const Status status = put_in_place(to, *to.endpoint, *to.ways.front().caps, header, {&run, 1}, operation);
  bulk.issuing = false;
  if (status != Status::ok) {
    bulk.in_flight = 0;
    return status;
  }
  ++to.next_sequence;
  charge(to, t.capacity);
  if (!bulk.in_flight) {
    end(t, bulk.failed ? MPI_ERR_PROC_ABORTED : 0);
    return Status::ok;
  }
  bulk.id = operations_.add(t);  // so that it ends with its peer
  t.stage = Stage::streaming;
  return Status::ok;
}

void Lane::left_in_place(btl::Operation& done, Status status) {
  auto& operation = static_cast<TransferOperation&>(done);
  Transfer* t = operation.transfer;
  if (!t) return abandoned(operation);
  Bulkwork& bulk = *t->bulk;
  --bulk.in_flight;
  bulk.failed = status != Status::ok;
  if (!bulk.issuing) t->lane->end(*t, bulk.failed ? MPI_ERR_PROC_ABORTED : 0);
}

/// Says that a message waits here, and where it can be read if the peer can read our memory.
Status Lane::emit_announcement(Transfer& t, Peer& to) {
  std::array<std::byte, sizeof(Announcement) + kMaxRegions * sizeof(btl::Region)> payload;
  Bulkwork& bulk = bulk_of(t);
  if (!bulk.id) {
    bulk.id = operations_.add(t);
    bulk.used = true;
    bulk.total = t.capacity;
    const Protocols& protocols = to.protocols[static_cast<size_t>(t.buffer.memory)];
    if (protocols.bulk == Bulk::get && (t.capacity >= protocols.get_from || to.reads)) bulk.mine = expose(t, to, t.capacity, kMaxPieces);
    if (bulk.mine.rails && t.capacity < protocols.eager_below && t.mode != Mode::synchronous) let_lapse(t, to);
  }
  const Announcement head{bulk.id, t.capacity, bulk.mine};
  std::byte* at = payload.data();
  const auto add = [&at](const auto& part) { at = static_cast<std::byte*>(memcpy(at, &part, sizeof part)) + sizeof part; };
  add(head);
  if (bulk.exposed.size() == 1 && RegionBegin::suffices(bulk.exposed.front().second, t.capacity))
    add(RegionBegin{bulk.exposed.front().second.address});
  else
    for (const auto& [wire, region] : bulk.exposed) add(region);
  btl::Header header{t.match_context,
                     t.tag,
                     t.source,
                     static_cast<uint32_t>(at - payload.data()),
                     to.next_sequence,
                     static_cast<uint8_t>(MessageKind::announce),
                     0};
  if (!has_reserve(to, header.length)) return hold_up(to);
  const Status status = put_on_wire(to, header, payload.data());
  if (status != Status::ok) return status;
  ++to.next_sequence;
  charge(to, header.length);
  ++counters_.rendezvous;
  t.stage = Stage::announced;
  return Status::ok;
}

/// Sends a contiguous payload, in the shortest way that the wire has for its length.
Status Lane::put_over(Peer& to, btl::Endpoint& endpoint, const btl::Caps& caps, const btl::Header& header, const void* payload) {
  if (header.length <= caps.max_inline) {
    if (!hold_back_ || !caps.gathers) return endpoint.try_inline(header, payload);
    hold(to);
    return endpoint.gather(header, payload);
  }
  type::Cursor cursor(payload, header.length, type::of(type::Basic::byte));
  return endpoint.send(header, cursor);
}

/// Sends a payload from where it lies.
Status Lane::put_in_place(Peer& to, btl::Endpoint& endpoint, const btl::Caps& caps, const btl::Header& header,
                          std::span<const iovec> payload, btl::Operation& operation) {
  if (!hold_back_ || !caps.gathers) return endpoint.send_zcopy(header, payload, operation);
  hold(to);
  return endpoint.gather_zcopy(header, payload, operation);
}

/// Sends a message of the protocol itself; its payload is short and contiguous.
Status Lane::put_on_wire(Peer& to, btl::Header& header, const void* payload) {
  if (to.rails) return put_on_rails(to, header, payload);
  return put_over(to, *to.endpoint, *to.ways.front().caps, header, payload);
}

Status Lane::put_control(Peer& to, Control& word) {
  if (word.regions.empty()) return put_on_wire(to, word.header, &word.clear);
  std::array<std::byte, sizeof word.clear + kMaxStripes * sizeof(btl::Region)> payload;
  memcpy(payload.data(), &word.clear, sizeof word.clear);
  memcpy(payload.data() + sizeof word.clear, word.regions.data(), word.regions.size() * sizeof(btl::Region));
  return put_on_wire(to, word.header, payload.data());
}

/// Answers the peer, at once if nothing stands in the way.
void Lane::answer(Peer& to, Control& word) {
  if (!to.connected && phase_ != Phase::polling) connect(to);
  if (to.failed) return;
  if (to.connected && phase_ != Phase::polling && to.controls.empty() && put_control(to, word) == Status::ok) return;
  to.controls.push_back(std::move(word));
  queue(to);
}

/// An answer without payload; `number` stands in the place of a fragment's offset.
void Lane::control(Peer& to, MessageKind kind, uint64_t context, uint64_t number) {
  Control word{};
  word.header.context = context;
  word.header.kind = static_cast<uint8_t>(kind);
  set_offset(word.header, number);
  answer(to, word);
}

// What waits

void Lane::queue(Peer& peer) {
  if (peer.queued) return;
  peer.queued = true;
  peer.next_queued = to_flush_;
  to_flush_ = &peer;
  if (phase_ == Phase::idle) rouse();  // who sleeps does not look for room
}

void Lane::restore_quick(Peer& peer) {
  const bool free = peer.connected && !peer.failed && !peer.rails && peer.pending.empty() && peer.reserve && peer.credit > 0;
  const auto most = static_cast<uint64_t>(peer.reserve - kMessageCost);  // quick sends do not look whether the last one still fits
  const uint64_t unasked = peer.reads ? kOfferFrom : most;
  peer.quick_below = free ? std::min({peer.protocols[0].inline_below, peer.protocols[0].eager_below, most, unasked}) : 0;
}

/// True if none is left. A peer that has taken its leave needs none of them; one that is lost is about to fail.
bool Lane::flush_controls(Peer& peer) {
  size_t sent = 0;
  while (sent < peer.controls.size() && put_control(peer, peer.controls[sent]) != Status::again) ++sent;
  peer.controls.erase(peer.controls.begin(), peer.controls.begin() + static_cast<ptrdiff_t>(sent));
  return peer.controls.empty();
}

bool Lane::flush_pending(Peer& peer) {
  while (Transfer* t = peer.pending.front()) {
    peer.pending.remove(*t);  // its links are free for others as soon as it has ended
    const Status status = emit(*t);
    if (status == Status::ok) continue;
    peer.pending.push_front(*t);
    if (status != Status::again) fail_peer(peer, std::string(last_failure()));
    return peer.held_up;
  }
  restore_quick(peer);
  return true;
}

/// Tries to hand over what waits for a peer. Answers go first, then messages in order, then fragments.
void Lane::flush(Peer& peer) {
  if (!peer.connected) connect(peer);
  if (peer.failed) return;
  if (peer.rails && !flush_rails(peer)) return;
  if (!flush_controls(peer)) return;
  if (!peer.pending.empty() && !peer.held_up && !flush_pending(peer)) return;
  for (Transfer* t = peer.streams.front(); t && !peer.failed;) {
    Transfer* next = t->next;
    if (!push_stream(*t)) break;
    t = next;
  }
}

}  // namespace weft::pml
