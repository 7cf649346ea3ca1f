// Pipelines that run beside each other: who does what is written down by time, and becomes rounds and loops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <vector>

#include "coll/schedule.h"

namespace weft::coll {

/// Times are those of all ranks: a message is sent and received at the same one. So messages between two ranks come in the order in which
/// they are received, and no rank waits for one that waits for it.
class Timetable {
 public:
  /// The step happens `times` times, from `from` on at each time once, a block further in each of its places.
  void add(int32_t from, int32_t times, Step step) {
    for (Place* place : {&step.a, &step.b, &step.c}) place->stride = 1;
    if (times > 0 && (step.peer >= 0 || !(step.kind == StepKind::send || step.kind == StepKind::receive)))
      lines_.push_back({from, from + times, step});
  }

  /// As rounds: a loop for each time span in which the same things happen.
  Schedule write(Builder b) const {
    std::set<int32_t> changes;
    for (const Line& line : lines_) changes.insert({line.from, line.until});
    for (auto now = changes.begin(); now != changes.end(); ++now) {
      const auto then = std::next(now);
      if (then == changes.end()) break;
      b.begin_loop();
      for (const Line& line : lines_)
        if (line.from <= *now && *now < line.until) b.add(later(line.step, *now - line.from));
      b.end_loop(*then - *now);
    }
    return b.done();
  }

 private:
  struct Line {
    int32_t from, until;
    Step step;
  };
  static Step later(Step step, int32_t by) {
    for (Place* place : {&step.a, &step.b, &step.c}) place->block += by;
    return step;
  }
  std::vector<Line> lines_;
};

}  // namespace weft::coll
