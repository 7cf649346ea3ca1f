// Objects that MPI handles point to, and the pools that they live in.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace weft {

/// What kind of object a handle points to. The values are unlikely words, so that stale or foreign memory is recognised.
enum class Kind : uint32_t {
  freed = 0x57f0dead,
  communicator = 0x57f00001,
  group = 0x57f00002,
  datatype = 0x57f00003,
  op = 0x57f00004,
  request = 0x57f00005,
  message = 0x57f00006,
  errhandler = 0x57f00007,
  info = 0x57f00008,
  session = 0x57f00009,
  window = 0x57f0000a,
  file = 0x57f0000b,
};

/// First words of whatever an MPI handle points to. Reference-counted: a handle freed by the user lives on while
/// operations still use it; `user_freed` makes further use through the handle an error.
struct Object {
  Kind kind;
  std::atomic<int32_t> references{1};
  uint32_t abi_handle = 0;  ///< the ABI constant that is its handle; 0: the handle is its address
  bool predefined = false;  ///< never freed; its handle is an ABI constant below 4096
  bool user_freed = false;  ///< MPI_*_free was called; only internal references remain

  explicit Object(Kind k) : kind(k) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
};

/// Typed pool whose memory is never given back: a freed handle points to readable memory whose kind is Kind::freed.
/// Thread-safe. One per process and type (object identity is process-wide, like the handles themselves).
template <class T>
class Pool {
 public:
  template <class... A>
  T* make(A&&... args) {
    void* slot = take();
    try {
      return new (slot) T(std::forward<A>(args)...);
    } catch (...) {
      give(slot);
      throw;
    }
  }
  void destroy(T* object) {
    object->~T();
    mark_freed(object);
    give(object);
  }

 private:
  struct Slot {
    alignas(T) std::byte bytes[sizeof(T)];
    Slot* next = nullptr;  // outside the bytes, so that the Kind::freed mark of a freed object survives
  };
  static constexpr size_t kSlabSlots = sizeof(T) > 4096 ? 4 : 64;

  void* take() {
    std::lock_guard hold(lock_);
    if (!free_) {
      slabs_.push_back(std::make_unique<Slot[]>(kSlabSlots));
      for (size_t i = 0; i < kSlabSlots; ++i) push(&slabs_.back()[i]);
    }
    Slot* slot = free_;
    free_ = slot->next;
    return slot->bytes;
  }
  void give(void* bytes) {
    std::lock_guard hold(lock_);
    push(reinterpret_cast<Slot*>(bytes));
  }
  void push(Slot* slot) {
    slot->next = free_;
    free_ = slot;
  }
  static void mark_freed(void* object) { *static_cast<volatile uint32_t*>(object) = static_cast<uint32_t>(Kind::freed); }

  std::mutex lock_;
  Slot* free_ = nullptr;
  std::vector<std::unique_ptr<Slot[]>> slabs_;
};

/// The MPI handle of an object: its ABI constant if it is predefined, else its address.
inline void* handle_of(const Object& object) {
  if (object.abi_handle) return reinterpret_cast<void*>(uintptr_t{object.abi_handle});
  return const_cast<Object*>(&object);
}

/// Adds a reference.
template <class T>
T* retain(T* object) {
  object->references.fetch_add(1, std::memory_order_relaxed);
  return object;
}

/// Drops a reference; the last one destroys the object through `T::destroy(T*)`. Predefined objects stay.
template <class T>
void release(T* object) {
  if (!object || object->predefined) return;
  if (object->references.fetch_sub(1, std::memory_order_acq_rel) == 1) T::destroy(object);
}

}  // namespace weft
