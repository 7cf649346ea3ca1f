#include "launcher/singleton.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <utility>

#include "launcher/arrange.h"
#include "launcher/daemon.h"

namespace weft::launcher {
namespace {

constexpr size_t letter_limit = 16 * 1024;

/// What has come up to an empty line; nothing if that does not come soon.
std::string read_letter(int fd) {
  std::string text;
  while (text.find("\n\n") == std::string::npos && text.size() < letter_limit) {
    pollfd ready{fd, POLLIN, 0};
    char block[1024];
    if (poll(&ready, 1, 10'000) <= 0) return {};
    const ssize_t n = read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return {};
    text.append(block, size_t(n));
  }
  return text;
}

}  // namespace

Result<Singleton> Singleton::meet(int socket) {
  Singleton self;
  self.socket_ = socket;
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  const std::string letter = read_letter(socket);
  std::string lines[3];
  size_t from = 0;
  for (std::string& line : lines) {
    const size_t end = letter.find('\n', from);
    if (end == std::string::npos || end == from) return Failure{"--for-singleton is for Weft's own use: nobody there says who he is"};
    line = letter.substr(from, end - from);
    from = end + 1;
  }
  const auto [end, error] = std::from_chars(lines[0].data(), lines[0].data() + lines[0].size(), self.pid_);
  if (error != std::errc() || end != lines[0].data() + lines[0].size() || self.pid_ <= 1)
    return Failure{"\"" + lines[0] + "\" is no process"};
  self.secret_ = lines[1];
  self.program_ = lines[2];
  self.process_ = int(syscall(SYS_pidfd_open, self.pid_, 0));
  if (self.process_ < 0) {
    const std::string why = std::string("cannot watch process ") + lines[0] + ": " + strerror(errno);
    self.refuse(why);
    return Failure{why};
  }
  fcntl(self.process_, F_SETFD, FD_CLOEXEC);
  return self;
}

Singleton::Singleton(Singleton&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      process_(std::exchange(other.process_, -1)),
      pid_(other.pid_),
      secret_(std::move(other.secret_)),
      program_(std::move(other.program_)) {}

Singleton::~Singleton() {
  for (int fd : {socket_, process_})
    if (fd >= 0) close(fd);
}

void Singleton::answer(const std::string& text) {
  if (socket_ < 0) return;
  [[maybe_unused]] const ssize_t n = send(socket_, text.data(), text.size(), MSG_NOSIGNAL);  // it waits for it, or is gone
  close(socket_);
  socket_ = -1;
}

void Singleton::welcome(const std::vector<std::string>& variables) {
  std::string text;
  for (const std::string& variable : variables)
    if (variable.find('\n') == std::string::npos) text += variable + "\n";
  answer(text + "\n");
}

void Singleton::refuse(const std::string& why) { answer("error " + why + "\n\n"); }

void Singleton::note_end() {
  close(process_);
  process_ = -1;
}

void Singleton::signal(int number) const {
  if (process_ >= 0) syscall(SYS_pidfd_send_signal, process_, number, nullptr, 0);
}

int run_for_singleton(int socket) {
  auto met = Singleton::meet(socket);
  if (!met) {
    fprintf(stderr, "mpirun: %s\n", met.failure().text.c_str());
    return exit_usage;
  }
  Options options;
  App app;
  app.command = {met->program()};
  options.apps = {app};
  options.input = InputTo::none;
  options.command_line = "(for process " + std::to_string(met->pid()) + ") " + met->program();
  options.request.hosts.push_back({own_name()});  // a batch system's other hosts are not for it
  return run_job(options, &*met);
}

}  // namespace weft::launcher
