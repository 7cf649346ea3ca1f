// All output of all ranks of this host, from their pipes to mpirun's stdout and stderr.
#pragma once

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/forward.h"
#include "launcher/job.h"
#include "runtime/base/status.h"

namespace weft::launcher {

class Output {
 public:
  explicit Output(const OutputWish& wish);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Makes the folder for the ranks' files, if there is to be one. `ranks`: of the whole job; `local`: of this host.
  Result<void> prepare(uint32_t ranks, uint32_t local);

  /// Takes over the reading ends of a rank's pipes; fails, taking nothing, if the rank's file cannot be made.
  /// `label`: how people know the rank.
  Result<void> add(uint32_t rank, int out, int errors, const std::string& label);

  /// Takes over lines of other hosts' ranks: they are passed on as they are.
  void add_foreign(int fd, bool error);

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
  /// Bytes read so far from all streams: what grows is alive.
  uint64_t traffic() const { return traffic_; }
  /// Bytes that stdout and stderr have not taken yet.
  size_t pending() const;
  /// Why output was lost although somebody wanted it (a full disk), or nothing. Each loss is told once.
  std::string loss();
  /// Gives up on streams that still have not ended: what is held is passed on.
  void end_streams();

 private:
  /// The file of a rank: both its streams, line by line.
  struct RankFile {
    int fd;
    std::string path;
    Sink sink{fd};
    Merger merger{sink};
    bool told = false;
    RankFile(int number, std::string name) : fd(number), path(std::move(name)) {}
    ~RankFile() { close(fd); }
  };
  struct Source {
    Stream stream;
    Merger* merger;
    RankFile* file = nullptr;
    Stream copy = {};  // what goes to the file
    bool watched = false;
    bool shown = true;  // on mpirun's own output
  };
  const OutputWish wish_;
  size_t hold_ = Merger::hold_limit;  // of each stream
  int digits_ = 1;                    // of ranks in names of files, so that they sort

  int epoll_;
  Sink out_{1}, err_{2};
  Merger out_merger_{out_};
  std::optional<Merger> err_merger_;  // absent if both are the same file: then lines must not mix across them either
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::unique_ptr<RankFile>> files_;
  bool told_[2] = {false, false};
  std::vector<char> block_;
  size_t open_ = 0;
  bool sinks_watched_[2] = {false, false};
  uint64_t next_tick_ = 0, traffic_ = 0;

  Merger& errors() { return err_merger_ ? *err_merger_ : out_merger_; }
  static bool wants(const Source& source);
  /// Reads once; false if there was nothing.
  bool read_once(Source& source);
  Result<RankFile*> file_for(const std::string& path);
  void add_stream(int fd, uint32_t rank, bool error, RankFile* file, bool shown, const std::string& tag);
  void end(Source& source);
  void adjust();
  void watch_sink(int which, Sink& sink);
};

}  // namespace weft::launcher
