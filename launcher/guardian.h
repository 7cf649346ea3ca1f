// A small process beside mpirun that outlives it by a moment: when mpirun dies without a word, the guardian ends the job's
// processes and removes its files. When the guardian dies, mpirun makes a new one. The guardian of a daemon on another host also
// lets it go on when somebody has stopped it: nobody there would miss it before the ranks wait for each other.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace weft::launcher {

class Guardian {
 public:
  /// `lock`: a descriptor that it shall hold as long as it lives. `speaks`: says on stderr what it has done (mpirun's own; on other
  /// hosts nobody needs to be told).
  Guardian(std::string folder, std::string job, int lock, bool speaks)
      : folder_(std::move(folder)), job_(std::move(job)), lock_(lock), speaks_(speaks) {}
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  /// Forks it (again). False if that fails; errno says why.
  bool start();
  pid_t pid() const { return pid_; }

  /// Tells it of a rank's process group.
  void watch(pid_t group);
  /// Before a group's leader is reaped: from then on the number may be somebody else's.
  void forget(pid_t group);

  /// All is in order: it goes.
  void dismiss();

 private:
  std::string folder_, job_;
  std::vector<pid_t> groups_;
  pid_t pid_ = -1;
  int pipe_ = -1;
  int lock_;
  bool speaks_;

  [[noreturn]] void stand_guard(int from_launcher);
};

/// Sends SIGKILL to every process of this user whose environment holds `wanted` (NAME=VALUE); returns how many.
int kill_by_environment(const std::string& wanted);

/// Kills the children of this process (and, as they are adopted, their descendants) but `spared` and other guardians; needs
/// PR_SET_CHILD_SUBREAPER.
void kill_children_but(pid_t spared);

}  // namespace weft::launcher
