// mpirun's standard input on its way to the ranks that shall have it.
#pragma once

#include <poll.h>

#include <cstdint>
#include <vector>

#include "launcher/job.h"

namespace weft::launcher {

/// For one rank a file or pipe is simply handed over: no copy, and what the rank does not read stays for others. For all ranks each
/// opens a file by itself. What is left is pumped as fast as the slowest reader takes it: a pipe for several ranks or hosts, and a
/// terminal, which cannot be handed on because the ranks are no foreground processes.
class Input {
 public:
  /// What this host has to do with it.
  struct Part {
    uint32_t readers = 0;     ///< ranks of this host that get it
    bool passes_on = false;   ///< daemons of other hosts get it from here
    bool to_the_end = false;  ///< it is read to its end, wanted here or not: others wait for the same bytes
  };
  Input(InputTo to, uint32_t rank, Part part);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  /// What a rank gets as descriptor 0, owned by this object; -1: none could be made, errno says why.
  int open_for(uint32_t rank);
  /// What a rank that gets none of it has instead.
  int nothing() const { return nothing_; }
  /// The rank has been started, or will not be.
  void started();
  /// A pipe to another host's daemon, which gets all of it; owned by this object from now on.
  void pass_to(int pipe);
  /// All who are to get it are there.
  void begin();

  /// What to poll for now; fd -1: nothing.
  pollfd interest() const;
  void process();

 private:
  /// One reader of what is pumped.
  struct Reader {
    int pipe;      // our end
    size_t taken;  // of block_
    bool watched;
  };

  const InputTo to_;
  const uint32_t rank_;
  const Part part_;
  enum class Way : uint8_t { hand_over, reopen, pump } way_ = Way::hand_over;
  int nothing_ = -1, given_ = -1;  // /dev/null; what the rank being started gets, if it is ours to close
  int epoll_ = -1;                 // what the pump waits for
  std::vector<Reader> readers_;
  std::vector<char> block_;
  size_t size_ = 0;  // bytes in block_
  bool terminal_, begun_ = false, source_watched_ = false, source_waits_ = true;

  bool gets_it(uint32_t rank) const { return to_ == InputTo::all || (to_ == InputTo::one && rank == rank_); }
  int add_reader();
  bool all_taken() const;
  void write_all();
  bool read_block();
  void watch();
  void stop();
};

}  // namespace weft::launcher
