// Copies that two processes make together.
#include "btl/copy/joint.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "btl/copy/cma.h"

using namespace weft;
using namespace weft::btl;
using namespace weft::btl::copy;

namespace {

struct Flag final : Operation {};

std::vector<std::byte> random_bytes(size_t n, std::mt19937& random) {
  std::vector<std::byte> data(n);
  for (auto& b : data) b = std::byte(random());
  return data;
}

/// Reads all of it, and tells of each step.
template <class Step>
Status read_jointly(JointReader& joint, pid_t peer, const std::vector<std::byte>& from, std::vector<std::byte>& to, Step step) {
  Flag done;
  const iovec local{to.data(), to.size()};
  Transfer transfer(Direction::read, peer, reinterpret_cast<uint64_t>(from.data()), {&local, 1}, done);
  REQUIRE(transfer.can_be_shared());
  transfer.share(joint);
  Status status = Status::again;
  while (status == Status::again) {
    step();
    status = transfer.advance(512 << 10);
  }
  CHECK(joint.is_free());
  return status;
}

}  // namespace

TEST_CASE("joint: a reader whose peer has no time copies all by itself", "[shm]") {
  Joint joint{};
  JointReader reader(&joint);
  std::mt19937 random(1);
  for (const size_t bytes : {size_t{64} << 10, (size_t{64} << 10) + 1, size_t{5'000'001}}) {
    const auto from = random_bytes(bytes, random);
    std::vector<std::byte> to(bytes);
    CHECK(read_jointly(reader, 0, from, to, [] {}) == Status::ok);
    CHECK(to == from);
    CHECK(help(joint, 0, 1 << 20) == Status::ok);  // there is nothing to do
  }
}

TEST_CASE("joint: who has the data takes part when it comes, with what is left then", "[shm]") {
  Joint joint{};
  JointReader reader(&joint);
  std::mt19937 random(2);
  const auto from = random_bytes(3'000'000, random);
  for (int late = 0; late < 8; ++late) {
    std::vector<std::byte> to(from.size());
    int steps = 0;
    uint64_t written = 0;
    CHECK(read_jointly(reader, 0, from, to, [&] {
            if (steps++ != late) return;
            while (help(joint, 0, 256 << 10) == Status::again) {
            }
            written = joint.written.load() & 0xfffff;
          }) == Status::ok);
    CHECK(to == from);
    if (late == 0) CHECK(written == (from.size() + 4095) / 4096);
    if (late > 0 && late < steps) CHECK(written < (from.size() + 4095) / 4096);
    CHECK((steps > 1) == (late > 0));
  }
}

TEST_CASE("joint: two threads share out many copies", "[shm]") {
  Joint joint{};
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto data = random_bytes(4 << 20, random);
  std::atomic<bool> over = false;
  std::atomic<uint64_t> parts = 0;
  std::thread owner([&] {
    while (!over.load()) {
      const uint64_t before = joint.claims.load() & 0xfffff;
      help(joint, 0, 512 << 10);
      parts += (joint.claims.load() & 0xfffff) > before;
      std::this_thread::yield();
    }
  });
  JointReader reader(&joint);
  int wrong = 0;
  for (int i = 0; i < 300; ++i) {
    const size_t bytes = (64 << 10) + random() % (i % 10 ? 300'000 : 3'900'000);
    const std::vector<std::byte> from(data.begin(), data.begin() + static_cast<ptrdiff_t>(bytes));
    std::vector<std::byte> to(bytes);
    wrong += read_jointly(reader, 0, from, to, [] { std::this_thread::yield(); }) != Status::ok || to != from;
  }
  over = true;
  owner.join();
  CHECK(wrong == 0);
  CHECK(parts > 0);
}

TEST_CASE("joint: what cannot be written the reader reads, and damaged words keep it from nothing", "[shm]") {
  Joint joint{};
  JointReader reader(&joint);
  std::mt19937 random(3);
  const auto from = random_bytes(1'500'000, random);
  const auto copies_in_spite_of = [&](auto damage) {
    std::vector<std::byte> to(from.size());
    bool first = true;
    CHECK(read_jointly(reader, getpid(), from, to, [&] {
            if (!std::exchange(first, false)) damage();
          }) == Status::ok);
    CHECK(to == from);
  };
  copies_in_spite_of([&] {
    joint.to.store(8);  // the kernel refuses it
    CHECK(help(joint, getpid(), 1 << 20) == Status::failed);
  });
  copies_in_spite_of([&] { joint.claims.store(random()); });
  copies_in_spite_of([&] { joint.claims.fetch_or(0xfffff); });
  copies_in_spite_of([&] { joint.claims.fetch_add(uint64_t{1} << 20); });
  copies_in_spite_of([&] {
    joint.bytes.store(uint64_t{1} << 40);
    CHECK(help(joint, getpid(), 1 << 20) != Status::ok);
    joint.claims.fetch_or(0xfffff);
  });
}

TEST_CASE("joint: a peer that ends before it has written what it had claimed is told of", "[shm]") {
  auto* const joint = static_cast<Joint*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(joint != MAP_FAILED);
  std::mt19937 random(4);
  const auto from = random_bytes(1'000'000, random);
  // While a copy is being described all of it counts as claimed; what is claimed then is forgotten.
  const auto is_unclaimed = [joint] {
    const uint64_t claims = joint->claims.load();
    return claims >> 40 && !(claims & 0xfffff);
  };
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    while (!is_unclaimed()) usleep(1000);
    joint->claims.fetch_add(4);
    usleep(20'000);
    _exit(0);
  }
  JointReader reader(joint);
  std::vector<std::byte> to(from.size());
  bool claimed = false;
  // The child has the same memory at the same place.
  const Status status = read_jointly(reader, child, from, to, [&] {
    while (!claimed && is_unclaimed()) usleep(100);
    claimed = true;
  });
  const bool may_read = can_read(getpid(), reinterpret_cast<uint64_t>(from.data()), std::span(from).first(8));
  CHECK((status == Status::peer_failed || !may_read));
  waitpid(child, nullptr, 0);
  munmap(joint, 4096);
}
