#include "btl/tcp/card.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "btl/partners.h"

namespace weft::btl::tcp {
namespace {

constexpr uint8_t kFormat = 1;

class Writer {
 public:
  void number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_.push_back(std::byte(value >> (8 * i)));
  }
  void bytes(const void* data, size_t n) {
    const auto* first = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), first, first + n);
  }
  void text(const std::string& s) {
    const size_t n = std::min<size_t>(s.size(), 255);
    number(n, 1);
    bytes(s.data(), n);
  }
  boot::Blob take() { return std::move(out_); }

 private:
  boot::Blob out_;
};

/// Reads what Writer wrote; anything beyond the end reads as zero and makes good() false.
class Reader {
 public:
  explicit Reader(const boot::Blob& in) : in_(in) {}
  uint64_t number(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= uint64_t(next()) << (8 * i);
    return value;
  }
  void bytes(void* data, size_t n) {
    for (size_t i = 0; i < n; ++i) static_cast<std::byte*>(data)[i] = next();
  }
  std::string text() {
    std::string s(number(1), '\0');
    bytes(s.data(), s.size());
    return s;
  }
  bool good() const { return good_; }
  bool at_end() const { return good_ && at_ == in_.size(); }

 private:
  std::byte next() {
    if (at_ < in_.size()) return in_[at_++];
    good_ = false;
    return std::byte{0};
  }
  const boot::Blob& in_;
  size_t at_ = 0;
  bool good_ = true;
};

net::Address read_address(Reader& in) {
  net::Address a;
  a.v6 = in.number(1) == 6;
  a.prefix = uint8_t(in.number(1));
  a.port = uint16_t(in.number(2));
  in.bytes(a.bytes.data(), a.v6 ? 16 : 4);
  return a;
}

net::Reach best_reach(const Card& a, size_t i, const Card& b, size_t j) {
  const auto list = ways(a, i, b, j);
  return list.empty() ? net::Reach::none : list.front().reach;
}

}  // namespace

boot::Blob Card::encode() const {
  Writer out;
  out.number(kFormat, 1);
  out.text(host);
  out.text(host_id);
  out.bytes(token.data(), token.size());
  out.number(rails.size(), 1);
  for (const RailEntry& rail : rails) {
    out.text(rail.device);
    out.number(rail.addresses.size(), 1);
    for (const net::Address& a : rail.addresses) {
      out.number(a.v6 ? 6 : 4, 1);
      out.number(a.prefix, 1);
      out.number(a.port, 2);
      out.bytes(a.bytes.data(), a.v6 ? 16 : 4);
    }
  }
  return out.take();
}

std::optional<Card> Card::decode(const boot::Blob& bytes) {
  Reader in(bytes);
  Card card;
  if (in.number(1) != kFormat) return {};
  card.host = in.text();
  card.host_id = in.text();
  in.bytes(card.token.data(), card.token.size());
  card.rails.resize(in.number(1));
  for (RailEntry& rail : card.rails) {
    rail.device = in.text();
    const uint64_t count = in.number(1);
    for (uint64_t i = 0; i < count && in.good(); ++i) rail.addresses.push_back(read_address(in));
  }
  if (!in.at_end()) return {};
  return card;
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

int partner_of(const Card& mine, uint32_t my_rank, size_t my_rail, const Card& theirs, uint32_t their_rank) {
  const bool first = my_rank < their_rank;
  const Card& low = first ? mine : theirs;
  const Card& high = first ? theirs : mine;
  std::vector<RailPair> pairs;
  for (size_t i = 0; i < low.rails.size(); ++i)
    for (size_t j = 0; j < high.rails.size(); ++j)
      if (const net::Reach reach = best_reach(low, i, high, j); reach != net::Reach::none) pairs.push_back({int(reach), i, j});
  // on one host every address reaches every other: the same device is the natural partner
  auto rank = [&](const RailPair& p) { return std::tuple(-p.worth, low.rails[p.low].device != high.rails[p.high].device, p.low, p.high); };
  std::ranges::sort(pairs, [&](const RailPair& a, const RailPair& b) { return rank(a) < rank(b); });
  return partner_in(pairs, low.rails.size(), high.rails.size(), first, my_rail);
}

}  // namespace weft::btl::tcp
