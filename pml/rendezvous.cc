// Large messages: the sender announces them, the receiver decides how they come.
#include <algorithm>
#include <array>
#include <cstring>

#include "include/mpi.h"
#include "pml/lane.h"
#include "runtime/base/copy.h"
#include "runtime/base/error.h"

namespace weft::pml {
namespace {

/// Takes over how the other side's memory can be reached, if what it says makes sense for so many bytes.
void take_exposure(Transfer& t, const Exposure& memory, const std::byte* regions, size_t bytes) {
  Bulkwork& bulk = *t.bulk;
  const size_t count = memory.pieces * memory.ways();
  if (count == 0) return;
  if (count == 1 && bytes == sizeof(RegionBegin)) {
    RegionBegin begin;
    memcpy(&begin, regions, sizeof begin);
    bulk.regions.resize(1);
    bulk.regions[0] = {begin.address, bulk.total, {}};
  } else {
    if (bytes < count * sizeof(btl::Region)) return;
    bulk.regions.resize(count);
    memcpy(bulk.regions.data(), regions, count * sizeof(btl::Region));
  }
  for (size_t way = 0; way < memory.ways(); ++way) {
    uint64_t room = 0;
    for (size_t i = 0; i < memory.pieces && room < bulk.total; ++i) room += bulk.regions[way * memory.pieces + i].length;
    if (room < bulk.total) return;
  }
  bulk.theirs = memory;
  bulk.provide(t, memory.ways() * kReadsAWay);
}

}  // namespace

// Receiver

/// The announcement of a message whose receive is known.
void Lane::on_announcement(Transfer& t, const btl::Header& h, Peer& from, const std::byte* payload) {
  Announcement head;
  memcpy(&head, payload, sizeof head);
  Bulkwork& bulk = bulk_of(t);
  bulk.used = true;
  bulk.remote = head.sender;
  bulk.total = std::min(head.total, t.capacity);
  take_exposure(t, head.memory, payload + sizeof head, h.length - sizeof head);
  from.windows.came(from.unanswered_long() && !to_move_.empty());
  bulk.flow = flow_from(from);
  t.peer = &from;
  t.outcome.source = h.source;
  t.outcome.tag = h.tag;
  t.outcome.bytes = bulk.total;
  if (head.total > t.capacity) t.outcome.error = MPI_ERR_TRUNCATE;
  t.stage = Stage::announced;
  bulk.cursor = type::Cursor(t.buffer.address, t.buffer.count, *t.buffer.type);
  if (phase_ == Phase::polling)
    move_later(t);
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
  t.stage = Stage::reading;
  const Outlets ways = open_ways(t);
  const bool readable = ways.count > 0 && better_read(t, ways.ways[0]);
  if (readable ? better_written(t, ways.ways[0]) : spared_if_written(t)) bulk.mine = expose(t, from, bulk.total, 1);
  if (!readable || bulk.mine.rails) return ask_for_data(t);
  from.refused = 0;
  advance(t, ways);
}

/// The last completion of a transfer that has ended before (its peer failed).
void Lane::abandoned(btl::Operation& operation) {
  auto* bulk = static_cast<TransferOperation&>(operation).bulk;
  if (--bulk->in_flight == 0) delete bulk;
}

/// Lets the sender move the data: into memory that was exposed to it, or as fragments.
void Lane::ask_for_data(Transfer& t) {
  Bulkwork& bulk = *t.bulk;
  if (!bulk.id) bulk.id = operations_.add(t);
  t.stage = Stage::streaming;
  bulk.moved = 0;
  bulk.again.clear();
  Control word{};
  word.header.context = bulk.remote;
  word.header.kind = static_cast<uint8_t>(MessageKind::clear);
  word.header.length = static_cast<uint32_t>(sizeof word.clear + bulk.exposed.size() * sizeof(btl::Region));
  t.peer->asked = goes_on_asking(*t.peer, bulk);
  word.clear = {bulk.id, bulk.total, bulk.mine, t.peer->asked};
  for (const auto& [wire, region] : bulk.exposed) word.regions.push_back(region);
  answer(*t.peer, word);
}

std::byte* Lane::landing(void* cookie, const btl::Header& h) {
  Peer& from = *static_cast<Peer*>(cookie);
  if (is(h, MessageKind::eager) || is(h, MessageKind::eager_sync)) {
    Transfer* const t = lands_early(from, h, true);
    return t ? t->base : nullptr;
  }
  if (!is(h, MessageKind::fragment)) return nullptr;
  if (h.flags && from.rails && !from.rails->tracks[polled_].takes(h)) return nullptr;
  Transfer* t = operations_.find(h.context);
  const uint64_t offset = offset_of(h);
  if (!t || sends(*t) || t->peer != &from || !t->base || offset > t->bulk->total || h.length > t->bulk->total - offset) return nullptr;
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
    copy_received(t->base + offset, payload, h.length);
  }
  bulk.counted |= (h.flags & kCounted) != 0;
  landed(*t, h.length);
}

void Lane::on_written(Peer& from, const btl::Header& h) {
  Transfer* t = operations_.find(h.context);
  if (!t || sends(*t) || t->peer != &from || t->stage != Stage::streaming) return;
  if (offset_of(h) <= t->bulk->total - t->bulk->moved) landed(*t, offset_of(h));
}

/// So many more bytes are there.
void Lane::landed(Transfer& t, uint64_t bytes) {
  Bulkwork& bulk = *t.bulk;
  bulk.moved += bytes;
  if (bulk.moved < bulk.total) return;
  if (bulk.counted) control(*t.peer, MessageKind::finished, bulk.remote);  // the sender keeps its memory until then
  end(t);
}

// Sender

void Lane::on_finished(Peer& from, const btl::Header& h) {
  Transfer* t = operations_.find(h.context);
  if (!t || !sends(*t) || t->peer != &from) return;
  if (t->stage == Stage::announced || t->stage == Stage::confirming) end(*t);
}

void Lane::on_received(Peer& from, const btl::Header& h) {
  Transfer* t = from.unanswered ? operations_.find(from.unanswered->take(static_cast<uint16_t>(h.context))) : nullptr;
  if (t && sends(*t) && t->peer == &from && t->stage == Stage::announced) end(*t);
}

void Lane::on_clear(Peer& from, const btl::Header& h, const std::byte* payload) {
  Transfer* t = operations_.find(h.context);
  if (!t || !sends(*t) || t->peer != &from || t->stage != Stage::announced || h.length < sizeof(ClearToSend)) return;
  ClearToSend clear;
  memcpy(&clear, payload, sizeof clear);
  Bulkwork& bulk = *t->bulk;
  on_wish(from, clear.offer);
  bulk.remote = clear.receiver;
  bulk.total = std::min(clear.wanted, t->capacity);
  bulk.moved = 0;
  bulk.cursor = type::Cursor(t->buffer.address, t->buffer.count, *t->buffer.type);
  take_exposure(*t, clear.memory, payload + sizeof clear, h.length - sizeof clear);
  if (!bulk.theirs.rails) return stream(*t);
  t->stage = Stage::writing;
  move_later(*t);
}

}  // namespace weft::pml
