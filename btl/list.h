// The list of transports.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "btl/btl.h"

namespace weft::btl {

using Transports = std::vector<std::unique_ptr<Transport>>;

/// One kind of wire.
struct Kind {
  std::string_view name;  ///< as WEFT_NET and Caps::name have it
  bool built;             ///< false: left out of this build; open() says what was missing
  /// One transport per rail, never none; a Failure with the reason if it cannot work here (which is not an error).
  Result<Transports> (*open)(const Site&);
  /// Why it is not even tried on its own (WEFT_NET=auto), where those in `opened` are there already; empty: it is. Null: always.
  std::string (*spared)(const boot::Job&, std::span<const std::string_view> opened);
};

/// All; of those that cost the same, the first is preferred.
std::span<const Kind> kinds();

Result<std::unique_ptr<Transport>> open_self(const Site&);
Result<std::unique_ptr<Transport>> open_shm(const Site&);
/// One per rail (active port of an RDMA device, see WEFT_VERBS_DEVICES).
Result<Transports> open_verbs(const Site&);
/// Over UCX, whatever it finds; loaded when called.
Result<std::unique_ptr<Transport>> open_ucx(const Site&);
/// One per rail (usable network interface, see WEFT_NET_INTERFACES).
Result<Transports> open_tcp(const Site&);

}  // namespace weft::btl
