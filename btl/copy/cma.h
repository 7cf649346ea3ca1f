// Copying between the memories of two processes with one copy, by the kernel (process_vm_readv, process_vm_writev).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "btl/btl.h"

namespace weft::btl::copy {

/// Has the user not forbidden it (WEFT_SHM_CMA)?
bool allowed();

/// Can this process read the memory of `pid`? Tried on the very peer: `expected` bytes known to lie at `address`.
bool can_read(pid_t pid, uint64_t address, std::span<const std::byte> expected);

/// Can others read this memory of this process, as far as its first and last bytes tell? Not what belongs to devices, or is secret
/// (memfd_secret).
bool is_readable(const std::byte* data, size_t bytes);

/// Reads all of it, in one go; 0 stands for this process, whose ranks are threads.
Status read(pid_t peer, const std::byte* remote, std::span<std::byte> local);

enum class Direction : uint8_t { read, write };

/// One get or put on its way: local runs against one remote range, advanced piece by piece, so that a large copy does not
/// keep a process from its other messages.
class Transfer {
 public:
  /// `peer`: 0 for this process, whose ranks are threads.
  Transfer(Direction, pid_t peer, uint64_t remote, std::span<const iovec> local, Operation&);

  /// Moves up to `most` bytes; `again` while something is left.
  Status advance(size_t most);
  Operation& operation() const { return *operation_; }
  Direction direction() const { return direction_; }
  size_t left() const { return left_; }

 private:
  void skip(size_t bytes);

  Direction direction_;
  pid_t peer_;
  uint64_t remote_;
  std::vector<iovec> local_;
  size_t next_ = 0;  ///< first run not done
  size_t left_ = 0;
  Operation* operation_;
};

}  // namespace weft::btl::copy
