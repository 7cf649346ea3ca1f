// What the initiator of a connection says of itself in the handshake.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/net/handshake.h"

namespace weft::btl::tcp {

/// Names a job on the wire.
uint64_t job_number(const std::string& name);

struct Introduction {
  uint64_t job;
  uint32_t rank;    ///< the initiator's
  uint32_t wanted;  ///< the rank it wants to reach
  uint8_t rail;     ///< the initiator's
  uint8_t wanted_rail;
  std::string host;  ///< the initiator's, for messages

  net::Claim claim() const;
  /// Nothing if the bytes make no sense.
  static std::optional<Introduction> from(const net::Claim& claim);
};

}  // namespace weft::btl::tcp
