// The job's folder for temporary files, and everything else of a job that could be left behind on a host.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace weft::launcher {

/// A fresh folder `$TMPDIR/weft-<uid>-<job>` (mode 0700) with a locked file in it. The lock is held as long as mpirun or its
/// guardian lives: a folder whose lock is free belongs to a dead job.
class JobFolder {
 public:
  JobFolder() = default;
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  /// `bytes`: what the job will need there. `job`: the name that mpirun has made, on another host, and `node` that host's number (the
  /// folders of one job may meet in one place).
  Result<void> create(uint64_t bytes = 0, const std::string& job = {}, uint32_t node = 0);
  /// Fails, saying so, where that many bytes more would find no room.
  Result<void> expect(uint64_t bytes) const;
  const std::string& path() const { return path_; }
  /// The job's name: also its PMIx namespace, and part of the names of its files in /dev/shm.
  const std::string& job() const { return job_; }
  /// The descriptor that holds the lock; it is never closed.
  int lock() const { return lock_; }

 private:
  std::string path_, job_;
  int lock_ = -1;
};

/// Removes a job's folder and its files /dev/shm/weft.<job>.*; quiet about what is not there.
void remove_job(const std::string& folder, const std::string& job);

/// Removes what dead jobs of this user left beside `folder` (or under $TMPDIR); returns how many jobs.
int sweep_dead_jobs();

}  // namespace weft::launcher
