// The external32 representation: big-endian, sizes fixed by the standard (MPI 5.0, 14.5.2).
#pragma once

#include <cstdint>

#include "runtime/type/datatype.h"

namespace weft::type {

/// Bytes of `count` elements in external32.
uint64_t external_size(const Datatype&, uint64_t count);
/// Writes them; false if a value does not fit its external size (MPI_LONG has 4 bytes there).
bool pack_external(const Datatype&, uint64_t count, const void* from, void* to);
void unpack_external(const Datatype&, uint64_t count, const void* from, void* to);

}  // namespace weft::type
