#include "coll/schedule.h"

#include <algorithm>
#include <utility>

namespace weft::coll {

uint8_t Builder::region(int32_t first, int32_t blocks) {
  out_.regions.push_back({first, blocks, false});
  return static_cast<uint8_t>(first_region + out_.regions.size() - 1);
}

uint8_t Builder::single_region() {
  out_.regions.push_back({0, 1, true});
  return static_cast<uint8_t>(first_region + out_.regions.size() - 1);
}

Builder& Builder::add(Step step) {
  out_.steps.push_back(step);
  return *this;
}

Builder& Builder::next() {
  const auto end = static_cast<uint32_t>(out_.steps.size());
  if (end == round_start_) return *this;
  out_.rounds.push_back({round_start_, end - round_start_});
  round_start_ = end;
  if (!in_loop_) out_.loops.push_back({static_cast<uint32_t>(out_.rounds.size()) - 1, 1, 1});
  return *this;
}

Builder& Builder::send(Rank peer, Place from, int32_t blocks) {
  return peer < 0 ? *this : add({.kind = StepKind::send, .blocks = blocks, .peer = peer, .a = from});
}

Builder& Builder::receive(Rank peer, Place into, int32_t blocks) {
  return peer < 0 ? *this : add({.kind = StepKind::receive, .blocks = blocks, .peer = peer, .a = into});
}

Builder& Builder::copy(Place from, Place to, int32_t blocks) { return add({.kind = StepKind::copy, .blocks = blocks, .a = from, .b = to}); }

Builder& Builder::reduce(Place left, Place into, int32_t blocks) {
  return add({.kind = StepKind::reduce, .blocks = blocks, .a = left, .b = into});
}

Builder& Builder::combine(Place left, Place right, Place into, int32_t blocks) {
  return add({.kind = StepKind::combine, .blocks = blocks, .a = left, .b = right, .c = into});
}

Builder& Builder::send_around(Rank peer, uint8_t buffer, int32_t block, int32_t blocks) {
  const int32_t head = std::min(blocks, out_.blocks - block);
  send(peer, {buffer, block}, head);
  return head < blocks ? send(peer, {buffer, 0}, blocks - head) : *this;
}

Builder& Builder::receive_around(Rank peer, uint8_t buffer, int32_t block, int32_t blocks) {
  const int32_t head = std::min(blocks, out_.blocks - block);
  receive(peer, {buffer, block}, head);
  return head < blocks ? receive(peer, {buffer, 0}, blocks - head) : *this;
}

Builder& Builder::repeat(int32_t times, int32_t peer_stride) {
  if (times <= 0) {
    out_.steps.pop_back();
    return *this;
  }
  out_.steps.back().repeat = times;
  out_.steps.back().peer_stride = peer_stride;
  return *this;
}

Builder& Builder::turn(int32_t peer_stride) {
  out_.steps.back().peer_stride = peer_stride;
  return *this;
}

Builder& Builder::begin_loop() {
  next();
  in_loop_ = true;
  loop_start_ = static_cast<uint32_t>(out_.rounds.size());
  return *this;
}

Builder& Builder::end_loop(int32_t times) {
  next();
  in_loop_ = false;
  const auto rounds = static_cast<uint32_t>(out_.rounds.size()) - loop_start_;
  if (times > 0 && rounds > 0) {
    out_.loops.push_back({loop_start_, rounds, times});
  } else if (rounds > 0) {
    out_.steps.resize(out_.rounds[loop_start_].first);
    out_.rounds.resize(loop_start_);
    round_start_ = static_cast<uint32_t>(out_.steps.size());
  }
  return *this;
}

Schedule Builder::done() {
  next();
  return std::move(out_);
}

}  // namespace weft::coll
