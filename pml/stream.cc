// The data of a large message as fragments, and how data is spread over several ways.
#include <algorithm>

#include "include/mpi.h"
#include "pml/lane.h"
#include "runtime/base/error.h"

namespace weft::pml {
namespace {

constexpr size_t kRuns = 64;               // pieces of memory described at a time
constexpr uint64_t kZcopyPiece = 4 << 20;  // so that small messages get their turn on a stream
constexpr uint64_t kCopyPiece = 64 << 10;  // through memory that both sides share
constexpr uint64_t kLeastStripe = 64 << 10, kMostStripe = 1 << 20;
constexpr uint64_t kMinRunBytes = 2048;  // mean piece below which packing is cheaper

btl::Header fragment(const Bulkwork& bulk, const Piece& piece, const Track* track) {
  btl::Header header{};
  header.context = bulk.remote;
  header.kind = static_cast<uint8_t>(MessageKind::fragment);
  header.length = static_cast<uint32_t>(piece.length);
  header.flags = track ? track->counted() : 0;
  set_offset(header, piece.offset);
  return header;
}

}  // namespace

/// How much each way is given at a time, by its bandwidth, so that all are done at about the same time. `alone`: if there is one only.
void Lane::share_out(std::span<Outlet> ways, uint64_t total, uint64_t alone) {
  const auto speed = [](const Outlet& way) { return 1 / std::max(way.track ? way.track->beta_ns_per_byte : 1, 1e-6); };
  double best = 0;
  for (const Outlet& way : ways) best = std::max(best, speed(way));
  const uint64_t stripe = ways.size() > 1 ? std::clamp(total / (ways.size() * 4), kLeastStripe, kMostStripe) : alone;
  for (Outlet& way : ways)
    way.limit = std::max<uint64_t>(static_cast<uint64_t>(static_cast<double>(stripe) * speed(way) / best), kLeastStripe / 4);
}

/// The ways that fragments can take now, and how long a piece is at most, so that the ways are done at about the same time.
Lane::Outlets Lane::outlets(Peer& to, uint64_t total) {
  Outlets out;
  if (!to.rails) {
    const Way& way = to.ways.front();
    out.ways[out.count++] = {way.endpoint, way.caps, nullptr, 0, kZcopyPiece, false};
    return out;
  }
  const Track* first = to.rails->best_for_large();
  for (size_t slot = 0; slot < to.rails->order.size() && out.count < out.ways.size(); ++slot) {
    Track& track = to.rails->tracks[to.rails->order[slot]];
    if (!track.usable() || !to.rails->together(track, *first)) continue;
    out.ways[out.count++] = {track.endpoint, track.caps, &track, slot, 0, false};
  }
  share_out(out.all(), total, kZcopyPiece);
  return out;
}

/// Begins to send a transfer's data as fragments, or what is left of it.
void Lane::stream(Transfer& t) {
  Peer& to = *t.peer;
  t.stage = Stage::streaming;
  to.streams.push_back(t);
  if (to.rails && t.bulk->total >= kStripeFrom) to.rails->wanted = true;
  if (to.rails) t.bulk->provide(t, to.rails->order.size());
  queue(to);
}

/// Hands over as many fragments as find room. Takes the transfer from the list with the last. False: no way takes more now.
bool Lane::push_stream(Transfer& t) {
  Bulkwork& bulk = *t.bulk;
  Peer& to = *t.peer;
  if (bulk.failed) {  // the transport says more through lost()
    to.streams.remove(t);
    end(t, MPI_ERR_PROC_ABORTED);
    return true;
  }
  Outlets ways = outlets(to, bulk.total);
  for (bool more = true; more;) {  // in turn, so that each carries its share
    more = false;
    for (size_t i = 0; i < ways.count && !to.failed; ++i) more |= push_over(t, ways.ways[i]);
  }
  const bool room = !std::ranges::all_of(ways.all(), &Outlet::full);
  if (to.failed || bulk.left()) return room;
  if (!to.rails && (bulk.in_flight || bulk.failed)) return room;
  to.streams.remove(t);
  if (to.rails)
    t.stage = Stage::confirming;
  else
    end(t);
  return room;
}

/// Hands over one fragment; false if the way has no room, or nothing is left.
bool Lane::push_over(Transfer& t, Outlet& way) {
  Bulkwork& bulk = *t.bulk;
  TransferOperation& operation = bulk.operations[way.slot];
  if (!bulk.left() || bulk.failed || operation.busy || (way.track && !way.track->usable())) return false;
  const Piece piece = in_place(bulk, way);
  const Status status = piece.length ? push_zcopy(bulk, way, operation, piece) : push_copy(t, way);
  if (status == Status::ok) {
    ++pushed_;
    return true;
  }
  if (status == Status::again) {
    way.full = true;
    return false;
  }
  if (way.track)
    refused(*way.track);
  else
    fail_peer(*t.peer, std::string(last_failure()));
  return false;
}

/// The next bytes that can be sent straight from user memory, described in bulk.runs; none if it is so scattered that packing is cheaper.
Piece Lane::in_place(Bulkwork& bulk, const Outlet& way) {
  if (!way.caps->zcopy) return {};
  Piece piece = bulk.next_piece(std::min<uint64_t>(way.limit, way.caps->max_zcopy));
  bulk.cursor.seek(piece.offset);
  bulk.runs.resize(kRuns);
  bulk.runs.resize(bulk.cursor.runs(bulk.runs, piece.length));
  piece.length = bulk.cursor.position() - piece.offset;
  if (piece.length / bulk.runs.size() < kMinRunBytes && piece.length < bulk.total) return {};
  return piece;
}

Status Lane::push_zcopy(Bulkwork& bulk, const Outlet& way, TransferOperation& operation, const Piece& piece) {
  const btl::Header header = fragment(bulk, piece, way.track);
  operation.done = zcopy_done;
  operation.busy = true;
  ++bulk.in_flight;
  const Status status = put_in_place(*operation.transfer->peer, *way.endpoint, *way.caps, header, bulk.runs, operation);
  if (status == Status::ok) {
    bulk.took(piece.length);
    if (way.track) way.track->unacknowledged.push_back({header, nullptr, bulk.id});
    return status;
  }
  operation.busy = false;
  --bulk.in_flight;
  return status;
}

/// Sends through the wire's own memory. Of a message that goes alone pieces are smaller, so that the receiver can begin to copy out early;
/// where others follow, larger ones cost less.
Status Lane::push_copy(Transfer& t, const Outlet& way) {
  Bulkwork& bulk = *t.bulk;
  const bool alone = !t.prev && !t.next;
  const uint64_t best = way.caps->same_node ? kCopyPiece : way.caps->max_buffered;
  const uint64_t most = std::min<uint64_t>(way.caps->max_buffered, best);
  const Piece piece = bulk.next_piece(alone ? std::clamp(bulk.total / 4, most / 2, most) : most);
  bulk.cursor.seek(piece.offset);
  const btl::Header header = fragment(bulk, piece, way.track);
  const Status status = way.endpoint->send(header, bulk.cursor);
  if (status != Status::ok) return status;
  bulk.took(piece.length);
  if (way.track) way.track->unacknowledged.push_back({header, nullptr, bulk.id});
  return status;
}

void Lane::zcopy_done(btl::Operation& done, Status status) {
  auto& operation = static_cast<TransferOperation&>(done);
  Transfer* t = operation.transfer;
  if (!t) return abandoned(operation);
  operation.busy = false;
  --t->bulk->in_flight;
  // With several ways the bytes are sent again over another one, once both sides have agreed on what has come.
  if (status != Status::ok && !t->peer->rails) t->bulk->failed = true;
  t->lane->queue(*t->peer);
}

}  // namespace weft::pml
