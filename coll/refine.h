// Refinement on the way (WEFT_COLL_REFINE): of a team's blocking calls between hosts a few run what the model thinks nearly as good, and
// what turns out faster stays. All ranks decide alike, by the numbers of calls and by times that they have told each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coll/select.h"

namespace weft::coll {

/// Has the user asked for it?
bool refinement_wanted();

/// What may be tried for calls like this one, the usual choice first, then the cheapest ones by the model; one of each algorithm, three
/// others at most, and none that is expected to take more than three times as long as the usual one. `a.hosts` is known; nothing but the
/// usual choice where refinement cannot be: cheapest() says where the model knows nothing.
std::vector<Choice> contenders(const Agreed& a, const Topology&);

/// How calls of one kind find theirs. In a round each contender has its turn, kTrial calls in a row, all but the first of which are timed:
/// that one waits for ranks which the calls before have made late. From turn to turn there are kEvery calls, the others of which run the
/// usual choice; then the ranks exchange the times. The first round does not count: plans are made in it. What twice takes kHopeless times
/// as long as the usual choice is not tried again, and after kRounds the one with the least time in the middle is taken for good, if it is
/// kAhead of the usual one. So no more than one call in sixteen runs something slower, and none once that is known.
class Refinement {
 public:
  static constexpr uint32_t kTrial = 3, kEvery = 16 * kTrial, kRounds = 5;
  static constexpr double kAhead = 1.05, kHopeless = 2;

  explicit Refinement(std::vector<Choice> contenders);

  /// What the next call runs, and its number among all contenders; 0: the usual choice.
  const Choice& next() const { return contenders_[number()].choice; }
  size_t number() const { return trying() ? turns_[turn_] : leader_; }
  /// Is it run in order to be timed?
  bool trying() const { return !over_ && calls_ < kTrial; }
  /// The call has run; it has taken so long on this rank.
  void ran(uint64_t ns);
  /// Has a round ended? Then ranks exchange `times()`, and settle() before the next call.
  bool round_over() const { return !over_ && turn_ == turns_.size(); }
  /// ns of each that was tried, on this rank; what all of them have in the end must be the same.
  std::span<double> times() { return times_; }
  void settle();
  /// Is it known what is best?
  bool over() const { return over_; }

 private:
  struct Contender {
    Choice choice;
    std::vector<double> times;
    bool hopeless = false;
    double middle() const;
  };
  void begin_round();
  void finish();

  std::vector<Contender> contenders_;
  std::vector<size_t> turns_;  // contenders of this round, in turn
  std::vector<double> times_;  // of these
  size_t turn_ = 0, leader_ = 0;
  uint32_t calls_ = 0;  // since the latest turn began, if it has
  uint32_t rounds_ = 0;
  bool over_ = false;
};

/// Which of the ranks' times stands for a call: of those in which each rank waits for all others, that of the rank which came last;
/// else the longest.
bool least_counts(Pattern);

}  // namespace weft::coll
