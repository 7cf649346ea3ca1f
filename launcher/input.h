// mpirun's standard input on its way to rank 0.
#pragma once

#include <poll.h>

#include <string>

namespace weft::launcher {

/// A file or pipe is simply handed to rank 0: no copy, and what the rank does not read stays for others. A terminal cannot be
/// handed on, because rank 0 is no foreground process; its bytes are pumped, as fast as rank 0 reads them.
class Input {
 public:
  explicit Input(bool wanted);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  /// What rank 0 gets as descriptor 0 (owned by this object until started()).
  int for_rank0() const { return rank_end_; }
  /// Rank 0 has been started.
  void started();

  /// What to poll for now; fd -1: nothing.
  pollfd interest() const;
  void process();

 private:
  int rank_end_ = -1, pipe_ = -1;
  bool own_rank_end_ = false, ended_ = true;
  std::string held_;

  void stop();
};

}  // namespace weft::launcher
