#include "runtime/boot/fake.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace weft::boot {
namespace {

using Callback = std::function<void(ProcessId)>;

/// What the ranks of one fake job share. Everything below `mutex_` is guarded by it.
class World final : public FakeJob {
 public:
  World(uint32_t size, uint32_t nodes, std::string topology, uint32_t cpus)
      : size_(size),
        nodes_(nodes),
        cpus_(cpus),
        topology_(std::move(topology)),
        staged_(size),
        dead_(size),
        failing_(size),
        callbacks_(size) {}

  Job describe(uint32_t rank) const;
  void put(uint32_t rank, std::string_view name, std::span<const std::byte> value);
  Result<Blob> get(uint32_t me, uint32_t who, std::string_view name);
  std::optional<Blob> look(uint32_t who, std::string_view name);
  Result<void> fence(uint32_t rank);
  Result<void> injected(uint32_t rank);
  void abort(uint32_t rank, int code, std::string_view message);
  void on_failure(uint32_t rank, Callback callback);
  uint32_t node_of(uint32_t rank) const { return uint32_t(uint64_t{rank} * nodes_ / size_); }
  uint32_t size() const { return size_; }

  void kill(uint32_t rank) override;
  void fail_next(uint32_t rank, uint32_t times) override;
  void set_patience(std::chrono::milliseconds patience) override;
  std::optional<Abort> aborted() const override;

 private:
  using Store = std::map<std::string, Blob, std::less<>>;

  const uint32_t size_, nodes_, cpus_;
  const std::string topology_;
  const std::string name_ = unique_name();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Store> staged_;
  std::vector<bool> dead_;
  std::vector<uint32_t> failing_;
  std::vector<Callback> callbacks_;
  std::chrono::milliseconds patience_{10'000};
  std::optional<Abort> abort_;
  uint32_t arrived_ = 0, dead_count_ = 0;
  uint64_t generation_ = 0;

  static std::string unique_name() {
    static std::atomic<uint32_t> next{0};
    return "fake." + std::to_string(getpid()) + "." + std::to_string(next++);
  }
};

Job World::describe(uint32_t rank) const {
  Job job;
  job.name = name_;
  job.rank = rank;
  job.size = size_;
  job.node = node_of(rank);
  job.node_count = nodes_;
  for (uint32_t r = 0; r < size_; r++) {
    if (node_of(r) != job.node) continue;
    if (r == rank) job.local_rank = uint32_t(job.node_ranks.size());
    job.node_ranks.push_back(r);
  }
  job.universe_size = size_;
  job.host = "node" + std::to_string(job.node);
  job.secret = std::string(64, 'f');
  job.launcher = "in-process fake";
  job.topology = topology_;
  job.same_cpus = cpus_ > 0;
  job.cpus = cpus_ ? cpus_ : std::max(1u, std::thread::hardware_concurrency());
  return job;
}

void World::put(uint32_t rank, std::string_view name, std::span<const std::byte> value) {
  std::lock_guard lock(mutex_);
  staged_[rank].insert_or_assign(std::string(name), Blob(value.begin(), value.end()));
  changed_.notify_all();
}

Result<Blob> World::get(uint32_t me, uint32_t who, std::string_view name) {
  std::unique_lock lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  for (;;) {
    if (auto found = staged_[who].find(name); found != staged_[who].end()) return found->second;
    const std::string what = "get of \"" + std::string(name) + "\" of rank " + std::to_string(who) + " by rank " + std::to_string(me);
    if (dead_[who]) return Failure{what + ": that rank has failed"};
    if (abort_) return Failure{what + ": the job is being aborted"};
    if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) return Failure{what + ": nobody put it in time"};
  }
}

std::optional<Blob> World::look(uint32_t who, std::string_view name) {
  std::lock_guard lock(mutex_);
  const auto found = staged_[who].find(name);
  return found == staged_[who].end() ? std::nullopt : std::optional(found->second);
}

Result<void> World::fence(uint32_t rank) {
  std::unique_lock lock(mutex_);
  const uint64_t mine = generation_;
  if (++arrived_ == size_ && !dead_count_) {
    arrived_ = 0;
    generation_++;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return generation_ != mine || dead_count_ || abort_; });
  if (generation_ != mine) return {};
  return Failure{abort_ ? "fence: the job is being aborted" : "fence of rank " + std::to_string(rank) + ": another rank has failed"};
}

Result<void> World::injected(uint32_t rank) {
  std::lock_guard lock(mutex_);
  if (!failing_[rank]) return {};
  failing_[rank]--;
  return Failure{"fault injected into rank " + std::to_string(rank)};
}

void World::abort(uint32_t rank, int code, std::string_view message) {
  std::lock_guard lock(mutex_);
  if (!abort_) abort_ = Abort{rank, code, std::string(message)};
  changed_.notify_all();
}

void World::on_failure(uint32_t rank, Callback callback) {
  std::vector<uint32_t> already;
  {
    std::lock_guard lock(mutex_);
    callbacks_[rank] = callback;
    if (!callback) return;
    for (uint32_t r = 0; r < size_; r++)
      if (dead_[r]) already.push_back(r);
  }
  for (uint32_t r : already) callback(ProcessId{0, r});
}

void World::kill(uint32_t rank) {
  std::vector<Callback> tell;
  {
    std::lock_guard lock(mutex_);
    if (dead_[rank]) return;
    dead_[rank] = true;
    dead_count_++;
    for (uint32_t r = 0; r < size_; r++)
      if (!dead_[r] && callbacks_[r]) tell.push_back(callbacks_[r]);
    changed_.notify_all();
  }
  for (auto& callback : tell) callback(ProcessId{0, rank});
}

void World::fail_next(uint32_t rank, uint32_t times) {
  std::lock_guard lock(mutex_);
  failing_[rank] = times;
}

void World::set_patience(std::chrono::milliseconds patience) {
  std::lock_guard lock(mutex_);
  patience_ = patience;
}

std::optional<FakeJob::Abort> World::aborted() const {
  std::lock_guard lock(mutex_);
  return abort_;
}

class FakeBootstrap final : public Bootstrap {
 public:
  FakeBootstrap(std::shared_ptr<World> world, uint32_t rank) : world_(std::move(world)), job_(world_->describe(rank)) {}

  const Job& job() const override { return job_; }

  Result<void> put(std::string_view name, std::span<const std::byte> value) override {
    if (auto ok = world_->injected(job_.rank); !ok) return ok;
    world_->put(job_.rank, name, value);
    return {};
  }

  Result<Blob> get(ProcessId who, std::string_view name) override {
    if (auto ok = world_->injected(job_.rank); !ok) return ok.failure();
    if (who.job != 0 || who.rank >= job_.size) return Failure{"get: no rank " + std::to_string(who.rank) + " in this job"};
    return world_->get(job_.rank, who.rank, name);
  }

  Result<std::optional<Blob>> look(ProcessId who, std::string_view name) override {
    if (who.job != 0 || who.rank >= job_.size) return Failure{"look: no rank " + std::to_string(who.rank) + " in this job"};
    return world_->look(who.rank, name);
  }

  Result<void> fence(bool) override {
    if (auto ok = world_->injected(job_.rank); !ok) return ok;
    return world_->fence(job_.rank);
  }

  Result<std::string> host_of(ProcessId who) override {
    if (who.job != 0 || who.rank >= job_.size) return Failure{"no rank " + std::to_string(who.rank) + " in this job"};
    return "node" + std::to_string(world_->node_of(who.rank));
  }

  void abort(int code, std::string_view message) override { world_->abort(job_.rank, code, message); }
  void on_failure(Callback callback) override { world_->on_failure(job_.rank, std::move(callback)); }
  Result<std::vector<uint32_t>> process_set(std::string_view name) override {
    return Failure{"no process set named \"" + std::string(name) + "\""};
  }
  void finalize() override { world_->on_failure(job_.rank, nullptr); }

 private:
  std::shared_ptr<World> world_;
  Job job_;
};

}  // namespace

Fake open_fake_job(uint32_t size, uint32_t nodes, std::string topology, uint32_t cpus) {
  auto world = std::make_shared<World>(size, std::clamp(nodes, 1u, size), std::move(topology), cpus);
  Fake fake{{}, world};
  for (uint32_t rank = 0; rank < size; rank++) fake.ranks.push_back(std::make_unique<FakeBootstrap>(world, rank));
  return fake;
}

std::vector<std::unique_ptr<Bootstrap>> open_fake(uint32_t size, uint32_t nodes, std::string topology, uint32_t cpus) {
  return open_fake_job(size, nodes, std::move(topology), cpus).ranks;
}

}  // namespace weft::boot
