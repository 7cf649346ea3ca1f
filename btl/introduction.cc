#include "btl/introduction.h"

#include <algorithm>
#include <cstring>

namespace weft::btl {
namespace {

constexpr char kPurpose[4] = {'b', 't', 'l', '2'};
struct Wire {
  char purpose[4];
  char transport[8];
  uint32_t generation;
  uint64_t job;
  uint32_t rank, wanted;
  uint8_t rail, wanted_rail;
  char host[94];
};
static_assert(sizeof(Wire) == sizeof(net::Claim));

template <size_t N>
void store(char (&to)[N], std::string_view from) {
  memcpy(to, from.data(), std::min(from.size(), N - 1));
}

}  // namespace

net::Digest key_of(const std::string& secret, std::string_view transport, const Token& token) {
  return net::hmac(net::bytes_of(secret), {net::bytes_of("weft btl "), net::bytes_of(transport), token});
}

uint64_t job_number(const std::string& name) {
  const net::Digest digest = net::sha256({net::bytes_of(name)});
  uint64_t number;
  memcpy(&number, digest.data(), sizeof number);
  return number;
}

net::Claim Introduction::claim() const {
  Wire wire{};
  memcpy(wire.purpose, kPurpose, sizeof kPurpose);
  store(wire.transport, transport);
  wire.generation = generation;
  wire.job = job;
  wire.rank = rank;
  wire.wanted = wanted;
  wire.rail = rail;
  wire.wanted_rail = wanted_rail;
  store(wire.host, host);
  net::Claim out;
  memcpy(out.data(), &wire, sizeof wire);
  return out;
}

std::optional<Introduction> Introduction::from(const net::Claim& claim) {
  Wire wire;
  memcpy(&wire, claim.data(), sizeof wire);
  if (memcmp(wire.purpose, kPurpose, sizeof kPurpose) != 0) return {};
  if (wire.transport[sizeof wire.transport - 1] != 0 || wire.host[sizeof wire.host - 1] != 0) return {};
  return Introduction{wire.transport, wire.job, wire.rank, wire.wanted, wire.generation, wire.rail, wire.wanted_rail, wire.host};
}

bool Introduction::meant_for(std::string_view over, const boot::Job& mine, size_t my_rail) const {
  return transport == over && job == job_number(mine.name) && wanted == mine.rank && wanted_rail == my_rail &&
         is_other(rank, mine.rank, mine.size);
}

}  // namespace weft::btl
