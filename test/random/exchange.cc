// MPI_Sendrecv and its relatives: each rank sends to one and receives from one, or to nobody.
#include <algorithm>
#include <numeric>

#include "part.h"

namespace random_test {

namespace {

class Exchange : public Part {
 public:
  explicit Exchange(const Draw& draw);
  std::string text() const override;
  void begin(int round) override;
  void send(Pending& pending) override;
  void check() override;
  bool fence() const override { return wild_; }

 private:
  void pair_up(int side, Rng& rng);
  uint64_t key(int side, int source) const { return mix(mix(draw_.seed, uint64_t(round_)), 50 + uint64_t(1000 * side + source)); }
  int count(const Layout& layout) const { return int(units_ * unit_ / layout.patterns); }

  Draw draw_;
  Rng calls_;
  Pattern pattern_;
  int64_t unit_ = 1, units_ = 0;
  bool replace_ = false, wild_ = false, blocking_ = true;
  int source_ = MPI_PROC_NULL, dest_ = MPI_PROC_NULL;
  Layout out_, in_;
  Area sent_, received_;
  MPI_Status status_{};
  int round_ = 0;
};

Exchange::Exchange(const Draw& draw) : draw_(draw), calls_(draw.calls()) {
  Rng rng = draw.shared(), local = draw.local();
  pattern_ = draw_pattern(rng);
  unit_ = draw_unit(rng);
  units_ = draw_units(rng, pattern_.bytes() * unit_, 400000);
  replace_ = rng.chance(40);
  wild_ = rng.chance(30) && !draw.comm.exact;
  for (int side = 0; side < draw.comm.sides(); ++side) pair_up(side, rng);
  blocking_ = local.chance(60);
  out_ = draw_layout(local, pattern_, unit_);
  in_ = draw_layout(local, pattern_, unit_);
  sent_.reserve(out_, 0, count(out_));
  received_.reserve(in_, 0, count(in_));
}

/// Who of one side sends to whom.
void Exchange::pair_up(int side, Rng& rng) {
  const Comm& comm = draw_.comm;
  const int sources = comm.size_of(side), dests = comm.size_of(comm.other(side));
  std::vector<int> to(size_t(std::max(sources, dests)));
  std::iota(to.begin(), to.end(), 0);
  rng.shuffle(to);
  for (int source = 0; source < sources; ++source) {
    const int dest = to[size_t(source)];
    if (rng.chance(15) || dest >= dests) continue;
    if (side == comm.side && source == comm.rank) dest_ = dest;
    if (comm.other(side) == comm.side && dest == comm.rank) source_ = source;
  }
}

std::string Exchange::text() const {
  return std::string(blocking_ ? "sendrecv" : "isendrecv") + (replace_ ? "_replace" : "") + " of " + std::to_string(units_) + " " +
         pattern_.text() + " x" + std::to_string(unit_) + " to " + std::to_string(dest_) + " from " + std::to_string(source_) +
         (wild_ ? " (wild)" : "");
}

void Exchange::begin(int round) {
  round_ = round;
  sent_.open(key(5, 0));
  sent_.fill(out_, 0, count(out_), Content{key(draw_.comm.side, draw_.comm.rank)});
  received_.open(key(6, 0));
}

void Exchange::send(Pending& pending) {
  const int source = wild_ && source_ != MPI_PROC_NULL ? MPI_ANY_SOURCE : source_;
  const int tag = draw_.tag, expected = wild_ ? MPI_ANY_TAG : tag;
  const MPI_Comm comm = draw_.comm.handle;
  MPI_Request request = MPI_REQUEST_NULL;
  if (replace_ && blocking_) {
    ok(BOTH(MPI_Sendrecv_replace)(calls_, sent_.base(), count(out_), out_.type, dest_, tag, source, expected, comm, &status_));
  } else if (replace_) {
    ok(BOTH(MPI_Isendrecv_replace)(calls_, sent_.base(), count(out_), out_.type, dest_, tag, source, expected, comm, &request));
  } else if (blocking_) {
    ok(BOTH(MPI_Sendrecv)(calls_, sent_.base(), count(out_), out_.type, dest_, tag, received_.base(), count(in_), in_.type, source,
                          expected, comm, &status_));
  } else {
    ok(BOTH(MPI_Isendrecv)(calls_, sent_.base(), count(out_), out_.type, dest_, tag, received_.base(), count(in_), in_.type, source,
                           expected, comm, &request));
  }
  if (!blocking_) pending.add(request, [this](const MPI_Status& status) { status_ = status; });
}

void Exchange::check() {
  const bool some = source_ != MPI_PROC_NULL;
  const Layout& layout = replace_ ? out_ : in_;
  Area& area = replace_ ? sent_ : received_;
  if (some) area.expect(layout, 0, count(layout), Content{key(draw_.comm.other(draw_.comm.side), source_)});
  same(status_.MPI_SOURCE, source_, "source");
  same(status_.MPI_TAG, some ? draw_.tag : MPI_ANY_TAG, "tag");
  same(count_of(calls_, status_, layout.type), some ? count(layout) : 0, "count");
  sent_.check(replace_ ? "buffer " + out_.text : "send buffer");
  received_.check(replace_ ? "a buffer that was not used" : "receive buffer " + in_.text);
}

}  // namespace

std::unique_ptr<Part> draw_exchange(const Draw& draw) { return std::make_unique<Exchange>(draw); }

}  // namespace random_test
