// What a lane sees of the job.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "runtime/boot/boot.h"

namespace weft::pml {

/// The job as one lane's transports see it: this process is its seat, and what is put and got belongs to seats.
class SeatBootstrap final : public boot::Bootstrap {
 public:
  SeatBootstrap(boot::Bootstrap& boot, uint32_t number) : boot_(boot), number_(number) {
    if (!number) return;
    job_ = boot.job();
    job_.rank = seat_of({0, job_.rank}, number).rank;
  }
  const boot::Job& job() const override { return number_ ? job_ : boot_.job(); }
  Result<void> put(std::string_view name, std::span<const std::byte> value) override { return boot_.put(key(name, number_), value); }
  Result<boot::Blob> get(ProcessId who, std::string_view name) override {
    return boot_.get(process_of(who), key(name, number_of(who.rank)));
  }
  Result<void> fence(bool collect) override { return boot_.fence(collect); }
  Result<std::string> host_of(ProcessId who) override { return boot_.host_of(process_of(who)); }
  void abort(int code, std::string_view message) override { boot_.abort(code, message); }
  void on_failure(std::function<void(ProcessId)>) override {}  // Lanes tells all of them
  Result<std::vector<uint32_t>> process_set(std::string_view name) override { return boot_.process_set(name); }
  Result<boot::SpawnedJob> spawn(const boot::SpawnSpec& spec) override { return boot_.spawn(spec); }
  Result<uint32_t> find_job(std::string_view name) override { return boot_.find_job(name); }
  void finalize() override {}  // the process does that

 private:
  static std::string key(std::string_view name, uint32_t number) {
    return number ? std::string(name) + "." + std::to_string(number) : std::string(name);
  }
  boot::Bootstrap& boot_;
  boot::Job job_;  // of seats but the first
  uint32_t number_;
};

}  // namespace weft::pml
