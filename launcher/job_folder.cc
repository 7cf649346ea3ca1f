#include "launcher/job_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "runtime/boot/job_record.h"

namespace weft::launcher {
namespace {

constexpr char lock_name[] = "/lock";

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

std::vector<std::string> entries(int parent, const char* name, const std::string& start) {
  std::vector<std::string> result;
  const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return result;
  Folder folder(fdopendir(fd));
  while (const dirent* entry = readdir(folder.get())) {
    const std::string item = entry->d_name;
    if (item != "." && item != ".." && item.compare(0, start.size(), start) == 0) result.push_back(item);
  }
  return result;
}

/// Removes a tree without ever following a link.
void remove_tree(int parent, const char* name, int depth = 0) {
  if (unlinkat(parent, name, 0) == 0 || depth > 64) return;
  const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  for (const std::string& item : entries(fd, ".", "")) remove_tree(fd, item.c_str(), depth + 1);
  close(fd);
  unlinkat(parent, name, AT_REMOVEDIR);
}

/// Is the folder a dead job's? Then its lock is ours now (it goes with the process or with close).
int lock_if_dead(int root, const std::string& name) {
  struct stat about;
  if (fstatat(root, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(about.st_mode) || about.st_uid != getuid()) return -1;
  const int fd = openat(root, (name + lock_name).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {  // about to be made, or half removed
    const bool old = time(nullptr) - about.st_mtime > 60;
    return errno == ENOENT && old ? openat(root, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  }
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return -1;
}

/// A sentence if a folder of the job would find no room under `root`. What is not sure is left to mkdir().
std::string crowded(const std::string& root, uint64_t bytes) {
  struct statvfs about;
  if (statvfs(root.c_str(), &about) || !about.f_blocks) return {};
  const uint64_t room = uint64_t{about.f_bavail} * about.f_frsize;
  const std::string remedy = " Make room, or set TMPDIR to a folder with room that you may write to.";
  if (room < bytes)
    return "the temporary folder " + root + " is full: " + std::to_string(room / 1024) + " kB are free, this job needs " +
           std::to_string(bytes / 1024) + " kB there (see df " + root + ")." + remedy;
  if (about.f_files && about.f_favail < 32)
    return "the temporary folder " + root + " has no inodes left (see df -i " + root + ")." + remedy;
  return {};
}

}  // namespace

Result<void> JobFolder::expect(uint64_t bytes) const {
  if (std::string complaint = crowded(path_, bytes); !complaint.empty()) return Failure{std::move(complaint)};
  return {};
}

Result<void> JobFolder::create(uint64_t bytes, const std::string& job, uint32_t node) {
  const std::string root = boot::temporary_root();
  if (const std::string complaint = crowded(root, bytes); !complaint.empty()) return Failure{complaint};
  for (int attempt = 0;; attempt++) {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char unique[64];
    snprintf(unique, sizeof unique, "%d-%llx", getpid(), (unsigned long long)now.tv_sec << 20 | (unsigned long long)now.tv_nsec >> 10);
    const std::string name = job.empty() ? std::string("weft-") + unique : job;
    std::string path = root + "/" + boot::job_folder_prefix() + name.substr(sizeof "weft-" - 1);
    if (node) path += "." + std::to_string(node);
    if (mkdir(path.c_str(), 0700)) {
      if (errno == EEXIST && attempt < 10 && job.empty()) continue;
      return Failure{"cannot create the job's folder " + path + ": " + strerror(errno) +
                     ". Set TMPDIR to a folder with room that you may write to."};
    }
    const int fd = open((path + lock_name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {  // it stays open: it is the sign of life
      path_ = path;
      job_ = name;
      lock_ = fd;
      return {};
    }
    const int error = errno;
    if (fd >= 0) close(fd);
    remove_tree(AT_FDCWD, path.c_str());
    if (attempt >= 10)
      return Failure{"cannot lock a file in the job's folder " + path + ": " + strerror(error) + ". Set TMPDIR to a local file system."};
  }
}

void remove_job(const std::string& folder, const std::string& job) {
  if (const int shm = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC); shm >= 0) {
    for (const std::string& item : entries(shm, ".", "weft." + job + ".")) remove_tree(shm, item.c_str());
    close(shm);
  }
  if (!folder.empty()) remove_tree(AT_FDCWD, folder.c_str());
}

int sweep_dead_jobs() {
  const std::string root = boot::temporary_root();
  const int fd = open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return 0;
  int swept = 0;
  for (const std::string& name : entries(fd, ".", boot::job_folder_prefix())) {
    const int lock = lock_if_dead(fd, name);
    if (lock < 0) continue;
    const std::string rest = name.substr(boot::job_folder_prefix().size());
    remove_job(root + "/" + name, "weft-" + rest.substr(0, rest.find('.')));
    close(lock);
    swept++;
  }
  close(fd);
  return swept;
}

}  // namespace weft::launcher
