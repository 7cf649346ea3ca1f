// The bootstrap over PMI-1 and PMI-2: Hydra's mpiexec (MPICH, Intel MPI) and srun --mpi=pmi2.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "runtime/boot/internal.h"
#include "runtime/boot/pmi/server.h"
#include "runtime/config/config.h"
#include "runtime/topo/cpus.h"

namespace weft::boot {
namespace {

config::Choice protocol("boot", "pmi", "auto", "auto, 1, 2",
                        "The PMI to speak with a launcher without PMIx: 1, 2, or auto: PMI-2 with Slurm, PMI-1 with others.");

constexpr char key_host[] = "host";
constexpr auto patience = std::chrono::seconds(20);  // all values are there after the fence; before it, some servers show them at once

std::string own_host() {
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  return name;
}

Blob bytes_of(std::string_view text) {
  const auto span = std::as_bytes(std::span(text));
  return {span.begin(), span.end()};
}

std::string text_of(const Blob& blob) { return {reinterpret_cast<const char*>(blob.data()), blob.size()}; }

class PmiBootstrap final : public Bootstrap {
 public:
  /// Says no farewell on its own, as with PMIx.
  PmiBootstrap(std::unique_ptr<pmi::Server> server, int fd) : server_(std::move(server)), fd_(fd) {}

  Result<void> start(uint32_t rank, uint32_t size);

  const Job& job() const override { return job_; }

  Result<void> put(std::string_view name, std::span<const std::byte> value) override {
    auto pieces = pmi::cut(job_.rank, name, value, limits_);
    if (!pieces) return pieces.failure();
    std::lock_guard lock(mutex_);
    for (const auto& [key, text] : *pieces)
      if (auto ok = server_->put(key, text); !ok) return ok;
    return {};
  }

  Result<Blob> get(ProcessId who, std::string_view name) override {
    if (who.job != 0 || who.rank >= job_.size) return Failure{"PMI get: no rank " + std::to_string(who.rank) + " in this job"};
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (auto pause = std::chrono::milliseconds(1);; pause = std::min(pause * 2, std::chrono::milliseconds(200))) {
      auto value = find(who.rank, name);
      if (!value) return value.failure();
      if (*value) return std::move(**value);
      if (std::chrono::steady_clock::now() >= deadline)
        return Failure{"rank " + std::to_string(who.rank) + " has not published \"" + std::string(name) +
                       "\". Is it alive and has it called MPI_Init?"};
      std::this_thread::sleep_for(pause);
    }
  }

  Result<void> fence(bool) override {
    std::lock_guard lock(mutex_);
    return server_->fence();
  }

  Result<std::string> host_of(ProcessId who) override {
    if (who.job != 0 || who.rank >= job_.size) return Failure{"no rank " + std::to_string(who.rank) + " in this job"};
    if (std::binary_search(job_.node_ranks.begin(), job_.node_ranks.end(), who.rank)) return job_.host;
    auto host = get(who, key_host);
    if (!host) return host.failure();
    return text_of(*host);
  }

  void abort(int code, std::string_view message) override { server_->abort(code, message); }
  bool shows_at_once() const override { return false; }
  void on_failure(std::function<void(ProcessId)>) override {}  // these protocols tell nobody; the launcher ends the job
  Result<std::vector<uint32_t>> process_set(std::string_view name) override {
    return Failure{"no process set named \"" + std::string(name) + "\" is known to " + job_.launcher};
  }

  void finalize() override {
    std::lock_guard lock(mutex_);
    if (!open_) return;
    open_ = false;
    (void)server_->leave();
  }

 private:
  const std::unique_ptr<pmi::Server> server_;  // calls but abort() are guarded by mutex_
  const int fd_;
  std::mutex mutex_;
  bool open_ = false;
  Job job_;
  pmi::Limits limits_;

  /// All pieces of a value; nothing if the first is not there.
  Result<std::optional<Blob>> find(uint32_t rank, std::string_view name) {
    std::lock_guard lock(mutex_);
    pmi::Joiner joiner;
    for (size_t piece = 0; !joiner.complete(); ++piece) {
      auto text = server_->get(pmi::piece_key(rank, name, piece, limits_));
      if (!text) return text.failure();
      if (!*text && piece == 0) return std::optional<Blob>();
      if (!*text) return Failure{"a part of \"" + std::string(name) + "\" of rank " + std::to_string(rank) + " is not there"};
      if (auto ok = joiner.add(**text); !ok)
        return Failure{"rank " + std::to_string(rank) + ", \"" + std::string(name) + "\": " + ok.failure().text};
    }
    return std::optional<Blob>(joiner.take());
  }

  Result<void> meet();
  Result<void> find_neighbours(const std::string& mapping);
};

std::string launcher_name(const char* spoken) {
  const char* who = getenv("SLURM_STEP_ID")                                ? "Slurm"
                    : getenv("I_MPI_HYDRA_UUID") || getenv("I_MPI_MPIRUN") ? "Hydra of Intel MPI"
                                                                           : "Hydra";
  return std::string(who) + " (" + spoken + ")";
}

Result<void> PmiBootstrap::start(uint32_t rank, uint32_t size) {
  auto facts = server_->greet(rank, size);
  if (!facts) return facts.failure();
  if (facts->rank >= facts->size)
    return Failure{"the PMI server speaks of rank " + std::to_string(facts->rank) + " of " + std::to_string(facts->size)};
  open_ = true;
  fcntl(fd_, F_SETFD, FD_CLOEXEC);  // programs that a rank starts are no ranks
  limits_ = facts->limits;
  job_.rank = facts->rank;
  job_.size = facts->size;
  job_.universe_size = facts->universe ? facts->universe : job_.size;
  job_.appnum = facts->appnum;
  job_.host = own_host();
  job_.launcher = launcher_name(server_->protocol());
  if (auto ok = meet(); !ok) return ok;
  if (auto ok = find_neighbours(facts->mapping); !ok) return ok;
  const uint64_t shares = uint64_t{topo::usable_cpus()} * job_.node_ranks.size();  // each rank may be bound to its part of the node
  job_.cpus = uint32_t(std::min({shares, uint64_t(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN))), uint64_t{topo::cgroup_cpus()}}));
  return {};
}

/// What all have to know of each other, which is visible after a fence only. Rank 0 makes the secret, which the launcher hands to the job's
/// processes alone, and a name: those of launchers ("7.0" of Slurm, "kvs_123_0") are unique to these only.
Result<void> PmiBootstrap::meet() {
  constexpr size_t name_size = 16;
  if (auto ok = put(key_host, bytes_of(job_.host)); !ok) return ok;
  if (job_.rank == 0)
    if (auto ok = put(key_secret, bytes_of(random_secret().substr(0, name_size) + random_secret())); !ok) return ok;
  if (auto ok = fence(true); !ok) return ok;
  auto both = get(ProcessId{0, 0}, key_secret);
  if (!both) return both.failure();
  const std::string text = text_of(*both);
  if (text.size() < name_size + 32 || text.find_first_not_of("0123456789abcdef") != text.npos)
    return Failure{"rank 0 has published no secret"};
  job_.name = "pmi." + text.substr(0, name_size);
  job_.secret = text.substr(name_size);
  return {};
}

/// By the launcher's mapping, otherwise by the hosts' names.
Result<void> PmiBootstrap::find_neighbours(const std::string& mapping) {
  auto place = pmi::parse_mapping(mapping, job_.rank, job_.size);
  if (!place) {
    place.emplace();
    std::vector<std::string> hosts;
    for (uint32_t r = 0; r < job_.size; ++r) {
      auto host = get(ProcessId{0, r}, key_host);
      if (!host) return host.failure();
      const std::string name = text_of(*host);
      if (name == job_.host) place->node_ranks.push_back(r);
      if (std::find(hosts.begin(), hosts.end(), name) == hosts.end()) hosts.push_back(name);
    }
    place->node_count = uint32_t(hosts.size());
    place->node = uint32_t(std::find(hosts.begin(), hosts.end(), job_.host) - hosts.begin());
  }
  job_.node = place->node;
  job_.node_count = place->node_count;
  job_.node_ranks = std::move(place->node_ranks);
  job_.local_rank = uint32_t(std::lower_bound(job_.node_ranks.begin(), job_.node_ranks.end(), job_.rank) - job_.node_ranks.begin());
  return {};
}

/// A number of the environment and nothing else.
std::optional<uint32_t> env_number(const char* name) {
  const char* text = getenv(name);
  if (!text || !isdigit(static_cast<unsigned char>(*text))) return {};
  char* end;
  const unsigned long value = strtoul(text, &end, 10);
  if (*end || value >= 1ul << 24) return {};
  return uint32_t(value);
}

}  // namespace

bool has_pmi() {
  const auto fd = env_number("PMI_FD"), rank = env_number("PMI_RANK"), size = env_number("PMI_SIZE");
  struct stat about;  // the number may mean another file by now
  return fd && rank && size && *rank < *size && fstat(int(*fd), &about) == 0 && S_ISSOCK(about.st_mode);
}

Result<std::unique_ptr<Bootstrap>> open_pmi() {
  if (!has_pmi()) return Failure{"the environment names no PMI server"};
  const int fd = int(*env_number("PMI_FD"));
  const std::string& wish = protocol.get();
  const bool second = wish == "auto" ? getenv("SLURM_STEP_ID") && getenv("PMI_JOBID") : wish == "2";
  auto boot = std::make_unique<PmiBootstrap>(second ? pmi::speak_pmi2(fd) : pmi::speak_pmi1(fd), fd);
  if (auto ok = boot->start(*env_number("PMI_RANK"), *env_number("PMI_SIZE")); !ok) return ok.failure();
  return std::unique_ptr<Bootstrap>(std::move(boot));
}

}  // namespace weft::boot
