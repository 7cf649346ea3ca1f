// Small messages that leave together: where each costs a system call, a burst of them shall not cost one each.
#include "pml/lane.h"
#include "runtime/base/clock.h"
#include "runtime/config/config.h"

namespace weft::pml {
namespace {

config::Integer burst_variable(
    "pml", "burst", "8",
    "Small nonblocking sends to one peer that leave at once; those that follow before the next round of progress "
    "leave together with it, if the wire gains by that.");

constexpr uint64_t kGap = 100'000;  // ticks (some 30 us) between sends that belong together

}  // namespace

/// Holds a message back, if it is neither one of the first nor too large. Null: send it as always.
Request* Lane::gather(Team& team, int dest, int tag, Traffic traffic, const Buffer& buffer, Mode mode) {
  std::lock_guard guard(lock_);
  Peer& to = team.peer(static_cast<uint32_t>(dest));
  if (!to.gathers || phase_ == Phase::polling || mode == Mode::synchronous || !buffer.type->contiguous) return nullptr;
  const uint64_t now = ticks();
  if (to.burst_round != rounds_ || now - to.burst_last > kGap) to.burst = 0;
  to.burst_round = rounds_;
  to.burst_last = now;
  if (to.burst++ < static_cast<uint64_t>(burst_variable.get())) return nullptr;
  if (send_quickly<true>(team, to, dest, tag, traffic, buffer, obs::What::isend)) {
    hold(to);
    if (!held_) held_ = take_transfer(RequestKind::send);
    return retain(held_);
  }
  hold_back_ = true;
  Transfer* const t = post_send(team, dest, tag, traffic, buffer, mode);
  hold_back_ = false;
  return t;
}

/// Something for this peer waits in the wire.
void Lane::hold(Peer& to) {
  if (to.holds) return;
  to.holds = true;
  to.next_holding = holding_;
  holding_ = &to;
}

/// Sends off what is held back, and completes the request of the small messages.
void Lane::send_off() {
  while (Peer* peer = holding_) {
    holding_ = peer->next_holding;
    peer->holds = false;
    if (!peer->rails) {
      peer->endpoint->flush();
      continue;
    }
    for (Track& track : peer->rails->tracks)
      if (track.known()) track.endpoint->flush();
  }
  Request* held = std::exchange(held_, nullptr);
  if (!held) return;
  complete(*held);
  release(held);
}

}  // namespace weft::pml
