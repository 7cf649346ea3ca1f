#include "coll/node/node.h"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "coll/node/inside.h"
#include "runtime/type/cursor.h"

namespace weft::coll::node {

namespace {

constexpr int kLooks = 64;  // most of them, before others may run

uint32_t ranks_per_cpu(const boot::Job& job) {
  const auto cpus = std::max<size_t>(job.cpus, 1);
  return std::max(2U, static_cast<uint32_t>((job.node_ranks.size() + cpus - 1) / cpus));
}

constexpr size_t page_up(size_t n) { return (n + 4095) & ~size_t{4095}; }

}  // namespace

Segment::Plan::Plan(uint32_t ranks, bool crowded, bool in_groups) : grouped(in_groups), briefs(crowded ? kMostBriefs : kBriefs) {
  constexpr uint64_t kMedium = 16 << 10, kLarge = 64 << 10;
  if (crowded) {
    const auto shared_out = [&](uint64_t pieces) { return std::clamp(2 * pieces / std::bit_ceil(ranks), pieces / 4, pieces); };
    chunk = std::clamp(std::bit_floor((uint64_t{4} << 20) / ranks), kChunkOfFew, 4 * kChunkOfFew);
    medium = {kMedium, kCrowdedMediums, shared_out(kCrowdedMediums)};
    large = {kLarge, kCrowdedPieces, shared_out(kCrowdedPieces)};
    if (most_gathered(ranks, false) > kLarge && few(ranks)) parcels = kParcels;
  } else {
    const uint64_t slots = ranks > kFlat || !leaving_pays ? kLongs : kMostLongs / std::bit_ceil(ranks) * 2;
    chunk = std::clamp(std::bit_floor((uint64_t{2} << 20) / ranks), kChunk, kChunkOfFew);
    large = {kMedium, slots, slots};
  }
}

size_t Segment::Plan::front(uint32_t ranks) const {
  return sizeof(Header) + Waking::bytes(ranks) + ranks * sizeof(Desk) + (pieces() + ranks * (shares() + 2 * parcels)) * sizeof(Line) +
         (1 + ranks) * briefs * sizeof(Brief);
}

size_t Segment::Plan::heads(uint32_t ranks, size_t boards_before) const {
  size_t bytes = front(ranks);
  for (size_t i = 0; i < boards_before; ++i) bytes += Board::bytes(ranks, boards()[i]);
  return bytes;
}

size_t Segment::Plan::slots(uint32_t ranks) const { return page_up(heads(ranks)) + kMidPage; }

size_t Segment::Plan::bytes(uint32_t ranks) const { return slots(ranks) + piece_bytes() + ranks * areas() + 2 * chunk; }

Segment::Segment(pml::Team& team, std::byte* memory, bool roomy, const Plan& plan, std::span<const int32_t> groups)
    : lane_(team.lane()),
      rank_(team.rank()),
      size_(team.size()),
      memory_(memory),
      roomy_(roomy),
      plan_(plan),
      part_(plan.large.bytes / (size_ - 1)),
      stride_(plan.areas()),
      groups_(groups.empty() ? std::nullopt : std::optional<Hosts>(groups)),
      waking_(team, memory + sizeof(Header), memory, plan.bytes(size_)),
      boards_{Board(lane_, memory + plan.heads(size_, 0), rank_, size_, plan.boards()[0], *this, waking_),
              Board(lane_, memory + plan.heads(size_, 1), rank_, size_, plan.boards()[1], *this, waking_),
              Board(lane_, memory + plan.heads(size_, 2), rank_, size_, plan.boards()[2], *this, waking_)},
      patience_(crowded(team.lane().boot().job()) ? 4 : kLooks, kLooks),
      access_(size_),
      readings_(roomy ? 1 : ranks_per_cpu(team.lane().boot().job())),
      root_readings_(plan.large.bytes * plan.large.pieces),
      nonce_(header().nonce),
      shown_(size_) {
  desks_ = reinterpret_cast<Desk*>(memory + sizeof(Header) + Waking::bytes(size_));
  pieces_ = reinterpret_cast<Line*>(desks_ + size_);
  shares_ = pieces_ + plan_.pieces();
  parcel_lines_ = shares_ + size_ * plan_.shares();
  briefs_ = reinterpret_cast<Brief*>(parcel_lines_ + 2 * size_ * plan_.parcels);
  piece_areas_ = memory + plan_.slots(size_);
  areas_ = piece_areas_ + plan_.piece_bytes();
  desk(rank_).owner = {getpid(), &nonce_};
  joint_ = btl::copy::JointReader(&desk(rank_).joint);
  if (size_ == lane_.boot().job().node_ranks.size()) lane_.joins(*this, team);
}

/// In a wait for a word, in one for what boards show, or in both.
bool Segment::lies_down(bool briefly) {
  const bool shown = std::ranges::any_of(boards_, &Board::busy);
  return (shown || awaited_.word) && waking_.lies_down(shown ? Waking::Cause{} : awaited_, briefly);
}

/// Ranks that meet on one CPU more than on another one make all of them wait for more switches.
topo::Place Segment::way_out(topo::Ties ties, std::span<const uint32_t> cpus, uint64_t now) {
  std::vector<std::optional<topo::Lent>> lent(size_);
  for (uint32_t r = 0; r < size_; ++r) lent[r] = desk(r).lent.lately(now);
  return topo::better_cpu(lent, rank_, ties.had_better_leave(), cpus);
}

Status Segment::barrier() {
  const uint64_t n = ++barriers_;
  if (groups_) return barrier_in_groups(n);
  if (size_ > kFlat) {
    // One counter: a rank waits once, however many there are.
    if (header().arrivals.fetch_add(1, std::memory_order_acq_rel) + 1 == n * size_) {
      tell(header().released, n);
      return Status::ok;
    }
    return wait_for(header().released, n);
  }
  tell(met(rank_), n);
  for (uint32_t r = 0; r < size_; ++r) {
    if (const Status s = wait_for(met(r), n); s != Status::ok) return s;
  }
  return Status::ok;
}

/// A group's ranks tell their leader, the leaders each other, and each its group: three lines after one another, however many ranks there
/// are. A counter would pass from rank to rank.
Status Segment::barrier_in_groups(uint64_t n) {
  const int32_t group = groups_->of(static_cast<Rank>(rank_));
  const auto has_come = [&](uint32_t r) { return wait_for(desk(r).barrier.sequence, n); };
  if (const uint32_t leader = leader_of(group); rank_ != leader) {
    tell(desk(rank_).barrier.sequence, n);
    return wait_for(desk(leader).released.sequence, n);
  }
  for (const Rank r : groups_->on(group)) {
    if (r == static_cast<Rank>(rank_)) continue;
    if (const Status s = has_come(static_cast<uint32_t>(r)); s != Status::ok) return s;
  }
  tell(desk(rank_).barrier.sequence, n);
  for (int32_t g = 0; g < groups_->count(); ++g) {
    if (const Status s = has_come(leader_of(g)); s != Status::ok) return s;
  }
  tell(desk(rank_).released.sequence, n);
  return Status::ok;
}

/// Waits until all ranks have taken broadcast piece number `piece` of a size.
Status Segment::await_readers(uint64_t piece, Size size) {
  uint64_t& known = broadcasts_[at(size)].all_consumed;
  if (known >= piece) return Status::ok;
  uint64_t least = ~uint64_t{0};
  for (uint32_t r = 0; r < size_; ++r) {
    const auto& word = desk(r).consumed[at(size)].sequence;
    if (const Status s = wait_for(word, piece); s != Status::ok) return s;
    least = std::min(least, word.load(std::memory_order_relaxed));
  }
  known = least;
  return Status::ok;
}

Status Segment::bcast(const pml::Buffer& buffer, int root) {
  const bool sends = rank_ == static_cast<uint32_t>(root);
  if (const uint64_t bytes = buffer.count * buffer.type->size; bytes && is_brief(bytes) && buffer.type->contiguous) {
    std::byte* const data = start_of(buffer);
    return bcast_piece<true>(bytes, sends, [=](std::byte* place) { copy_few(sends ? place : data, sends ? data : place, bytes); });
  }
  type::Cursor cursor(buffer.address, buffer.count, *buffer.type);
  if (cursor.left() < RootReadings::kLeast) return bcast_pieces(cursor, sends);
  return sends ? give_long(cursor) : take_long(cursor, static_cast<uint32_t>(root));
}

Status Segment::bcast_pieces(type::Cursor& cursor, bool sends) {
  const bool fused = touching_pays && size_ == 2 && cursor.contiguous();  // what has been read is the only reader's to change
  while (cursor.left() > 0) {
    const uint64_t bytes = std::min(cursor.left(), plan_.large.bytes);
    const auto move = [&](std::byte* place) {
      if (sends && cursor.contiguous()) {
        copy_in(place, cursor.data(), bytes);
        cursor.seek(cursor.position() + bytes);
      } else if (sends) {
        cursor.pack(place, bytes);
      } else if (fused) {
        copy_and_touch(cursor.data(), place, bytes);
        cursor.seek(cursor.position() + bytes);
      } else {
        cursor.unpack(place, bytes);
      }
    };
    const Status s = is_brief(bytes) ? bcast_piece<true>(bytes, sends, move) : bcast_piece<false>(bytes, sends, move);
    if (s != Status::ok) return s;
  }
  return Status::ok;
}

}  // namespace weft::coll::node
