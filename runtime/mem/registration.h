// Memory made known to devices (registered), and kept so between operations: registering costs more than many messages do.
//
// One cache serves all rails of a transport. It is right as long as its Watcher reports what the process frees or maps anew; memory
// that cannot be watched is registered for each use and forgotten after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/obs/figures.h"

namespace weft::mem {

/// Addresses [begin, end).
struct Range {
  uintptr_t begin = 0, end = 0;

  static Range of(const void* address, size_t length) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    return {begin, begin + length};
  }
  size_t size() const { return end - begin; }
  bool covers(Range other) const { return begin <= other.begin && other.end <= end; }
  bool overlaps(Range other) const { return begin < other.end && other.begin < end; }
  bool operator==(const Range&) const = default;
};

/// Device memory as its driver exports it (a dma-buf), for devices that read and write it directly.
struct DmaBuf {
  int fd = -1;
  uint64_t offset = 0;  ///< of the range's first byte
};

/// A device that memory is made known to.
class Registrar {
 public:
  virtual ~Registrar() = default;
  /// Returns the device's handle for the memory. Not writable: the device will only read it. `dmabuf`, if not null, stands for it.
  virtual Result<void*> enroll(Range, bool writable, const DmaBuf* dmabuf) = 0;
  virtual void dismiss(void* handle) = 0;
};

/// Notices when memory is freed, moved or mapped anew. Calls come from one thread at a time.
class Watcher {
 public:
  virtual ~Watcher() = default;
  /// From now on changes in the range are reported. False if this memory cannot be watched (whole pages of it, at least).
  virtual bool watch(Range) = 0;
  virtual void unwatch(Range) = 0;
  /// Is there something to collect? Cheap; never false after a change has come back to the thread that made it.
  virtual bool pending() const = 0;
  /// Appends what has changed. False if there was more than could be remembered: anything may have changed.
  virtual bool collect(std::vector<Range>& changed) = 0;
};

/// Watches this process by userfaultfd(2), or null with the reason in `why`: the kernel is older than 5.11, or forbids it.
/// Anonymous memory is watched, shared memory from kernel 5.19 on, files never. The kernel lets whoever unmaps watched memory wait
/// until a thread of the watcher has heard of it. Truncating a file is not noticed, only unmapping it.
std::unique_ptr<Watcher> watch_process(std::string* why = nullptr);

constexpr size_t kMaxDevices = 32;  ///< of one cache

/// Memory in use by, or kept for, operations. Whole pages.
struct Registration {
  Range range;
  std::vector<void*> handles;  ///< by device; null where not made known yet
  bool writable = true;

 private:
  friend class RegistrationCache;
  bool kept = false;  // in the map
  uint32_t users = 0;
  Registration *next = nullptr, *prev = nullptr;  // among those without users, the longest unused first
};

/// Calls are made under one lock, the lane's.
class RegistrationCache {
 public:
  struct Limits {
    uint64_t bytes = uint64_t{1} << 30;  ///< kept beyond what is in use
    size_t count = 4096;                 ///< each may cost the process two mappings (of 65530)
  };
  struct Counters {
    uint64_t hits = 0, misses = 0;
    uint64_t unkept = 0;   ///< misses of memory that could not be watched
    uint64_t changed = 0;  ///< registrations dropped because memory had changed
    uint64_t evicted = 0;
  };
  /// `watcher` null: nothing is kept.
  RegistrationCache(std::unique_ptr<Watcher> watcher, Limits limits);
  /// Dismisses everything; nothing may be in use.
  ~RegistrationCache();
  RegistrationCache(const RegistrationCache&) = delete;

  /// A device's number, for acquire(). The registrar must outlive the cache. A Failure if there are kMaxDevices already.
  Result<size_t> add(Registrar&);

  /// A registration that covers the range and is known to `device`; valid until release(). `dmabuf`: the range is device memory, whose
  /// owner calls forget() when it is freed.
  Result<Registration*> acquire(Range, size_t device, bool writable, const DmaBuf* dmabuf = nullptr);
  void release(Registration*);

  /// Drops what overlaps; what is in use goes when it is released.
  void forget(Range);
  /// Gives freed memory back to the kernel; cheap when there is nothing to do.
  void tidy() {
    if (watcher_ && watcher_->pending()) drop_changed();
  }
  /// Dismisses all that is not in use.
  void clear();

  const Counters& counters() const { return counters_; }
  void report(obs::Tally& tally) const;
  uint64_t bytes() const { return bytes_; }  ///< kept, in use or not
  size_t count() const { return kept_.size(); }
  bool watches() const { return watcher_ != nullptr; }

 private:
  using Map = std::map<uintptr_t, Registration*>;

  Map::iterator first_overlap(Range);
  Registration* find(Range, bool writable);
  Result<Registration*> enter(Range, size_t device, bool writable, const DmaBuf*);
  Result<void*> enroll(size_t device, Range, bool& writable, const DmaBuf*);
  Range absorb(Range, bool writable);
  void drop_changed();
  void drop(Map::iterator);
  void destroy(Registration*);
  void evict(uint64_t bytes, size_t count);
  void link(Registration*);
  void unlink(Registration*);

  const std::unique_ptr<Watcher> watcher_;
  const Limits limits_;
  std::vector<Registrar*> devices_;
  Map kept_;  // by first address; they do not overlap
  uint64_t bytes_ = 0;
  Registration *oldest_ = nullptr, *newest_ = nullptr;  // kept and without users
  std::vector<Range> changes_;
  Counters counters_;
};

}  // namespace weft::mem
