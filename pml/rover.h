// Where ranks share CPUs: away from a CPU that another rank keeps busy, if one is free.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/topo/cpus.h"
#include "runtime/topo/idle.h"
#include "runtime/topo/lent.h"

namespace weft::pml {

/// Times that others got the CPU while this thread wanted it: yields with an effect, above all. A system call.
uint64_t switches();

/// Whom a thread waits for, and shares CPUs with, as far as it can know. Times are nanoseconds (now_ns()).
class Company {
 public:
  static constexpr uint32_t kAnyCpu = UINT32_MAX;
  /// The thread lends CPU `cpu` to others, who may be told. True if one of these is there that it is to leave, if it can.
  virtual bool lends(uint32_t /*cpu*/, uint64_t /*now*/) { return false; }
  /// It sleeps, and so lends none.
  virtual void sleeps() {}
  /// It is about to sleep until one of them has changed something, of which they know by now. `briefly`: it has not waited for long. False:
  /// nobody wakes it.
  virtual bool lies_down(bool /*briefly*/) { return false; }
  /// Has one of them woken it since? It may not have been armed for that yet.
  virtual bool is_woken() const { return false; }
  /// After that.
  virtual void gets_up() {}
  /// Where it had better wait, after lends(), as others do run there: on `cpu` all the same, on another one of `cpus`, which it may run on,
  /// or, kAnyCpu, on any of these.
  virtual topo::Place way_out(uint32_t /*cpu*/, std::span<const uint32_t> /*cpus*/, uint64_t /*now*/) { return {}; }

 protected:
  ~Company() = default;
};

/// Who tells each other what CPUs they lend, whatever they wait for.
class Household : public Company {
 public:
  virtual void lends(uint32_t cpu, topo::Ties, uint64_t now) = 0;
  virtual topo::Place way_out(topo::Ties, std::span<const uint32_t> cpus, uint64_t now) = 0;
  bool lends(uint32_t cpu, uint64_t now) final {
    lends(cpu, {}, now);
    return false;
  }
  topo::Place way_out(uint32_t, std::span<const uint32_t> cpus, uint64_t now) final { return way_out(topo::Ties{}, cpus, now); }

 protected:
  ~Household() = default;
};

/// Two ranks that work together are slow on one CPU: each message waits for a switch, a microsecond or two instead of a tenth. The kernel
/// may have moved them there while others waited, and leaves them, as ranks that look now and then never leave a CPU idle for long. So a
/// thread whose yields mostly lead to a switch goes where those it waits for count on it to go. If they do not, it naps a few times: the
/// kernel wakes threads on a CPU that is idle, if one is and shares a cache. If that does not help, it asks now and then which CPU is idle.
///
/// Where few share a CPU, each takes a larger part of it. There it looks after few yields, too, since long messages make no more of them
/// in milliseconds (halos of 1 MiB of four ranks on 2 CPUs, the first 55: 340 and 250 us), and goes if nobody else does who was to
/// go first. Among many it costs more than it spares (all-to-alls of 1 MiB of 32 ranks 3.5 and 4.7 ms).
class Rover {
 public:
  Rover(size_t ranks, size_t cpus) : few_(topo::few(ranks, cpus)) {}
  bool among_few() const { return few_; }

  /// To be called after each yield.
  void yielded(uint64_t now, Company& company) {
    if (++yields_ % kYields == 0 || (few_ && yields_ >= kFewYields && now >= look_at_ && now - looked_at_ >= kLook_ns)) [[unlikely]]
      lend(now, company);
  }

 private:
  static constexpr uint64_t kYields = 16;              // by so many it can be told whether they lead to switches
  static constexpr uint64_t kFewYields = 4;            // or by so many, if there are no more
  static constexpr uint64_t kLook_ns = 500'000;        // in such a time
  static constexpr uint64_t kPause_ns = 30'000'000;    // three ticks of what /proc/stat counts
  static constexpr uint64_t kLookPause_ns = 200'000;   // a look costs a system call
  static constexpr uint64_t kStay_ns = 1'000'000;      // of whose place is right, until it looks again as that may have changed
  static constexpr uint64_t kNapPause_ns = 1'000'000;  // at first; a nap takes some 60 us
  static constexpr unsigned kPartings = 10, kNaps = 7, kEagerLooks = 8, kMostDoublings = 7, kMostStays = 5, kMostWaived = 2;
  void lend(uint64_t now, Company& company);
  void stay(uint64_t now);
  void part(uint32_t from, uint32_t to, std::span<const uint32_t> cpus);
  void leave(const topo::CpuSet& cpus);

  const bool few_;
  uint64_t yields_ = 0;    // since the last look
  uint64_t switches_ = 0;  // at the last look
  uint64_t looked_at_ = 0, look_at_ = 0;
  unsigned partings_ = 0, naps_ = 0, vain_ = 0;  // moves, naps and looks without effect, one after another
  unsigned stays_ = 0;                           // times that its place was found to be right
  unsigned waived_ = 0;                          // times that somebody else was to go first
  topo::IdleCpus idle_;
};

}  // namespace weft::pml
