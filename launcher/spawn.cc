#include "launcher/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace weft::launcher {
namespace {

rlimit former_limit;
bool limit_raised = false;

// The parent goes on when the child runs its program or has failed to. Sharing the memory saves copying page tables, which for a
// launcher with a PMIx server takes far longer than all the rest; sanitizers do not follow a child that runs in its parent's memory.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int sharing = CLONE_VFORK;
#else
constexpr int sharing = CLONE_VFORK | CLONE_VM;
#endif

enum class Step : int { none, bind, folder, run };

/// Everything prepared before the child exists: it may allocate nothing.
struct Prepared {
  const Child* child;
  std::vector<char*> arguments, environment, shell_arguments;
  pid_t parent;
  std::vector<unsigned long> mask;  ///< as sched_setaffinity(2) takes it; empty: not bound
  struct Report {
    volatile Step step;
    volatile int error;
  } * report;
};

void reset_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; s++) sigaction(s, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

int run_child(void* argument) {
  auto& prepared = *static_cast<Prepared*>(argument);
  const Child& child = *prepared.child;
  auto failed = [&](Step step) {
    prepared.report->error = errno;
    prepared.report->step = step;
    _exit(127);
  };
  if (child.session)
    setsid();
  else
    setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != prepared.parent) _exit(127);  // it died before the line above
#ifdef PR_SET_PTRACER
  prctl(PR_SET_PTRACER, prepared.parent, 0, 0, 0);  // where Yama restricts debuggers: those that mpirun starts may look
#endif
  dup2(child.input, 0);
  dup2(child.output, 1);
  dup2(child.errors, 2);
  reset_signals();
  if (child.held) ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);  // the kernel then stops it when it has its program
  if (limit_raised) setrlimit(RLIMIT_NOFILE, &former_limit);
  if (!prepared.mask.empty() &&
      sched_setaffinity(0, prepared.mask.size() * sizeof(unsigned long), reinterpret_cast<const cpu_set_t*>(prepared.mask.data())))
    failed(Step::bind);
  if (!child.folder.empty() && chdir(child.folder.c_str())) failed(Step::folder);
  execve(child.path.c_str(), prepared.arguments.data(), prepared.environment.data());
  if (errno == ENOEXEC) execve("/bin/sh", prepared.shell_arguments.data(), prepared.environment.data());
  failed(Step::run);
  return 127;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// The kernel's form of a set of CPUs of any size.
std::vector<unsigned long> mask_of(const topo::CpuSet& cpus) {
  constexpr uint32_t bits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask;
  for (const uint32_t cpu : cpus.cpus()) {
    if (mask.size() <= cpu / bits) mask.resize(cpu / bits + 1);
    mask[cpu / bits] |= 1ul << (cpu % bits);
  }
  return mask;
}

/// What a child could not do, and how mpirun ends for it.
SpawnError error_of(Step step, const Child& child, const std::string& reason) {
  switch (step) {
    case Step::bind: return {"cannot be bound to CPUs " + child.cpus.to_string() + ": " + reason + " (--bind-to none leaves it free)", 1};
    case Step::folder: return {"cannot enter " + child.folder + ": " + reason, 1};
    default: return {"cannot run " + child.path + ": " + reason, 126};
  }
}

bool runnable(const std::string& path) {
  struct stat about;
  return access(path.c_str(), X_OK) == 0 && stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

/// Ends the tracing of a child that stands at its first instruction, and leaves it standing there.
void let_go_stopped(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSTOPPED(status)) ptrace(PTRACE_DETACH, pid, nullptr, reinterpret_cast<void*>(uintptr_t{SIGSTOP}));
}

}  // namespace

void raise_descriptor_limit() {
  if (getrlimit(RLIMIT_NOFILE, &former_limit) || former_limit.rlim_cur == former_limit.rlim_max) return;
  rlimit more = former_limit;
  more.rlim_cur = more.rlim_max;
  limit_raised = setrlimit(RLIMIT_NOFILE, &more) == 0;
}

Result<std::string> find_program(const std::string& program, const std::string& folder, const std::string& before) {
  if (program.find('/') != std::string::npos) {
    const std::string seen = program[0] == '/' || folder.empty() ? program : folder + "/" + program;
    if (runnable(seen)) return program;
    if (access(seen.c_str(), F_OK)) return Failure{seen + ": " + strerror(errno)};
    struct stat about;
    if (stat(seen.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) return Failure{seen + " is a folder, not a program"};
    return Failure{seen + " may not be executed (chmod +x, or a mount with noexec)"};
  }
  const char* list = getenv("PATH");
  const std::string path = (before.empty() ? "" : before + ":") + (list ? list : "/usr/local/bin:/usr/bin:/bin");
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const std::string place = path.substr(at, end - at);
    const std::string candidate = (place.empty() ? "." : place) + "/" + program;
    if (runnable(candidate)) return candidate;
    at = end + 1;
  }
  const bool here = runnable("./" + program);
  return Failure{program + " is not in PATH" + (here ? "; there is one in this folder: write ./" + program : "")};
}

pid_t spawn(const Child& child, SpawnError& error) {
  Prepared prepared;
  prepared.child = &child;
  prepared.arguments = pointers(child.arguments);
  prepared.environment = pointers(child.environment);
  prepared.shell_arguments = {const_cast<char*>("sh"), const_cast<char*>(child.path.c_str())};
  prepared.shell_arguments.insert(prepared.shell_arguments.end(), prepared.arguments.begin() + 1, prepared.arguments.end());
  prepared.parent = getpid();
  prepared.mask = mask_of(child.cpus);
  constexpr size_t stack_size = 64 * 1024;
  void* block = mmap(nullptr, stack_size + 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) {
    error = {std::string("no memory: ") + strerror(errno), 1};
    return -1;
  }
  prepared.report = static_cast<Prepared::Report*>(block);
  pid_t pid = clone(run_child, static_cast<char*>(block) + 4096 + stack_size, sharing | SIGCHLD, &prepared);
  if (pid < 0) {
    error = {std::string("no process: ") + strerror(errno) + " (see ulimit -u, and the limits of the container)", 1};
  } else if (prepared.report->step != Step::none) {
    error = error_of(prepared.report->step, child, strerror(prepared.report->error));
    waitpid(pid, nullptr, 0);
    pid = -1;
  } else if (child.held) {
    let_go_stopped(pid);
  }
  munmap(block, stack_size + 4096);
  return pid;
}

}  // namespace weft::launcher
