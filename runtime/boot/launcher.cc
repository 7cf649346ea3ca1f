// A process that was started without a launcher gets one of its own, once it needs one: mpirun beside the library, which takes the process
// in as rank 0 of a job and serves until it ends.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "runtime/base/clock.h"
#include "runtime/base/own_folder.h"
#include "runtime/boot/internal.h"
#include "runtime/config/config.h"

namespace weft::boot {
namespace {

config::Text mpirun_variable("boot", "mpirun", "",
                             "mpirun that a process started without one uses when it spawns others; empty: the one beside the library");
constexpr uint64_t patience_ns = 30'000'000'000;

Result<std::string> find_mpirun() {
  std::string tried;
  const std::string folder = own_folder(), named = mpirun_variable.get();
  // from lib or lib/TRIPLET of an installation; in the build folder beside the library
  for (const std::string& path : {named, folder + "/../bin/mpirun", folder + "/../../bin/mpirun", folder + "/../mpirun"}) {
    if (path.empty()) continue;
    if (access(path.c_str(), X_OK) == 0) return path;
    tried += (tried.empty() ? "" : ", ") + path;
    if (path == named) break;
  }
  return Failure{"there is no mpirun to spawn processes with (tried " + tried + "); WEFT_BOOT_MPIRUN names one"};
}

/// Runs mpirun as nobody's child, in a process group of its own: signals of a terminal are the process's own affair, and whoever waits
/// for children of his finds no strange one. It keeps our output. Between fork and exec only what signal handlers may do as well.
Result<void> run(const std::string& program, int fd) {
  const std::string number = std::to_string(fd);
  char* const arguments[] = {const_cast<char*>("mpirun"), const_cast<char*>("--for-singleton"), const_cast<char*>(number.c_str()), nullptr};
  const char* const path = program.c_str();
  const pid_t child = fork();
  if (child < 0) return Failure{std::string("cannot start ") + program + ": " + strerror(errno)};
  if (child == 0) {
    setpgid(0, 0);
    if (fork() != 0) _exit(0);
    const int nothing = ::open("/dev/null", O_RDONLY);
    dup2(nothing, 0);
    fcntl(fd, F_SETFD, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execv(path, arguments);
    _exit(127);
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  return {};
}

/// All that the other side says up to an empty line, or what there is when it has gone or said nothing for too long.
std::string listen_to(int fd) {
  std::string text;
  const uint64_t give_up = now_ns() + patience_ns;
  while (text.find("\n\n") == std::string::npos && now_ns() < give_up) {
    pollfd ready{fd, POLLIN, 0};
    if (poll(&ready, 1, 1000) <= 0) continue;
    char block[4096];
    const ssize_t n = read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(block, size_t(n));
  }
  return text;
}

/// Sets the variables; returns their names, or why there are none.
Result<std::vector<std::string>> adopt(const std::string& answer, const std::string& program) {
  const size_t end = answer.find("\n\n");
  if (end == std::string::npos) return Failure{program + " has not taken this process in (it ended, or did not answer within 30 s)"};
  if (answer.starts_with("error ")) return Failure{program + ": " + answer.substr(6, end - 6)};
  std::vector<std::string> names;
  for (size_t from = 0; from < end;) {
    const size_t line_end = answer.find('\n', from), equals = answer.find('=', from);
    if (equals >= line_end) return Failure{program + " speaks another language"};
    names.push_back(answer.substr(from, equals - from));
    setenv(names.back().c_str(), answer.substr(equals + 1, line_end - equals - 1).c_str(), 1);
    from = line_end + 1;
  }
  return names;
}

std::string own_program() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, size_t(n)) : "unknown";
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> open_own_launcher(const std::string& secret) {
  auto program = find_mpirun();
  if (!program) return program.failure();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) return Failure{std::string("no pipe to mpirun: ") + strerror(errno)};
  auto started = run(*program, ends[1]);
  close(ends[1]);
  std::string answer;
  if (started) {
    const std::string self = std::to_string(getpid()) + "\n" + secret + "\n" + own_program() + "\n\n";
    if (send(ends[0], self.data(), self.size(), MSG_NOSIGNAL) == ssize_t(self.size())) answer = listen_to(ends[0]);
  }
  close(ends[0]);
  if (!started) return started.failure();
  auto names = adopt(answer, *program);
  if (!names) return names.failure();
  auto joined = open_pmix();
  for (const std::string& name : *names)  // what this process starts by itself is no rank
    if (name.starts_with("PMIX_")) unsetenv(name.c_str());
  return joined;
}

}  // namespace weft::boot
