// Blocks of data from rank to rank in shared memory.
#include <algorithm>
#include <cstring>

#include "coll/node/inside.h"
#include "coll/node/showing.h"
#include "include/mpi.h"
#include "runtime/base/error.h"
#include "runtime/type/cursor.h"

namespace weft::coll::node {

namespace {

uint64_t bytes_of(const pml::Buffer& b) { return b.count * b.type->size; }
/// Bytes of the next part of so many, `most` at a time.
uint64_t next_part(uint64_t all, uint64_t done, uint64_t most) { return std::min(most, all - std::min(done, all)); }
type::Cursor cursor_of(const pml::Buffer& b) { return {b.address, b.count, *b.type}; }

/// What stands in front of a block whose length only its sender and its receiver know.
using Length = uint32_t;
constexpr Length kByMessage = ~Length{0};  ///< it does not fit, and comes by a message
constexpr Length kStays = kByMessage - 1;  ///< it is to be read where it lies
constexpr Length kInParcels = kStays - 1;  ///< it comes in slots of its sender's own
/// Then this stands behind it.
struct Stays {
  uint64_t bytes;
  const std::byte* data;
};

Length length_for(uint64_t bytes, uint64_t most) { return bytes <= most ? static_cast<Length>(bytes) : kByMessage; }
void put_length(std::byte* place, Length length) { std::memcpy(place, &length, sizeof length); }
Length length_at(const std::byte* place) {
  Length length;
  std::memcpy(&length, place, sizeof length);
  return length;
}

/// A block is longer than its place.
Status too_long(const pml::Buffer& to, uint64_t length, uint32_t sender) {
  fail(MPI_ERR_TRUNCATE, "rank %u sends %llu bytes, but what this rank receives from it has %llu: counts and types must fit", sender,
       static_cast<unsigned long long>(length), static_cast<unsigned long long>(bytes_of(to)));
  return Status::truncated;
}

/// Takes a block out of its slot.
Status take_out(const pml::Buffer& to, const std::byte* from, Length length, uint32_t sender) {
  if (length > bytes_of(to)) return too_long(to, length, sender);
  get_part(to, 0, from, length);
  return Status::ok;
}

/// A rank's own block need not pass its slot: takes n bytes of it from where they are, unless that is where they go.
void take_own(type::Cursor& to, type::Cursor& mine, uint64_t position, uint64_t n) {
  mine.seek(position);
  if (!to.contiguous() || to.data() != mine.data()) to.unpack(mine.data(), n);
}

}  // namespace

/// To each rank a block, all of them of the same length.
template <class Shows>
Status Segment::exchange_blocks(type::Cursor mine, const pml::Buffer& out, uint64_t block, Shows showing) {
  const uint64_t most = std::min(block, plan_.chunk / size_);
  const int64_t step = static_cast<int64_t>(out.count) * out.type->extent;
  Status status = Status::ok;
  for (uint64_t done = 0; done < block && status == Status::ok && (done == 0 || !showing.all()); done += most) {
    const uint64_t n = std::min(most, block - done);
    const bool direct = mine.contiguous() && n > Brief::most;
    const auto give = [&](std::byte*) {
      if (done == 0) showing.tell();
      for (uint32_t i = 0; i < size_ && !showing.own(); ++i) {
        if (direct && i == rank_) continue;
        mine.seek(i * block + done);
        mine.pack(between(rank_, i, n), n);
      }
    };
    const auto take = [&](uint32_t r, const std::byte*) {
      if (done == 0) showing.hear(r);
      type::Cursor theirs(static_cast<std::byte*>(out.address) + r * step, out.count, *out.type);
      if (showing.of(r)) {
        if (done > 0) return;
        return r == rank_ ? take_own(theirs, mine, rank_ * block, block) : showing.read(r, showing.at(r) + rank_ * block, theirs, block);
      }
      theirs.seek(done);
      if (r == rank_ && direct) return take_own(theirs, mine, rank_ * block + done, n);
      about_to_read(n);
      theirs.unpack(between(r, rank_, n), n);
    };
    status = exchange(n * size_, give, take);
  }
  return showing.finish(status);
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
  const uint64_t block = bytes_of(in);
  if (is_brief(block) && in.type->contiguous && out.type->contiguous) return exchange_brief(start_of(in), start_of(out), block, false);
  View all;
  all.lay(out.address, out.type, static_cast<int32_t>(size_), out.count);
  return allgather(in, all);
}

Status Segment::allgather(const pml::Buffer& in, const View& out) {
  uint64_t longest = 0;
  for (uint32_t r = 0; r < size_; ++r) longest = std::max(longest, bytes_of(out.at(static_cast<int32_t>(r), 1)));
  if (longest < Readings::kLeast) return allgather(in, out, longest, Hidden());
  const type::Cursor mine = cursor_of(in);
  const std::byte* const data = mine.left() > 0 ? mine.data() : memory_;  // of no data there may be no address
  return allgather(in, out, longest, Showing(*this, Readings::Kernel::allgather, longest, mine.contiguous() ? data : nullptr, mine.left()));
}

template <class Shows>
Status Segment::allgather(const pml::Buffer& in, const View& out, uint64_t longest, Shows showing) {
  type::Cursor mine = cursor_of(in);
  const auto block = [&](uint32_t r) { return out.at(static_cast<int32_t>(r), 1); };
  const bool pairs = by_pairs(longest);
  const auto direct = [&](uint64_t n) { return mine.contiguous() && n > Brief::most; };  // past the own slot
  const uint64_t most = std::min(longest, pairs ? plan_.chunk / size_ : plan_.chunk);
  const auto slot = [this](uint32_t r, uint64_t n) { return offered(r, std::max(n, Shows::kLeastSlot)); };
  Status status = Status::ok;
  for (uint64_t done = 0; done < longest && status == Status::ok && (done == 0 || !showing.all()); done += most) {
    const auto length = [&](const pml::Buffer& b) { return next_part(bytes_of(b), done, most); };
    const auto give = [&](std::byte*) {
      if (done == 0) showing.tell();
      const uint64_t n = showing.own() ? 0 : length(block(rank_));
      for (uint32_t r = 0; n > 0 && r < (pairs ? size_ : 1); ++r) {
        if (pairs && r == rank_ && direct(n)) continue;
        mine.seek(std::min(done, bytes_of(in)));
        mine.pack(pairs ? between(rank_, r, most) : slot(rank_, n), n);
      }
    };
    const auto take = [&](uint32_t r, const std::byte*) {
      if (done == 0) showing.hear(r);
      const pml::Buffer to = block(r);
      const uint64_t n = showing.of(r) ? done == 0 ? bytes_of(to) : 0 : length(to);
      if (n == 0) return;
      type::Cursor theirs = cursor_of(to);
      if (r != rank_ && showing.of(r)) return showing.read(r, showing.at(r), theirs, n);
      theirs.seek(done);
      if (r == rank_ && (direct(n) || showing.own())) return take_own(theirs, mine, done, n);
      about_to_read(n);
      theirs.unpack(pairs ? between(r, rank_, most) : slot(r, n), n);
    };
    status = exchange(most, give, take);
  }
  return showing.finish(status);
}

Status Segment::alltoall(const pml::Buffer& in, const pml::Buffer& out) {
  const uint64_t block = bytes_of(in);
  if (is_brief(block * size_) && in.type->contiguous && out.type->contiguous)
    return exchange_brief(start_of(in), start_of(out), block, true);
  const type::Cursor mine(in.address, in.count * size_, *in.type);
  if (block < Readings::kLeast) return exchange_blocks(mine, out, block, Hidden());
  const bool stays = mine.contiguous() && mine.data() != start_of(out);
  return exchange_blocks(mine, out, block, Showing(*this, Readings::Kernel::alltoall, block, stays ? mine.data() : nullptr, block * size_));
}

/// Where a block of unknown length from one rank to another one lies: its length, and it if it is short, in a line that is looked at
/// anyway, if there are two ranks.
struct Segment::Letter {
  std::byte* length;
  std::byte* brief;
  uint64_t most_brief;
  std::byte* data;
  std::byte* place(uint64_t bytes) const { return bytes <= most_brief ? brief : data; }
};

Segment::Letter Segment::letter(uint32_t from, uint32_t to) {
  std::byte* const area = between(from, to, letter_bytes());
  std::byte* const head = size_ == 2 ? offer(from).data : area;
  return {head, head + 8, (size_ == 2 ? Showing::kWhere : sizeof(Line)) - 8, area + sizeof(Line)};
}

/// Two ranks know how long both blocks are when they have met once: they meet as often as the longer one takes.
Status Segment::alltoall_of_two(const View& in, const View& out) {
  const auto me = static_cast<int32_t>(rank_);
  const pml::Buffer from = in.at(1 - me, 1), to = out.at(1 - me, 1);
  const uint64_t given = bytes_of(from), most = letter_bytes() - sizeof(Line);
  const type::Cursor mine = cursor_of(from);
  Showing showing(*this, Readings::Kernel::uneven, given, mine.contiguous() ? mine.data() : nullptr, given);
  uint64_t coming = 0, done = 0;
  const auto give = [&](std::byte*) {
    const Letter there = letter(rank_, 1 - rank_);
    if (done == 0) std::memcpy(there.length, &given, sizeof given);
    if (done == 0) showing.tell();
    const uint64_t n = showing.own() ? 0 : next_part(given, done, most);
    if (n > 0) put_part(there.place(n), from, done, n);
  };
  const auto take = [&](uint32_t r, const std::byte*) {
    if (done == 0) showing.hear(r);
    if (r == rank_) return done == 0 ? copy_data(in.at(me, 1), out.at(me, 1)) : void();
    const Letter here = letter(r, rank_);
    if (done == 0) std::memcpy(&coming, here.length, sizeof coming);
    if (coming > bytes_of(to)) return;
    if (showing.of(r)) return done == 0 ? showing.read(r, showing.at(r), cursor_of(to), coming) : void();
    if (const uint64_t n = next_part(coming, done, most); n > 0) get_part(to, done, here.place(n), n);
  };
  Status status = Status::ok;
  do {
    status = exchange(size_ * letter_bytes(), give, take);
    done += most;
  } while (status == Status::ok && done < std::max(showing.own() ? 0 : given, showing.of(1 - rank_) ? 0 : coming));
  if (status = showing.finish(status); status != Status::ok) return status;
  return coming <= bytes_of(to) ? Status::ok : too_long(to, coming, 1 - rank_);
}

/// Blocks of an all-to-all whose lengths only the two know whom they are between.
struct Segment::Letters {
  Segment& segment;
  const View &in, &out;
  Post& post;
  Showing& showing;
  const uint64_t most;  // bytes that go in a letter

  pml::Buffer to(uint32_t r) const { return out.at(static_cast<int32_t>(r), 1); }
  /// Is a message from there expected, since that is how a block of that length comes? Who would have blocks read waits for the letter.
  bool expected(uint32_t r) const { return bytes_of(to(r)) > most && !showing.own(); }

  void write(uint32_t r) const {
    if (expected(r)) post.receive(r, to(r));
    const pml::Buffer block = in.at(static_cast<int32_t>(r), 1);
    const uint64_t n = bytes_of(block);
    const Letter letter = segment.letter(segment.rank_, r);
    if (showing.own() && n >= Readings::kLeast) {
      const type::Cursor cursor = cursor_of(block);
      if (cursor.contiguous() && segment.open_memory_.has(cursor.data(), n)) return stay(letter, {n, cursor.data()});
    }
    put_length(letter.length, length_for(n, most));
    if (n > most)
      post.send(r, block);
    else if (n > 0)
      put_part(letter.place(n), block, 0, n);
  }

  static void stay(const Letter& letter, const Stays& stays) {
    put_length(letter.length, kStays);
    std::memcpy(letter.brief, &stays, sizeof stays);
  }

  Status open(uint32_t r) const {
    const Letter letter = segment.letter(r, segment.rank_);
    const Length length = length_at(letter.length);
    if (length == kByMessage) {
      if (!expected(r)) post.receive(r, to(r));
      return Status::ok;
    }
    if (expected(r)) post.withdraw(r);  // MPI wants both sides to say the same; shorter data does no harm
    if (length != kStays) return take_out(to(r), letter.place(length), length, r);
    Stays stays;
    std::memcpy(&stays, letter.brief, sizeof stays);
    if (stays.bytes > bytes_of(to(r))) return too_long(to(r), stays.bytes, r);
    showing.read(r, stays.data, cursor_of(to(r)), stays.bytes);
    return Status::ok;
  }
};

Status Segment::alltoall(const View& in, const View& out, Post& post) {
  if (size_ == 2) return alltoall_of_two(in, out);
  uint64_t given = 0;
  for (uint32_t r = 0; r < size_; ++r) given += r == rank_ ? 0 : bytes_of(in.at(static_cast<int32_t>(r), 1));
  Showing showing(*this, Readings::Kernel::uneven, given / (size_ - 1), memory_, 0);
  const Letters letters{*this, in,      out,
                        post,  showing, std::min<uint64_t>(letter_bytes() - sizeof(Line), roomy_ ? most_exchanged / size_ : ~0U)};
  const auto give = [&](std::byte*) {
    showing.tell();
    for (uint32_t r = 0; r < size_; ++r)
      if (r != rank_) letters.write(r);
  };
  Status taken = Status::ok;
  const auto take = [&](uint32_t r, const std::byte*) {
    showing.hear(r);
    if (r == rank_) return copy_data(in.at(static_cast<int32_t>(r), 1), out.at(static_cast<int32_t>(r), 1));
    if (const Status s = letters.open(r); s != Status::ok) taken = s;
  };
  Status s = exchange(size_ * letter_bytes(), give, take);
  if (s == Status::ok) post.settle();
  s = showing.finish(s);
  return s == Status::ok ? taken : s;
}

namespace {

/// Does a rank have its blocks one after another, in memory without gaps? Who has none does.
bool in_a_row(bool has, const View& v) { return !has || (v.even() && v.type->contiguous); }
std::byte* first_of(bool has, const View& v) { return has ? start_of({v.base, v.each, v.type}) : nullptr; }
void copy_own(std::byte* to, const std::byte* from, uint64_t n) {
  if (to != from) copy_few(to, from, n);
}

}  // namespace

Status Segment::gather_brief(const std::byte* in, std::byte* out, uint64_t block, uint32_t root) {
  if (rank_ == root) copy_own(out + root * block, in, block);
  return collect(
      block, root, [&](std::byte* place) { copy_few(place, in, block); },
      [&](uint32_t r, const std::byte* theirs) { copy_few(out + r * block, theirs, block); });
}

Status Segment::scatter_brief(const std::byte* in, std::byte* out, uint64_t block, uint32_t root) {
  const bool sends = rank_ == root;
  if (sends) copy_own(out, in + root * block, block);
  return bcast_piece<true>(block * (size_ - 1), sends, [&](std::byte* place) {
    if (!sends) return copy_few(out, place + place_for(rank_, root) * block, block);
    for (uint32_t r = 0; r < size_; ++r)
      if (r != rank_) std::memcpy(place + place_for(r, rank_) * block, in + r * block, block);
  });
}

Status Segment::gather(const pml::Buffer& in, const View& out, int root) {
  const bool receives = rank_ == static_cast<uint32_t>(root);
  if (const uint64_t block = bytes_of(in); block && is_brief(block) && in.type->contiguous && in_a_row(receives, out))
    return gather_brief(start_of(in), first_of(receives, out), block, static_cast<uint32_t>(root));
  return in_steps(bytes_of(in), 1, plan_.large.bytes, [&](uint64_t first, uint64_t n) {
    const auto give = [&](std::byte* place) { put_part(place, in, first, n); };
    const auto take = [&](uint32_t r, const std::byte* theirs) { get_part(out.at(static_cast<int32_t>(r), 1), first, theirs, n); };
    if (rank_ == static_cast<uint32_t>(root) && first == 0) copy_data(in, out.at(root, 1));
    return collect(n, static_cast<uint32_t>(root), give, take);
  });
}

/// A block of a length that both ranks know by now, in as many slots as it takes.
Status Segment::gather_from_one(const pml::Buffer& block, Length length, uint32_t root) {
  const bool fits = length <= bytes_of(block);
  const Status s = in_steps(length, 1, plan_.large.bytes, [&](uint64_t first, uint64_t n) {
    const auto give = [&](std::byte* place) { put_part(place, block, first, n); };
    const auto take = [&](uint32_t, const std::byte* place) { fits ? get_part(block, first, place, n) : void(); };
    return collect(std::max(n, Brief::most + 1), root, give, take);
  });
  return s == Status::ok && !fits ? too_long(block, length, 1 - root) : s;
}

/// What stands behind a length that says so: how long the block is, and the number of its first parcel.
struct Segment::Parcels {
  uint64_t bytes, first;

  void announce(std::byte* place) const {
    put_length(place, kInParcels);
    std::memcpy(place + sizeof(Length), this, sizeof *this);
  }
  static Parcels announced(const std::byte* place) {
    Parcels parcels;
    std::memcpy(&parcels, place + sizeof(Length), sizeof parcels);
    return parcels;
  }
};

Status Segment::send_parcels(const pml::Buffer& block) {
  return in_steps(bytes_of(block), 1, plan_.large.bytes, [&](uint64_t first, uint64_t n) {
    const uint64_t number = ++parcels_;
    const Parcel place = parcel(rank_, number);
    if (number > plan_.parcels)
      if (const Status s = wait_for(place.taken, number - plan_.parcels); s != Status::ok) return s;
    put_part(place.data, block, first, n);
    tell(place.written, number);
    return Status::ok;
  });
}

/// Takes them all, though there may be no place for them.
Status Segment::take_parcels(uint32_t from, const Parcels& parcels, const pml::Buffer& to) {
  const bool fits = parcels.bytes <= bytes_of(to);
  uint64_t number = parcels.first;
  const Status s = in_steps(parcels.bytes, 1, plan_.large.bytes, [&](uint64_t first, uint64_t n) {
    const Parcel place = parcel(from, number);
    if (const Status waited = wait_for(place.written, number); waited != Status::ok) return waited;
    about_to_read(n);
    if (fits) get_part(to, first, place.data, n);
    give_back({place.written, place.data}, n);
    tell(place.taken, number++);
    return Status::ok;
  });
  return s == Status::ok && !fits ? too_long(to, parcels.bytes, from) : s;
}

/// A longer slot of each size for the next gather, of which a rank uses the one that its block fits, or none.
struct Segment::LongerShares {
  explicit LongerShares(Segment& s) : segment(s) {
    if (s.plan_.medium.shares) numbers[at(Size::medium)] = s.next_share(Size::medium);
    numbers[at(Size::large)] = s.next_share(Size::large);
  }
  uint64_t number(Length length) const { return numbers[at(segment.longer(length))]; }
  Place of(uint32_t rank, Length length) const { return segment.share(rank, number(length), segment.longer(length)); }
  Status await_own(Length length) const { return segment.await_reader(number(length), segment.longer(length)); }
  /// They are the root's to read.
  void pass_on(uint32_t root) const {
    for (const Size size : {Size::medium, Size::large}) {
      if (!numbers[at(size)]) continue;
      if (segment.rank_ == root)
        segment.have_read(numbers[at(size)], size, root);
      else
        segment.read_by(numbers[at(size)], size, root);
    }
  }

  Segment& segment;
  std::array<uint64_t, kSizes> numbers = {};
};

/// Each rank has a short slot that says how long its block is, and longer ones, one of which it uses if the block fits no short one. Of two
/// ranks the block comes in several of them if need be, of more in parcels where these share CPUs.
Status Segment::gather(const pml::Buffer& in, const View& out, int root, Post& post) {
  constexpr uint64_t kMost = Brief::most - sizeof(Length);
  const LongerShares longer_ones(*this);
  const uint64_t bytes = bytes_of(in), most = plan_.large.bytes;
  const bool receives = rank_ == static_cast<uint32_t>(root);
  const bool parcelled = in_parcels(bytes);
  Status status = Status::ok;
  const auto note = [&](Status s) { status = s == Status::ok ? status : s; };
  Length left = 0;
  const auto give = [&](std::byte* place) {
    if (parcelled) return Parcels{bytes, parcels_ + 1}.announce(place);
    const Length length = length_for(bytes, size_ == 2 ? std::max(most_gathered(size_, true), most) : most);
    put_length(place, length);
    if (length == kByMessage) return post.send(static_cast<uint32_t>(root), in);
    if (length > most) return void(left = length);
    if (length > kMost) status = longer_ones.await_own(length);
    if (status == Status::ok) put_part(length > kMost ? longer_ones.of(rank_, length).data : place + sizeof length, in, 0, length);
  };
  const auto take = [&](uint32_t r, const std::byte* place) {
    const Length length = length_at(place);
    const pml::Buffer to = out.at(static_cast<int32_t>(r), 1);
    if (length == kByMessage) return post.receive(r, to);
    if (length == kInParcels) return note(take_parcels(r, Parcels::announced(place), to));
    if (length > most) return void(left = length);
    note(take_out(to, length > kMost ? longer_ones.of(r, length).data : place + sizeof length, length, r));
    if (length > kMost) give_back(longer_ones.of(r, length), length);
  };
  if (receives) copy_data(in, out.at(root, 1));
  const Status s = collect(std::min(bytes, kMost) + sizeof(Length), static_cast<uint32_t>(root), give, take);
  longer_ones.pass_on(static_cast<uint32_t>(root));
  if (s == Status::ok && left > 0) return gather_from_one(receives ? out.at(1 - root, 1) : in, left, static_cast<uint32_t>(root));
  if (s == Status::ok && parcelled && !receives) return send_parcels(in);
  return s == Status::ok ? status : s;
}

Status Segment::scatter(const View& in, const pml::Buffer& out, int root) {
  const bool sends = rank_ == static_cast<uint32_t>(root);
  const uint64_t block = bytes_of(sends ? in.at(root, 1) : out), others = size_ - 1;
  if (block && is_brief(block * others) && out.type->contiguous && in_a_row(sends, in))
    return scatter_brief(first_of(sends, in), start_of(out), block, static_cast<uint32_t>(root));
  const auto move = [&](std::byte* place, uint64_t first, uint64_t n) {
    if (!sends) return get_part(out, first, place + place_for(rank_, static_cast<uint32_t>(root)) * n, n);
    for (uint32_t r = 0; r < size_; ++r)
      if (r != rank_) put_part(place + place_for(r, rank_) * n, in.at(static_cast<int32_t>(r), 1), first, n);
  };
  const Status s = in_steps(
      block, 1, is_brief(block * others) ? Brief::most : plan_.large.bytes / others & ~uint64_t{63}, [&](uint64_t first, uint64_t n) {
        const auto piece = [&](std::byte* place) { move(place, first, n); };
        return is_brief(n * others) ? bcast_piece<true>(n * others, sends, piece) : bcast_piece<false>(n * others, sends, piece);
      });
  if (sends && s == Status::ok) copy_data(in.at(root, 1), out);  // while the others take theirs
  return s;
}

/// What the root has for all others: in front how long each block is, in the order of ranks. They follow if there is room; else they lie in
/// a longer piece, but for those that come by messages.
struct Segment::Contents {
  std::byte* table;
  uint32_t count;

  std::byte* entry(uint64_t i) const { return table + i * sizeof(Length); }
  std::byte* blocks() const { return entry(count); }
  uint64_t room() const { return Brief::most - count * sizeof(Length); }
  Length length(uint64_t i) const { return length_at(entry(i)); }
  /// Bytes that stand there; of several blocks as many as might.
  uint64_t used() const {
    if (count > 1) return Brief::most;
    const uint64_t block = bytes(0, 1);
    return sizeof(Length) + (block <= room() ? block : 0);
  }
  /// Bytes of blocks from one to another, but for those that come by messages.
  uint64_t bytes(uint64_t from, uint64_t end) const {
    uint64_t sum = 0;
    for (; from < end; ++from) sum += length(from) == kByMessage ? 0 : length(from);
    return sum;
  }
};

Status Segment::send_contents(const Contents& to, const View& in, Post& post) {
  uint64_t all = 0;
  for (uint32_t r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const pml::Buffer block = in.at(static_cast<int32_t>(r), 1);
    const Length length = length_for(bytes_of(block), part_);
    put_length(to.entry(place_for(r, rank_)), length);
    if (length == kByMessage) {
      post.send(r, block);
    } else {
      if (all + length <= to.room()) put_part(to.blocks() + all, block, 0, length);
      all += length;
    }
  }
  if (all <= to.room()) return Status::ok;
  return piece_beside(all, true, [&](std::byte* place) {
    for (uint32_t r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const pml::Buffer block = in.at(static_cast<int32_t>(r), 1);
      const uint64_t bytes = bytes_of(block);
      if (bytes > part_) continue;
      put_part(place, block, 0, bytes);
      place += bytes;
    }
  });
}

Status Segment::take_contents(const Contents& from, const pml::Buffer& out, uint32_t root, Post& post) {
  const uint64_t own = place_for(rank_, root), before = from.bytes(0, own), all = before + from.bytes(own, from.count);
  const Length length = from.length(own);
  Status taken = Status::ok;
  const auto take = [&](const std::byte* blocks) {
    if (length != kByMessage) taken = take_out(out, blocks + before, length, root);
  };
  if (length == kByMessage) post.receive(root, out);
  if (all <= from.room())
    take(from.blocks());
  else if (const Status s = piece_beside(all, false, take); s != Status::ok)
    return s;
  return taken;
}

/// Blocks that would take more than their part of a piece come by messages.
Status Segment::scatter(const View& in, const pml::Buffer& out, int root, Post& post) {
  const bool sends = rank_ == static_cast<uint32_t>(root);
  Status moved = Status::ok;
  const Status s = bcast_piece<true>(Brief::most, sends, [&](std::byte* place) {
    const Contents contents{place, size_ - 1};
    moved = sends ? send_contents(contents, in, post) : take_contents(contents, out, static_cast<uint32_t>(root), post);
    return contents.used();
  });
  if (sends && s == Status::ok) copy_data(in.at(root, 1), out);  // while the others take theirs
  return s == Status::ok ? moved : s;
}

}  // namespace weft::coll::node
