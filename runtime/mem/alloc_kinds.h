// Kinds of memory as MPI's hints name them (MPI 5.0, 11.4.3): "system", "mpi", each perhaps with restrictors ("mpi:alloc_mem").
#pragma once

#include <string>
#include <string_view>

namespace weft::mem {

/// What is offered to those who ask for nothing.
inline constexpr std::string_view default_alloc_kinds = "mpi,system";

/// The kinds that a program gets which asks for `requested`, a list with commas: those of them that there are, each with the restrictors
/// that it was asked for with, then the default ones. What nobody knows is left out, as the standard has it.
std::string offered_alloc_kinds(std::string_view requested);

/// Is each kind of the list covered by `offered`? A kind without restrictors covers those with them.
bool covers_alloc_kinds(std::string_view offered, std::string_view list);

}  // namespace weft::mem
