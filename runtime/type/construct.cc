#include "runtime/type/construct.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

#include "include/mpi.h"
#include "runtime/base/error.h"
#include "runtime/type/layout.h"
#include "runtime/type/pool.h"
#include "runtime/type/signature.h"

namespace weft::type {
namespace {

using Wide = __int128;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

bool fits(Wide value) { return value >= -kMost && value <= kMost; }

int too_large() { return fail(MPI_ERR_VALUE_TOO_LARGE, "the datatype would span more than 2^63 bytes of data or address space"); }

/// A type map under construction: what a Datatype says of itself, without the object.
struct Map {
  Placed place;
  SignaturePtr signature;
  Wide lower = 0, upper = 0;            // lb, ub
  Wide true_lower = 0, true_upper = 0;  // of the data; meaningless without data
  bool lower_marked = false, upper_marked = false;
  bool present = false;  // has entries in its type map, or marks
  uint8_t alignment = 1;
  Basic basic = Basic::none;
  uint64_t basic_count = 0;

  uint64_t size() const { return place.layout ? place.layout->size : 0; }
  Wide extent() const { return upper - lower; }
};

Map map_of(const Datatype& type) {
  Map map;
  map.place = {type.origin, type.layout};
  map.signature = type.signature;
  map.lower = type.lower;
  map.upper = Wide(type.lower) + type.extent;
  map.true_lower = type.true_lower;
  map.true_upper = Wide(type.true_lower) + type.true_extent;
  map.lower_marked = type.lower_marked;
  map.upper_marked = type.upper_marked;
  map.present = type.size || type.lower_marked || type.upper_marked;
  map.alignment = type.alignment;
  map.basic = type.basic;
  map.basic_count = type.basic_count;
  return map;
}

/// `count` copies of a map, `stride` bytes apart.
std::optional<Map> repeat(Map map, uint64_t count, Wide stride) {
  if (count == 0 || !map.present) return Map{};
  const Wide reach = count > static_cast<uint64_t>(kMost) ? Wide(kMost) * 2 : stride * (count - 1);
  if (!fits(stride) || !fits(reach)) return std::nullopt;
  for (Wide* low : {&map.lower, &map.true_lower}) *low += std::min<Wide>(reach, 0);
  for (Wide* high : {&map.upper, &map.true_upper}) *high += std::max<Wide>(reach, 0);
  const auto place = Layout::loop(count, static_cast<int64_t>(stride), map.place);
  if (!place || !fits(map.lower) || !fits(map.upper) || !fits(map.extent())) return std::nullopt;
  map.place = *place;
  map.signature = Signature::repeat(count, map.signature);
  map.basic_count *= count;
  return map;
}

/// Collects maps at displacements into one.
class Gathering {
 public:
  void reserve(size_t n) { pieces_.reserve(n), parts_.reserve(n); }

  bool add(const Map& map, Wide at) {
    if (!map.present) return true;
    if (!fits(at) || !fits(at + map.lower) || !fits(at + map.upper) || !fits(at + map.place.offset)) return false;
    bound(lower_, lower_marked_, at + map.lower, map.lower_marked, [](Wide a, Wide b) { return a < b; });
    bound(upper_, upper_marked_, at + map.upper, map.upper_marked, [](Wide a, Wide b) { return a > b; });
    alignment_ = std::max(alignment_, map.alignment);
    any_ = true;
    if (!map.place.layout) return true;
    if (!fits(at + map.true_lower) || !fits(at + map.true_upper)) return false;
    true_lower_ = pieces_.empty() ? at + map.true_lower : std::min(true_lower_, at + map.true_lower);
    true_upper_ = pieces_.empty() ? at + map.true_upper : std::max(true_upper_, at + map.true_upper);
    basic_ = pieces_.empty() || basic_ == map.basic ? map.basic : Basic::none;
    basic_count_ += map.basic_count;
    pieces_.push_back({static_cast<int64_t>(at + map.place.offset), map.place.layout});
    if (!parts_.empty() && parts_.back().second == map.signature)
      ++parts_.back().first;
    else
      parts_.emplace_back(1, map.signature);
    return true;
  }

  std::optional<Map> finish(bool pad) && {
    Map map;
    if (!any_) return map;
    const auto place = Layout::list(std::move(pieces_));
    if (!place) return std::nullopt;
    map.place = *place;
    map.signature = Signature::sequence(parts_);
    map.present = true;
    map.lower = lower_, map.upper = upper_;
    map.true_lower = true_lower_, map.true_upper = true_upper_;
    map.lower_marked = lower_marked_, map.upper_marked = upper_marked_;
    map.alignment = alignment_;
    map.basic = basic_, map.basic_count = basic_count_;
    // the epsilon of the standard: as a compiler would pad the structure
    if (pad && !upper_marked_)
      if (const Wide over = map.extent() % alignment_; over > 0) map.upper += alignment_ - over;
    if (!fits(map.upper) || !fits(map.extent())) return std::nullopt;
    return map;
  }

 private:
  /// Marked bounds count before unmarked ones.
  template <class Better>
  void bound(Wide& best, bool& marked, Wide value, bool value_marked, Better better) {
    if (any_ && marked && !value_marked) return;
    if (!any_ || (value_marked && !marked) || better(value, best)) best = value;
    marked = marked || value_marked;
  }

  std::vector<Placed> pieces_;
  std::vector<std::pair<uint64_t, SignaturePtr>> parts_;
  Wide lower_ = 0, upper_ = 0, true_lower_ = 0, true_upper_ = 0;
  bool lower_marked_ = false, upper_marked_ = false, any_ = false;
  uint8_t alignment_ = 1;
  Basic basic_ = Basic::none;
  uint64_t basic_count_ = 0;
};

/// Records the arguments of a constructor in the order of the standard.
class Recorder {
 public:
  Recorder(int combiner, Form form) : large_(form == Form::large) { envelope_->combiner = combiner; }
  Recorder& integer(int64_t value) { return envelope_->integers.push_back(static_cast<int>(value)), *this; }
  Recorder& count(int64_t value) { return large_ ? (envelope_->counts.push_back(value), *this) : integer(value); }
  Recorder& address(int64_t value) { return (large_ ? envelope_->counts : envelope_->addresses).push_back(value), *this; }
  template <class Values>
  Recorder& integers(const Values& values) {
    for (auto value : values) integer(value);
    return *this;
  }
  Recorder& counts(Counts values) {
    if (large_) return envelope_->counts.insert(envelope_->counts.end(), values.begin(), values.end()), *this;
    return integers(values);
  }
  Recorder& addresses(Counts values) {
    auto& to = large_ ? envelope_->counts : envelope_->addresses;
    return to.insert(to.end(), values.begin(), values.end()), *this;
  }
  Recorder& type(Datatype& old) { return envelope_->types.push_back(retain(&old)), *this; }
  std::shared_ptr<const Envelope> take() { return std::move(envelope_); }

 private:
  std::shared_ptr<Envelope> envelope_ = std::make_shared<Envelope>();
  bool large_;
};

int make(const std::optional<Map>& map, Recorder& recorder, Datatype*& made) {
  auto envelope = recorder.take();
  if (!map) {
    for (Datatype* old : envelope->types) release(old);
    return too_large();
  }
  Datatype& type = *pool().make();
  type.size = map->size();
  type.lower = static_cast<int64_t>(map->lower);
  type.extent = static_cast<int64_t>(map->extent());
  if (type.size) {
    type.true_lower = static_cast<int64_t>(map->true_lower);
    type.true_extent = static_cast<int64_t>(map->true_upper - map->true_lower);
    type.origin = map->place.offset;
    type.layout = map->place.layout;
    type.signature = map->signature;
    type.basic = map->basic;
    type.basic_count = map->basic == Basic::none ? map->signature->elements : map->basic_count;
    type.contiguous = type.layout->is_block() && type.extent == static_cast<int64_t>(type.size);
  } else {
    type.contiguous = type.extent == 0;
  }
  type.lower_marked = map->lower_marked;
  type.upper_marked = map->upper_marked;
  type.alignment = map->alignment;
  type.envelope = std::move(envelope);
  made = &type;
  return MPI_SUCCESS;
}

int check_count(int64_t count) {
  return count < 0 ? fail(MPI_ERR_COUNT, "count %lld is negative", static_cast<long long>(count)) : MPI_SUCCESS;
}
int check_length(int64_t length) {
  return length < 0 ? fail(MPI_ERR_ARG, "block length %lld is negative", static_cast<long long>(length)) : MPI_SUCCESS;
}
int check_lengths(Counts lengths, Counts displacements) {
  if (lengths.size() != displacements.size()) return fail(MPI_ERR_ARG, "as many block lengths as displacements are needed");
  for (int64_t length : lengths)
    if (int error = check_length(length)) return error;
  return MPI_SUCCESS;
}

std::optional<Map> strided_map(int64_t count, int64_t length, Wide stride, const Map& old) {
  auto block = repeat(old, static_cast<uint64_t>(length), old.extent());
  if (!block) return block;
  return repeat(*std::move(block), static_cast<uint64_t>(count), stride);
}

/// Blocks of `old` at displacements in units of `unit` bytes; length(i) tells how long block i is.
template <class Length>
std::optional<Map> indexed_map(Counts displacements, Length length, const Map& old, Wide unit) {
  Gathering all;
  all.reserve(displacements.size());
  std::unordered_map<int64_t, Map> blocks;  // few different lengths are the rule
  for (size_t i = 0; i < displacements.size(); ++i) {
    auto found = blocks.find(length(i));
    if (found == blocks.end()) {
      auto block = repeat(old, static_cast<uint64_t>(length(i)), old.extent());
      if (!block) return std::nullopt;
      found = blocks.emplace(length(i), *std::move(block)).first;
    }
    const Wide at = displacements[i] * unit;
    if (!fits(at) || !all.add(found->second, at)) return std::nullopt;
  }
  return std::move(all).finish(false);
}

/// Gives an array its bounds: all of the global array, whatever part of it is in the map.
std::optional<Map> part_of_array(const std::optional<Map>& part, Wide offset, Wide extent) {
  if (!part || !fits(offset) || !fits(extent)) return std::nullopt;
  Gathering all;
  if (!all.add(*part, offset)) return std::nullopt;
  auto map = std::move(all).finish(false);
  if (!map) return map;
  map->lower = 0, map->upper = extent;
  map->lower_marked = map->upper_marked = map->present = true;
  return map;
}

/// Visits dimensions from the fastest to the slowest.
template <class Visit>
bool by_order(size_t dimensions, int order, Visit visit) {
  for (size_t k = 0; k < dimensions; ++k)
    if (!visit(order == MPI_ORDER_FORTRAN ? k : dimensions - 1 - k)) return false;
  return true;
}

int check_order(int order) {
  if (order == MPI_ORDER_C || order == MPI_ORDER_FORTRAN) return MPI_SUCCESS;
  return fail(MPI_ERR_ARG, "order is %d, neither MPI_ORDER_C nor MPI_ORDER_FORTRAN", order);
}

/// This process's share of one dimension: `rounds` blocks of `block` indices, `period` apart, then `rest` more.
struct Share {
  int64_t start = 0, block = 0, rounds = 0, rest = 0;
  Wide period = 0;
};

Share share_of(const Distribution& d, size_t i, int coordinate) {
  const int64_t size = d.sizes[i];
  Share s;
  if (d.kinds[i] == MPI_DISTRIBUTE_CYCLIC) {
    s.block = d.arguments[i] == MPI_DISTRIBUTE_DFLT_DARG ? 1 : d.arguments[i];
    s.period = Wide(s.block) * d.grid[i];
  } else {
    s.block = size;
    if (d.kinds[i] == MPI_DISTRIBUTE_BLOCK)
      s.block = d.arguments[i] == MPI_DISTRIBUTE_DFLT_DARG ? (size + d.grid[i] - 1) / d.grid[i] : d.arguments[i];
    s.period = Wide(s.block) * d.grid[i];
  }
  const Wide start = Wide(s.block) * coordinate;
  if (start >= size) return Share{};
  s.start = static_cast<int64_t>(start);
  const Wide left = size - start;
  s.rounds = static_cast<int64_t>(left / s.period);
  const Wide tail = left % s.period;
  if (tail >= s.block)
    ++s.rounds;
  else
    s.rest = static_cast<int64_t>(tail);
  return s;
}

int check_dimension(const Distribution& d, size_t i) {
  const long long size = d.sizes[i];
  if (size < 1) return fail(MPI_ERR_ARG, "array_of_gsizes[%zu] is %lld", i, size);
  if (d.grid[i] < 1) return fail(MPI_ERR_ARG, "array_of_psizes[%zu] is %d", i, d.grid[i]);
  const int argument = d.arguments[i];
  switch (d.kinds[i]) {
    case MPI_DISTRIBUTE_NONE:
      if (d.grid[i] != 1)
        return fail(MPI_ERR_ARG, "array_of_distribs[%zu] is MPI_DISTRIBUTE_NONE, but array_of_psizes has %d processes there", i, d.grid[i]);
      return MPI_SUCCESS;
    case MPI_DISTRIBUTE_BLOCK:
      if (argument != MPI_DISTRIBUTE_DFLT_DARG && (argument < 1 || Wide(argument) * d.grid[i] < size))
        return fail(MPI_ERR_ARG, "array_of_dargs[%zu] is %d: %d processes with such blocks do not cover %lld elements", i, argument,
                    d.grid[i], size);
      return MPI_SUCCESS;
    case MPI_DISTRIBUTE_CYCLIC:
      if (argument != MPI_DISTRIBUTE_DFLT_DARG && argument < 1)
        return fail(MPI_ERR_ARG, "array_of_dargs[%zu] is %d, but blocks have 1 element or more", i, argument);
      return MPI_SUCCESS;
    default: return fail(MPI_ERR_ARG, "array_of_distribs[%zu] is %d, which is no MPI_DISTRIBUTE_* value", i, d.kinds[i]);
  }
}

int check(const Distribution& d) {
  const size_t n = d.sizes.size();
  if (!n || d.kinds.size() != n || d.arguments.size() != n || d.grid.size() != n)
    return fail(MPI_ERR_ARG, "at least one dimension is needed");
  if (d.processes < 1) return fail(MPI_ERR_ARG, "size is %d, but there is at least one process", d.processes);
  if (d.rank < 0 || d.rank >= d.processes) return fail(MPI_ERR_ARG, "rank is %d, outside 0..%d", d.rank, d.processes - 1);
  if (int error = check_order(d.order)) return error;
  Wide processes = 1;
  for (size_t i = 0; i < n; ++i) {
    if (int error = check_dimension(d, i)) return error;
    processes = std::min<Wide>(processes * d.grid[i], kMost);
  }
  if (processes != d.processes) return fail(MPI_ERR_ARG, "size is %d, but array_of_psizes is a grid of another size", d.processes);
  return MPI_SUCCESS;
}

std::optional<Map> darray_map(const Distribution& d, const Map& old) {
  const size_t n = d.sizes.size();
  std::vector<int> at(n);  // the process grid is row-major, whatever the order of the array
  for (size_t i = n, rank = static_cast<size_t>(d.rank); i-- > 0; rank /= d.grid[i]) at[i] = static_cast<int>(rank % d.grid[i]);
  std::optional<Map> map = old;
  Wide stride = old.extent(), offset = 0;
  const bool fine = by_order(n, d.order, [&](size_t i) {
    const Share s = share_of(d, i, at[i]);
    auto block = s.rounds ? repeat(*map, static_cast<uint64_t>(s.block), stride) : Map{};
    auto rest = repeat(*map, static_cast<uint64_t>(s.rest), stride);
    auto rounds = block ? repeat(*block, static_cast<uint64_t>(s.rounds), s.period * stride) : block;
    Gathering all;
    if (!rest || !rounds || !all.add(*rounds, 0) || (s.rest && !all.add(*rest, s.period * s.rounds * stride))) return false;
    map = std::move(all).finish(false);
    offset += s.start * stride;
    stride *= d.sizes[i];
    return map && fits(stride) && fits(offset);
  });
  return fine ? part_of_array(map, offset, stride) : std::nullopt;
}

}  // namespace

int contiguous(int64_t count, Datatype& old, Form form, Datatype*& made) {
  if (int error = check_count(count)) return error;
  const Map map = map_of(old);
  Recorder recorder(MPI_COMBINER_CONTIGUOUS, form);
  return make(repeat(map, static_cast<uint64_t>(count), map.extent()), recorder.count(count).type(old), made);
}

int vector(int64_t count, int64_t length, int64_t stride, Datatype& old, Form form, Datatype*& made) {
  if (int error = check_count(count)) return error;
  if (int error = check_length(length)) return error;
  const Map map = map_of(old);
  Recorder recorder(MPI_COMBINER_VECTOR, form);
  recorder.count(count).count(length).count(stride).type(old);
  return make(strided_map(count, length, stride * map.extent(), map), recorder, made);
}

int hvector(int64_t count, int64_t length, int64_t stride, Datatype& old, Form form, Datatype*& made) {
  if (int error = check_count(count)) return error;
  if (int error = check_length(length)) return error;
  Recorder recorder(MPI_COMBINER_HVECTOR, form);
  recorder.count(count).count(length).address(stride).type(old);
  return make(strided_map(count, length, stride, map_of(old)), recorder, made);
}

int indexed(Counts lengths, Counts displacements, Datatype& old, Form form, Datatype*& made) {
  if (int error = check_lengths(lengths, displacements)) return error;
  const Map map = map_of(old);
  Recorder recorder(MPI_COMBINER_INDEXED, form);
  recorder.count(static_cast<int64_t>(lengths.size())).counts(lengths).counts(displacements).type(old);
  return make(indexed_map(
                  displacements, [&](size_t i) { return lengths[i]; }, map, map.extent()),
              recorder, made);
}

int hindexed(Counts lengths, Counts displacements, Datatype& old, Form form, Datatype*& made) {
  if (int error = check_lengths(lengths, displacements)) return error;
  Recorder recorder(MPI_COMBINER_HINDEXED, form);
  recorder.count(static_cast<int64_t>(lengths.size())).counts(lengths).addresses(displacements).type(old);
  return make(indexed_map(
                  displacements, [&](size_t i) { return lengths[i]; }, map_of(old), 1),
              recorder, made);
}

int indexed_block(int64_t length, Counts displacements, Datatype& old, Form form, Datatype*& made) {
  if (int error = check_length(length)) return error;
  const Map map = map_of(old);
  Recorder recorder(MPI_COMBINER_INDEXED_BLOCK, form);
  recorder.count(static_cast<int64_t>(displacements.size())).count(length).counts(displacements).type(old);
  return make(indexed_map(
                  displacements, [&](size_t) { return length; }, map, map.extent()),
              recorder, made);
}

int hindexed_block(int64_t length, Counts displacements, Datatype& old, Form form, Datatype*& made) {
  if (int error = check_length(length)) return error;
  Recorder recorder(MPI_COMBINER_HINDEXED_BLOCK, form);
  recorder.count(static_cast<int64_t>(displacements.size())).count(length).addresses(displacements).type(old);
  return make(indexed_map(
                  displacements, [&](size_t) { return length; }, map_of(old), 1),
              recorder, made);
}

int structure(Counts lengths, Counts displacements, std::span<Datatype* const> olds, Form form, Datatype*& made) {
  if (int error = check_lengths(lengths, displacements)) return error;
  if (olds.size() != lengths.size()) return fail(MPI_ERR_ARG, "as many types as block lengths are needed");
  Recorder recorder(MPI_COMBINER_STRUCT, form);
  recorder.count(static_cast<int64_t>(lengths.size())).counts(lengths).addresses(displacements);
  for (Datatype* old : olds) recorder.type(*old);
  Gathering all;
  all.reserve(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    const Map old = map_of(*olds[i]);
    const auto block = repeat(old, static_cast<uint64_t>(lengths[i]), old.extent());
    if (!block || !all.add(*block, displacements[i])) return make(std::nullopt, recorder, made);
  }
  return make(std::move(all).finish(true), recorder, made);
}

int resized(Datatype& old, int64_t lower, int64_t extent, Form form, Datatype*& made) {
  Recorder recorder(MPI_COMBINER_RESIZED, form);
  recorder.address(lower).address(extent).type(old);
  Map map = map_of(old);
  map.lower = lower;
  map.upper = Wide(lower) + extent;
  map.lower_marked = map.upper_marked = map.present = true;
  return make(fits(map.upper) ? std::optional(map) : std::nullopt, recorder, made);
}

int subarray(Counts sizes, Counts subsizes, Counts starts, int order, Datatype& old, Form form, Datatype*& made) {
  const size_t n = sizes.size();
  if (!n || subsizes.size() != n || starts.size() != n) return fail(MPI_ERR_ARG, "at least one dimension is needed");
  if (int error = check_order(order)) return error;
  for (size_t i = 0; i < n; ++i)
    if (sizes[i] < 1 || subsizes[i] < 1 || subsizes[i] > sizes[i] || starts[i] < 0 || starts[i] > sizes[i] - subsizes[i])
      return fail(MPI_ERR_ARG, "array_of_subsizes[%zu] is %lld: as many elements from array_of_starts[%zu] = %lld do not lie within %lld",
                  i, static_cast<long long>(subsizes[i]), i, static_cast<long long>(starts[i]), static_cast<long long>(sizes[i]));
  Recorder recorder(MPI_COMBINER_SUBARRAY, form);
  recorder.integer(static_cast<int64_t>(n)).counts(sizes).counts(subsizes).counts(starts).integer(order).type(old);
  std::optional<Map> map = map_of(old);
  Wide stride = map->extent(), offset = 0;
  const bool fine = by_order(n, order, [&](size_t i) {
    map = repeat(*std::move(map), static_cast<uint64_t>(subsizes[i]), stride);
    offset += starts[i] * stride;
    stride *= sizes[i];
    return map && fits(stride) && fits(offset);
  });
  return make(fine ? part_of_array(map, offset, stride) : std::nullopt, recorder, made);
}

int darray(const Distribution& d, Datatype& old, Form form, Datatype*& made) {
  if (int error = check(d)) return error;
  Recorder recorder(MPI_COMBINER_DARRAY, form);
  recorder.integer(d.processes).integer(d.rank).integer(static_cast<int64_t>(d.sizes.size())).counts(d.sizes);
  recorder.integers(d.kinds).integers(d.arguments).integers(d.grid).integer(d.order).type(old);
  return make(darray_map(d, map_of(old)), recorder, made);
}

int duplicate(Datatype& old, Datatype*& made) {
  Recorder recorder(MPI_COMBINER_DUP, Form::small);
  if (int error = make(map_of(old), recorder.type(old), made)) return error;
  made->committed = old.committed;
  return MPI_SUCCESS;
}

Datatype* handed_out(Datatype& part) {
  if (part.predefined) return &part;
  Datatype& copy = *pool().make();
  copy.size = part.size;
  copy.extent = part.extent;
  copy.lower = part.lower;
  copy.true_lower = part.true_lower;
  copy.true_extent = part.true_extent;
  copy.origin = part.origin;
  copy.contiguous = part.contiguous;
  copy.committed = part.committed;
  copy.basic = part.basic;
  copy.basic_count = part.basic_count;
  copy.lower_marked = part.lower_marked;
  copy.upper_marked = part.upper_marked;
  copy.alignment = part.alignment;
  copy.layout = part.layout;
  copy.signature = part.signature;
  copy.envelope = part.envelope;
  for (Datatype* old : copy.envelope->types) retain(old);  // each object that holds the envelope holds its types
  copy.name = part.name;
  return &copy;
}

}  // namespace weft::type
