#include "pml/buffered.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "include/mpi.h"
#include "runtime/base/error.h"
#include "runtime/type/predefined.h"

namespace weft::pml {

SendBuffer::~SendBuffer() { flush(); }

/// First fit; there are few messages under way at a time.
SendBuffer::Block* SendBuffer::allocate(uint64_t bytes) {
  const uint64_t rounded = (std::max<uint64_t>(bytes, 1) + 15) & ~uint64_t{15};
  if (automatic_) {
    auto* data = static_cast<std::byte*>(std::malloc(rounded));
    if (!data) throw std::bad_alloc();
    return new Block{this, ++last_, 0, rounded, data};
  }
  uint64_t at = 0;
  for (const auto& [offset, block] : by_offset_) {
    if (offset - at >= rounded) break;
    at = offset + block->bytes;
  }
  if (at > size_ || size_ - at < std::min(rounded, std::max<uint64_t>(bytes, 1))) return nullptr;
  auto* block = new Block{this, ++last_, at, rounded, memory_ + at};
  by_offset_[at] = block;
  return block;
}

void SendBuffer::free_block(Block* block) {
  by_number_.erase(block->number);
  if (automatic_)
    std::free(block->data);
  else
    by_offset_.erase(block->offset);
  delete block;
  for (size_t i = 0; i < waiting_.size();) {
    if (!left(waiting_[i].number)) {
      ++i;
      continue;
    }
    Request* request = waiting_[i].request;
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
    lane_.complete(*request);
    release(request);
  }
}

void SendBuffer::sent(Request& request) {
  auto* block = static_cast<Block*>(request.context);
  SendBuffer& owner = *block->owner;
  std::lock_guard hold(owner.lock_);
  owner.free_block(block);
}

int SendBuffer::send(Team& team, int dest, int tag, const Buffer& buffer) {
  const uint64_t bytes = buffer.count * buffer.type->size;
  Block* block = nullptr;
  auto make_room = [&] {
    std::lock_guard hold(lock_);
    block = allocate(bytes);
    if (block) by_number_[block->number] = block;
    return block != nullptr;
  };
  const auto find_room = [&] {
    if (make_room()) return true;
    lane_.progress_all();  // messages that have just left make room
    if (make_room()) return true;
    lane_.leave_all_copies();
    return make_room();
  };
  if (!find_room()) return no_room(bytes);
  type::pack(*buffer.type, buffer.count, buffer.address, block->data);
  post(team, dest, tag, block, bytes);
  return MPI_SUCCESS;
}

int SendBuffer::no_room(uint64_t bytes) {
  std::lock_guard hold(lock_);
  return fail(MPI_ERR_BUFFER,
              "no room for %llu bytes in the attached buffer of %llu bytes, of which %zu messages are still under way; attach a larger "
              "one, or MPI_BUFFER_AUTOMATIC",
              static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(size_), by_number_.size());
}

void SendBuffer::post(Team& team, int dest, int tag, Block* block, uint64_t bytes) {
  Lane& lane = team.lane();
  lane.locked([&] {
    const Buffer copy{block->data, bytes, &type::of(type::Basic::byte), mem::MemKind::host};
    Request* request = lane.isend(team, dest, tag, Traffic::user, copy);
    if (request->complete.load(std::memory_order_relaxed)) {  // it may be shared
      std::lock_guard hold(lock_);
      free_block(block);
    } else {
      request->context = block;
      request->on_done = sent;
    }
    release(request);
  });
}

Status SendBuffer::flush() {
  struct Goal {
    SendBuffer* buffer;
    uint64_t number;
  } goal{this, 0};
  {
    std::lock_guard hold(lock_);
    goal.number = last_;
  }
  return lane_.wait_until(
      [](void* g) {
        SendBuffer& buffer = *static_cast<Goal*>(g)->buffer;
        std::lock_guard hold(buffer.lock_);
        return buffer.left(static_cast<Goal*>(g)->number);
      },
      &goal);
}

void SendBuffer::notify(Request& request) {
  std::lock_guard hold(lock_);
  if (left(last_))
    lane_.complete(request);
  else
    waiting_.push_back({last_, retain(&request)});
}

}  // namespace weft::pml
