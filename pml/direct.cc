// Large messages without the other side's processor: the receiver reads the sender's memory, or the sender writes the receiver's. Over
// several ways in pieces, which each take what the others leave.
#include <algorithm>
#include <array>

#include "include/mpi.h"
#include "pml/lane.h"

namespace weft::pml {
namespace {

constexpr size_t kRuns = 64;                 // pieces of own memory described at a time
constexpr uint64_t kPieceAlone = 256 << 20;  // over the only way
constexpr uint64_t kMeanPiece = 2048;        // of memory; below it packing is cheaper than reaching piece by piece

/// The region that holds a byte of the data, and where in it.
struct Place {
  const btl::Region& region;
  uint64_t inside;
};
Place place_of(const Bulkwork& bulk, size_t way, uint64_t offset) {
  const btl::Region* region = &bulk.regions[way * bulk.theirs.pieces];
  for (; offset >= region->length; ++region) offset -= region->length;
  return {*region, offset};
}

/// Can the sender write to where the data belongs?
bool takes_writes(const Transfer& t, const auto& way) { return t.base && way.caps->put && way.endpoint->can_put(); }

}  // namespace

// Own memory

/// The wires over which the peer is to reach memory for so many bytes: all rails of the kind that large messages take now, if it is worth
/// it.
size_t Lane::exposing_wires(const Peer& to, uint64_t bytes, std::array<WireRail, kMaxStripes>& out) {
  if (!to.rails) {
    const Way* way = reading_way(to);
    if (way) out[0] = {way->number, way->endpoint->rail()};
    return way ? 1 : 0;
  }
  const Track* best = to.rails->best_for_large();
  if (!best || !best->caps->get) return 0;
  size_t count = 0;
  for (uint32_t wire : to.rails->order) {
    const Track& track = to.rails->tracks[wire];
    if (!to.rails->together(track, *best) || track.state == Track::State::down || count == out.size() || track.rail >= kMaxStripes)
      continue;
    if (bytes >= kStripeFrom || &track == best) out[count++] = {wire, track.rail};
  }
  std::ranges::sort(out.begin(), out.begin() + count, {}, &WireRail::rail);
  return count;
}

/// Makes the first bytes of a transfer's memory reachable for the peer, if they lie in few large pieces, `most` of them.
Exposure Lane::expose(Transfer& t, Peer& to, uint64_t bytes, size_t most) {
  std::array<WireRail, kMaxStripes> wires;
  const size_t count = exposing_wires(to, bytes, wires);
  if (!count || !bytes) return {};
  const btl::Caps& caps = wires_[wires[0].wire]->transport->caps();
  most = std::min(most, std::min(kMaxRegions, (caps.max_buffered - sizeof(Announcement)) / sizeof(btl::Region)) / count);
  std::array<iovec, kMaxPieces> runs;
  type::Cursor cursor(t.buffer.address, t.buffer.count, *t.buffer.type);
  const size_t n = cursor.runs(std::span(runs.data(), most), bytes);
  if (cursor.position() < bytes || (n > 1 && bytes / n < std::min(kMeanPiece, bytes / 2 + 1))) return {};
  Exposure exposure;
  exposure.wire = wires_[wires[0].wire]->name;
  exposure.pieces = static_cast<uint16_t>(n);
  for (const auto& [wire, rail] : std::span(wires.data(), count)) {
    exposure.rails |= 1u << rail;
    for (size_t k = 0; k < n; ++k) t.bulk->exposed.emplace_back(wire, wires_[wire]->transport->expose(runs[k].iov_base, runs[k].iov_len));
  }
  return exposure;
}

// The other side's

/// Can a way be used for reading, or for writing, now?
bool Lane::is_open(const Transfer& t, const Outlet& way) {
  if (t.bulk->broken >> way.slot & 1) return false;
  return t.stage == Stage::writing ? way.caps->put && way.endpoint->can_put() : way.caps->get && way.endpoint->can_get();
}

/// The ways over which its memory can be reached now, best first.
Lane::Outlets Lane::open_ways(Transfer& t) {
  Outlets out;
  const Exposure& theirs = t.bulk->theirs;
  Peer& peer = *t.peer;
  if (!peer.rails) {
    const Way* only = theirs.rails ? peer.way(theirs.wire) : nullptr;
    if (!only || !theirs.has(only->endpoint->rail())) return out;
    out.ways[0] = {only->endpoint, only->caps, nullptr, theirs.place_of(only->endpoint->rail()), kPieceAlone, false};
    out.count = is_open(t, out.ways[0]);
    return out;
  }
  for (size_t i = 0; i < peer.rails->order.size() && out.count < out.ways.size(); ++i) {
    Track& track = peer.rails->tracks[peer.rails->order[i]];
    if (track.wire != theirs.wire || !theirs.has(track.rail)) continue;
    if (track.state == Track::State::asleep && !(t.bulk->broken >> theirs.place_of(track.rail) & 1)) {
      peer.rails->wanted = true;
      queue(peer);
    }
    if (!track.usable()) continue;
    out.ways[out.count] = {track.endpoint, track.caps, &track, theirs.place_of(track.rail), 0, false};
    out.count += is_open(t, out.ways[out.count]);
  }
  share_out(out.all(), t.bulk->total, kPieceAlone);
  return out;
}

/// Is reading faster than what comes in messages?
bool Lane::better_read(const Transfer& t, const Outlet& way) const {
  if (t.bulk->better_unasked()) return false;
  return t.bulk->total >= way.caps->get_from || !way.caps->weighs || way.endpoint->get_spares(t.bulk->total, t.bulk->flow, true);
}

/// Would it be, of messages of so many bytes to come?
bool Lane::better_offered(Peer& from, uint64_t bytes, btl::Flow flow) const {
  const Way* way = from.rails ? nullptr : reading_way(from);
  return way && way->caps->weighs && way->endpoint->get_spares(bytes, flow, false);
}

/// Shall the receiver rather let the sender write?
bool Lane::better_written(const Transfer& t, const Outlet& way) { return takes_writes(t, way) && t.bulk->total >= way.caps->put_from; }

/// Or rather than send, as both sides have much to do? Who reads has both copies to do already. On contended CPUs the sender would have to
/// come back for the answer.
bool Lane::spared_if_written(const Transfer& t) const {
  const Way* way = owed_ > 0 && !is_contended(t.bulk->flow) && !t.peer->rails && !t.peer->reads ? reading_way(*t.peer) : nullptr;
  return way && takes_writes(t, *way) && way->endpoint->put_spares();
}

/// Issues reads or writes until the ways are full or nothing is left.
void Lane::advance(Transfer& t) { advance(t, t.peer->failed ? Outlets{} : open_ways(t)); }

void Lane::advance(Transfer& t, const Outlets& ways) {
  Bulkwork& bulk = *t.bulk;
  bulk.issuing = true;
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < ways.count; ++i) more |= push_direct(t, ways.ways[i]);
  }
  bulk.issuing = false;
  if (bulk.in_flight) return;
  if (t.peer->failed || bulk.failed) return end(t, MPI_ERR_PROC_ABORTED);
  if (bulk.stranded) return;
  if (!bulk.left()) return end_direct(t);
  if (open_ways(t).count > 0) return move_later(t);  // when there is room
  go_without(t);
}

/// What several receives read of one peer is gathered.
Status Lane::read_from(btl::Endpoint& peer, const btl::Region& region, uint64_t offset, std::span<const iovec> local, btl::Operation& op) {
  if (!gathers_reads_) return peer.get(region, offset, local, op);
  if (btl::Endpoint* before = std::exchange(reads_from_, &peer); before && before != &peer) before->flush();
  return peer.gather_get(region, offset, local, op);
}

/// Issues one read or write; false if the way has no room, or nothing is left.
bool Lane::push_direct(Transfer& t, const Outlet& way) {
  Bulkwork& bulk = *t.bulk;
  TransferOperation* operation = &bulk.operations[way.slot * kReadsAWay];
  if (operation->busy) ++operation;
  if (operation->busy || !bulk.left() || bulk.failed || bulk.broken >> way.slot & 1) return false;
  Piece piece = bulk.next_piece(way.limit);
  const auto [region, inside] = place_of(bulk, way.slot, piece.offset);
  bulk.cursor.seek(piece.offset);
  bulk.runs.resize(kRuns);
  const size_t n = bulk.cursor.runs(bulk.runs, std::min(piece.length, region.length - inside));
  piece.length = bulk.cursor.position() - piece.offset;
  bulk.took(piece.length);
  operation->done = direct_done;
  operation->busy = true;
  operation->piece = piece;
  operation->way = static_cast<uint8_t>(way.slot);
  operation->track = way.track;
  ++bulk.in_flight;
  const std::span local(bulk.runs.data(), n);
  const Status status = t.stage == Stage::writing ? way.endpoint->put(region, inside, local, *operation)
                                                  : read_from(*way.endpoint, region, inside, local, *operation);
  if (status == Status::ok) return true;
  operation->busy = false;
  --bulk.in_flight;
  bulk.again.push_back(piece);
  if (status == Status::again) return false;
  bulk.broken |= 1u << way.slot;
  if (status == Status::peer_failed && way.track) refused(*way.track);
  if (status == Status::peer_failed && !way.track) bulk.failed = true;
  return false;
}

void Lane::direct_done(btl::Operation& done, Status status) {
  auto& operation = static_cast<TransferOperation&>(done);
  Transfer* t = operation.transfer;
  if (!t) return abandoned(operation);
  Bulkwork& bulk = *t->bulk;
  operation.busy = false;
  --bulk.in_flight;
  if (status == Status::ok) {
    bulk.direct += operation.piece.length;
  } else {
    bulk.broken |= 1u << operation.way;
    bulk.failed |= !operation.track && status == Status::peer_failed;
    if (operation.track && t->stage == Stage::writing) {
      ++bulk.stranded;
      operation.track->stranded.push_back({bulk.id, operation.piece});
    } else {
      bulk.again.push_back(operation.piece);
    }
  }
  if (!bulk.issuing) t->lane->move_later(*t);
}

/// A write whose way was lost cannot take place any more: its bytes go over another one.
void Lane::write_again(Peer& peer, const Stranded& write) {
  Transfer* t = operations_.find(write.transfer);
  if (!t || t->peer != &peer || t->stage != Stage::writing) return;
  ++counters_.sent_again;
  --t->bulk->stranded;
  t->bulk->again.push_back(write.piece);
  move_later(*t);
}

void Lane::move_later(Transfer& t) {
  if (t.bulk->moving) return;
  t.bulk->moving = true;
  to_move_.push_back(t);
}

void Lane::move_on(Transfer& t) {
  t.bulk->moving = false;
  if (t.stage == Stage::announced) return start_moving(t);
  advance(t);
}

void Lane::end_direct(Transfer& t) {
  const Bulkwork& bulk = *t.bulk;
  if (recalled(t)) return ask_for_data(t);
  if (t.stage == Stage::writing)
    control(*t.peer, MessageKind::written, bulk.remote, bulk.direct);
  else
    control(*t.peer, MessageKind::finished, bulk.remote);
  end(t);
}

/// No way leads to the other side's memory any more: the rest goes as fragments. A reader asks for everything anew.
void Lane::go_without(Transfer& t) {
  if (t.stage == Stage::reading) return ask_for_data(t);
  Bulkwork& bulk = *t.bulk;
  Peer& to = *t.peer;
  if (bulk.direct) control(to, MessageKind::written, bulk.remote, bulk.direct);
  stream(t);
}

}  // namespace weft::pml
