#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "runtime/boot/internal.h"
#include "runtime/topo/cpus.h"

namespace weft::boot {
namespace {

std::string host_name() {
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  return name;
}

class Singleton final : public Bootstrap {
 public:
  Singleton() {
    job_.name = "singleton." + std::to_string(getpid());
    job_.node_ranks = {0};
    job_.appnum = -1;
    job_.host = host_name();
    job_.secret = random_secret();
    job_.launcher = "none (singleton)";
    job_.cpus = topo::usable_cpus();
  }

  const Job& job() const override { return job_; }

  Result<void> put(std::string_view name, std::span<const std::byte> value) override {
    std::lock_guard lock(mutex_);
    values_.insert_or_assign(std::string(name), Blob(value.begin(), value.end()));
    return joined_ ? joined_->put(name, value) : Result<void>{};
  }

  Result<Blob> get(ProcessId who, std::string_view name) override {
    if (Bootstrap* joined = who.job ? this->joined() : nullptr) return joined->get(who, name);
    if (who != ProcessId{}) return Failure{"rank " + std::to_string(who.rank) + " does not exist: this process runs alone"};
    std::lock_guard lock(mutex_);
    auto found = values_.find(name);
    if (found == values_.end()) return Failure{"nobody put \"" + std::string(name) + "\""};
    return found->second;
  }

  Result<void> fence(bool) override { return {}; }

  Result<std::string> host_of(ProcessId who) override {
    if (who != ProcessId{}) return Failure{"rank " + std::to_string(who.rank) + " does not exist: this process runs alone"};
    return job_.host;
  }

  void abort(int code, std::string_view message) override {
    if (Bootstrap* joined = this->joined()) joined->abort(code, message);  // otherwise nobody is to be told; the caller exits
  }
  void on_failure(std::function<void(ProcessId)>) override {}
  Result<std::vector<uint32_t>> process_set(std::string_view name) override {
    return Failure{"no process set named \"" + std::string(name) + "\""};
  }
  Result<SpawnedJob> spawn(const SpawnSpec& spec) override {
    if (auto ok = join(); !ok) return ok.failure();
    return joined()->spawn(spec);
  }
  Result<uint32_t> find_job(std::string_view name) override {
    if (Bootstrap* joined = this->joined()) return joined->find_job(name);
    return Bootstrap::find_job(name);
  }
  void finalize() override {
    if (Bootstrap* joined = this->joined()) joined->finalize();
  }

 private:
  Job job_;
  std::mutex mutex_;
  std::map<std::string, Blob, std::less<>> values_;  // guarded by mutex_
  std::unique_ptr<Bootstrap> joined_;                // guarded by mutex_ until it is there; then it stays
  std::string refused_;                              // guarded by mutex_: why there will be none

  Bootstrap* joined() {
    std::lock_guard lock(mutex_);
    return joined_.get();
  }
  /// Gets a launcher, if there is none yet, and tells it what was published so far.
  Result<void> join() {
    std::lock_guard lock(mutex_);
    if (joined_) return {};
    if (!refused_.empty()) return Failure{refused_};
    auto opened = open_own_launcher(job_.secret);
    if (!opened) {
      refused_ = opened.failure().text;
      return opened.failure();
    }
    joined_ = std::move(*opened);
    for (const auto& [name, value] : values_)
      if (auto ok = joined_->put(name, value); !ok) return ok;
    return {};
  }
};

}  // namespace

std::string random_secret() {
  unsigned char bytes[32];
  for (size_t got = 0; got < sizeof bytes;) {
    const ssize_t n = getrandom(bytes + got, sizeof bytes - got, 0);
    if (n > 0) got += size_t(n);
  }
  std::string hex;
  for (unsigned char b : bytes) {
    hex += "0123456789abcdef"[b >> 4];
    hex += "0123456789abcdef"[b & 15];
  }
  return hex;
}

std::unique_ptr<Bootstrap> open_singleton() { return std::make_unique<Singleton>(); }

}  // namespace weft::boot
