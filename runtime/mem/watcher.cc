// Watching memory by userfaultfd(2). Ranges are registered for write protection, which is never switched on: so no page fault ever
// comes here, only the news that memory was unmapped, moved or emptied.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include "runtime/mem/registration.h"

namespace weft::mem {
namespace {

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
constexpr uint64_t kSharedMemory = uint64_t{1} << 12;  // UFFD_FEATURE_WP_HUGETLBFS_SHMEM, kernel 5.19
constexpr uint64_t kNeeded =
    UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP;

/// An open userfaultfd with these features, -1 if there is none; `has` tells what the kernel has.
int open_faults(uint64_t features, uint64_t& has) {
  const int fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  if (fd < 0) return -1;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = features;
  if (ioctl(fd, UFFDIO_API, &api) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  has = api.features;
  return fd;
}

class FaultWatcher final : public Watcher {
 public:
  FaultWatcher(int fd, int stop) : fd_(fd), stop_(stop) {}
  ~FaultWatcher() override {
    if (started_) {
      const uint64_t one = 1;
      while (write(stop_, &one, sizeof one) < 0 && errno == EINTR) {
      }
      pthread_join(thread_, nullptr);
    }
    close(fd_);
    close(stop_);
  }

  bool watch(Range range) override {
    if (!start()) return false;
    uffdio_register request{};
    request.range = {range.begin, range.size()};
    request.mode = UFFDIO_REGISTER_MODE_WP;
    return ioctl(fd_, UFFDIO_REGISTER, &request) == 0;
  }

  void unwatch(Range range) override {
    uffdio_range request{range.begin, range.size()};
    ioctl(fd_, UFFDIO_UNREGISTER, &request);  // memory that has gone meanwhile is not watched any more anyway
  }

  bool pending() const override {
    return busy_.load(std::memory_order_seq_cst) || read_at_.load(std::memory_order_relaxed) != written_.load(std::memory_order_acquire);
  }

  bool collect(std::vector<Range>& changed) override {
    while (busy_.load(std::memory_order_seq_cst)) sched_yield();
    uint32_t at = read_at_.load(std::memory_order_relaxed);
    const uint32_t end = written_.load(std::memory_order_acquire);
    for (; at != end; ++at) changed.push_back(ring_[at % ring_.size()]);
    read_at_.store(at, std::memory_order_release);
    return !overflow_.exchange(false, std::memory_order_acq_rel);
  }

 private:
  bool start() {
    if (started_) return true;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    started_ =
        pthread_create(
            &thread_, &attributes, [](void* self) -> void* { return static_cast<FaultWatcher*>(self)->listen(), nullptr; }, this) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    return started_;
  }

  /// The thread. It allocates nothing, frees nothing and takes no lock: whoever waits for it to hear may hold any.
  void listen() {
    pollfd fds[2] = {{fd_, POLLIN, 0}, {stop_, POLLIN, 0}};
    while (poll(fds, 2, -1) >= 0 || errno == EINTR) {
      if (fds[1].revents) return;
      if (!(fds[0].revents & POLLIN)) continue;
      // Reading lets the thread that unmapped go on; it must not find `busy_` false before its news are in the ring.
      busy_.store(true, std::memory_order_seq_cst);
      uffd_msg message;
      while (read(fd_, &message, sizeof message) == sizeof message) take(message);
      busy_.store(false, std::memory_order_seq_cst);
    }
  }

  void take(const uffd_msg& message) {
    if (message.event == UFFD_EVENT_REMAP)
      push({message.arg.remap.from, message.arg.remap.from + message.arg.remap.len});
    else if (message.event == UFFD_EVENT_UNMAP || message.event == UFFD_EVENT_REMOVE)
      push({message.arg.remove.start, message.arg.remove.end});
  }

  void push(Range range) {
    const uint32_t at = written_.load(std::memory_order_relaxed);
    if (at - read_at_.load(std::memory_order_acquire) == ring_.size()) return overflow_.store(true, std::memory_order_release);
    ring_[at % ring_.size()] = range;
    written_.store(at + 1, std::memory_order_release);
  }

  const int fd_, stop_;
  bool started_ = false;
  pthread_t thread_{};
  std::atomic<bool> busy_{false}, overflow_{false};
  std::atomic<uint32_t> written_{0}, read_at_{0};
  std::array<Range, 512> ring_;
};

}  // namespace

std::unique_ptr<Watcher> watch_process(std::string* why) {
  uint64_t has = 0;
  int fd = open_faults(0, has);
  if (fd >= 0) {
    close(fd);
    const uint64_t wanted = kNeeded | (has & kSharedMemory);
    errno = ENOTSUP;
    fd = (has & kNeeded) == kNeeded ? open_faults(wanted, has) : -1;
  }
  const int stop = fd >= 0 ? eventfd(0, EFD_CLOEXEC) : -1;
  if (stop >= 0) return std::make_unique<FaultWatcher>(fd, stop);
  if (why) *why = std::string("userfaultfd: ") + strerror(errno);
  if (fd >= 0) close(fd);
  return nullptr;
}

}  // namespace weft::mem
