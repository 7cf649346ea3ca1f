#include "coll/node/showing.h"

#include "btl/copy/cma.h"

namespace weft::coll::node {

namespace {

pid_t other_process(pid_t p) { return p == getpid() ? 0 : p; }  // ranks may be threads

}  // namespace

bool Segment::can_read_all() {
  for (uint32_t r = 0; r < size_; ++r) {
    const Owner owner = desk(r).owner;
    if (!other_process(owner.process)) continue;
    if (!btl::copy::can_read(owner.process, reinterpret_cast<uint64_t>(owner.nonce), std::as_bytes(std::span(&nonce_, 1)))) return false;
  }
  return true;
}

Status Segment::read_from(uint32_t rank, const std::byte* where, type::Cursor to, uint64_t bytes) {
  const pid_t process = other_process(desk(rank).owner.process);
  if (to.contiguous()) return btl::copy::read(process, where, {to.data(), bytes});
  return in_steps(bytes, 1, plan_.chunk, [&](uint64_t first, uint64_t n) {
    std::byte* const between = scratch();
    const Status s = btl::copy::read(process, where + first, {between, n});
    if (s == Status::ok) to.unpack(between, n);
    return s;
  });
}

Status Segment::Showing::finish(Status exchanged) {
  if (exchanged != Status::ok) return exchanged;
  if (shown > 0) exchanged = segment.barrier();
  if (const uint32_t read = shown - own()) segment.lane_.note_read(read);
  segment.readings_.end();
  if (segment.readings_.to_try()) segment.readings_.can_read(segment.can_read_all());
  return exchanged == Status::ok ? status : exchanged;
}

}  // namespace weft::coll::node
