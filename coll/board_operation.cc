// Nonblocking collectives among ranks of one node: each rank shows what it gives, and takes what it needs of the others, in one round if it
// is short.
#include <algorithm>
#include <cstring>

#include "coll/team_state.h"
#include "runtime/base/copy.h"

namespace weft::coll {

namespace {

/// Does each rank combine a share of all operands, which the others take then? Two rounds for each piece, but each operand goes to one
/// rank.
bool shared_out(const Agreed& a) {
  return a.pattern == Pattern::allreduce && a.bytes > node::Segment::most_by_all(static_cast<uint32_t>(a.size));
}

/// Has a slot a place for each rank?
bool to_each(const Agreed& a) {
  return a.pattern == Pattern::scatter || a.pattern == Pattern::alltoall || a.pattern == Pattern::reduce_scatter || shared_out(a);
}

using Kind = node::Segment::BoardKind;

Kind board_for(const Agreed& a) {
  if (given_bytes(a) <= node::Board::kBrief.most) return Kind::brief;
  switch (a.pattern) {
    case Pattern::bcast:
    case Pattern::scatter:
    case Pattern::gather:
    case Pattern::reduce: return Kind::one_way;
    default: return Kind::meeting;
  }
}

class BoardOperation final : public pml::Request, public node::Board::Note {
 public:
  BoardOperation(pml::Team&, node::Segment&, const Call&, const Agreed&, bool in_place);
  void begin();
  void free_handles();

 private:
  void give(uint64_t round) override;
  void take_from(uint32_t rank, uint64_t round) override;
  void take(uint64_t round) override;
  uint64_t follows(uint64_t round) const override;
  void done() override;
  void cut();
  void give_operands(uint64_t round);
  void take_block(uint32_t rank, uint64_t round);
  /// Where a rank has something for another one, or, not for `each`, for all.
  std::byte* place(bool each, uint32_t from, uint32_t to, uint64_t round) const {
    return each ? board_.place_for(to, from, *this, round, piece_ * unit_) : board_.place(from, *this, round);
  }
  std::byte* shown(uint32_t from, uint64_t round) const { return place(to_each_, from, rank_, round); }
  bool at_root() const { return agreed_.root == static_cast<int>(rank_); }
  pml::Buffer block(uint32_t rank, bool of_input) const;
  const std::byte* operands() const { return static_cast<const std::byte*>(in_place_ ? call_.out : call_.in); }
  /// A rank's elements of an operand in a round.
  struct Part {
    uint64_t first, count;
  };
  Part part(uint64_t round, uint32_t rank) const;

  node::Board& board_;
  const Call call_;
  const Agreed agreed_;
  const uint32_t rank_, size_;
  const bool in_place_;  // what others take stands in the receive buffer (but for all-to-all)
  const bool shared_out_;
  const bool pairs_, to_each_;  // is what all take, or what one takes, written once for each?
  const uint64_t unit_;         // bytes of an element of what is reduced, or one
  uint64_t piece_ = 0;          // bytes of each block in a round; of reductions, elements, of a share if there are shares
};

Pool<BoardOperation>& pool() {
  static Pool<BoardOperation>* const p = new Pool<BoardOperation>;  // never destroyed: handles may outlive main()
  return *p;
}

void destroy_operation(pml::Request& r) {
  auto& operation = static_cast<BoardOperation&>(r);
  operation.free_handles();
  pool().destroy(&operation);
}

void start_operation(pml::Request& r) { static_cast<BoardOperation&>(r).begin(); }

constexpr pml::Request::Ops kOps{start_operation, nullptr, nullptr, destroy_operation};

BoardOperation::BoardOperation(pml::Team& team, node::Segment& segment, const Call& c, const Agreed& a, bool in_place)
    : Request(pml::RequestKind::collective, &kOps, &team.lane()),
      board_(segment.board(board_for(a))),
      call_(c),
      agreed_(a),
      rank_(team.rank()),
      size_(team.size()),
      in_place_(in_place),
      shared_out_(shared_out(a)),
      pairs_(segment.by_pairs(a.bytes)),
      to_each_(to_each(a) || (pairs_ && a.pattern == Pattern::allgather)),
      unit_(reduced_unit(c)) {
  active = true;
  for (const type::Datatype* t : {c.in_type, c.out_type})
    if (t) retain(const_cast<type::Datatype*>(t));
}

void BoardOperation::free_handles() {
  for (const type::Datatype* t : {call_.in_type, call_.out_type})
    if (t) release(const_cast<type::Datatype*>(t));
}

/// Into as many rounds as the slots are too small for.
void BoardOperation::cut() {
  if (agreed_.pattern == Pattern::barrier) return;
  const uint64_t all = !call_.op ? agreed_.bytes : agreed_.pattern == Pattern::reduce_scatter ? call_.out_count : reduced_count(call_);
  piece_ = all;
  if (board_for(agreed_) == Kind::brief) return;
  const uint64_t most = board_.shape().most / unit_ / (to_each_ ? size_ : 1);
  piece_ = shared_out_ ? node::Segment::even_share(all, most, size_) : std::min(all, most);
  const uint64_t together = shared_out_ ? piece_ * size_ : piece_, pieces = (all + together - 1) / together;
  comes_in(shared_out_ ? 2 * pieces : pieces);
}

/// The operation holds a reference of its own until it is done.
void BoardOperation::begin() {
  const auto root = static_cast<uint32_t>(agreed_.root);
  switch (agreed_.pattern) {
    case Pattern::bcast:
    case Pattern::scatter: takes_from(root, root + 1); break;
    case Pattern::gather:
    case Pattern::reduce: takes_from(0, at_root() ? size_ : 0); break;
    case Pattern::scan: takes_from(0, rank_ + 1); break;
    case Pattern::exscan: takes_from(0, rank_); break;
    default: takes_from(0, size_); break;
  }
  cut();
  retain(this);
  lane->locked([this] { board_.post(*this); });
}

/// Results follow the operands that they are made of; those of the next piece need not wait for them.
uint64_t BoardOperation::follows(uint64_t round) const { return !shared_out_ ? 0 : round & 1 ? round : round - (round > 0); }

BoardOperation::Part BoardOperation::part(uint64_t round, uint32_t rank) const {
  const uint64_t all = agreed_.pattern == Pattern::reduce_scatter ? call_.out_count : reduced_count(call_);
  const uint64_t before = shared_out_ ? (round / 2 * size_ + rank) * piece_ : round * piece_, first = std::min(all, before);
  const uint64_t count = std::min(piece_, all - first);
  return {agreed_.pattern == Pattern::reduce_scatter ? rank * all + first : first, count};
}

pml::Buffer BoardOperation::block(uint32_t rank, bool of_input) const {
  View v;
  (of_input ? lay_in : lay_out)(v, call_, static_cast<int32_t>(size_));
  return v.at(static_cast<int32_t>(rank), 1);
}

void BoardOperation::give(uint64_t round) {
  const uint64_t first = round * piece_;
  if (call_.op) return give_operands(round);
  switch (agreed_.pattern) {
    case Pattern::bcast:
      if (at_root()) put_part(shown(rank_, round), received(call_), first, piece_);
      break;
    case Pattern::scatter:
    case Pattern::alltoall:
      if (agreed_.pattern == Pattern::scatter && !at_root()) break;
      for (uint32_t r = 0; r < size_; ++r)
        if (r != rank_)
          put_part(place(true, rank_, r, round), block(r, agreed_.pattern == Pattern::scatter || !call_.in_place), first, piece_);
      break;
    case Pattern::gather:
    case Pattern::allgather:
      for (uint32_t r = 0; r < (to_each_ ? size_ : 1); ++r) {
        if (to_each_ ? r == rank_ : agreed_.pattern == Pattern::gather && at_root()) continue;
        put_part(place(to_each_, rank_, r, round), in_place_ ? block(rank_, false) : sent(call_), first, piece_);
      }
      break;
    default: break;
  }
}

/// Nobody reads their own operand here unless results may fall upon it: to read one's slot would take its lines back from others.
void BoardOperation::give_operands(uint64_t round) {
  if (shared_out_ && round & 1) {
    const Part own = part(round, rank_);
    for (uint32_t r = 0; r < (pairs_ ? size_ : 1); ++r)
      if (!pairs_ || r != rank_)
        copy_bytes(place(pairs_, rank_, r, round), static_cast<std::byte*>(call_.out) + own.first * unit_, own.count * unit_);
    return;
  }
  for (uint32_t r = 0; r < (to_each_ ? size_ : 1); ++r) {
    if (!in_place_ && (to_each_ ? r == rank_ : agreed_.pattern == Pattern::reduce && at_root())) continue;
    const Part theirs = part(round, r);
    copy_bytes(place(to_each_, rank_, r, round), operands() + theirs.first * unit_, theirs.count * unit_);
  }
}

/// Results, or a block.
void BoardOperation::take_from(uint32_t rank, uint64_t round) {
  if (!call_.op) return take_block(rank, round);
  if (rank == rank_ || !shared_out_ || !(round & 1)) return;
  const Part theirs = part(round, rank);
  copy_out(static_cast<std::byte*>(call_.out) + theirs.first * unit_, place(pairs_, rank, rank_, round), theirs.count * unit_);
}

void BoardOperation::done() {
  lane->complete(*this);
  release<pml::Request>(this);
}

/// The own block goes straight from where it is to where it belongs.
void BoardOperation::take_block(uint32_t rank, uint64_t round) {
  const Pattern p = agreed_.pattern;
  if (p == Pattern::barrier) return;
  const bool one = p == Pattern::bcast || p == Pattern::scatter;
  if (rank != rank_) return get_part(one ? received(call_) : block(rank, false), round * piece_, shown(rank, round), piece_);
  if (p == Pattern::bcast || call_.in_place || round > 0) return;
  copy_data(p == Pattern::scatter || p == Pattern::alltoall ? block(rank, true) : sent(call_), one ? received(call_) : block(rank, false));
}

/// In the order of ranks, from the last one on, so that all have the same bits; what one rank combines for all, from the one before it on,
/// so that not all look at the same rank's slots at the same time.
void BoardOperation::take(uint64_t round) {
  if (!call_.op || (shared_out_ && round & 1)) return;
  const Pattern p = agreed_.pattern;
  const uint32_t count = p == Pattern::exscan ? rank_ : p == Pattern::scan ? rank_ + 1 : size_;
  const Part own = part(round, rank_);
  if (count == 0 || own.count == 0 || (p == Pattern::reduce && !at_root())) return;
  const type::Datatype& type = reduced_type(call_);
  const auto operand = [&](uint32_t r) { return r == rank_ && !in_place_ ? operands() + own.first * unit_ : shown(r, round); };
  std::byte* const to = static_cast<std::byte*>(call_.out) + (p == Pattern::reduce_scatter ? round * piece_ : own.first) * unit_;
  const uint32_t first = to_each_ && call_.op->commutative ? rank_ : count - 1;
  const std::byte* sum = operand(first);
  if (count == 1) std::memcpy(to, sum, own.count * unit_);
  for (uint32_t i = 1; i < count; ++i, sum = to) op::apply3(*call_.op, type, operand((first + count - i) % count), sum, to, own.count);
}

/// Lines that a rank looks at which it would not by a tree of messages: these come at the same time, so that up to some of them are sooner.
uint64_t lines_looked_at(const Agreed& a) {
  switch (a.pattern) {
    case Pattern::allgather:
    case Pattern::alltoall:
    case Pattern::gather:
    case Pattern::scatter: return 0;
    default: return static_cast<uint64_t>(a.size) * node::Board::lines(a.bytes);
  }
}
constexpr uint64_t kMostLines = 64;

/// From so many bytes on two ranks with a CPU each read such blocks where they lie, by messages (Intel Granite Rapids: exchanges of 32
/// KiB 4.1 and 3.5 us, of 64 KiB 6.6 and 5.2, of 256 KiB 26 and 15, broadcasts of 64 KiB 3.7 and 3.4).
uint64_t read_from(Pattern p) {
  switch (p) {
    case Pattern::allgather:
    case Pattern::alltoall: return (kernel_copies_fast ? 32 : 128) << 10;
    case Pattern::bcast: return (kernel_copies_fast ? 64 : 128) << 10;
    default: return ~uint64_t{0};
  }
}

/// Blocks that few ranks which share CPUs read by messages, too (4 and 8 ranks on 2 CPUs, blocks of 128 KiB 118 and 105 us, 633 and 604, of
/// 512 KiB 560 and 490, 2450 and 2030).
bool crowd_reads(const Agreed& a) { return exchanges_at_once(a) && a.bytes >= 128 << 10; }

}  // namespace

bool board_takes(const node::Segment& segment, const Agreed& a, uint64_t unit) {
  if (given_bytes(a) <= node::Board::kBrief.most) return !segment.roomy() || lines_looked_at(a) <= kMostLines;
  if (segment.roomy() ? a.size == 2 && a.bytes >= read_from(a.pattern) : crowd_reads(a)) return false;
  if (a.pattern == Pattern::scatter && segment.scatters_apart(a.bytes)) return false;
  // The root combines all by itself: where ranks have CPUs, algorithms that share the work out win sooner the more there are.
  const uint64_t most_reduced = !segment.roomy() || a.size == 2 ? ~uint64_t{0} : (a.size <= 4 ? 256 : 16) << 10;
  if (a.pattern == Pattern::reduce && a.bytes > most_reduced) return false;
  return segment.shows_long() && a.pattern != Pattern::scan && a.pattern != Pattern::exscan &&
         (!shared_out(a) || unit * size_t(a.size) <= segment.board(Kind::meeting).shape().most);
}

pml::Request* make_on_board(pml::Team& team, node::Segment& segment, const Call& c, const Agreed& a, bool in_place) {
  return pool().make(team, segment, c, a, in_place);
}

}  // namespace weft::coll
