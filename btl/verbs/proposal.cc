#include "btl/verbs/proposal.h"

#include <algorithm>
#include <cstring>

namespace weft::btl::verbs {
namespace {

constexpr char kPurpose[8] = {'b', 't', 'l', '-', 'i', 'b', 'v', '1'};
struct Wire {
  char purpose[8];
  uint64_t job;
  uint32_t rank, wanted, generation;
  uint8_t rail, wanted_rail;
  char host[98];
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
  wire.generation = generation;
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
  return Introduction{wire.job, wire.rank, wire.wanted, wire.generation, wire.rail, wire.wanted_rail, wire.host};
}

std::string objection(const Proposal& theirs, uint32_t my_slot_bytes) {
  if (theirs.slot_bytes != my_slot_bytes) return "its messages have another size; use the same Weft on all hosts";
  if (theirs.queues < 1 || theirs.queues > 1 + kMaxFlows || theirs.mtu < 1 || theirs.mtu > 5 || theirs.credits == 0)
    return "what it proposes makes no sense; use the same Weft on all hosts";
  return {};
}

}  // namespace weft::btl::verbs
