// MPI datatypes: a handle object that owns a normalised layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/object.h"
#include "runtime/base/status.h"

namespace weft {
class Attributes;  // runtime/base/attributes.h
}

namespace weft::type {

/// The machine type of one basic element, as reductions, external32 and type matching see it.
enum class Basic : uint8_t {
  none,  // mixed or no elements
  byte,
  packed,
  char_,
  wchar,
  int8,
  int16,
  int32,
  int64,
  int128,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  long_double,
  float128,
  complex_float16,
  complex_float32,
  complex_float64,
  complex_long_double,
  complex_float128,
  bool_c,
  bool_cxx,
  logical1,
  logical2,
  logical4,
  logical8,
  logical16,
  float_int,
  double_int,
  long_int,
  two_int,
  short_int,
  long_double_int,
  two_float,
  two_double,
};

/// A restartable position in `count` elements of a layout; see cursor.h.
class Cursor;

/// The memory layout of one element of a datatype: normalised loops over contiguous blocks.
class Layout;

/// The sequence of basic elements in one element of a datatype.
class Signature;

/// How a derived datatype was made (MPI_Type_get_envelope / _get_contents).
struct Envelope;

/// What an MPI_Datatype handle points to. Immutable after commit but for name and attributes. Created by the functions of
/// construct.h, or predefined (predefined.h).
struct Datatype : Object {
  // Hot members first: what a contiguous send reads.
  uint64_t size = 0;       ///< bytes of data in one element
  int64_t extent = 0;      ///< ub - lb
  int64_t lower = 0;       ///< lb
  int64_t true_lower = 0;  ///< where the first byte lies
  int64_t true_extent = 0;
  int64_t origin = 0;       ///< where the first byte in type order lies, relative to the buffer address
  bool contiguous = false;  ///< count elements are one run of bytes from origin: size == extent, no gaps, in order
  bool committed = false;
  Basic basic = Basic::none;                   ///< the one kind of element it is made of, if there is only one
  uint64_t basic_count = 0;                    ///< number of basic elements in one element; a value-index pair counts as one
  bool lower_marked = false;                   ///< lb was set by MPI_Type_create_resized, here or in a part
  bool upper_marked = false;                   ///< ub likewise
  uint8_t alignment = 1;                       ///< strictest alignment of its basic elements
  std::shared_ptr<const Layout> layout;        ///< null if size is 0
  std::shared_ptr<const Signature> signature;  ///< null if size is 0
  std::shared_ptr<const Envelope> envelope;    ///< null for named types
  std::string name;
  Attributes* attributes = nullptr;  ///< owned; made on first use

  Datatype() : Object(Kind::datatype) {}
  static void destroy(Datatype*);
  bool pair() const { return basic >= Basic::float_int; }  ///< MINLOC/MAXLOC types
};

/// Bytes of memory that `count` elements span, and where they begin relative to the buffer address.
struct Span {
  int64_t offset = 0;
  uint64_t length = 0;
};
Span span_of(const Datatype&, uint64_t count);

/// Packs all of `count` elements at `from` into contiguous `to` (size * count bytes). Contiguous types are one memcpy.
void pack(const Datatype&, uint64_t count, const void* from, void* to);
/// The reverse. `bytes` may be less than size * count (a short message): whole and partial elements are placed in order.
void unpack(const Datatype&, uint64_t count, const void* from, uint64_t bytes, void* to);
/// Copies between two layouts of the same signature (MPI_Sendrecv to self, local steps of collectives).
/// Copies min of both sizes; returns bytes copied.
uint64_t copy(const Datatype& from_type, uint64_t from_count, const void* from, const Datatype& to_type, uint64_t to_count, void* to);

/// Whole elements in `bytes` of data (MPI_Get_count); nullopt if they end within an element.
std::optional<int64_t> count_in(const Datatype&, uint64_t bytes);
/// Whole basic elements in `bytes` of data (MPI_Get_elements); nullopt if they end within one.
std::optional<int64_t> elements_in(const Datatype&, uint64_t bytes);
/// Bytes of the first n basic elements of a sequence of elements of the type.
uint64_t bytes_of_elements(const Datatype&, uint64_t n);

}  // namespace weft::type
