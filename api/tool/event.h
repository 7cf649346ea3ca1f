// The kinds of events that tools can wait for.
#pragma once

#include <span>
#include <vector>

#include "include/mpi.h"
#include "runtime/obs/ring.h"

namespace weft::api::tool {

/// A part of an event's data: where it stands in an Instance's copy.
struct EventElement {
  MPI_Datatype type;
  MPI_Aint displacement;
  size_t bytes;
};

struct EventKind {
  const char* name;
  std::string_view module;
  const char* description;
  obs::What what;
};

const std::vector<EventKind>& event_kinds();

}  // namespace weft::api::tool
