// A copy that two processes make together: who gets the data reads it from the front, and whose it is writes from the back.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/base/status.h"

namespace weft::btl::copy {

/// What both share of their copies, one after another; zeroed at first. The reader works a copy off as if it were alone; the owner of the
/// data takes part while it has nothing else to do. Each claims some of what is left, so that it does not matter when the owner comes, or
/// whether. All is copied by the kernel: addresses that make no sense are errors, whoever has written them here.
struct alignas(64) Joint {
  std::atomic<uint64_t> claims;    ///< number of the copy, units claimed from the front and from the back
  std::atomic<uint64_t> written;   ///< by the owner: number of the copy, whether it has failed, units
  std::atomic<uint64_t> from, to;  ///< the owner's and the reader's memory
  std::atomic<uint64_t> bytes;
  std::atomic<uint64_t> owner;  ///< whose the data is, where several look here
};

/// Bytes of a copy, from one offset on.
struct Part {
  uint64_t from = 0, bytes = 0;
  explicit operator bool() const { return bytes > 0; }
};

/// The reader's side.
class JointReader {
 public:
  static constexpr uint64_t kLeast = 64 << 10;  ///< bytes; shorter ones are over before the owner has come
  static constexpr uint64_t kMost = uint64_t{1} << 31;
  static constexpr bool fits(uint64_t bytes) { return bytes >= kLeast && bytes <= kMost; }

  explicit JointReader(Joint* joint = nullptr) : joint_(joint) {}
  /// Is there none under way? Only one is at a time.
  bool is_free() const { return joint_ && !open_; }
  /// Begins a copy of kLeast to kMost bytes, from the owner's memory to this process's.
  void open(uint64_t from, const std::byte* to, uint64_t bytes, uint64_t owner = 0);
  /// What to read next, up to about `most` bytes; nothing if all is claimed.
  Part claim(uint64_t most);
  /// Once all is claimed, has the owner written its part? `again`: not yet; `failed`: it cannot.
  Status owner() const;
  /// Once all is claimed, the part that the owner has taken.
  Part owners() const;
  /// The copy is over.
  void close() { open_ = false; }

 private:
  Joint* joint_;
  bool open_ = false;
  uint64_t number_ = 0, bytes_ = 0;
  uint64_t front_ = 0;  // units claimed
};

/// The owner's: writes some of what is left, up to about `most` bytes, to process `reader` (0: this one). `again`: there may be more to do.
Status help(Joint&, pid_t reader, uint64_t most, uint64_t owner = 0);

}  // namespace weft::btl::copy
