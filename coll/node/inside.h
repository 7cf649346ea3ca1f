// What the kernels are made of: waiting, slots that take turns, meetings of all ranks.
#pragma once

#include <algorithm>

#include "coll/node/node.h"
#include "runtime/base/clock.h"
#include "runtime/base/copy.h"

namespace weft::coll::node {

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

template <class Ready>
inline Status Segment::wait(Ready ready, Waking::Cause cause) {
  const int looks = patience_.looks();
  for (int i = 0; i < looks; ++i) {
    if (ready()) [[likely]] {
      patience_.helped(i);
      return Status::ok;
    }
    cpu_pause();
  }
  patience_.failed();
  awaited_ = cause;
  const Status status = lane_.wait_silent([](void* r) { return (*static_cast<Ready*>(r))(); }, &ready, *this);
  awaited_ = {};
  return status;
}

/// Until tell() says so.
inline Status Segment::wait_for(const std::atomic<uint64_t>& word, uint64_t at_least) {
  return wait([&word, at_least] { return word.load(std::memory_order_acquire) >= at_least; }, {&word, at_least});
}

/// What has been waited for is about to be read. Who reads on before, by guess, takes lines from their writer; of few lines none that
/// matter.
inline void Segment::about_to_read(uint64_t bytes) {
  if (!is_brief(bytes)) wait_is_over();
}

/// Brings the lines of something short that is to be written soon: taking one from who has read it last lasts longer than writing it.
inline void Segment::claim(const Place& place, uint64_t bytes) {
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

/// Waits until the slot of piece number n is free.
inline Status Segment::await_piece(uint64_t n, Size size) {
  const uint64_t slots = piece_slots(size);
  return n > slots ? await_readers(n - slots, size) : Status::ok;
}

/// Who looks for what is not there yet takes its line from its writer, whose stores to later ones wait for that: the writer is let get
/// ahead (64 B scattered by one of two ranks again and again: 40 instead of 80 ns each, where the other one happens to be a little faster).
inline void Segment::let_get_ahead(const std::atomic<uint64_t>& word, uint64_t n) {
  if (word.load(std::memory_order_acquire) < n) cpu_pause();
}

/// Tells of the pieces that this rank has taken, half the slots at a time.
inline void Segment::tell_taken(uint64_t n, Size size) {
  if ((n & (piece_slots(size) / 2 - 1)) == 0) tell(desk(rank_).consumed[at(size)].sequence, n);
}

/// Calls `move(place)`, which may return how many bytes it has moved of so many that it might have.
template <class Move>
inline uint64_t moved_at(std::byte* place, uint64_t most, Move& move) {
  if constexpr (std::is_void_v<std::invoke_result_t<Move&, std::byte*>>)
    return move(place), most;
  else
    return move(place);
}

/// `move` writes the piece where it is to stand, at the root, and reads it elsewhere.
template <bool kBrief, class Move>
inline Status Segment::bcast_piece(uint64_t bytes, bool sends, Move move) {
  const Size size = kBrief ? Size::brief : longer(bytes);
  const uint64_t n = ++broadcasts_[at(size)].number;
  const Place place = piece(n, size);
  if (sends) {
    if (const Status s = await_piece(n, size); s != Status::ok) return s;
    const uint64_t written = moved_at(place.data, bytes, move);
    tell(place.sequence, n);
    if (kBrief) claim(piece(n + kClaimed, size), written);
  } else {
    if (kBrief) let_get_ahead(place.sequence, n);
    if (const Status s = wait_for(place.sequence, n); s != Status::ok) return s;
    const uint64_t read = moved_at(place.data, bytes, move);
    if (kBrief && size_ == 2) give_back(place, read);
  }
  tell_taken(n, size);
  return Status::ok;
}

/// A longer piece that its readers have heard of before they come, from a brief one that is shown when this one has been written.
template <class Move>
inline Status Segment::piece_beside(uint64_t bytes, bool sends, Move move) {
  const Size size = longer(bytes);
  const uint64_t n = ++broadcasts_[at(size)].number;
  if (sends) {
    if (const Status s = await_piece(n, size); s != Status::ok) return s;
  }
  move(piece(n, size).data);
  tell_taken(n, size);
  return Status::ok;
}

/// Lets the rank write what it gives in the next round, and tells the others: its number. Slots are those of allreduce.
template <class Give>
inline uint64_t Segment::give_all(uint64_t bytes, Give give) {
  const uint64_t n = ++allreduces_;
  give(offered(rank_, bytes));
  tell(offer(rank_).sequence, n);
  if (size_ > kFlat && !groups_) header().offers.fetch_add(1, std::memory_order_acq_rel);  // where allreduce counts who has come
  return n;
}

/// Lets the rank look at what each has given in a round, `bytes` of them. After it all ranks have come to it.
template <class Take>
inline Status Segment::take_all(uint64_t n, uint64_t bytes, Take take) {
  for (uint32_t i = 0, r = rank_; i < size_; ++i, r = r + 1 == size_ ? 0 : r + 1) {
    if (const Status s = wait_for(offer(r, n).sequence, n); s != Status::ok) return s;
    take(r, offered(r, bytes, n));
  }
  return Status::ok;
}

template <class Give, class Take>
inline Status Segment::exchange(uint64_t bytes, Give give, Take take) {
  return take_all(give_all(bytes, give), bytes, take);
}

/// Where what a rank has for another one lies in round n, `length` bytes of each pair, the same however ranks' types differ. The two
/// change places every other round, as in place_of(), if it is not brief.
inline std::byte* Segment::between(uint32_t from, uint32_t to, uint64_t length, uint64_t n) {
  if (is_brief(size_ * length)) return offered(from, size_ * length, n) + place_for(to, from) * length;
  if (n / 2 & 1) std::swap(from, to);
  return offer_area(from, static_cast<int>(n & 1)) + place_for(to, from) * length;
}

/// Waits until the own slot of number n is free: until who was to read what was there says that it has. Who is ahead looks at that line
/// only when it needs to.
inline Status Segment::await_reader(uint64_t n, Size size) {
  const uint64_t slots = share_slots(size);
  if (n <= slots) return Status::ok;
  Reduces& known = reduces_[at(size)];
  const uint32_t reader = known.readers[n & (slots - 1)];
  if (known.reader == reader && known.collected >= n - slots) return Status::ok;
  const auto& word = desk(reader).collected[at(size)].sequence;
  const Status status = wait_for(word, n - slots);
  known.reader = reader;
  known.collected = word.load(std::memory_order_relaxed);
  return status;
}

/// Tells of what this rank has collected before number n, some at a time, but no later than half the slots after: nobody waits for more of
/// one that has come as far as itself, so that the rank that is furthest behind always goes on.
inline void Segment::tell_collected(uint64_t n, Size size) {
  Reduces& own = reduces_[at(size)];
  if (own.done == own.told || n < own.told + share_slots(size) / 2) return;
  own.told = own.done;
  tell(desk(rank_).collected[at(size)].sequence, own.told);
}

/// The number of what each rank has a slot of its own for, next.
inline uint64_t Segment::next_share(Size size) {
  const uint64_t n = ++reduces_[at(size)].number;
  tell_collected(n, size);
  return n;
}

/// Whose the own slot is until that rank says that it has gone on.
inline void Segment::read_by(uint64_t n, Size size, uint32_t reader) { reduces_[at(size)].readers[n & (share_slots(size) - 1)] = reader; }

/// What stands in the own slot is there for one rank to read.
inline void Segment::show(uint64_t n, Size size, uint64_t bytes, uint32_t reader) {
  read_by(n, size, reader);
  tell(share(rank_, n, size).sequence, n);
  if (size == Size::brief) claim(share(rank_, n + kClaimed, size), bytes);
}

/// Waits for what another rank shows to this one.
inline Status Segment::await_share(uint32_t of, uint64_t n, Size size, uint64_t bytes) {
  const Place theirs = share(of, n, size);
  if (size == Size::brief) expect(theirs, share(of, n + kAhead, size), n, bytes);
  return wait_for(theirs.sequence, n);
}

/// This rank has read what there was for it. `reader`: of its own slot, of which nothing was read if that is itself.
inline void Segment::have_read(uint64_t n, Size size, uint32_t reader) {
  read_by(n, size, reader);
  reduces_[at(size)].done = n;
}

template <class Give, class Take>
inline Status Segment::collect(uint64_t bytes, uint32_t root, Give give, Take take) {
  const Size size = size_for(bytes);
  const uint64_t n = next_share(size);
  if (rank_ != root) {
    if (const Status s = await_reader(n, size); s != Status::ok) return s;
    give(share(rank_, n, size).data);
    show(n, size, bytes, root);
    return Status::ok;
  }
  for (uint32_t r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    if (const Status s = await_share(r, n, size, bytes); s != Status::ok) return s;
    take(r, share(r, n, size).data);
    give_back(share(r, n, size), bytes);
  }
  have_read(n, size, rank_);
  return Status::ok;
}

}  // namespace weft::coll::node
