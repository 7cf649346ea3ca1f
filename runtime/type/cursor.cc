#include "runtime/type/cursor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/base/copy.h"
#include "runtime/type/layout.h"
#include "runtime/type/walk.h"

namespace weft::type {
namespace {

/// Copies one block of 1..128 bytes with at most a handful of moves; longer ones by memcpy.
[[gnu::always_inline]] inline void copy_block(std::byte* to, const std::byte* from, uint64_t n) {
  auto ends = [&]<size_t w>(std::integral_constant<size_t, w>) {  // two overlapping moves cover w..2w bytes
    std::byte a[w], b[w];
    std::memcpy(a, from, w);
    std::memcpy(b, from + n - w, w);
    std::memcpy(to, a, w);
    std::memcpy(to + n - w, b, w);
  };
  if (n > 128) {
    std::memcpy(to, from, n);
  } else if (n > 64) {
    ends(std::integral_constant<size_t, 64>());
  } else if (n >= 32) {
    ends(std::integral_constant<size_t, 32>());
  } else if (n >= 16) {
    ends(std::integral_constant<size_t, 16>());
  } else if (n >= 8) {
    ends(std::integral_constant<size_t, 8>());
  } else if (n >= 4) {
    ends(std::integral_constant<size_t, 4>());
  } else if (n >= 2) {
    ends(std::integral_constant<size_t, 2>());
  } else if (n) {
    *to = *from;
  }
}

/// One block of more than 64 bytes from its begin to its end in small moves.
inline void copy_ascending(std::byte* to, const std::byte* from, uint64_t n) {
  for (uint64_t done = 0; done + 64 < n; done += 64) std::memcpy(to + done, from + done, 64);
  std::memcpy(to + n - 64, from + n - 64, 64);
}

/// How many blocks to write in a row where they crowd into few sets of the first cache, as distances of half a KiB to whole pages
/// make them do; 0: any number. The processor fetches the lines of stores that wait for their turn, up to a hundred blocks ahead,
/// and of those that share a set more than the cache holds throw each other out before they are written (docs/performance.md); not all do.
uint64_t crowd(uint64_t count, int64_t stride, uint64_t bytes) {
#ifdef __x86_64__
  constexpr uint64_t kPage = 4096, kSmall = 16, kLargest = 256, kLines = 8;
  const uint64_t distance = std::min(kPage, static_cast<uint64_t>(stride & -stride));
  if (bytes > kLargest || distance < kPage / kLines || count * distance <= kLines * kPage) return 0;
  if (distance == kPage && bytes > 128) return count;
  if (!crowds_wait) return 0;
  if (distance == kPage) return bytes > 64 ? 4 : 2;
  return bytes > kSmall ? 0 : std::min(kLines, 2 * kPage / distance);
#else
  return static_cast<void>(count), static_cast<void>(stride), static_cast<void>(bytes), 0;
#endif
}

/// Holds back what follows until what came before has been carried out up to the writing.
inline void pause_stores() {
#ifdef __x86_64__
  __builtin_ia32_lfence();
#endif
}

constexpr size_t kLine = 64;

/// Writes past the caches, without reading what is overwritten; `to` begins a cache line. streams_end() must follow.
inline void stream(std::byte* to, const std::byte* from, size_t bytes) {
#ifdef __x86_64__
  for (; bytes >= kLine; to += kLine, from += kLine, bytes -= kLine)
    for (size_t i = 0; i < kLine; i += 16) {
      using Words [[gnu::vector_size(16)]] = long long;
      Words words;
      std::memcpy(&words, from + i, sizeof words);
      __builtin_ia32_movntdq(reinterpret_cast<Words*>(to + i), words);
    }
#endif
  copy_block(to, from, bytes);
}
inline void streams_end() {
#ifdef __x86_64__
  __builtin_ia32_sfence();
#endif
}

/// Packed at once, so much would only sweep out what else lies in the caches. (What the system says of their sizes is of no use in virtual
/// machines.)
constexpr uint64_t kBeyondCaches = uint64_t{32} << 20;

/// Unpacked in so long blocks past the caches, nothing is read of what is overwritten but where a block's ends share a line; of shorter
/// ones too much is. No call for so little that waiting for the end of the streams would show.
constexpr uint64_t kStreamed = 384, kWorthStreams = uint64_t{32} << 10;

/// One such block.
[[gnu::noinline]] void stream_block(std::byte* to, const std::byte* from, size_t bytes) {
  const size_t head = -reinterpret_cast<uintptr_t>(to) % kLine;
  copy_block(to, from, head);
  stream(to + head, from + head, bytes - head);
}

/// Packed blocks of a KiB or some, of which so many come from behind the caches: how many blocks ahead to fetch. Processors foresee the
/// next lines within a block, but not the next block; longer ones are foreseen in time, and more is in flight of shorter ones anyway.
uint64_t blocks_ahead(uint64_t count, uint64_t bytes) {
  constexpr uint64_t kShortest = 768, kLongest = 8192, kAhead = 4096, kLeast = uint64_t{8} << 20;
  return bytes < kShortest || bytes > kLongest || count * bytes < kLeast ? 0 : std::max<uint64_t>(1, kAhead / bytes);
}
inline void fetch_soon(const std::byte* from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(from + i);
}

/// What is unpacked has mostly been written by another processor just now, and its lines come one after the other unless they are asked
/// for: so many bytes ahead (64 KiB in every other double between two cores of an Intel Granite Rapids: 15 and 9 us; 512 to 4096 do).
constexpr uint64_t kFetched = 2048;
constexpr uint64_t kMostFetched = 128;  // bytes of a block: of whole lines, and of longer blocks, many moves are under way at once

/// No list, in which it takes a search to go on, and blocks so small that one more copy within the first cache costs little.
bool loops_of_small_blocks(const Layout& layout) {
  return layout.is_block() ? layout.size <= kLine : layout.shape == Layout::Shape::loop && loops_of_small_blocks(*layout.child);
}

/// Blocks at distances, in more cache lines than the second cache holds: what comes from behind it comes sooner to many loads and stores at
/// once.
constexpr uint64_t kFarBlocks = 32768;

#ifdef __x86_64__
/// Packs every other block of n bytes, two vectors at a time; returns how many. Not the last ones: behind them is no memory to read.
template <size_t n>
uint64_t every_other(std::byte* to, const std::byte* from, uint64_t count) {
  using Floats [[gnu::vector_size(16)]] = float;
  constexpr uint64_t kEach = 16 / n;
  uint64_t i = 0;
  for (; i + 2 * kEach < count; i += 2 * kEach, from += 64, to += 32)
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      Floats a, b;
      std::memcpy(&a, from + 32 * k, 16);
      std::memcpy(&b, from + 32 * k + 16, 16);
      if constexpr (n == 4)
        a = __builtin_shufflevector(a, b, 0, 2, 4, 6);
      else
        a = __builtin_shufflevector(a, b, 0, 1, 4, 5);
      std::memcpy(to + 16 * k, &a, 16);
    }
  return i;
}
#endif

/// Calls `body` with the block length as a constant where it is one of `kLengths`, else with 0.
template <size_t... kLengths, class Body>
[[gnu::always_inline]] inline void by_length_of(uint64_t bytes, Body&& body) {
  const bool known = ((bytes == kLengths && (body(std::integral_constant<size_t, kLengths>()), true)) || ...);
  if (!known) body(std::integral_constant<size_t, 0>());
}

/// The same for the lengths that are worth a copy of the code: those of the basic types and of small vectors of them.
template <class Body>
[[gnu::always_inline]] inline void by_length(uint64_t bytes, Body&& body) {
  by_length_of<1, 2, 4, 8, 12, 16, 24, 32, 48, 64>(bytes, std::forward<Body>(body));
}

/// Copies between memory and a packed stream.
template <bool kPack>
struct Copier {
  std::byte* stream;
  const std::byte* fetches_until = nullptr;  ///< of later lines of it, while it is before this. Not when packing
  bool past_caches = false;                  ///< writes long blocks so; streams_end() must follow. Not when packing

  [[gnu::always_inline]] void one(std::byte* memory, uint64_t bytes) {
    if constexpr (kPack)
      copy_block(stream, memory, bytes);
    else if (bytes >= kStreamed && past_caches)
      stream_block(memory, stream, bytes);
    else
      copy_block(memory, stream, bytes);
    stream += bytes;
  }
  template <size_t n>
  [[gnu::always_inline]] void fixed(std::byte* memory, uint64_t bytes) {
    if constexpr (n == 0) {
      one(memory, bytes);
    } else {
      std::memcpy(kPack ? stream : memory, kPack ? memory : stream, n);
      stream += n;
    }
  }
  /// Are later lines of the stream to be asked for before blocks of such a length?
  template <size_t n>
  [[gnu::always_inline]] bool fetches(uint64_t bytes) const {
    return !kPack && stream < fetches_until && (n > 0 ? n <= kLine / 4 : bytes <= kMostFetched);
  }
  /// Before a block: asks for some; at small blocks where they begin a line.
  template <size_t n>
  [[gnu::always_inline]] void fetch(uint64_t bytes) const {
    if (stream >= fetches_until) return;
    if (n == 0)
      fetch_soon(stream + kFetched, bytes);
    else if (reinterpret_cast<uintptr_t>(stream) % kLine < n)
      __builtin_prefetch(stream + kFetched);
  }
  /// Before eight of them at once.
  template <size_t n>
  [[gnu::always_inline]] void fetch_eight() const {
    if (!kPack && stream < fetches_until) fetch_soon(stream + kFetched, 8 * n);
  }
  bool run(std::byte* memory, uint64_t bytes) {
    one(memory, bytes);
    return true;
  }
  bool strided(std::byte* memory, uint64_t count, int64_t stride, uint64_t bytes) { return grid(memory, 1, 0, count, stride, bytes); }
  bool grid(std::byte* memory, uint64_t outer, int64_t outer_stride, uint64_t count, int64_t stride, uint64_t bytes) {
    const uint64_t few = kPack ? 0 : crowd(count, stride, bytes);
    const bool far = outer * count > kFarBlocks;
    const uint64_t ahead = kPack ? blocks_ahead(outer * count, bytes) : 0;
    by_length(bytes, [&]<size_t n>(std::integral_constant<size_t, n>) {
      Copier local = *this;  // in registers: the stores below could alias *this
      for (uint64_t i = 0; i < outer; ++i) {
        std::byte* at = memory + static_cast<int64_t>(i) * outer_stride;
        if (ahead)
          local = fetching(local, at, count, stride, bytes, ahead);
        else if (few)
          local = far && n && n <= 16 ? far_crowded<n>(local, at, count, stride) : crowded<n>(local, at, count, stride, bytes, few);
        else
          local.template row<n>(at, count, stride, bytes, far);
      }
      *this = local;
    });
    return true;
  }
  template <size_t n>
  [[gnu::always_inline]] void row(std::byte* at, uint64_t count, int64_t stride, uint64_t bytes, bool far) {
    uint64_t i = 0;
#ifdef __x86_64__
    if constexpr (kPack && (n == 4 || n == 8))
      if (stride == 2 * static_cast<int64_t>(n))
        i = every_other<n>(stream, at, count), stream += i * n, at += static_cast<int64_t>(i) * stride;
#endif
    // A turn of the loop costs more than the move of what is in the cache. What is in the second one comes sooner to one load or store
    // than to eight that take turns, as processors tell from each one's addresses what it will need next.
    if (n && n <= 16 && (count <= 512 || std::abs(stride) <= 64 || far))
      for (; i + 8 <= count; i += 8) {
        fetch_eight<n>();
#pragma GCC unroll 8
        for (int k = 0; k < 8; ++k, at += stride) fixed<n>(at, bytes);
      }
    if (fetches<n>(bytes))
      for (; i < count; fixed<n>(at, bytes), ++i, at += stride) fetch<n>(bytes);
    for (; i < count; ++i, at += stride) fixed<n>(at, bytes);
  }
  static Copier fetching(Copier from, std::byte* at, uint64_t count, int64_t stride, uint64_t bytes, uint64_t ahead) {
    for (uint64_t i = 0; i < count; ++i, at += stride) {
      if (i + ahead < count) fetch_soon(at + static_cast<int64_t>(ahead) * stride, bytes);
      from.one(at, bytes);
    }
    return from;
  }
  /// Such rows that crowd as well.
  template <size_t n>
  static Copier far_crowded(Copier from, std::byte* at, uint64_t count, int64_t stride) {
    uint64_t i = 0;
    for (; i + 4 <= count; i += 4, pause_stores())
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k, at += stride) from.fixed<n>(at, n);
    for (; i < count; ++i, at += stride) from.fixed<n>(at, n);
    return from;
  }
  template <size_t n>
  static Copier crowded(Copier from, std::byte* at, uint64_t count, int64_t stride, uint64_t bytes, uint64_t few) {
    for (uint64_t done = 0; done < count; done += few) {
      for (uint64_t i = 0; i < std::min(few, count - done); ++i, at += stride) {
        if (n || bytes <= 64) {
          if (from.template fetches<n>(bytes)) from.template fetch<n>(bytes);
          from.fixed<n>(at, bytes);
        } else {
          copy_ascending(at, from.stream, bytes);
          from.stream += bytes;
        }
      }
      pause_stores();
    }
    return from;
  }
  bool scattered(std::byte* memory, const Layout& blocks, size_t first, size_t last) {
    const int64_t* offsets = blocks.offsets.data();
    Copier local = *this;
    if (blocks.unit) {
      by_length(blocks.unit, [&]<size_t n>(std::integral_constant<size_t, n>) {
        for (size_t i = first; i < last; ++i) {
          if (local.template fetches<n>(blocks.unit)) local.template fetch<n>(blocks.unit);
          local.template fixed<n>(memory + offsets[i], blocks.unit);
        }
      });
    } else {
      const uint64_t* starts = blocks.starts.data();
      for (size_t i = first; i < last; ++i) local.one(memory + offsets[i], starts[i + 1] - starts[i]);
    }
    *this = local;
    return true;
  }
  /// Arrays of small structures: member by member over a tile of elements, so that the inner loop has no branches.
  bool tiled(std::byte* memory, uint64_t rounds, int64_t stride, const Layout& blocks) {
    constexpr uint64_t kTile = 64, kMembers = 16;
    const size_t members = blocks.offsets.size();
    if (members > kMembers || rounds == 1) {
      for (uint64_t i = 0; i < rounds; ++i) scattered(memory + static_cast<int64_t>(i) * stride, blocks, 0, members);
      return true;
    }
    for (uint64_t done = 0; done < rounds; done += kTile) {
      const uint64_t some = std::min(kTile, rounds - done);
      for (size_t m = 0; m < members; ++m) {
        const uint64_t start = blocks.start(m), bytes = blocks.start(m + 1) - start;
        member(memory + static_cast<int64_t>(done) * stride + blocks.offsets[m], stride, stream + start, blocks.size, some, bytes);
      }
      stream += some * blocks.size;
    }
    return true;
  }
  static void member(std::byte* memory, int64_t stride, std::byte* packed, uint64_t step, uint64_t count, uint64_t bytes) {
    by_length(bytes, [&]<size_t n>(std::integral_constant<size_t, n>) {
      for (uint64_t i = 0; i < count; ++i, memory += stride, packed += step) Copier{packed}.template fixed<n>(memory, bytes);
    });
  }
};

/// Lists runs until the entries are used up.
struct Runs {
  std::span<iovec> out;
  size_t used = 0;
  uint64_t bytes = 0;

  bool run(std::byte* memory, uint64_t n) {
    if (used && static_cast<std::byte*>(out[used - 1].iov_base) + out[used - 1].iov_len == memory) {
      out[used - 1].iov_len += n;
    } else {
      if (used == out.size()) return false;
      out[used++] = {memory, n};
    }
    bytes += n;
    return true;
  }
  bool strided(std::byte* memory, uint64_t count, int64_t stride, uint64_t n) {
    for (uint64_t i = 0; i < count; ++i)
      if (!run(memory + static_cast<int64_t>(i) * stride, n)) return false;
    return true;
  }
  bool grid(std::byte* memory, uint64_t outer, int64_t outer_stride, uint64_t count, int64_t stride, uint64_t n) {
    for (uint64_t i = 0; i < outer; ++i)
      if (!strided(memory + static_cast<int64_t>(i) * outer_stride, count, stride, n)) return false;
    return true;
  }
  bool scattered(std::byte* memory, const Layout& blocks, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i)
      if (!run(memory + blocks.offsets[i], blocks.start(i + 1) - blocks.start(i))) return false;
    return true;
  }
};

}  // namespace

Cursor::Cursor(const void* address, uint64_t count, const Datatype& type)
    // the sum in integers: MPI_BOTTOM is null, and absolute displacements are added to it
    : base_(reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(address) + static_cast<uintptr_t>(type.origin))),
      total_(type.size * count) {
  if (!total_ || type.contiguous || (count == 1 && type.layout->is_block())) return;
  layout_ = type.layout.get();
  extent_ = type.extent;
}

size_t Cursor::pack(void* to, size_t n) {
  n = std::min<uint64_t>(n, left());
  if (!n) return 0;
  if (!layout_) {
    std::memcpy(to, data(), n);
  } else if (n >= kBeyondCaches && loops_of_small_blocks(*layout_)) {
    return pack_past_caches(to, n);
  } else {
    Copier<true> copier{static_cast<std::byte*>(to)};
    walk_loop(*layout_, extent_, base_, position_, position_ + n, copier);
  }
  position_ += n;
  return n;
}

size_t Cursor::pack_past_caches(void* to, size_t n) {
  n = std::min<uint64_t>(n, left());
  constexpr size_t kPiece = 4096;
  alignas(kLine) std::byte piece[kPiece];
  const auto pack_some = [&](std::byte* out, size_t bytes) {
    Copier<true> copier{out};
    walk_loop(*layout_, extent_, base_, position_, position_ + bytes, copier);
    position_ += bytes;
  };
  auto* out = static_cast<std::byte*>(to);
  const size_t head = std::min<size_t>(n, -reinterpret_cast<uintptr_t>(out) % kLine);
  if (head) pack_some(out, head);
  for (size_t done = head, some; done < n; done += some) {
    some = std::min(kPiece, n - done);
    pack_some(piece, some);
    stream(out + done, piece, some);
  }
  streams_end();
  return n;
}

size_t Cursor::unpack(const void* from, size_t n) {
  n = std::min<uint64_t>(n, left());
  if (!n) return 0;
  if (!layout_) {
    copy_received(data(), from, n);
  } else if (2 * total_ >= kBeyondCaches && n >= kWorthStreams) {  // as much is read as written
    return unpack_past_caches(from, n);
  } else {
    auto* const stream = const_cast<std::byte*>(static_cast<const std::byte*>(from));
    Copier<false> copier{stream, stream + (n > kFetched ? n - kFetched : 0)};
    walk_loop(*layout_, extent_, base_, position_, position_ + n, copier);
  }
  position_ += n;
  return n;
}

size_t Cursor::unpack_past_caches(const void* from, size_t n) {
  n = std::min<uint64_t>(n, left());
  Copier<false> copier{const_cast<std::byte*>(static_cast<const std::byte*>(from)), nullptr, true};
  walk_loop(*layout_, extent_, base_, position_, position_ + n, copier);
  streams_end();
  position_ += n;
  return n;
}

size_t Cursor::runs(std::span<iovec> out, size_t max_bytes) {
  const uint64_t n = std::min<uint64_t>(max_bytes, left());
  if (!n || out.empty()) return 0;
  if (!layout_) {
    out[0] = {data(), n};
    position_ += n;
    return 1;
  }
  Runs runs{out};
  walk_loop(*layout_, extent_, base_, position_, position_ + n, runs);
  position_ += runs.bytes;
  return runs.used;
}

}  // namespace weft::type
