// Neighbourhood collectives, in all modes, on all topologies.
#include <map>

#include "blocks.h"
#include "collective.h"

namespace random_test {

namespace {

enum class Kind { allgather, allgatherv, alltoall, alltoallv, alltoallw };
constexpr const char* names[] = {"allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"};

/// An edge of the topology as both of its ends name it.
struct Edge {
  int source;  ///< MPI_PROC_NULL: there is nobody at the other end
  int label;
};

class Neighbors : public CollectivePart {
 public:
  explicit Neighbors(const Draw& draw);
  ~Neighbors() override { free_request(); }
  std::string text() const override;
  void begin(int round) override;
  void check() override;

 private:
  bool gathers() const { return kind_ == Kind::allgather || kind_ == Kind::allgatherv; }
  bool varying() const { return kind_ != Kind::allgather && kind_ != Kind::alltoall; }
  std::vector<Edge> edges(const std::vector<int>& ends, bool out) const;
  int64_t units(const Edge& edge) const;
  uint64_t key(const Edge& edge) const;
  void run(Mode mode, MPI_Request* request) override;

  Draw draw_;
  Kind kind_ = Kind::allgather;
  Pattern pattern_;
  int64_t unit_ = 1, most_ = 0;
  std::vector<Edge> outs_, ins_;
  Blocks out_, in_;
  int round_ = 0;
};

Neighbors::Neighbors(const Draw& draw) : CollectivePart(draw), draw_(draw) {
  Rng rng = draw.shared(), local = draw.local();
  kind_ = Kind(rng.below(5));
  mode_ = Mode(rng.below(3));
  pattern_ = draw_pattern(rng);
  unit_ = draw_unit(rng);
  most_ = draw_units(rng, pattern_.bytes() * unit_, 60000);
  outs_ = edges(draw.comm.outs, true);
  ins_ = edges(draw.comm.ins, false);
  std::vector<int64_t> sent, received;
  for (const Edge& edge : outs_) sent.push_back(units(edge));
  if (gathers()) sent = {units({draw.comm.rank, 0})};
  for (const Edge& edge : ins_) received.push_back(units(edge));
  const Form form = kind_ == Kind::alltoallw ? Form::each : varying() ? Form::varying : Form::uniform;
  out_ = draw_blocks(local, pattern_, unit_, sent, gathers() ? Form::uniform : form);
  in_ = draw_blocks(local, pattern_, unit_, received, form);
  prepare();
}

/// Two ranks may have several edges. On a grid what is sent in one direction of a dimension arrives from the opposite one; elsewhere the
/// first edge to a rank is its first edge from there, and so on.
std::vector<Edge> Neighbors::edges(const std::vector<int>& ends, bool out) const {
  std::vector<Edge> all;
  std::map<int, int> seen;
  const int me = draw_.comm.rank;
  for (size_t slot = 0; slot < ends.size(); ++slot) {
    const int end = ends[slot];
    if (draw_.comm.topology == Topology::cart)
      all.push_back({end == MPI_PROC_NULL ? end : out ? me : end, int(out ? slot : slot ^ 1u)});
    else
      all.push_back({out ? me : end, (out ? end : me) * 100 + seen[end]++});
  }
  return all;
}

std::string Neighbors::text() const {
  return std::string(mode_text(mode_)) + " neighbor_" + names[int(kind_)] + " of up to " + std::to_string(most_) + " " + pattern_.text() +
         " x" + std::to_string(unit_) + " to " + std::to_string(outs_.size()) + " from " + std::to_string(ins_.size());
}

int64_t Neighbors::units(const Edge& edge) const {
  if (!varying()) return most_;
  Rng rng(mix(mix(draw_.seed, 3), uint64_t(edge.source) * 10000 + uint64_t(gathers() ? 0 : edge.label)));
  return rng.chance(20) ? 0 : rng.between(0, most_);
}

uint64_t Neighbors::key(const Edge& edge) const {
  return mix(mix(draw_.seed, uint64_t(round_)), uint64_t(edge.source) * 10000 + uint64_t(gathers() ? 0 : edge.label));
}

void Neighbors::begin(int round) {
  round_ = round;
  out_.area.open(key({draw_.comm.rank, 5000}));
  in_.area.open(key({draw_.comm.rank, 6000}));
  for (size_t i = 0; i < out_.counts.size(); ++i) {
    const Edge edge = gathers() ? Edge{draw_.comm.rank, 0} : outs_[i];
    out_.area.fill(out_.layout(i), out_.at(i), out_.counts[i], Content{key(edge)});
  }
}

void Neighbors::run(Mode mode, MPI_Request* request) {
  Blocks &o = out_, &i = in_;
  const MPI_Comm comm = draw_.comm.handle;
  void *const out = o.base(), *const in = i.base();
  const Counts &oc = o.count_list, &od = o.displacement_list, &ic = i.count_list, &id = i.displacement_list;
  switch (kind_) {
    case Kind::allgather:
      return call(mode, calls_, request, BOTH(MPI_Neighbor_allgather), BOTH(MPI_Ineighbor_allgather), BOTH(MPI_Neighbor_allgather_init),
                  out, o.count(), o.type(), in, int(most_ * unit_ / i.layouts[0].patterns), i.type(), comm);
    case Kind::allgatherv:
      return call(mode, calls_, request, BOTH(MPI_Neighbor_allgatherv), BOTH(MPI_Ineighbor_allgatherv), BOTH(MPI_Neighbor_allgatherv_init),
                  out, o.count(), o.type(), in, ic, id, i.type(), comm);
    case Kind::alltoall:
      return call(mode, calls_, request, BOTH(MPI_Neighbor_alltoall), BOTH(MPI_Ineighbor_alltoall), BOTH(MPI_Neighbor_alltoall_init), out,
                  int(most_ * unit_ / o.layouts[0].patterns), o.type(), in, int(most_ * unit_ / i.layouts[0].patterns), i.type(), comm);
    case Kind::alltoallv:
      return call(mode, calls_, request, BOTH(MPI_Neighbor_alltoallv), BOTH(MPI_Ineighbor_alltoallv), BOTH(MPI_Neighbor_alltoallv_init),
                  out, oc, od, o.type(), in, ic, id, i.type(), comm);
    case Kind::alltoallw:
      return call(mode, calls_, request, BOTH(MPI_Neighbor_alltoallw), BOTH(MPI_Ineighbor_alltoallw), BOTH(MPI_Neighbor_alltoallw_init),
                  out, oc, od, o.types.data(), in, ic, id, i.types.data(), comm);
  }
}

void Neighbors::check() {
  for (size_t i = 0; i < ins_.size(); ++i) {
    if (ins_[i].source != MPI_PROC_NULL) in_.area.expect(in_.layout(i), in_.at(i), in_.counts[i], Content{key(ins_[i])});
  }
  out_.area.check("send buffer of layout " + out_.text());
  in_.area.check("receive buffer of layout " + in_.text());
}

}  // namespace

std::unique_ptr<Part> draw_neighbors(const Draw& draw) { return std::make_unique<Neighbors>(draw); }

}  // namespace random_test
