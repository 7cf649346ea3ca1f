// Micro-benchmark of btl/shm between two processes, next to what the hardware allows: a cache line passed to and fro.
//   test/perf/btl_shm [seconds per row, default 0.3]
// Prints the least and the median over many short rounds: the least is what the code costs, the median what a busy machine makes of it.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "btl/list.h"
#include "runtime/base/clock.h"
#include "runtime/config/config.h"

using namespace weft;
using namespace weft::btl;

namespace {

double seconds_per_row = 0.3;

struct Shared {
  alignas(128) std::atomic<uint64_t> ping, pong;
  alignas(128) std::atomic<uint32_t> blob_ready[2];
  alignas(128) std::atomic<uint32_t> stop;
  std::byte blob[2][1024];
};

struct Counter : Sink {
  uint64_t count = 0, bytes = 0;
  void* meet(ProcessId) override { return this; }
  void arrived(void*, const Header& h, const std::byte* payload) override {
    ++count;
    uint64_t first = 0;
    if (h.length) std::memcpy(&first, payload, std::min<size_t>(8, h.length));
    if (h.length > 40) std::memcpy(buffer + h.context, payload, h.length);
    bytes += h.length + (first == ~0ull);
    stop |= h.kind == 1;
  }
  std::byte* landing(void*, const Header&) override { return nullptr; }
  void lost(void*, const std::string&) override { _exit(3); }
  bool stop = false;
  alignas(64) std::byte buffer[4 << 20];
};

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

void row(const char* name, std::vector<double>& samples, const char* unit) {
  std::sort(samples.begin(), samples.end());
  printf("%-34s %9.1f %9.1f %s\n", name, samples.front(), samples[samples.size() / 2], unit);
  fflush(stdout);
}

template <class Round>
std::vector<double> rounds(Round&& round) {
  std::vector<double> samples;
  const uint64_t end = now_ns() + uint64_t(seconds_per_row * 1e9);
  do samples.push_back(round());
  while (now_ns() < end);
  return samples;
}

/// Both sides run the same series of rounds; only rank 0 knows how many there are and says `stop`.
class Pair {
 public:
  Pair(uint32_t me, Shared& shared) : me_(me), shared_(shared), boots_(boot::open_fake(2)), shm_(std::move(*open_shm({*boots_[me]}))) {
    const boot::Blob mine = shm_->address();
    std::memcpy(shared.blob[me], mine.data(), mine.size());
    shared.blob_ready[me] = 1;
    while (!shared.blob_ready[1 - me]) usleep(10);
    boot::Blob theirs(mine.size());
    std::memcpy(theirs.data(), shared.blob[1 - me], theirs.size());
    auto endpoint = shm_->connect({0, 1 - me}, theirs, &sink_);
    if (!endpoint) {
      fprintf(stderr, "%s\n", endpoint.failure().text.c_str());
      _exit(2);
    }
    peer_ = *endpoint;
  }

  const Caps& caps() const { return shm_->caps(); }

  void send(uint32_t length, uint8_t kind = 0) {
    Header h;
    h.length = length;
    h.kind = kind;
    while (peer_->try_inline(h, data_) == Status::again) shm_->poll(sink_);
  }
  void await(uint64_t count) {
    while (sink_.count < count) shm_->poll(sink_);
  }
  /// Half a round trip in ns.
  double pingpong(uint32_t length, int times) {
    const uint64_t start = now_ns();
    for (int i = 0; i < times; ++i) {
      send(length);
      await(sink_.count + 1);
    }
    return double(now_ns() - start) / times / 2;
  }
  void echo(uint32_t length) {
    for (;;) {
      await(sink_.count + 1);
      if (sink_.stop) break;
      send(length);
    }
    sink_.stop = false;
    send(0);
  }
  /// ns a message, one way, acknowledged at the end of each burst.
  double burst(uint32_t length, int times) {
    const uint64_t start = now_ns();
    for (int i = 0; i < times; ++i) send(length);
    send(0, 2);
    await(sink_.count + 1);
    return double(now_ns() - start) / times;
  }
  void absorb(int times) {
    for (;;) {
      const uint64_t aim = sink_.count + uint64_t(times) + 1;
      while (sink_.count < aim && !sink_.stop) shm_->poll(sink_);
      if (sink_.stop) break;
      send(0);
    }
    sink_.stop = false;
    send(0);
  }
  /// ns for `bytes` in pieces as large as the transport takes, acknowledged.
  double stream(size_t bytes) {
    const uint64_t start = now_ns();
    Header h;
    for (size_t at = 0; at < bytes; at += h.length) {
      h.context = at;
      h.length = uint32_t(std::min<size_t>(bytes - at, caps().max_inline));
      while (peer_->try_inline(h, data_ + at) == Status::again) shm_->poll(sink_);
    }
    await(sink_.count + 1);
    return double(now_ns() - start);
  }
  void absorb_stream(size_t bytes) { absorb(int((bytes + caps().max_inline - 1) / caps().max_inline) - 1); }
  void stop() {
    send(0, 1);
    await(sink_.count + 1);
  }
  Status get(Region region, void* to, size_t bytes) {
    struct Done : Operation {
      bool over = false;
    } op;
    op.done = [](Operation& o, Status) { static_cast<Done&>(o).over = true; };
    const iovec local{to, bytes};
    if (const Status s = peer_->get(region, 0, {&local, 1}, op); s != Status::ok) return s;
    while (!op.over) shm_->poll(sink_);
    return Status::ok;
  }
  bool can_get() const { return peer_->can_get(); }

 private:
  uint32_t me_;
  Shared& shared_;
  std::vector<std::unique_ptr<boot::Bootstrap>> boots_;
  std::unique_ptr<Transport> shm_;
  Endpoint* peer_ = nullptr;
  Counter sink_;
  alignas(64) std::byte data_[4 << 20] = {};
};

void raw_line(uint32_t me, Shared& s) {
  constexpr int times = 1000;
  if (me) {
    for (uint64_t seen = 0;;) {
      uint64_t now;
      while ((now = s.ping.load(std::memory_order_acquire)) == seen) {
      }
      seen = now;
      s.pong.store(now, std::memory_order_release);
      if (now == ~0ull) return;
    }
  }
  uint64_t n = 0;
  auto samples = rounds([&] {
    const uint64_t start = now_ns();
    for (int i = 0; i < times; ++i) {
      s.ping.store(++n, std::memory_order_release);
      while (s.pong.load(std::memory_order_acquire) != n) {
      }
    }
    return double(now_ns() - start) / times / 2;
  });
  s.ping.store(~0ull);
  while (s.pong.load() != ~0ull) {
  }
  row("cache line, one way", samples, "ns");
}

void side(uint32_t me, Shared& shared) {
  pin(int(me));
  if (!me) printf("%-34s %9s %9s\n", "", "least", "median");
  raw_line(me, shared);
  static Pair pair(me, shared);
  char name[64];
  for (uint32_t length : {0u, 8u, 40u, 41u, 64u, 128u, 256u, 1024u, 4096u, 16384u}) {
    if (length > pair.caps().max_inline) continue;
    snprintf(name, sizeof name, "half round trip, %u B", length);
    if (me) {
      pair.echo(length);
    } else {
      auto samples = rounds([&] { return pair.pingpong(length, 200); });
      pair.stop();
      row(name, samples, "ns");
    }
  }
  for (uint32_t length : {8u, 64u, 256u, 1024u, 4096u, 16384u}) {
    if (length > pair.caps().max_inline) continue;
    constexpr int times = 4000;
    snprintf(name, sizeof name, "one way in a row, %u B", length);
    if (me) {
      pair.absorb(times);
    } else {
      auto samples = rounds([&] { return pair.burst(length, times); });
      pair.stop();
      row(name, samples, "ns a message");
    }
  }
  for (size_t bytes : {size_t{65536}, size_t{1} << 20, size_t{4} << 20}) {
    if (me) {
      pair.absorb_stream(bytes);
    } else {
      auto samples = rounds([&] { return pair.stream(bytes); });
      pair.stop();
      snprintf(name, sizeof name, "stream %zu KiB (%.1f GB/s at best)", bytes >> 10,
               double(bytes) / *std::min_element(samples.begin(), samples.end()));
      row(name, samples, "ns");
    }
  }
  static std::vector<std::byte> far(4 << 20, std::byte{1}), near(4 << 20);
  if (me) {
    shared.ping = reinterpret_cast<uint64_t>(far.data());
    pair.absorb(1 << 30);
  } else {
    while (shared.ping.load() == ~0ull) {
    }
    for (size_t bytes : {size_t{4096}, size_t{16384}, size_t{65536}, size_t{1} << 20, size_t{4} << 20}) {
      if (!pair.can_get()) break;
      const Region region{shared.ping.load(), bytes, {}};
      auto samples = rounds([&] {
        const uint64_t start = now_ns();
        if (pair.get(region, near.data(), bytes) != Status::ok) _exit(4);
        return double(now_ns() - start);
      });
      snprintf(name, sizeof name, "get %zu KiB (%.1f GB/s at best)", bytes >> 10,
               double(bytes) / *std::min_element(samples.begin(), samples.end()));
      row(name, samples, "ns");
    }
    pair.stop();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) seconds_per_row = atof(argv[1]);
  for (const std::string& complaint : config::load_environment()) fprintf(stderr, "%s\n", complaint.c_str());
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* shared = new (memory) Shared{};
  const pid_t child = fork();
  side(child == 0, *shared);
  if (!child) _exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  return status != 0;
}
