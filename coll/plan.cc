#include "coll/plan.h"

#include "coll/inter.h"
#include "include/mpi.h"
#include "runtime/base/copy.h"
#include "runtime/base/error.h"

namespace weft::coll {

namespace {

uint64_t key_of(const Agreed& a, bool in_place, const Word& user) {
  return static_cast<uint64_t>(a.pattern) | uint64_t(size_class(a.bytes)) << 8 | uint64_t(in_place) << 16 | uint64_t(a.commutative) << 17 |
         uint64_t(a.ordered) << 7 | uint64_t(user.number) << 20 | uint64_t(a.uneven) << 18 | uint64_t(a.front > 0) << 19 |
         uint64_t(static_cast<uint32_t>(a.root)) << 32;
}

}  // namespace

const SchedulePtr& Plans::find(const Agreed& a, bool in_place, Rank me, const Word& user) {
  const uint64_t key = key_of(a, in_place, user);
  if (key == last_key_) [[likely]]
    return last_;
  if (all_.size() >= kMost) all_.clear();
  SchedulePtr& found = all_[key];
  if (!found) found = make(a, in_place, me, user);
  last_key_ = key;
  return last_ = found;
}

void Plans::forget() {
  all_.clear();
  last_ = nullptr;
  last_key_ = ~uint64_t{0};
}

SchedulePtr Plans::make(const Agreed& a, bool in_place, Rank me, const Word& user) const {
  if (a.front > 0) return std::make_shared<Schedule>(between_groups(of_class(a), me));
  Agreed on_hosts = of_class(a);
  on_hosts.hosts = host_count_;
  const Choice choice = choose(on_hosts, topology_, user);
  return std::make_shared<Schedule>(choice.algorithm->build(topology_, me, a.size, parameters(a, choice, in_place)));
}

namespace {

/// A send of at most so many bytes ends as soon as it is written, mostly, so that local steps may come after it.
constexpr uint64_t kAtOnce = 4096;

/// The one step of a round that only receives one message; null: there are others.
const Step* only_receive(const Schedule& s, const Round& round) {
  const Step& first = s.steps[round.first];
  return round.steps == 1 && first.kind == StepKind::receive && first.repeat == 1 ? &first : nullptr;
}

Status receive_only(pml::Team& team, int tag, const Frame::Wire& w) {
  pml::Outcome outcome;
  return w.empty ? Status::ok : team.lane().receive(team, w.peer, tag, pml::Traffic::collective, w.buffer, outcome);
}

void run_locally(const Frame& frame, const Round& round, int32_t iteration) {
  const Step* const first = frame.schedule->steps.data() + round.first;
  for (const Step* s = first; s != first + round.steps; ++s) {
    if (s->kind == StepKind::send || s->kind == StepKind::receive) continue;
    for (int32_t k = 0; k < s->repeat; ++k) frame.local(*s, s->repeat > 1 ? k : iteration);
  }
}

constexpr uint32_t kFewSteps = 8;  ///< of a round that is worth looking through
/// Several shorter messages come out of a ring faster by posted receives, which take all that is there at once; on older processors of
/// AMD's they do so only as long as both ranks keep pace, and else take half as long again.
uint64_t few_least() { return touching_pays ? 0 : 256; }

/// Of a round that few messages are sent and received in, short ones by the first of them: the last step that receives; null: of others.
const Step* last_of_few(const pml::Lane& lane, const Frame& frame, const Round& round, int32_t iteration) {
  if (round.steps > kFewSteps || !lane.looks_first()) return nullptr;
  const Step *const begin = frame.schedule->steps.data() + round.first, *const end = begin + round.steps;
  const Step *first = nullptr, *last = nullptr;
  for (const Step* s = begin; s != end; ++s) {
    if (s->repeat != 1) return nullptr;
    if (s->kind != StepKind::receive) continue;
    if (!first) first = s;
    last = s;
  }
  if (!first) return nullptr;
  const Frame::Wire w = frame.wire(*first, iteration);
  const uint64_t bytes = w.buffer.count * w.buffer.type->size;
  return !w.empty && bytes <= kAtOnce && (first == last || bytes >= few_least()) ? last : nullptr;
}

/// Runs such a round. What is short needs neither requests nor matching, mostly, if it is sent first and then received one by one. From the
/// first on that has not come all receives are posted, but for the last one. The requests are to be waited for.
Status exchange_few(pml::Team& team, int tag, const Frame& frame, const Round& round, int32_t iteration, const Step* last,
                    std::vector<pml::Request*>& requests) {
  pml::Lane& lane = team.lane();
  const Step *const begin = frame.schedule->steps.data() + round.first, *const end = begin + round.steps;
  bool local = false;
  for (const Step* s = begin; s != end; ++s) {
    local |= s->kind != StepKind::send && s->kind != StepKind::receive;
    if (s->kind != StepKind::send) continue;
    const Frame::Wire w = frame.wire(*s, iteration);
    if (!w.empty && !lane.send_at_once(team, w.peer, tag, pml::Traffic::collective, w.buffer))
      requests.push_back(lane.isend(team, w.peer, tag, pml::Traffic::collective, w.buffer));
  }
  if (local) run_locally(frame, round, iteration);
  bool at_once = true;
  for (const Step* s = begin; s != last; ++s) {
    if (s->kind != StepKind::receive) continue;
    const Frame::Wire w = frame.wire(*s, iteration);
    if (w.empty) continue;
    pml::Outcome outcome;
    at_once = at_once && lane.receive_at_once(team, w.peer, tag, pml::Traffic::collective, w.buffer, outcome);
    if (!at_once) requests.push_back(lane.ireceive(team, w.peer, tag, pml::Traffic::collective, w.buffer));
  }
  return receive_only(team, tag, frame.wire(*last, iteration));
}

}  // namespace

Status post_round(pml::Team& team, int tag, const Frame& frame, const Round& round, int32_t iteration, std::vector<pml::Request*>& requests,
                  bool finish) {
  pml::Lane& lane = team.lane();
  const Step* const first = frame.schedule->steps.data() + round.first;
  const Step* const last = first + round.steps;
  const Step* final_send = nullptr;
  bool local = false;
  // Receives first, so that what is sent between two ranks of the same round finds its place.
  for (const Step* s = first; s != last; ++s) {
    if (s->kind == StepKind::send) {
      final_send = s;
    } else if (s->kind != StepKind::receive) {
      local = true;
    } else {
      for (int32_t k = 0; k < s->repeat; ++k) {
        const Frame::Wire w = frame.wire(*s, s->repeat > 1 ? k : iteration);
        if (!w.empty) requests.push_back(lane.ireceive(team, w.peer, tag, pml::Traffic::collective, w.buffer));
      }
    }
  }
  for (const Step* s = first; final_send && s <= final_send; ++s) {
    if (s->kind != StepKind::send) continue;
    for (int32_t k = 0; k < s->repeat; ++k) {
      const Frame::Wire w = frame.wire(*s, s->repeat > 1 ? k : iteration);
      if (w.empty) continue;
      const bool at_last = finish && s == final_send && k + 1 == s->repeat;
      if (at_last && (!local || w.buffer.count * w.buffer.type->size <= kAtOnce)) {
        const Status status = lane.send(team, w.peer, tag, pml::Traffic::collective, w.buffer);
        if (status != Status::ok) return status;
      } else {
        requests.push_back(lane.isend(team, w.peer, tag, pml::Traffic::collective, w.buffer));
      }
    }
  }
  if (local) run_locally(frame, round, iteration);
  return Status::ok;
}

int finish(pml::Lane& lane, std::vector<pml::Request*>& messages, Status status) {
  int error = MPI_SUCCESS;
  for (pml::Request* r : messages) {
    if (status == Status::ok) status = lane.wait(*r);
    if (status == Status::ok && r->outcome.error && !error) error = lane.explain(*r);
    // After a failure nothing may arrive in buffers that are the caller's again.
    if (!r->complete.load(std::memory_order_acquire)) lane.cancel(*r);
    release(r);
  }
  messages.clear();
  return status == Status::ok ? error : fail(status);
}

int run_rounds(pml::Team& team, int tag, Frame& frame, std::vector<pml::Request*>& requests) {
  pml::Lane& lane = team.lane();
  const Schedule& s = *frame.schedule;
  frame.prologue();
  for (Position at; !at.end(s); at.advance(s)) {
    if (const Step* receive = only_receive(s, at.of(s))) {
      if (const Status status = receive_only(team, tag, frame.wire(*receive, at.iteration)); status != Status::ok) return fail(status);
      continue;
    }
    const Step* const last = last_of_few(lane, frame, at.of(s), at.iteration);
    const Status status = last ? exchange_few(team, tag, frame, at.of(s), at.iteration, last, requests)
                               : post_round(team, tag, frame, at.of(s), at.iteration, requests, true);
    if (const int error = finish(lane, requests, status)) return error;
  }
  frame.epilogue();
  return MPI_SUCCESS;
}

}  // namespace weft::coll
