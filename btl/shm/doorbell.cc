#include "btl/shm/doorbell.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace weft::btl::shm {

Result<Doorbell> Doorbell::create() {
  int ends[2];
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return Failure{std::string("cannot make a pipe: ") + strerror(errno)};
  Doorbell bell;
  bell.read_ = Fd(ends[0]);
  bell.write_ = Fd(ends[1]);
  return bell;
}

Result<Doorbell> Doorbell::attach(int pid, int fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  Doorbell bell;
  // Opened for both directions: a pipe that the writer itself could read never raises SIGPIPE when the owner dies.
  bell.write_ = Fd(open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!bell.write_) {
    const int error = errno;
    return Failure{std::string("cannot open ") + path + ": " + strerror(error) + (error == EMFILE ? "; raise ulimit -n" : "")};
  }
  return bell;
}

void Doorbell::ring() const {
  const char byte = 0;
  ssize_t n;
  do n = write(write_.get(), &byte, 1);
  while (n < 0 && errno == EINTR);  // EAGAIN: the pipe is full of rings already
}

void Doorbell::drain() const {
  char bytes[64];
  ssize_t n;
  do n = read(read_.get(), bytes, sizeof bytes);
  while (n == ssize_t(sizeof bytes) || (n < 0 && errno == EINTR));
}

}  // namespace weft::btl::shm
