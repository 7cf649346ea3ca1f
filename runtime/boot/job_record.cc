#include "runtime/boot/job_record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>

namespace weft::boot {
namespace {

constexpr char record_name[] = "job", map_name[] = "map", messages_name[] = "messages", lock_name[] = "lock";
constexpr size_t most_bytes = 64u << 20;  // of a file that is read

struct Descriptor {
  int fd;
  explicit Descriptor(int number) : fd(number) {}
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

std::string read_all(int fd) {
  std::string text;
  char block[16 * 1024];
  for (ssize_t n; text.size() < most_bytes && (n = read(fd, block, sizeof block)) > 0;) text.append(block, size_t(n));
  return text;
}

std::string read_in(int folder, const char* name) {
  const Descriptor file(openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat about;
  if (file.fd < 0 || fstat(file.fd, &about) || !S_ISREG(about.st_mode)) return {};
  return read_all(file.fd);
}

/// The folder itself if it is this user's and no link; -1 otherwise.
int open_own(int root, const char* name) {
  const int fd = openat(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat about;
  if (fd < 0 || (fstat(fd, &about) == 0 && about.st_uid == getuid() && (about.st_mode & 022) == 0)) return fd;
  close(fd);
  return -1;
}

bool locked(int folder) {
  const Descriptor lock(openat(folder, lock_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  return lock.fd >= 0 && flock(lock.fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text;
}

std::string own_space() {
  char text[128] = "";
  const ssize_t n = readlink("/proc/self/ns/pid", text, sizeof text - 1);
  return n > 0 ? std::string(text, size_t(n)) : "?";
}

bool same(const ProcessName& name) { return name.start != 0 && process_name(name.pid).start == name.start; }

JobRecord parse(const std::string& text) {
  JobRecord record;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t blank = line.find(' ');
    if (blank == std::string::npos) continue;
    const std::string key = line.substr(0, blank), value = line.substr(blank + 1);
    if (key == "pid") record.launcher.pid = pid_t(strtol(value.c_str(), nullptr, 10));
    if (key == "start") record.launcher.start = strtoull(value.c_str(), nullptr, 10);
    if (key == "space") record.launcher.space = value;
    if (key == "ranks") record.ranks = uint32_t(strtoul(value.c_str(), nullptr, 10));
    if (key == "since") record.since = strtoll(value.c_str(), nullptr, 10);
    if (key == "host") record.host = value;
    if (key == "directory") record.directory = value;
    if (key == "command") record.command = value;
    if (key == "origin") record.origin = value;
    if (key == "origin-pid") record.origin_pid = pid_t(strtol(value.c_str(), nullptr, 10));
  }
  return record;
}

JobRecord::Life life_of(const JobRecord& record, int folder) {
  if (!locked(folder)) return JobRecord::Life::dead;
  if (record.launcher.space != own_space()) return JobRecord::Life::elsewhere;
  return same(record.launcher) ? JobRecord::Life::running : JobRecord::Life::ending;
}

}  // namespace

std::string temporary_root() {
  const char* wish = getenv("TMPDIR");
  std::string root = wish && *wish ? wish : "/tmp";
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  return root;
}

std::string job_folder_prefix() { return "weft-" + std::to_string(getuid()) + "-"; }

ProcessName process_name(pid_t pid) {
  ProcessName name{pid, 0, own_space()};
  const Descriptor file(open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) return name;
  const std::string text = read_all(file.fd);
  const size_t end = text.rfind(')');  // the name of a program may hold anything
  if (end == std::string::npos) return name;
  std::istringstream fields(text.substr(end + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; i++)
    if (i == 22) name.start = strtoull(field.c_str(), nullptr, 10);
  return name;
}

const char* to_string(JobRecord::Life life) {
  static constexpr const char* names[] = {"running", "ending", "dead", "elsewhere"};
  return names[static_cast<int>(life)];
}

void write_file(const std::string& folder, const char* name, const std::string& text) {
  const std::string path = folder + "/" + name, fresh = path + ".new";
  bool whole;
  {
    const Descriptor file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    whole = file.fd >= 0 && write(file.fd, text.data(), text.size()) == ssize_t(text.size());
  }
  if (!whole || rename(fresh.c_str(), path.c_str())) unlink(fresh.c_str());
}

void write_record(const JobRecord& record) {
  std::ostringstream text;
  text << "pid " << record.launcher.pid << "\nstart " << record.launcher.start << "\nspace " << record.launcher.space << "\nranks "
       << record.ranks << "\nsince " << record.since << "\nhost " << one_line(record.host) << "\ndirectory " << one_line(record.directory)
       << "\ncommand " << one_line(record.command) << "\n";
  if (!record.origin.empty()) text << "origin " << one_line(record.origin) << "\norigin-pid " << record.origin_pid << "\n";
  write_file(record.folder, record_name, text.str());
}

void write_map(const std::string& folder, const std::vector<JobMapLine>& lines) {
  std::string text;
  for (const JobMapLine& line : lines)
    text += std::to_string(line.rank) + " " + std::to_string(line.pid) + " " + line.host + " " + one_line(line.program) + "\n";
  write_file(folder, map_name, text);
}

void append_message(const std::string& folder, const std::string& line) {
  const Descriptor file(open((folder + "/" + messages_name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  const std::string text = line + "\n";
  if (file.fd >= 0 && write(file.fd, text.data(), text.size()) < 0) return;  // a full disk: it has been said on stderr as well
}

std::vector<JobRecord> list_jobs() {
  std::vector<JobRecord> jobs;
  const std::string root = temporary_root(), prefix = job_folder_prefix();
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(root.c_str()), closedir);
  if (!entries) return jobs;
  while (const dirent* entry = readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    const Descriptor folder(open_own(dirfd(entries.get()), name.c_str()));
    if (folder.fd < 0) continue;
    JobRecord record = parse(read_in(folder.fd, record_name));
    if (record.launcher.pid <= 0) continue;
    record.job = "weft-" + name.substr(prefix.size());
    record.job.resize(std::min(record.job.size(), record.job.find('.')));  // behind it stands the number of a daemon's host
    record.folder = root + "/" + name;
    record.life = life_of(record, folder.fd);
    jobs.push_back(std::move(record));
  }
  std::vector<std::string> whole;
  for (const JobRecord& job : jobs)
    if (job.origin.empty()) whole.push_back(job.job);
  std::erase_if(jobs, [&](const JobRecord& job) {  // daemons whose mpirun uses the same folder
    return !job.origin.empty() && std::find(whole.begin(), whole.end(), job.job) != whole.end();
  });
  std::sort(jobs.begin(), jobs.end(),
            [](const JobRecord& a, const JobRecord& b) { return std::tie(a.since, a.job) < std::tie(b.since, b.job); });
  return jobs;
}

Result<JobRecord> find_job(const std::string& name) {
  std::vector<JobRecord> jobs = list_jobs();
  for (JobRecord& record : jobs)
    if (name == record.job || "weft-" + name == record.job || name == std::to_string(record.launcher.pid) ||
        (!record.origin.empty() && name == std::to_string(record.origin_pid)))
      return std::move(record);
  std::string text = "there is no job " + name + " of yours under " + temporary_root();
  for (size_t i = 0; i < jobs.size() && i < 8; i++) text += (i ? ", " : "; there are: ") + jobs[i].job;
  return Failure{text};
}

std::vector<JobMapLine> read_map(const std::string& folder) {
  std::vector<JobMapLine> lines;
  const Descriptor place(open_own(AT_FDCWD, folder.c_str()));
  if (place.fd < 0) return lines;
  std::istringstream text(read_in(place.fd, map_name));
  for (JobMapLine line; text >> line.rank >> line.pid >> line.host && text.get() && std::getline(text, line.program);)
    lines.push_back(line);
  return lines;
}

std::string read_messages(const std::string& folder) {
  const Descriptor place(open_own(AT_FDCWD, folder.c_str()));
  return place.fd < 0 ? std::string() : read_in(place.fd, messages_name);
}

Result<void> signal_job(const JobRecord& record, int signal) {
  const Failure gone{"the launcher of " + record.job + " (pid " + std::to_string(record.launcher.pid) + ") is not there any more"};
  if (record.launcher.pid <= 1 || record.launcher.space != own_space()) return gone;
  // Opened first, looked at then: what is signalled is what was looked at, whoever gets the number meanwhile.
  const Descriptor process(int(syscall(SYS_pidfd_open, record.launcher.pid, 0)));
  const int why = errno;
  if (!same(record.launcher)) return gone;
  const long sent = process.fd >= 0 ? syscall(SYS_pidfd_send_signal, process.fd, signal, nullptr, 0)
                    : why == ENOSYS ? kill(record.launcher.pid, signal)
                                    : -1;
  if (sent == 0) return {};
  return errno == ESRCH ? gone : Failure{"cannot signal pid " + std::to_string(record.launcher.pid) + ": " + strerror(errno)};
}

bool job_lives(const JobRecord& record) {
  const Descriptor folder(open_own(AT_FDCWD, record.folder.c_str()));
  return folder.fd >= 0 && locked(folder.fd);
}

}  // namespace weft::boot
