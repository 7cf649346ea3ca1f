// What the folder of a job says about it: written by the launcher, read by `weft ps` and `weft kill`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace weft::boot {

/// $TMPDIR, or /tmp.
std::string temporary_root();
/// How the names of this user's job folders start.
std::string job_folder_prefix();

/// A process that can be told from a later one with the same number.
struct ProcessName {
  pid_t pid = -1;
  uint64_t start = 0;  ///< clock ticks between the boot of the host and the start of the process
  std::string space;   ///< the PID namespace that the number belongs to
};

/// This process, or (with `pid`) one of this PID namespace; `start` is 0 if there is no such process.
ProcessName process_name(pid_t pid);

struct JobRecord {
  enum class Life : uint8_t {
    running,
    ending,     ///< its launcher is gone, what cleans up after it is still there
    dead,       ///< nobody is there any more
    elsewhere,  ///< in another container that shares the temporary folder
  };
  std::string job, folder;
  ProcessName launcher;  ///< mpirun, or the job's daemon where mpirun is on another host
  uint32_t ranks = 0;
  int64_t since = 0;  ///< seconds since 1970
  std::string host, directory, command;
  std::string origin;     ///< the host that mpirun is on; empty: this one
  pid_t origin_pid = -1;  ///< of mpirun there
  Life life = Life::dead;
};
const char* to_string(JobRecord::Life);

/// One rank of a job's map.
struct JobMapLine {
  uint32_t rank;
  pid_t pid;
  std::string host, program;
};

/// Write into the job's folder; a full disk costs the file, not the job.
void write_record(const JobRecord&);
void write_map(const std::string& folder, const std::vector<JobMapLine>&);
void write_file(const std::string& folder, const char* name, const std::string& text);
/// Adds a line to the folder's messages.
void append_message(const std::string& folder, const std::string& line);

/// Jobs of this user on this host, oldest first. Folders of others, links and folders without a record are left out.
std::vector<JobRecord> list_jobs();

/// The job of that name: the full one, its part behind "weft-", or the launcher's pid, here or where mpirun is.
Result<JobRecord> find_job(const std::string& name);

std::vector<JobMapLine> read_map(const std::string& folder);
std::string read_messages(const std::string& folder);

/// Sends a signal to the job's launcher; fails if that process is gone, even if another has its number by now.
Result<void> signal_job(const JobRecord&, int signal);

/// Whether the job's folder is still held by a living process.
bool job_lives(const JobRecord&);

}  // namespace weft::boot
