// Ranks that cannot join their job because PMIx finds no room for the job's data: PMIx 4.2's server then leaves them without an answer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft::launcher {

/// Looks after ranks for a moment when they have begun to join. What it costs where there is room is one look at the file system.
class RoomWatch {
 public:
  /// A rank has begun to join.
  void joining(uint32_t rank, uint64_t now_ns);
  /// When check() wants to be called; 0: never.
  uint64_t next_tick_ns() const { return next_ns_; }
  /// Once it is time: the ranks that still wait for the job's data, seen twice, while `crowded` (asked then only). `pid_of`: of a rank, 0
  /// if it has ended.
  std::vector<uint32_t> check(uint64_t now_ns, const std::function<bool()>& crowded, const std::function<pid_t(uint32_t)>& pid_of);

 private:
  std::vector<uint32_t> ranks_;
  uint64_t next_ns_ = 0;
  int looks_ = 0;
};

}  // namespace weft::launcher
