// The lane's lock: absent unless several threads may call or a helper works, recursive because callbacks may post.
#pragma once

#include <sched.h>

#include <atomic>
#include <mutex>

namespace weft::pml {

class LaneLock {
 public:
  explicit LaneLock(bool enabled) : always_(enabled), enabled_(enabled) {}

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

  /// Where only one thread calls: another one may take the lock from now on. Called by the first one, who holds no lock of a lane.
  void lend() {
    if (always_) return;
    given_back_.store(false, std::memory_order_relaxed);
    enabled_ = true;
  }
  /// Called by that other thread, which will not come until the lock is lent again: who unlocks next needs none any more.
  void give_back() { given_back_.store(!always_, std::memory_order_release); }

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
    if (given_back_.load(std::memory_order_acquire)) [[unlikely]]
      enabled_ = false;
  }

  const bool always_;
  bool enabled_;  // written by the thread that is alone while it is false
  std::atomic<bool> given_back_{false};
  int depth_ = 0;
  std::atomic<const void*> owner_{nullptr};  // only the owner ever finds itself here
  std::atomic<int> wanted_{0};
  std::mutex mutex_;
};

}  // namespace weft::pml
