// Plans: schedules made once per key and team, and how they are run.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "coll/coll.h"
#include "coll/frame.h"
#include "coll/select.h"

namespace weft::coll {

/// A cached schedule. Shared with nonblocking and persistent operations, which may outlive its place in the cache.
using SchedulePtr = std::shared_ptr<const Schedule>;

/// The plans of a team by key: {pattern, size class, entry of WEFT_COLL, operation class, whether in order, root} and the local in_place.
/// The last one is at hand.
class Plans {
 public:
  explicit Plans(const Topology& topology) : topology_(topology) {}
  const SchedulePtr& find(const Agreed&, bool in_place, Rank me, const Word& user);
  /// Where the ranks are, told before the first find(). `count`: of hosts, if known; null: of no interest.
  void learn(const Hosts* hosts, int32_t count) {
    topology_.hosts = hosts;
    host_count_ = count;
  }
  /// Drops all plans: numbers of entries have another meaning from now on.
  void forget();
  const Topology& topology() const { return topology_; }

 private:
  static constexpr size_t kMost = 512;  // roots may be many; then all is made anew
  SchedulePtr make(const Agreed&, bool in_place, Rank me, const Word& user) const;

  uint64_t last_key_ = ~uint64_t{0};
  SchedulePtr last_;
  std::unordered_map<uint64_t, SchedulePtr> all_;
  Topology topology_;
  int32_t host_count_ = 0;  // 0: not known
};

/// Posts a round's messages into `requests` and does its local steps. With `finish` the last of its sends may block instead.
/// The requests belong to the caller.
Status post_round(pml::Team&, int tag, const Frame&, const Round&, int32_t iteration, std::vector<pml::Request*>& requests, bool finish);

/// Waits for messages, and releases them: all are over in the end. An MPI error class, the first one of theirs; `status`: how their sender
/// has fared so far.
int finish(pml::Lane&, std::vector<pml::Request*>&, Status status);

/// Runs all rounds. Returns an MPI error class.
int run_rounds(pml::Team&, int tag, Frame&, std::vector<pml::Request*>& requests);

/// A place in a schedule.
struct Position {
  uint32_t loop = 0, round = 0;
  int32_t iteration = 0;
  bool end(const Schedule& s) const { return loop == s.loops.size(); }
  const Round& of(const Schedule& s) const { return s.rounds[s.loops[loop].first + round]; }
  void advance(const Schedule& s) {
    if (++round < s.loops[loop].rounds) return;
    round = 0;
    if (++iteration < s.loops[loop].times) return;
    iteration = 0;
    ++loop;
  }
};

}  // namespace weft::coll
