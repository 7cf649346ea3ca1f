// What a rank pays at start does not grow with its job.
#include <malloc.h>

#include <catch2/catch.hpp>
#include <numeric>

#include "comm/comm.h"

using namespace weft;

namespace {

/// Rank 0 of a job whose other ranks are only said to exist; counts what is asked of it.
class Pretended final : public boot::Bootstrap {
 public:
  explicit Pretended(uint32_t size) {
    job_.name = "pretended";
    job_.size = size;
    job_.node_ranks = {0, 1, 2, 3};
    job_.node_count = size / 4;
    job_.universe_size = size;
    job_.host = "here";
    job_.secret = "00";
    job_.cpus = 4;
    job_.launcher = boot::own_launcher;  // others have their ranks ask each other
  }
  const boot::Job& job() const override { return job_; }
  Result<void> put(std::string_view, std::span<const std::byte>) override { return asked(); }
  Result<boot::Blob> get(ProcessId, std::string_view) override {
    ++calls;
    return Failure{"that rank is only said to exist"};
  }
  Result<void> fence(bool) override { return asked(); }
  Result<std::string> host_of(ProcessId) override {
    ++calls;
    return std::string("there");
  }
  void abort(int, std::string_view) override {}
  void on_failure(std::function<void(ProcessId)>) override { ++calls; }
  Result<std::vector<uint32_t>> process_set(std::string_view) override { return Failure{"there is none"}; }
  void finalize() override {}

  static int calls;

 private:
  static Result<void> asked() {
    ++calls;
    return {};
  }
  boot::Job job_;
};
int Pretended::calls = 0;

struct Cost {
  size_t bytes;
  int calls;
};

/// Heap held by an open instance, and calls to its bootstrap.
Cost cost_of_start(uint32_t size) {
  const auto held = [] {
    const struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
  };
  Pretended::calls = 0;
  const size_t before = held();
  auto instance = comm::Instance::open(std::make_unique<Pretended>(size), false);
  REQUIRE(instance);
  REQUIRE((*instance)->meet());
  const size_t after = held();
  CHECK((*instance)->world()->size() == static_cast<int>(size));
  const Cost cost{after - before, Pretended::calls};
  CHECK((*instance)->close() == Status::ok);
  return cost;
}

}  // namespace

TEST_CASE("start-up of one rank costs the same in a job of 4 and of 16,384") {
  cost_of_start(4);  // what is made once in a process
  const Cost small = cost_of_start(4), large = cost_of_start(16384);
  CHECK(large.calls == small.calls);
  CHECK(large.calls < 20);
  CHECK(large.bytes <= small.bytes + 1024);
}
