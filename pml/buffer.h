// What a message is sent from or received into, and the words that describe the operation.
#pragma once

#include <cstdint>

#include "runtime/mem/memory_kind.h"
#include "runtime/type/datatype.h"

namespace weft::pml {

enum class Mode : uint8_t { standard, synchronous, ready };  // buffered is built on standard, in pml/buffered

/// User memory as a message sees it. The datatype is retained while a request uses it.
struct Buffer {
  void* address = nullptr;
  uint64_t count = 0;
  const type::Datatype* type = nullptr;
  mem::MemKind memory = mem::MemKind::host;
};

constexpr int any_source = -1;  // MPI_ANY_SOURCE
constexpr int any_tag = -2;     // MPI_ANY_TAG
constexpr int proc_null = -3;   // MPI_PROC_NULL

/// Separate matching spaces of one team: bits of a context. `agreement`: of members who agree on a new communicator (comm/mailbox.h).
enum class Traffic : uint8_t { user = 0, collective = 1, partitioned = 2, agreement = 3 };

}  // namespace weft::pml
