#include "coll/node/showing.h"

#include "btl/copy/cma.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace weft::coll::node {

namespace {

pid_t other_process(pid_t p) { return p == getpid() ? 0 : p; }  // ranks may be threads

}  // namespace

// Ranks that are threads, in tests, have the segment each at an address of its own. So a thread sanitizer has to be told that what they say
// there puts what they do with their own memory in order.
#ifdef __SANITIZE_THREAD__
void Segment::has_done() const { __tsan_release(const_cast<uint64_t*>(&nonce_)); }
void Segment::follows(uint32_t rank) {
  if (const Owner owner = desk(rank).owner; !other_process(owner.process)) __tsan_acquire(const_cast<uint64_t*>(owner.nonce));
}
#else
void Segment::has_done() const {}
void Segment::follows(uint32_t) {}
#endif
void Segment::follows_all() {
  for (uint32_t r = 0; r < size_; ++r) follows(r);
}

/// Has to be asked when that rank is known to have come here.
bool Segment::can_read(uint32_t rank) {
  Access& access = access_[rank];
  if (access == Access::untried) {
    const Owner& owner = desk(rank).owner;
    const pid_t process = other_process(owner.process);
    const auto nonce = std::as_bytes(std::span(&nonce_, 1));
    const bool can = process == 0 || btl::copy::can_read(process, reinterpret_cast<uint64_t>(owner.nonce), nonce);
    access = can ? Access::granted : Access::denied;
  }
  return access == Access::granted;
}

Status Segment::read_from(uint32_t rank, const std::byte* where, type::Cursor to, uint64_t bytes) {
  const pid_t process = other_process(desk(rank).owner.process);
  follows(rank);
  const auto read = [&](uint64_t first, std::byte* into, uint64_t n) { return btl::copy::read(process, where + first, {into, n}); };
  const Status status = to.contiguous() ? read(0, to.data(), bytes) : in_steps(bytes, 1, plan_.chunk, [&](uint64_t first, uint64_t n) {
    const Status s = read(first, scratch(), n);
    if (s == Status::ok) to.unpack(scratch(), n);
    return s;
  });
  has_done();
  return status;
}

/// At the root: has all that the latest timed broadcast took its readers been heard?
void Segment::hear_readers() {
  if (!root_readings_.asks()) return;
  bool all = true, can = true;
  uint64_t longest = 0;
  for (uint32_t r = 0; r < size_ && all; ++r) {
    if (r == rank_) continue;
    const uint64_t note = std::atomic_ref(desk(r).consumed[at(Size::large)].note).load(std::memory_order_relaxed);
    all = root_readings_.tells(note);
    can &= RootReadings::can_read(note);
    longest = std::max(longest, RootReadings::ns_of(note));
  }
  root_readings_.hear(all, longest, can);
}

/// The root's part of a broadcast that is read where it lies: it stands for one piece, and is over when all have read it.
Status Segment::show_all(const std::byte* data, uint64_t n) {
  has_done();
  Line& line = piece_line(n);
  std::memcpy(line.data, &data, sizeof data);
  broadcasts_[at(Size::large)].number = n;
  line.sequence.store(n, std::memory_order_release);
  desk(rank_).consumed[at(Size::large)].sequence.store(n, std::memory_order_release);
  const Status s = await_readers(n, Size::large);
  follows_all();
  return s;
}

/// A reader's part.
Status Segment::read_all(uint32_t root, const type::Cursor& to, uint64_t n) {
  const std::byte* data;
  std::memcpy(&data, piece_line(n).data, sizeof data);
  broadcasts_[at(Size::large)].number = n;
  const Status s = read_from(root, data, to, to.left());
  desk(rank_).consumed[at(Size::large)].sequence.store(n, std::memory_order_release);
  lane_.note_read(1);
  return s;
}

/// A broadcast that may be read where it lies, of what is known to all to be so long. The root says which way it goes in the line of the
/// first piece.
Status Segment::give_long(type::Cursor& cursor) {
  const uint64_t n = broadcasts_[at(Size::large)].number + 1;
  hear_readers();
  uint64_t say = cursor.contiguous() ? root_readings_.begin(cursor.left(), n, reach_) : 0;
  if (say & RootReadings::reads && !open_memory_.has(cursor.data(), cursor.left())) say &= ~uint64_t{RootReadings::reads};
  Status s = await_piece(n, Size::large);
  if (s != Status::ok) return s;
  piece_line(n).note = say;
  s = say & RootReadings::reads ? show_all(cursor.data(), n) : bcast_pieces(cursor, true);
  if (say & RootReadings::timed) root_readings_.end();
  return s;
}

Status Segment::take_long(type::Cursor& cursor, uint32_t root) {
  const uint64_t n = broadcasts_[at(Size::large)].number + 1, bytes = cursor.left();
  const Line& line = piece_line(n);
  if (const Status s = wait_for(line.sequence, n); s != Status::ok) return s;
  const uint64_t say = line.note, begin = say & RootReadings::timed ? now_ns() : 0;
  const bool reads = say & RootReadings::reads;
  const Status s = reads ? read_all(root, cursor, n) : bcast_pieces(cursor, false);
  if (begin > 0) {
    const uint64_t ns = now_ns() - begin;
    const uint64_t note = RootReadings::note(n, ns + (reads ? Ways::excess(bytes, ns, bytes) : 0), !reach_.never() && can_read(root));
    std::atomic_ref(desk(rank_).consumed[at(Size::large)].note).store(note, std::memory_order_relaxed);
  }
  return s;
}

Status Segment::Showing::finish(Status exchanged) {
  if (exchanged != Status::ok) return exchanged;
  if (shown > 0) {
    exchanged = segment.barrier();
    segment.follows_all();
  }
  if (const uint32_t read = shown - own()) segment.lane_.note_read(read);
  segment.readings_.end();
  if (segment.reach_.to_try()) {
    bool can = true;
    for (uint32_t r = 0; r < segment.size_; ++r) can &= segment.can_read(r);
    segment.reach_.can_read(can);
  }
  return exchanged == Status::ok ? status : exchanged;
}

}  // namespace weft::coll::node
