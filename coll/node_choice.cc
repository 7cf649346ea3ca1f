// Whether a call runs in shared memory. Everything that decides is equal on all ranks.
#include <algorithm>

#include "coll/team_state.h"
#include "coll/wish.h"
#include "include/mpi.h"
#include "runtime/base/error.h"
#include "runtime/topo/cpus.h"

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

/// Do the ranks of the team share their CPUs so that each is to know at once where the others are (Household)? The same on all of them.
bool share_cpus(const pml::Team& team) {
  const boot::Job& job = team.lane().boot().job();
  return job.same_cpus && team.size() == job.node_ranks.size() && node::Segment::crowded(job) && topo::few(team.size(), job.cpus);
}

}  // namespace

bool node_fits(const Call& c, const Agreed& a) {
  if (a.size == 1 || !node_takes(a)) return false;
  if (a.pattern == Pattern::alltoall && a.uneven && c.in_place) return false;  // blocks that go by messages would need memory of their own
  if (a.front > 0 && a.pattern != Pattern::barrier) return false;
  if (!c.op) return true;
  const type::Datatype& type = working_type(c);
  if (a.pattern == Pattern::reduce_scatter && type.size * static_cast<uint64_t>(a.size) > node::Segment::most_exchanged) return false;
  return node::Segment::fits(type) && type.size > 0;
}

bool is_plain(const Call& c) { return !c.op || (c.op->predefined && c.terms == 0 && !op::wide_type(*c.op, reduced_type(c))); }

/// The order of kernels in shared memory, kept by size.
Order TeamState::order_here(const Agreed& a) {
  if (!a.ordered) return Order::chain;
  if (!node_orders_) node_orders_ = std::make_unique<const NodeOrders>(a);
  return node_orders_->of(a);
}

bool TeamState::node_wanted(const Agreed& a, bool roomy) {
  const Word table = node_words_ && a.front == 0 && !a.ordered && !a.uneven ? node_words_->of(a.pattern, a.bytes) : Word{};
  return wants_node(a, word_of_user(a), table, roomy) && (!a.ordered || order_here(a) != Order::own);
}

bool TeamState::node_wanted(const Agreed& a) {
  return node_ ? node_wanted(a, node_->roomy()) : node_wanted(a, true) || node_wanted(a, false);
}

/// Memory for operands in the type that they are computed in; null: there is none (fail() has been called).
std::byte* TeamState::take_wide(uint64_t bytes) {
  std::byte* const memory = wide_.take(bytes);
  if (!memory) fail(MPI_ERR_NO_MEM, "no memory for the %zu bytes that this reduction works in", size_t(bytes));
  return memory;
}

Status TeamState::reduce_as(const Call& c, const void* in, void* out, const type::Datatype& type, Order order) {
  const uint64_t count = reduced_count(c);
  switch (c.what) {
    case Collective::allreduce: return node_->allreduce(in, out, count, type, *c.op, order);
    case Collective::reduce: return node_->reduce(in, out, count, type, *c.op, c.root, order);
    default: return node_->scan(in, out, count, type, *c.op, c.what == Collective::exscan);
  }
}

/// Reductions and scans in shared memory, in the type that they are computed in.
Status TeamState::reduce_here(const Call& c, const Agreed& a, const void* in) {
  const type::Datatype &type = reduced_type(c), &working = working_type(c);
  const uint64_t count = reduced_count(c);
  const auto me = static_cast<int>(team_.rank());
  const bool result = c.what == Collective::reduce ? c.root == me : c.what != Collective::exscan || me > 0;
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

/// Reduce-scatter in shared memory.
Status TeamState::scatter_sums_here(const Call& c, const void* in) {
  const type::Datatype &type = reduced_type(c), &working = working_type(c);
  node::Segment::Shares shares{c.out_count};
  if (c.out_counts) {
    sum_up(starts_, c.out_counts, team_.size(), nullptr, 1);
    shares = {0, starts_.data()};
  }
  if (&working == &type) return node_->reduce_scatter(in, c.out, shares, working, *c.op);
  const uint64_t all = shares.start(team_.size()), own = shares.count(team_.rank());
  std::byte* const wide = take_wide((all + own) * working.size);
  if (!wide) return Status::failed;
  std::byte* const sums = wide + all * working.size;
  widen(c, in, wide, all);
  const Status status = node_->reduce_scatter(wide, sums, shares, working, *c.op);
  if (status == Status::ok) narrow(c, sums, c.out, own);
  return status;
}

namespace {

/// Messages beside a kernel: all have been waited for in the end.
class Letters final : public node::Post {
 public:
  Letters(pml::Team& team, int tag, std::vector<pml::Request*>& under_way) : team_(team), tag_(tag), under_way_(under_way) {}
  void send(uint32_t to, const pml::Buffer& what) override {
    under_way_.push_back(team_.lane().isend(team_, static_cast<int>(to), tag_, pml::Traffic::collective, what));
  }
  void receive(uint32_t from, const pml::Buffer& where) override {
    under_way_.push_back(team_.lane().ireceive(team_, static_cast<int>(from), tag_, pml::Traffic::collective, where));
  }
  void withdraw(uint32_t from) override {
    for (pml::Request* r : under_way_)
      if (r->request_kind == pml::RequestKind::receive && static_cast<pml::Transfer*>(r)->dest == static_cast<int>(from))
        team_.lane().cancel(*r);
  }
  void settle() override { error_ = coll::finish(team_.lane(), under_way_, Status::ok); }
  /// An MPI error class; `status`: how the kernel has ended.
  int finish(Status status) {
    if (status == Status::truncated) settle();  // of one block: what is under way arrives all the same
    const int error = coll::finish(team_.lane(), under_way_, status);
    return error_ ? error_ : error;
  }

 private:
  pml::Team& team_;
  const int tag_;
  std::vector<pml::Request*>& under_way_;
  int error_ = MPI_SUCCESS;
};

}  // namespace

/// Gather, scatter and all-to-all of blocks that are equally long.
Status TeamState::exchange_evenly(const Call& c, const Agreed& a) {
  const auto ranks = static_cast<int32_t>(team_.size());
  const bool root = c.root == static_cast<int>(team_.rank());
  View blocks;
  switch (a.pattern) {
    case Pattern::gather: {
      if (root) lay_out(blocks, c, ranks);
      return node_->gather(root && c.in_place ? blocks.at(c.root, 1) : sent(c), blocks, c.root);
    }
    case Pattern::scatter: {
      if (root) lay_in(blocks, c, ranks);
      return node_->scatter(blocks, root && c.in_place ? blocks.at(c.root, 1) : received(c), c.root);
    }
    default: return node_->alltoall(c.in_place ? received(c) : sent(c), received(c));
  }
}

/// The same of blocks that differ, or are taken so: in shared memory and, as not all ranks know how long they are, beside it. Returns an
/// MPI error class.
int TeamState::exchange_unevenly(const Call& c, const Agreed& a) {
  const auto ranks = static_cast<int32_t>(team_.size());
  const bool root = c.root == static_cast<int>(team_.rank());
  View in, out;
  Letters letters(team_, next_tag(Form::blocking), requests_);
  if (a.pattern == Pattern::gather) {
    if (root) lay_out(out, c, ranks);
    return letters.finish(node_->gather(root && c.in_place ? out.at(c.root, 1) : sent(c), out, c.root, letters));
  }
  if (a.pattern == Pattern::scatter) {
    if (root) lay_in(in, c, ranks);
    return letters.finish(node_->scatter(in, root && c.in_place ? in.at(c.root, 1) : received(c), c.root, letters));
  }
  lay_in(in, c, ranks);
  lay_out(out, c, ranks);
  return letters.finish(node_->alltoall(in, out, letters));
}

/// allgather and allgatherv in shared memory.
Status TeamState::allgather_here(const Call& c) {
  if (!c.out_counts && !c.in_place) return node_->allgather(sent(c), received(c));
  View out;
  lay_out(out, c, static_cast<int32_t>(team_.size()));
  const pml::Buffer own = c.in_place ? out.at(static_cast<int32_t>(team_.rank()), 1) : sent(c);
  return c.out_counts ? node_->allgather(own, out) : node_->allgather(own, received(c));
}

/// Could the call run in shared memory, as far as its ranks and what it does tell?
bool TeamState::node_possible(const Call& c, const Agreed& a) {
  if (node_state_ == Node::impossible || !node_fits(c, a)) return false;
  if (node_state_ != Node::unknown) return true;
  node_state_ = on_one_node(team_) ? Node::possible : Node::impossible;
  if (node_state_ == Node::impossible) return false;
  if (table_speaks()) node_words_ = std::make_unique<const NodeWords>(a.size);
  return true;
}

/// Begins to wire a segment if it is time for it.
bool TeamState::begin_wiring(const Agreed& a) {
  if (++node_chances_ <= kPatience && !share_cpus(team_) && !word_of_user(a).node) return false;
  node_state_ = Node::wiring;
  wiring_ = node::Wiring::begin(team_, next_tag(Form::blocking));
  return true;
}

bool TeamState::wiring_over() {
  bool over = false;
  team_.lane().locked([&] { over = wiring_->over(); });
  return over;
}

/// It is over.
void TeamState::settle_wiring() {
  node_ = wiring_->take();
  wiring_.reset();
  node_state_ = node_ ? Node::ready : Node::impossible;
  for (const Later& call : later_)
    ledger_->note(node_ && call.wants.board(*node_, call.agreed) ? call.by_board : call.by_messages, call.agreed.bytes, {});
  later_.clear();
}

/// If the job ends meanwhile, there is none.
void TeamState::await_wiring() {
  if (wiring_->wait() == Status::ok) return settle_wiring();
  wiring_.reset();
  node_state_ = Node::impossible;
}

bool TeamState::try_node(const Call& c, const Agreed& a, int& error) {
  if (!node_possible(c, a) || !node_wanted(a)) return false;
  if (node_state_ == Node::possible && !begin_wiring(a)) return false;
  if (node_state_ == Node::wiring) {
    await_wiring();
    if (!node_ || !node_wanted(a)) return false;  // now it is known how roomy the node is
  }
  error = run_here(c, a);
  remember(c, a);
  return true;
}

TeamState::Way TeamState::way_of(const Call& c, const Agreed& a) {
  if (node_state_ == Node::impossible || a.uneven || a.ordered || !is_plain(c) || (a.bytes == 0 && a.pattern != Pattern::barrier))
    return Way::messages;
  if (node_state_ == Node::wiring && wiring_over()) settle_wiring();
  if (!node_possible(c, a) || !node_wanted(a)) return Way::messages;
  if (node_state_ == Node::possible && !begin_wiring(a)) return Way::messages;
  if (node_state_ == Node::wiring) return Way::later;
  return board_takes(*node_, a, reduced_unit(c)) ? Way::board : Way::messages;
}

TeamState::Wants TeamState::wants(const Call& c, const Agreed& a) { return {node_wanted(a, true), node_wanted(a, false), reduced_unit(c)}; }

void TeamState::go_on_when_wired(node::Wiring::Follower& follower) {
  team_.lane().locked([&] { wiring_->follow(follower); });
}

void TeamState::note_later(const Call& c, const Agreed& a) {
  if (ledger_)
    later_.push_back({a, wants(c, a), line_of(c, a, Ledger::Form::nonblocking, false), line_of(c, a, Ledger::Form::nonblocking, true)});
}

int TeamState::run_here(const Call& c, const Agreed& a) {
  Status status = Status::ok;
  const void* const in = operand(c);
  switch (a.pattern) {
    case Pattern::barrier: status = node_->barrier(); break;
    case Pattern::bcast: status = node_->bcast({c.out, c.out_count, c.out_type}, c.root); break;
    case Pattern::gather:
    case Pattern::scatter:
    case Pattern::alltoall:
      if (a.uneven || (a.pattern == Pattern::scatter && node_->scatters_apart(a.bytes)) ||
          (a.pattern == Pattern::gather && node_->gathers_apart(a.bytes)))
        return exchange_unevenly(c, a);
      status = exchange_evenly(c, a);
      break;
    case Pattern::allgather: status = allgather_here(c); break;
    case Pattern::reduce_scatter: status = scatter_sums_here(c, in); break;
    default: status = reduce_here(c, a, in); break;
  }
  return status == Status::ok ? MPI_SUCCESS : fail(status);
}

int TeamState::run_again(const Call& c, const Agreed& a) {
  if (!c.op || a.pattern == Pattern::reduce_scatter) return run_here(c, a);
  const Status status = reduce_as(c, operand(c), c.out, reduced_type(c), Order::chain);
  return status == Status::ok ? MPI_SUCCESS : fail(status);
}

void TeamState::remember(const Call& c, const Agreed& a) {
  const auto [type, count] = weighed(c);
  latest_.here = (!a.uneven || among_two(c.what)) && is_plain(c) && (!type || type->predefined) && !a.ordered && !groups_ && !ledger_;
  if (latest_.here) latest_ = {.here = true, .what = c.what, .op = c.op, .type = type, .count = count, .agreed = a};
}

}  // namespace weft::coll
