// Waking a process that sleeps, and only then.
#pragma once

#include <atomic>
#include <cstdint>

#include "btl/shm/segment.h"

namespace weft::btl::shm {

/// A pipe: peers open its end through /proc, the owner waits for it to become readable.
///
/// The protocol. Sender: publish a message; [fence]; read `sleeping`; if set, exchange it with 0, and whoever got the 1 writes
/// a byte. Owner: set `sleeping`; barrier; look for messages once more; sleep. Either the sender sees the flag or the owner the
/// message. The barrier of the owner is fence_all(), which acts as a fence in every running registered process, so that the
/// sender needs none on its way; where it is denied, or where ranks outnumber CPUs (sleep is frequent there and a fence
/// cheaper than a barrier), the sender fences.
class Doorbell {
 public:
  static Result<Doorbell> create();
  static Result<Doorbell> attach(int pid, int fd);

  int read_end() const { return read_.get(); }
  int write_end() const { return write_.get(); }
  void ring() const;
  void drain() const;

 private:
  Fd read_, write_;
};

}  // namespace weft::btl::shm
