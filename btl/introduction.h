// How a process that connects to another's rail says who it is: the key of the handshake and the claim in it, alike for all transports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "btl/card.h"
#include "runtime/net/handshake.h"

namespace weft::btl {

/// What connections over `transport` to the owner of a card must prove to know.
net::Digest key_of(const std::string& secret, std::string_view transport, const Token& token);

struct Introduction {
  std::string transport;    ///< "tcp"; at most 7 characters
  uint64_t job = 0;         ///< see job_number()
  uint32_t rank = 0;        ///< the initiator's
  uint32_t wanted = 0;      ///< the rank it wants to reach
  uint32_t generation = 0;  ///< how often the initiator has opened this way anew, if the transport counts that
  uint8_t rail = 0;         ///< the initiator's
  uint8_t wanted_rail = 0;
  std::string host = {};  ///< the initiator's, for messages

  net::Claim claim() const;
  /// Nothing if the bytes make no sense.
  static std::optional<Introduction> from(const net::Claim& claim);
  /// Does it come from another process of this job, and want this rail of ours?
  bool meant_for(std::string_view transport, const boot::Job& job, size_t rail) const;
};

/// Names a job on the wire.
uint64_t job_number(const std::string& name);

}  // namespace weft::btl
