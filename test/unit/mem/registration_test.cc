// The registration cache against a pretended address space whose pages change, and a device that remembers what it was shown.
#include "runtime/mem/registration.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace weft;
using namespace weft::mem;

namespace {

constexpr uintptr_t kPage = 4096;
constexpr uintptr_t kBase = 0x10000000;
constexpr size_t kPages = 64;

/// Pages have generations: what is mapped anew is another memory.
struct Space {
  uint64_t generation[kPages] = {};
  bool read_only[kPages] = {};
  bool watched[kPages] = {};
  bool watchable[kPages];
  std::vector<Range> news;
  bool lost_news = false;
  Space() { std::fill(std::begin(watchable), std::end(watchable), true); }

  static size_t page(uintptr_t address) { return (address - kBase) / kPage; }
  static Range range(size_t first, size_t count) { return {kBase + first * kPage, kBase + (first + count) * kPage}; }

  void map_anew(size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) {
      ++generation[i];
      if (watched[i]) news.push_back(range(i, 1));
      watched[i] = false;
    }
  }
};

struct FakeWatcher : Watcher {
  Space& space;
  explicit FakeWatcher(Space& s) : space(s) {}
  bool watch(Range r) override {
    REQUIRE(r.begin % kPage == 0);
    REQUIRE(r.end % kPage == 0);
    for (size_t i = Space::page(r.begin); i < Space::page(r.end); ++i)
      if (!space.watchable[i]) return false;
    for (size_t i = Space::page(r.begin); i < Space::page(r.end); ++i) space.watched[i] = true;
    return true;
  }
  void unwatch(Range r) override {
    for (size_t i = Space::page(r.begin); i < Space::page(r.end); ++i) space.watched[i] = false;
  }
  bool pending() const override { return !space.news.empty() || space.lost_news; }
  bool collect(std::vector<Range>& out) override {
    out.insert(out.end(), space.news.begin(), space.news.end());
    space.news.clear();
    return !std::exchange(space.lost_news, false);
  }
};

struct Shown {
  Range range;
  bool writable;
  std::vector<uint64_t> generations;
};

struct FakeDevice : Registrar {
  Space& space;
  std::set<Shown*> known;
  uint64_t bytes = 0, limit = ~uint64_t{0}, enrolled = 0;
  explicit FakeDevice(Space& s) : space(s) {}
  ~FakeDevice() override { CHECK(known.empty()); }
  Result<void*> enroll(Range r, bool writable, const DmaBuf*) override {
    if (bytes + r.size() > limit) return Failure{"no more memory may be locked"};
    auto* shown = new Shown{r, writable, {}};
    for (size_t i = Space::page(r.begin); i < Space::page(r.end - 1) + 1; ++i) {
      if (writable && space.read_only[i]) {
        delete shown;
        return Failure{"read only"};
      }
      shown->generations.push_back(space.generation[i]);
    }
    known.insert(shown);
    bytes += r.size();
    ++enrolled;
    return static_cast<void*>(shown);
  }
  void dismiss(void* handle) override {
    auto* shown = static_cast<Shown*>(handle);
    REQUIRE(known.erase(shown) == 1);
    bytes -= shown->range.size();
    delete shown;
  }
  /// Would the device reach the memory that is there now?
  void check(void* handle, Range r, bool writable) {
    auto* shown = static_cast<Shown*>(handle);
    REQUIRE(known.count(shown) == 1);
    REQUIRE(shown->range.covers(r));
    REQUIRE((shown->writable || !writable));
    for (size_t i = Space::page(r.begin); i < Space::page(r.end - 1) + 1; ++i)
      REQUIRE(shown->generations[i - Space::page(shown->range.begin)] == space.generation[i]);
  }
};

struct World {
  Space space;
  FakeDevice device{space}, other{space};
  RegistrationCache cache;
  explicit World(RegistrationCache::Limits limits = {}, bool watched = true)
      : cache(watched ? std::make_unique<FakeWatcher>(space) : nullptr, limits) {
    REQUIRE(cache.add(device));
    REQUIRE(cache.add(other));
  }
  Registration* acquire(Range r, size_t which = 0, bool writable = true) {
    auto got = cache.acquire(r, which, writable);
    if (!got) FAIL(got.failure().text);
    return *got;
  }
  void use(Range r) { cache.release(acquire(r)); }
};

}  // namespace

TEST_CASE("A registration is made once and covers whole pages") {
  World w;
  const Range part{kBase + 100, kBase + 5000};
  Registration* first = w.acquire(part);
  CHECK(first->range == Space::range(0, 2));
  Registration* second = w.acquire({kBase + 4096, kBase + 8192});
  CHECK(second == first);
  w.cache.release(first);
  w.cache.release(second);
  CHECK(w.acquire(part) == first);
  w.cache.release(first);
  CHECK(w.device.enrolled == 1);
  CHECK(w.cache.counters().hits == 2);
}

TEST_CASE("Freed memory is registered anew when it comes back") {
  World w;
  w.use(Space::range(3, 4));
  w.space.map_anew(5, 1);
  Registration* r = w.acquire(Space::range(3, 4));
  w.device.check(r->handles[0], Space::range(3, 4), true);
  w.cache.release(r);
  CHECK(w.device.enrolled == 2);
  CHECK(w.cache.counters().changed == 1);
}

TEST_CASE("What is in use when its memory goes is not given out again") {
  World w;
  Registration* old = w.acquire(Space::range(0, 2));
  w.space.map_anew(0, 2);
  Registration* fresh = w.acquire(Space::range(0, 2));
  CHECK(fresh != old);
  CHECK(w.device.known.size() == 2);
  w.cache.release(old);
  CHECK(w.device.known.size() == 1);
  w.device.check(fresh->handles[0], Space::range(0, 2), true);
  w.cache.release(fresh);
}

TEST_CASE("Neighbours that overlap become one registration") {
  World w;
  w.use(Space::range(0, 4));
  w.use(Space::range(2, 4));
  CHECK(w.cache.count() == 1);
  CHECK(w.cache.bytes() == 6 * kPage);
  Registration* all = w.acquire(Space::range(0, 6));
  w.cache.release(all);
  CHECK(w.device.enrolled == 2);
}

TEST_CASE("As many devices as a host has each get their own handles, and more are refused") {
  Space space;
  std::vector<std::unique_ptr<FakeDevice>> devices;
  for (size_t i = 0; i < kMaxDevices; ++i) devices.push_back(std::make_unique<FakeDevice>(space));
  FakeDevice none(space);
  RegistrationCache cache(std::make_unique<FakeWatcher>(space), {});
  const auto know = [&](size_t device) {
    auto got = cache.acquire(Space::range(1, 4), device, true);
    REQUIRE(got);
    devices[device]->check((*got)->handles[device], Space::range(1, 4), true);
    cache.release(*got);
  };
  for (size_t i = 0; i < kMaxDevices; ++i) {
    const auto number = cache.add(*devices[i]);
    REQUIRE(number);
    CHECK(*number == i);
    if (i == 10) know(10);  // what is known already is made known to those that come later
  }
  const auto refused = cache.add(none);
  REQUIRE(!refused);
  CHECK(refused.failure().text.find(std::to_string(kMaxDevices)) != std::string::npos);
  for (size_t i = 0; i < kMaxDevices; ++i) know(i);
  CHECK(cache.count() == 1);
  cache.forget(Space::range(0, kPages));
  for (const auto& device : devices) {
    CHECK(device->enrolled == 1);
    CHECK(device->known.empty());
  }
}

TEST_CASE("Devices learn of memory only when they need it, and forget it together") {
  World w;
  Registration* r = w.acquire(Space::range(0, 1));
  CHECK(r->handles[0]);
  CHECK(!r->handles[1]);
  CHECK(w.acquire(Space::range(0, 1), 1) == r);
  CHECK(r->handles[1]);
  w.cache.release(r);
  w.cache.release(r);
  w.cache.forget(Space::range(0, 64));
  CHECK(w.device.known.empty());
  CHECK(w.other.known.empty());
}

TEST_CASE("Memory that cannot be watched is kept only while it is used") {
  World w;
  w.space.watchable[7] = false;
  Registration* r = w.acquire(Space::range(6, 3));
  CHECK(w.cache.count() == 0);
  w.cache.release(r);
  CHECK(w.device.known.empty());
  World without({}, false);
  without.use(Space::range(0, 1));
  CHECK(without.device.known.empty());
  CHECK(without.cache.counters().unkept == 1);
}

TEST_CASE("Read-only memory serves reading only") {
  World w;
  w.space.read_only[1] = true;
  Registration* r = w.acquire(Space::range(0, 2), 0, false);
  CHECK(!r->writable);
  CHECK(!w.cache.acquire(Space::range(1, 1), 0, true));
  w.cache.release(r);
  Registration* writable = w.acquire(Space::range(0, 1), 0, true);
  CHECK(writable->writable);
  w.cache.release(writable);
}

TEST_CASE("The longest unused goes when there is too much") {
  World w({4 * kPage, 100});
  w.use(Space::range(0, 2));
  w.use(Space::range(10, 2));
  w.use(Space::range(0, 2));
  w.use(Space::range(20, 1));
  CHECK(w.cache.bytes() == 3 * kPage);
  w.use(Space::range(0, 2));
  CHECK(w.device.enrolled == 3);
  CHECK(w.cache.counters().evicted == 1);
}

TEST_CASE("A limit of locked memory empties the cache before it is an error") {
  World w;
  w.device.limit = 4 * kPage;
  w.use(Space::range(0, 3));
  Registration* r = w.acquire(Space::range(10, 3));
  CHECK(w.cache.count() == 1);
  CHECK(!w.cache.acquire(Space::range(20, 2), 0, true));
  w.cache.release(r);
}

TEST_CASE("A limit met while a second device is told leaves the first's registration alone") {
  World w;
  w.other.limit = 0;
  w.use(Space::range(0, 1));
  CHECK(!w.cache.acquire(Space::range(0, 1), 1, true));
  w.use(Space::range(0, 1));
  CHECK(w.device.enrolled <= 2);
}

TEST_CASE("Device memory comes by its file and goes when its owner says so") {
  World w;
  const DmaBuf buffer{42, 0};
  auto r = w.cache.acquire({kBase + 1, kBase + 100}, 0, true, &buffer);
  REQUIRE(r);
  CHECK((*r)->range == Range{kBase + 1, kBase + 100});
  w.cache.release(*r);
  CHECK(w.cache.count() == 1);
  w.cache.forget(Space::range(0, 1));
  CHECK(w.cache.count() == 0);
}

TEST_CASE("Random use of changing memory") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  auto draw = [&](size_t n) { return static_cast<size_t>(random() % n); };
  World w({20 * kPage, 6});
  struct Use {
    Registration* r;
    Range range;
    size_t device;
    bool writable, stale;
  };
  std::vector<Use> uses;
  auto map_anew = [&](size_t first, size_t count) {
    w.space.map_anew(first, count);
    for (Use& use : uses) use.stale |= use.range.overlaps(Space::range(first, count));
  };
  for (int step = 0; step < 20000; ++step) {
    const size_t first = draw(kPages), count = 1 + draw(std::min<size_t>(8, kPages - first));
    switch (draw(8)) {
      case 0:
      case 1: map_anew(first, count); break;
      case 2:
        if (!uses.empty()) {
          const size_t i = draw(uses.size());
          w.cache.release(uses[i].r);
          uses.erase(uses.begin() + static_cast<long>(i));
        }
        break;
      case 3:
        if (draw(20) == 0) w.space.lost_news = true, w.space.news.clear();
        if (draw(20) == 0) w.space.read_only[first] ^= true, map_anew(first, 1);
        if (draw(20) == 0) w.space.watchable[first] ^= true, map_anew(first, 1);
        if (draw(50) == 0) w.cache.clear();
        w.cache.tidy();
        break;
      default: {
        if (uses.size() > 6) break;
        Range range = Space::range(first, count);
        range.begin += draw(kPage);
        range.end -= draw(kPage);
        if (range.begin >= range.end) break;
        const size_t device = draw(2);
        const bool writable = draw(2) == 0;
        auto got = w.cache.acquire(range, device, writable);
        if (!got) {
          bool refused = false;
          for (size_t i = Space::page(range.begin); i <= Space::page(range.end - 1); ++i) refused |= w.space.read_only[i];
          REQUIRE((writable && refused));
          break;
        }
        (device ? w.other : w.device).check((*got)->handles[device], range, writable);
        uses.push_back({*got, range, device, writable, false});
      }
    }
    for (const Use& use : uses)
      if (!use.stale) (use.device ? w.other : w.device).check(use.r->handles[use.device], use.range, use.writable);
    if (uses.empty()) {
      REQUIRE(w.cache.bytes() <= 20 * kPage);
      REQUIRE(w.cache.count() <= 6);
    }
  }
  for (const Use& use : uses) w.cache.release(use.r);
}
