/* What MPI 3.0 removed from C (MPI-3.0, chapter 16), in terms of what has stood for it since MPI 2.0, so that old programs compile. mpi.h
   includes it. Each use is a warning that names the successor; -DWEFT_NO_REMOVED leaves all of it out. MPI_LB and MPI_UB, which were
   types, have no counterpart: MPI_Type_create_resized sets bounds. */
#ifndef MPI_REMOVED_H_INCLUDED
#define MPI_REMOVED_H_INCLUDED

#include "mpi.h"

#if defined(__GNUC__)
#define WEFT_REMOVED(successor) static __inline__ __attribute__((unused, deprecated("removed in MPI 3.0; use " successor)))
#else
#define WEFT_REMOVED(successor) static
#endif

typedef MPI_Comm_errhandler_function MPI_Handler_function;

WEFT_REMOVED("MPI_Get_address") int MPI_Address(void* location, MPI_Aint* address) { return MPI_Get_address(location, address); }

WEFT_REMOVED("MPI_Type_create_struct")
int MPI_Type_struct(int count, int* lengths, MPI_Aint* displacements, MPI_Datatype* types, MPI_Datatype* newtype) {
  return MPI_Type_create_struct(count, lengths, displacements, types, newtype);
}

WEFT_REMOVED("MPI_Type_create_hvector")
int MPI_Type_hvector(int count, int length, MPI_Aint stride, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return MPI_Type_create_hvector(count, length, stride, oldtype, newtype);
}

WEFT_REMOVED("MPI_Type_create_hindexed")
int MPI_Type_hindexed(int count, int* lengths, MPI_Aint* displacements, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  return MPI_Type_create_hindexed(count, lengths, displacements, oldtype, newtype);
}

WEFT_REMOVED("MPI_Type_get_extent")
int MPI_Type_extent(MPI_Datatype type, MPI_Aint* extent) {
  MPI_Aint lower;
  return MPI_Type_get_extent(type, &lower, extent);
}

WEFT_REMOVED("MPI_Type_get_extent")
int MPI_Type_lb(MPI_Datatype type, MPI_Aint* lower) {
  MPI_Aint extent;
  return MPI_Type_get_extent(type, lower, &extent);
}

WEFT_REMOVED("MPI_Type_get_extent")
int MPI_Type_ub(MPI_Datatype type, MPI_Aint* upper) {
  MPI_Aint lower, extent;
  const int error = MPI_Type_get_extent(type, &lower, &extent);
  if (!error) *upper = lower + extent;
  return error;
}

WEFT_REMOVED("MPI_Comm_create_errhandler")
int MPI_Errhandler_create(MPI_Comm_errhandler_function* function, MPI_Errhandler* handler) {
  return MPI_Comm_create_errhandler(function, handler);
}

WEFT_REMOVED("MPI_Comm_set_errhandler")
int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler handler) { return MPI_Comm_set_errhandler(comm, handler); }

WEFT_REMOVED("MPI_Comm_get_errhandler")
int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler* handler) { return MPI_Comm_get_errhandler(comm, handler); }

#undef WEFT_REMOVED
#endif
