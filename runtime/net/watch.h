// What epoll is asked to look at, and a clock that it can look at.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <span>

#include "runtime/net/socket.h"

namespace weft::net {

/// A descriptor that a Watcher may speak of; at most one Watcher at a time.
struct Watched {
  Fd fd;
  uint32_t interest = 0;  ///< epoll events asked for; 0: not watched
  Watched() = default;
  explicit Watched(Fd f) : fd(std::move(f)) {}
};

/// An epoll. It is readable when one of those that it watches is ready, and so can be watched itself.
class Watcher : public Watched {
 public:
  Watcher() : Watched(Fd(epoll_create1(EPOLL_CLOEXEC))) {}
  void watch(Watched& what, uint32_t events);
  /// Must come before its descriptor is closed, since a forked child may still hold it.
  void unwatch(Watched& what);
  /// Fills `ready` with those that are ready now and returns how many they are. What was unwatched since then may be among them.
  int look(std::span<epoll_event> ready) const;
  static Watched* who(const epoll_event& event) { return static_cast<Watched*>(event.data.ptr); }
};

/// A clock that becomes readable at the earliest of the times set.
class Alarm : public Watched {
 public:
  Alarm();
  /// `when` as now_ns() counts.
  void set(uint64_t when);
  /// Has it rung? Then nothing is set any more.
  bool rung();

 private:
  uint64_t at_ = UINT64_MAX;
};

}  // namespace weft::net
