// The in-process fake: ranks as threads of one unit test, with faults on demand.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/boot/boot.h"

namespace weft::boot {

/// Controls a fake job from a test: kills ranks, breaks calls, sees aborts. Thread-safe; outlives the bootstraps if kept.
class FakeJob {
 public:
  struct Abort {
    uint32_t rank;
    int code;
    std::string message;
  };

  virtual ~FakeJob() = default;

  /// Declares a rank dead: fences and gets that wait for it fail, every other rank's failure callback runs (on this thread).
  virtual void kill(uint32_t rank) = 0;

  /// The next `times` calls of get, put or fence by `rank` fail with a text that says so.
  virtual void fail_next(uint32_t rank, uint32_t times) = 0;

  /// How long a get waits for what nobody put (default 10 s).
  virtual void set_patience(std::chrono::milliseconds) = 0;

  /// The first abort called, if any.
  virtual std::optional<Abort> aborted() const = 0;
};

struct Fake {
  std::vector<std::unique_ptr<Bootstrap>> ranks;
  std::shared_ptr<FakeJob> job;
};

/// As open_fake(), with the handle that injects faults.
Fake open_fake_job(uint32_t size, uint32_t nodes = 1, std::string topology = {}, uint32_t cpus = 0);

}  // namespace weft::boot
