// Collectives that reduce, in all modes: every type and operation, in place or not, the order of ranks kept where it matters.
#include "collective.h"
#include "numbers.h"

namespace random_test {

namespace {

enum class Kind { reduce, allreduce, reduce_scatter_block, reduce_scatter, scan, exscan, local };
constexpr const char* names[] = {"reduce", "allreduce", "reduce_scatter_block", "reduce_scatter", "scan", "exscan", "reduce_local"};

class Reduction : public CollectivePart {
 public:
  explicit Reduction(const Draw& draw);
  ~Reduction() override { free_request(); }
  std::string text() const override;
  void begin(int round) override;
  void check() override;

 private:
  using Values = std::vector<char>;  ///< elements one after the other, each of the number's extent

  void make_layout(Rng& rng);
  int64_t total() const;
  Values values(int side, int rank) const;
  Values folded(int side, int first, int end) const;
  void draw_counts(Rng& rng);
  bool inter() const { return draw_.comm.inter(); }
  bool root() const { return me_ == root_ && draw_.comm.side == root_side_; }
  bool scattered() const { return kind_ == Kind::reduce_scatter_block || kind_ == Kind::reduce_scatter; }
  int root_argument() const { return !inter() || draw_.comm.side != root_side_ ? root_ : root() ? MPI_ROOT : MPI_PROC_NULL; }
  /// Whether there is data in the send buffer.
  bool reads() const { return !in_place_ && !(kind_ == Kind::reduce && inter() && draw_.comm.side == root_side_); }
  void fill(Area& area, const Values& values, bool both);
  void ignore_padding();
  void run(Mode mode, MPI_Request* request) override;
  int64_t in_count() const;
  int64_t first_of_mine() const;
  bool writes() const { return kind_ != Kind::reduce || root(); }

  Draw draw_;
  int me_, size_;
  Kind kind_ = Kind::reduce;
  const Number* number_ = nullptr;
  Op op_ = Op::sum;
  std::unique_ptr<Operation> operation_;
  Layout layout_;
  std::vector<int> counts_;  ///< per rank, where the result is scattered; else one
  Counts count_list_;        ///< the same as MPI takes it
  int root_ = 0, root_side_ = 0;
  bool in_place_ = false;
  Area out_, in_;
  int round_ = 0;
};

Reduction::Reduction(const Draw& draw) : CollectivePart(draw), draw_(draw), me_(draw.comm.rank), size_(draw.comm.size()) {
  Rng rng = draw.shared();
  static const std::vector<Kind> between_groups = {Kind::reduce, Kind::allreduce, Kind::reduce_scatter_block, Kind::reduce_scatter};
  kind_ = inter() ? rng.pick(between_groups) : Kind(rng.below(7));
  mode_ = kind_ == Kind::local ? Mode::blocking : Mode(rng.below(3));
  number_ = &draw_number(rng);
  op_ = rng.pick(number_->ops);
  operation_ = std::make_unique<Operation>(calls_, op_);
  root_side_ = int(rng.below(draw.comm.sides()));
  root_ = int(rng.below(draw.comm.size_of(root_side_)));
  in_place_ = kind_ != Kind::local && !inter() && rng.chance(30);
  if (kind_ == Kind::reduce) in_place_ &= root();
  draw_counts(rng);
  count_list_ = Counts(counts_);
  make_layout(rng);
  if (reads()) out_.reserve(layout_, 0, total());
  if (writes()) in_.reserve(layout_, 0, in_count());
  prepare();
}

/// Both sides of an inter-communicator scatter as many elements, each over its own group.
void Reduction::draw_counts(Rng& rng) {
  const int64_t count = draw_units(rng, number_->extent, scattered() ? 30000 : 150000);
  const int other = inter() ? int(draw_.comm.remote.size()) : 1;
  if (kind_ != Kind::reduce_scatter) {
    counts_.assign(scattered() ? size_t(size_) : 1, int(count) * (scattered() ? other : 1));
    return;
  }
  counts_.assign(size_t(size_), 0);
  Rng own(mix(draw_.seed, 40 + uint64_t(draw_.comm.side)));
  for (int64_t left = count * size_ * other, some = 0; left > 0; left -= some) {
    some = left < 3 ? left : own.between(1, left);
    counts_[size_t(own.below(size_))] += int(some);
  }
}

/// Predefined operations take predefined types only; the user's own may have room between elements.
void Reduction::make_layout(Rng& rng) {
  layout_.type = number_->type;
  layout_.map = number_->places;
  layout_.extent = number_->extent;
  layout_.text = number_->name;
  if (number_->type != MPI_DATATYPE_NULL) return;
  layout_.owned = true;
  ok(MPI_Type_contiguous(2, MPI_UINT32_T, &layout_.type));
  if (rng.chance(40)) {
    MPI_Datatype narrow = layout_.type;
    layout_.extent += 4 * rng.between(1, 3);
    ok(MPI_Type_create_resized(narrow, 0, layout_.extent, &layout_.type));
    ok(MPI_Type_free(&narrow));
  }
  ok(MPI_Type_commit(&layout_.type));
}

std::string Reduction::text() const {
  return std::string(mode_text(mode_)) + " " + names[int(kind_)] + " (" + operation_->text + ") of " + std::to_string(total()) + " " +
         number_->name + " of extent " + std::to_string(layout_.extent) + ", root " + std::to_string(root_) +
         (in_place_ ? ", in place" : "");
}

int64_t Reduction::total() const {
  int64_t sum = 0;
  for (int c : counts_) sum += c;
  return sum;
}

/// Elements in the receive buffer: all, if they are input as well.
int64_t Reduction::in_count() const { return in_place_ || counts_.size() == 1 ? total() : counts_[size_t(me_)]; }

int64_t Reduction::first_of_mine() const {
  int64_t first = 0;
  for (int i = 0; counts_.size() > 1 && i < me_; ++i) first += counts_[size_t(i)];
  return first;
}

Reduction::Values Reduction::values(int side, int rank) const {
  Values all(size_t(total() * number_->extent));
  const uint64_t key = mix(mix(draw_.seed, uint64_t(round_)), uint64_t(1000 * side + rank) + 50);
  for (int64_t i = 0; i < total(); ++i) number_->draw(op_, mix(key, uint64_t(i)), &all[size_t(i * number_->extent)]);
  return all;
}

/// What the ranks from `first` to before `end` give together.
Reduction::Values Reduction::folded(int side, int first, int end) const {
  Values sum = values(side, end - 1);
  for (int rank = end - 2; rank >= first; --rank) {
    const Values next = values(side, rank);
    for (int64_t i = 0; i < total(); ++i) number_->fold(op_, &next[size_t(i * number_->extent)], &sum[size_t(i * number_->extent)]);
  }
  return sum;
}

void Reduction::fill(Area& area, const Values& values, bool both) {
  const int64_t count = int64_t(values.size()) / number_->extent;
  const auto source = [&](int64_t index, int size, char* to) {
    const int64_t places = int64_t(number_->places.size());
    const Place& place = number_->places[size_t(index % places)];
    std::memcpy(to, &values[size_t(index / places * number_->extent + place.offset)], size_t(size));
  };
  if (both)
    area.fill(layout_, 0, count, source);
  else
    area.expect(layout_, 0, count, source);
}

void Reduction::begin(int round) {
  round_ = round;
  out_.open(mix(draw_.seed, 5));
  in_.open(mix(draw_.seed, 6));
  const Values mine = values(draw_.comm.side, me_);
  if (in_place_)
    fill(in_, mine, true);
  else if (reads())
    fill(out_, mine, true);
  if (kind_ == Kind::local) fill(in_, values(0, me_ + 1), true);
}

void Reduction::run(Mode mode, MPI_Request* request) {
  const MPI_Datatype type = layout_.type;
  const MPI_Op op = operation_->handle;
  const MPI_Comm comm = draw_.comm.handle;
  const int count = counts_[0];
  void* const out = in_place_ ? MPI_IN_PLACE : reads() ? out_.base() : nullptr;
  void* const in = writes() ? in_.base() : nullptr;
  switch (kind_) {
    case Kind::reduce:
      return call(mode, calls_, request, BOTH(MPI_Reduce), BOTH(MPI_Ireduce), BOTH(MPI_Reduce_init), out, in, count, type, op,
                  root_argument(), comm);
    case Kind::allreduce:
      return call(mode, calls_, request, BOTH(MPI_Allreduce), BOTH(MPI_Iallreduce), BOTH(MPI_Allreduce_init), out, in, count, type, op,
                  comm);
    case Kind::reduce_scatter_block:
      return call(mode, calls_, request, BOTH(MPI_Reduce_scatter_block), BOTH(MPI_Ireduce_scatter_block),
                  BOTH(MPI_Reduce_scatter_block_init), out, in, count, type, op, comm);
    case Kind::reduce_scatter:
      return call(mode, calls_, request, BOTH(MPI_Reduce_scatter), BOTH(MPI_Ireduce_scatter), BOTH(MPI_Reduce_scatter_init), out, in,
                  count_list_, type, op, comm);
    case Kind::scan:
      return call(mode, calls_, request, BOTH(MPI_Scan), BOTH(MPI_Iscan), BOTH(MPI_Scan_init), out, in, count, type, op, comm);
    case Kind::exscan:
      return call(mode, calls_, request, BOTH(MPI_Exscan), BOTH(MPI_Iexscan), BOTH(MPI_Exscan_init), out, in, count, type, op, comm);
    case Kind::local: return ok(BOTH(MPI_Reduce_local)(calls_, out, in, count, type, op));
  }
}

void Reduction::check() {
  out_.check("send buffer");
  if (!writes()) return;
  Values result;
  const int far = draw_.comm.other(draw_.comm.side);
  if (kind_ == Kind::local)
    result = folded(0, me_, me_ + 2);
  else if (kind_ == Kind::scan)
    result = folded(0, 0, me_ + 1);
  else if (kind_ == Kind::exscan)
    result = me_ > 0 ? folded(0, 0, me_) : Values();
  else
    result = folded(far, 0, draw_.comm.size_of(far));
  const auto begin = result.begin() + std::ptrdiff_t(first_of_mine() * number_->extent);
  const int64_t mine = counts_.size() > 1 ? counts_[size_t(me_)] : total();
  if (kind_ == Kind::exscan && me_ == 0)
    in_.ignore(0, mine * layout_.extent);  // undefined
  else
    fill(in_, Values(begin, begin + std::ptrdiff_t(mine * number_->extent)), false);
  if (in_place_ && counts_.size() > 1) in_.ignore(mine * layout_.extent, (total() - mine) * layout_.extent);
  ignore_padding();
  in_.check("receive buffer");
}

/// What lies between the values of a predefined type; gaps of a user's type have to stay as they are.
void Reduction::ignore_padding() {
  for (int64_t i = 0; number_->type != MPI_DATATYPE_NULL && i < in_count(); ++i) {
    for (size_t p = 0; p < number_->places.size(); ++p) {
      const int64_t from = number_->places[p].offset + number_->places[p].size;
      const int64_t to = p + 1 < number_->places.size() ? number_->places[p + 1].offset : number_->extent;
      if (to > from) in_.ignore(i * number_->extent + from, to - from);
    }
  }
}

}  // namespace

std::unique_ptr<Part> draw_reduction(const Draw& draw) { return std::make_unique<Reduction>(draw); }

}  // namespace random_test
