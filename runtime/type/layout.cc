#include "runtime/type/layout.h"

#include <algorithm>
#include <limits>

#include "runtime/type/walk.h"

namespace weft::type {
namespace {

using Wide = __int128;

bool fits(Wide value) { return value >= -std::numeric_limits<int64_t>::max() && value <= std::numeric_limits<int64_t>::max(); }

uint64_t saturating(unsigned __int128 value) {
  const auto most = std::numeric_limits<uint64_t>::max();
  return value > most ? most : static_cast<uint64_t>(value);
}

std::shared_ptr<Layout> node(Layout::Shape shape) {
  auto made = std::make_shared<Layout>();
  made->shape = shape;
  return made;
}

/// Collects every block of a layout.
struct Blocks {
  std::vector<Placed> found;
  std::byte* zero = reinterpret_cast<std::byte*>(uintptr_t{1} << 62);  // offsets relative to it never wrap
  bool run(std::byte* at, uint64_t bytes) {
    const int64_t offset = at - zero;
    if (!found.empty() && found.back().offset + static_cast<int64_t>(found.back().layout->size) == offset)
      found.back().layout = Layout::block(found.back().layout->size + bytes);
    else
      found.push_back({offset, !found.empty() && found.back().layout->size == bytes ? found.back().layout : Layout::block(bytes)});
    return true;
  }
  bool strided(std::byte* at, uint64_t count, int64_t stride, uint64_t bytes) {
    for (uint64_t i = 0; i < count; ++i) run(at + static_cast<int64_t>(i) * stride, bytes);
    return true;
  }
  bool grid(std::byte* at, uint64_t outer, int64_t outer_stride, uint64_t count, int64_t stride, uint64_t bytes) {
    for (uint64_t i = 0; i < outer; ++i) strided(at + static_cast<int64_t>(i) * outer_stride, count, stride, bytes);
    return true;
  }
  bool scattered(std::byte* at, const Layout& blocks, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) run(at + blocks.offsets[i], blocks.start(i + 1) - blocks.start(i));
    return true;
  }
};

void splice(const Placed& piece, std::vector<Placed>& into) {
  Blocks blocks;
  walk(*piece.layout, blocks.zero, 0, piece.layout->size, blocks);
  for (auto& block : blocks.found) into.push_back({piece.offset + block.offset, std::move(block.layout)});
}

/// Replaces pieces that are short lists or short loops by their parts.
std::vector<Placed> spliced(std::vector<Placed> pieces) {
  std::vector<Placed> out;
  out.reserve(pieces.size());
  for (auto& piece : pieces) {
    if (!piece.layout) continue;
    const Layout& l = *piece.layout;
    if (!l.is_block() && l.pieces <= 16 && pieces.size() < (1u << 20)) {
      splice(piece, out);
    } else if (l.shape == Layout::Shape::list && l.offsets.size() <= kSplice) {
      for (size_t i = 0; i < l.offsets.size(); ++i) out.push_back({piece.offset + l.offsets[i], l.children[i]});
    } else if (l.shape == Layout::Shape::blocks && l.offsets.size() <= kSplice) {
      splice(piece, out);
    } else {
      out.push_back(std::move(piece));
    }
  }
  return out;
}

void merge_neighbours(std::vector<Placed>& pieces) {
  size_t last = 0;
  uint64_t grown = 0;  // size of the block under way, if it grew
  auto finish = [&] {
    if (grown) pieces[last].layout = Layout::block(grown);
    grown = 0;
  };
  for (size_t i = 1; i < pieces.size(); ++i) {
    const uint64_t size = grown ? grown : pieces[last].layout->size;
    if (pieces[last].layout->is_block() && pieces[i].layout->is_block() &&
        pieces[last].offset + static_cast<int64_t>(size) == pieces[i].offset) {
      grown = size + pieces[i].layout->size;
      continue;
    }
    finish();
    if (++last != i) pieces[last] = std::move(pieces[i]);
  }
  finish();
  pieces.resize(last + 1);
}

/// Many short blocks of one length are copied faster than somewhat fewer ones of different lengths.
void merge_usefully(std::vector<Placed>& pieces) {
  constexpr uint64_t kShort = 64;
  const uint64_t unit = pieces[0].layout->size;
  if (pieces.size() < 16 || unit > kShort ||
      !std::all_of(pieces.begin(), pieces.end(), [&](auto& p) { return p.layout->is_block() && p.layout->size == unit; }))
    return merge_neighbours(pieces);
  auto merged = pieces;
  merge_neighbours(merged);
  const bool equal = std::all_of(merged.begin(), merged.end(), [&](auto& p) { return p.layout->size == merged[0].layout->size; });
  if (equal || merged.size() * 4 < pieces.size()) pieces = std::move(merged);
}

bool same(const LayoutPtr& a, const LayoutPtr& b) { return a == b || (a->is_block() && b->is_block() && a->size == b->size); }

bool regular(const std::vector<Placed>& pieces) {
  const Wide step = Wide(pieces[1].offset) - pieces[0].offset;
  for (size_t i = 1; i < pieces.size(); ++i)
    if (!same(pieces[i].layout, pieces[0].layout) || Wide(pieces[i].offset) - pieces[i - 1].offset != step) return false;
  return fits(step);
}

/// Fills bounds, sizes and depth of a list node; false if they overflow.
bool measure(Layout& list, const std::vector<Placed>& pieces) {
  Wide size = 0, low = 0, high = 0;
  unsigned __int128 blocks = 0;
  for (const auto& piece : pieces) {
    const Wide offset = Wide(piece.offset) - pieces[0].offset;
    low = std::min(low, offset + piece.layout->low);
    high = std::max(high, offset + piece.layout->high);
    size += piece.layout->size;
    blocks += piece.layout->pieces;
    list.depth = std::max(list.depth, piece.layout->depth + 1);
    if (!fits(offset) || !fits(low) || !fits(high) || !fits(size)) return false;
  }
  list.size = static_cast<uint64_t>(size);
  list.low = static_cast<int64_t>(low);
  list.high = static_cast<int64_t>(high);
  list.pieces = saturating(blocks);
  return true;
}

LayoutPtr make_list(const std::vector<Placed>& pieces) {
  const bool flat = std::all_of(pieces.begin(), pieces.end(), [](auto& p) { return p.layout->is_block(); });
  auto list = node(flat ? Layout::Shape::blocks : Layout::Shape::list);
  if (!measure(*list, pieces)) return nullptr;
  const bool equal = flat && std::all_of(pieces.begin(), pieces.end(), [&](auto& p) { return p.layout->size == pieces[0].layout->size; });
  if (equal) list->unit = pieces[0].layout->size;
  uint64_t start = 0;
  list->offsets.reserve(pieces.size());
  if (!equal) list->starts.reserve(pieces.size() + 1);
  if (!flat) list->children.reserve(pieces.size());
  for (const auto& piece : pieces) {
    list->offsets.push_back(piece.offset - pieces[0].offset);
    if (!equal) list->starts.push_back(start);
    if (!flat) list->children.push_back(piece.layout);
    start += piece.layout->size;
  }
  if (!equal) list->starts.push_back(start);
  return list;
}

/// Trades memory for depth where a nest would be walked too deep.
std::optional<Placed> bounded(Placed made) {
  if (made.layout->depth <= kMaxDepth) return made;
  if (made.layout->pieces > kMaxFlattened) return std::nullopt;
  std::vector<Placed> blocks;
  splice(made, blocks);
  return Layout::list(std::move(blocks));
}

}  // namespace

LayoutPtr Layout::block(uint64_t bytes) {
  auto made = node(Shape::block);
  made->size = bytes;
  made->high = static_cast<int64_t>(bytes);
  return made;
}

std::optional<Placed> Layout::loop(uint64_t count, int64_t stride, Placed body) {
  if (!count || !body.layout) return Placed{};
  if (count == 1) return body;
  const Layout& child = *body.layout;
  const Wide reach = Wide(stride) * (count - 1);
  const Wide size = Wide(child.size) * count;
  const Wide low = std::min<Wide>(0, reach) + child.low, high = std::max<Wide>(0, reach) + child.high;
  if (count > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) || !fits(reach) || !fits(size) || !fits(low) || !fits(high) ||
      !fits(low + body.offset) || !fits(high + body.offset))
    return std::nullopt;
  if (child.is_block() && stride == static_cast<int64_t>(child.size)) return Placed{body.offset, block(static_cast<uint64_t>(size))};
  auto made = node(Shape::loop);
  made->count = count;
  made->stride = stride;
  made->child = body.layout;
  if (child.shape == Shape::loop && Wide(child.stride) * child.count == stride) {
    made->count = count * child.count;  // no overflow: the size, a multiple of it, fits
    made->stride = child.stride;
    made->child = child.child;
  }
  made->size = static_cast<uint64_t>(size);
  made->low = static_cast<int64_t>(low);
  made->high = static_cast<int64_t>(high);
  made->pieces = saturating(static_cast<unsigned __int128>(made->child->pieces) * made->count);
  made->depth = made->child->depth + 1;
  return bounded({body.offset, made});
}

std::optional<Placed> Layout::list(std::vector<Placed> given) {
  auto pieces = spliced(std::move(given));
  if (pieces.empty()) return Placed{};
  merge_usefully(pieces);
  if (pieces.size() == 1) return pieces[0];
  if (regular(pieces)) return loop(pieces.size(), pieces[1].offset - pieces[0].offset, pieces[0]);
  auto made = make_list(pieces);
  if (!made || !fits(Wide(pieces[0].offset) + made->low) || !fits(Wide(pieces[0].offset) + made->high)) return std::nullopt;
  return bounded({pieces[0].offset, made});
}

size_t Layout::find(uint64_t position) const {
  if (unit) return position / unit;
  return static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), position) - starts.begin()) - 1;
}

}  // namespace weft::type
