#include <sys/statvfs.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "runtime/base/log.h"
#include "runtime/boot/internal.h"

namespace weft::boot {
namespace {

/// An integer variable of the environment above `least`?
bool env_above(const char* name, long least) {
  const char* text = getenv(name);
  return text && strtol(text, nullptr, 10) > least;
}

constexpr char weft_launcher[] = "Weft's mpirun";

/// Whether others of the same launch, whom we cannot reach, say the same: the first of them speaks for all.
bool another_speaks() { return env_above("SLURM_PROCID", 0) || env_above("OMPI_COMM_WORLD_RANK", 0) || env_above("PMI_RANK", 0); }

/// Is this process's namespace a job of our mpirun, or was it spawned in one?
bool of_ours() {
  const char *job = getenv("WEFT_JOB"), *space = getenv("PMIX_NAMESPACE");
  const size_t length = job ? strlen(job) : 0;
  return job && space && !strncmp(job, space, length) && (!space[length] || space[length] == '.');
}

/// "; FOLDER is full" or nearly so, if that may be why PMIx has failed, which only says "error" then.
std::string full_folder() {
  const char* folder = getenv("PMIX_SERVER_TMPDIR");
  struct statvfs about;
  if (!folder || statvfs(folder, &about) || !about.f_blocks) return "";
  const uint64_t kilobytes = uint64_t{about.f_bavail} * about.f_frsize / 1024;
  if (!kilobytes) return std::string("; ") + folder + " is full";
  return kilobytes < 1024 ? std::string("; ") + folder + " is nearly full: " + std::to_string(kilobytes) + " kB are left" : "";
}

}  // namespace

std::string foreign_launcher() {
  if (env_above("SLURM_NTASKS", 1) && getenv("SLURM_PROCID")) {
    // mpirun inside an allocation also has SLURM_NTASKS; a step started by srun has SLURM_STEP_ID too
    if (getenv("SLURM_STEP_ID")) return "srun (without --mpi=pmix or --mpi=pmi2)";
  }
  if (getenv("PMI_FD") || getenv("PMI_PORT")) return env_above("PMI_SIZE", 1) ? "a PMI launcher" : "";
  if (env_above("OMPI_COMM_WORLD_SIZE", 1)) return getenv("WEFT_JOB") ? weft_launcher : "Open MPI's mpirun";
  if (env_above("PMI_SIZE", 1)) return getenv("WEFT_JOB") ? weft_launcher : "a PMI launcher";
  if (env_above("PALS_LOCAL_SIZE", 1)) return "PALS";
  if (env_above("JSM_NAMESPACE_SIZE", 1)) return "jsrun";
  return "";
}

Result<SpawnedJob> Bootstrap::spawn(const SpawnSpec&) { return Failure{"processes cannot be spawned under " + job().launcher}; }

Result<std::optional<Blob>> Bootstrap::look(ProcessId who, std::string_view name) {
  auto value = get(who, name);
  if (!value) return value.failure();
  return std::optional<Blob>(std::move(*value));
}

Result<std::vector<std::string>> Bootstrap::process_sets() { return std::vector<std::string>(); }

Result<uint32_t> Bootstrap::find_job(std::string_view name) {
  if (name == job().name) return 0u;
  return Failure{"job " + std::string(name) + " is not known here"};
}

Result<std::unique_ptr<Bootstrap>> open() {
  // Our mpirun lets no PMI_FD pass: in a job of ours it is that of another launcher, which a rank has started.
  const bool inner = has_pmi() && getenv("WEFT_JOB");
  if (getenv("PMIX_NAMESPACE") && !inner) {
    auto joined = open_pmix();
    // A member of the job cannot go on alone: the others wait for it. Nor with others that cannot prove who they are.
    if (joined && (*joined)->job().secret.empty()) return Failure{"the ranks have no secret in common by which they would know each other"};
    if (joined) return joined;
    const std::string why = "cannot join the job that this process was started in (" + joined.failure().text + full_folder() + ")";
    // The other ranks wait for this one. Foreign launchers start what is no MPI program of theirs as well.
    if (of_ours() && env_above("OMPI_COMM_WORLD_SIZE", 1)) return Failure{why + "; without PMIX_NAMESPACE it would run alone"};
    log(Level::warning, "%s; it runs alone, as rank 0 of 1", why.c_str());
    return open_singleton();
  }
  if (has_pmi()) {
    static std::atomic<bool> once{false};
    if (once) return Failure{"MPI_Finalize has left it, and over PMI a process can join once; a session opened earlier would have kept it"};
    auto joined = open_pmi();
    if (joined) once = true;
    if (joined) return joined;
    log(Level::warning, "cannot join the job that this process was started in (%s); it runs alone, as rank 0 of 1",
        joined.failure().text.c_str());
    return open_singleton();
  }
  if (const std::string who = foreign_launcher(); !who.empty() && !another_speaks()) {
    if (who == weft_launcher)
      log(Level::warning,
          "started by Weft's mpirun, but something on the way (sudo, a container, a script) has removed the variables PMIX_*: each "
          "process runs alone, as rank 0 of 1. Pass these variables on.");
    else
      log(Level::warning,
          "started by %s, which offers no PMIx server and no PMI_FD: each process runs alone, as rank 0 of 1. "
          "Start it with Weft's mpirun, srun --mpi=pmix or --mpi=pmi2, prterun, or mpiexec of MPICH or Intel MPI.",
          who.c_str());
  }
  return open_singleton();
}

}  // namespace weft::boot
