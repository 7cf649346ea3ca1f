#include "btl/card.h"

#include <algorithm>
#include <fstream>
#include <tuple>

#include "runtime/base/bytes.h"
#include "runtime/net/auth.h"
#include "runtime/topo/cpu_set.h"

namespace weft::btl {
namespace {

constexpr uint8_t kFormat = 3;

size_t bytes_in(bool v6) { return v6 ? 16 : 4; }

void write(Writer& out, const net::Address& a) {
  out.u8(a.v6 ? 6 : 4);
  out.u8(a.prefix);
  out.number(a.port, 2);
  out.raw(a.bytes.data(), bytes_in(a.v6));
}

net::Address read_address(Reader& in) {
  net::Address a;
  const uint8_t family = in.u8();
  a.v6 = family == 6;
  a.prefix = in.u8();
  a.port = uint16_t(in.number(2));
  in.raw(a.bytes.data(), bytes_in(a.v6));
  if ((family != 4 && family != 6) || a.prefix > 8 * bytes_in(a.v6)) in.fail();
  return a;
}

void write(Writer& out, const net::Gid& g) {
  out.raw(g.bytes.data(), g.bytes.size());
  out.u8(uint8_t(g.type));
  out.u8(g.index);
  out.u8(g.prefix);
}

net::Gid read_gid(Reader& in) {
  net::Gid g;
  in.raw(g.bytes.data(), g.bytes.size());
  const uint8_t type = in.u8();
  g.type = net::Gid::Type(type);
  g.index = in.u8();
  g.prefix = in.u8();
  if (type > uint8_t(net::Gid::Type::roce_v2) || g.prefix > 128) in.fail();
  return g;
}

/// Writes the first items of a list, and how many they are.
template <class T, class F>
void write_list(Writer& out, const std::vector<T>& list, size_t most, F write_one) {
  const size_t count = std::min(list.size(), most);
  out.u8(uint8_t(count));
  for (size_t i = 0; i < count; ++i) write_one(list[i]);
}

/// The length of a list of at most `most` items.
size_t read_count(Reader& in, size_t most) {
  const size_t count = in.u8();
  return count <= most ? count : size_t(in.fail());
}

/// A pair of rails, one of the lower rank's and one of the higher rank's.
struct Pair {
  int worth;
  size_t low, high;
};

}  // namespace

void Card::Rail::listen(const net::Interface& interface, std::vector<net::Fd>& listeners, std::string& why) {
  for (const net::Address& address : interface.addresses) {
    if (addresses.size() == kAddresses) return;
    auto fd = net::listen_at(address);
    if (!fd) {
      why = fd.failure().text;
      continue;
    }
    addresses.push_back(address);
    addresses.back().port = net::local_address(fd->get()).port;
    listeners.push_back(std::move(*fd));
  }
}

Card Card::of(const boot::Job& job) {
  Card card;
  card.host = job.host;
  card.host_id = net::network_host_id();
  net::fill_random(card.token);
  return card;
}

boot::Blob Card::encode() const {
  Writer out;
  out.u8(kFormat);
  out.text(host);
  out.text(host_id);
  out.raw(token.data(), token.size());
  write_list(out, rails, kRails, [&](const Rail& rail) {
    out.text(rail.device);
    write_list(out, rail.addresses, kAddresses, [&](const net::Address& a) { write(out, a); });
    write_list(out, rail.gids, kGids, [&](const net::Gid& g) { write(out, g); });
    out.number(rail.mbit, 4);
  });
  return out.blob();
}

std::optional<Card> Card::decode(const boot::Blob& bytes) {
  Reader in(bytes);
  Card card;
  if (in.u8() != kFormat) return {};
  card.host = in.text();
  card.host_id = in.text();
  in.raw(card.token.data(), card.token.size());
  card.rails.resize(read_count(in, kRails));
  for (Rail& rail : card.rails) {
    rail.device = in.text();
    rail.addresses.resize(read_count(in, kAddresses));
    for (net::Address& a : rail.addresses) a = read_address(in);
    rail.gids.resize(read_count(in, kGids));
    for (net::Gid& g : rail.gids) g = read_gid(in);
    rail.mbit = uint32_t(in.number(4));
  }
  return whole(in, std::move(card));
}

double beta_of(uint32_t mbit) { return 8'000.0 / double(mbit ? mbit : 10'000); }

bool is_near(const std::string& folder) {
  std::ifstream file(folder + "/device/local_cpulist");
  std::string list;
  if (!std::getline(file, list)) return true;
  const auto local = topo::CpuSet::parse(list);
  topo::CpuSet own = topo::CpuSet::of_this_thread();
  if (!local || local->empty() || own.empty()) return true;
  own &= *local;
  return !own.empty();
}

Price price_between(const Caps& mine, const Card::Rail& theirs) {
  if (mine.same_node) return {mine.alpha_ns, mine.beta_ns_per_byte};
  return {mine.alpha_ns, std::max(mine.beta_ns_per_byte, beta_of(theirs.mbit))};
}

Result<std::vector<net::Interface>> interfaces_for(const boot::Job& job, const std::optional<std::vector<net::Interface>>& instead) {
  if (instead) return *instead;
  return net::usable_interfaces(job.node_count > 1 ? net::Extent::network : net::Extent::host);
}

std::vector<Way> ways(const Card& mine, size_t my_rail, const Card& theirs, size_t their_rail) {
  std::vector<Way> list;
  const bool same_host = mine.host_id == theirs.host_id;
  for (const net::Address& from : mine.rails[my_rail].addresses)
    for (const net::Address& to : theirs.rails[their_rail].addresses)
      if (const net::Reach reach = net::judge(from, to, same_host); reach != net::Reach::none) list.push_back({from, to, reach});
  std::ranges::stable_sort(list, [](const Way& a, const Way& b) { return a.reach > b.reach; });
  return list;
}

int best_reach(const Card& one, size_t one_rail, const Card& other, size_t other_rail) {
  const auto list = ways(one, one_rail, other, other_rail);
  return int(list.empty() ? net::Reach::none : list.front().reach);
}

int partner_of(Worth worth, const Card& mine, uint32_t my_rank, size_t my_rail, const Card& theirs, uint32_t their_rank) {
  const bool first = my_rank < their_rank;
  const Card& low = first ? mine : theirs;
  const Card& high = first ? theirs : mine;
  std::vector<Pair> pairs;
  for (size_t i = 0; i < low.rails.size(); ++i)
    for (size_t j = 0; j < high.rails.size(); ++j)
      if (const int value = worth(low, i, high, j); value > 0) pairs.push_back({value, i, j});
  // on one host, and across routers, every rail reaches every other: the same name, then the same place is the natural partner
  auto place = [&](const Pair& p) {
    return std::tuple(-p.worth, low.rails[p.low].device != high.rails[p.high].device, p.low != p.high, p.low, p.high);
  };
  std::ranges::sort(pairs, [&](const Pair& a, const Pair& b) { return place(a) < place(b); });
  std::vector<bool> low_taken(low.rails.size()), high_taken(high.rails.size());
  for (const Pair& p : pairs) {
    if (low_taken[p.low] || high_taken[p.high]) continue;
    low_taken[p.low] = high_taken[p.high] = true;
    if ((first ? p.low : p.high) == my_rail) return int(first ? p.high : p.low);
  }
  return -1;
}

}  // namespace weft::btl
