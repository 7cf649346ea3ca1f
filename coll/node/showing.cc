#include "coll/node/showing.h"

#include "btl/copy/cma.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace weft::coll::node {

/// 0: this one, of which that rank is a thread.
pid_t Segment::process_of(uint32_t rank) {
  const pid_t process = desk(rank).owner.process;
  return process == getpid() ? 0 : process;
}

// Ranks that are threads, in tests, have the segment each at an address of its own. So a thread sanitizer has to be told that what they say
// there puts what they do with their own memory in order.
#ifdef __SANITIZE_THREAD__
void Segment::has_done() const { __tsan_release(const_cast<uint64_t*>(&nonce_)); }
void Segment::follows(uint32_t rank) {
  if (process_of(rank) == 0) __tsan_acquire(const_cast<uint64_t*>(desk(rank).owner.nonce));
}
#else
void Segment::has_done() const {}
void Segment::follows(uint32_t) {}
#endif
void Segment::follows_all() {
  for (uint32_t r = 0; r < size_; ++r) follows(r);
}

/// Has to be asked when that rank is known to have come here.
bool Segment::can_read(uint32_t rank) {
  Access& access = access_[rank];
  if (access == Access::untried) {
    const pid_t process = process_of(rank);
    const auto nonce = std::as_bytes(std::span(&nonce_, 1));
    const bool can = process == 0 || btl::copy::can_read(process, reinterpret_cast<uint64_t>(desk(rank).owner.nonce), nonce);
    access = can ? Access::granted : Access::denied;
  }
  return access == Access::granted;
}

Status Segment::read_from(uint32_t rank, const std::byte* where, type::Cursor to, uint64_t bytes) {
  const pid_t process = process_of(rank);
  follows(rank);
  const auto read = [&](uint64_t first, std::byte* into, uint64_t n) { return btl::copy::read(process, where + first, {into, n}); };
  const Status status = to.contiguous() ? read(0, to.data(), bytes) : in_steps(bytes, 1, plan_.chunk, [&](uint64_t first, uint64_t n) {
    const Status s = read(first, scratch(), n);
    if (s == Status::ok) to.unpack(scratch(), n);
    return s;
  });
  has_done();
  return status;
}

Status Segment::Showing::finish(Status exchanged) {
  if (exchanged != Status::ok) return exchanged;
  if (shown > 0) {
    exchanged = segment.barrier();
    segment.follows_all();
  }
  if (const uint32_t read = shown - own()) segment.lane_.note_read(read);
  segment.readings_.end();
  if (segment.reach_.to_try()) {
    bool can = true;
    for (uint32_t r = 0; r < segment.size_; ++r) can &= segment.can_read(r);
    segment.reach_.can_read(can);
  }
  return exchanged == Status::ok ? status : exchanged;
}

}  // namespace weft::coll::node
