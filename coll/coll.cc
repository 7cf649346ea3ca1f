#include "coll/coll.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "coll/network.h"
#include "coll/team_state.h"
#include "include/mpi.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"

namespace weft::coll {

namespace {

constexpr size_t kKeepScratch = size_t{1} << 20;
constexpr int kSequenceBits = 29;

bool rooted(Pattern p) { return p == Pattern::bcast || p == Pattern::gather || p == Pattern::scatter || p == Pattern::reduce; }

uint64_t total_bytes(const Counts& counts, size_t n, const type::Datatype& t) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<uint64_t>(counts[i]);
  return sum * t.size;
}

/// Packed bytes as all ranks know them; see Agreed.
uint64_t agreed_bytes(const Call& c, size_t size, bool root) {
  switch (c.what) {
    case Collective::bcast: return c.out_count * c.out_type->size;
    case Collective::gather: return root && c.in_place ? c.out_count * c.out_type->size : c.in_count * c.in_type->size;
    case Collective::scatter: return root ? c.in_count * c.in_type->size : c.out_count * c.out_type->size;
    case Collective::allgather:
    case Collective::alltoall: return c.out_count * c.out_type->size;
    case Collective::allgatherv: return total_bytes(c.out_counts, size, *c.out_type) / size;
    case Collective::reduce:
    case Collective::allreduce:
    case Collective::scan:
    case Collective::exscan: return reduced_count(c) * working_type(c).size;
    case Collective::reduce_scatter: return total_bytes(c.out_counts, size, working_type(c));
    case Collective::reduce_scatter_block: return c.out_count * size * working_type(c).size;
    default: return 0;
  }
}

int refused(const TeamState& s, const Call& c) {
  if (s.between_groups(c) && (c.what == Collective::scan || c.what == Collective::exscan))
    return fail(MPI_ERR_COMM, "comm is an inter-communicator, whose processes have no order in which to scan");
  if (among_neighbors(pattern_of(c.what)) && !s.has_neighborhood())
    return fail(
        MPI_ERR_TOPOLOGY,
        "the communicator has no topology that says who the neighbours are (of MPI_Graph_create: with each edge named at both ends)");
  return MPI_SUCCESS;
}

/// Do all ranks know that there is no data? Nobody has to meet for that (MPI-5.0 6.1: only a barrier keeps ranks together).
bool moves_nothing(const Agreed& a) { return a.bytes == 0 && !a.uneven && a.front == 0 && a.pattern != Pattern::barrier; }

/// Can ranks, or the blocks of one, differ in how much they have?
bool is_uneven(Collective what) {
  return what == Collective::gatherv || what == Collective::scatterv || what == Collective::allgatherv || what == Collective::alltoallv ||
         what == Collective::alltoallw || what == Collective::reduce_scatter || among_neighbors(pattern_of(what));
}

/// moves_nothing() at a glance, where counts say it.
bool counts_nothing(const TeamState& s, const Call& c) {
  return (c.in_count | c.out_count) == 0 && c.what != Collective::barrier && !s.groups() && !is_uneven(c.what);
}

/// Leaves the operation in the lane's ring.
void record(TeamState& s, const Call& c, const Agreed& a) {
  pml::Lane& lane = s.team().lane();
  lane.locked([&] {
    const int number = s.next_number();
    const int root = rooted(a.pattern) ? a.root : -1;
    lane.ring().add(obs::What::collective, s.team().context(), root, number, a.bytes).detail = static_cast<uint8_t>(c.what);
  });
}

/// The root as the schedules know it: a rank of the team, -1 where this rank takes no part.
int root_of(const TeamState& s, const Call& c) {
  if (!s.between_groups(c)) return c.root;
  if (c.root == MPI_ROOT) return static_cast<int>(s.team().rank());
  return c.root == MPI_PROC_NULL ? -1 : s.groups()->other_first + c.root;
}

Agreed agree_between_groups(const TeamState& s, const Call& c, Agreed a) {
  a.front = s.groups()->front;
  // Arrays are known to one side only.
  if (a.uneven && c.what != Collective::reduce_scatter) a.bytes = 0;
  if (c.what == Collective::allgather) a.bytes = c.in_count * c.in_type->size + c.out_count * c.out_type->size;
  const bool root = a.root == static_cast<int>(s.team().rank());
  if (c.what == Collective::gather && root) a.bytes = c.out_count * c.out_type->size;
  if (a.root < 0) a.bytes = 0;
  return a;
}

std::unique_ptr<pml::Team> unite(pml::Team& team) {
  if (!team.inter()) return nullptr;
  return std::make_unique<pml::Team>(team.lane(), pml::united_context(team.context()), team.united_members(), team.united_rank());
}

std::unique_ptr<const TeamState::Groups> groups_of(const pml::Team& team) {
  if (!team.inter()) return nullptr;
  const auto own = static_cast<int32_t>(team.size()), other = static_cast<int32_t>(team.remote_size());
  const bool in_front = team.in_front();
  return std::make_unique<TeamState::Groups>(TeamState::Groups{in_front ? own : other, in_front, own, other, in_front ? own : 0});
}

}  // namespace

Agreed agree(const TeamState& s, const Call& c) {
  const pml::Team& team = s.team();
  const Pattern pattern = pattern_of(c.what);
  Agreed a;
  a.pattern = pattern;
  a.size = static_cast<int32_t>(team.size());
  a.root = rooted(pattern) ? root_of(s, c) : 0;
  a.bytes = agreed_bytes(c, static_cast<size_t>(array_length(s, c)), a.root == static_cast<int>(team.rank()));
  a.commutative = !c.op || c.op->commutative;
  a.uneven = is_uneven(c.what);
  a.ordered = s.reproducible() != Reproducible::no && c.op && op::order_matters(*c.op, working_type(c));
  if (s.between_groups(c)) [[unlikely]]
    return agree_between_groups(s, c, a);
  return a;
}

bool in_place_here(const TeamState& s, const Call& c) {
  const Pattern p = pattern_of(c.what);
  const bool only_root = p == Pattern::gather || p == Pattern::scatter || p == Pattern::reduce;
  return c.in_place && p != Pattern::alltoall && (!only_root || c.root == static_cast<int>(s.team().rank()));
}

int32_t array_length(const TeamState& s, const Call& c) {
  if (!s.between_groups(c)) return static_cast<int32_t>(s.team().size());
  const bool own = c.what == Collective::reduce_scatter || c.what == Collective::reduce_scatter_block;
  return own ? s.groups()->own : s.groups()->other;
}

void TeamStateDeleter::operator()(TeamState* s) const { delete s; }

TeamState::TeamState(pml::Team& team, Ledger* ledger, std::shared_ptr<const Neighborhood> neighborhood)
    : united_(unite(team)),
      team_(united_ ? *united_ : team),
      groups_(groups_of(team)),
      neighborhood_(std::move(neighborhood)),
      ledger_(ledger),
      plans_({.neighborhood = neighborhood_.get()}) {}

std::string prefer(TeamState& s, std::string_view words) { return s.prefer(words); }

bool make_reproducible(TeamState& s, std::string_view word) {
  const auto wanted = word.empty() ? reproducible_setting() : reproducible_named(word);
  if (wanted) s.make_reproducible(*wanted);
  return wanted.has_value();
}

TeamStatePtr attach(pml::Team& team, Ledger* ledger, std::shared_ptr<const Neighborhood> neighborhood) {
  return TeamStatePtr(new TeamState(team, ledger, std::move(neighborhood)));
}

int TeamState::next_tag(Form form) {
  const int kind = static_cast<int>(form);
  return kind << kSequenceBits | static_cast<int>(sequences_[kind]++ & ((1U << kSequenceBits) - 1));
}

/// Asks the launcher once where all ranks are. All of them learn the same: what is not known of one is not known to any.
void TeamState::learn_hosts() {
  knows_hosts_ = true;
  boot::Bootstrap& boot = team_.lane().boot();
  const bool one_host = boot.job().node_count < 2;
  std::vector<std::string> host_of;
  for (uint32_t r = 0; r < team_.size(); ++r) {
    const ProcessId who = team_.process(r);
    if (who.job != 0) return;
    if (one_host) continue;
    const auto host = boot.host_of(who);
    if (!host) return;
    host_of.push_back(*host);
  }
  host_count_ = one_host ? 1 : static_cast<int32_t>(std::unordered_set<std::string_view>(host_of.begin(), host_of.end()).size());
  if (host_count_ > 1 && team_.size() > 2) hosts_ = levels_of(host_of);
  plans_.learn(hosts_.get(), host_count_);
}

/// It may depend on the hosts.
Word TeamState::look_up(Agreed a) {
  know_hosts();
  a.hosts = host_count_;
  return preferred_ ? find_word(*preferred_, a) : coll::word_of_user(a);
}

std::string TeamState::prefer(std::string_view words) {
  if (words.empty() && !preferred_) return {};
  plans_.forget();
  preferred_ = words.empty() ? nullptr : std::make_unique<const Wishes>(Wishes::read(with_setting(words)));
  return Wishes::read(words).wrong;
}

const SchedulePtr& TeamState::schedule_for(const Call& c, const Agreed& a) {
  know_hosts();
  return plans_.find(a, in_place_here(*this, c), static_cast<Rank>(team_.rank()), word_of_user(a));
}

Ledger::Key TeamState::line_of(const Call& c, const Agreed& agreed, Ledger::Form form, bool node) {
  know_hosts();
  Agreed a = agreed;
  a.hosts = host_count_;
  Ledger::Key key{.pattern = a.pattern,
                  .form = form,
                  .uneven = a.uneven,
                  .sums = a.ordered                                             ? Reproducible::runs
                          : c.terms > 0 && &working_type(c) != &reduced_type(c) ? Reproducible::exact
                                                                                : Reproducible::no,
                  .size_class = size_class(a.bytes),
                  .ranks = a.size,
                  .hosts = a.hosts,
                  .algorithm = {}};
  if (a.front > 0 && !node) return key;
  const bool refined = form == Ledger::Form::blocking && !node && refined_.word.anything;
  const Decision d = decide(a, plans_.topology(), node, !node_ || node_->roomy(), refined ? refined_.word : word_of_user(a));
  const bool may_come =
      !node && form != Ledger::Form::persistent && host_count_ == 1 && node_state_ == Node::possible && node_fits(c, a) && node_wanted(a);
  key.early = refined ? refined_.tried : may_come;
  key.by = refined ? By::refined : d.by;
  key.algorithm = node ? "node" : d.choice.algorithm->name;
  key.segments = node ? 1 : d.choice.segments;
  return key;
}

int TeamState::run_plan(const Call& c, const Agreed& a, const SchedulePtr& schedule) {
  const int tag = next_tag(Form::blocking);
  if (!frame_.bind(*schedule, c, a.root, static_cast<Rank>(team_.rank()), static_cast<int32_t>(team_.size()))) return MPI_ERR_NO_MEM;
  const int error = run_rounds(team_, tag, frame_, requests_);
  frame_.trim(kKeepScratch);
  return error;
}

int TeamState::run_schedule(const Call& c, const Agreed& a) {
  refined_ = {};
  if (Refinement* const refinement = refinement_of(a)) [[unlikely]]
    return run_refined(*refinement, c, a);
  return run_plan(c, a, schedule_for(c, a));
}

namespace {

int run_agreed(TeamState& s, const Call& c, const Agreed& a, bool& node) {
  int error = MPI_SUCCESS;
  node = s.try_node(c, a, error);
  return node ? error : s.run_schedule(c, a);
}

[[gnu::noinline]] int run_noted(TeamState& s, const Call& c, const Agreed& a) {
  bool node = false;
  const uint64_t begin = now_ns();
  const int error = run_agreed(s, c, a, node);
  const uint64_t end = now_ns();
  s.ledger()->note(s.line_of(c, a, Ledger::Form::blocking, node), a.bytes, end - begin);
  return error;
}

}  // namespace

namespace {

/// Have its sums yet to become exact?
bool to_be_exact(const TeamState& s, const Call& c) { return s.reproducible() == Reproducible::exact && c.op && c.terms == 0; }

Call exact(const TeamState& s, Call c) {
  c.terms = s.team().size();
  return c;
}

/// Bytes of accumulators that a blocking call works on at a time: they stay in a cache.
constexpr uint64_t kPiece = uint64_t{128} << 10;

/// Elements of a piece; 0: the call runs as one. Between groups not all ranks know how many elements there are.
uint64_t piece_of(const TeamState& s, const Call& c) {
  const type::Datatype &type = reduced_type(c), &working = working_type(c);
  return s.groups() || &working == &type ? 0 : kPiece / working.size;
}

std::byte* moved(const void* address, int64_t bytes) {
  return address ? static_cast<std::byte*>(const_cast<void*>(address)) + bytes : nullptr;
}

/// A reduce-scatter of exact sums: of long blocks as several, of a piece of each block, put side by side. In place, a rank's result lies
/// over what pieces before it, and this one, have taken from the operand.
int scatter_exact(TeamState& s, const Call& c) {
  constexpr uint64_t kLeast = 16;  // elements of a block, however many ranks there are
  const uint64_t all = piece_of(s, c);
  if (all == 0) return run(s, c);
  const auto ranks = static_cast<size_t>(s.team().size());
  std::vector<uint64_t> blocks(ranks, c.out_count);
  for (size_t r = 0; c.out_counts && r < ranks; ++r) blocks[r] = static_cast<uint64_t>(c.out_counts[r]);
  const uint64_t piece = std::max(all / ranks, kLeast), longest = *std::ranges::max_element(blocks);
  if (longest <= piece) return run(s, c);
  const auto extent = static_cast<uint64_t>(reduced_type(c).extent);
  const auto* const from = static_cast<const std::byte*>(c.in_place ? c.out : c.in);
  std::vector<std::byte> side(piece * ranks * extent);
  std::vector<int64_t> counts(ranks);
  Call part = c;
  part.in = side.data();
  part.in_place = false;
  if (c.out_counts) part.out_counts = Counts(counts.data());
  for (uint64_t done = 0; done < longest; done += piece) {
    std::byte* end = side.data();
    uint64_t begin = 0;
    for (size_t r = 0; r < ranks; begin += blocks[r++]) {
      const uint64_t count = std::min(piece, blocks[r] - std::min(done, blocks[r]));
      counts[r] = static_cast<int64_t>(count);
      end = std::copy_n(from + (begin + done) * extent, count * extent, end);
    }
    part.out = moved(c.out, static_cast<int64_t>(done * extent));
    part.out_count = static_cast<uint64_t>(counts[static_cast<size_t>(s.team().rank())]);
    if (const int error = run(s, part)) return error;
  }
  return MPI_SUCCESS;
}

/// A call of exact sums: of many elements as several collectives.
int run_exact(TeamState& s, const Call& c) {
  if (pattern_of(c.what) == Pattern::reduce_scatter) return scatter_exact(s, c);
  const uint64_t count = reduced_count(c), piece = piece_of(s, c);
  if (piece == 0 || count <= piece) return run(s, c);
  for (uint64_t done = 0; done < count; done += piece) {
    const auto offset = static_cast<int64_t>(done) * reduced_type(c).extent;
    Call part = c;
    part.in = moved(c.in, offset);
    part.out = moved(c.out, offset);
    part.in_count = part.out_count = std::min(piece, count - done);
    if (const int error = run(s, part)) return error;
  }
  return MPI_SUCCESS;
}

}  // namespace

int run(TeamState& s, const Call& c) {
  if (const Agreed* a = s.like_latest(c)) {
    record(s, c, *a);
    return s.run_again(c, *a);
  }
  if (counts_nothing(s, c)) [[unlikely]]
    return MPI_SUCCESS;
  if (to_be_exact(s, c)) [[unlikely]]
    return run_exact(s, exact(s, c));
  if (const int error = refused(s, c)) return error;
  const Agreed a = agree(s, c);
  if (moves_nothing(a)) [[unlikely]]
    return MPI_SUCCESS;
  record(s, c, a);
  if (s.ledger()) [[unlikely]]
    return run_noted(s, c, a);
  bool node = false;
  return run_agreed(s, c, a, node);
}

int start(TeamState& s, const Call& c, pml::Request** request) {
  if (to_be_exact(s, c)) [[unlikely]]
    return start(s, exact(s, c), request);
  if (const int error = refused(s, c)) return error;
  const Agreed a = agree(s, c);
  record(s, c, a);
  const int tag = s.next_tag(TeamState::Form::nonblocking);  // whichever way it goes: who learns later of shared memory counts alike
  const TeamState::Way way = s.way_of(c, a);
  if (way == TeamState::Way::board) {
    *request = make_on_board(s.team(), s.node(), c, a, in_place_here(s, c));
  } else if (const int error = make_operation(s, c, a, tag, false, request)) {
    return error;
  }
  if (way == TeamState::Way::later) {
    s.note_later(c, a);
    *request = start_later(s, c, a, *request);
    return MPI_SUCCESS;
  }
  if (s.ledger()) [[unlikely]]
    s.ledger()->note(s.line_of(c, a, Ledger::Form::nonblocking, way == TeamState::Way::board), a.bytes, {});
  begin(**request);
  return MPI_SUCCESS;
}

int init(TeamState& s, const Call& c, pml::Request** request) {
  if (to_be_exact(s, c)) [[unlikely]]
    return init(s, exact(s, c), request);
  if (const int error = refused(s, c)) return error;
  const Agreed a = agree(s, c);
  if (s.ledger()) [[unlikely]]
    s.ledger()->note(s.line_of(c, a, Ledger::Form::persistent, false), a.bytes, {});
  return make_operation(s, c, a, s.next_tag(TeamState::Form::persistent), true, request);
}

}  // namespace weft::coll
