// Bodies: datatypes, packing, and the counts that statuses hold.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "api/generated/bodies.h"
#include "api/handles.h"
#include "api/status.h"
#include "runtime/base/attributes.h"
#include "runtime/base/error.h"
#include "runtime/type/construct.h"
#include "runtime/type/cursor.h"
#include "runtime/type/external.h"

namespace weft::body {
namespace {

using api::decode;
using api::encode;
using type::Datatype;
using type::Form;

Form form(bool large) { return large ? Form::large : Form::small; }

/// The values as 64-bit ones, copied only if they are not.
class Wide {
 public:
  Wide(Counts counts, MPI_Count n) : size_(static_cast<size_t>(n)) {
    if (!size_) return;
    if (counts.wide()) {
      data_ = static_cast<const int64_t*>(counts.data());
      return;
    }
    copy_.resize(size_);
    for (size_t i = 0; i < size_; ++i) copy_[i] = counts[i];
    data_ = copy_.data();
  }
  operator type::Counts() const { return {data_, size_}; }

 private:
  std::vector<int64_t> copy_;
  const int64_t* data_ = nullptr;
  size_t size_;
};

/// Hands out what a constructor made: `made` is read only after the constructor call beside it in the argument list.
int give(int error, Datatype* const& made, MPI_Datatype* handle) {
  *handle = error ? MPI_DATATYPE_NULL : encode(made);
  return error;
}

int set(MPI_Count* a, int64_t value_a, MPI_Count* b, int64_t value_b) {
  *a = value_a;
  *b = value_b;
  return MPI_SUCCESS;
}

MPI_Count or_undefined(std::optional<int64_t> value) { return value ? *value : MPI_UNDEFINED; }

}  // namespace

int Type_contiguous(MPI_Count count, Datatype& oldtype, MPI_Datatype* newtype, bool large) {
  Datatype* made = nullptr;
  return give(type::contiguous(count, oldtype, form(large), made), made, newtype);
}

int Type_vector(MPI_Count count, MPI_Count blocklength, MPI_Count stride, Datatype& oldtype, MPI_Datatype* newtype, bool large) {
  Datatype* made = nullptr;
  return give(type::vector(count, blocklength, stride, oldtype, form(large), made), made, newtype);
}

int Type_create_hvector(MPI_Count count, MPI_Count blocklength, MPI_Count stride, Datatype& oldtype, MPI_Datatype* newtype, bool large) {
  Datatype* made = nullptr;
  return give(type::hvector(count, blocklength, stride, oldtype, form(large), made), made, newtype);
}

int Type_indexed(MPI_Count count, Counts lengths, Counts displacements, Datatype& oldtype, MPI_Datatype* newtype, bool large) {
  Datatype* made = nullptr;
  return give(type::indexed(Wide(lengths, count), Wide(displacements, count), oldtype, form(large), made), made, newtype);
}

int Type_create_hindexed(MPI_Count count, Counts lengths, Counts displacements, Datatype& oldtype, MPI_Datatype* newtype, bool large) {
  Datatype* made = nullptr;
  return give(type::hindexed(Wide(lengths, count), Wide(displacements, count), oldtype, form(large), made), made, newtype);
}

int Type_create_indexed_block(MPI_Count count, MPI_Count length, Counts displacements, Datatype& oldtype, MPI_Datatype* newtype,
                              bool large) {
  Datatype* made = nullptr;
  return give(type::indexed_block(length, Wide(displacements, count), oldtype, form(large), made), made, newtype);
}

int Type_create_hindexed_block(MPI_Count count, MPI_Count length, Counts displacements, Datatype& oldtype, MPI_Datatype* newtype,
                               bool large) {
  Datatype* made = nullptr;
  return give(type::hindexed_block(length, Wide(displacements, count), oldtype, form(large), made), made, newtype);
}

int Type_create_struct(MPI_Count count, Counts lengths, Counts displacements, Datatype* const* types, MPI_Datatype* newtype, bool large) {
  Datatype* made = nullptr;
  const std::span<Datatype* const> olds(types, static_cast<size_t>(count));
  return give(type::structure(Wide(lengths, count), Wide(displacements, count), olds, form(large), made), made, newtype);
}

int Type_create_resized(Datatype& oldtype, MPI_Count lb, MPI_Count extent, MPI_Datatype* newtype, bool large) {
  Datatype* made = nullptr;
  return give(type::resized(oldtype, lb, extent, form(large), made), made, newtype);
}

int Type_create_subarray(int ndims, Counts sizes, Counts subsizes, Counts starts, int order, Datatype& oldtype, MPI_Datatype* newtype,
                         bool large) {
  Datatype* made = nullptr;
  return give(type::subarray(Wide(sizes, ndims), Wide(subsizes, ndims), Wide(starts, ndims), order, oldtype, form(large), made), made,
              newtype);
}

int Type_create_darray(int size, int rank, int ndims, Counts gsizes, const int distribs[], const int dargs[], const int psizes[], int order,
                       Datatype& oldtype, MPI_Datatype* newtype, bool large) {
  const auto n = static_cast<size_t>(ndims);
  const Wide sizes(gsizes, ndims);
  Datatype* made = nullptr;
  return give(type::darray({size, rank, sizes, {distribs, n}, {dargs, n}, {psizes, n}, order}, oldtype, form(large), made), made, newtype);
}

int Type_create_f90_real(int p, int r, MPI_Datatype* newtype) {
  Datatype* found = nullptr;
  return give(type::f90_real(p, r, found), found, newtype);
}

int Type_create_f90_complex(int p, int r, MPI_Datatype* newtype) {
  Datatype* found = nullptr;
  return give(type::f90_complex(p, r, found), found, newtype);
}

int Type_create_f90_integer(int r, MPI_Datatype* newtype) {
  Datatype* found = nullptr;
  return give(type::f90_integer(r, found), found, newtype);
}

int Type_match_size(int typeclass, int size, MPI_Datatype* datatype) {
  Datatype* found = nullptr;
  return give(type::match_size(typeclass, size, found), found, datatype);
}

int Type_get_value_index(Datatype& value_type, Datatype& index_type, MPI_Datatype* pair_type) {
  *pair_type = encode(type::value_index(value_type, index_type));
  return MPI_SUCCESS;
}

int Type_dup(Datatype& oldtype, MPI_Datatype* newtype) {
  Datatype* made = nullptr;
  *newtype = MPI_DATATYPE_NULL;
  if (int error = type::duplicate(oldtype, made)) return error;
  if (oldtype.attributes) {
    made->attributes = new Attributes;
    if (int error = oldtype.attributes->copy_to(handle_of(oldtype), *made->attributes)) {
      release(made);
      return error;
    }
  }
  *newtype = encode(made);
  return MPI_SUCCESS;
}

int Type_commit(MPI_Datatype* datatype) {
  decode(*datatype)->committed = true;
  return MPI_SUCCESS;
}

int Type_free(MPI_Datatype* datatype) {
  Datatype* object = decode(*datatype);
  if (object->predefined) return fail(MPI_ERR_TYPE, "datatype is one of MPI_Type_create_f90_..., which are predefined and never freed");
  if (object->attributes)
    if (int error = object->attributes->clear(handle_of(*object))) return error;
  object->user_freed = true;
  release(object);
  *datatype = MPI_DATATYPE_NULL;
  return MPI_SUCCESS;
}

int Type_get_name(Datatype* datatype, char* type_name, int* resultlen) {
  const std::string_view name = datatype ? std::string_view(datatype->name) : "MPI_DATATYPE_NULL";
  *resultlen = static_cast<int>(name.copy(type_name, MPI_MAX_OBJECT_NAME - 1));
  type_name[*resultlen] = 0;
  return MPI_SUCCESS;
}

int Type_set_name(Datatype& datatype, const char* type_name) {
  datatype.name.assign(type_name, strnlen(type_name, MPI_MAX_OBJECT_NAME - 1));
  return MPI_SUCCESS;
}

int Type_size(Datatype* datatype, MPI_Count* size) {
  *size = datatype ? static_cast<MPI_Count>(datatype->size) : MPI_UNDEFINED;
  return MPI_SUCCESS;
}
int Type_size_x(Datatype* datatype, MPI_Count* size) { return Type_size(datatype, size); }

int Type_get_extent(Datatype& datatype, MPI_Count* lb, MPI_Count* extent) { return set(lb, datatype.lower, extent, datatype.extent); }
int Type_get_extent_x(Datatype& datatype, MPI_Count* lb, MPI_Count* extent) { return Type_get_extent(datatype, lb, extent); }

int Type_get_true_extent(Datatype& datatype, MPI_Count* true_lb, MPI_Count* true_extent) {
  return set(true_lb, datatype.true_lower, true_extent, datatype.true_extent);
}
int Type_get_true_extent_x(Datatype& datatype, MPI_Count* true_lb, MPI_Count* true_extent) {
  return Type_get_true_extent(datatype, true_lb, true_extent);
}

int Type_get_envelope(Datatype& datatype, MPI_Count* num_integers, MPI_Count* num_addresses, MPI_Count* num_large_counts,
                      MPI_Count* num_datatypes, int* combiner, bool large) {
  static const type::Envelope named{MPI_COMBINER_NAMED, {}, {}, {}, {}};
  const type::Envelope& envelope = datatype.envelope ? *datatype.envelope : named;
  if (!envelope.counts.empty() && !large)
    return fail(MPI_ERR_TYPE, "the datatype was made by a large-count call: use MPI_Type_get_envelope_c");
  *combiner = envelope.combiner;
  if (num_large_counts) *num_large_counts = static_cast<MPI_Count>(envelope.counts.size());
  *num_datatypes = static_cast<MPI_Count>(envelope.types.size());
  return set(num_integers, static_cast<MPI_Count>(envelope.integers.size()), num_addresses,
             static_cast<MPI_Count>(envelope.addresses.size()));
}

int Type_get_contents(Datatype& datatype, MPI_Count max_integers, MPI_Count max_addresses, MPI_Count max_large_counts,
                      MPI_Count max_datatypes, int integers[], MPI_Aint addresses[], MPI_Count large_counts[], MPI_Datatype datatypes[],
                      bool large) {
  if (!datatype.envelope) return fail(MPI_ERR_TYPE, "datatype is %s, a named type, which has no contents", datatype.name.c_str());
  const type::Envelope& e = *datatype.envelope;
  if (!e.counts.empty() && !large) return fail(MPI_ERR_TYPE, "the datatype was made by a large-count call: use MPI_Type_get_contents_c");
  const auto small = [](MPI_Count room, const auto& values) { return room < static_cast<MPI_Count>(values.size()); };
  if (small(max_integers, e.integers) || small(max_addresses, e.addresses) || (large && small(max_large_counts, e.counts)) ||
      small(max_datatypes, e.types))
    return fail(MPI_ERR_ARG, "too little room: %zu integers, %zu addresses, %zu large counts and %zu datatypes are to be returned",
                e.integers.size(), e.addresses.size(), e.counts.size(), e.types.size());
  std::copy(e.integers.begin(), e.integers.end(), integers);
  std::copy(e.addresses.begin(), e.addresses.end(), addresses);
  std::copy(e.counts.begin(), e.counts.end(), large_counts);
  for (size_t i = 0; i < e.types.size(); ++i) datatypes[i] = encode(type::handed_out(*e.types[i]));
  return MPI_SUCCESS;
}

int Get_address(const void* location, MPI_Aint* address) {
  *address = reinterpret_cast<MPI_Aint>(location);
  return MPI_SUCCESS;
}

int Get_elements(const MPI_Status* status, Datatype& datatype, MPI_Count* count) {
  *count = or_undefined(type::elements_in(datatype, api::status_bytes(*status)));
  return MPI_SUCCESS;
}
int Get_elements_x(const MPI_Status* status, Datatype& datatype, MPI_Count* count) { return Get_elements(status, datatype, count); }

int Status_set_elements(MPI_Status* status, Datatype& datatype, MPI_Count count) {
  if (count < 0) return fail(MPI_ERR_COUNT, "%lld elements", static_cast<long long>(count));
  api::set_status_bytes(*status, type::bytes_of_elements(datatype, static_cast<uint64_t>(count)));
  return MPI_SUCCESS;
}
int Status_set_elements_x(MPI_Status* status, Datatype& datatype, MPI_Count count) { return Status_set_elements(status, datatype, count); }

namespace {

/// Bytes of `count` elements, if there is room for them after `position` in a buffer of `size`; else an error class.
int room(const char* what, uint64_t unit, MPI_Count count, MPI_Count size, MPI_Count position, uint64_t& bytes) {
  if (position < 0 || position > size)
    return fail(MPI_ERR_ARG, "position %lld is outside the buffer of %lld bytes", static_cast<long long>(position),
                static_cast<long long>(size));
  if (!__builtin_mul_overflow(unit, static_cast<uint64_t>(count), &bytes) && bytes <= static_cast<uint64_t>(size - position))
    return MPI_SUCCESS;
  return fail(MPI_ERR_TRUNCATE, "%s %lld elements of %llu bytes needs more than the %lld bytes left in the packed buffer", what,
              static_cast<long long>(count), static_cast<unsigned long long>(unit), static_cast<long long>(size - position));
}

int sized(uint64_t unit, MPI_Count count, MPI_Count* size) {
  if (!__builtin_mul_overflow(unit, static_cast<uint64_t>(count), size)) return MPI_SUCCESS;
  return fail(MPI_ERR_VALUE_TOO_LARGE, "%lld elements of %llu bytes are more than 2^63 bytes", static_cast<long long>(count),
              static_cast<unsigned long long>(unit));
}

int check_external(const char* datarep, MPI_Count count) {
  if (count < 0) return fail(MPI_ERR_COUNT, "count %lld is negative", static_cast<long long>(count));
  if (std::strcmp(datarep, "external32") == 0) return MPI_SUCCESS;
  return fail(MPI_ERR_ARG, "datarep \"%s\" is not known; packing knows \"external32\"", datarep);
}

}  // namespace

int Pack(const void* inbuf, MPI_Count incount, Datatype& datatype, void* outbuf, MPI_Count outsize, MPI_Count* position,
         comm::Communicator&) {
  uint64_t bytes = 0;
  if (int error = room("packing", datatype.size, incount, outsize, *position, bytes)) return error;
  type::pack(datatype, static_cast<uint64_t>(incount), inbuf, static_cast<std::byte*>(outbuf) + *position);
  *position += static_cast<MPI_Count>(bytes);
  return MPI_SUCCESS;
}

int Unpack(const void* inbuf, MPI_Count insize, MPI_Count* position, void* outbuf, MPI_Count outcount, Datatype& datatype,
           comm::Communicator&) {
  if (outcount < 0) return fail(MPI_ERR_COUNT, "count %lld is negative", static_cast<long long>(outcount));
  uint64_t bytes = 0;
  if (int error = room("unpacking", datatype.size, outcount, insize, *position, bytes)) return error;
  type::unpack(datatype, static_cast<uint64_t>(outcount), static_cast<const std::byte*>(inbuf) + *position, bytes, outbuf);
  *position += static_cast<MPI_Count>(bytes);
  return MPI_SUCCESS;
}

int Pack_size(MPI_Count incount, Datatype& datatype, comm::Communicator&, MPI_Count* size) { return sized(datatype.size, incount, size); }

int Pack_external(const char* datarep, const void* inbuf, MPI_Count incount, Datatype& datatype, void* outbuf, MPI_Count outsize,
                  MPI_Count* position) {
  if (int error = check_external(datarep, incount)) return error;
  uint64_t bytes = 0;
  if (int error = room("packing", type::external_size(datatype, 1), incount, outsize, *position, bytes)) return error;
  if (!type::pack_external(datatype, static_cast<uint64_t>(incount), inbuf, static_cast<std::byte*>(outbuf) + *position))
    return fail(MPI_ERR_CONVERSION, "a value does not fit the size that external32 gives its type (MPI_LONG has 4 bytes there)");
  *position += static_cast<MPI_Count>(bytes);
  return MPI_SUCCESS;
}

int Unpack_external(const char* datarep, const void* inbuf, MPI_Count insize, MPI_Count* position, void* outbuf, MPI_Count outcount,
                    Datatype& datatype) {
  if (int error = check_external(datarep, outcount)) return error;
  uint64_t bytes = 0;
  if (int error = room("unpacking", type::external_size(datatype, 1), outcount, insize, *position, bytes)) return error;
  type::unpack_external(datatype, static_cast<uint64_t>(outcount), static_cast<const std::byte*>(inbuf) + *position, outbuf);
  *position += static_cast<MPI_Count>(bytes);
  return MPI_SUCCESS;
}

int Pack_external_size(const char* datarep, MPI_Count incount, Datatype& datatype, MPI_Count* size) {
  if (int error = check_external(datarep, incount)) return error;
  return sized(type::external_size(datatype, 1), incount, size);
}

}  // namespace weft::body
