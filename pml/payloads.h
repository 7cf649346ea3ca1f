// Pooled memory for arrived data that nobody has asked for yet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace weft::pml {

/// Blocks of a few sizes, kept for reuse up to a bound. Guarded by the lane's lock.
class Payloads {
 public:
  Payloads() = default;
  Payloads(const Payloads&) = delete;
  ~Payloads() {
    for (Shelf& shelf : shelves_)
      while (shelf.free) drop(shelf);
  }

  std::byte* take(size_t bytes) {
    Shelf* shelf = shelf_of(bytes);
    if (!shelf || !shelf->free) return allocate(shelf ? shelf->bytes : bytes);
    Block* block = shelf->free;
    shelf->free = block->next;
    --shelf->count;
    return reinterpret_cast<std::byte*>(block);
  }
  void give(std::byte* memory, size_t bytes) {
    Shelf* shelf = shelf_of(bytes);
    if (!shelf || shelf->count * shelf->bytes >= kKeep) return std::free(memory);
    shelf->free = new (memory) Block{shelf->free};
    ++shelf->count;
  }

 private:
  static constexpr size_t kKeep = 1 << 20;  // bytes kept of each size
  struct Block {
    Block* next;
  };
  struct Shelf {
    size_t bytes;
    Block* free = nullptr;
    size_t count = 0;
  };

  Shelf* shelf_of(size_t bytes) {
    for (Shelf& shelf : shelves_)
      if (bytes <= shelf.bytes) return &shelf;
    return nullptr;
  }
  static std::byte* allocate(size_t bytes) {
    void* memory = std::malloc(bytes);
    if (!memory) throw std::bad_alloc();
    return static_cast<std::byte*>(memory);
  }
  static void drop(Shelf& shelf) {
    Block* block = shelf.free;
    shelf.free = block->next;
    std::free(block);
  }

  std::array<Shelf, 4> shelves_{{{64}, {512}, {4096}, {32768}}};
};

}  // namespace weft::pml
