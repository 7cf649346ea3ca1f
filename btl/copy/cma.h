// Copying between the memories of two processes with one copy, by the kernel (process_vm_readv, process_vm_writev).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "btl/btl.h"
#include "btl/copy/joint.h"
#include "runtime/base/contest.h"

namespace weft::btl::copy {

/// Has the user not forbidden it (WEFT_SHM_CMA)?
bool allowed();

/// Can this process read the memory of `pid`? Tried on the very peer: `expected` bytes known to lie at `address`.
bool can_read(pid_t pid, uint64_t address, std::span<const std::byte> expected);

/// Can others read this memory of this process, as far as its first and last bytes tell? Not what belongs to devices, or is secret
/// (memfd_secret).
bool is_readable(const std::byte* data, size_t bytes);

/// What the kernel takes for such copies here, measured when it is asked for first, in some 30 us; where it makes none, or the user has
/// forbidden it, what they take elsewhere.
const ReadSpeed& read_speed();

/// Reads all of it, in one go; 0 stands for this process, whose ranks are threads.
Status read(pid_t peer, const std::byte* remote, std::span<std::byte> local);
/// The same the other way.
Status write(pid_t peer, std::byte* remote, std::span<const std::byte> local);

/// Reads of one process's memory that one call of the system makes. What a call costs beside copying, most of it in lines that both
/// processes change, is a fifth of 64 KiB (Intel Granite Rapids, both ways at once: 3.1 us each; 2.8, 2.5, 2.4 by two, four, eight).
class Gathered {
 public:
  struct Read {
    uint64_t remote;
    iovec local;
    Operation* operation;
  };
  static constexpr size_t kMostBytes = 512 << 10;  ///< some 20 us
  bool empty() const { return count_ == 0; }
  bool has_room(size_t bytes) const { return count_ < reads_.size() && bytes_ + bytes <= kMostBytes; }
  /// Only if there is room. `timed`: the time that all of it takes is asked for.
  void add(const Read& read, bool timed) {
    reads_[count_++] = read;
    bytes_ += read.local.iov_len;
    timed_ |= timed;
  }
  /// All of them; else it is not known how much has been read.
  bool read_all(pid_t peer) const;
  std::span<const Read> reads() const { return {reads_.data(), count_}; }
  size_t bytes() const { return bytes_; }
  bool is_timed() const { return timed_; }

 private:
  static constexpr size_t kMost = 8;  // the kernel keeps so many on its stack (UIO_FASTIOV)
  std::array<Read, kMost> reads_;
  size_t count_ = 0, bytes_ = 0;
  bool timed_ = false;
};

enum class Direction : uint8_t { read, write };

/// One get or put on its way: local runs against one remote range, advanced piece by piece, so that a large copy does not
/// keep a process from its other messages.
class Transfer {
 public:
  /// `peer`: 0 for this process, whose ranks are threads.
  Transfer(Direction, pid_t peer, uint64_t remote, std::span<const iovec> local, Operation&);
  /// Can the owner of what is read take part?
  bool can_be_shared() const;
  /// It can, and is going to be told of it. The joint is free.
  void share(JointReader&);

  /// Moves up to `most` bytes; `again` while something is left.
  Status advance(size_t most);
  Operation& operation() const { return *operation_; }
  Direction direction() const { return direction_; }
  size_t left() const { return left_; }
  /// Of a shared one: what this side has copied, and how long that took.
  const ReadTime& own() const { return own_; }

 private:
  void skip(size_t bytes);
  Status advance_jointly(size_t most);
  Status await_owner(int looks) const;
  std::span<std::byte> place(Part) const;

  Direction direction_;
  pid_t peer_;
  uint64_t remote_;
  std::vector<iovec> local_;
  size_t next_ = 0;  ///< first run not done
  size_t left_ = 0;
  Operation* operation_;
  JointReader* joint_ = nullptr;
  ReadTime own_;
  Status status_ = Status::ok;  // of a joint one so far
  uint32_t waits_ = 0;          // for its owner
};

}  // namespace weft::btl::copy
