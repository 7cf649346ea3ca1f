// Peers: made on first contact, connected on first use, failed once and for all.
#include <algorithm>
#include <cstring>
#include <utility>

#include "include/mpi.h"
#include "pml/lane.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/config/config.h"

namespace weft::pml {
namespace {

config::Bytes eager_variable("pml", "eager", "0", "Messages up to this size are sent before their receive is known; 0: by transport.");

constexpr uint64_t kEagerLimit = 64 << 10;
constexpr uint64_t kEagerLimitRead = 16 << 10;  // where reading is soon faster

}  // namespace

Peer& Lane::peer(ProcessId who) {
  auto& slot = peers_[who];
  if (!slot) {
    slot = std::make_unique<Peer>();
    slot->id = who;
  }
  return *slot;
}

Peer& Lane::peer_of(ProcessId who, Context context) {
  const Result<uint32_t> opening = of_session(context) ? openings_->ask(who) : 0u;
  if (!opening) {  // on no seat, then
    Peer& nobody = peer(seat_of(who, kMostLanes));
    fail_peer(nobody, opening.failure().text);
    return nobody;
  }
  Peer& first = peer(seat_of(who, *opening));
  if (!first.lanes) first.lanes = lanes_of(first);
  Peer& seat = first.lanes == 1 ? first : peer(seat_of(who, *opening + ticket_of(context) % first.lanes));
  if (!seat.reserve) measure_out(seat, first.lanes);
  return seat;
}

/// How many lanes a process has. One, if that cannot be known: connecting will say why.
uint32_t Lane::lanes_of(Peer& first) {
  auto addresses = addresses_of(first.id);
  if (!addresses) return 1;
  first.addresses = std::move(*addresses);
  const auto entry = std::ranges::find(first.addresses, wire_name(kLaneCount), &Addresses::value_type::first);
  if (entry == first.addresses.end() || entry->second.size() != sizeof(uint32_t)) return 1;
  uint32_t count;
  memcpy(&count, entry->second.data(), sizeof count);
  return std::clamp(count, 1u, kMostLanes);
}

/// Finds the ways to a peer. Fails the peer if there is none.
void Lane::connect(Peer& peer) {
  if (peer.connected || peer.failed) return;
  if (any_failed_)
    if (const Peer* failed = failed_process(process_of(peer.id), opening_of(peer.id.rank))) return fail_peer(peer, failed->failure);
  Result<Addresses> addresses = std::exchange(peer.addresses, {});
  if (addresses->empty()) addresses = addresses_of(peer.id);
  if (!addresses) return fail_peer(peer, "the addresses of " + name_of(boot_, peer.id) + " could not be had: " + addresses.failure().text);
  std::string reasons;
  for (auto& wire : wires_) {
    const auto address = std::ranges::find(*addresses, wire->name, &Addresses::value_type::first);
    if (address == addresses->end() || !wire->transport->reaches(peer.id, address->second)) continue;
    auto endpoint = wire->transport->connect(peer.id, address->second, &peer);
    if (!endpoint) {
      reasons += std::string(reasons.empty() ? "" : "; ") + wire->transport->caps().name + ": " + endpoint.failure().text;
      continue;
    }
    peer.ways.push_back({wire->name, wire->number, *endpoint, &wire->transport->caps(), wire->transport->price(peer.id, address->second)});
    touch(*wire);
  }
  if (peer.ways.empty())
    return fail_peer(peer, "no transport reaches " + name_of(boot_, peer.id) +
                               (reasons.empty() ? "; see WEFT_NET and `weft doctor`" : " (" + reasons + ")"));
  peer.connected = true;
  choose_ways(peer);
  if (!reasons.empty())
    log(Level::info, "%s is reached over %s only (%s)", name_of(boot_, peer.id).c_str(), peer.ways.front().caps->name, reasons.c_str());
}

bool Lane::can_be_roused() const {
  return std::ranges::any_of(wires_, [](const auto& wire) { return wire->transport->caps().rouses; });
}

bool Lane::rouse(Team& team, uint32_t rank) {
  std::lock_guard hold(lock_);
  Peer& peer = team.peer(rank);
  if (!peer.connected && phase_ != Phase::polling) connect(peer);
  return !peer.failed && std::ranges::any_of(peer.ways, [](const Way& way) { return way.endpoint->rouse(); });
}

/// The way over which large data is read, if that is not dearer than sending it over the first way.
const Way* Lane::reading_way(const Peer& peer) {
  const Way* best = nullptr;
  for (const Way& way : peer.ways) {
    if (!way.caps->get || !way.endpoint->can_get() || way.large > peer.ways.front().large) continue;
    if (peer.confined != kNoWire && way.number != peer.confined) continue;
    if (!best || way.large < best->large) best = &way;
  }
  return best;
}

/// The table of protocols by size and kind of memory.
void Lane::choose_protocols(Peer& peer) {
  const btl::Caps& caps = *peer.ways.front().caps;
  const Way* reading = reading_way(peer);
  const bool readable = reading != nullptr;
  const uint64_t asked = eager_variable.get();
  uint64_t eager = asked;
  if (!eager) eager = readable ? std::clamp(reading->caps->get_from, kEagerLimitRead, kEagerLimit) : kEagerLimit;
  eager = std::min<uint64_t>(eager, caps.max_buffered);
  if (peer.rails)  // it may have to go over any of them
    for (uint32_t wire : peer.rails->order) eager = std::min<uint64_t>(eager, peer.rails->tracks[wire].caps->max_buffered);
  Protocols& host = peer.protocols[static_cast<size_t>(mem::MemKind::host)];
  host = {};
  host.inline_below = uint64_t{caps.max_inline} + 1;
  host.eager_below = eager + 1;
  host.get_from = readable ? reading->caps->get_from : 0;
  host.bulk = readable ? Bulk::get : caps.zcopy ? Bulk::stream_zcopy : Bulk::stream_copied;
  peer.protocols[static_cast<size_t>(mem::MemKind::managed)] = host;
  peer.protocols[static_cast<size_t>(mem::MemKind::device)] = host;
  if (caps.zcopy && caps.gathers && !peer.rails) host.in_place_below = (asked ? asked : caps.eager_in_place) + 1;
}

// Failures

void Lane::lost(void* cookie, const std::string& why) {
  Peer& peer = *static_cast<Peer*>(cookie);
  if (peer.failed) return;
  if (peer.rails) {
    Track& track = peer.rails->tracks[polled_];
    track.lost = true;
    peer.rails->why = why;
    return queue(peer);
  }
  const auto spare = std::ranges::find(peer.ways, polled_, &Way::number);
  if (peer.landing) return fail_peer(peer, why);  // half a message is gone
  if (spare == peer.ways.end() || spare == peer.ways.begin()) return fail_peer(peer, why);
  log(Level::info, "%s is no longer reached over %s: %s", name_of(boot_, peer.id).c_str(), spare->caps->name, why.c_str());
  peer.ways.erase(spare);
  choose_protocols(peer);
}

/// Ends everything that depends on a peer.
void Lane::fail_peer(Peer& peer, const std::string& why) {
  if (peer.failed) return;
  peer.failed = true;
  any_failed_ = true;
  peer.quick_below = 0;
  std::erase(hungry_, &peer);
  peer.failure = name_of(boot_, peer.id) + " cannot be reached any more: " + (why.empty() ? "no reason known" : why);
  log(Level::info, "%s", peer.failure.c_str());
  peer.controls.clear();
  forget_rails(peer);
  if (peer.landing) end(*std::exchange(peer.landing, nullptr), MPI_ERR_PROC_ABORTED);
  while (Transfer* t = peer.pending.pop_front()) end(*t, MPI_ERR_PROC_ABORTED);
  while (Transfer* t = peer.streams.pop_front()) end(*t, MPI_ERR_PROC_ABORTED);
  for (Transfer* t = to_move_.front(); t;) {
    Transfer* next = t->next;
    if (t->peer == &peer) {
      to_move_.remove(*t);
      end(*t, MPI_ERR_PROC_ABORTED);
    }
    t = next;
  }
  std::vector<Transfer*> lost;
  operations_.each([&](Transfer& t) {
    if (t.peer == &peer) lost.push_back(&t);
  });
  for (Transfer* t : lost) end(*t, MPI_ERR_PROC_ABORTED);
  fail_receives_from(peer);
}

void Lane::fail_receives_from(Peer& peer) {
  std::vector<Transfer*> lost;
  std::unique_lock hold(teams_lock_);
  matcher_.each_posted([&](Transfer& t) {
    const auto team = teams_.find(without_traffic(t.match_context));
    if (team != teams_.end() && team->second->may_come_from(t.source, process_of(peer.id)) && concerns(peer, *team->second))
      lost.push_back(&t);
  });
  hold.unlock();
  for (Transfer* t : lost) {
    matcher_.cancel(*t);
    t->peer = &peer;
    end(*t, MPI_ERR_PROC_ABORTED);
  }
}

/// The failed peer, if any, on which a receive from `source` would wait for ever.
Peer* Lane::failed_source(Team& team, int source) {
  if (!any_failed_) return nullptr;
  if (source != any_source) {
    const ProcessId who = team.process(static_cast<uint32_t>(source));
    return failed_process(who, of_session(team.context()) ? openings_->known(who).value_or(kMostLanes) : 0);
  }
  for (auto& [id, peer] : peers_)
    if (peer->failed && team.remote_members().find(process_of(id)) >= 0 && concerns(*peer, team)) return peer.get();
  return nullptr;
}

/// Do messages between this peer and its process's ranks of the team go over these seats, not those of another opening?
bool Lane::concerns(const Peer& peer, const Team& team) const {
  const uint32_t opening = opening_of(peer.id.rank);
  return opening == (of_session(team.context()) ? openings_->known(process_of(peer.id)).value_or(kMostLanes) : 0);
}

/// Any seat of an opening of a process that has failed; null if none has.
Peer* Lane::failed_process(ProcessId who, uint32_t opening) {
  for (uint32_t seat = opening; seat < opening + kMostLanes; ++seat)
    if (const auto known = peers_.find(seat_of(who, seat)); known != peers_.end() && known->second->failed) return known->second.get();
  return nullptr;
}

/// Fails all its seats that are known, and the first ones, so that it is remembered.
void Lane::fail_process(ProcessId who) {
  for (uint32_t seat = 0; seat < 2 * kMostLanes; ++seat)
    if (seat % kMostLanes == 0 || peers_.contains(seat_of(who, seat))) fail_peer(peer(seat_of(who, seat)), "the process has ended");
}

void Lane::refuse_if_failed(Transfer& t) {
  Peer* failed = failed_source(*t.team, t.source);
  if (!failed) return;
  matcher_.cancel(t);
  t.peer = failed;
  end(t, MPI_ERR_PROC_ABORTED);
}

void Lane::handle_alarm() {
  alarm_->raised.store(false, std::memory_order_relaxed);
  std::vector<ProcessId> failed;
  {
    std::lock_guard hold(alarm_->lock);
    failed.swap(alarm_->failed);
  }
  for (ProcessId who : failed) fail_process(who);
}

}  // namespace weft::pml
