#include "coll/coll.h"

#include "coll/team_state.h"
#include "include/mpi.h"
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
    case Collective::exscan: return reduced_count(c) * reduced_type(c).size;
    case Collective::reduce_scatter: return total_bytes(c.out_counts, size, reduced_type(c));
    case Collective::reduce_scatter_block: return c.out_count * size * reduced_type(c).size;
    default: return 0;
  }
}

int refused(const TeamState& s, const Call& c) {
  if (s.team().inter()) return fail(MPI_ERR_UNSUPPORTED_OPERATION, "collectives on inter-communicators are not there yet");
  if (among_neighbors(pattern_of(c.what)) && !s.has_neighborhood())
    return fail(MPI_ERR_TOPOLOGY, "the communicator has no topology that says who the neighbours are (of MPI_Graph_create: with each edge named at both ends)");
  return MPI_SUCCESS;
}

/// Leaves the operation in the lane's ring.
void record(TeamState& s, const Call& c) {
  const pml::Team& team = s.team();
  const int root = rooted(pattern_of(c.what)) ? c.root : -1;
  const uint64_t bytes = agreed_bytes(c, team.size(), root == static_cast<int>(team.rank()));
  pml::Lane& lane = team.lane();
  lane.locked([&] {
    const int number = s.next_number();
    lane.ring().add(obs::What::collective, team.context(), root, number, bytes).detail = static_cast<uint8_t>(c.what);
  });
}

}  // namespace

Agreed agree(const TeamState& s, const Call& c) {
  const pml::Team& team = s.team();
  const Pattern pattern = pattern_of(c.what);
  Agreed a;
  a.pattern = pattern;
  a.size = static_cast<int32_t>(team.size());
  a.root = rooted(pattern) ? c.root : 0;
  a.bytes = agreed_bytes(c, team.size(), c.root == static_cast<int>(team.rank()));
  a.commutative = !c.op || c.op->commutative;
  a.uneven = c.what == Collective::gatherv || c.what == Collective::scatterv || c.what == Collective::allgatherv ||
             c.what == Collective::alltoallv || c.what == Collective::alltoallw || c.what == Collective::reduce_scatter ||
             among_neighbors(pattern);
  return a;
}

bool in_place_here(const TeamState& s, const Call& c) {
  const Pattern p = pattern_of(c.what);
  const bool only_root = p == Pattern::gather || p == Pattern::scatter || p == Pattern::reduce;
  return c.in_place && p != Pattern::alltoall && (!only_root || c.root == static_cast<int>(s.team().rank()));
}

void TeamStateDeleter::operator()(TeamState* s) const { delete s; }

TeamStatePtr attach(pml::Team& team, std::shared_ptr<const Neighborhood> neighborhood) {
  return TeamStatePtr(new TeamState(team, std::move(neighborhood)));
}

int TeamState::next_tag(Form form) {
  const int kind = static_cast<int>(form);
  return kind << kSequenceBits | static_cast<int>(sequences_[kind]++ & ((1U << kSequenceBits) - 1));
}

int TeamState::run_schedule(const Call& c, const Agreed& a) {
  const SchedulePtr& schedule = plans_.find(a, in_place_here(*this, c), static_cast<Rank>(team_.rank()));
  const int tag = next_tag(Form::blocking);
  if (!frame_.bind(*schedule, c, static_cast<int32_t>(team_.rank()), static_cast<int32_t>(team_.size()))) return MPI_ERR_NO_MEM;
  const int error = run_rounds(team_, tag, frame_, requests_);
  frame_.trim(kKeepScratch);
  return error;
}

int run(TeamState& s, const Call& c) {
  if (const int error = refused(s, c)) return error;
  record(s, c);
  const Agreed a = agree(s, c);
  int error = MPI_SUCCESS;
  if (s.try_node(c, a, error)) return error;
  return s.run_schedule(c, a);
}

int start(TeamState& s, const Call& c, pml::Request** request) {
  if (const int error = refused(s, c)) return error;
  record(s, c);
  return make_operation(s, c, false, request);
}

int init(TeamState& s, const Call& c, pml::Request** request) {
  if (const int error = refused(s, c)) return error;
  return make_operation(s, c, true, request);
}

}  // namespace weft::coll
