// The lane's lock: absent unless several threads may call, recursive because callbacks may post.
#pragma once

#include <sched.h>

#include <atomic>
#include <mutex>

namespace weft::pml {

class LaneLock {
 public:
  explicit LaneLock(bool enabled) : enabled_(enabled) {}

  void lock() {
    if (enabled_) [[unlikely]]
      lock_enabled();
  }
  bool try_lock() { return !enabled_ || try_lock_enabled(); }
  void unlock() {
    if (enabled_) [[unlikely]]
      unlock_enabled();
  }
  bool enabled() const { return enabled_; }

  /// For waiters, between two polls: lets somebody in who is waiting for the lock. A plain mutex would hand it back to the
  /// poller nearly always.
  void give_way() {
    if (enabled_ && wanted_.load(std::memory_order_relaxed) > 0) sched_yield();
  }

 private:
  static const void* self() {
    static thread_local char here;
    return &here;
  }
  void lock_enabled() {
    const void* me = self();
    if (owner_.load(std::memory_order_relaxed) != me) {
      if (!mutex_.try_lock()) {
        wanted_.fetch_add(1, std::memory_order_relaxed);
        mutex_.lock();
        wanted_.fetch_sub(1, std::memory_order_relaxed);
      }
      owner_.store(me, std::memory_order_relaxed);
    }
    ++depth_;
  }
  bool try_lock_enabled() {
    const void* me = self();
    if (owner_.load(std::memory_order_relaxed) != me) {
      if (!mutex_.try_lock()) return false;
      owner_.store(me, std::memory_order_relaxed);
    }
    ++depth_;
    return true;
  }
  void unlock_enabled() {
    if (--depth_ > 0) return;
    owner_.store(nullptr, std::memory_order_relaxed);
    mutex_.unlock();
  }

  const bool enabled_;
  int depth_ = 0;
  std::atomic<const void*> owner_{nullptr};  // only the owner ever finds itself here
  std::atomic<int> wanted_{0};
  std::mutex mutex_;
};

}  // namespace weft::pml
