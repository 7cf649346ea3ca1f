// The memory layout of a datatype as a small tree of loops over contiguous blocks, and walks over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace weft::type {

class Layout;
using LayoutPtr = std::shared_ptr<const Layout>;

/// A layout somewhere: its first byte (in type order) lies at `offset`. Without data, `layout` is null.
struct Placed {
  int64_t offset = 0;
  LayoutPtr layout;
};

/// One node of the tree. Immutable and shared. The first byte in type order always lies at offset 0, so that equal layouts at
/// different places share nodes and neighbours can be fused. Only the builders below make nodes, and they normalise:
/// contiguous runs are one block, nested loops that continue each other are one loop, lists of equal pieces at equal distances
/// are loops, short lists within lists are spliced in.
class Layout {
 public:
  enum class Shape : uint8_t {
    block,   ///< `size` contiguous bytes
    loop,    ///< `count` times `child`, `stride` bytes apart
    blocks,  ///< a list of contiguous blocks
    list,    ///< a list of other layouts
  };
  Shape shape = Shape::block;
  uint32_t depth = 0;               ///< nodes above the deepest block
  uint64_t size = 0;                ///< data bytes, never 0
  uint64_t pieces = 1;              ///< contiguous blocks in all, saturating
  int64_t low = 0;                  ///< lowest byte touched, relative to the first in type order
  int64_t high = 0;                 ///< one past the highest byte touched
  uint64_t count = 0;               // loop
  int64_t stride = 0;               // loop
  LayoutPtr child;                  // loop
  uint64_t unit = 0;                // blocks: the common length, 0 if they differ
  std::vector<int64_t> offsets;     // blocks, list: where each entry lies
  std::vector<uint64_t> starts;     // blocks of different lengths, list: data bytes before each entry, and the total at the end
  std::vector<LayoutPtr> children;  // list

  /// One run of `bytes` > 0.
  static LayoutPtr block(uint64_t bytes);
  /// `count` times `child`; nullopt if the bounds or the size do not fit into 63 bits.
  static std::optional<Placed> loop(uint64_t count, int64_t stride, Placed child);
  /// The pieces one after the other; those without data are dropped.
  static std::optional<Placed> list(std::vector<Placed> pieces);

  /// Index of the list entry that holds stream byte `position`, and where it starts.
  size_t find(uint64_t position) const;
  uint64_t start(size_t entry) const { return unit ? entry * unit : starts[entry]; }
  bool is_block() const { return shape == Shape::block; }
};

/// Longest list that is spliced into a list around it, and most pieces of a loop that are.
inline constexpr size_t kSplice = 64;
/// Nests deeper than this are flattened when made (or refused when that takes too much memory).
inline constexpr uint32_t kMaxDepth = 1024;
inline constexpr uint64_t kMaxFlattened = uint64_t{1} << 24;

}  // namespace weft::type
