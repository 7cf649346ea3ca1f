// File descriptors and stream sockets, for transports and launcher.
#pragma once

#include <unistd.h>

#include <string>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/net/address.h"

namespace weft::net {

/// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset() { Fd gone(std::exchange(fd_, -1)); }

 private:
  int fd_ = -1;
};

/// A listening socket (non-blocking, close-on-exec) bound to `at`; port 0 picks a free one.
Result<Fd> listen_at(const Address& at);

/// Begins a non-blocking connect from the local address `from` (its port is ignored; unspecified: any). The socket becomes
/// writable when the attempt ended; pending_error() then tells how. `buffer_bytes`: see size_buffers(), which comes too late for a
/// connected socket; 0: the kernel tunes them.
Result<Fd> start_connect(const Address& from, const Address& to, int buffer_bytes = 0);

/// The next waiting connection, non-blocking and close-on-exec; none (with errno set) if there is none.
Fd accept_next(int listener);

/// SO_ERROR, cleared by asking.
int pending_error(int fd);

/// Small messages leave at once; the silent death of an idle connection's other host is noticed within `seconds`.
void tune_stream(int fd, int seconds);

/// Chooses how a connection, or those that a listener accepts, adapts to congestion. False (with errno set) if this kernel does not have
/// that, or does not let everybody use it.
bool use_congestion_control(int fd, const std::string& name);

/// Sets send and receive buffer; connections inherit those of the listener.
void size_buffers(int fd, int bytes);

/// Own and remote address of a socket; unspecified if it has none.
Address local_address(int fd);
Address remote_address(int fd);

}  // namespace weft::net
