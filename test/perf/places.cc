// What it costs two processors to write where the other one has read, which btl/shm and coll/node are built on:
//   test/perf/places [first and second CPU, default 0 1]
// One thread copies data into memory that both see, the other one copies it out to a buffer that lies otherwise in its lines, as malloc's
// do. us for 64 KiB, the median of short runs: the time of the whole way, and the writer's part of it. Three things can be learned of a
// processor that has not been tried: whether changed lines come back sooner (touching_pays), how much must be written before a line has
// left its reader's cache (the size of rings), and whether it matters where data lies in its page (kMidPage).
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/copy.h"

using namespace weft;

namespace {

constexpr size_t kBytes = 64 << 10, kPiece = 16 << 10, kMost = 16 << 20;
constexpr int kRounds = 200, kRuns = 15;

struct alignas(128) Line {
  std::atomic<uint64_t> count{0};
};

/// Who writes where: along an area for each direction, or all in the same place.
struct Way {
  const char* name;
  bool to_and_fro;
  size_t area;
  bool shared;                ///< the two directions use one place
  bool changes;               ///< the reader stores a byte of each line again
  size_t piece = kPiece;      ///< copied at a time
  size_t in_page = kMidPage;  ///< where places begin in their page
};

std::byte* memory() {
  auto* m = static_cast<std::byte*>(std::aligned_alloc(4096, kMost + 2 * kMidPage));
  std::fill(m, m + kMost + 2 * kMidPage, std::byte{1});
  return m;
}

class Side {
 public:
  Side(std::byte* area, Line& filled, Line& emptied) : area_(area), filled_(filled), emptied_(emptied) {}

  /// Copies so much in, or out, by pieces; ns that this took without waiting.
  uint64_t write(const Way& way) {
    return pass(way, [&](std::byte* place) {
      while (count_ - emptied_.count.load(std::memory_order_acquire) > way.area / way.piece) cpu_pause();
      const uint64_t begun = now_ns();
      copy_bytes(place, own_ + 16, way.piece);
      filled_.count.store(count_, std::memory_order_release);
      return now_ns() - begun;
    });
  }
  uint64_t read(const Way& way) {
    return pass(way, [&](std::byte* place) {
      while (filled_.count.load(std::memory_order_acquire) < count_) cpu_pause();
      const uint64_t begun = now_ns();
      copy_out(own_ + 16, place, way.piece);
      if (way.changes) touch(place, way.piece);
      emptied_.count.store(count_, std::memory_order_release);
      return now_ns() - begun;
    });
  }

 private:
  template <class Copy>
  uint64_t pass(const Way& way, Copy copy) {
    uint64_t spent = 0;
    for (size_t i = 0; i < kBytes / way.piece; ++i) {
      ++count_;
      spent += copy(area_ + way.in_page + at_);
      at_ = (at_ + way.piece) % way.area;
    }
    return spent;
  }

  std::byte* const area_;
  Line &filled_, &emptied_;
  std::byte* const own_ = memory();
  uint64_t count_ = 0;
  size_t at_ = 0;
};

void bind_to(int cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  if (pthread_setaffinity_np(pthread_self(), sizeof only, &only) != 0) std::exit(1);
}

void measure(const Way& way, const int (&cpus)[2]) {
  static std::byte* const areas[2] = {memory(), memory()};
  Line filled[2], emptied[2];
  std::vector<double> whole, writing;
  const auto run = [&](int me) {
    bind_to(cpus[me]);
    const auto area = [&](int direction) { return areas[way.shared ? 0 : direction]; };
    Side out(area(me), filled[me], emptied[me]), in(area(1 - me), filled[1 - me], emptied[1 - me]);
    for (int r = 0; r < kRuns; ++r) {
      const uint64_t begun = now_ns();
      uint64_t wrote = 0;
      for (int i = 0; i < kRounds; ++i) {
        if (me == 0) wrote += out.write(way);
        if (me == 1 || way.to_and_fro) in.read(way);
        if (me == 1 && way.to_and_fro) out.write(way);
      }
      const double ways = kRounds * (way.to_and_fro ? 2.0 : 1.0);
      if (me == 0) whole.push_back(double(now_ns() - begun) / ways / 1e3), writing.push_back(double(wrote) / kRounds / 1e3);
    }
  };
  std::thread other(run, 1);
  std::thread(run, 0).join();
  other.join();
  const auto median = [](std::vector<double>& v) {
    std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
    return v[v.size() / 2];
  };
  printf("%-44s %8.2f us, writing %8.2f\n", way.name, median(whole), median(writing));
}

}  // namespace

int main(int count, char** words) {
  const int cpus[2] = {count > 2 ? atoi(words[1]) : 0, count > 2 ? atoi(words[2]) : 1};
  for (const Way& way : {
           Way{"to and fro, each its place", true, kBytes, false, false},
           Way{"to and fro, each its place, given back changed", true, kBytes, false, true},
           Way{"to and fro, one place for both", true, kBytes, true, false},
           Way{"to and fro, one place for both, in one piece", true, kBytes, true, false, kBytes},
           Way{"the same, 16 B before in the page", true, kBytes, true, false, kBytes, 0},
           Way{"one way, through 64 KiB", false, kBytes, false, false},
           Way{"one way, through 64 KiB, given back changed", false, kBytes, false, true},
           Way{"one way, through 1 MiB", false, 1 << 20, false, false},
           Way{"one way, through 1 MiB, given back changed", false, 1 << 20, false, true},
           Way{"one way, through 2 MiB", false, 2 << 20, false, false},
           Way{"one way, through 2 MiB, given back changed", false, 2 << 20, false, true},
           Way{"one way, through 8 MiB", false, 8 << 20, false, false},
       })
    measure(way, cpus);
  return 0;
}
