// The table of `weft tune`: what was measured of this machine and of the algorithms of collectives, in a file. mpirun reads it and hands
// its ranks what it says in the words of WEFT_COLL; where others have started them, rank 0 does (comm/knowledge.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace weft::config {

/// Settings whose best values `weft tune` finds by trying them. mpirun hands its ranks what the table has, where users have set nothing.
std::vector<std::string> measured_settings();

struct CollTable {
  /// Where numbers are from: one run of `weft tune`.
  struct Run {
    std::string date;  ///< "2026-03-01T12:00:00Z"
    std::string weft;  ///< version
    std::string cpu;   ///< model, of rank 0's host
    int32_t ranks = 0;
    std::vector<std::string> hosts;    ///< names
    std::vector<std::string> network;  ///< the ways that messages took, as mpirun --report-paths says it
  };
  struct Time {
    std::string algorithm;  ///< as WEFT_COLL names it
    double ns = 0;
  };
  /// The candidates for one size.
  struct Measurement {
    std::string collective;
    int32_t ranks = 0, hosts = 0;
    uint64_t bytes = 0;  ///< as WEFT_COLL counts them
    size_t run = 0;      ///< its place in `runs`
    std::string usual;   ///< what the library takes without a table; empty: not known
    std::vector<Time> times;

    /// The fastest one; what is usual if that takes no more than 5 % longer, so that accidents decide nothing.
    const Time& best() const;
  };
  struct Number {
    double value = 0;
    size_t run = 0;
  };

  std::vector<Run> runs;
  std::map<std::string, Number> machine;   ///< of coll::machine_fields()
  std::map<std::string, Number> settings;  ///< best values of measured_settings()
  std::vector<Measurement> measurements;   ///< in order, one of each kind

  static constexpr size_t kMostBytes = size_t{16} << 20;  ///< of a file

  /// Whatever the text holds: all names are words, all numbers finite and in order, or the failure says what is not.
  static Result<CollTable> parse(std::string_view json);
  /// Reads a file; failures name it.
  static Result<CollTable> read(const std::string& file);
  std::string to_json() const;

  /// Takes what a newer one has, instead of what there is on the same.
  void merge(const CollTable& newer);

  /// What it decides, in the words of WEFT_COLL, for communicators of at most so many ranks. A size speaks for those around it, to the
  /// middle between two (of the logarithms, at a power of two); the smallest and largest one for those below it and up to its fourfold.
  std::string words(int32_t most_ranks) const;
  /// The measurement that speaks for a size; null: none does.
  const Measurement* about(std::string_view collective, int32_t ranks, int32_t hosts, uint64_t bytes) const;
  /// The numbers of the machine, as `weft explain --machine` takes them.
  std::string machine_words() const;

  /// What a job's ranks are told of a table.
  struct Told {
    std::string words, machine;  ///< as words() and machine_words()
    std::map<std::string, Number> settings;
  };
  /// Of that in a file, for communicators of at most so many ranks. Failures name the file, and that it is of no use then.
  static Result<Told> told_by(const std::string& file, int32_t most_ranks);
};

/// Which table holds: the file that `wanted` (WEFT_COLL_TABLE) names, "none": no table, empty: the first one that there is of
/// collectives.json in the user's folder for settings ($XDG_CONFIG_HOME or ~/.config, there weft) and in etc/weft beside the folder `bin`
/// of the programs. Empty: no table.
std::string find_coll_table(const std::string& wanted, const std::string& bin);
/// The first of these; empty: there is no such folder.
std::string own_coll_table();

}  // namespace weft::config
