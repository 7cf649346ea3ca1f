#include "runtime/net/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::net {
namespace {

constexpr int kFlags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

void set(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof value); }

Failure failed(const char* what, const Address& at, int error) {
  Failure failure{std::string(what) + " " + at.with_port() + ": " + strerror(error)};
  if (error == EMFILE || error == ENFILE) failure.text += " (raise the limit of open files: ulimit -n)";
  return failure;
}

template <class F>
Address asked(F call, int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (call(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return from_socket(reinterpret_cast<const sockaddr*>(&storage)).value_or(Address{});
}

}  // namespace

Result<Fd> listen_at(const Address& at) {
  Fd fd(socket(at.v6 ? AF_INET6 : AF_INET, kFlags, 0));
  if (!fd) return failed("cannot make a socket for", at, errno);
  if (at.v6) set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  sockaddr_storage name;
  const socklen_t length = at.to_socket(name);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&name), length) != 0) return failed("cannot bind to", at, errno);
  if (listen(fd.get(), SOMAXCONN) != 0) return failed("cannot listen at", at, errno);
  return fd;
}

Result<Fd> start_connect(const Address& from, const Address& to, int buffer_bytes) {
  Fd fd(socket(to.v6 ? AF_INET6 : AF_INET, kFlags, 0));
  if (!fd) return failed("cannot make a socket for", to, errno);
  if (buffer_bytes > 0) size_buffers(fd.get(), buffer_bytes);
  sockaddr_storage name;
  if (!from.unspecified()) {
    Address source = from;
    source.port = 0;
    set(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    const socklen_t length = source.to_socket(name);
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&name), length) != 0) return failed("cannot bind to", source, errno);
  }
  Address target = to;
  if (target.link_local()) target.scope = from.scope;
  const socklen_t length = target.to_socket(name);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&name), length) != 0 && errno != EINPROGRESS)
    return failed("cannot connect to", to, errno);
  return fd;
}

Fd accept_next(int listener) {
  for (;;) {
    Fd fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    // errors of a connection that died while it waited are not the listener's
    if (fd ||
        (errno != EINTR && errno != ECONNABORTED && errno != EPROTO && errno != ENETDOWN && errno != EHOSTUNREACH && errno != ENETUNREACH))
      return fd;
  }
}

int pending_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

void tune_stream(int fd, int seconds) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 2));
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 6));
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

bool use_congestion_control(int fd, const std::string& name) {
  return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

void size_buffers(int fd, int bytes) {
  set(fd, SOL_SOCKET, SO_SNDBUF, bytes);
  set(fd, SOL_SOCKET, SO_RCVBUF, bytes);
}

Address local_address(int fd) { return asked(getsockname, fd); }
Address remote_address(int fd) { return asked(getpeername, fd); }

}  // namespace weft::net
