#include "runtime/net/watch.h"

#include <sys/timerfd.h>

namespace weft::net {

void Watcher::watch(Watched& what, uint32_t events) {
  if (what.interest == events) return;
  epoll_event event{};
  event.events = events;
  event.data.ptr = &what;
  epoll_ctl(fd.get(), what.interest ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, what.fd.get(), &event);
  what.interest = events;
}

void Watcher::unwatch(Watched& what) {
  if (what.interest) epoll_ctl(fd.get(), EPOLL_CTL_DEL, what.fd.get(), nullptr);
  what.interest = 0;
}

int Watcher::look(std::span<epoll_event> ready) const { return epoll_wait(fd.get(), ready.data(), int(ready.size()), 0); }

Alarm::Alarm() : Watched(Fd(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC))) {}

void Alarm::set(uint64_t when) {
  if (when >= at_) return;
  at_ = when;
  itimerspec spec{};
  spec.it_value.tv_sec = time_t(when / 1'000'000'000u);
  spec.it_value.tv_nsec = long(when % 1'000'000'000u);
  timerfd_settime(fd.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

bool Alarm::rung() {
  uint64_t expirations;
  if (read(fd.get(), &expirations, sizeof expirations) <= 0) return false;
  at_ = UINT64_MAX;
  return true;
}

}  // namespace weft::net
