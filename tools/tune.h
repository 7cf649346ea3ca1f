// `weft tune`: measures the machine and the algorithms of collectives, and keeps that in a table (runtime/config/coll_table.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/config/coll_table.h"

namespace weft::tools {

struct TuneWish {
  std::string output;               ///< file; empty: the user's own
  std::string only;                 ///< collectives with commas between them; empty: all
  bool quick = false;               ///< fewer sizes, fewer repetitions
  bool words = false;               ///< measures nothing; says what a table decides
  std::vector<std::string> mpirun;  ///< options
};

/// Fails if options are not used as they should be. Those that are not its own go to mpirun.
Result<TuneWish> read_tune_wish(const std::vector<std::string>& options);

/// What the ranks of a tuning job say, line by line: lines of their own, which begin with kTuneMark, and what mpirun --report-paths says.
class TuneReport {
 public:
  /// False if the line is none of these: it is for people.
  bool take(std::string_view line);
  /// What has been taken so far. Fails if the job has not come to its end.
  Result<config::CollTable> done() const;

 private:
  config::CollTable table_;
  bool complete_ = false;
};
constexpr std::string_view kTuneMark = "weft-tune\t";

/// Starts a job of tuning ranks (be_tuning_rank) with mpirun's options of the wish and further ones, and hands over what it says, line by
/// line. Fails unless the job ends well.
Result<void> run_tuning_job(const TuneWish&, const std::vector<std::string>& options, const std::vector<std::string>& arguments,
                            const std::function<void(std::string_view)>& take);

/// How long a message between two ranks of a host takes, in ns, by its bytes, as ranks of a job said it that was told to copy always once
/// or always twice.
class CopyingReport {
 public:
  /// False if the line is none of these. Of what is said twice the shortest time counts.
  bool take(std::string_view line, bool once);
  /// The best values of settings: of shm.get_from or, on a crowded host, shm.get_from_crowded. Nothing: hosts had one rank
  /// each.
  std::map<std::string, config::CollTable::Number> settings() const;

 private:
  std::map<uint64_t, double> ns_[2];  // twice, once
  bool crowded_ = false;
};

/// The command, and the program of its job: exit codes.
int tune(const std::vector<std::string>& options);
int be_tuning_rank(const std::vector<std::string>& arguments);

}  // namespace weft::tools
