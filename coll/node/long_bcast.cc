// Broadcasts that may be read where they lie: the root says which way one goes in the line of the first piece, and, while it waits, copies
// some of what its readers have not come to.
#include <cstring>

#include "btl/copy/cma.h"
#include "coll/node/inside.h"
#include "runtime/type/cursor.h"

namespace weft::coll::node {

/// Ranks of a broadcast that is read there. Of three ranks on two CPUs reading 1 MiB takes 94 us, by slots 140; of four 219 and 143.
constexpr uint32_t kMostReadOnSharedCpus = 3;

/// What a reader has read itself of a broadcast.
struct Segment::Read {
  Status status;
  ReadTime own;
};

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
  tell(line.sequence, n);
  tell(desk(rank_).consumed[at(Size::large)].sequence, n);
  Status s = Status::ok;
  for (uint32_t r = 0; r < size_ && s == Status::ok; ++r) {
    const auto& word = desk(r).consumed[at(Size::large)].sequence;
    s = wait([&] { return word.load(std::memory_order_acquire) >= n || (help_readers() && word.load(std::memory_order_acquire) >= n); },
             {&word, n});
  }
  if (s == Status::ok) broadcasts_[at(Size::large)].all_consumed = n;
  follows_all();
  return s;
}

/// Has there been anything to do?
bool Segment::help_readers() {
  constexpr uint64_t kMost = 512 << 10;
  bool any = false;
  for (uint32_t r = 0; r < size_ && reads_jointly(); ++r) {
    if (r == rank_) continue;
    follows(r);
    any |= btl::copy::help(desk(r).joint, process_of(r), kMost, rank_) == Status::again;
    has_done();
  }
  return any;
}

/// A reader's part.
Segment::Read Segment::read_all(uint32_t root, const type::Cursor& to, uint64_t n) {
  const std::byte* data;
  std::memcpy(&data, piece_line(n).data, sizeof data);
  broadcasts_[at(Size::large)].number = n;
  const uint64_t bytes = to.left(), begin = now_ns();
  const bool jointly = reads_jointly() && to.contiguous() && btl::copy::JointReader::fits(bytes);
  Read read = jointly ? read_jointly(root, data, {to.data(), bytes}) : Read{read_from(root, data, to, bytes), {bytes, 0, 1}};
  if (!jointly) read.own.ns = now_ns() - begin;
  tell(desk(rank_).consumed[at(Size::large)].sequence, n);
  lane_.note_read(1);
  return read;
}

/// Whatever happens, all has been claimed in the end, and what the root has claimed is not written any more.
Segment::Read Segment::read_jointly(uint32_t root, const std::byte* data, std::span<std::byte> to) {
  Read read{};
  const auto take = [&](btl::copy::Part part) {
    if (read.status == Status::ok) read.status = btl::copy::read(process_of(root), data + part.from, to.subspan(part.from, part.bytes));
    read.own.bytes += part.bytes;
    ++read.own.calls;
  };
  follows(root);
  has_done();
  joint_.open(reinterpret_cast<uint64_t>(data), to.data(), to.size(), root);
  const uint64_t begin = now_ns();
  while (const btl::copy::Part part = joint_.claim(to.size())) take(part);
  read.own.ns = now_ns() - begin;
  Status owner = Status::again;
  const Status waited = wait([&] { return (owner = joint_.owner()) != Status::again; });
  if (owner == Status::failed) take(joint_.owners());
  joint_.close();
  follows(root);
  has_done();
  if (waited != Status::ok) read.status = waited;
  return read;
}

/// A broadcast that may be read where it lies, of what is known to all to be so long. The root says which way it goes in the line of the
/// first piece.
Status Segment::give_long(type::Cursor& cursor) {
  const uint64_t n = broadcasts_[at(Size::large)].number + 1;
  hear_readers();
  // On shared CPUs a root that waits for all to have read waits for a switch to each, which its own times do not show; by slots it runs
  // ahead.
  const bool may_read = cursor.contiguous() && (roomy_ || size_ <= kMostReadOnSharedCpus || reach_.always());
  uint64_t say = may_read ? root_readings_.begin(cursor.left(), n, reach_) : 0;
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
  const Read read = reads ? read_all(root, cursor, n) : Read{bcast_pieces(cursor, false), {}};
  if (begin > 0) {
    const uint64_t ns = now_ns() - begin;
    const uint64_t later = reads ? to_write_again_ns(read.own, btl::copy::read_speed(), bytes, read.own.bytes < bytes) : 0;
    const uint64_t note = RootReadings::note(n, ns + later, !reach_.never() && can_read(root));
    std::atomic_ref(desk(rank_).consumed[at(Size::large)].note).store(note, std::memory_order_relaxed);
  }
  return read.status;
}

}  // namespace weft::coll::node
