#include "api/checks.h"

#include <cstdio>
#include <cstring>
#include <string>

namespace weft::api {
namespace {

using LongLong = long long;  // for printf

/// How people call a communicator in messages.
std::string name_of(const comm::Communicator& comm) {
  if (!comm.name.empty()) return comm.name;
  return "the communicator";
}

/// "counts[3]" or "count".
std::string element(const char* name, int64_t index) { return index < 0 ? name : name + ("[" + std::to_string(index) + "]"); }

/// Why a handle is bad, by what it points to.
std::string state_of_handle(uintptr_t value) {
  char text[128];
  if (type::lacking(value)) {
    snprintf(text, sizeof text, "of a kind that this program's Fortran lacks, as it has told by MPI_Abi_set_fortran_info");
  } else if (value < kPredefinedEnd) {
    snprintf(text, sizeof text, "0x%llx, a constant for something else or a null handle", static_cast<unsigned long long>(value));
  } else if (value % alignof(Object)) {
    snprintf(text, sizeof text, "0x%llx, no handle at all (uninitialised?)", static_cast<unsigned long long>(value));
  } else {
    const Object* object = reinterpret_cast<const Object*>(value);
    const bool freed = object->kind == Kind::freed || object->user_freed;
    snprintf(text, sizeof text, "0x%llx, a handle that %s", static_cast<unsigned long long>(value),
             freed ? "was freed" : "belongs to another kind of object");
  }
  return text;
}

/// Whether data at this displacement from MPI_BOTTOM may lie in memory.
bool absolute(const type::Datatype* type, int64_t displacement = 0) {
  return type && static_cast<uint64_t>(type->true_lower + displacement) >= kPredefinedEnd;
}

int bad_address(const char* function, Owner owner, const char* name, const void* address, MPI_Count count) {
  if (address == MPI_IN_PLACE)
    return raise(function, owner, fail(MPI_ERR_BUFFER, "%s is MPI_IN_PLACE, which is not allowed for this argument here", name));
  if (!address)
    return raise(function, owner,
                 fail(MPI_ERR_BUFFER,
                      "%s is a null pointer, but its count is %lld: give memory or a count of 0 (or, with "
                      "MPI_BOTTOM, a datatype of absolute addresses)",
                      name, LongLong{count}));
  return raise(function, owner, fail(MPI_ERR_BUFFER, "%s is %p, which is no address of data", name, address));
}

}  // namespace

int narrow_or_fail(MPI_Count value, int* result, const char* name) {
  *result = static_cast<int>(value);
  if (*result == value) return MPI_SUCCESS;
  return fail(MPI_ERR_VALUE_TOO_LARGE, "%s would be %lld, more than an int holds: call the large-count form, whose name ends in _c", name,
              LongLong{value});
}

namespace err {

int inactive(const char* function) {
  const bool over = state.world_phase == Phase::finalized;
  return raise(function, nullptr,
               fail(MPI_ERR_OTHER, over ? "called after MPI_Finalize: no MPI call may follow it"
                                        : "called before MPI_Init: call MPI_Init or MPI_Session_init first"));
}

int later(const char* function, Owner owner, const char* topic) {
  return raise(function, owner,
               fail(MPI_ERR_UNSUPPORTED_OPERATION, "not there yet in this version of Weft (topic: %s; see docs/status.md)", topic));
}

int handle(const char* function, Owner owner, const char* name, uintptr_t value, int handle_class, const char* what, int64_t index) {
  return raise(function, owner,
               fail(handle_class, "%s is no valid %s: it is %s", element(name, index).c_str(), what, state_of_handle(value).c_str()));
}

int predefined(const char* function, Owner owner, const char* name, int handle_class, const char* what) {
  return raise(function, owner, fail(handle_class, "%s is a predefined %s, which may not be freed", name, what));
}

int data(const char* function, Owner owner, const char* name, uintptr_t value, const type::Datatype* type, int64_t index) {
  if (type)
    return raise(function, owner,
                 fail(MPI_ERR_TYPE, "%s is a datatype that was not committed: call MPI_Type_commit first", element(name, index).c_str()));
  return handle(function, owner, name, value, MPI_ERR_TYPE, "datatype", index);
}

int negative(const char* function, Owner owner, const char* name, MPI_Count value, int error_class, int64_t index) {
  return raise(
      function, owner,
      fail(error_class, "%s is %lld, but it may not be negative%s", element(name, index).c_str(), LongLong{value},
           index < 0 && error_class == MPI_ERR_COUNT ? " (a count above 2147483647 needs the large-count form, whose name ends in _c)"
                                                     : ""));
}

int count(const char* function, Owner owner, const char* name, MPI_Count value) {
  if (value < 0) return negative(function, owner, name, value, MPI_ERR_COUNT);
  return raise(function, owner, fail(MPI_ERR_COUNT, "%s is %lld, more elements than any memory holds", name, LongLong{value}));
}

int errhandler(const char* function, Owner owner, const char* name) {
  return raise(function, owner,
               fail(MPI_ERR_ERRHANDLER,
                    "%s was created for another kind of object: communicators, sessions, windows and files each have their own", name));
}

int null(const char* function, Owner owner, const char* name, int error_class) {
  return raise(function, owner, fail(error_class, "%s is a null pointer", name));
}

int peer(const char* function, comm::Communicator& comm, const char* name, int value, bool any_allowed) {
  const unsigned last = comm.team->remote_size() - 1;
  if (value == MPI_ANY_SOURCE && any_allowed)
    return raise(function, &comm,
                 fail(MPI_ERR_RANK, "%s is MPI_ANY_SOURCE, but the hint mpi_assert_no_any_source of %s says that there is none", name,
                      name_of(comm).c_str()));
  if (value == MPI_ANY_SOURCE)
    return raise(function, &comm, fail(MPI_ERR_RANK, "%s is MPI_ANY_SOURCE, which is allowed in receives and probes only", name));
  return raise(function, &comm,
               fail(MPI_ERR_RANK, "%s is %d, but the ranks of %s are 0..%u (or MPI_PROC_NULL%s)", name, value, name_of(comm).c_str(), last,
                    any_allowed ? ", MPI_ANY_SOURCE" : ""));
}

int root(const char* function, comm::Communicator& comm, const char* name, int value) {
  return raise(
      function, &comm,
      fail(MPI_ERR_ROOT, "%s is %d, but the ranks of %s are 0..%u%s", name, value, name_of(comm).c_str(), comm.team->remote_size() - 1,
           comm.team->inter() ? " (in the other group; MPI_ROOT or MPI_PROC_NULL in the root's group)" : ""));
}

int topology(const char* function, comm::Communicator& comm, const char* name, const char* needed) {
  return raise(function, &comm, fail(MPI_ERR_TOPOLOGY, "%s has no %s", name, needed));
}

int tag(const char* function, Owner owner, const char* name, int value, bool any_allowed) {
  if (value == MPI_ANY_TAG && any_allowed)
    return raise(
        function, owner,
        fail(MPI_ERR_TAG, "%s is MPI_ANY_TAG, but the hint mpi_assert_no_any_tag of the communicator says that there is none", name));
  if (value == MPI_ANY_TAG)
    return raise(function, owner, fail(MPI_ERR_TAG, "%s is MPI_ANY_TAG, which is allowed in receives and probes only", name));
  return raise(function, owner,
               fail(MPI_ERR_TAG, "%s is %d, but tags are 0..%d%s", name, value, kTagUb, any_allowed ? " or MPI_ANY_TAG" : ""));
}

int key(const char* function, Owner owner, const char* name, const char* value) {
  if (!value) return null(function, owner, name, MPI_ERR_INFO_KEY);
  return raise(function, owner,
               fail(MPI_ERR_INFO_KEY, "%s has %zu characters, but keys have 1..%d", name, strlen(value), MPI_MAX_INFO_KEY - 1));
}

int value(const char* function, Owner owner, const char* name, const char* value) {
  if (!value) return null(function, owner, name, MPI_ERR_INFO_VALUE);
  return raise(function, owner,
               fail(MPI_ERR_INFO_VALUE, "%s has %zu characters, but values have at most %d", name, strlen(value), MPI_MAX_INFO_VAL - 1));
}

int stringtag(const char* function, Owner owner, const char* name, const char* value) {
  if (!value) return null(function, owner, name);
  return raise(function, owner,
               fail(MPI_ERR_ARG, "%s has %zu characters, but at most %d are allowed", name, strlen(value), MPI_MAX_STRINGTAG_LEN - 1));
}

int split(const char* function, Owner owner, const char* name, int value) {
  return raise(function, owner, fail(MPI_ERR_ARG, "%s is %d, which is none of MPI_COMM_TYPE_* and not MPI_UNDEFINED", name, value));
}

int op_type(const char* function, Owner owner, const char* name, const op::Op& op, const type::Datatype& type) {
  return raise(function, owner,
               fail(MPI_ERR_OP, "%s is %s, which is not defined for the datatype %s: use another operation, or one made by MPI_Op_create",
                    name, op.name, type.name.empty() ? "of the user's" : type.name.c_str()));
}

int buffer(const char* function, Owner owner, const char* name, const void* address, MPI_Count count, const type::Datatype* type,
           bool in_place_allowed) {
  if (address == MPI_IN_PLACE && in_place_allowed) return MPI_SUCCESS;
  if (address != MPI_IN_PLACE && (count == 0 || (type && type->size == 0) || (!address && absolute(type)))) return MPI_SUCCESS;
  return bad_address(function, owner, name, address, count);
}

int buffer(const char* function, Owner owner, const char* name, const void* address, Counts counts, int64_t n,
           const type::Datatype* const* types, bool one_type, bool in_place_allowed, Counts byte_displacements) {
  if (address == MPI_IN_PLACE) return in_place_allowed ? MPI_SUCCESS : bad_address(function, owner, name, address, 0);
  for (int64_t i = 0; i < n; ++i) {
    const size_t at = static_cast<size_t>(i);
    const type::Datatype* type = types[one_type ? 0 : at];
    const int64_t displacement = byte_displacements ? byte_displacements[at] : 0;
    if (counts[at] == 0 || (type && type->size == 0) || (!address && absolute(type, displacement))) continue;
    return bad_address(function, owner, name, address, counts[at]);
  }
  return MPI_SUCCESS;
}

int bytes(const char* function, Owner owner, const char* name, const void* address, MPI_Count size) {
  if (address != MPI_IN_PLACE && size == 0) return MPI_SUCCESS;
  return bad_address(function, owner, name, address, size);
}

int alias(const char* function, Owner owner, const char* name, const char* other, const void* address, MPI_Count count) {
  if (count == 0 || suspicious(address)) return MPI_SUCCESS;
  return raise(function, owner,
               fail(MPI_ERR_BUFFER, "%s and %s are the same memory (%p): give two buffers, or MPI_IN_PLACE as %s where allowed", name,
                    other, address, name));
}

}  // namespace err
}  // namespace weft::api
