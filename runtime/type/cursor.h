// A restartable walk over the bytes of (address, count, datatype), used by packing, fragments and scatter-gather.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/type/datatype.h"

namespace weft::type {

/// Walks the data bytes of `count` elements in type order. Its only state is the position: each call finds its place in the
/// layout again, which takes a few divisions (and one binary search in an indexed type), so seeking is free and copies of a
/// cursor are independent. The datatype must outlive the cursor (hold a reference).
class Cursor {
 public:
  Cursor() = default;
  Cursor(const void* address, uint64_t count, const Datatype& type);

  uint64_t total() const { return total_; }        ///< data bytes in all
  uint64_t position() const { return position_; }  ///< data bytes already walked
  uint64_t left() const { return total_ - position_; }
  bool contiguous() const { return layout_ == nullptr; }
  /// The rest as one run of memory; only if contiguous().
  std::byte* data() const { return base_ + position_; }

  /// Moves to byte `position` of the packed stream; past the end means the end.
  void seek(uint64_t position) { position_ = position < total_ ? position : total_; }
  /// Copies the next up to n bytes out of memory (send side) and advances; returns bytes copied.
  size_t pack(void* to, size_t n);
  /// The same for more than the caches hold, as pack() does by itself. Not if contiguous().
  size_t pack_past_caches(void* to, size_t n);
  /// Copies the next up to n bytes into memory (receive side) and advances; returns bytes copied.
  size_t unpack(const void* from, size_t n);
  /// The same for parts of more than the caches hold, as unpack() does by itself. Not if contiguous().
  size_t unpack_past_caches(const void* from, size_t n);
  /// Describes the next bytes (at most `max_bytes`) as memory runs, without copying, and advances past them.
  /// Neighbouring runs are merged. Returns the number of entries filled.
  size_t runs(std::span<iovec> out, size_t max_bytes);

 private:
  std::byte* base_ = nullptr;  // first data byte
  uint64_t total_ = 0;
  uint64_t position_ = 0;
  const Layout* layout_ = nullptr;  // null if contiguous
  int64_t extent_ = 0;
};

}  // namespace weft::type
