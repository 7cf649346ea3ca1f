// The way from PMIx's thread into the launcher's loop.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "launcher/daemon_state.h"

namespace weft::launcher {

/// Work and events posted by any thread, taken by the loop. `fd()` is readable while something is there.
class Mailbox {
 public:
  Mailbox();
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  using Work = std::function<void()>;
  void post(Event event);
  void post(Work work);

  int fd() const { return fd_; }
  struct Letters {
    std::vector<Event> events;
    std::vector<Work> works;
  };
  Letters take();

 private:
  const int fd_;
  std::mutex mutex_;
  Letters letters_;  // guarded by mutex_
  void ring() const;
};

}  // namespace weft::launcher
