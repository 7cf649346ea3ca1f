// The ranks' output, line by line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace weft::launcher {

/// Where lines go: mpirun's stdout or stderr. Never blocks; what cannot be written waits in `pending`.
class Sink {
 public:
  explicit Sink(int fd);
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  int fd() const { return fd_; }
  bool terminal() const { return terminal_; }
  bool broken() const { return broken_; }
  /// What broke it: EPIPE if nobody reads any more; 0 while it is whole.
  int error() const { return error_; }
  size_t pending() const { return queue_.size() - done_; }
  /// Epoll cannot watch regular files; they are always ready.
  bool pollable() const { return pollable_; }

  void append(const char* data, size_t size);
  /// Writes as much as goes without blocking.
  void write_some();

 private:
  int fd_;
  bool own_ = false, terminal_, pollable_, nonblocking_ = false, broken_ = false;
  int error_ = 0;
  std::string queue_;
  size_t done_ = 0;
};

/// One stream of a rank.
struct Stream {
  int fd = -1;
  uint32_t rank = 0;
  std::string tag;
  bool stamp = false;  ///< date and time before the tag
  std::string held;    ///< read, not yet passed on: an incomplete line, or lines waiting for the sink
  uint64_t since_ns = 0;
  bool line_open = false;  ///< a part of its current line has been passed on
  bool ended = false;
};

/// Merges the streams that go to one sink, so that lines of different ranks never mix. A stream whose line is longer than
/// `hold_limit` keeps the sink until its line ends (or until it has been silent for `patience_ns` while others wait).
class Merger {
 public:
  static constexpr size_t hold_limit = 64 * 1024;  ///< bytes of a stream held back at most before it must get the sink or wait,
  static constexpr size_t least_hold = 4 * 1024;   ///< and less where there are many streams: never more than hold_budget together
  static constexpr size_t hold_budget = 2 * 1024 * 1024;
  static constexpr size_t queue_limit = 1024 * 1024;  ///< bytes waiting in the sink above which nobody is read
  static constexpr uint64_t patience_ns = 1'000'000'000;
  static constexpr uint64_t prompt_ns = 100'000'000;  ///< an incomplete line on a terminal is shown after this time

  explicit Merger(Sink& sink) : sink_(sink) {}

  /// What each of so many streams may hold.
  static size_t share(size_t streams) { return std::clamp(hold_budget / std::max<size_t>(streams, 1), least_hold, hold_limit); }
  void hold_at_most(size_t bytes) { hold_ = bytes; }

  /// New bytes stand in stream.held, or it has ended: pass on what can be.
  void arrived(Stream& stream, uint64_t now_ns);
  /// May this stream be read from now?
  bool wants(const Stream& stream) const { return sink_.pending() < queue_limit && stream.held.size() < hold_; }
  /// How many bytes, if it may.
  size_t room(const Stream& stream) const { return hold_ - std::min(hold_, stream.held.size()); }
  /// Prompts and silent owners. Returns when to be called again (0: not needed).
  uint64_t tick(uint64_t now_ns);
  /// A line of the launcher's own.
  void say(const std::string& line);
  Sink& sink() { return sink_; }
  /// Takes no more from this stream (it is about to vanish).
  void forget(Stream& stream);

 private:
  Sink& sink_;
  size_t hold_ = hold_limit;
  Stream* owner_ = nullptr;  ///< in the middle of a line
  uint64_t owner_since_ = 0;
  bool dangling_ = false;  ///< the last byte was no newline and its stream has ended
  std::vector<Stream*> waiting_;
  std::vector<Stream*> prompting_;  ///< with an incomplete line, for a terminal

  uint64_t show_prompts(uint64_t now_ns);
  void head(const Stream& stream);
  void pass(Stream& stream, uint64_t now_ns);
  void emit(Stream& stream, size_t size, uint64_t now_ns);
  void wake(uint64_t now_ns);
};

}  // namespace weft::launcher
