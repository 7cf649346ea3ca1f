// Collectives that move data, in all modes: blocks of random sizes and layouts, in place or not.
#include <algorithm>

#include "blocks.h"
#include "collective.h"

namespace random_test {

namespace {

enum class Kind { barrier, bcast, gather, gatherv, scatter, scatterv, allgather, allgatherv, alltoall, alltoallv, alltoallw };
constexpr int64_t kShort = 16;  // units of a short block
constexpr const char* names[] = {"barrier",   "bcast",      "gather",   "gatherv",   "scatter",  "scatterv",
                                 "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"};

class Movement : public CollectivePart {
 public:
  explicit Movement(const Draw& draw);
  ~Movement() override { free_request(); }
  std::string text() const override;
  void begin(int round) override;
  void check() override;

 private:
  bool rooted_to_root() const { return kind_ == Kind::gather || kind_ == Kind::gatherv; }
  bool rooted_from_root() const { return kind_ == Kind::scatter || kind_ == Kind::scatterv; }
  bool all_to_all() const { return kind_ >= Kind::alltoall; }
  bool varying() const {
    return kind_ == Kind::gatherv || kind_ == Kind::scatterv || kind_ == Kind::allgatherv || kind_ >= Kind::alltoallv;
  }
  Form form() const { return kind_ == Kind::alltoallw ? Form::each : varying() ? Form::varying : Form::uniform; }
  bool rooted() const { return kind_ == Kind::bcast || rooted_to_root() || rooted_from_root(); }
  bool root() const { return side_ == root_side_ && me_ == root_; }
  /// On the root's side of an inter-communicator, but not the root.
  bool idle() const { return rooted() && draw_.comm.inter() && side_ == root_side_ && !root(); }
  int root_argument() const { return !draw_.comm.inter() || side_ != root_side_ ? root_ : root() ? MPI_ROOT : MPI_PROC_NULL; }
  int64_t units(int side, int origin, int dest) const;
  uint64_t key(int side, int origin, int dest) const;
  std::vector<int64_t> sent() const;
  std::vector<int64_t> received() const;
  void run(Mode mode, MPI_Request* request) override;
  void run_rooted(Mode mode, MPI_Request* request);
  void run_unrooted(Mode mode, MPI_Request* request);

  Draw draw_;
  int me_, side_, far_, peers_;  ///< far: the side of those that this rank exchanges data with
  Kind kind_ = Kind::barrier;
  Pattern pattern_;
  int64_t unit_ = 1, most_ = 0;
  int root_ = 0, root_side_ = 0;
  bool in_place_ = false;
  Blocks out_, in_;
  int round_ = 0;
};

Movement::Movement(const Draw& draw)
    : CollectivePart(draw),
      draw_(draw),
      me_(draw.comm.rank),
      side_(draw.comm.side),
      far_(draw.comm.other(side_)),
      peers_(draw.comm.size_of(far_)) {
  Rng rng = draw.shared(), local = draw.local();
  kind_ = Kind(rng.below(11));
  mode_ = Mode(rng.below(3));
  pattern_ = draw_pattern(rng);
  unit_ = draw_unit(rng);
  most_ = draw_units(rng, pattern_.bytes() * unit_, kind_ == Kind::bcast ? 600000 : all_to_all() ? 30000 : 150000);
  root_side_ = int(rng.below(draw.comm.sides()));
  root_ = int(rng.below(draw.comm.size_of(root_side_)));
  in_place_ = kind_ != Kind::barrier && kind_ != Kind::bcast && rng.chance(30) && !draw.comm.inter();
  if (rooted()) in_place_ &= root();
  const std::vector<int64_t> out = sent(), in = received();
  if (!out.empty()) out_ = draw_blocks(local, pattern_, unit_, out, rooted_to_root() || kind_ == Kind::allgatherv ? Form::uniform : form());
  if (!in.empty()) in_ = draw_blocks(local, pattern_, unit_, in, rooted_from_root() ? Form::uniform : form());
  prepare();
}

std::string Movement::text() const {
  return std::string(mode_text(mode_)) + " " + names[int(kind_)] + " of up to " + std::to_string(most_) + " " + pattern_.text() + " x" +
         std::to_string(unit_) + ", root " + std::to_string(root_) + (in_place_ ? ", in place" : "");
}

/// Agreed by all ranks; where a block may have any size, sizes of 0 and short ones beside long ones are frequent. `side`: the origin's.
int64_t Movement::units(int side, int origin, int dest) const {
  if (!varying()) return most_;
  if (rooted_to_root() || kind_ == Kind::allgatherv) dest = 0;
  if (rooted_from_root()) origin = 0;
  if (all_to_all() && in_place_ && origin > dest) std::swap(origin, dest);
  Rng rng(mix(mix(draw_.seed, 3 + uint64_t(side)), uint64_t(origin * 1000 + dest)));
  if (rng.chance(20)) return 0;
  return rng.between(0, rng.chance(25) ? std::min<int64_t>(most_, kShort) : most_);
}

uint64_t Movement::key(int side, int origin, int dest) const {
  if (!all_to_all() && !rooted_from_root()) dest = 0;
  return mix(mix(mix(draw_.seed, uint64_t(side)), uint64_t(round_)), uint64_t(origin * 1000 + dest + 50));
}

/// Sizes of the blocks that this rank sends; none: its send buffer is not looked at.
std::vector<int64_t> Movement::sent() const {
  std::vector<int64_t> blocks;
  if (kind_ == Kind::barrier || kind_ == Kind::bcast || idle()) return blocks;
  if (rooted_from_root() && !root()) return blocks;
  if (rooted_to_root() && root() && draw_.comm.inter()) return blocks;
  if (in_place_ && !rooted_from_root()) return blocks;
  if (rooted_to_root() || kind_ == Kind::allgather || kind_ == Kind::allgatherv) return {units(side_, me_, root_)};
  for (int i = 0; i < peers_; ++i) blocks.push_back(units(side_, me_, i));
  return blocks;
}

std::vector<int64_t> Movement::received() const {
  std::vector<int64_t> blocks;
  if (kind_ == Kind::barrier || idle()) return blocks;
  if (kind_ == Kind::bcast) return {most_};
  if (rooted_from_root()) {
    const bool none = in_place_ || (root() && draw_.comm.inter());
    return none ? blocks : std::vector<int64_t>{units(root_side_, root_, me_)};
  }
  if (rooted_to_root() && !root()) return blocks;
  for (int i = 0; i < peers_; ++i) blocks.push_back(units(far_, i, me_));
  return blocks;
}

void Movement::begin(int round) {
  round_ = round;
  out_.area.open(key(side_, me_, 777));
  in_.area.open(key(side_, me_, 888));
  for (size_t i = 0; i < out_.counts.size(); ++i) {
    out_.area.fill(out_.layout(i), out_.at(i), out_.counts[i], Content{key(side_, me_, int(i))});
  }
  for (size_t i = 0; i < in_.counts.size(); ++i) {
    const bool own = kind_ == Kind::bcast ? root() : in_place_ && (all_to_all() || int(i) == me_);
    if (own) in_.area.fill(in_.layout(i), in_.at(i), in_.counts[i], Content{key(side_, me_, int(i))});
  }
}

void Movement::run_rooted(Mode mode, MPI_Request* request) {
  Blocks &o = out_, &i = in_;
  const MPI_Comm comm = draw_.comm.handle;
  const int root = root_argument();
  void* const out = in_place_ && rooted_to_root() ? MPI_IN_PLACE : o.base();
  void* const in = in_place_ && rooted_from_root() ? MPI_IN_PLACE : i.base();
  const Counts &oc = o.count_list, &od = o.displacement_list, &ic = i.count_list, &id = i.displacement_list;
  switch (kind_) {
    case Kind::bcast:
      return call(mode, calls_, request, BOTH(MPI_Bcast), BOTH(MPI_Ibcast), BOTH(MPI_Bcast_init), in, i.count(), i.type(), root, comm);
    case Kind::gather:
      return call(mode, calls_, request, BOTH(MPI_Gather), BOTH(MPI_Igather), BOTH(MPI_Gather_init), out, o.count(), o.type(), in,
                  i.count(), i.type(), root, comm);
    case Kind::gatherv:
      return call(mode, calls_, request, BOTH(MPI_Gatherv), BOTH(MPI_Igatherv), BOTH(MPI_Gatherv_init), out, o.count(), o.type(), in, ic,
                  id, i.type(), root, comm);
    case Kind::scatter:
      return call(mode, calls_, request, BOTH(MPI_Scatter), BOTH(MPI_Iscatter), BOTH(MPI_Scatter_init), out, o.count(), o.type(), in,
                  i.count(), i.type(), root, comm);
    default:
      return call(mode, calls_, request, BOTH(MPI_Scatterv), BOTH(MPI_Iscatterv), BOTH(MPI_Scatterv_init), out, oc, od, o.type(), in,
                  i.count(), i.type(), root, comm);
  }
}

void Movement::run_unrooted(Mode mode, MPI_Request* request) {
  Blocks &o = out_, &i = in_;
  const MPI_Comm comm = draw_.comm.handle;
  void* const out = in_place_ ? MPI_IN_PLACE : o.base();
  void* const in = i.base();
  const Counts &oc = o.count_list, &od = o.displacement_list, &ic = i.count_list, &id = i.displacement_list;
  const MPI_Datatype *ot = o.types.data(), *it = i.types.data();
  switch (kind_) {
    case Kind::barrier: return call(mode, calls_, request, Alone{MPI_Barrier}, Alone{MPI_Ibarrier}, Alone{MPI_Barrier_init}, comm);
    case Kind::allgather:
      return call(mode, calls_, request, BOTH(MPI_Allgather), BOTH(MPI_Iallgather), BOTH(MPI_Allgather_init), out, o.count(), o.type(), in,
                  i.count(), i.type(), comm);
    case Kind::allgatherv:
      return call(mode, calls_, request, BOTH(MPI_Allgatherv), BOTH(MPI_Iallgatherv), BOTH(MPI_Allgatherv_init), out, o.count(), o.type(),
                  in, ic, id, i.type(), comm);
    case Kind::alltoall:
      return call(mode, calls_, request, BOTH(MPI_Alltoall), BOTH(MPI_Ialltoall), BOTH(MPI_Alltoall_init), out, o.count(), o.type(), in,
                  i.count(), i.type(), comm);
    case Kind::alltoallv:
      return call(mode, calls_, request, BOTH(MPI_Alltoallv), BOTH(MPI_Ialltoallv), BOTH(MPI_Alltoallv_init), out, oc, od, o.type(), in, ic,
                  id, i.type(), comm);
    default:
      return call(mode, calls_, request, BOTH(MPI_Alltoallw), BOTH(MPI_Ialltoallw), BOTH(MPI_Alltoallw_init), out, oc, od, ot, in, ic, id,
                  it, comm);
  }
}

void Movement::run(Mode mode, MPI_Request* request) {
  if (kind_ == Kind::bcast || rooted_to_root() || rooted_from_root())
    run_rooted(mode, request);
  else
    run_unrooted(mode, request);
}

void Movement::check() {
  for (size_t i = 0; i < in_.counts.size(); ++i) {
    const bool from_root = kind_ == Kind::bcast || rooted_from_root();
    const uint64_t content = from_root ? key(root_side_, root_, me_) : key(far_, int(i), me_);
    in_.area.expect(in_.layout(i), in_.at(i), in_.counts[i], Content{content});
  }
  out_.area.check("send buffer of layout " + out_.text());
  in_.area.check("receive buffer of layout " + in_.text());
}

}  // namespace

std::unique_ptr<Part> draw_movement(const Draw& draw) { return std::make_unique<Movement>(draw); }

}  // namespace random_test
