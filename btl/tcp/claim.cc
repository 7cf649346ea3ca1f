#include "btl/tcp/claim.h"

#include <algorithm>
#include <cstring>

namespace weft::btl::tcp {
namespace {

constexpr char kPurpose[8] = {'b', 't', 'l', '-', 't', 'c', 'p', '1'};
struct Wire {
  char purpose[8];
  uint64_t job;
  uint32_t rank, wanted;
  uint8_t rail, wanted_rail;
  char host[102];
};
static_assert(sizeof(Wire) == sizeof(net::Claim));

}  // namespace

uint64_t job_number(const std::string& name) {
  const net::Digest digest = net::sha256({net::bytes_of(name)});
  uint64_t number;
  memcpy(&number, digest.data(), sizeof number);
  return number;
}

net::Claim Introduction::claim() const {
  Wire wire{};
  memcpy(wire.purpose, kPurpose, sizeof kPurpose);
  wire.job = job;
  wire.rank = rank;
  wire.wanted = wanted;
  wire.rail = rail;
  wire.wanted_rail = wanted_rail;
  memcpy(wire.host, host.data(), std::min(host.size(), sizeof wire.host - 1));
  net::Claim out;
  memcpy(out.data(), &wire, sizeof wire);
  return out;
}

std::optional<Introduction> Introduction::from(const net::Claim& claim) {
  Wire wire;
  memcpy(&wire, claim.data(), sizeof wire);
  if (memcmp(wire.purpose, kPurpose, sizeof kPurpose) != 0 || wire.host[sizeof wire.host - 1] != 0) return {};
  return Introduction{wire.job, wire.rank, wire.wanted, wire.rail, wire.wanted_rail, wire.host};
}

}  // namespace weft::btl::tcp
