// Whether a call runs in shared memory. Everything that decides is equal on all ranks.
#include <algorithm>

#include "coll/team_state.h"
#include "coll/wish.h"
#include "include/mpi.h"
#include "runtime/base/error.h"

namespace weft::coll {

namespace {

/// How many calls a team makes by message first.
constexpr int kPatience = 4;

/// True if all members are on this node, as the launcher tells it: the same answer on all of them.
bool on_one_node(const pml::Team& team) {
  const std::vector<uint32_t>& here = team.lane().boot().job().node_ranks;
  if (team.size() > here.size()) return false;
  for (uint32_t r = 0; r < team.size(); ++r) {
    const ProcessId who = team.process(r);
    if (who.job != 0 || !std::binary_search(here.begin(), here.end(), who.rank)) return false;
  }
  return true;
}

}  // namespace

bool node_fits(const Call& c, const Agreed& a) {
  if (a.size == 1 || !node_takes(a)) return false;
  if (a.front > 0 && a.pattern != Pattern::barrier) return false;
  if (!c.op) return true;
  const type::Datatype& type = working_type(c);
  if (a.pattern == Pattern::reduce_scatter && type.size * static_cast<uint64_t>(a.size) > node::Segment::most_exchanged) return false;
  return node::Segment::fits(type) && type.size > 0;
}

/// The order of kernels in shared memory, kept by size.
Order TeamState::order_here(const Agreed& a) {
  if (!a.ordered) return Order::chain;
  if (!node_orders_) node_orders_ = std::make_unique<const NodeOrders>(a);
  return node_orders_->of(a);
}

bool TeamState::node_wanted(const Agreed& a) {
  const Word table = node_words_ && a.front == 0 && !a.ordered ? node_words_->of(a.pattern, a.bytes) : Word{};
  const Word user = word_of_user(a);
  const auto wants = [&](bool roomy) { return wants_node(a, user, table, roomy); };
  return (node_ ? wants(node_->roomy()) : wants(true) || wants(false)) && (!a.ordered || order_here(a) != Order::own);
}

/// Memory for operands in the type that they are computed in; null: there is none (fail() has been called).
std::byte* TeamState::take_wide(uint64_t bytes) {
  std::byte* const memory = wide_.take(bytes);
  if (!memory) fail(MPI_ERR_NO_MEM, "no memory for the %zu bytes that this reduction works in", size_t(bytes));
  return memory;
}

Status TeamState::reduce_as(const Call& c, const void* in, void* out, const type::Datatype& type, Order order) {
  const uint64_t count = reduced_count(c);
  return c.what == Collective::allreduce ? node_->allreduce(in, out, count, type, *c.op, order)
                                         : node_->reduce(in, out, count, type, *c.op, c.root, order);
}

/// allreduce and reduce in shared memory, in the type that they are computed in.
Status TeamState::reduce_here(const Call& c, const Agreed& a, const void* in) {
  const type::Datatype &type = reduced_type(c), &working = working_type(c);
  const uint64_t count = reduced_count(c);
  const bool result = c.what == Collective::allreduce || c.root == static_cast<int>(team_.rank());
  void* out = c.out;
  if (&working != &type) {
    out = take_wide(count * working.size);
    if (!out) return Status::failed;
    widen(c, in, out, count);
    in = out;
  }
  const Status status = reduce_as(c, in, out, working, order_here(a));
  if (&working != &type && result && status == Status::ok) narrow(c, out, c.out, count);
  return status;
}

/// Blocks of reduce-scatter in shared memory.
Status TeamState::scatter_sums_here(const Call& c, const void* in) {
  const type::Datatype &type = reduced_type(c), &working = working_type(c);
  const uint64_t all = c.out_count * team_.size();
  if (&working == &type) return node_->reduce_scatter(in, c.out, c.out_count, working, *c.op);
  std::byte* const wide = take_wide((all + c.out_count) * working.size);
  if (!wide) return Status::failed;
  std::byte* const sums = wide + all * working.size;
  widen(c, in, wide, all);
  const Status status = node_->reduce_scatter(wide, sums, c.out_count, working, *c.op);
  if (status == Status::ok) narrow(c, sums, c.out, c.out_count);
  return status;
}

/// allgather and alltoall in shared memory.
Status TeamState::exchange_here(const Call& c, const Agreed& a) {
  const pml::Buffer out{c.out, c.out_count, c.out_type};
  const bool all = a.pattern == Pattern::alltoall;
  std::byte* const own = static_cast<std::byte*>(c.out) + (all ? 0 : team_.rank()) * static_cast<int64_t>(c.out_count) * c.out_type->extent;
  const pml::Buffer in =
      c.in_place ? pml::Buffer{own, c.out_count, c.out_type} : pml::Buffer{const_cast<void*>(c.in), c.in_count, c.in_type};
  return all ? node_->alltoall(in, out) : node_->allgather(in, out);
}

bool TeamState::try_node(const Call& c, const Agreed& a, int& error) {
  if (node_state_ == Node::impossible || !node_fits(c, a)) return false;
  if (node_state_ == Node::unknown) {
    node_state_ = on_one_node(team_) ? Node::possible : Node::impossible;
    if (node_state_ == Node::impossible) return false;
    if (table_speaks()) node_words_ = std::make_unique<const NodeWords>(a.size);
  }
  if (!node_wanted(a)) return false;
  if (node_state_ == Node::possible) {
    if (++node_chances_ <= kPatience && !word_of_user(a).node) return false;
    node_ = node::Segment::wire(team_, next_tag(Form::blocking));
    node_state_ = node_ ? Node::ready : Node::impossible;
    if (!node_ || !node_wanted(a)) return false;  // now it is known how roomy the node is
  }
  error = run_here(c, a);
  remember(c, a);
  return true;
}

int TeamState::run_here(const Call& c, const Agreed& a) {
  Status status = Status::ok;
  const void* const in = operand(c);
  switch (a.pattern) {
    case Pattern::barrier: status = node_->barrier(); break;
    case Pattern::bcast: status = node_->bcast({c.out, c.out_count, c.out_type}, c.root); break;
    case Pattern::allgather:
    case Pattern::alltoall: status = exchange_here(c, a); break;
    case Pattern::reduce_scatter: status = scatter_sums_here(c, in); break;
    default: status = reduce_here(c, a, in); break;
  }
  return status == Status::ok ? MPI_SUCCESS : fail(status);
}

int TeamState::run_again(const Call& c, const Agreed& a) {
  if (a.pattern != Pattern::reduce && a.pattern != Pattern::allreduce) return run_here(c, a);
  const Status status = reduce_as(c, operand(c), c.out, reduced_type(c), Order::chain);
  return status == Status::ok ? MPI_SUCCESS : fail(status);
}

void TeamState::remember(const Call& c, const Agreed& a) {
  const bool plain = !c.op || (c.op->predefined && c.terms == 0 && !op::wide_type(*c.op, reduced_type(c)));
  const type::Datatype* const type = type_of(c);
  latest_.here = !a.uneven && plain && (!type || type->predefined) && !a.ordered && !groups_ && !ledger_;
  if (latest_.here) latest_ = {.here = true, .what = c.what, .op = c.op, .type = type, .count = reduced_count(c), .agreed = a};
}

}  // namespace weft::coll
