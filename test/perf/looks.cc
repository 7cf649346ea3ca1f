// How a waiting processor had better look at a cache line that another one is about to write, which btl/shm is built on:
//   test/perf/looks [first and second CPU, default 0 1]
// Two threads answer each other, each message a line of a ring of its own, as in btl/shm. ns one way, the median of short runs, for each
// way of looking, and for as many instructions of work between a message and its answer as the head of each column says.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/copy.h"

using namespace weft;

namespace {

constexpr uint32_t kSlots = 512, kRounds = 20000;
constexpr int kRuns = 7;
constexpr int kWork[] = {0, 80, 160, 240, 320, 400};

struct alignas(64) Slot {
  std::atomic<uint32_t> number{0};
  uint32_t payload[6];
};

/// What stands between two looks.
struct Tight {
  static constexpr const char* name = "without breaks";
  static void rest() {}
};
struct Pause {
  static constexpr const char* name = "pause";
  static void rest() { cpu_pause(); }
};
struct Break {
  static constexpr const char* name = "between_looks()";
  static void rest() { between_looks(); }
};
struct Breaks {
  static constexpr const char* name = "between_looks(), three times";
  static void rest() {
    for (int i = 0; i < 3; ++i) between_looks();
  }
};

/// So many instructions, eight at a time, that do not wait for each other.
void work(int instructions) {
  for (; instructions > 0; instructions -= 8) asm volatile(".rept 6\n nop\n .endr" ::: "memory");  // and two of the loop
}

void bind_to(int cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  if (pthread_setaffinity_np(pthread_self(), sizeof only, &only) != 0) std::exit(1);
}

class Side {
 public:
  Side(Slot* out, Slot* in) : out_(out), in_(in) {}

  void send() {
    Slot& slot = out_[++sent_ % kSlots];
    for (uint32_t& word : slot.payload) word = sent_;
    slot.number.store(sent_, std::memory_order_release);
  }
  /// `claims`: asks for the line of the answer when the message has come.
  template <class How>
  void receive(bool claims) {
    Slot& slot = in_[++received_ % kSlots];
    while (slot.number.load(std::memory_order_acquire) != received_) How::rest();
    if (claims) claim_line(&out_[(sent_ + 1) % kSlots]);
    if (slot.payload[5] != received_) std::abort();
  }

 private:
  Slot *const out_, *const in_;
  uint32_t sent_ = 0, received_ = 0;
};

template <class How>
double one_way(const int (&cpus)[2], bool claims, int instructions) {
  std::vector<Slot> there(kSlots), back(kSlots);
  const auto answer = [&] {
    bind_to(cpus[1]);
    Side side(back.data(), there.data());
    for (uint32_t i = 0; i < kRounds; ++i) {
      side.receive<How>(claims);
      work(instructions);
      side.send();
    }
  };
  std::thread other(answer);
  bind_to(cpus[0]);
  Side side(there.data(), back.data());
  uint64_t begun = 0;
  for (uint32_t i = 0; i < kRounds; ++i) {
    if (i == kRounds / 2) begun = now_ns();
    side.send();
    side.receive<How>(claims);
    work(instructions);
  }
  const auto took = static_cast<double>(now_ns() - begun);
  other.join();
  return took / kRounds;  // half of the rounds, two ways each
}

template <class How>
void measure(const int (&cpus)[2], bool claims) {
  printf("%-30s %s", How::name, claims ? "claims" : "      ");
  for (const int instructions : kWork) {
    std::vector<double> runs;
    for (int r = 0; r < kRuns; ++r) runs.push_back(one_way<How>(cpus, claims, instructions));
    std::nth_element(runs.begin(), runs.begin() + kRuns / 2, runs.end());
    printf(" %6.0f", runs[kRuns / 2]);
  }
  printf("\n");
}

}  // namespace

int main(int count, char** words) {
  const int cpus[2] = {count > 2 ? atoi(words[1]) : 0, count > 2 ? atoi(words[2]) : 1};
  printf("%-37s", "instructions between");
  for (const int instructions : kWork) printf(" %6d", instructions);
  printf("\n");
  for (const bool claims : {false, true}) {
    measure<Tight>(cpus, claims);
    measure<Pause>(cpus, claims);
    measure<Break>(cpus, claims);
    measure<Breaks>(cpus, claims);
  }
}
