// Real memory, freed and mapped anew in all the ways there are. Skipped where userfaultfd is forbidden.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "runtime/mem/registration.h"

using namespace weft;
using namespace weft::mem;

namespace {

const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));

std::byte* map(size_t bytes, void* at = nullptr, int fd = -1) {
  void* got = mmap(at, bytes, PROT_READ | PROT_WRITE, (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | (at ? MAP_FIXED : 0), fd, 0);
  REQUIRE(got != MAP_FAILED);
  return static_cast<std::byte*>(got);
}

bool heard(Watcher& watcher, Range of) {
  std::vector<Range> changed;
  if (!watcher.collect(changed)) return true;
  return std::ranges::any_of(changed, [&](Range r) { return r.overlaps(of); });
}

#define WATCHER_OR_SKIP(name)            \
  std::string why;                       \
  const auto name = watch_process(&why); \
  if (!name) {                           \
    WARN("skipped: " << why);            \
    return;                              \
  }

}  // namespace

TEST_CASE("Every way to lose memory is noticed before the call returns") {
  WATCHER_OR_SKIP(watcher)
  const size_t bytes = 16 * page;
  std::byte* memory = map(bytes);
  memset(memory, 1, bytes);
  const Range range = Range::of(memory, bytes);
  REQUIRE(watcher->watch(range));
  CHECK(!heard(*watcher, range));
  CHECK(!watcher->pending());

  SECTION("munmap") {
    munmap(memory + page, page);
    CHECK(watcher->pending());
    CHECK(heard(*watcher, Range::of(memory + page, page)));
    munmap(memory, bytes);
  }
  SECTION("mapping over it") {
    map(page, memory + 2 * page);
    CHECK(heard(*watcher, Range::of(memory + 2 * page, page)));
    munmap(memory, bytes);
  }
  SECTION("mremap to elsewhere") {
    std::byte* target = map(2 * bytes);
    void* moved = mremap(memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    REQUIRE(moved == target);
    CHECK(heard(*watcher, range));
    munmap(moved, 2 * bytes);
  }
  SECTION("mremap to less") {
    REQUIRE(mremap(memory, bytes, bytes / 2, 0) == memory);
    CHECK(heard(*watcher, Range::of(memory + bytes / 2, bytes / 2)));
    munmap(memory, bytes / 2);
  }
  SECTION("emptied") {
    madvise(memory, page, MADV_DONTNEED);
    CHECK(heard(*watcher, Range::of(memory, page)));
    CHECK(memory[0] == std::byte{0});
    munmap(memory, bytes);
  }
  SECTION("nothing after unwatch, nothing of the neighbours") {
    std::byte* neighbour = map(page);
    munmap(neighbour, page);
    CHECK(!heard(*watcher, range));
    watcher->unwatch(range);
    munmap(memory, bytes);
    CHECK(!heard(*watcher, range));
  }
}

TEST_CASE("The heap's shrinking is noticed") {
  WATCHER_OR_SKIP(watcher)
  auto* start = static_cast<std::byte*>(sbrk(0));
  start += (page - reinterpret_cast<uintptr_t>(start) % page) % page;
  if (brk(start + 8 * page) != 0) {
    WARN("skipped: no room for the heap to grow");
    return;
  }
  memset(start, 1, 8 * page);
  const Range range = Range::of(start + 4 * page, 4 * page);
  REQUIRE(watcher->watch(range));
  REQUIRE(brk(start + 4 * page) == 0);
  CHECK(heard(*watcher, range));
}

TEST_CASE("Shared memory is watched, or said not to be") {
  WATCHER_OR_SKIP(watcher)
  const int fd = memfd_create("watched", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  REQUIRE(ftruncate(fd, static_cast<off_t>(4 * page)) == 0);
  std::byte* memory = map(4 * page, nullptr, fd);
  if (watcher->watch(Range::of(memory, 4 * page))) {
    munmap(memory, 4 * page);
    CHECK(heard(*watcher, Range::of(memory, 4 * page)));
  } else {
    munmap(memory, 4 * page);
  }
  close(fd);
}

TEST_CASE("More news than fit are said to be lost") {
  WATCHER_OR_SKIP(watcher)
  const size_t count = 2000;
  std::byte* memory = map(count * page);
  REQUIRE(watcher->watch(Range::of(memory, count * page)));
  for (size_t i = 0; i < count; ++i) madvise(memory + i * page, page, MADV_DONTNEED);
  std::vector<Range> changed;
  CHECK(!watcher->collect(changed));
  CHECK(changed.size() < count);
  changed.clear();
  CHECK(watcher->collect(changed));
  CHECK(changed.empty());
  munmap(memory, count * page);
}

TEST_CASE("A cache over real memory never gives out what was mapped anew, while other threads map and free") {
  WATCHER_OR_SKIP(probe)
  /// Reads what lies in the memory when it is enrolled, as a device would fix the pages.
  struct Device : Registrar {
    Result<void*> enroll(Range r, bool, const DmaBuf*) override {
      auto* copy = new std::byte[r.size()];
      memcpy(copy, reinterpret_cast<void*>(r.begin), r.size());
      return static_cast<void*>(copy);
    }
    void dismiss(void* handle) override { delete[] static_cast<std::byte*>(handle); }
  } device;
  RegistrationCache cache(watch_process(), {64 << 20, 64});
  REQUIRE(cache.add(device));
  std::atomic<bool> stop{false};
  std::thread noise([&] {
    std::mt19937 random(1);
    while (!stop) {
      std::vector<char*> blocks;
      for (int i = 0; i < 20; ++i) blocks.push_back(new char[4096 + random() % 300000]);
      for (char* block : blocks) delete[] block;
    }
  });
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (uint8_t round = 1; round < 200; ++round) {
    const size_t pages = 1 + random() % 8;
    std::byte* memory = map(pages * page);  // most likely where the last one was
    memset(memory, round, pages * page);
    auto r = cache.acquire(Range::of(memory, pages * page), 0, true);
    REQUIRE(r);
    const auto* seen = static_cast<std::byte*>((*r)->handles[0]) + (reinterpret_cast<uintptr_t>(memory) - (*r)->range.begin);
    REQUIRE(seen[0] == std::byte{round});
    REQUIRE(seen[pages * page - 1] == std::byte{round});
    cache.release(*r);
    auto again = cache.acquire(Range::of(memory, page), 0, true);
    REQUIRE(again);
    cache.release(*again);
    munmap(memory, pages * page);
  }
  stop = true;
  noise.join();
  CHECK(cache.counters().hits >= 190);
  CHECK(cache.counters().changed > 0);
}
