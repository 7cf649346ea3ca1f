// Pooled memory for arrived data that nobody has asked for yet.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace weft::pml {

/// Blocks in powers of two, kept for reuse up to a bound, as memory that goes back to the system costs a page fault for every 4 KiB when it
/// comes again; longer ones as they come. Guarded by the lane's lock.
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
    kept_ -= shelf->bytes;
    return reinterpret_cast<std::byte*>(block);
  }
  void give(std::byte* memory, size_t bytes) {
    Shelf* shelf = shelf_of(bytes);
    if (!shelf || (shelf->count * shelf->bytes >= kKeepOfEach && kept_ + shelf->bytes > kKeep)) return std::free(memory);
    shelf->free = new (memory) Block{shelf->free};
    ++shelf->count;
    kept_ += shelf->bytes;
  }

 private:
  static constexpr size_t kKeepOfEach = 256 << 10;  // bytes of each size that are always kept
  static constexpr size_t kKeep = 4 << 20;          // and of all sizes together, whichever they are
  struct Block {
    Block* next;
  };
  struct Shelf {
    size_t bytes;
    Block* free = nullptr;
    size_t count = 0;
  };

  Shelf* shelf_of(size_t bytes) {
    const auto width = static_cast<size_t>(std::bit_width(bytes ? bytes - 1 : 0));
    const size_t number = width > kLeastBits ? width - kLeastBits : 0;
    return number < shelves_.size() ? &shelves_[number] : nullptr;
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

  static constexpr size_t kLeastBits = 6;  // the first shelf's blocks are of 64 bytes, each next one's twice as large
  std::array<Shelf, 12> shelves_{{{64}, {128}, {256}, {512}, {1024}, {2048}, {4096}, {8192}, {16384}, {32768}, {65536}, {131072}}};
  size_t kept_ = 0;  // bytes
};

}  // namespace weft::pml
