// Buffered sends (MPI_Bsend): data is copied into memory that the user lent, or into the library's own (automatic buffering).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "pml/lane.h"

namespace weft::pml {

/// One attached buffer. Thread-safe; no bookkeeping is kept inside the user's memory, so that the room promised
/// by MPI_BSEND_OVERHEAD is always there.
class SendBuffer {
 public:
  /// `automatic`: memory is allocated as needed.
  SendBuffer(Lane& lane, void* memory, uint64_t size, bool automatic)
      : lane_(lane), memory_(static_cast<std::byte*>(memory)), size_(size), automatic_(automatic) {}
  ~SendBuffer();
  SendBuffer(const SendBuffer&) = delete;

  void* memory() const { return memory_; }
  uint64_t size() const { return size_; }
  bool automatic() const { return automatic_; }

  /// Copies the message and sends it. MPI_ERR_BUFFER if there is no room. `dest` is no MPI_PROC_NULL.
  int send(Team&, int dest, int tag, const Buffer&);
  /// Waits until everything that was sent so far has left the buffer.
  Status flush();
  /// `request` completes when everything sent so far has left (its owner keeps a reference until then).
  void notify(Request& request);

 private:
  struct Block {
    SendBuffer* owner;
    uint64_t number;  ///< of the message, counting from 1
    uint64_t offset;
    uint64_t bytes;
    std::byte* data;
  };
  struct Waiting {
    uint64_t number;
    Request* request;
  };

  Block* allocate(uint64_t bytes);
  int no_room(uint64_t bytes);
  void free_block(Block*);  // under lock_, as all of this
  void post(Team&, int dest, int tag, Block*, uint64_t bytes);
  static void sent(Request&);
  bool left(uint64_t number) const { return by_number_.empty() || by_number_.begin()->first > number; }

  Lane& lane_;       // where waits stand; messages go over the lane of their team
  std::mutex lock_;  // taken under lanes' locks
  std::byte* memory_;
  uint64_t size_;
  bool automatic_;
  uint64_t last_ = 0;
  std::map<uint64_t, Block*> by_offset_;  // the user's memory in use
  std::map<uint64_t, Block*> by_number_;
  std::vector<Waiting> waiting_;
};

}  // namespace weft::pml
