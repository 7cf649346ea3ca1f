// The helper: a thread of the library's own that makes progress while the program computes and has nonblocking operations under way.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/boot/boot.h"

namespace weft::pml {

class Lane;
struct Request;

/// It is born with the first operation that is worth it, sleeps on what wakes any other waiter, and never spins. As long as threads of the
/// program make progress themselves it only looks now and then whether they still do. README.md says when it is there, and what it leaves
/// alone.
class Helper {
 public:
  /// That of a process, as WEFT_PML_HELPER says; null: none. The lanes stay where they are until stop().
  static std::unique_ptr<Helper> of(const boot::Job&, const std::vector<std::unique_ptr<Lane>>&);
  /// Helps with long operations; unless `all`, only with those that may go to other hosts.
  Helper(std::vector<Lane*> lanes, bool all);
  ~Helper() { stop(); }
  Helper(const Helper&) = delete;

  /// An operation of the program's has begun. Called by threads of the program that hold no lock.
  void expect(Request&);
  /// One that was expected has ended.
  void ended() { awaited_.fetch_sub(1, std::memory_order_relaxed); }
  /// Ends the thread, if there is one, for good. Not while another thread of the program calls.
  void stop();

 private:
  using Time = std::chrono::microseconds;
  enum class Look { events, quiet, over };

  bool worthwhile(const Request&) const;
  bool begin();
  void run();
  void rest(std::unique_lock<std::mutex>&);
  bool program_is_in();
  bool work();
  Look round();
  bool over();

  const std::vector<Lane*> lanes_;
  const bool all_;
  const std::string name_;  // in the log
  cpu_set_t cpus_;          // the process's when MPI was initialised: the thread that creates ours may be bound more tightly by then
  std::atomic<int> awaited_{0};
  std::atomic<bool> stopping_{false};
  std::vector<uint32_t> seen_;  // by lane: its rounds when we last looked

  // Taken before locks of lanes. Nobody waits with it held.
  std::mutex lock_;
  std::condition_variable called_;
  Time nap_{0};
  Time idle_{0};  // naps without any operation
  bool parked_ = true;
  std::thread thread_;
};

}  // namespace weft::pml
