#include "coll/node/node.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/clock.h"
#include "runtime/base/copy.h"
#include "runtime/type/cursor.h"

namespace weft::coll::node {

namespace {

constexpr int kLooks = 64;  // most of them, before others may run

/// Elements of each rank's share of a step, at most `most`: as few steps as that allows, all about as long.
constexpr uint64_t even_share(uint64_t count, uint64_t most, uint32_t ranks) {
  constexpr uint64_t kUnit = 64;  // so that shares begin at lines
  const uint64_t steps = (count + most * ranks - 1) / (most * ranks);
  const uint64_t share = (count + steps * ranks - 1) / (steps * ranks);
  return std::min(most, (share + kUnit - 1) / kUnit * kUnit);
}

/// Calls `part(first, n)` for `count` elements, as many at a time as fit into `most` bytes.
template <class Part>
inline Status in_steps(uint64_t count, uint64_t unit, uint64_t most, Part part) {
  if (count * unit <= most) [[likely]]
    return count ? part(0, count) : Status::ok;
  const uint64_t step = most / unit;
  for (uint64_t first = 0; first < count; first += step)
    if (const Status s = part(first, std::min(step, count - first)); s != Status::ok) return s;
  return Status::ok;
}

/// Of contiguous data.
std::byte* start_of(const pml::Buffer& b) { return static_cast<std::byte*>(b.address) + b.type->origin; }

constexpr size_t page_up(size_t n) { return (n + 4095) & ~size_t{4095}; }

}  // namespace

Segment::Plan::Plan(uint32_t ranks, bool crowded, bool in_groups)
    : grouped(in_groups),
      chunk(!crowded ? ranks <= kFlat ? kChunkOfFew : kChunk
                     : std::clamp(std::bit_floor((uint64_t{4} << 20) / ranks), kChunkOfFew, 4 * kChunkOfFew)),
      share(crowded ? 64 << 10 : 16 << 10),
      piece(crowded ? 64 << 10 : 16 << 10),
      pieces(crowded                           ? kCrowdedPieces
             : ranks > kFlat || !touching_pays ? kLongs
                                               : kMostLongs / std::bit_ceil(ranks) * 2),
      shares(crowded ? std::clamp(2 * kCrowdedPieces / std::bit_ceil(ranks), kLongs, kCrowdedPieces) : pieces) {}

size_t Segment::Plan::heads(uint32_t ranks) const {
  return page_up(sizeof(Header) + ranks * sizeof(Desk) + (pieces + ranks * shares) * sizeof(Line));
}

size_t Segment::Plan::bytes(uint32_t ranks) const { return heads(ranks) + pieces * piece + ranks * areas() + 2 * chunk; }

Segment::Segment(pml::Team& team, std::byte* memory, bool roomy, const Plan& plan, std::span<const int32_t> groups)
    : lane_(team.lane()),
      rank_(team.rank()),
      size_(team.size()),
      memory_(memory),
      roomy_(roomy),
      plan_(plan),
      stride_(plan.areas()),
      groups_(groups.empty() ? std::nullopt : std::optional<Hosts>(groups)),
      patience_(crowded(team.lane().boot().job()) ? 4 : kLooks, kLooks) {
  desks_ = reinterpret_cast<Desk*>(memory + sizeof(Header));
  pieces_ = reinterpret_cast<Line*>(desks_ + size_);
  shares_ = pieces_ + plan_.pieces;
  piece_areas_ = memory + plan_.heads(size_);
  areas_ = piece_areas_ + plan_.pieces * plan_.piece;
}

template <class Ready>
inline Status Segment::wait(Ready ready) {
  const int looks = patience_.looks();
  for (int i = 0; i < looks; ++i) {
    if (ready()) [[likely]] {
      patience_.helped(i);
      return Status::ok;
    }
    cpu_pause();
  }
  patience_.failed();
  return lane_.wait_silent([](void* r) { return (*static_cast<Ready*>(r))(); }, &ready, *this);
}

/// Ranks that meet on one CPU more than on another one make all of them wait for more switches.
std::optional<uint32_t> Segment::way_out(uint32_t, uint64_t now) {
  std::vector<std::optional<uint32_t>> lent(size_);
  for (uint32_t r = 0; r < size_; ++r) lent[r] = desk(r).lent.lately(now);
  return topo::roomier_cpu(lent, rank_);
}

inline Status Segment::wait_for(const std::atomic<uint64_t>& word, uint64_t at_least) {
  return wait([&word, at_least] { return word.load(std::memory_order_acquire) >= at_least; });
}

Status Segment::barrier() {
  const uint64_t n = ++barriers_;
  if (groups_) return barrier_in_groups(n);
  if (size_ > kFlat) {
    // One counter: a rank waits once, however many there are.
    if (header().arrivals.fetch_add(1, std::memory_order_acq_rel) + 1 == n * size_) {
      header().released.store(n, std::memory_order_release);
      return Status::ok;
    }
    return wait_for(header().released, n);
  }
  met(rank_).store(n, std::memory_order_release);
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
    desk(rank_).barrier.sequence.store(n, std::memory_order_release);
    return wait_for(desk(leader).released.sequence, n);
  }
  for (const Rank r : groups_->on(group)) {
    if (r == static_cast<Rank>(rank_)) continue;
    if (const Status s = has_come(static_cast<uint32_t>(r)); s != Status::ok) return s;
  }
  desk(rank_).barrier.sequence.store(n, std::memory_order_release);
  for (int32_t g = 0; g < groups_->count(); ++g) {
    if (const Status s = has_come(leader_of(g)); s != Status::ok) return s;
  }
  desk(rank_).released.sequence.store(n, std::memory_order_release);
  return Status::ok;
}

/// Waits until all ranks have taken broadcast piece number `piece` of a kind.
Status Segment::await_readers(uint64_t piece, bool brief) {
  uint64_t& known = broadcasts_[brief].all_consumed;
  if (known >= piece) return Status::ok;
  uint64_t least = ~uint64_t{0};
  for (uint32_t r = 0; r < size_; ++r) {
    const auto& word = desk(r).consumed[brief].sequence;
    if (const Status s = wait_for(word, piece); s != Status::ok) return s;
    least = std::min(least, word.load(std::memory_order_relaxed));
  }
  known = least;
  return Status::ok;
}

/// Brings the lines of something short that is to be written soon: taking one from who has read it last lasts longer than writing it.
void Segment::claim(const Place& place, uint64_t bytes) {
  claim_line(&place.sequence);
  if (bytes > kInline) claim_line(place.data + kInline);
}

/// Who is behind with what others write for it has a later one of these come meanwhile; who is not would take it from its writer.
inline void Segment::expect(const Place& now, const Place& later, uint64_t n, uint64_t bytes) {
  if (now.sequence.load(std::memory_order_relaxed) < n) return;
  __builtin_prefetch(&later.sequence);
  if (bytes > kInline) __builtin_prefetch(later.data + kInline);
}

/// What stands there has been read by this rank, the only one to do so, and is its writer's again, who gets changed lines sooner.
inline void Segment::give_back(const Place& place, uint64_t bytes) {
  if (!touching_pays) return;
  touch(&place.sequence + 1, 1);  // in its line
  touch(place.data, bytes);
}

/// `move` writes the piece where it is to stand, at the root, and reads it elsewhere.
template <bool kBrief, class Move>
inline Status Segment::bcast_piece(uint64_t bytes, bool sends, Move move) {
  const uint64_t slots = piece_slots(kBrief);
  const uint64_t n = ++broadcasts_[kBrief].number;
  const Place place = piece(n, kBrief);
  if (sends) {
    if (n > slots) {
      if (const Status s = await_readers(n - slots, kBrief); s != Status::ok) return s;
    }
    move(place.data);
    place.sequence.store(n, std::memory_order_release);
    if (kBrief) claim(piece(n + kClaimed, kBrief), bytes);
  } else {
    if (const Status s = wait_for(place.sequence, n); s != Status::ok) return s;
    move(place.data);
    if (kBrief && size_ == 2) give_back(place, bytes);
  }
  if ((n & (slots / 2 - 1)) == 0) desk(rank_).consumed[kBrief].sequence.store(n, std::memory_order_release);
  return Status::ok;
}

Status Segment::bcast(const pml::Buffer& buffer, int root) {
  const bool sends = rank_ == static_cast<uint32_t>(root);
  if (const uint64_t bytes = buffer.count * buffer.type->size; bytes && is_brief(bytes) && buffer.type->contiguous) {
    std::byte* const data = start_of(buffer);
    return bcast_piece<true>(bytes, sends, [=](std::byte* place) { copy_few(sends ? place : data, sends ? data : place, bytes); });
  }
  type::Cursor cursor(buffer.address, buffer.count, *buffer.type);
  const bool fused = touching_pays && size_ == 2 && cursor.contiguous();  // what has been read is the only reader's to change
  while (cursor.left() > 0) {
    const uint64_t bytes = std::min(cursor.left(), plan_.piece);
    const auto move = [&](std::byte* place) {
      if (sends) {
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

/// The operands of some ranks in one; null: one of them does not come any more. The result is in `to`, or the only operand where it was.
template <class Operand>
const std::byte* Segment::combine(const Work& w, Operand operand, int32_t first, int32_t last, std::byte* to, std::byte* spare) {
  if (w.order == Order::chain) {
    const std::byte* sum = operand(static_cast<uint32_t>(last - 1));
    for (int32_t r = last - 2; r >= first && sum; --r) {
      const std::byte* const left = operand(static_cast<uint32_t>(r));
      if (left) op::apply3(w.op, w.type, left, sum, to, w.count);
      sum = left ? to : nullptr;
    }
    return sum;
  }
  if (last - first == 1) return operand(static_cast<uint32_t>(first));
  const int32_t middle = parting(w.order, static_cast<int32_t>(size_), first, last);
  const std::byte* const right = combine(w, operand, middle, last, to, spare);
  const std::byte* const left = right ? combine(w, operand, first, middle, spare, spare + plan_.chunk) : nullptr;
  if (!left) return nullptr;
  op::apply3(w.op, w.type, left, right, to, w.count);
  return to;
}

/// Private memory for a slot's worth of results.
std::byte* Segment::scratch() {
  if (scratch_.empty()) scratch_.resize(plan_.chunk);
  return scratch_.data();
}

/// A chain has no partial result but its last one; other orders have one for each level of their trees.
std::byte* Segment::spare_for(Order order) {
  const size_t levels = order == Order::chain ? 0 : static_cast<size_t>(std::bit_width(size_));
  if (spare_.size() < levels * plan_.chunk) spare_.resize(levels * plan_.chunk);
  return spare_.data();
}

Status Segment::allreduce(const void* in, void* out, uint64_t count, const type::Datatype& type, const op::Op& op, Order order) {
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  if ((size_ <= kFlat || !roomy_) && count * type.size > most_by_all() && most_shared(type.size) > 0)
    return allreduce_shared_out(from, to, {count, type, op, order});
  return in_steps(count, type.size, plan_.chunk, [&](uint64_t first, uint64_t n) {
    return allreduce_chunk(from + first * type.size, to + first * type.size, {n, type, op, order});
  });
}

/// An operand slot is written again two rounds later. By then all ranks have come to the round between, so they are done with it.
Status Segment::allreduce_chunk(const std::byte* in, std::byte* out, const Work& work) {
  const uint64_t n = ++allreduces_, bytes = work.count * work.type.size;
  const int parity = static_cast<int>(n & 1);
  copy_bytes(offered(rank_, bytes), in, bytes);
  const std::byte* own = in;  // to read one's own slot would take its lines back from who reads them
  auto operand = [&](uint32_t r) { return r == rank_ ? own : offered(r, bytes); };
  auto fold = [&](std::byte* to) { combine(work, operand, 0, static_cast<int32_t>(size_), to, spare_for(work.order)); };
  if (by_groups(work.order, work.op)) return allreduce_in_groups(n, out, work);
  if (size_ <= kFlat || groups_) {
    offer(rank_).sequence.store(n, std::memory_order_release);
    if (in == out) own = static_cast<std::byte*>(std::memcpy(scratch(), in, bytes));  // partial results fall upon it
    for (uint32_t r = 0; r < size_; ++r) {
      if (const Status s = wait_for(offer(r).sequence, n); s != Status::ok) return s;
    }
    fold(out);
    return Status::ok;
  }
  // The last one to come does the work for all.
  Line& result = header().result[parity];
  std::byte* const place = data(result, result_area(parity), bytes);
  if (header().offers.fetch_add(1, std::memory_order_acq_rel) + 1 == n * size_) {
    fold(place);
    result.sequence.store(n, std::memory_order_release);
  } else if (const Status s = wait_for(result.sequence, n); s != Status::ok) {
    return s;
  }
  copy_out(out, place, bytes);
  return Status::ok;
}

/// The operands are where they are offered. Each leader combines those of its group, then what all leaders have, so that all have the same
/// bits; its group takes that from it. Slots are free two rounds later: whoever read them has given something since that was waited for.
Status Segment::allreduce_in_groups(uint64_t n, std::byte* out, const Work& work) {
  const uint64_t bytes = work.count * work.type.size;
  const int parity = static_cast<int>(n & 1);
  const std::vector<Rank>& group = groups_->on(groups_->of(static_cast<Rank>(rank_)));
  const auto leader = static_cast<uint32_t>(group.front());
  const auto place = [&](Line& line, uint32_t of, Sum which) { return data(line, sum_area(of, which, parity), bytes); };
  Line& outcome = desk(leader).outcome[parity];
  offer(rank_).sequence.store(n, std::memory_order_release);
  if (rank_ != leader) {
    if (const Status s = wait_for(outcome.sequence, n); s != Status::ok) return s;
    copy_out(out, place(outcome, leader, Sum::of_all), bytes);
    return Status::ok;
  }
  Status status = Status::ok;
  const auto of_member = [&](uint32_t i) -> const std::byte* {
    const auto r = static_cast<uint32_t>(group[i]);
    status = wait_for(offer(r).sequence, n);
    return status == Status::ok ? offered(r, bytes) : nullptr;
  };
  const auto of_group = [&](uint32_t g) -> const std::byte* {
    const uint32_t of = leader_of(static_cast<int32_t>(g));
    Line& line = desk(of).partial[parity];
    status = wait_for(line.sequence, n);
    return status == Status::ok ? place(line, of, Sum::of_group) : nullptr;
  };
  const auto publish = [&](Line& line, Sum which, const std::byte* what) {
    copy_bytes(place(line, leader, which), what, bytes);
    line.sequence.store(n, std::memory_order_release);
  };
  const std::byte* sum = combine(work, of_member, 0, static_cast<int32_t>(group.size()), out, nullptr);
  if (!sum) return status;
  publish(desk(leader).partial[parity], Sum::of_group, sum);
  sum = combine(work, of_group, 0, groups_->count(), out, nullptr);
  if (!sum) return status;
  publish(outcome, Sum::of_all, sum);
  return Status::ok;
}

Status Segment::reduce(const void* in, void* out, uint64_t count, const type::Datatype& type, const op::Op& op, int root, Order order) {
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  return in_steps(count, type.size, plan_.share, [&](uint64_t first, uint64_t n) {
    return reduce_chunk(from + first * type.size, to ? to + first * type.size : nullptr, {n, type, op, order}, static_cast<uint32_t>(root));
  });
}

/// Lets the rank write what it gives, and look at what each has given, `bytes` of them. Slots are those of
/// allreduce, and so are rounds, after each of which all ranks have come to it.
template <class Give, class Take>
inline Status Segment::exchange(uint64_t bytes, Give give, Take take) {
  const uint64_t n = ++allreduces_;
  give(offered(rank_, bytes));
  offer(rank_).sequence.store(n, std::memory_order_release);
  if (size_ > kFlat && !groups_) header().offers.fetch_add(1, std::memory_order_acq_rel);  // where allreduce counts who has come
  for (uint32_t i = 0, r = rank_; i < size_; ++i, r = r + 1 == size_ ? 0 : r + 1) {
    if (const Status s = wait_for(offer(r).sequence, n); s != Status::ok) return s;
    take(r, offered(r, bytes));
  }
  return Status::ok;
}

/// Where what a rank has for another one lies in this round, `length` bytes of each pair, the same however ranks' types differ. The two
/// change places every other round, as in place_of(), if it is not brief.
std::byte* Segment::between(uint32_t from, uint32_t to, uint64_t length) {
  if (is_brief(size_ * length)) return offered(from, size_ * length) + place_for(to, from) * length;
  if (allreduces_ / 2 & 1) std::swap(from, to);
  return offer_area(from, static_cast<int>(allreduces_ & 1)) + place_for(to, from) * length;
}

/// A block of each rank to all, or one to each, a slot's worth at a time.
Status Segment::exchange_blocks(type::Cursor mine, const pml::Buffer& out, uint64_t block, bool to_each) {
  const uint32_t blocks = to_each ? size_ : 1;
  const uint64_t most = std::min(block, plan_.chunk / blocks);
  const int64_t step = static_cast<int64_t>(out.count) * out.type->extent;
  for (uint64_t done = 0; done < block; done += most) {
    const uint64_t n = std::min(most, block - done);
    const bool direct = mine.contiguous() && n > Brief::most;  // a rank's own block need not pass its slot
    const auto place = [&](uint32_t from, uint32_t to) { return to_each ? between(from, to, n) : offered(from, n); };
    const auto give = [&](std::byte*) {
      for (uint32_t i = 0; i < blocks; ++i) {
        if (direct && to_each && i == rank_) continue;
        mine.seek(i * block + done);
        mine.pack(place(rank_, i), n);
      }
    };
    const auto take = [&](uint32_t r, const std::byte*) {
      type::Cursor theirs(static_cast<std::byte*>(out.address) + r * step, out.count, *out.type);
      theirs.seek(done);
      const std::byte* from = place(r, rank_);
      if (r == rank_ && direct) {
        mine.seek((to_each ? rank_ * block : 0) + done);
        from = mine.data();
        if (theirs.contiguous() && theirs.data() == from) return;
      }
      theirs.unpack(from, n);
    };
    if (const Status s = exchange(n * blocks, give, take); s != Status::ok) return s;
  }
  return Status::ok;
}

/// Of contiguous data of at most Brief::most bytes a rank. What a rank has for itself stays where it is.
Status Segment::exchange_brief(const std::byte* in, std::byte* out, uint64_t block, bool to_each) {
  const uint64_t own = to_each ? rank_ * block : 0;
  const auto give = [=, this](std::byte* place) {
    if (own) copy_few(place, in, own);
    copy_few(place + own, in + (to_each ? own + block : 0), to_each ? (size_ - 1) * block - own : block);
  };
  const auto take = [=, this](uint32_t r, const std::byte* theirs) {
    const std::byte* const from = r == rank_ ? in + own : theirs + (to_each ? place_for(rank_, r) * block : 0);
    if (std::byte* const to = out + r * block; to != from) copy_few(to, from, block);
  };
  return exchange(to_each ? size_ * block : block, give, take);
}

Status Segment::allgather(const pml::Buffer& in, const pml::Buffer& out) {
  const uint64_t block = in.count * in.type->size;
  if (is_brief(block) && in.type->contiguous && out.type->contiguous) return exchange_brief(start_of(in), start_of(out), block, false);
  return exchange_blocks(type::Cursor(in.address, in.count, *in.type), out, block, false);
}

Status Segment::alltoall(const pml::Buffer& in, const pml::Buffer& out) {
  const uint64_t block = in.count * in.type->size;
  if (is_brief(block * size_) && in.type->contiguous && out.type->contiguous)
    return exchange_brief(start_of(in), start_of(out), block, true);
  return exchange_blocks(type::Cursor(in.address, in.count * size_, *in.type), out, block, true);
}

/// The ranks' shares of a reduction, one each: all give the others what is theirs, and the own share is combined in `to`. `part(r)` is rank
/// r's share here; `most` elements are in the largest one.
template <class Part>
Status Segment::reduce_shares(Part part, uint64_t most, const Work& w, std::byte* to) {
  const uint64_t length = most * w.type.size;
  const auto give = [&](std::byte*) {
    for (uint32_t r = 0; r < size_; ++r)
      if (r != rank_) copy_bytes(between(rank_, r, length), part(r).address, part(r).count * w.type.size);
  };
  if (const Status s = exchange(size_ * length, give, [](uint32_t, const std::byte*) {}); s != Status::ok) return s;
  const auto operand = [&](uint32_t r) -> const std::byte* { return r == rank_ ? part(r).address : between(r, rank_, length); };
  combine({part(rank_).count, w.type, w.op, w.order}, operand, 0, static_cast<int32_t>(size_), to, spare_for(w.order));
  return Status::ok;
}

/// Each rank combines a share of each piece, and all take the results of all: two meetings, but each operand goes once to one rank.
Status Segment::allreduce_shared_out(const std::byte* in, std::byte* out, const Work& w) {
  const uint64_t unit = w.type.size, most = even_share(w.count, most_shared(unit), size_);
  for (uint64_t done = 0; done < w.count; done += most * size_) {
    const auto from = [&](uint32_t r) { return std::min(w.count, done + r * most); };
    const auto part = [&](uint32_t r) { return Share{in + from(r) * unit, from(r + 1) - from(r)}; };
    std::byte* const own = out + from(rank_) * unit;
    std::byte* const sums = own == part(rank_).address ? scratch() : own;  // partial sums must not fall upon the operand
    if (const Status s = reduce_shares(part, most, w, sums); s != Status::ok) return s;
    const auto give = [&](std::byte* place) { copy_bytes(place, sums, part(rank_).count * unit); };
    const auto take = [&](uint32_t r, const std::byte* theirs) {
      if (r != rank_ || own != sums) copy_out(out + from(r) * unit, theirs, part(r).count * unit);
    };
    if (const Status s = exchange(plan_.chunk, give, take); s != Status::ok) return s;
  }
  return Status::ok;
}

Status Segment::reduce_scatter(const void* in, void* out, uint64_t count, const type::Datatype& type, const op::Op& op) {
  const uint64_t most = std::min(count, most_shared(type.size));
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  for (uint64_t done = 0; done < count; done += most) {
    const uint64_t n = std::min(most, count - done);
    const auto part = [&](uint32_t r) { return Share{from + (r * count + done) * type.size, n}; };
    std::byte* const own = to + done * type.size;
    std::byte* const sums = own == part(rank_).address ? scratch() : own;
    if (const Status s = reduce_shares(part, most, {n, type, op, Order::chain}, sums); s != Status::ok) return s;
    if (own != sums) std::memcpy(own, sums, n * type.size);
  }
  return Status::ok;
}

/// Waits until the slot of reduce number n is free: until the root of then, who says so, has collected what was there. Senders that are
/// ahead look at its line only when they need to.
Status Segment::await_root(uint64_t n, bool brief) {
  const uint64_t slots = share_slots(brief);
  if (n <= slots) return Status::ok;
  Reduces& known = reduces_[brief];
  const uint32_t root = known.roots[n & (slots - 1)];
  if (known.root == root && known.collected >= n - slots) return Status::ok;
  const auto& word = desk(root).collected[brief].sequence;
  const Status status = wait_for(word, n - slots);
  known.root = root;
  known.collected = word.load(std::memory_order_relaxed);
  return status;
}

/// Tells of what this rank has collected before reduce n, some at a time, but no later than half the slots after: nobody waits for more of
/// one that has come as far as itself, so that the rank that is furthest behind always goes on.
void Segment::tell_collected(uint64_t n, bool brief) {
  Reduces& own = reduces_[brief];
  if (own.done == own.told || n < own.told + share_slots(brief) / 2) return;
  own.told = own.done;
  desk(rank_).collected[brief].sequence.store(own.told, std::memory_order_release);
}

Status Segment::reduce_chunk(const std::byte* in, std::byte* out, const Work& work, uint32_t root) {
  const uint64_t bytes = work.count * work.type.size;
  const bool brief = is_brief(bytes);
  Reduces& own = reduces_[brief];
  const uint64_t n = ++own.number;
  tell_collected(n, brief);
  const Place mine = share(rank_, n, brief);
  const bool in_place = in == out;  // partial results would fall upon the operand
  if (rank_ != root || in_place) {
    if (const Status s = await_root(n, brief); s != Status::ok) return s;
    if (brief)
      copy_few(mine.data, in, bytes);
    else
      copy_bytes(mine.data, in, bytes);
  }
  own.roots[n & (share_slots(brief) - 1)] = root;
  if (rank_ != root) {
    mine.sequence.store(n, std::memory_order_release);
    if (brief) claim(share(rank_, n + kClaimed, brief), bytes);
    return Status::ok;
  }
  Status status = Status::ok;
  auto arrived = [&](uint32_t r) -> const std::byte* {
    if (r == rank_) return in_place ? mine.data : in;
    const Place theirs = share(r, n, brief);
    if (brief) expect(theirs, share(r, n + kAhead, brief), n, bytes);
    status = wait_for(theirs.sequence, n);
    return status == Status::ok ? theirs.data : nullptr;
  };
  if (!combine(work, arrived, 0, static_cast<int32_t>(size_), out, spare_for(work.order))) return status;
  own.done = n;
  for (uint32_t r = 0; r < size_; ++r)
    if (r != rank_) give_back(share(r, n, brief), bytes);
  return Status::ok;
}

}  // namespace weft::coll::node
