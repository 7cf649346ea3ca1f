// Where the ranks are: their stacks, from a debugger that is there, or from the kernel.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft::launcher {

/// One thread: its frames, innermost first, without addresses.
using Frames = std::vector<std::string>;

/// What gdb's "thread apply all bt" or eu-stack say, as the frames of each thread. Other lines are left out.
std::vector<Frames> parse_stacks(const std::string& text);

/// The function of a frame: what it is compared by, as arguments differ between ranks.
std::string function_of(const std::string& frame);

/// One process and what was found out about it.
struct RankStacks {
  uint32_t rank;
  pid_t pid;
  std::string program;          ///< empty: that of the rank itself
  std::vector<Frames> threads;  ///< empty: `instead` says what is known
  std::string instead;
  std::string host = {};  ///< empty: there is only one
};

/// What one host has found out.
struct HostStacks {
  std::string tool;  ///< gdb, eu-stack, or nothing
  std::vector<RankStacks> ranks;
};

/// The report: ranks whose threads stand in the same functions are told together.
std::string report_stacks(const std::vector<RankStacks>& stacks);

/// The same functions in all threads: such ranks are told together.
bool same_place(const RankStacks& a, const RankStacks& b);

/// Puts together what the hosts of a job have found out.
class StackGathering {
 public:
  /// This host will be heard of, hopefully.
  void expect(uint32_t node, const std::string& host) { hosts_[node] = {host, false, {}}; }
  void add(uint32_t node, HostStacks found);
  bool complete() const;
  /// Names hosts that have not been heard of.
  std::string report() const;

 private:
  struct Host {
    std::string name;
    bool heard;
    HostStacks found;
  };
  std::map<uint32_t, Host> hosts_;
};

/// "in the kernel's do_wait, sleeping": what /proc says of a process without its help.
std::string from_proc(pid_t pid);

/// Processes below `pid` that have no children, or itself: where a rank that is a script really is.
std::vector<pid_t> leaves_of(pid_t pid);

/// Asks a debugger about several processes at once, without blocking.
class StackReader {
 public:
  /// How long one debugger, and all of them, may take.
  static constexpr uint64_t one_ns = 20'000'000'000, all_ns = 40'000'000'000;

  StackReader();
  ~StackReader();
  StackReader(const StackReader&) = delete;
  StackReader& operator=(const StackReader&) = delete;

  void start(const std::vector<std::pair<uint32_t, pid_t>>& ranks, uint64_t now_ns);

  /// Readable when process() has something to do.
  int fd() const { return epoll_; }
  /// True when all is known; once.
  bool process(uint64_t now_ns);
  /// When process() must be called at the latest; 0: never.
  uint64_t next_tick_ns() const;
  HostStacks result() const;

 private:
  struct Job {
    size_t which;  // of found_
    pid_t tool;
    int pipe;
    uint64_t until;
    std::string text;
  };
  int epoll_;
  std::string gdb_, eu_stack_;
  std::vector<RankStacks> found_;
  size_t next_ = 0;
  std::vector<Job> jobs_;
  uint64_t until_ = 0;
  bool active_ = false;

  bool launch(size_t which, uint64_t now_ns);
  void fill(uint64_t now_ns);
  void finish(Job& job);
};

}  // namespace weft::launcher
