#include "launcher/events.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace weft::launcher {

Mailbox::Mailbox() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
Mailbox::~Mailbox() { close(fd_); }

void Mailbox::post(Event event) {
  {
    std::lock_guard lock(mutex_);
    letters_.events.push_back(std::move(event));
  }
  ring();
}

void Mailbox::post(Work work) {
  {
    std::lock_guard lock(mutex_);
    letters_.works.push_back(std::move(work));
  }
  ring();
}

void Mailbox::ring() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(fd_, &one, sizeof one);  // it can only be full, and then it is readable
}

Mailbox::Letters Mailbox::take() {
  uint64_t count;
  [[maybe_unused]] const ssize_t n = read(fd_, &count, sizeof count);
  Letters letters;
  std::lock_guard lock(mutex_);
  std::swap(letters, letters_);
  return letters;
}

}  // namespace weft::launcher
