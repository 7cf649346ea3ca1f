// A frame binds a schedule to one call: addresses, counts, types and scratch memory.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "coll/coll.h"
#include "coll/schedule.h"
#include "coll/view.h"
#include "pml/lane.h"

namespace weft::coll {

/// Memory that grows and is kept; aligned to cache lines.
class Scratch {
 public:
  ~Scratch() { std::free(data_); }
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  /// At least `bytes`; null if there is no memory. Invalidates what was there.
  std::byte* take(size_t bytes);
  /// Gives back what is beyond `bytes`.
  void trim(size_t bytes);

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Everything that running a schedule needs. Reused from call to call.
class Frame {
 public:
  /// Binds to a call that is there as long as the frame is used; `root` is a rank of the team, as `me` (-1: this rank takes no part).
  /// False if there is no memory (fail() has been called).
  bool bind(const Schedule&, const Call&, Rank root, Rank me, int32_t size);

  /// Before the first and after the last round: layouts that messages cannot use as they are.
  void prologue();
  void epilogue();

  /// The message of a send or receive step; `empty`: it carries nothing and is left out on both sides.
  struct Wire {
    pml::Buffer buffer;
    Rank peer;
    bool empty;
  };
  Wire wire(const Step&, int32_t k) const;
  /// A copy, reduce or combine step.
  void local(const Step&, int32_t k) const;

  const Schedule* schedule = nullptr;

  /// Copies the arrays, so long, that the caller may change after a nonblocking call has returned. Before bind().
  void keep_arrays(Call&, int32_t length);
  void trim(size_t bytes) { scratch_.trim(bytes); }

 private:
  static constexpr size_t kViews = first_region + kMostRegions;

  void bind_data(const Call&, bool root);
  void bind_bcast(const Call&, bool root);
  void bind_alltoall(const Call&);
  void bind_neighbors(const Call&);
  void bind_reduction(const Call&);
  void bind_reduce_scatter(const Call&);
  void widen();
  void sum(Counts counts, const type::Datatype* const* types, uint64_t unit);
  bool place_regions();
  int32_t block_of(const Place& p, int32_t k) const { return wrap(p.block + int64_t{k} * p.stride, schedule->blocks); }

  View views_[kViews];
  View region_cut_;  // how regions are cut, and the type of their elements
  const op::Op* op_ = nullptr;
  int32_t size_ = 1;
  // staging: packed copy of user memory
  enum class Stage : uint8_t { none, bcast_root, bcast_leaf, alltoall, wide };
  Stage stage_ = Stage::none;
  uint64_t stage_bytes_ = 0;
  uint64_t wide_in_ = 0, wide_out_ = 0;  // Stage::wide: elements to take before the first round, and to give after the last
  const Call* call_ = nullptr;
  std::vector<uint64_t> starts_;
  Scratch scratch_;
  std::vector<int64_t> kept_;
  std::vector<const type::Datatype*> kept_types_;
};

/// Which pattern a collective runs.
Pattern pattern_of(Collective);
/// How long the arrays of a call of v or w form are, where those that are not among neighbours have `size`.
inline int32_t in_blocks(const Call& c, int32_t size) { return c.what < Collective::neighbor_allgather ? size : c.outdegree; }
inline int32_t out_blocks(const Call& c, int32_t size) { return c.what < Collective::neighbor_allgather ? size : c.indegree; }
/// Of a reduction: elements and their type.
inline const type::Datatype& reduced_type(const Call& c) { return c.out_type ? *c.out_type : *c.in_type; }
/// The type in which it is computed: sums and products of 16-bit floats are rounded at the end only, unless the user wants it otherwise,
/// and exact sums are made in accumulators.
const type::Datatype& working_type(const Call&);
/// `count` elements to and from that type, where it is another one.
void widen(const Call&, const void* from, void* to, uint64_t count);
void narrow(const Call&, const void* from, void* to, uint64_t count);
inline uint64_t reduced_count(const Call& c) { return c.out_type ? c.out_count : c.in_count; }

}  // namespace weft::coll
