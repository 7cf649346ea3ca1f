// Recursive walk over a byte range of a layout, for any sink. Private to runtime/type.
#pragma once

#include <algorithm>
#include <cstring>

#include "runtime/type/layout.h"

namespace weft::type {

// A sink has
//   bool run(std::byte* memory, uint64_t bytes)                                              one contiguous run
//   bool strided(std::byte* memory, uint64_t count, int64_t stride, uint64_t bytes)           runs at equal distances
//   bool grid(std::byte* memory, uint64_t outer, int64_t outer_stride, uint64_t count, int64_t stride, uint64_t bytes)
//   bool scattered(std::byte* memory, const Layout& blocks, size_t first, size_t last)        whole entries of a `blocks` node
//   bool tiled(std::byte* memory, uint64_t rounds, int64_t stride, const Layout& blocks)      (optional) rounds of a `blocks` node
// each false to stop the walk.

template <class Sink>
bool walk(const Layout& node, std::byte* at, uint64_t from, uint64_t to, Sink& sink);

/// Whole rounds of a loop.
template <class Sink>
bool walk_rounds(const Layout& child, int64_t stride, uint64_t rounds, std::byte* at, Sink& sink) {
  if (child.is_block()) return sink.strided(at, rounds, stride, child.size);
  if (child.shape == Layout::Shape::loop && child.child->is_block())
    return sink.grid(at, rounds, stride, child.count, child.stride, child.child->size);
  if constexpr (requires { sink.tiled(at, rounds, stride, child); })
    if (child.shape == Layout::Shape::blocks) return sink.tiled(at, rounds, stride, child);
  for (uint64_t i = 0; i < rounds; ++i)
    if (!walk(child, at + static_cast<int64_t>(i) * stride, 0, child.size, sink)) return false;
  return true;
}

/// Stream bytes [from, to) of an endless loop over `child`.
template <class Sink>
bool walk_loop(const Layout& child, int64_t stride, std::byte* at, uint64_t from, uint64_t to, Sink& sink) {
  if (from == to) return true;
  const uint64_t size = child.size;
  uint64_t round = 0, inside = from;
  if (from >= size) round = from / size, inside = from % size;
  auto here = [&] { return at + static_cast<int64_t>(round) * stride; };
  if (inside) {
    const uint64_t end = std::min(size, inside + (to - from));
    if (!walk(child, here(), inside, end, sink)) return false;
    from += end - inside;
    ++round;
  }
  if (const uint64_t rounds = (to - from) / size) {
    if (!walk_rounds(child, stride, rounds, here(), sink)) return false;
    from += rounds * size;
    round += rounds;
  }
  return from == to || walk(child, here(), 0, to - from, sink);
}

template <class Sink>
bool walk_blocks(const Layout& node, std::byte* at, uint64_t from, uint64_t to, Sink& sink) {
  size_t entry = from ? node.find(from) : 0;
  if (const uint64_t start = node.start(entry); from > start) {
    const uint64_t end = std::min(node.start(entry + 1), to);
    if (!sink.run(at + node.offsets[entry] + (from - start), end - from)) return false;
    from = end;
    ++entry;
  }
  if (from == to) return true;
  const size_t last = to == node.size ? node.offsets.size() : node.find(to);
  if (last > entry && !sink.scattered(at, node, entry, last)) return false;
  const uint64_t rest = to - node.start(last);
  return !rest || sink.run(at + node.offsets[last], rest);
}

template <class Sink>
bool walk_list(const Layout& node, std::byte* at, uint64_t from, uint64_t to, Sink& sink) {
  for (size_t entry = from ? node.find(from) : 0; from < to; ++entry) {
    const uint64_t start = node.starts[entry], end = std::min(node.starts[entry + 1], to);
    if (!walk(*node.children[entry], at + node.offsets[entry], from - start, end - start, sink)) return false;
    from = end;
  }
  return true;
}

template <class Sink>
bool walk(const Layout& node, std::byte* at, uint64_t from, uint64_t to, Sink& sink) {
  switch (node.shape) {
    case Layout::Shape::block: return sink.run(at + from, to - from);
    case Layout::Shape::loop: return walk_loop(*node.child, node.stride, at, from, to, sink);
    case Layout::Shape::blocks: return walk_blocks(node, at, from, to, sink);
    case Layout::Shape::list: return walk_list(node, at, from, to, sink);
  }
  return true;
}

}  // namespace weft::type
