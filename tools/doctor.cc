// `weft doctor`: tries what MPI programs will need on this machine, and says what to do where it is not there.
#include <config.h>
#include <fcntl.h>
#include <netdb.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/net/interfaces.h"
#include "tools/report.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string in_mib(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

std::string getenv_or(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value && *value ? value : otherwise;
}

/// What one process may do with another of the same user, tried between two children of ours, as ranks are to each other.
struct Neighbours {
  bool started = false;
  int memory_error = 0;  ///< opening the other's shared memory
  int copy_error = 0;    ///< reading the other's memory directly
};

/// The child that is looked into: offers a memory file and some bytes, waits until `end` is closed.
[[noreturn]] void be_looked_into(int report, int end) {
#ifdef PR_SET_PTRACER
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
  static char bytes[64] = "weft";
  struct {
    int fd;
    char* address;
  } offer{memfd_create("weft-doctor", MFD_CLOEXEC), bytes};
  const bool good = offer.fd >= 0 && ftruncate(offer.fd, 1 << 20) == 0 && write(report, &offer, sizeof offer) == sizeof offer;
  char nothing;
  while (good && read(end, &nothing, 1) > 0) continue;
  _exit(0);
}

/// The child that looks: reports two error numbers.
[[noreturn]] void look_into(pid_t other, int fd, char* address, int report) {
  int errors[2] = {0, 0};
  const std::string path = "/proc/" + std::to_string(other) + "/fd/" + std::to_string(fd);
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0 || mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0) == MAP_FAILED) errors[0] = errno;
  char copy[64] = "";
  const iovec local{copy, sizeof copy}, remote{address, sizeof copy};
  errno = 0;
  if (process_vm_readv(other, &local, 1, &remote, 1, 0) != sizeof copy || strcmp(copy, "weft") != 0) errors[1] = errno ? errno : EIO;
  _exit(write(report, errors, sizeof errors) == sizeof errors ? 0 : 1);
}

Neighbours try_neighbours() {
  Neighbours result;
  int report[2], end[2];
  if (pipe2(report, O_CLOEXEC) != 0) return result;
  if (pipe2(end, O_CLOEXEC) != 0) return close(report[0]), close(report[1]), result;
  struct {
    int fd;
    char* address;
  } offer{};
  const pid_t first = fork();
  if (first == 0) {
    close(end[1]);
    be_looked_into(report[1], end[0]);
  }
  if (first > 0 && read(report[0], &offer, sizeof offer) == sizeof offer) {
    const pid_t second = fork();
    if (second == 0) look_into(first, offer.fd, offer.address, report[1]);
    int errors[2];
    if (second > 0 && read(report[0], errors, sizeof errors) == sizeof errors) result = {true, errors[0], errors[1]};
    if (second > 0) waitpid(second, nullptr, 0);
  }
  for (const int fd : {report[0], report[1], end[0], end[1]}) close(fd);
  if (first > 0) waitpid(first, nullptr, 0);
  return result;
}

void shared_memory(std::vector<Finding>& out) {
  const Neighbours n = try_neighbours();
  if (!n.started) {
    out.push_back({Level::problem, "shared memory", "memfd_create or fork does not work here",
                   "allow memfd_create in the container's seccomp profile, or name a tmpfs folder in WEFT_SHM_FOLDER"});
    return;
  }
  if (n.memory_error) {
    out.push_back({Level::warning, "shared memory",
                   std::string("processes cannot open each other's memory files: ") + strerror(n.memory_error),
                   "mount /proc without hidepid, or name a tmpfs folder in WEFT_SHM_FOLDER; until then ranks talk over tcp"});
  } else {
    out.push_back({Level::ok, "shared memory", "anonymous shared memory between processes works (/dev/shm is not needed)", ""});
  }
  if (n.copy_error) {
    const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
    const std::string remedy = scope >= "2" ? "sysctl kernel.yama.ptrace_scope=1"
                                            : "in containers: --cap-add=SYS_PTRACE or a seccomp profile that allows process_vm_readv";
    out.push_back(
        {Level::warning, "single copy (CMA)",
         std::string("reading another process's memory is denied: ") + strerror(n.copy_error) + "; large messages are copied twice",
         remedy});
  } else {
    out.push_back({Level::ok, "single copy (CMA)", "a process may read another's memory: large messages are copied once", ""});
  }
}

void shm_folder(std::vector<Finding>& out) {
  const std::string chosen = getenv_or("WEFT_SHM_FOLDER", "");
  const std::string folder = chosen.empty() ? "/dev/shm" : chosen;
  struct statvfs info;
  if (statvfs(folder.c_str(), &info) != 0) {
    out.push_back({chosen.empty() ? Level::note : Level::problem, folder, strerror(errno),
                   chosen.empty() ? "" : "name an existing tmpfs folder in WEFT_SHM_FOLDER"});
    return;
  }
  const uint64_t total = uint64_t(info.f_blocks) * info.f_frsize, free_bytes = uint64_t(info.f_bavail) * info.f_frsize;
  const bool small = free_bytes < (64u << 20);
  out.push_back({!small           ? Level::ok
                 : chosen.empty() ? Level::note
                                  : Level::problem,
                 folder, in_mib(free_bytes) + " of " + in_mib(total) + " free",
                 !small ? "" : "other programs may need more: docker run --shm-size=1g, or mount -o remount,size=1g " + folder});
}

void temporary_folder(std::vector<Finding>& out) {
  const std::string folder = getenv_or("TMPDIR", "/tmp");
  std::string path = folder + "/weft-doctor.XXXXXX";
  if (!mkdtemp(path.data())) {
    out.push_back({Level::problem, "temporary folder", folder + " cannot be written to: " + strerror(errno),
                   "set TMPDIR to a folder of yours on a local disk"});
    return;
  }
  rmdir(path.c_str());
  struct statvfs info;
  const uint64_t free_bytes = statvfs(folder.c_str(), &info) == 0 ? uint64_t(info.f_bavail) * info.f_frsize : 0;
  const bool small = free_bytes<(16u << 20), longish = folder.size()> 60;
  out.push_back({small || longish ? Level::warning : Level::ok, "temporary folder", folder + ": " + in_mib(free_bytes) + " free",
                 small     ? "free some space or set TMPDIR to another folder"
                 : longish ? "set TMPDIR to a shorter path: sockets cannot have names of more than 107 characters"
                           : ""});
}

void names(std::vector<Finding>& out) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  const uint64_t begin = now_ns();
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  const int error = getaddrinfo(name, nullptr, &hints, &found);
  const uint64_t ms = (now_ns() - begin) / 1'000'000;
  if (found) freeaddrinfo(found);
  if (error) {
    out.push_back(
        {Level::warning, "host name",
         std::string("'") + name + "' does not resolve: " + gai_strerror(error) + " (Weft itself does not need it on one machine)",
         std::string("add the line '127.0.1.1 ") + name + "' to /etc/hosts"});
  } else if (ms > 500) {
    out.push_back({Level::warning, "host name", std::string("resolving '") + name + "' takes " + std::to_string(ms) + " ms",
                   "name it in /etc/hosts, or mend /etc/resolv.conf"});
  } else {
    out.push_back({Level::ok, "host name", std::string("'") + name + "' resolves", ""});
  }
}

std::string in_words(const std::vector<net::Interface>& interfaces) {
  std::string text;
  for (const auto& i : interfaces) {
    text += (text.empty() ? "" : ", ") + i.name;
    if (i.mbit) text += " (" + std::to_string(i.mbit) + " Mbit/s)";
  }
  return text.empty() ? "none" : text;
}

void interfaces(std::vector<Finding>& out) {
  const auto all = net::list_interfaces();
  const auto chosen = net::usable_interfaces(net::Extent::network);
  if (!chosen) {
    out.push_back({Level::problem, "network", chosen.failure().text, "correct WEFT_NET_INTERFACES"});
    return;
  }
  const bool only_local = chosen->empty() || (chosen->size() == 1 && chosen->front().loopback);
  out.push_back({only_local ? Level::note : Level::ok, "network",
                 "between machines: " + (only_local ? "none" : in_words(*chosen)) + "; there are " + in_words(all),
                 only_local ? "jobs on this machine alone work; for several machines bring an interface up"
                            : "WEFT_NET_INTERFACES includes or excludes others"});
}

void limit(std::vector<Finding>& out, const char* name, int resource, rlim_t least, const char* why, const char* remedy) {
  rlimit value;
  if (getrlimit(static_cast<__rlimit_resource>(resource), &value) != 0) return;
  const bool good = value.rlim_cur == RLIM_INFINITY || value.rlim_cur >= least;
  const std::string text = value.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(value.rlim_cur);
  out.push_back({good ? Level::ok : Level::warning, std::string("limit ") + name, good ? text : text + why, good ? "" : remedy});
}

void limits(std::vector<Finding>& out) {
  limit(out, "open files", RLIMIT_NOFILE, 1024, ": too few for jobs of many ranks",
        "ulimit -n 65536, or nofile in /etc/security/limits.conf");
  limit(out, "processes", RLIMIT_NPROC, 1024, ": ranks and their threads may not start",
        "ulimit -u 4096, or nproc in /etc/security/limits.conf");
  const bool rdma = fs::exists("/sys/class/infiniband") && !fs::is_empty("/sys/class/infiniband");
  limit(out, "locked memory", RLIMIT_MEMLOCK, rdma ? 1u << 30 : 0, ": too little to register buffers with the InfiniBand devices here",
        "ulimit -l unlimited, or memlock in /etc/security/limits.conf");
}

/// The file of a cgroup controller (v2, then v1), or empty.
std::string control(const char* v2, const char* v1) {
  std::string own = first_line("/proc/self/cgroup");
  own = own.starts_with("0::") ? own.substr(3) : "/";
  for (const std::string& path :
       {"/sys/fs/cgroup" + own + "/" + v2, std::string("/sys/fs/cgroup/") + v2, std::string("/sys/fs/cgroup/") + v1})
    if (std::string line = first_line(path); !line.empty()) return line;
  return "";
}

uint64_t number(const std::string& text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void processors(std::vector<Finding>& out) {
  cpu_set_t set;
  const int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  std::string text = std::to_string(usable) + " of " + std::to_string(online) + " processors may be used";
  double quota = 0;
  const std::string max = control("cpu.max", "cpu/cpu.cfs_quota_us");
  if (!max.empty() && max.starts_with("max") == false && max[0] != '-') {
    const auto space = max.find(' ');
    const uint64_t period =
        space == std::string::npos ? number(first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us")) : number(max.substr(space + 1));
    if (period) quota = double(number(max)) / double(period);
  }
  if (quota > 0 && quota < usable) {
    char times[32];
    snprintf(times, sizeof times, "%.1f", quota);
    out.push_back({Level::note, "processors", text + ", but for no more time than " + times + " have",
                   "give the container more (docker run --cpus), or use no more ranks than that"});
  } else {
    out.push_back({Level::ok, "processors", text, ""});
  }
  const std::string pids = control("pids.max", "pids/pids.max");
  if (!pids.empty() && pids != "max" && number(pids) < 512)
    out.push_back(
        {Level::warning, "processes of the container", "no more than " + pids, "docker run --pids-limit=-1, or pids.max of the cgroup"});
}

void memory(std::vector<Finding>& out) {
  const uint64_t total = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  const std::string max = control("memory.max", "memory/memory.limit_in_bytes");
  const uint64_t allowed = max.empty() || max == "max" ? total : std::min(total, number(max));
  out.push_back({allowed < (256u << 20) ? Level::warning : Level::ok, "memory",
                 in_mib(allowed) + (allowed < total ? " of " + in_mib(total) + " (a limit of the container)" : ""),
                 allowed < (256u << 20) ? "give the container more: docker run --memory" : ""});
}

void pmix(std::vector<Finding>& out) {
  for (const Part& part : find_parts()) {
    if (part.name != "PMIx") continue;
    const bool found = !part.version.empty();
    out.push_back({found ? Level::ok : Level::problem, "PMIx",
                   found ? part.version + " (" + part.detail + ")" : "libpmix.so.2 was not found: " + part.detail,
                   found ? "" : "install it (Debian: apt install libpmix2), or add its folder to LD_LIBRARY_PATH"});
  }
}

void library(std::vector<Finding>& out) {
  const auto description = describe_library();
  if (!description) {
    out.push_back({Level::problem, "library", description.failure().text, "install Weft as a whole: make install"});
    return;
  }
  const bool same = description->version == PACKAGE_VERSION;
  out.push_back({same ? Level::ok : Level::problem, "library", "Weft " + description->version + " (" + description->file + ")",
                 same ? "" : "this tool is of version " PACKAGE_VERSION ": install both together"});
  for (const std::string& complaint : description->complaints)
    out.push_back({Level::warning, "environment", complaint, "unset or correct it"});
}

/// The first executable of that name in PATH.
std::string in_path(const std::string& name) {
  const std::string path = getenv_or("PATH", "");
  for (size_t at = 0; at <= path.size();) {
    const size_t colon = std::min(path.find(':', at), path.size());
    const std::string file = path.substr(at, colon - at) + "/" + name;
    if (access(file.c_str(), X_OK) == 0) return file;
    at = colon + 1;
  }
  return "";
}

/// Another MPI's mpirun first in PATH starts our programs as so many jobs of one rank.
void launcher(std::vector<Finding>& out) {
  std::error_code ignored;
  const fs::path own = fs::canonical(own_folder(), ignored);
  for (const char* name : {"mpirun", "mpiexec", "mpicc"}) {
    const std::string found = in_path(name);
    if (found.empty() || fs::canonical(found, ignored).parent_path() == own) continue;
    out.push_back({Level::warning, name, found + " comes first in PATH and is another MPI's", "export PATH=" + own.string() + ":$PATH"});
  }
}

}  // namespace

std::vector<Finding> examine() {
  std::vector<Finding> out;
  for (const auto check :
       {library, launcher, pmix, shared_memory, shm_folder, temporary_folder, processors, memory, limits, names, interfaces})
    check(out);
  return out;
}

}  // namespace weft::tools
