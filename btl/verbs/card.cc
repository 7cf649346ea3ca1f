#include "btl/verbs/card.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "btl/partners.h"

namespace weft::btl::verbs {
namespace {

// Records of fixed size: what is read from a stranger is checked once for its length and then field by field.
constexpr uint8_t kFormat = 1;
constexpr size_t kGids = 4, kAddresses = 4;

struct WireGid {
  uint8_t bytes[16];
  uint8_t type, index, prefix, zero;
};
struct WireAddress {
  uint8_t family, prefix;
  uint16_t port;
  uint8_t bytes[16];
};
struct WireRail {
  char device[40];
  WireGid gids[kGids];
  WireAddress at[kAddresses];
};
struct WireHead {
  uint8_t format, rails, zero[6];
  char host[80];
  char host_id[80];
  Token token;
};

template <size_t N>
void store(char (&to)[N], const std::string& from) {
  memcpy(to, from.data(), std::min(from.size(), N - 1));
}
template <size_t N>
std::string text(const char (&from)[N]) {
  return {from, strnlen(from, N)};
}

WireRail packed(const Card::Rail& rail) {
  WireRail out{};
  store(out.device, rail.device);
  for (size_t i = 0; i < std::min(rail.gids.size(), kGids); ++i) {
    const net::Gid& g = rail.gids[i];
    WireGid& to = out.gids[i];
    memcpy(to.bytes, g.bytes.data(), 16);
    to.type = uint8_t(uint8_t(g.type) + 1);  // 0: none
    to.index = g.index;
    to.prefix = g.prefix;
  }
  for (size_t i = 0; i < std::min(rail.at.size(), kAddresses); ++i) {
    const net::Address& a = rail.at[i];
    WireAddress& to = out.at[i];
    to.family = a.v6 ? 6 : 4;
    to.prefix = a.prefix;
    to.port = a.port;
    memcpy(to.bytes, a.bytes.data(), 16);
  }
  return out;
}

bool unpack(const WireRail& in, Card::Rail& out) {
  out.device = text(in.device);
  for (const WireGid& g : in.gids) {
    if (g.type == 0) continue;
    if (g.type > 3 || g.prefix > 128) return false;
    net::Gid gid;
    memcpy(gid.bytes.data(), g.bytes, 16);
    gid.type = net::Gid::Type(g.type - 1);
    gid.index = g.index;
    gid.prefix = g.prefix;
    out.gids.push_back(gid);
  }
  for (const WireAddress& a : in.at) {
    if (a.family == 0) continue;
    if ((a.family != 4 && a.family != 6) || a.prefix > (a.family == 6 ? 128 : 32)) return false;
    net::Address address;
    address.v6 = a.family == 6;
    address.prefix = a.prefix;
    address.port = a.port;
    memcpy(address.bytes.data(), a.bytes, address.v6 ? 16 : 4);
    out.at.push_back(address);
  }
  return true;
}

}  // namespace

boot::Blob Card::encode() const {
  WireHead head{};
  head.format = kFormat;
  head.rails = uint8_t(std::min(rails.size(), kMaxRails));
  store(head.host, host);
  store(head.host_id, host_id);
  head.token = token;
  boot::Blob out(sizeof head + head.rails * sizeof(WireRail));
  memcpy(out.data(), &head, sizeof head);
  for (size_t i = 0; i < head.rails; ++i) {
    const WireRail rail = packed(rails[i]);
    memcpy(out.data() + sizeof head + i * sizeof rail, &rail, sizeof rail);
  }
  return out;
}

std::optional<Card> Card::decode(const boot::Blob& bytes) {
  WireHead head;
  if (bytes.size() < sizeof head) return {};
  memcpy(&head, bytes.data(), sizeof head);
  if (head.format != kFormat || head.rails > kMaxRails || bytes.size() != sizeof head + head.rails * sizeof(WireRail)) return {};
  Card card;
  card.host = text(head.host);
  card.host_id = text(head.host_id);
  card.token = head.token;
  for (size_t i = 0; i < head.rails; ++i) {
    WireRail in;
    memcpy(&in, bytes.data() + sizeof head + i * sizeof in, sizeof in);
    if (!unpack(in, card.rails.emplace_back())) return {};
  }
  return card;
}

GidPair best_gids(const Card& mine, size_t my_rail, const Card& theirs, size_t their_rail) {
  const bool same_host = mine.host_id == theirs.host_id;
  GidPair best;
  for (const net::Gid& a : mine.rails[my_rail].gids)
    for (const net::Gid& b : theirs.rails[their_rail].gids)
      if (const int worth = net::judge(a, b, same_host); worth > best.worth) best = {a, b, worth};
  return best;
}

std::vector<TcpWay> tcp_ways(const Card& mine, size_t my_rail, const Card& theirs, size_t their_rail) {
  const bool same_host = mine.host_id == theirs.host_id;
  std::vector<std::pair<net::Reach, TcpWay>> list;
  for (const net::Address& from : mine.rails[my_rail].at)
    for (const net::Address& to : theirs.rails[their_rail].at)
      if (const net::Reach reach = net::judge(from, to, same_host); reach != net::Reach::none) list.push_back({reach, {from, to}});
  std::ranges::stable_sort(list, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<TcpWay> out;
  for (const auto& [reach, way] : list) out.push_back(way);
  return out;
}

int partner_of(const Card& mine, uint32_t my_rank, size_t my_rail, const Card& theirs, uint32_t their_rank) {
  const bool first = my_rank < their_rank;
  const Card& low = first ? mine : theirs;
  const Card& high = first ? theirs : mine;
  std::vector<RailPair> pairs;
  for (size_t i = 0; i < low.rails.size(); ++i)
    for (size_t j = 0; j < high.rails.size(); ++j)
      if (const GidPair gids = best_gids(low, i, high, j); gids.worth > 0) pairs.push_back({gids.worth, i, j});
  // on one host, and across routers, every rail reaches every other: the same name, then the same place is the natural partner
  auto rank = [&](const RailPair& p) {
    return std::tuple(-p.worth, low.rails[p.low].device != high.rails[p.high].device, p.low != p.high, p.low, p.high);
  };
  std::ranges::sort(pairs, [&](const RailPair& a, const RailPair& b) { return rank(a) < rank(b); });
  return partner_in(pairs, low.rails.size(), high.rails.size(), first, my_rail);
}

}  // namespace weft::btl::verbs
