// Argument checks of the generated entries: conditions inline, everything else out of line.
#pragma once

#include <cstddef>
#include <memory>

#include "api/raise.h"
#include "coll/coll.h"
#include "comm/topology/topology.h"

namespace weft::api {

using coll::Counts;

// --- conditions ---

/// Neither an address of the user's nor surely wrong: null, MPI_IN_PLACE, MPI_BUFFER_AUTOMATIC. Looked at more closely out of line.
inline bool suspicious(const void* buffer) { return reinterpret_cast<uintptr_t>(buffer) < kPredefinedEnd; }
inline bool in_place(const void* buffer) { return buffer == MPI_IN_PLACE; }

/// More elements than any memory holds; counts above are taken for mistakes.
inline constexpr uint64_t kMostElements = uint64_t{1} << 56;

inline bool good_peer(const comm::Communicator& comm, int rank) {
  return static_cast<uint32_t>(rank) < comm.team->remote_size() || rank == MPI_PROC_NULL;
}
inline bool good_source(const comm::Communicator& comm, int rank) {
  return good_peer(comm, rank) || (rank == MPI_ANY_SOURCE && !comm.hints.no_any_source);
}
inline bool good_root(const comm::Communicator& comm, int root) {
  return static_cast<uint32_t>(root) < comm.team->remote_size() || (comm.team->inter() && (root == MPI_ROOT || root == MPI_PROC_NULL));
}
inline bool good_tag(int tag) { return tag >= 0; }
inline bool good_receive_tag(const comm::Communicator& comm, int tag) { return tag >= 0 || (tag == MPI_ANY_TAG && !comm.hints.no_any_tag); }
inline bool has_topology(const comm::Communicator& comm) { return comm.topology != nullptr; }
inline bool has_grid(const comm::Communicator& comm) { return comm.topology && comm.topology->grid(); }
inline bool has_graph(const comm::Communicator& comm) { return comm.topology && comm.topology->graph(); }
inline bool has_edges(const comm::Communicator& comm) { return comm.topology && comm.topology->edges(); }
/// Neighbours, MPI_PROC_NULL among them.
inline int indegree(const comm::Communicator& comm) { return static_cast<int>(comm.topology->neighborhood.sources.size()); }
inline int outdegree(const comm::Communicator& comm) { return static_cast<int>(comm.topology->neighborhood.destinations.size()); }
inline bool good_data(const type::Datatype* type) { return type && type->committed; }

/// Which arguments of a rooted collective matter here.
struct Role {
  bool root;  ///< those of the root
  bool leaf;  ///< those of the others (in intra-communicators the root's as well)
  /// False between two groups in the root's group but at the root (MPI_PROC_NULL).
  bool part() const { return root || leaf; }
};
inline Role role_of(const comm::Communicator& comm, int root) {
  if (!comm.team->inter()) [[likely]]
    return {root == comm.rank(), true};
  return {root == MPI_ROOT, root >= 0};
}

/// Index of the first handle that is no request (nor MPI_REQUEST_NULL, if that is allowed); -1 if all are good.
inline int first_bad_request(const MPI_Request* requests, int count, bool null_allowed) {
  for (int i = 0; i < count; ++i)
    if (!decode(requests[i]) && !(null_allowed && requests[i] == MPI_REQUEST_NULL)) [[unlikely]]
      return i;
  return -1;
}
/// Index of the first negative value, -1 if there is none.
inline int64_t first_negative(Counts counts, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (counts[static_cast<size_t>(i)] < 0) [[unlikely]]
      return i;
  return -1;
}

inline int64_t sum_of(const int* values, int n) {
  int64_t sum = 0;
  for (int i = 0; i < n; ++i) sum += values[i];
  return sum;
}

/// How many edges a graph has whose nodes end at index[0..nnodes); 0 where it has more nodes than there are processes, which is wrong
/// anyway.
inline int edges_of(const int* index, int nnodes, int processes) { return nnodes > 0 && nnodes <= processes ? index[nnodes - 1] : 0; }

/// May this error handler be one of such objects?
inline bool serves(const comm::Errhandler& handler, comm::Errhandler::For kind) {
  return handler.target == comm::Errhandler::For::any || handler.target == kind;
}

/// 1 if any count is above zero, else 0.
inline int64_t any_positive(Counts counts, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (counts[static_cast<size_t>(i)] > 0) return 1;
  return 0;
}

/// The decoded types of an array of handles.
class Types {
 public:
  /// Where `used` says that a type's count is zero, its handle may be anything.
  Types(const MPI_Datatype* handles, int64_t n, bool committed, Counts used = {}) {
    if (n > kInline) heap_ = std::make_unique<type::Datatype*[]>(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      type::Datatype* type = decode(handles[i]);
      if (!type || (committed && !type->committed)) [[unlikely]] {
        if (!used || used[static_cast<size_t>(i)] != 0) {
          bad_ = i;
          return;
        }
        type = type::predefined(static_cast<uint32_t>(bits(MPI_BYTE)));
      }
      data()[i] = type;
    }
  }
  int64_t bad() const { return bad_; }
  type::Datatype** data() { return heap_ ? heap_.get() : few_; }

 private:
  static constexpr int64_t kInline = 64;
  type::Datatype* few_[kInline];
  std::unique_ptr<type::Datatype*[]> heap_;
  int64_t bad_ = -1;
};

/// Stores a 64-bit result into an int: MPI_UNDEFINED if it does not fit.
inline int narrow_or_undefined(MPI_Count value, int* result) {
  *result = value == static_cast<int>(value) ? static_cast<int>(value) : MPI_UNDEFINED;
  return MPI_SUCCESS;
}
/// The same where the standard has no such value: MPI_ERR_VALUE_TOO_LARGE.
int narrow_or_fail(MPI_Count value, int* result, const char* name);

// --- what to say; each raises and returns the class ---

namespace err {

#define WEFT_COLD [[gnu::cold, gnu::noinline]]

WEFT_COLD int inactive(const char* function);
WEFT_COLD int later(const char* function, Owner owner, const char* topic);
/// `handle_class` is the class for this kind of handle; `what` names the kind ("communicator").
WEFT_COLD int handle(const char* function, Owner owner, const char* name, uintptr_t value, int handle_class, const char* what,
                     int64_t index = -1);
WEFT_COLD int predefined(const char* function, Owner owner, const char* name, int handle_class, const char* what);
WEFT_COLD int data(const char* function, Owner owner, const char* name, uintptr_t value, const type::Datatype* type, int64_t index = -1);
WEFT_COLD int negative(const char* function, Owner owner, const char* name, MPI_Count value, int error_class, int64_t index = -1);
WEFT_COLD int count(const char* function, Owner owner, const char* name, MPI_Count value);
WEFT_COLD int errhandler(const char* function, Owner owner, const char* name);
WEFT_COLD int null(const char* function, Owner owner, const char* name, int error_class = MPI_ERR_ARG);
WEFT_COLD int peer(const char* function, comm::Communicator& comm, const char* name, int value, bool any_allowed);
WEFT_COLD int root(const char* function, comm::Communicator& comm, const char* name, int value);
WEFT_COLD int topology(const char* function, comm::Communicator& comm, const char* name, const char* needed);
WEFT_COLD int tag(const char* function, Owner owner, const char* name, int value, bool any_allowed);
WEFT_COLD int key(const char* function, Owner owner, const char* name, const char* value);
WEFT_COLD int value(const char* function, Owner owner, const char* name, const char* value);
WEFT_COLD int stringtag(const char* function, Owner owner, const char* name, const char* value);
WEFT_COLD int split(const char* function, Owner owner, const char* name, int value);
WEFT_COLD int op_type(const char* function, Owner owner, const char* name, const op::Op& op, const type::Datatype& type);
/// These return 0 if the buffer is good after all.
WEFT_COLD int buffer(const char* function, Owner owner, const char* name, const void* address, MPI_Count count, const type::Datatype* type,
                     bool in_place_allowed);
WEFT_COLD int buffer(const char* function, Owner owner, const char* name, const void* address, Counts counts, int64_t n,
                     const type::Datatype* const* types, bool one_type, bool in_place_allowed, Counts byte_displacements = {});
WEFT_COLD int bytes(const char* function, Owner owner, const char* name, const void* address, MPI_Count size);
WEFT_COLD int alias(const char* function, Owner owner, const char* name, const char* other, const void* address, MPI_Count count);

#undef WEFT_COLD

}  // namespace err

inline bool good_key(const char* key) { return key && *key && __builtin_strlen(key) < MPI_MAX_INFO_KEY; }
inline bool good_stringtag(const char* tag) { return tag && __builtin_strlen(tag) < MPI_MAX_STRINGTAG_LEN; }
inline bool good_split(int type) {
  return type == MPI_COMM_TYPE_SHARED || type == MPI_COMM_TYPE_HW_UNGUIDED || type == MPI_COMM_TYPE_HW_GUIDED ||
         type == MPI_COMM_TYPE_RESOURCE_GUIDED || type == MPI_UNDEFINED;
}
inline bool good_value(const char* value) { return value && __builtin_strlen(value) < MPI_MAX_INFO_VAL; }

/// The owner that a handle names if it is good, else null.
inline Owner owner(MPI_Comm comm) { return decode(comm); }
inline Owner owner(MPI_Session session) { return decode(session); }
inline Owner owner(MPI_Win win) { return decode(win); }
inline Owner owner(MPI_File file) { return decode(file); }
inline Owner owner(pml::Request* request) { return request ? static_cast<comm::Communicator*>(request->team_owner) : nullptr; }

}  // namespace weft::api
