// The predefined datatypes: one object for each ABI constant.
#pragma once

#include <cstdint>

#include "runtime/type/datatype.h"

namespace weft::type {

/// ABI values of the extension types (declared as MPIX_C_FLOAT16 and MPIX_BFLOAT16 = MPIX_C_BF16 in include/mpix.h); the
/// standard ABI leaves them unused.
inline constexpr uint32_t kFloat16Handle = 0x2f0;
inline constexpr uint32_t kBfloat16Handle = 0x2f1;

namespace detail {
inline constexpr uint32_t kFirstHandle = 512, kHandles = 256;
extern Datatype* const* const by_handle;  // kHandles entries
}  // namespace detail

/// The predefined type of an ABI constant (512..767); null if there is none, also for MPI_DATATYPE_NULL.
inline Datatype* predefined(uint32_t abi_handle) {
  const uint32_t index = abi_handle - detail::kFirstHandle;
  return index < detail::kHandles ? detail::by_handle[index] : nullptr;
}

/// The first predefined type made of one such element: of(Basic::int32) is MPI_INT.
Datatype& of(Basic);

}  // namespace weft::type
