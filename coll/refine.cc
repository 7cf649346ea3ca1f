#include "coll/refine.h"

#include <algorithm>
#include <utility>

#include "coll/model.h"
#include "coll/team_state.h"
#include "include/mpi.h"
#include "runtime/base/clock.h"
#include "runtime/config/config.h"
#include "runtime/type/predefined.h"

namespace weft::coll {

namespace {

config::Choice refine_setting("coll", "refine", "no", "no, yes",
                              "try now and then, between hosts, whether an algorithm that is expected to be nearly as good is faster, and "
                              "keep it if so: no, yes. The same on all ranks");

constexpr size_t kMostOthers = 3;
constexpr double kNear = 3;
constexpr size_t kFew = 2;  // times that tell whether it is hopeless: one may have been interrupted

}  // namespace

bool refinement_wanted() { return refine_setting.get() == "yes"; }

bool least_counts(Pattern p) {
  return p == Pattern::barrier || p == Pattern::allgather || p == Pattern::alltoall || p == Pattern::allreduce ||
         p == Pattern::reduce_scatter;
}

std::vector<Choice> contenders(const Agreed& a, const Topology& topology) {
  std::vector<Choice> all = {choose(a, topology, {})};
  const auto priced = candidates(a, topology);
  const auto price_of = [&](const Algorithm* algorithm) {
    const auto found = std::ranges::find(priced, algorithm, &Candidate::algorithm);
    return found != priced.end() && found->unpriced.empty() ? found->price.time.at : 0;
  };
  const double most = kNear * price_of(all.front().algorithm);
  for (const Candidate& c : priced) {
    if (!c.unpriced.empty() || c.price.time.at > most || all.size() > kMostOthers) break;
    if (std::ranges::find(all, c.algorithm, &Choice::algorithm) == all.end()) all.push_back({c.algorithm, c.segments, By::refined});
  }
  return all;
}

Refinement::Refinement(std::vector<Choice> choices) {
  for (const Choice& choice : choices) contenders_.push_back({choice, {}, false});
  over_ = contenders_.size() < 2;
  if (!over_) begin_round();
}

void Refinement::ran(uint64_t ns) {
  if (over_) return;
  if (calls_ > 0 && calls_ < kTrial) times_[turn_] += static_cast<double>(ns);
  calls_ = (calls_ + 1) % kEvery;
  turn_ += calls_ == kTrial;
}

void Refinement::begin_round() {
  turns_.clear();
  for (size_t i = 0; i < contenders_.size(); ++i)
    if (!contenders_[i].hopeless) turns_.push_back(i);
  times_.assign(turns_.size(), 0);
  turn_ = 0;
}

void Refinement::settle() {
  for (size_t i = 0; rounds_ > 0 && i < turns_.size(); ++i) contenders_[turns_[i]].times.push_back(times_[i]);
  const Contender& usual = contenders_.front();
  for (Contender& c : contenders_) c.hopeless |= c.times.size() >= kFew && std::ranges::min(c.times) > kHopeless * usual.middle();
  begin_round();
  if (++rounds_ > kRounds || turns_.size() < 2) finish();
}

void Refinement::finish() {
  over_ = true;
  for (const size_t i : turns_)
    if (contenders_[i].middle() < contenders_[leader_].middle()) leader_ = i;
  if (contenders_[leader_].middle() * kAhead > contenders_.front().middle()) leader_ = 0;
}

double Refinement::Contender::middle() const {
  std::vector<double> sorted = times;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

// Of a team

namespace {

/// What is to decide the next call; nothing where that is as usual.
Word word_of(const Refinement& r) {
  if (r.number() == 0) return {};
  const auto number = static_cast<uint32_t>(Wishes::kMost + 1 + r.number());
  return {.algorithm = r.next().algorithm, .segments = r.next().segments, .anything = true, .number = number};
}

}  // namespace

/// How calls like this one are refined; null: they are not.
Refinement* TeamState::refinement_of(const Agreed& agreed) {
  if (!refines_ || agreed.uneven || agreed.front > 0 || agreed.ordered) return nullptr;
  know_hosts();
  if (host_count_ < 2 || word_of_user(agreed).anything) return nullptr;
  const auto kind = static_cast<uint32_t>(agreed.pattern) << 8 | static_cast<uint32_t>(size_class(agreed.bytes)) << 1 | agreed.commutative;
  if (const auto known = refinements_.find(kind); known != refinements_.end()) return &known->second;
  Agreed a = of_class(agreed);
  a.hosts = host_count_;
  return &refinements_.try_emplace(kind, contenders(a, plans_.topology())).first->second;
}

int TeamState::run_refined(Refinement& r, const Call& c, const Agreed& a) {
  refined_ = {word_of(r), r.trying()};
  const SchedulePtr& schedule = plans_.find(a, in_place_here(*this, c), static_cast<Rank>(team_.rank()), refined_.word);
  const uint64_t begin = now_ns();
  const int error = run_plan(c, a, schedule);
  r.ran(now_ns() - begin);
  return error || !r.round_over() ? error : exchange_times(r, a.pattern);
}

int TeamState::exchange_times(Refinement& r, Pattern pattern) {
  Call c;
  c.what = Collective::allreduce;
  c.in_place = true;
  c.out = r.times().data();
  c.out_count = r.times().size();
  c.out_type = &type::of(type::Basic::float64);
  c.op = op::predefined(reinterpret_cast<uintptr_t>(least_counts(pattern) ? MPI_MIN : MPI_MAX));
  const Agreed a = agree(*this, c);
  const int error = run_plan(c, a, schedule_for(c, a));
  r.settle();
  return error;
}

}  // namespace weft::coll
