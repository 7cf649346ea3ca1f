// Short nonblocking collectives among ranks of one node: each rank shows what it gives, and takes what it needs of the others in one step.
#include <algorithm>
#include <cstring>

#include "coll/team_state.h"
#include "runtime/type/cursor.h"

namespace weft::coll {

namespace {

class ShortOperation final : public pml::Request, public node::Board::Note {
 public:
  ShortOperation(TeamState& s, const Call& c, const Agreed& a);
  void begin();
  void free_handles();

 private:
  void give(std::byte* place) override;
  void take() override;
  void done() override;
  void take_blocks();
  void take_sum();
  const std::byte* shown(uint32_t rank) const { return board_.shown(rank, number()); }
  bool at_root() const { return agreed_.root == static_cast<int>(rank_); }
  pml::Buffer given() const;

  node::Board& board_;
  const Call call_;
  const Agreed agreed_;
  const uint32_t rank_, size_;
};

Pool<ShortOperation>& pool() {
  static Pool<ShortOperation>* const p = new Pool<ShortOperation>;  // never destroyed: handles may outlive main()
  return *p;
}

void destroy_operation(pml::Request& r) {
  auto& operation = static_cast<ShortOperation&>(r);
  operation.free_handles();
  pool().destroy(&operation);
}

constexpr pml::Request::Ops kOps{nullptr, nullptr, nullptr, destroy_operation};

void pack(const pml::Buffer& from, std::byte* to) { type::Cursor(from.address, from.count, *from.type).pack(to, node::Board::most); }
void unpack(const std::byte* from, const pml::Buffer& to) {
  type::Cursor cursor(to.address, to.count, *to.type);
  cursor.unpack(from, std::min(cursor.total(), node::Board::most));
}

ShortOperation::ShortOperation(TeamState& s, const Call& c, const Agreed& a)
    : Request(pml::RequestKind::collective, &kOps, &s.team().lane()),
      board_(s.board()),
      call_(c),
      agreed_(a),
      rank_(s.team().rank()),
      size_(s.team().size()) {
  active = true;
  for (const type::Datatype* t : {c.in_type, c.out_type})
    if (t) retain(const_cast<type::Datatype*>(t));
}

void ShortOperation::free_handles() {
  for (const type::Datatype* t : {call_.in_type, call_.out_type})
    if (t) release(const_cast<type::Datatype*>(t));
}

/// The operation holds a reference of its own until it is done.
void ShortOperation::begin() {
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
  retain(this);
  lane->locked([this] { board_.post(*this); });
}

/// Nothing where others do not look.
pml::Buffer ShortOperation::given() const {
  const Call& c = call_;
  const pml::Buffer sent{const_cast<void*>(c.in), c.in_count, c.in_type}, received{c.out, c.out_count, c.out_type};
  View out;
  switch (agreed_.pattern) {
    case Pattern::barrier: return {};
    case Pattern::bcast: return at_root() ? received : pml::Buffer{};
    case Pattern::scatter:
      if (!at_root()) return {};
      lay_in(out, c, static_cast<int32_t>(size_));
      return out.at(0, static_cast<int32_t>(size_));
    case Pattern::gather:
    case Pattern::allgather:
      if (!c.in_place || (agreed_.pattern == Pattern::gather && !at_root())) return sent;
      lay_out(out, c, static_cast<int32_t>(size_));
      return out.at(static_cast<int32_t>(rank_), 1);
    case Pattern::alltoall:
      (c.in_place ? lay_out : lay_in)(out, c, static_cast<int32_t>(size_));
      return out.at(0, static_cast<int32_t>(size_));
    default: break;
  }
  const bool in_place = c.in_place && (agreed_.pattern != Pattern::reduce || at_root());
  const uint64_t count = agreed_.pattern == Pattern::reduce_scatter ? c.out_count * size_ : reduced_count(c);
  return {in_place ? c.out : const_cast<void*>(c.in), count, &reduced_type(c)};
}

void ShortOperation::give(std::byte* place) {
  if (const pml::Buffer buffer = given(); buffer.type) pack(buffer, place);
}

void ShortOperation::take() {
  if (call_.op)
    take_sum();
  else
    take_blocks();
}

void ShortOperation::done() {
  lane->complete(*this);
  release<pml::Request>(this);
}

void ShortOperation::take_blocks() {
  const Call& c = call_;
  const auto root = static_cast<uint32_t>(agreed_.root);
  const pml::Buffer received{c.out, c.out_count, c.out_type};
  if (agreed_.pattern == Pattern::barrier || (agreed_.pattern == Pattern::gather && !at_root())) return;
  if (agreed_.pattern == Pattern::bcast) {
    if (!at_root()) unpack(shown(root), received);
    return;
  }
  if (agreed_.pattern == Pattern::scatter) {
    if (!c.in_place || !at_root()) unpack(shown(root) + rank_ * agreed_.bytes, received);
    return;
  }
  View out;
  lay_out(out, c, static_cast<int32_t>(size_));
  const uint64_t mine = agreed_.pattern == Pattern::alltoall ? rank_ * agreed_.bytes : 0;
  for (uint32_t r = 0; r < size_; ++r) unpack(shown(r) + mine, out.at(static_cast<int32_t>(r), 1));
}

/// In the order of ranks, from the last one on, so that all have the same bits.
void ShortOperation::take_sum() {
  const uint32_t operands = agreed_.pattern == Pattern::exscan ? rank_ : agreed_.pattern == Pattern::scan ? rank_ + 1 : size_;
  if (operands == 0 || (agreed_.pattern == Pattern::reduce && !at_root())) return;
  const type::Datatype& type = reduced_type(call_);
  const bool shared_out = agreed_.pattern == Pattern::reduce_scatter;
  const uint64_t count = shared_out ? call_.out_count : reduced_count(call_), first = shared_out ? rank_ * count * type.size : 0;
  const std::byte* sum = shown(operands - 1) + first;
  if (operands == 1) std::memcpy(call_.out, sum, count * type.size);
  for (uint32_t r = operands - 1; r-- > 0; sum = static_cast<std::byte*>(call_.out))
    op::apply3(*call_.op, type, shown(r) + first, sum, call_.out, count);
}

/// Bytes of what a rank gives.
uint64_t given_bytes(const Agreed& a) {
  const bool to_each = a.pattern == Pattern::scatter || a.pattern == Pattern::alltoall;
  return to_each ? a.bytes * static_cast<uint64_t>(a.size) : a.bytes;
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

}  // namespace

bool TeamState::is_short(const Call& c, const Agreed& a) {
  if (node_state_ != Node::ready || a.uneven || a.ordered || given_bytes(a) > node::Board::most || !node_fits(c, a)) return false;
  if (node_->roomy() && lines_looked_at(a) > kMostLines) return false;
  return is_plain(c) && (a.bytes > 0 || a.pattern == Pattern::barrier) && node_wanted(a);
}

pml::Request* start_short(TeamState& s, const Call& c, const Agreed& a) {
  ShortOperation* const o = pool().make(s, c, a);
  if (Ledger* const ledger = s.ledger()) [[unlikely]]
    ledger->note(s.line_of(c, a, Ledger::Form::nonblocking, true), a.bytes, {});
  o->begin();
  return o;
}

}  // namespace weft::coll
