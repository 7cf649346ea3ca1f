// mpirun for a process that was started without it and wants to spawn others: mpirun --for-singleton FD. The process (it has made FD, a
// socket) writes three lines - its pid, the secret that its job is to have, its program - and an empty one; mpirun answers with the
// variables (NAME=VALUE) that make the process rank 0 of a job, a line each, and an empty line; or with "error " and why not.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace weft::launcher {

/// The process, as the only rank that is no child of mpirun's.
class Singleton {
 public:
  /// Reads who it is; fails if what comes is not as above, or it is gone.
  static Result<Singleton> meet(int socket);
  Singleton(Singleton&&) noexcept;
  Singleton& operator=(Singleton&&) = delete;
  ~Singleton();

  pid_t pid() const { return pid_; }
  const std::string& secret() const { return secret_; }
  const std::string& program() const { return program_; }

  /// It becomes rank 0.
  void welcome(const std::vector<std::string>& variables);
  void refuse(const std::string& why);

  /// Readable when it has ended; -1 once that has been noted.
  int fd() const { return process_; }
  void note_end();
  /// Sends it a signal, unless it has ended.
  void signal(int number) const;

 private:
  Singleton() = default;
  void answer(const std::string& text);
  int socket_ = -1, process_ = -1;
  pid_t pid_ = -1;
  std::string secret_, program_;
};

/// The whole life of mpirun --for-singleton; returns its exit code.
int run_for_singleton(int socket);

}  // namespace weft::launcher
