// Room for messages that nobody has asked for yet: what a sender may send, and what a receiver gives back or lends.
//
// A sender may have a window of bytes at its peer that no receive has taken. The last quarter is kept for announcements; when that is used
// up as well, messages wait at the sender, which says so once. That alone could wait for ever: a receiver may ask for what stands behind
// messages that it takes later. So while it has a receive (or a probe) without a match that a held-up peer might serve, it lends that
// peer more room, for announcements only.
#include <algorithm>
#include <numeric>

#include "pml/lane.h"

namespace weft::pml {
namespace {

constexpr uint64_t kMostCredit = uint64_t{1} << 40;  // keeps nonsense from overflowing

}  // namespace

/// What one process may leave at another, whatever lanes its messages take: each lane here that talks to this lane there has its part. Both
/// numbers of lanes are known, so that the parts make up the whole.
void Lane::measure_out(Peer& to, uint32_t lanes_there) {
  const auto here = static_cast<uint32_t>(others_.size()) + 1;
  const int64_t room = part_of_room(std::lcm(here, lanes_there));
  to.reserve = room / 4;
  to.credit += room - to.reserve;
  restore_quick(to);
}

/// The peer has no room for the first pending message: it waits for credit.
Status Lane::hold_up(Peer& to) {
  if (!to.held_up) {
    to.held_up = true;
    ++counters_.held_up;
    control(to, MessageKind::held_up, 0);
  }
  return Status::again;
}

void Lane::give_credit(Peer& to) {
  const int64_t repaid = std::min(to.consumed, to.lent);
  const int64_t amount = to.consumed - repaid;
  to.lent -= repaid;
  to.consumed = 0;
  if (!amount) return;
  std::erase(hungry_, &to);
  control(to, MessageKind::credit, static_cast<uint64_t>(amount));
}

void Lane::on_credit(Peer& from, const btl::Header& h) {
  from.credit = std::min(from.credit + static_cast<int64_t>(std::min(h.context, kMostCredit)), static_cast<int64_t>(kMostCredit));
  from.held_up = false;
  if (!from.pending.empty())
    queue(from);
  else if (!from.quick_below)
    restore_quick(from);
}

void Lane::on_held_up(Peer& from) {
  if (from.failed) return;
  if (std::ranges::find(hungry_, &from) == hungry_.end()) hungry_.push_back(&from);
  const bool awaited = matcher_.any_posted([&](const Transfer& t) {
    const auto team = teams_.find(without_traffic(t.match_context));
    return team == teams_.end() || team->second->may_come_from(t.source, process_of(from.id));
  });
  if (awaited) relieve(from);
}

/// Gives back what there is to be given back, lends otherwise.
void Lane::relieve(Peer& to) {
  if (to.consumed > to.lent) return give_credit(to);
  ++counters_.lent;
  const int64_t more = part_of_room(static_cast<int64_t>(others_.size()) + 1) / 4;
  to.lent += more;
  std::erase(hungry_, &to);
  control(to, MessageKind::credit, static_cast<uint64_t>(more));
}

/// A receive or probe from `source` has found nothing: what it waits for may be held up.
void Lane::make_room(const Team& team, int source) {
  const std::vector<Peer*> hungry = hungry_;
  for (Peer* peer : hungry)
    if (team.may_come_from(source, process_of(peer->id))) relieve(*peer);
}

}  // namespace weft::pml
