// Several ways to one peer: what was sent over which, losing a way, and getting it back. rails.h says how the two sides agree.
#include "pml/rails.h"

#include <algorithm>
#include <cstring>

#include "include/mpi.h"
#include "pml/lane.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/config/config.h"
#include "runtime/type/predefined.h"

namespace weft::pml {
namespace {

config::Integer patience_variable("net", "patience", "30",
                                  "Seconds that a peer whose ways are all lost is waited for, if there were several.");

constexpr uint64_t kHeldBytes = 1 << 20;    // copies of what has not been acknowledged, per peer
constexpr size_t kUnacknowledged = 4096;    // messages of a way
constexpr uint64_t kAcknowledgeEvery = 64;  // messages, or
constexpr uint64_t kAcknowledgeBytes = 128 << 10;
constexpr uint64_t kFirstPause_ns = 20'000'000, kLongestPause_ns = 5'000'000'000;
constexpr uint64_t kExplain_ns = 500'000'000;  // that a transport has to say why it refuses
constexpr uint64_t kAskEvery_ns = 1'000'000;
constexpr uint32_t kAttempts = 10;  // in vain over each way, without any that is up: the peer is gone

btl::Header bookkeeping(MessageKind kind, const Track& track, uint16_t life, uint64_t count) {
  btl::Header header{};
  header.kind = static_cast<uint8_t>(kind);
  header.context = count;
  header.tag = static_cast<int32_t>(track.wire);
  header.source = track.rail | life << 8;
  return header;
}

/// Of a message that bookkeeping() has made.
uint16_t life_in(const btl::Header& header) { return static_cast<uint16_t>(header.source >> 8); }

std::string track_text(const Peer& peer, const Track& track) {
  return "the way to " + text_of(peer.id) + " over " + track.caps->name + " " + track.caps->device;
}

uint64_t pause_after(uint32_t failures) { return std::min(kFirstPause_ns << std::min(failures, 10u), kLongestPause_ns); }

}  // namespace

// The ways

Rails& Lane::rails_of(Peer& peer) {
  if (!peer.rails) {
    peer.rails = std::make_unique<Rails>();
    peer.rails->tracks.resize(wires_.size());
    peer.quick_below = 0;
    railed_.push_back(&peer);
  }
  return *peer.rails;
}

/// Keeps account of the ways over networks if there are several, the best of all among them. Takes over what they cost now.
void Lane::lay_rails(Peer& peer) {
  const auto lasting = [](const Way& way) { return way.caps->revives && !way.caps->same_node; };
  const bool several = lasting(peer.ways.front()) && std::ranges::count_if(peer.ways, lasting) > 1;
  if (!peer.rails && (!several || peer.confined != kNoWire)) return;
  Rails& rails = rails_of(peer);
  bool some = false;  // works, as the peer was first
  rails.order.clear();
  for (const Way& way : peer.ways) {
    if (!lasting(way)) continue;
    Track& track = rails.tracks[way.number];
    if (!track.known()) {
      track.state = track.received ? Track::State::up : Track::State::asleep;
      track.rail = way.endpoint->rail();
      track.wire = way.wire;
      track.endpoint = way.endpoint;
      track.caps = way.caps;
    }
    some |= track.proven || track.state > Track::State::asleep;
    track.beta_ns_per_byte = way.price.beta_ns_per_byte;
    track.large = way.large;
    rails.order.push_back(way.number);
  }
  rails.confined = peer.confined;
  if (!some && !rails.order.empty()) rails.tracks[rails.order.front()].state = Track::State::up;
}

void Lane::forget_rails(Peer& peer) {
  if (!peer.rails) return;
  Rails& rails = *peer.rails;
  for (Track& track : rails.tracks) {
    if (track.known() && peer.failed) track.endpoint->cut();
    for (Sent& sent : track.unacknowledged) forget(rails, sent);
  }
  for (Sent& sent : rails.again) forget(rails, sent);
  std::erase(railed_, &peer);
  peer.rails.reset();
}

/// At closing: true until all peers have acknowledged what was sent, and then our goodbye. They need not have closed themselves. Peers that
/// have only sent are told as well: they wait for it.
bool Lane::owes_on_rails() {
  bool owes = false;
  const std::vector<Peer*> all = railed_;
  for (Peer* peer : all) {
    if (!peer->rails || peer->failed || peer->rails->departed) continue;
    Rails& rails = *peer->rails;
    if (!rails.settled()) {
      owes = true;
      ask(*peer);
    } else if (!rails.parting) {
      owes = rails.parting = true;
      control(*peer, MessageKind::goodbye, 0);
    }
  }
  return owes;
}

void Lane::ask(Peer& peer) {
  const uint64_t now = now_ns();
  if (phase_ == Phase::polling || now < peer.rails->ask_at) return;
  peer.rails->ask_at = now + kAskEvery_ns;
  for (Track& track : peer.rails->tracks)
    if (track.state == Track::State::up && !track.unacknowledged.empty())
      if (track.endpoint->try_inline(bookkeeping(MessageKind::ask, track, track.life, 0), nullptr) == Status::peer_failed)
        track.lost = true;
  queue(peer);
}

void Lane::on_ask(Peer& from) {
  if (from.failed) return;
  rails_of(from).asked = true;
  queue(from);
}

void Lane::on_goodbye(Peer& from) {
  if (!from.rails) return;
  from.rails->departed = from.rails->asked = true;
  queue(from);
}

// Sending

void Lane::hold(Rails& rails, Track& track, const btl::Header& header, std::byte* payload) {
  track.unacknowledged.push_back({header, payload, 0});
  rails.held += header.length;
}

void Lane::forget(Rails& rails, Sent& sent) {
  if (sent.transfer) return;
  rails.held -= sent.header.length;
  if (sent.payload) payloads_.give(sent.payload, sent.header.length);
}

/// So many of this life's messages have arrived.
void Lane::confirm(Rails& rails, Track& track, uint64_t arrived) {
  for (; track.acknowledged < arrived && !track.unacknowledged.empty(); ++track.acknowledged) {
    forget(rails, track.unacknowledged.front());
    track.unacknowledged.pop_front();
  }
}

/// Sends over the best way that works. `payload` is contiguous. `over`: the way that took it.
Status Lane::put_counted(Peer& to, btl::Header& header, const void* payload, Track*& over) {
  while (!to.failed) {
    over = to.rails->best();
    if (!over || over->unacknowledged.size() >= kUnacknowledged) return Status::again;
    header.flags = over->counted();
    const Status status = put_over(to, *over->endpoint, *over->caps, header, payload);
    if (status == Status::ok || status == Status::again) return status;
    refused(*over);
  }
  return Status::peer_failed;
}

Status Lane::put_on_rails(Peer& to, btl::Header& header, const void* payload) {
  Rails& rails = *to.rails;
  if (!rails.again.empty() || rails.held > kHeldBytes) return Status::again;
  Track* over;
  const Status status = put_counted(to, header, payload, over);
  if (status != Status::ok) return status;
  std::byte* copy = nullptr;
  if (header.length) memcpy(copy = payloads_.take(header.length), payload, header.length);
  hold(rails, *over, header, copy);
  return status;
}

/// The payload is packed once, into the copy that is kept.
Status Lane::emit_eager_on_rails(Transfer& t, Peer& to, btl::Header header) {
  if (t.base) return put_on_rails(to, header, t.base);
  Rails& rails = *to.rails;
  if (!rails.again.empty() || rails.held > kHeldBytes || !rails.best()) return Status::again;
  std::byte* copy = payloads_.take(header.length);
  type::Cursor cursor(t.buffer.address, t.buffer.count, *t.buffer.type);
  cursor.pack(copy, header.length);
  Track* over;
  const Status status = put_counted(to, header, copy, over);
  if (status == Status::ok)
    hold(rails, *over, header, copy);
  else
    payloads_.give(copy, header.length);
  return status;
}

// Arrivals; called back by transports, so nothing is sent here

/// False if the message is to be dropped.
bool Lane::arrived_counted(Peer& from, const btl::Header& h) {
  if (from.failed) return true;
  Rails& rails = rails_of(from);
  Track& track = rails.tracks[polled_];
  if (!track.takes(h)) return false;
  ++track.received;
  track.told_later += h.length;
  if (!track.proven || track.state != Track::State::up) {
    track.proven = true;
    if (track.known()) raise(from, track);
  }
  if (track.untold() >= kAcknowledgeEvery || track.told_later >= kAcknowledgeBytes) queue(from);
  return true;
}

void Lane::on_hello(Peer& from) {
  if (from.failed) return;
  rails_of(from).tracks[polled_].proven = true;
  queue(from);
}

void Lane::on_acknowledge(Peer& from, const btl::Header& h) {
  if (!from.rails) return;
  Track& track = from.rails->tracks[polled_];
  if (track.life == life_in(h)) confirm(*from.rails, track, h.context);
  if (!from.pending.empty()) queue(from);
}

/// The peer has closed a life of a way. Said over the way itself, it heads the next life.
void Lane::on_resume(Peer& from, const btl::Header& h) {
  if (from.failed) return;
  Rails& rails = rails_of(from);
  queue(from);
  Track* track = rails.find(static_cast<uint32_t>(h.tag), static_cast<uint8_t>(h.source));
  if (!track || track->life != life_in(h)) return;  // heard before
  track->heard = true;
  track->heard_count = h.context;
  if (track == &rails.tracks[polled_] && !track->final && track->state != Track::State::up) close_life(from, *track);
  if (track->final) settle(from, *track, h.context);
}

// Losing a way

/// The way takes nothing more. Its transport is about to say why, through lost().
void Lane::refused(Track& track) {
  if (track.refused_at) return;
  track.refused_at = now_ns();
  const uint64_t at = track.refused_at + kExplain_ns;
  if (!mend_at_ || at < mend_at_) mend_at_ = at;
}

void Lane::lose(Peer& peer, Track& track, const std::string& why) {
  Rails& rails = *peer.rails;
  const bool was_up = track.state == Track::State::up;
  track.lost = track.proven = track.greeted = false;
  track.refused_at = 0;
  track.state = Track::State::down;
  track.endpoint->cut();
  const uint64_t now = now_ns();
  track.retry_at = now + pause_after(track.failures++);
  if (!mend_at_ || track.retry_at < mend_at_) mend_at_ = track.retry_at;
  rails.why = why;
  queue(peer);
  if (!was_up) return log(Level::info, "no way to rank %u over %s: %s", rank_of(peer.id.rank), track.caps->device.c_str(), why.c_str());
  ++counters_.ways_lost;
  ring_.add(obs::What::way_lost, 0, static_cast<int32_t>(rank_of(peer.id.rank)), track.rail, 0);
  if (!track.final) close_life(peer, track);
  const Track* other = rails.best();
  if (!other) rails.wanted = true;
  if (!other && !rails.dark_since) rails.dark_since = now;
  if (rails.departed) return;  // still asked for what it waits for, but nobody needs to know
  log(Level::warning, "%s; %s", why.c_str(),
      other ? ("going on over " + other->caps->device).c_str() : "no other way to it works now, trying again");
}

/// Nothing more is accepted of this life; tells the peer over whatever way works.
void Lane::close_life(Peer& peer, Track& track) {
  track.final = true;
  track.greeted = false;
  Control word{};
  word.header = bookkeeping(MessageKind::resume, track, track.life, track.received);
  peer.controls.push_back(std::move(word));
  queue(peer);
}

/// Both sides have closed a life of a way: what had not arrived goes again, and the next life begins.
void Lane::settle(Peer& peer, Track& track, uint64_t arrived) {
  confirm(*peer.rails, track, arrived);
  for (Sent& sent : std::exchange(track.unacknowledged, {})) send_again(peer, std::move(sent));
  for (const Stranded& write : std::exchange(track.stranded, {})) write_again(peer, write);
  track.last_received = track.received;
  track.acknowledged = track.received = track.told = track.told_later = 0;
  track.final = track.heard = track.greeted = false;
  ++track.life;
  queue(peer);
}

void Lane::send_again(Peer& peer, Sent&& sent) {
  ++counters_.sent_again;
  if (!sent.transfer) return peer.rails->again.push_back(std::move(sent));
  Transfer* t = operations_.find(sent.transfer);
  if (!t || t->peer != &peer || (t->stage != Stage::streaming && t->stage != Stage::confirming)) return;
  t->bulk->again.push_back({offset_of(sent.header), sent.header.length});
  if (t->stage == Stage::streaming) return;
  t->stage = Stage::streaming;
  peer.streams.push_back(*t);
}

// Getting it back

/// The first words over a new connection: how the lives before have ended, and that this was all, so that the way works.
void Lane::greet(Peer& peer, Track& track) {
  const auto say = [&](MessageKind kind, uint16_t life, uint64_t count) {
    return track.endpoint->try_inline(bookkeeping(kind, track, life, count), nullptr);
  };
  Status status = Status::ok;
  if (track.reborn()) status = say(MessageKind::resume, static_cast<uint16_t>(track.life - 1), track.last_received);
  if (status == Status::ok && track.final) status = say(MessageKind::resume, track.life, track.received);
  if (status == Status::ok) status = say(MessageKind::hello, 0, 0);
  if (status == Status::ok)
    track.greeted = true;
  else if (status != Status::again)
    refused(track);
}

void Lane::raise(Peer& peer, Track& track) {
  Rails& rails = *peer.rails;
  if (track.failures) {
    ++counters_.ways_back;
    ring_.add(obs::What::way_back, 0, static_cast<int32_t>(rank_of(peer.id.rank)), track.rail, 0);
    log(Level::warning, "%s works again", track_text(peer, track).c_str());
  }
  track.state = Track::State::up;
  track.failures = 0;
  rails.dark_since = 0;
  queue(peer);
}

/// False if the way has no room for it now.
bool Lane::acknowledge(Peer& peer, Track& track) {
  const Status status = track.endpoint->try_inline(bookkeeping(MessageKind::acknowledge, track, track.life, track.received), nullptr);
  if (status == Status::ok) {
    track.told = track.received;
    track.told_later = 0;
  } else if (status != Status::again) {
    refused(track);
  }
  return status != Status::again;
}

/// What callbacks have found out about a way, and what it owes the peer; false if some of that is still to be done or said. `wake`: it is
/// needed even if it was not yet.
bool Lane::attend(Peer& peer, Track& track, bool wake) {
  using enum Track::State;
  if (track.lost) lose(peer, track, std::string(peer.rails->why));
  if (track.heard && !track.final) {
    if (track.state == up || track.state == trying) lose(peer, track, track_text(peer, track) + " is lost, as the other side says");
    if (!track.final) close_life(peer, track);
  }
  if (track.heard && track.final) settle(peer, track, track.heard_count);
  if (track.state == asleep && (track.proven || wake)) track.state = trying;
  const bool met = track.state == trying || (track.state == up && track.proven);
  if (met && !track.greeted) greet(peer, track);
  if (track.state == trying && track.greeted && track.proven && !track.final) raise(peer, track);
  const bool due = track.untold() >= kAcknowledgeEvery || track.told_later >= kAcknowledgeBytes || (track.untold() && peer.rails->asked);
  const bool told = track.state != up || !due || acknowledge(peer, track);
  return told && !track.lost && (!met || track.greeted);
}

/// True if nothing that was lost with a way waits to be sent again.
bool Lane::flush_rails(Peer& peer) {
  Rails& rails = *peer.rails;
  const bool wake = std::exchange(rails.wanted, false);  // a loss on the way may ask for it again
  rails.busy = false;
  for (uint32_t wire : rails.order) rails.busy |= !attend(peer, rails.tracks[wire], wake);
  const auto untold = [&](uint32_t wire) { return rails.tracks[wire].state == Track::State::up && rails.tracks[wire].untold(); };
  rails.asked = rails.asked && std::ranges::any_of(rails.order, untold);
  while (!rails.again.empty() && !peer.failed) {
    Sent sent = rails.again.front();
    Track* over;
    if (put_counted(peer, sent.header, sent.payload, over) != Status::ok) break;
    over->unacknowledged.push_back(sent);
    rails.again.pop_front();
  }
  return rails.again.empty() && !peer.failed;
}

void Lane::revive(Peer& peer, Track& track, uint64_t now) {
  auto addresses = addresses_of(peer.id);
  Wire& wire = *wires_[static_cast<size_t>(&track - peer.rails->tracks.data())];
  track.proven = track.greeted = false;
  if (addresses)
    for (auto& [name, address] : *addresses)
      if (name == wire.name) {
        auto endpoint = wire.transport->connect(peer.id, address, &peer);
        if (!endpoint) continue;
        track.endpoint = *endpoint;
        track.state = Track::State::trying;
        return greet(peer, track);
      }
  track.retry_at = now + pause_after(track.failures++);
}

/// Looks after one peer's lost ways.
void Lane::mend(Peer& peer, uint64_t now) {
  Rails& rails = *peer.rails;
  if (rails.gone) return;
  bool hope = false;
  for (uint32_t wire : rails.order) {
    Track& track = rails.tracks[wire];
    if (track.refused_at && now - track.refused_at >= kExplain_ns) lose(peer, track, track_text(peer, track) + " takes nothing more");
    if (track.state == Track::State::down && track.retry_at <= now) revive(peer, track, now);
    hope |= track.failures < kAttempts;
  }
  const auto patience = static_cast<uint64_t>(std::max<int64_t>(patience_variable.get(), 1)) * 1'000'000'000;
  if (rails.best() || !rails.dark_since || (hope && now - rails.dark_since <= patience)) return;
  if (rails.departed) {
    rails.gone = true;
    peer.controls.clear();
  } else {
    fail_peer(peer, "all " + std::to_string(rails.order.size()) + " ways to it are lost, the last one because: " + rails.why);
  }
}

void Lane::mend_rails(uint64_t now) {
  const std::vector<Peer*> all = railed_;
  for (Peer* peer : all)
    if (peer->connected) mend(*peer, now);
  mend_at_ = 0;
  for (const Peer* peer : railed_)
    for (uint32_t wire : peer->rails->order) {
      const Track& track = peer->rails->tracks[wire];
      if (peer->rails->gone || (track.state != Track::State::down && !track.refused_at && !peer->rails->dark_since)) continue;
      const uint64_t at = std::max(track.state == Track::State::down ? track.retry_at : 0, now + kFirstPause_ns / 2);
      if (!mend_at_ || at < mend_at_) mend_at_ = at;
    }
}

}  // namespace weft::pml
