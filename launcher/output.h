// All output of all ranks of this host, from their pipes to mpirun's stdout and stderr.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/forward.h"

namespace weft::launcher {

class Output {
 public:
  Output();
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Takes over the reading end of a rank's pipe.
  void add(int fd, uint32_t rank, bool error, const std::string& tag);

  /// Readable when process() has something to do.
  int fd() const { return epoll_; }
  void process();

  /// When process() must be called although nothing is readable; 0: never.
  uint64_t next_tick_ns() const { return next_tick_; }

  /// Reads what these ranks have written so far (all ranks: UINT32_MAX).
  void drain(uint32_t rank);

  /// A line of the launcher's own, on stderr.
  void say(const std::string& text);

  /// Streams that have not ended.
  size_t open_streams() const { return open_; }
  /// Bytes that stdout and stderr have not taken yet.
  size_t pending() const;
  /// Gives up on streams that still have not ended: what is held is passed on.
  void end_streams();

 private:
  struct Source {
    Stream stream;
    Merger* merger;
    bool watched = false;
  };

  int epoll_;
  Sink out_{1}, err_{2};
  Merger out_merger_{out_};
  std::optional<Merger> err_merger_;  // absent if both are the same file: then lines must not mix across them either
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<char> block_;
  size_t open_ = 0;
  bool sinks_watched_[2] = {false, false};
  uint64_t next_tick_ = 0;

  Merger& errors() { return err_merger_ ? *err_merger_ : out_merger_; }
  /// Reads once; false if there was nothing.
  bool read_once(Source& source);
  void end(Source& source);
  void adjust();
  void watch_sink(int which, Sink& sink);
};

}  // namespace weft::launcher
