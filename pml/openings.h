// Where the sessions of each process are found.
//
// A process opens MPI once, or twice: if it has left the world model without ever having had a session, and opens one afterwards. The
// second time it sits on other seats (process_id.h). The world model is always on the first ones; where its sessions will be not even the
// process itself knows before it opens one. It publishes that with the first, and whoever talks to it within a session asks.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "runtime/boot/boot.h"

namespace weft::pml {

/// What the lanes of a process know of that. Thread-safe.
class Openings {
 public:
  /// `own`: the number of the first seat of this opening of this process, 0 or kMostLanes.
  Openings(boot::Bootstrap& boot, uint32_t own) : boot_(boot), own_(own) {}

  uint32_t own() const { return own_; }
  /// Tells others that this process has sessions, here.
  Result<void> publish();

  /// The number of the first seat of a process's sessions; nothing if it is not known here.
  std::optional<uint32_t> known(ProcessId) const;
  /// Asks the bootstrap without waiting: nothing as long as there is no answer. To be called again then.
  Result<std::optional<uint32_t>> look(ProcessId);
  /// Waits for the answer, as boot::Bootstrap::get does.
  Result<uint32_t> ask(ProcessId);

 private:
  Result<uint32_t> keep(ProcessId, const boot::Blob& told);

  boot::Bootstrap& boot_;
  const uint32_t own_;
  mutable std::mutex lock_;
  std::unordered_map<ProcessId, uint32_t> known_;  // guarded by lock_
};

}  // namespace weft::pml
