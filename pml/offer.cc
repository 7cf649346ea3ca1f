// What would be eager, offered to be read by a receiver that has asked for it: it reads unchanged data sooner than the ring brings it.
//
// A standard send of that length ends without its receive, as long as there is room, and stays so: what nobody has read for a while its
// sender copies, recalls the offer, and ends. A receiver that has read asks whether the offer was recalled meanwhile; if so it asks for
// the data, which the copy has. A copy is charged to the peer's room, as an eager message is.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "pml/lane.h"
#include "runtime/type/predefined.h"

namespace weft::pml {
namespace {

constexpr uint8_t kMostLapses = 12;
/// Messages that are sent one after the other without an answer, each when the one before is over, had better come unasked below this:
/// the ring holds several (MPI_Send of 16, 32, 64 KiB in a row on an Intel Granite Rapids: 16.5, 18, 18.7 GB/s, read 12, 16, 23).
constexpr uint64_t kOfferOneByOneFrom = 64 << 10;
constexpr uint32_t kIdleLooks = 200;    // quiet rounds: some 0.3 ms
constexpr uint32_t kLooksPerAge = 256;  // the same
constexpr uint8_t kOld = 16;            // in these: some ms

/// A message offered to the peer has lapsed. A whole window of them is one event, as when the peer was interrupted.
void grow_shy(Peer& peer) {
  if (peer.shy > 0) return;
  peer.lapses = std::min<uint8_t>(static_cast<uint8_t>(peer.lapses + 2), kMostLapses);
  peer.shy = static_cast<uint16_t>(1u << peer.lapses);
}

}  // namespace

// Receiver

/// So many bytes have come unasked: would they better be read? If so, their sender is told once.
void Lane::weigh(Peer& from, uint64_t bytes) {
  if (from.asked || from.rails) return;
  const btl::Flow flow = flow_from(from);
  if (is_contended(flow) || !better_offered(from, bytes, flow)) return;
  from.asked = true;
  control(from, MessageKind::offer, 0);
}

/// A message that the peer has offered is not read: shall those to come be offered all the same? One alone says little of others: the
/// first of a window is none of a stream, and windows of 64 KiB, whose others had come unasked by then, half went by the ring.
bool Lane::goes_on_asking(Peer& from, const Bulkwork& bulk) const {
  constexpr uint8_t kMostRefused = 3;
  if (bulk.better_unasked()) return false;
  if (better_offered(from, bulk.total, bulk.flow)) return true;
  return from.asked && ++from.refused < kMostRefused;
}

/// Have waits left their CPU to others who wanted it lately? To be asked of each long message. Then no side's copies go on beside the
/// other's: what counts is the work of both, and whoever sends had better not have to come back for an answer. Unless it sends windows:
/// where four ranks share two CPUs, those of 64 KiB both ways, whose first messages after each yield came unasked, went by rings every
/// other time, one way at a time, in 7 instead of 4.2 us a message (Intel Granite Rapids).
bool Lane::contended() { return contended_ > 0 && contended_-- > 0; }

/// Messages that still count as crossing own ones after one that did: not each is seen to, as an own send may be over by then. Halos of
/// 64 KiB went by rings, once one had not been seen to, in 10.8 instead of 6 us (Intel Granite Rapids).
constexpr uint8_t kCrossed = 8;

/// By what has been sent to the peer since its long message before this one.
btl::Flow Lane::flow_from(Peer& from) {
  const bool silent = from.unanswered_long();
  from.sent_before = from.next_sequence;
  from.crossed = owed_ > 0 ? kCrossed : from.crossed - (from.crossed > 0);
  if (contended() && !from.windows.seen()) return owed_ > 1 ? btl::Flow::contended_busy : btl::Flow::contended;
  if (from.crossed > 0) return from.reads ? btl::Flow::both_while_read : btl::Flow::both_ways;
  return silent ? btl::Flow::stream : btl::Flow::alone;
}

/// Was what has been read changed meanwhile, as far as can be known?
bool Lane::recalled(const Transfer& t) const {
  const Exposure& theirs = t.bulk->theirs;
  if (t.stage != Stage::reading || !theirs.lapses) return false;
  const Way* way = t.peer->way(theirs.wire);
  return !way || way->endpoint->peer_recalls() != theirs.recalls;
}

// Sender

void Lane::on_wish(Peer& from, bool reads) {
  if (from.reads == reads) return;
  from.reads = reads;
  restore_quick(from);
}

/// Is a send to somebody who would rather read to be announced, though it could be eager?
bool Lane::offers(const Transfer& t, Peer& to, const Protocols& protocols) {
  if (!t.base || t.capacity < kOfferFrom || t.capacity >= protocols.eager_below) return false;
  const bool heard = std::exchange(to.heard_before, to.expected) != to.expected;
  if (!heard && owed_ == 1 && t.capacity < kOfferOneByOneFrom) return false;
  if (to.shy == 0) return true;
  --to.shy;
  return false;
}

void Lane::let_lapse(Transfer& t, const Peer& to) {
  Bulkwork& bulk = *t.bulk;
  bulk.mine.lapses = 1;
  bulk.mine.recalls = to.way(bulk.mine.wire)->endpoint->recalls();
  bulk.offered = true;
  if (offers_++ == 0) offers_idle_ = 0;
}

/// Each quiet round. When none has been taken up for a while all are old; each one is, too, if only others are taken up.
void Lane::look_after_offers() {
  const bool idle = ++offers_idle_ >= kIdleLooks;
  if (!idle && ++offers_looked_ % kLooksPerAge) return;
  leave_copies(idle ? 0 : kOld);
}

/// Those that are so old leave copies, as far as there is room.
void Lane::leave_copies(uint8_t least_age) {
  std::vector<Transfer*> old;
  operations_.each([&](Transfer& t) {
    if (!sends(t) || !t.bulk->offered || t.stage != Stage::announced || t.withdrawing) return;
    if (t.bulk->age++ >= least_age) old.push_back(&t);
  });
  offers_idle_ = 0;
  for (Transfer* t : old)
    if (has_room(*t->peer, t->capacity)) leave_copy(*t);
}

void Lane::leave_all_copies() {
  const auto leave = [](Lane& lane) {
    std::lock_guard hold(lane.lock_);
    if (lane.offers_) lane.leave_copies(0);
  };
  leave(*this);
  for (Lane* other : others_) leave(*other);
}

void Lane::leave_copy(Transfer& t) {
  std::unique_ptr<std::byte[]> copy(new (std::nothrow) std::byte[t.capacity]);
  if (!copy) return;
  memcpy(copy.get(), t.base, t.capacity);
  Peer& to = *t.peer;
  to.way(t.bulk->mine.wire)->endpoint->recall();
  ++counters_.lapsed;
  grow_shy(to);

  Transfer& heir = *take_transfer(RequestKind::send);
  heir.match_context = t.match_context;
  heir.source = t.source;
  heir.tag = t.tag;
  heir.dest = t.dest;
  heir.peer = &to;
  heir.stage = Stage::announced;
  heir.orphan = true;
  use(heir, {copy.get(), t.capacity, &type::of(type::Basic::byte)});
  heir.bulk = std::move(t.bulk);
  Bulkwork& bulk = bulk_of(heir);
  bulk.copy = std::move(copy);
  bulk.offered = false;
  to.credit -= static_cast<int64_t>(heir.capacity);
  operations_.pass_on(bulk.id, heir);
  ++owed_;
  --offers_;
  end(t);
}

/// The offer has been taken up, or its copy, or it has failed.
void Lane::forget_copy(Transfer& t) {
  Bulkwork& bulk = *t.bulk;
  if (bulk.offered) {
    --offers_;
    offers_idle_ = 0;
    t.peer->lapses -= t.peer->lapses > 0;
    return;
  }
  t.peer->credit += static_cast<int64_t>(t.capacity);
  if (!t.peer->quick_below) restore_quick(*t.peer);
}

}  // namespace weft::pml
