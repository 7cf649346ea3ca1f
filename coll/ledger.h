// What collectives a process has run, by which algorithms and how long they took: what mpirun --report-coll shows.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "coll/machine.h"
#include "coll/select.h"

namespace weft::coll {

/// Times, counted by size: sixteen classes for each power of two.
class Times {
 public:
  void add(uint64_t ns);
  /// Within 3 %. 0: there are none.
  double median() const;

 private:
  std::map<uint32_t, uint64_t> counts_;
};

class Ledger {
 public:
  enum class Form : uint8_t { blocking, nonblocking, persistent };

  /// Calls that stand in one line.
  struct Key {
    Pattern pattern = Pattern::barrier;
    Form form = Form::blocking;
    By by = By::thresholds;
    bool uneven = false;
    Reproducible sums = Reproducible::no;  ///< runs: in an order for all runs; exact: of accumulators, whose bytes count
    /// Messages while the ranks have no shared memory yet, which would be chosen; By::refined: one that was only tried.
    bool early = false;
    int32_t size_class = 0, ranks = 0, hosts = 0, segments = 1;
    std::string algorithm;  ///< "node": the kernel in shared memory; empty: between two groups
    auto operator<=>(const Key&) const = default;
  };
  /// What ranks know of them, added up.
  struct Row {
    double calls = 0;    ///< each divided by the ranks that have a part in it, so that their sum counts collectives
    double bytes = 0;    ///< of all of these
    double medians = 0;  ///< ns: the sum of what calls have lasted on each of `reporters` ranks, in the middle
    double reporters = 0;
  };
  using Rows = std::map<Key, Row>;

  /// Several threads may.
  void note(const Key&, uint64_t bytes, std::optional<uint64_t> ns);
  /// What this rank knows.
  Rows rows() const;

  /// As a line each, those that took longest first, in `most` bytes; what has no room there is left out.
  static std::string to_text(const Rows&, size_t most);
  /// Adds them. Lines that cannot be understood are left out.
  static void add(Rows&, std::string_view lines);

 private:
  struct Own {
    uint64_t calls = 0;
    double bytes = 0;
    Times times;
  };
  mutable std::mutex mutex_;
  std::map<Key, Own> own_;  // guarded by mutex_
};

/// What the model expects of such calls in ns; nothing: it knows nothing of them, or there is too much to walk.
std::optional<double> expected(const Ledger::Key&, const Ledger::Row&, const Machine&);

/// The table for people: a heading, a line for each row, what the columns mean. Each line begins with `head`.
std::string describe(const Ledger::Rows&, const Machine&, std::string_view head);

}  // namespace weft::coll
