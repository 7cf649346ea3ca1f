// Large messages: the receiver reads the sender's memory, or asks for the data as fragments.
#include <algorithm>
#include <array>
#include <cstring>

#include "include/mpi.h"
#include "pml/lane.h"
#include "runtime/base/error.h"

namespace weft::pml {
namespace {

constexpr size_t kRuns = 64;  // pieces of memory described at a time
constexpr uint64_t kReadPiece = 256 << 20;
constexpr uint64_t kStripeFrom = 256 << 10;  // bytes that are worth waking the other ways for

bool sends(const Transfer& t) { return t.request_kind == RequestKind::send || t.request_kind == RequestKind::persistent_send; }

}  // namespace

// Receiver

/// The announcement of a message whose receive is known.
void Lane::on_announcement(Transfer& t, const btl::Header& h, Peer& from, const std::byte* payload) {
  Announcement head;
  memcpy(&head, payload, sizeof head);
  Bulkwork& bulk = bulk_of(t);
  bulk.used = true;
  bulk.remote = head.sender;
  bulk.wire = head.wire;
  bulk.total = std::min(head.total, t.capacity);
  bulk.regions.resize(std::min<size_t>(head.regions, (h.length - sizeof head) / sizeof(btl::Region)));
  if (!bulk.regions.empty()) memcpy(bulk.regions.data(), payload + sizeof head, bulk.regions.size() * sizeof(btl::Region));
  t.peer = &from;
  t.outcome.source = h.source;
  t.outcome.tag = h.tag;
  t.outcome.bytes = bulk.total;
  if (head.total > t.capacity) t.outcome.error = MPI_ERR_TRUNCATE;
  t.stage = Stage::reading;
  bulk.cursor = type::Cursor(t.buffer.address, t.buffer.count, *t.buffer.type);
  if (phase_ == Phase::polling)
    to_move_.push_back(t);
  else
    start_moving(t);
}

void Lane::start_moving(Transfer& t) {
  Bulkwork& bulk = *t.bulk;
  Peer& from = *t.peer;
  if (!from.connected) connect(from);
  if (from.failed) return end(t, MPI_ERR_PROC_ABORTED);
  if (bulk.total == 0) {
    control(from, MessageKind::finished, bulk.remote);
    return end(t);
  }
  const Way* way = from.way(bulk.wire);
  if (bulk.regions.empty() || !way || !way->endpoint->can_get()) return ask_for_data(t);
  advance_read(t);
}

/// Issues reads until one does not complete at once, or all is read.
void Lane::advance_read(Transfer& t) {
  Bulkwork& bulk = *t.bulk;
  btl::Endpoint& endpoint = *t.peer->way(bulk.wire)->endpoint;
  TransferOperation& operation = bulk.operations[0];
  operation.done = read_done;
  while (bulk.moved < bulk.total) {
    if (bulk.in_flight) return;
    const btl::Region& region = bulk.regions[bulk.region];
    const uint64_t here = std::min({region.length - bulk.region_offset, bulk.total - bulk.moved, kReadPiece});
    bulk.runs.resize(kRuns);
    bulk.cursor.seek(bulk.moved);
    const size_t n = bulk.cursor.runs(bulk.runs, here);
    const uint64_t bytes = bulk.cursor.position() - bulk.moved;
    bulk.in_flight = 1;
    bulk.issuing = true;
    bulk.piece = bytes;
    const Status status = endpoint.get(region, bulk.region_offset, std::span(bulk.runs.data(), n), operation);
    bulk.issuing = false;
    if (status == Status::ok && !bulk.failed) continue;
    bulk.in_flight = 0;
    if (status == Status::again) return to_move_.push_back(t);
    if (t.peer->failed || (status == Status::peer_failed && !t.peer->rails)) return end(t, MPI_ERR_PROC_ABORTED);
    bulk.moved = 0;
    return ask_for_data(t);
  }
  control(*t.peer, MessageKind::finished, bulk.remote);
  end(t);
}

void Lane::read_done(btl::Operation& operation, Status status) {
  Transfer* t = static_cast<TransferOperation&>(operation).transfer;
  if (!t) return abandoned(operation);
  Bulkwork& bulk = *t->bulk;
  bulk.in_flight = 0;
  if (status == Status::ok) {
    bulk.moved += bulk.piece;
    bulk.region_offset += bulk.piece;
    if (bulk.region_offset == bulk.regions[bulk.region].length) {
      ++bulk.region;
      bulk.region_offset = 0;
    }
  } else {
    bulk.failed = true;
  }
  if (!bulk.issuing) t->lane->to_move_.push_back(*t);
}

/// The last completion of a transfer that has ended before (its peer failed).
void Lane::abandoned(btl::Operation& operation) {
  auto* bulk = static_cast<TransferOperation&>(operation).bulk;
  if (--bulk->in_flight == 0) delete bulk;
}

void Lane::move_on(Transfer& t) {
  if (!t.bulk->failed && t.bulk->moved == 0 && t.bulk->in_flight == 0) return start_moving(t);
  if (!t.bulk->failed) return advance_read(t);
  t.bulk->moved = 0;
  ask_for_data(t);
}

/// For when the sender's memory cannot be read.
void Lane::ask_for_data(Transfer& t) {
  Bulkwork& bulk = *t.bulk;
  if (!bulk.id) bulk.id = operations_.add(t);
  t.stage = Stage::streaming;
  const ClearToSend clear{bulk.id, bulk.total};
  control(*t.peer, MessageKind::clear, bulk.remote, &clear);
}

std::byte* Lane::landing(void* cookie, const btl::Header& h) {
  if (h.kind != static_cast<uint8_t>(MessageKind::fragment)) return nullptr;
  Transfer* t = operations_.find(h.context);
  const uint64_t offset = offset_of(h);
  if (!t || sends(*t) || t->peer != cookie || !t->base || offset > t->bulk->total || h.length > t->bulk->total - offset) return nullptr;
  return t->base + offset;
}

void Lane::on_fragment(Peer& from, const btl::Header& h, const std::byte* payload) {
  Transfer* t = operations_.find(h.context);
  const uint64_t offset = offset_of(h);
  if (!t || sends(*t) || t->peer != &from || t->stage != Stage::streaming) return;  // ended meanwhile
  Bulkwork& bulk = *t->bulk;
  if (offset > bulk.total || h.length > bulk.total - offset) return;
  if (!t->base) {
    bulk.cursor.seek(offset);
    bulk.cursor.unpack(payload, h.length);
  } else if (payload != t->base + offset) {
    memcpy(t->base + offset, payload, h.length);
  }
  bulk.moved += h.length;
  if (bulk.moved < bulk.total) return;
  if (h.flags & kCounted) control(from, MessageKind::finished, bulk.remote);  // it keeps its memory until then
  end(*t);
}

// Sender

void Lane::on_finished(Peer& from, const btl::Header& h) {
  Transfer* t = operations_.find(h.context);
  if (!t || !sends(*t) || t->peer != &from) return;
  if (t->stage == Stage::announced || t->stage == Stage::confirming) end(*t);
}

void Lane::on_clear(Peer& from, const btl::Header& h, const std::byte* payload) {
  Transfer* t = operations_.find(h.context);
  if (!t || !sends(*t) || t->peer != &from || t->stage != Stage::announced || h.length < sizeof(ClearToSend)) return;
  ClearToSend clear;
  memcpy(&clear, payload, sizeof clear);
  Bulkwork& bulk = *t->bulk;
  bulk.remote = clear.receiver;
  bulk.total = std::min(clear.wanted, t->capacity);
  bulk.moved = 0;
  bulk.cursor = type::Cursor(t->buffer.address, t->buffer.count, *t->buffer.type);
  t->stage = Stage::streaming;
  from.streams.push_back(*t);
  if (from.rails && bulk.total >= kStripeFrom) from.rails->wanted = true;
  queue(from);
}

}  // namespace weft::pml
