#include "launcher/guardian.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "launcher/job_folder.h"

namespace weft::launcher {
namespace {

constexpr int look_ms = 1000;  // how often the guardian of a daemon looks whether somebody has stopped it

std::string read_all(const std::string& path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char block[4096];
  for (ssize_t n; (n = read(fd, block, sizeof block)) > 0;) text.append(block, size_t(n));
  close(fd);
  return text;
}

void nap(long milliseconds) {
  const timespec t{0, milliseconds * 1'000'000};
  nanosleep(&t, nullptr);
}

/// Ends of pipes and connections that lived on here would keep others from seeing their end.
void close_all_but(int one, int other) {
  const unsigned kept[] = {2, unsigned(std::min(one, other)), unsigned(std::max(one, other)), ~0u};
  for (int i = 0; i < 3; i++)
    if (kept[i] + 1 < kept[i + 1]) close_range(kept[i] + 1, kept[i + 1] - 1, 0);
}

/// Stands it still because of SIGSTOP or the like (and not of a debugger)?
bool is_stopped(pid_t pid) {
  const std::string text = read_all("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_ends = text.rfind(')');
  return name_ends != std::string::npos && text.compare(name_ends, 3, ") T") == 0;
}

}  // namespace

int kill_by_environment(const std::string& wanted) {
  int killed = 0;
  DIR* proc = opendir("/proc");
  if (!proc) return 0;
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = atoi(entry->d_name);
    if (pid <= 1 || pid == getpid()) continue;
    const std::string text = read_all(std::string("/proc/") + entry->d_name + "/environ");
    for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
      const bool whole = (at == 0 || text[at - 1] == '\0') && (at + wanted.size() == text.size() || text[at + wanted.size()] == '\0');
      if (!whole) continue;
      if (kill(pid, SIGKILL) == 0) killed++;
      break;
    }
  }
  closedir(proc);
  return killed;
}

void kill_children_but(pid_t spared) {
  const std::string list = "/proc/self/task/" + std::to_string(getpid()) + "/children";
  for (int round = 0; round < 1000; round++) {  // each round may bring adopted grandchildren
    const std::string text = read_all(list);
    bool any = false;
    for (const char* at = text.c_str(); *at;) {
      char* end;
      const pid_t child = pid_t(strtol(at, &end, 10));
      if (end == at) break;
      at = end;
      while (*at == ' ') at++;
      // A daemon's guardian comes to us where daemons run on our own host; it goes when it has done its work.
      if (child == spared || read_all("/proc/" + std::to_string(child) + "/comm") == "weft-guardian\n") continue;
      any = true;
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    if (!any) return;
  }
}

bool Guardian::start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return false;
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    close(ends[1]);
    if (pipe_ >= 0) close(pipe_);
    stand_guard(ends[0]);
  }
  close(ends[0]);
  if (pipe_ >= 0) close(pipe_);
  pipe_ = ends[1];
  pid_ = child;
  return true;
}

void Guardian::watch(pid_t group) {
  groups_.push_back(group);
  if (pipe_ >= 0 && write(pipe_, &group, sizeof group) < 0) return;  // a dead guardian is replaced, and knows groups_ then
}

void Guardian::forget(pid_t group) {
  std::erase(groups_, group);
  const pid_t word = -group;
  if (pipe_ >= 0 && write(pipe_, &word, sizeof word) < 0) return;  // as above
}

void Guardian::dismiss() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);  // also if somebody has stopped it; its zombie, if it is dead, still holds the number
  close(pipe_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
  pipe_ = -1;
}

/// The guardian's whole life. It holds the lock of the job's folder by inheritance, and nothing of the user's but stderr.
void Guardian::stand_guard(int from_launcher) {
  setsid();
  prctl(PR_SET_NAME, "weft-guardian");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  close_all_but(from_launcher, lock_);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, 0);
  dup2(nothing, 1);
  if (!speaks_) dup2(nothing, 2);  // ssh waits for all who hold its streams
  if (chdir("/")) nap(0);          // staying elsewhere only keeps a file system busy
  const pid_t launcher = getppid();
  for (bool stopped = false;;) {
    pollfd ready{from_launcher, POLLIN, 0};
    if (poll(&ready, 1, speaks_ ? -1 : look_ms) == 0) {  // mpirun itself may be stopped, by Ctrl-Z; nobody has a reason to stop a daemon
      const bool before = stopped;
      stopped = is_stopped(launcher);
      if (before && stopped) kill(launcher, SIGCONT);  // twice: where a batch system stops all, it lets go of us first or last
      continue;
    }
    pid_t group;  // negative: to be forgotten
    const ssize_t n = read(from_launcher, &group, sizeof group);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof group) break;
    if (group > 0)
      groups_.push_back(group);
    else
      std::erase(groups_, -group);
  }
  for (pid_t group : groups_) kill(-group, SIGKILL);
  for (int quiet = 0, round = 0; quiet < 3 && round < 200; round++) {  // children forked while we looked
    quiet = kill_by_environment("PMIX_SERVER_TMPDIR=" + folder_) ? 0 : quiet + 1;
    nap(10);
  }
  remove_job(folder_, job_);
  static const char words[] = "mpirun: killed; its guardian has ended the ranks and removed the job's files.\n";
  if (speaks_ && write(2, words, sizeof words - 1) < 0) _exit(1);
  _exit(0);
}

}  // namespace weft::launcher
