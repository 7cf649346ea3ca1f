// Constructors of derived datatypes, and how they are remembered (MPI 5.0, 5.1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/type/datatype.h"

namespace weft::type {

/// The arguments of the constructor call, as MPI_Type_get_contents returns them. A call of the large-count form (`_c`) has its
/// counts, lengths and displacements in `counts`; any other has them in `integers` and `addresses`.
struct Envelope {
  int combiner = 0;  ///< MPI_COMBINER_*
  std::vector<int> integers;
  std::vector<int64_t> addresses;
  std::vector<int64_t> counts;
  std::vector<Datatype*> types;  ///< a reference is held on each
};

/// Whether a constructor was called in its large-count form.
enum class Form : bool { small, large };

using Counts = std::span<const int64_t>;

// Each returns MPI_SUCCESS and sets `made` (one reference, not committed), or an error class with its text set by fail().
// Strides and displacements of the forms without `h` are in extents of `old`, of those with it in bytes.

int contiguous(int64_t count, Datatype& old, Form, Datatype*& made);
int vector(int64_t count, int64_t length, int64_t stride, Datatype& old, Form, Datatype*& made);
int hvector(int64_t count, int64_t length, int64_t stride, Datatype& old, Form, Datatype*& made);
int indexed(Counts lengths, Counts displacements, Datatype& old, Form, Datatype*& made);
int hindexed(Counts lengths, Counts displacements, Datatype& old, Form, Datatype*& made);
int indexed_block(int64_t length, Counts displacements, Datatype& old, Form, Datatype*& made);
int hindexed_block(int64_t length, Counts displacements, Datatype& old, Form, Datatype*& made);
int structure(Counts lengths, Counts displacements, std::span<Datatype* const> olds, Form, Datatype*& made);
int resized(Datatype& old, int64_t lower, int64_t extent, Form, Datatype*& made);
int subarray(Counts sizes, Counts subsizes, Counts starts, int order, Datatype& old, Form, Datatype*& made);

/// The distributed array of MPI_Type_create_darray; the spans are one entry a dimension.
struct Distribution {
  int processes = 1, rank = 0;
  Counts sizes;
  std::span<const int> kinds, arguments, grid;
  int order = 0;
};
int darray(const Distribution&, Datatype& old, Form, Datatype*& made);

/// A copy with the state of `old` (committed if it is); attributes are the caller's business.
int duplicate(Datatype& old, Datatype*& made);

/// A part of a type as MPI_Type_get_contents hands it out: predefined types as they are, others as a new equal object, since
/// the handle that the type was made from may have been freed.
Datatype* handed_out(Datatype& part);

// Types of Fortran kinds: predefined, the same object for the same arguments. p and r may be MPI_UNDEFINED.
int f90_real(int p, int r, Datatype*& found);
int f90_complex(int p, int r, Datatype*& found);
int f90_integer(int r, Datatype*& found);
/// The named Fortran type of a class (MPI_TYPECLASS_*) and size in bytes.
int match_size(int type_class, int size, Datatype*& found);
/// The predefined pair type of a value and an index type; null if there is none.
Datatype* value_index(const Datatype& value, const Datatype& index);

}  // namespace weft::type
