// Cached attributes of communicators, datatypes and windows (MPI 5.0, 7.7).
#pragma once

#include <cstdint>
#include <map>

#include "runtime/base/object.h"

namespace weft {

/// A key value. Copy and delete callbacks have the MPI signatures, which differ only in the handle's type; `handle` is passed
/// through as is.
struct Keyval {
  using Copy = int (*)(void* handle, int keyval, void* extra, void* value_in, void* value_out, int* flag);
  using Delete = int (*)(void* handle, int keyval, void* value, void* extra);
  enum class For : uint8_t { communicator, datatype, window };
  For target;
  Copy copy;      ///< null: do not copy; `dup_function`: copy the pointer
  Delete remove;  ///< null: nothing to do
  void* extra;
  int references;  ///< the user's plus one per attribute cached under it
  bool user_freed;
};

/// Stands for MPI_*_DUP_FN (ABI value 1).
inline const Keyval::Copy dup_function = reinterpret_cast<Keyval::Copy>(uintptr_t{1});

/// All key values of the process. Thread-safe.
int make_keyval(Keyval::For, Keyval::Copy, Keyval::Delete, void* extra);
/// Null if there is none, it was freed, or it is for another kind of object.
const Keyval* find_keyval(int keyval, Keyval::For);
void free_keyval(int keyval);

/// The attributes of one object. Callbacks are run without locks held.
class Attributes {
 public:
  /// Returns a callback's error, if any. Deletes a former value first, by its callback.
  int set(void* handle, int keyval, void* value);
  bool get(int keyval, void** value) const;
  int remove(void* handle, int keyval);
  /// Copies by each key's callback into a new object; stops at the first error.
  int copy_to(void* old_handle, Attributes& target) const;
  /// Deletes all, last set first (MPI 5.0, 11.2.4 for MPI_COMM_SELF).
  int clear(void* handle);
  bool empty() const { return values_.empty(); }

 private:
  struct Value {
    void* value;
    uint64_t order;
  };
  std::map<int, Value> values_;
  uint64_t next_order_ = 0;
};

}  // namespace weft
