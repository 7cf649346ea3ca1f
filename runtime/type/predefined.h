// The predefined datatypes: one object for each ABI constant.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/type/datatype.h"

namespace weft::type {

/// Handles of the extension types (MPIX_C_FLOAT16, MPIX_BFLOAT16 = MPIX_C_BF16 in include/mpix.h), outside the ABI's own range.
inline constexpr uint32_t kFloat16Handle = 0xe00;
inline constexpr uint32_t kBfloat16Handle = 0xe01;

namespace detail {
inline constexpr uint32_t kFirstHandle = 512, kHandles = 256, kExtensions = 2;
extern Datatype* const* by_handle;  // kHandles entries, then kExtensions; set before static objects are made
}  // namespace detail

/// The predefined type of a constant of the ABI; null if there is none, also for MPI_DATATYPE_NULL.
inline Datatype* standard(uintptr_t handle) {
  const uintptr_t index = handle - detail::kFirstHandle;
  return index < detail::kHandles ? detail::by_handle[index] : nullptr;
}
/// The same, of extensions as well.
inline Datatype* predefined(uintptr_t handle) {
  const uintptr_t extension = handle - kFloat16Handle;
  return extension < detail::kExtensions ? detail::by_handle[detail::kHandles + extension] : standard(handle);
}

/// Bytes of Fortran's default kinds; 0: as it is.
struct FortranSizes {
  int logical = 0, integer = 0, real = 0, double_precision = 0;
};
/// Gives MPI_LOGICAL, MPI_INTEGER, MPI_REAL, MPI_DOUBLE_PRECISION and the types made of them other sizes (options such as -i8;
/// MPI 5.0, 20.4). False, and nothing is changed, if there is no kind of a size. Not to be called while they are in use.
bool set_fortran_sizes(const FortranSizes&);

/// An optional type of Fortran's (MPI 5.0, 20.4): "real16" of the info key mpi_real16_supported, and its handle.
struct FortranOption {
  const char* name;
  uint16_t handle;
};
std::span<const FortranOption> fortran_options();
/// From now on predefined() has none for this handle: the program's compiler lacks it. Not to be called while it is in use.
void set_lacking(const FortranOption&);
/// Is it the handle of a type for which set_lacking() was called?
bool lacking(uintptr_t handle);

/// The first predefined type made of one such element: of(Basic::int32) is MPI_INT.
Datatype& of(Basic);

}  // namespace weft::type
