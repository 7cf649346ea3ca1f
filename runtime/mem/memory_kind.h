// Where memory lives.
#pragma once

#include <cstdint>

namespace weft::mem {

/// Classified once at the API's entry and carried from there.
enum class MemKind : uint8_t { host, device, managed };

}  // namespace weft::mem
