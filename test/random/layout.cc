#include "layout.h"

#include <algorithm>
#include <array>
#include <complex>

#include "large.h"

namespace random_test {

namespace {

template <class T>
constexpr Basic basic(const char* name, MPI_Datatype type) {
  return {name, type, int(sizeof(T)), int(alignof(T))};
}

const std::vector<Basic>& basics() {
  static const std::vector<Basic> all = {basic<char>("CHAR", MPI_CHAR),
                                         basic<char>("BYTE", MPI_BYTE),
                                         basic<signed char>("SIGNED_CHAR", MPI_SIGNED_CHAR),
                                         basic<short>("SHORT", MPI_SHORT),
                                         basic<int>("INT", MPI_INT),
                                         basic<unsigned>("UNSIGNED", MPI_UNSIGNED),
                                         basic<long>("LONG", MPI_LONG),
                                         basic<long long>("LONG_LONG", MPI_LONG_LONG),
                                         basic<float>("FLOAT", MPI_FLOAT),
                                         basic<double>("DOUBLE", MPI_DOUBLE),
                                         basic<int16_t>("INT16_T", MPI_INT16_T),
                                         basic<uint32_t>("UINT32_T", MPI_UINT32_T),
                                         basic<int64_t>("INT64_T", MPI_INT64_T),
                                         basic<wchar_t>("WCHAR", MPI_WCHAR),
                                         basic<MPI_Aint>("AINT", MPI_AINT),
                                         basic<bool>("C_BOOL", MPI_C_BOOL)};
  return all;
}

int64_t round_up(int64_t value, int64_t unit) {
  const int64_t rest = ((value % unit) + unit) % unit;
  return rest == 0 ? value : value + unit - rest;
}

/// Elements of the old type one after the other.
struct Block {
  int64_t displacement;  ///< bytes
  int64_t length;        ///< elements
};

/// The model of every constructor: the old map, moved to each place.
Layout derive(const Layout& old, const std::vector<Block>& blocks, const std::string& text) {
  Layout made;
  made.text = text + "(" + old.text + ")";
  made.owned = true;
  made.patterns = 0;
  int64_t lb = INT64_MAX, ub = INT64_MIN;
  for (const Block& block : blocks) {
    for (int64_t i = 0; i < block.length; ++i) {
      const int64_t at = block.displacement + i * old.extent;
      for (const Place& place : old.map) made.map.push_back({place.offset + at, place.size});
      lb = std::min(lb, at + old.lb);
      ub = std::max(ub, at + old.lb + old.extent);
      made.patterns += old.patterns;
    }
  }
  made.lb = lb;
  made.extent = ub - lb;
  return made;
}

int64_t divisor(Rng& rng, int64_t n) {
  std::vector<int64_t> all;
  for (int64_t d = 1; d <= n; ++d) {
    if (n % d == 0) all.push_back(d);
  }
  return rng.pick(all);
}

Layout contiguous(Rng& rng, const Layout& old, int64_t n) {
  Layout made = derive(old, {{0, n}}, "contiguous " + std::to_string(n));
  ok(BOTH(MPI_Type_contiguous)(rng, n, old.type, &made.type));
  return made;
}

Layout resized(Rng& rng, const Layout& old, int64_t lb, int64_t extent) {
  Layout made = derive(old, {{0, 1}}, "resized " + std::to_string(lb) + " " + std::to_string(extent));
  made.lb = lb;
  made.extent = extent;
  ok(BOTH(MPI_Type_create_resized)(rng, old.type, lb, extent, &made.type));
  return made;
}

/// An extent that keeps elements apart, often with room between them.
Layout draw_resized(Rng& rng, const Layout& old, int alignment) {
  const int64_t lb = old.least() - alignment * rng.below(3);
  return resized(rng, old, lb, round_up(old.most() - lb, alignment) + alignment * rng.below(3));
}

Layout draw_vector(Rng& rng, const Layout& old, int64_t n, int alignment) {
  const int64_t length = divisor(rng, n), count = n / length;
  const int64_t stride = (length + rng.below(4)) * (rng.chance(20) ? -1 : 1);
  const bool bytes = rng.chance(50);
  const int64_t step = bytes ? stride * old.extent + (stride < 0 ? -1 : 1) * alignment * rng.below(3) : stride * old.extent;
  std::vector<Block> blocks;
  for (int64_t i = 0; i < count; ++i) blocks.push_back({i * step, length});
  Layout made = derive(
      old, blocks, (bytes ? "hvector " : "vector ") + std::to_string(count) + "x" + std::to_string(length) + " by " + std::to_string(step));
  if (bytes)
    ok(BOTH(MPI_Type_create_hvector)(rng, count, length, step, old.type, &made.type));
  else
    ok(BOTH(MPI_Type_vector)(rng, count, length, stride, old.type, &made.type));
  return made;
}

/// Blocks with room between them, in any order, some empty, at multiples of `unit` bytes.
std::vector<Block> draw_blocks(Rng& rng, const Layout& old, int64_t n, int64_t unit, int64_t equal) {
  std::vector<int64_t> lengths;
  for (int64_t left = n; left > 0; left -= lengths.back()) {
    if (!equal && rng.chance(10)) lengths.push_back(0);
    lengths.push_back(equal ? equal : rng.between(1, left));
  }
  std::vector<Block> blocks;
  int64_t cursor = -unit * rng.below(4);
  for (int64_t length : lengths) {
    const int64_t at = round_up(cursor - old.lb, unit);
    blocks.push_back({at, length});
    cursor = at + old.lb + length * old.extent + unit * rng.below(3);
  }
  std::vector<size_t> order(blocks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (rng.chance(60)) rng.shuffle(order);
  std::vector<Block> result;
  for (size_t i : order) result.push_back(blocks[i]);
  return result;
}

Layout draw_indexed(Rng& rng, const Layout& old, int64_t n, int alignment) {
  const bool bytes = rng.chance(50), equal = rng.chance(40);
  const int64_t length = equal ? divisor(rng, n) : 0;
  const std::vector<Block> blocks = draw_blocks(rng, old, n, bytes ? alignment : old.extent, length);
  std::vector<int64_t> lengths, places, displacements;
  for (const Block& block : blocks) {
    lengths.push_back(block.length);
    displacements.push_back(block.displacement);
    places.push_back(block.displacement / old.extent);
  }
  const int count = int(blocks.size());
  Layout made = derive(old, blocks, std::string(bytes ? "hindexed" : "indexed") + (equal ? "_block " : " ") + std::to_string(count));
  if (equal && bytes)
    ok(BOTH(MPI_Type_create_hindexed_block)(rng, count, length, Counts(displacements), old.type, &made.type));
  else if (equal)
    ok(BOTH(MPI_Type_create_indexed_block)(rng, count, length, Counts(places), old.type, &made.type));
  else if (bytes)
    ok(BOTH(MPI_Type_create_hindexed)(rng, count, Counts(lengths), Counts(displacements), old.type, &made.type));
  else
    ok(BOTH(MPI_Type_indexed)(rng, count, Counts(lengths), Counts(places), old.type, &made.type));
  return made;
}

Layout draw_subarray(Rng& rng, const Layout& old, int64_t n) {
  const bool fortran = rng.chance(50);
  std::vector<int> sizes(3), parts(3), starts(3);
  int64_t left = n;
  const int padded = int(rng.below(3));  // one dimension is wider than the part, lest extents explode
  for (int d = 0; d < 3; ++d) {
    parts[size_t(d)] = int(d == 2 ? left : divisor(rng, left));
    left /= parts[size_t(d)];
    if (d == padded) starts[size_t(d)] = int(rng.below(3));
    sizes[size_t(d)] = parts[size_t(d)] + starts[size_t(d)] + (d == padded ? int(rng.below(3)) : 0);
  }
  const size_t fast = fortran ? 0 : 2, slow = 2 - fast;
  std::vector<Block> blocks;
  for (int64_t s = 0; s < parts[slow]; ++s) {
    for (int64_t m = 0; m < parts[1]; ++m) {
      const int64_t at = ((starts[slow] + s) * sizes[1] + starts[1] + m) * sizes[fast] + starts[fast];
      blocks.push_back({at * old.extent, parts[fast]});
    }
  }
  Layout made =
      derive(old, blocks, "subarray " + std::to_string(parts[0]) + "x" + std::to_string(parts[1]) + "x" + std::to_string(parts[2]));
  made.lb = 0;  // whatever the old type's is
  made.extent = old.extent * sizes[0] * sizes[1] * sizes[2];
  ok(BOTH(MPI_Type_create_subarray)(rng, 3, Counts(sizes), Counts(parts), Counts(starts), fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C,
                                    old.type, &made.type));
  return old.lb == 0 ? std::move(made) : resized(rng, made, old.lb, made.extent);
}

/// Columns of a matrix, one beside the other: elements that interleave.
Layout draw_columns(Rng& rng, const Layout& old, int64_t n) {
  const int64_t columns = divisor(rng, n), rows = n / columns, width = columns + rng.below(3);
  std::vector<Block> column, matrix;
  for (int64_t i = 0; i < rows; ++i) column.push_back({i * width * old.extent, 1});
  Layout tall = derive(old, column, "column " + std::to_string(rows));
  ok(BOTH(MPI_Type_vector)(rng, rows, 1, width, old.type, &tall.type));
  const Layout one = resized(rng, tall, old.lb, old.extent);
  const Layout all = contiguous(rng, one, columns);
  return resized(rng, all, old.lb, old.extent * width * rows);
}

/// Another constructor around a layout; one that has much more room than data gets no more of it.
Layout draw_step(Rng& rng, const Layout& old, int64_t n, int alignment) {
  int64_t bytes = 0;
  for (const Place& place : old.map) bytes += place.size;
  if (old.extent > 4 * bytes + 64) return contiguous(rng, old, n);
  switch (rng.below(6)) {
    case 0: return contiguous(rng, old, n);
    case 1: return draw_vector(rng, old, n, alignment);
    case 2:
    case 3: return draw_indexed(rng, old, n, alignment);
    case 4: return draw_subarray(rng, old, n);
    default: return draw_columns(rng, old, n);
  }
}

/// A pattern as a struct: its parts in any order in memory.
Layout draw_struct(Rng& rng, const Pattern& pattern) {
  const size_t count = pattern.basics.size();
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = i;
  if (rng.chance(50)) rng.shuffle(order);
  std::vector<int64_t> displacements(count);
  std::vector<MPI_Datatype> types(count);
  const std::vector<int> lengths(count, 1);
  int64_t cursor = rng.chance(30) ? -pattern.alignment() * rng.between(1, 3) : 0;
  for (size_t i : order) {
    cursor = round_up(cursor, pattern.basics[i].alignment);
    displacements[i] = cursor;
    types[i] = pattern.basics[i].type;
    cursor += pattern.basics[i].size + (rng.chance(30) ? rng.below(9) : 0);
  }
  Layout made;
  made.owned = true;
  made.text = "struct " + pattern.text();
  for (size_t i = 0; i < count; ++i) made.map.push_back({displacements[i], pattern.basics[i].size});
  made.lb = made.least();
  made.extent = round_up(made.most() - made.lb, pattern.alignment());
  ok(BOTH(MPI_Type_create_struct)(rng, count, Counts(lengths), Counts(displacements), types.data(), &made.type));
  return made;
}

/// What MPI says of the type is what the model says.
void check_layout(Rng& rng, const Layout& layout) {
  Answer lb, extent, size;
  ok(BOTH(MPI_Type_get_extent)(rng, layout.type, lb, extent));
  same(lb, layout.lb, "lower bound of " + layout.text);
  same(extent, layout.extent, "extent of " + layout.text);
  ok(BOTH(MPI_Type_get_true_extent)(rng, layout.type, lb, extent));
  same(lb, layout.least(), "true lower bound of " + layout.text);
  same(extent, layout.most() - layout.least(), "true extent of " + layout.text);
  int64_t sum = 0;
  ok(BOTH(MPI_Type_size)(rng, layout.type, size));
  for (const Place& place : layout.map) sum += place.size;
  same(size, sum, "size of " + layout.text);
}

}  // namespace

int Pattern::alignment() const {
  int most = 1;
  for (const Basic& b : basics) most = std::max(most, b.alignment);
  return most;
}

int64_t Pattern::bytes() const {
  int64_t sum = 0;
  for (const Basic& b : basics) sum += b.size;
  return sum;
}

std::string Pattern::text() const {
  std::string all;
  for (const Basic& b : basics) all += (all.empty() ? "" : "+") + std::string(b.name);
  return all;
}

Pattern draw_pattern(Rng& rng) {
  Pattern pattern;
  const int64_t count = rng.chance(70) ? 1 : rng.between(2, 5);
  for (int64_t i = 0; i < count; ++i) pattern.basics.push_back(rng.pick(basics()));
  return pattern;
}

Layout& Layout::operator=(Layout&& o) noexcept {
  std::swap(type, o.type);
  std::swap(map, o.map);
  std::swap(lb, o.lb);
  std::swap(extent, o.extent);
  std::swap(patterns, o.patterns);
  std::swap(owned, o.owned);
  std::swap(text, o.text);
  return *this;
}

Layout::~Layout() {
  if (owned && type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
}

int64_t Layout::least() const {
  int64_t least = INT64_MAX;
  for (const Place& place : map) least = std::min(least, place.offset);
  return least;
}

int64_t Layout::most() const {
  int64_t most = INT64_MIN;
  for (const Place& place : map) most = std::max(most, place.offset + place.size);
  return most;
}

Layout plain_layout(const Basic& basic) {
  Layout made;
  made.type = basic.type;
  made.map = {{0, basic.size}};
  made.extent = basic.size;
  made.text = basic.name;
  return made;
}

Layout draw_layout(Rng& rng, const Pattern& pattern, int64_t unit) {
  Layout made = pattern.basics.size() == 1 ? plain_layout(pattern.basics[0]) : draw_struct(rng, pattern);
  for (int64_t left = rng.chance(30) ? 1 : divisor(rng, unit); left > 1;) {
    const int64_t n = divisor(rng, left);
    made = draw_step(rng, made, n, pattern.alignment());
    left /= n;
    if (n == 1 && rng.chance(50)) break;
  }
  if (rng.chance(15)) made = draw_resized(rng, made, pattern.alignment());
  if (rng.chance(10)) {
    Layout copy = derive(made, {{0, 1}}, "dup");
    copy.lb = made.lb;
    ok(MPI_Type_dup(made.type, &copy.type));
    made = std::move(copy);
  }
  if (made.owned) ok(MPI_Type_commit(&made.type));
  check_layout(rng, made);
  return made;
}

void Area::reserve(const Layout& layout, int64_t displacement, int64_t count) {
  if (count == 0) return;
  least_ = std::min(least_, displacement + layout.least());
  most_ = std::max(most_, displacement + (count - 1) * layout.extent + layout.most());
}

void Area::open(uint64_t noise) {
  const size_t size = size_t(most_ - least_ + 2 * guard);
  actual_.resize(size);
  ignored_.clear();
  uint64_t word = mix(noise, 77);
  for (size_t i = 0; i < size; ++i) {
    actual_[i] = char(word >> 56);
    word = word * 6364136223846793005u + 1442695040888963407u;
  }
  expected_ = actual_;
}

void Area::ignore(int64_t offset, int64_t size) { ignored_.push_back({guard - least_ + offset, int(size)}); }

void Area::check(const std::string& what) const {
  std::vector<char> expected = expected_;
  for (const Place& p : ignored_) std::copy_n(&actual_[size_t(p.offset)], p.size, &expected[size_t(p.offset)]);
  if (actual_ == expected) return;
  const auto [is, should] = std::mismatch(actual_.begin(), actual_.end(), expected.begin());
  int64_t wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) wrong += expected[i] != actual_[i];
  throw Failure(what + ": " + std::to_string(wrong) + " bytes differ, the first at " +
                std::to_string(is - actual_.begin() - guard + least_) + " (of " + std::to_string(least_) + ".." + std::to_string(most_) +
                "): " + std::to_string(int(uint8_t(*is))) + ", not " + std::to_string(int(uint8_t(*should))));
}

}  // namespace random_test
