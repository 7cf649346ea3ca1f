// Cached attributes of communicators, datatypes and windows (MPI 5.0, 7.7).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

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
  int uses;         ///< attributes cached under it; the key lives while there are any
  bool user_freed;  ///< MPI_*_free_keyval was called
};

/// Stands for MPI_*_DUP_FN (ABI value 1).
inline const Keyval::Copy dup_function = reinterpret_cast<Keyval::Copy>(uintptr_t{1});

/// A new key value of the process, never 0. Thread-safe, like all of these.
int make_keyval(Keyval::For, Keyval::Copy, Keyval::Delete, void* extra);
/// True if the key exists, was not freed, and is for this kind of object.
bool valid_keyval(int keyval, Keyval::For);
/// MPI_*_free_keyval: attributes cached under it stay until they are deleted.
void free_keyval(int keyval);

/// The attributes of one object. Callbacks are run without locks held.
class Attributes {
 public:
  /// Sets a value; a former one is deleted by its callback first. Returns a callback's error, if any.
  int set(void* handle, int keyval, void* value);
  bool get(int keyval, void** value) const;
  int remove(void* handle, int keyval);
  /// Copies by each key's callback into a new object; stops at the first error.
  int copy_to(void* old_handle, Attributes& target) const;
  /// Deletes all, last set first (MPI 5.0, 11.2.4 for MPI_COMM_SELF); stops at the first error.
  int clear(void* handle);
  bool empty() const { return values_.empty(); }

 private:
  struct Value {
    void* value;
    uint64_t order;
  };
  mutable std::mutex lock_;
  std::map<int, Value> values_;
  uint64_t next_order_ = 0;
};

}  // namespace weft
