#include "coll/part.h"

namespace weft::coll {

namespace {

class Part {
 public:
  Part(Builder& b, const Schedule& s, std::span<const Rank> party, Buffers buffers, Cut cut) : b_(b), s_(s), party_(party), cut_(cut) {
    buffers_ = {buffers.in, buffers.out};
    for (const Region& r : s.regions) {
      if (r.single)
        buffers_.push_back(cut.scale == 1 ? b.single_region() : b.full_region());
      else
        buffers_.push_back(b.region(r.first * cut.scale + cut.base, r.blocks * cut.scale));
    }
  }

  void append() {
    b_.next();
    for (const Loop& loop : s_.loops) {
      const bool once = loop.times == 1;
      if (!once) b_.begin_loop();
      for (uint32_t i = loop.first; i < loop.first + loop.rounds; ++i) append(s_.rounds[i]);
      if (!once) b_.end_loop(loop.times);
    }
  }

 private:
  void append(const Round& round) {
    for (uint32_t i = round.first; i < round.first + round.steps; ++i) {
      Step step = s_.steps[i];
      for (Place* p : {&step.a, &step.b, &step.c}) *p = {buffers_[p->buffer], p->block * cut_.scale + cut_.base, p->stride * cut_.scale};
      step.blocks *= cut_.scale;
      if (step.peer >= 0) step.peer = party_[static_cast<size_t>(step.peer)];
      b_.add(step);
    }
    b_.next();
  }

  Builder& b_;
  const Schedule& s_;
  const std::span<const Rank> party_;
  const Cut cut_;
  std::vector<uint8_t> buffers_;
};

}  // namespace

void append(Builder& b, const Schedule& part, std::span<const Rank> party, Buffers buffers, Cut cut) {
  Part(b, part, party, buffers, cut).append();
}

Schedule seated(const Schedule& schedule, std::span<const Rank> party) {
  Builder b(schedule.blocks);
  append(b, schedule, party, {}, {});
  return b.done();
}

}  // namespace weft::coll
