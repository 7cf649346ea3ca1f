// Which of several ways to a peer is taken: the one that costs least, by the table of what each costs.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <vector>

#include "pml/lane.h"
#include "pml/prices.h"
#include "runtime/base/text.h"

namespace weft::pml {
namespace {

constexpr double kSmall = 8, kLarge = 1 << 20;  // bytes that stand for all small messages, and for all large ones
constexpr double kNever = std::numeric_limits<double>::max();

double cost(const btl::Price& price, double bytes) { return price.alpha_ns + bytes * price.beta_ns_per_byte; }

/// What the rails of a way's kind cost together: large messages are spread over those that can be opened anew.
double cost_of_kind(std::span<const Way> ways, const Way& way, double bytes) {
  double alpha = kNever, speed = 0;
  for (const Way& rail : ways) {
    if (rail.wire != way.wire) continue;
    const double own = 1 / std::max(rail.price.beta_ns_per_byte, 1e-6);
    alpha = std::min(alpha, rail.price.alpha_ns);
    speed = rail.caps->revives && bytes >= kLarge ? speed + own : std::max(speed, own);
  }
  return cost({alpha, 1 / speed}, bytes);
}

}  // namespace

std::string Prices::to_text() const {
  std::string text;
  for (const auto& [where, price] : prices_) {
    const auto& [host, transport, device] = where;
    char numbers[80];
    snprintf(numbers, sizeof numbers, "\t%.17g\t%.17g\n", price.alpha_ns, price.beta_ns_per_byte);
    text += host + '\t' + transport + '\t' + device + numbers;
  }
  return text;
}

Prices Prices::from_text(std::string_view text) {
  Prices prices;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto words = split(line, '\t');
    if (words.size() != 5) continue;
    const auto number = [](std::string_view word) {
      double value = -1;
      return read_number(word, value) && value < kNever ? value : -1;
    };
    const btl::Price price{number(words[3]), number(words[4])};
    if (price.alpha_ns >= 0 && price.beta_ns_per_byte >= 0)
      prices.set(std::string(words[0]), std::string(words[1]), std::string(words[2]), price);
  }
  return prices;
}

/// Gives each way its price, and puts the one for small messages first: of the cheapest kind of wire the cheapest rail that is near. What
/// costs the same keeps the order of WEFT_NET.
void Lane::put_in_order(ProcessId who, std::vector<Way>& ways) {
  const auto host = prices_.empty() ? Result<std::string>(std::string()) : boot_.host_of(process_of(who));
  for (Way& way : ways) {
    const btl::Price* measured = host ? prices_.find(*host, way.caps->name, way.caps->device) : nullptr;
    way.measured = measured != nullptr;
    way.price = measured ? *measured : way.published;
  }
  for (Way& way : ways) way.small = cost_of_kind(ways, way, kSmall), way.large = cost_of_kind(ways, way, kLarge);
  std::ranges::stable_sort(ways, [](const Way& a, const Way& b) {
    if (a.small != b.small) return a.small < b.small;
    if (a.wire != b.wire || a.caps->near != b.caps->near) return a.wire == b.wire && a.caps->near;
    return cost(a.price, kSmall) < cost(b.price, kSmall);
  });
}

/// Puts a peer's ways in order and acts by it.
void Lane::choose_ways(Peer& peer) {
  for (const Way& way : peer.ways) way.endpoint->flush();  // what is held back is sent off by the way that was chosen for it
  put_in_order(peer.id, peer.ways);
  const auto only = std::ranges::find(peer.ways, peer.confined, &Way::number);
  if (only != peer.ways.end()) std::rotate(peer.ways.begin(), only, only + 1);
  peer.endpoint = peer.ways.front().endpoint;
  peer.gathers = peer.ways.front().caps->gathers;
  if (peer.gathers) gathering_.store(true, std::memory_order_relaxed);
  lay_rails(peer);
  choose_protocols(peer);
  restore_quick(peer);
}

void Lane::learn(Prices prices) {
  std::lock_guard hold(lock_);
  prices_ = std::move(prices);
  for (auto& [id, peer] : peers_)
    if (peer->connected && !peer->failed) choose_ways(*peer);
}

std::vector<WayName> Lane::ways_to(ProcessId who) {
  std::lock_guard hold(lock_);
  Peer& to = peer(who);
  connect(to);
  std::vector<WayName> names;
  for (const Way& way : to.ways)
    if (!to.rails || to.rails->tracks[way.number].known())
      names.push_back({way.wire, way.endpoint->rail(), way.caps->name, way.caps->device});
  return names;
}

bool Lane::confine(ProcessId who, const WayName* name) {
  std::lock_guard hold(lock_);
  Peer& to = peer(who);
  connect(to);
  if (to.failed) return false;
  const auto way = std::ranges::find_if(to.ways, [&](const Way& w) { return name && is_named(w, *name); });
  to.confined = way == to.ways.end() ? kNoWire : way->number;
  choose_ways(to);
  if (to.rails) to.rails->wanted = true;  // each way is to be open
  queue(to);
  return !name || to.confined != kNoWire;
}

bool Lane::works(ProcessId who, const WayName& name) {
  const auto known = peers_.find(who);
  if (known == peers_.end() || !known->second->connected || known->second->failed) return false;
  const Peer& to = *known->second;
  const auto way = std::ranges::find_if(to.ways, [&](const Way& w) { return is_named(w, name); });
  return way != to.ways.end() && (!to.rails || to.rails->tracks[way->number].usable());
}

}  // namespace weft::pml
