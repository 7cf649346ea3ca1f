// How a process learns who it is and exchanges start-up data with the others of its job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/process_id.h"
#include "runtime/base/status.h"

namespace weft::boot {

using Blob = std::vector<std::byte>;

/// Job::launcher of jobs that our mpirun starts.
inline constexpr char own_launcher[] = "Weft's mpirun";

/// What a process knows of its job at start. Grows with the ranks of this node, never with the size of the job.
struct Job {
  std::string name;   ///< PMIx namespace, or "singleton.<pid>"
  uint32_t rank = 0;  ///< own rank in MPI_COMM_WORLD
  uint32_t size = 1;
  uint32_t local_rank = 0;           ///< own place among the ranks of this node
  std::vector<uint32_t> node_ranks;  ///< world ranks on this node, ascending, own one included
  uint32_t node_count = 1;
  uint32_t node = 0;           ///< number of this node in the job
  uint32_t universe_size = 1;  ///< MPI_UNIVERSE_SIZE
  int appnum = 0;              ///< MPI_APPNUM, -1 if none
  std::string host;
  std::string folder;               ///< the job's folder for temporary files on this node, empty if none
  std::string secret;               ///< the job's shared secret (authenticates connections), random bytes as hex
  std::string launcher;             ///< for messages: own_launcher, "Slurm", "prterun", "none (singleton)"
  uint32_t cpus = 1;                ///< CPUs that the ranks of this node may use together
  bool same_cpus = false;           ///< have all of them been told the same?
  std::string topology;             ///< the node's hardware as topo::Node::parse reads it, empty if the launcher did not tell
  std::optional<ProcessId> parent;  ///< who has spawned this job
};

/// One program to be spawned.
struct SpawnProgram {
  std::vector<std::string> command;  ///< program and its arguments
  uint32_t ranks = 1;
  std::string folder;                                          ///< working directory; empty: the caller's
  std::string path;                                            ///< folders, with ':' between them, to look for the program in before PATH
  std::vector<std::string> hosts;                              ///< of the job's hosts; empty: where there is room
  std::vector<std::pair<std::string, std::string>> variables;  ///< besides those that mpirun was told to set for the caller
};

struct SpawnSpec {
  std::vector<SpawnProgram> programs;
  std::string map_by;  ///< as for mpirun's --map-by; empty: the default
};

/// Another job as this process knows it.
struct SpawnedJob {
  std::string name;
  uint32_t job = 0;  ///< its number here, for ProcessId
  uint32_t size = 0;
};

/// A bootstrap connects one rank with its job: PMIx, singleton, or the in-process fake of unit tests. Thread-safe.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  virtual const Job& job() const = 0;

  /// Publishes a value under this rank's name; visible to others at once or after the next fence (`shows_at_once`).
  virtual Result<void> put(std::string_view name, std::span<const std::byte> value) = 0;

  /// Fetches what `who` published. Blocks until it is there or the time is over (then a Failure naming rank and key).
  virtual Result<Blob> get(ProcessId who, std::string_view name) = 0;

  /// Asks for it without waiting: nothing as long as there is no answer. To be called again then, now and again, which costs little. Who
  /// has published other values may take as long as it likes; a Failure if one that has published nothing takes too long.
  virtual Result<std::optional<Blob>> look(ProcessId who, std::string_view name);

  /// Waits until all ranks of the job have come here. Publishes what was put. `collect`: move the data as well.
  virtual Result<void> fence(bool collect) = 0;

  /// Host name and node number of a rank (for messages, and for MPI_COMM_TYPE_SHARED); may block shortly.
  virtual Result<std::string> host_of(ProcessId who) = 0;

  /// Ends the whole job: tells the launcher why, does not return if the launcher obeys; the caller exits with `code` otherwise.
  virtual void abort(int code, std::string_view message) = 0;

  /// `callback` is run (on a thread of the bootstrap's) once per process known to have failed.
  virtual void on_failure(std::function<void(ProcessId)> callback) = 0;

  /// Can others see what was put before the next fence? If not, all ranks of the job have to be started together.
  virtual bool shows_at_once() const { return true; }

  /// Names of the process sets that the launcher knows, without mpi://WORLD and mpi://SELF. Asks it each time.
  virtual Result<std::vector<std::string>> process_sets();

  /// Members (world ranks) of such a process set.
  virtual Result<std::vector<uint32_t>> process_set(std::string_view name) = 0;

  /// Starts programs as a job of their own, whose `parent` is this rank. Returns when all of them run, though none may have joined its job
  /// yet. If one cannot be started none is left, and the failure says which and why; this job goes on.
  virtual Result<SpawnedJob> spawn(const SpawnSpec& spec);

  /// The number of a job that is known by name (of a parent, or told by one of its ranks), so that its ranks can be asked by get().
  virtual Result<uint32_t> find_job(std::string_view name);

  /// Leaves the job in good order. No other call after it. Idempotent.
  virtual void finalize() = 0;
};

/// For people: "rank 3 on node7", or the rank alone if its host is not known.
inline std::string name_of(Bootstrap& boot, ProcessId who) {
  const auto host = boot.host_of(who);
  return text_of(who) + (host ? " on " + *host : std::string());
}

/// The bootstrap of this process: PMIx if there is a server to talk to, otherwise a singleton. A foreign launcher that we
/// cannot join is said in one warning line. The result is never null.
Result<std::unique_ptr<Bootstrap>> open();

/// `size` bootstraps joined in one process, for unit tests with ranks as threads. `nodes` > 1 spreads them block-wise over
/// pretended nodes, each with hardware as `topology` describes it (Job::topology), and so many CPUs (0: those of this machine).
std::vector<std::unique_ptr<Bootstrap>> open_fake(uint32_t size, uint32_t nodes = 1, std::string topology = {}, uint32_t cpus = 0);

}  // namespace weft::boot
