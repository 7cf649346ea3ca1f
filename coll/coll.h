// Collectives: the interface that comm and api use. One call description for all of them, run in three modes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "coll/neighborhood.h"
#include "pml/lane.h"
#include "runtime/op/op.h"
#include "runtime/type/datatype.h"

namespace weft::coll {

enum class Collective : uint8_t {
  barrier,
  bcast,
  gather,
  gatherv,
  scatter,
  scatterv,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  reduce,
  allreduce,
  reduce_scatter,
  reduce_scatter_block,
  scan,
  exscan,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw,
};

/// A view of an array of counts or displacements that the caller passed as int or as MPI_Count / MPI_Aint.
class Counts {
 public:
  Counts() = default;
  Counts(const int* narrow) : data_(narrow), wide_(false) {}
  Counts(const int64_t* wide) : data_(wide), wide_(true) {}
  int64_t operator[](size_t i) const { return wide_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int*>(data_)[i]; }
  explicit operator bool() const { return data_ != nullptr; }
  bool wide() const { return wide_; }
  const void* data() const { return data_; }

 private:
  const void* data_ = nullptr;
  bool wide_ = false;
};

/// The arguments of one collective call, as the caller of MPI gave them, handles decoded. Unused members stay empty.
/// Arrays are borrowed: a nonblocking or persistent call copies what it needs later before it returns.
///   bcast                               out, out_count, out_type
///   reduce, allreduce, scan, exscan     in, out; out_count elements of out_type
///   reduce_scatter(_block)              in, out; out_counts (out_count a rank) elements of out_type
///   scatter in place (root)             in_place set, out ignored
///   neighbor_...                        never in place
/// On inter-communicators the root is MPI_ROOT, MPI_PROC_NULL or a rank of the other group, and in_counts, out_counts and their like are
/// as long as the other group is large (reduce_scatter: the own one).
struct Call {
  Collective what = Collective::barrier;
  const void* in = nullptr;  ///< send buffer; ignored if `in_place`
  void* out = nullptr;       ///< receive buffer; bcast: the buffer
  bool in_place = false;
  bool united = false;  ///< on an inter-communicator: as among the members of both groups in one (pml::Team::united_members)
  uint64_t in_count = 0, out_count = 0;
  Counts in_counts, in_displs;  ///< v and w forms (w: displacements in bytes)
  Counts out_counts, out_displs;
  const type::Datatype* in_type = nullptr;
  const type::Datatype* out_type = nullptr;
  const type::Datatype* const* in_types = nullptr;  ///< w forms
  const type::Datatype* const* out_types = nullptr;
  const op::Op* op = nullptr;
  int root = 0;
  uint64_t terms = 0;  ///< numbers in each sum, if sums are to be exact; 0: they are not. Set by run(), start() and init()
  // neighbourhood collectives: into how many blocks the buffers are divided
  int32_t outdegree = 0;  ///< the send buffer of the all-to-all forms
  int32_t indegree = 0;   ///< the receive buffer
};

/// Which reductions give the same bits again (docs/collectives.md).
enum class Reproducible : uint8_t {
  no,     ///< whatever is fastest
  runs,   ///< those on as many ranks: in one order, which nothing but size, ranks and type decides
  exact,  ///< besides, sums of floating-point numbers on any ranks: they are exact, and rounded once
};

/// What coll keeps per team: cached plans, sequence numbers, shared-memory node segment. Owned by the communicator.
class TeamState;
struct TeamStateDeleter {
  void operator()(TeamState*) const;
};
using TeamStatePtr = std::unique_ptr<TeamState, TeamStateDeleter>;

class Ledger;

/// Cheap; communicates nothing (node segments are wired at first use). `ledger`: where all calls are noted; null: nowhere.
/// `neighborhood`: of the own rank; null: calls of the neighbourhood collectives are not to be made.
TeamStatePtr attach(pml::Team&, Ledger* ledger = nullptr, std::shared_ptr<const Neighborhood> neighborhood = nullptr);

/// Takes the words of the team's user (as WEFT_COLL; the same on all ranks), before which WEFT_COLL steps back. Empty: there are none.
/// Returns what of them cannot be understood. Not while a collective is under way.
std::string prefer(TeamState&, std::string_view words);

/// Takes the user's word for the team ("no", "runs", "exact"; the same on all ranks) instead of WEFT_COLL_REPRODUCIBLE. Empty: there is
/// none. False, and nothing changes, if it is none of these. Not while a collective is under way.
bool make_reproducible(TeamState&, std::string_view word);

/// Runs a collective to its end. Returns an MPI error class (text by fail()).
int run(TeamState&, const Call&);
/// Starts it; `*request` is the caller's reference.
int start(TeamState&, const Call&, pml::Request** request);
/// Persistent form: inactive until started.
int init(TeamState&, const Call&, pml::Request** request);

}  // namespace weft::coll
