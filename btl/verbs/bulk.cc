// Reading and writing a peer's memory: operations are cut into chunks, which are spread over the queue pairs for bulk data.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "btl/verbs/rail.h"
#include "include/mpi.h"
#include "runtime/base/error.h"

namespace weft::btl::verbs {
namespace {

constexpr uint32_t kBatch = 8;         // work requests handed to the device at a time
constexpr uint32_t kMostBulks = 1024;  // operations under way per peer
constexpr uint32_t kKept = 8;          // room for messages in a queue pair that carries them as well

/// What Region::key holds: the remote key, the exposure's number at its owner, and whether it is good at all.
struct Key {
  uint32_t remote = 0;
  uint32_t number = 0;
  uint32_t good = 0;
  uint32_t atomic = 0;  ///< may it be changed atomically?
};
static_assert(sizeof(Key) == sizeof(Region::key));

Key key_of(const Region& region) {
  Key key;
  memcpy(&key, region.key.data(), sizeof key);
  return key;
}

}  // namespace

Region Rail::expose(void* address, size_t length) {
  Region region{reinterpret_cast<uint64_t>(address), length, {}};
  auto registration = shared_->cache.acquire(mem::Range::of(address, length), index_, false);
  if (!registration) return region;  // the peer finds a key that is no good, and asks for the data instead
  Key key;
  if (exposed_free_.empty()) {
    key.number = uint32_t(exposed_.size());
    exposed_.push_back(*registration);
  } else {
    key.number = exposed_free_.back();
    exposed_free_.pop_back();
    exposed_[key.number] = *registration;
  }
  key.remote = Device::mr((*registration)->handles[index_])->rkey;
  key.good = 1;
  key.atomic = device_.atomics() && (*registration)->writable;
  memcpy(region.key.data(), &key, sizeof key);
  return region;
}

void Rail::conceal(const Region& region) {
  const Key key = key_of(region);
  if (!key.good || key.number >= exposed_.size() || !exposed_[key.number]) return;
  shared_->cache.release(std::exchange(exposed_[key.number], nullptr));
  exposed_free_.push_back(key.number);
}

Status Link::get(const Region& region, uint64_t offset, std::span<const iovec> local, Operation& operation) {
  return start_bulk(false, region, offset, local, operation);
}

Status Link::put(const Region& region, uint64_t offset, std::span<const iovec> local, Operation& operation) {
  return start_bulk(true, region, offset, local, operation);
}

Status Link::start_bulk(bool write, const Region& region, uint64_t offset, std::span<const iovec> local, Operation& operation) {
  if (state_ != State::open) return admit();
  if (bulks_open_ >= kMostBulks) return Status::again;
  const Key key = key_of(region);
  uint64_t total = 0;
  for (const iovec& run : local) total += run.iov_len;
  if (!key.good || offset > region.length || total > region.length - offset) {
    weft::fail(MPI_ERR_OTHER, "the peer's memory cannot be reached over %s", describe().c_str());
    return Status::failed;
  }
  auto bulk = std::make_unique<Bulk>();
  bulk->operation = &operation;
  bulk->write = write;
  bulk->key = key.remote;
  bulk->remote = region.address + offset;
  bulk->pieces.reserve(local.size());
  for (const iovec& run : local) {
    if (run.iov_len == 0) continue;
    auto registration = rail_.shared_->cache.acquire(mem::Range::of(run.iov_base, run.iov_len), rail_.index_, !write);
    if (!registration) {
      for (const Bulk::Piece& piece : bulk->pieces) rail_.shared_->cache.release(piece.registration);
      weft::fail(MPI_ERR_NO_MEM, "%s", registration.failure().text.c_str());
      return Status::failed;
    }
    bulk->pieces.push_back({static_cast<std::byte*>(run.iov_base), run.iov_len, *registration});
  }
  if (bulk->pieces.empty()) {
    operation.done(operation, Status::ok);
    return Status::ok;
  }
  ++bulks_open_;
  bulks_.push_back(bulk.release());
  push_bulks();
  return Status::ok;
}

Status Link::atomic(const Region& region, uint64_t offset, const Atomic& what, uint64_t* before, Operation& operation) {
  if (state_ != State::open) return admit();
  const Key key = key_of(region);
  if (!rail_.caps_.atomics || !key.good || !key.atomic || region.length < sizeof *before || offset > region.length - sizeof *before ||
      (region.address + offset) % sizeof *before != 0) {
    weft::fail(MPI_ERR_OTHER, "the peer's memory cannot be changed atomically over %s", describe().c_str());
    return Status::failed;
  }
  Queue& queue = next_flow();
  if (bulks_open_ >= kMostBulks || queue.outstanding.room() <= (&queue == &queues_[0] ? kKept : 0)) return Status::again;
  ibv_send_wr request{};
  request.opcode = what.kind == Atomic::Kind::fetch_add ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
  request.wr.atomic.remote_addr = region.address + offset;
  request.wr.atomic.rkey = key.remote;
  request.wr.atomic.compare_add = what.kind == Atomic::Kind::fetch_add ? what.operand : what.compare;
  request.wr.atomic.swap = what.operand;
  auto bulk = std::make_unique<Bulk>();
  bulk->operation = &operation;
  bulk->before = before;
  const Status status = post_atomic(queue, request, *bulk);
  if (status == Status::ok) (void)bulk.release();
  return status;
}

/// Hands an atomic change to the device, with a slot for the answer.
Status Link::post_atomic(Queue& queue, ibv_send_wr& request, Bulk& bulk) {
  const uint32_t slot = rail_.send_slots_.take();
  if (slot == Slots::kNone) return Status::again;
  ibv_sge answer{reinterpret_cast<uint64_t>(rail_.send_slots_.at(slot)), sizeof *bulk.before, rail_.send_slots_.key(slot)};
  request.sg_list = &answer;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr_id = uint64_t{queue.name} << 32 | queue.outstanding.add({slot, &bulk}, true);
  bulk.in_flight = 1;
  ++bulks_open_;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(queue.pair, &request, &bad)) fail("the device takes no work: " + std::string(strerror(error)));
  return Status::ok;  // if it failed, the operation ends with the way
}

Queue& Link::next_flow() {
  if (queues_.size() == 1) return queues_[0];
  flow_ = (flow_ + 1) % uint32_t(queues_.size() - 1);
  return queues_[1 + flow_];
}

/// Hands chunks to the device as long as it has room.
void Link::push_bulks() {
  size_t full = 0;
  while (!bulks_.empty() && full < queues_.size() && state_ == State::open) {
    Bulk& bulk = *bulks_.front();
    full = post_chunks(next_flow(), bulk) > 0 ? 0 : full + 1;
    if (state_ == State::open && bulk.all_posted()) bulks_.pop_front();
  }
  if (!bulks_.empty() && std::ranges::find(rail_.pushing_, this) == rail_.pushing_.end()) rail_.pushing_.push_back(this);
}

/// One doorbell: a chain of requests of which the last reports. Returns how many there were.
uint32_t Link::post_chunks(Queue& queue, Bulk& bulk) {
  const uint32_t kept = &queue == &queues_[0] ? kKept : 0;
  if (queue.outstanding.room() <= kept) return 0;
  // one after another over the flows, so that each gets its share
  const uint32_t most = std::min(queue.outstanding.room() - kept, queues_.size() > 2 ? 1u : kBatch);
  ibv_send_wr requests[kBatch];
  ibv_sge pieces[kBatch];
  uint32_t n = 0;
  for (; n < most && !bulk.all_posted(); ++n) {
    const Bulk::Piece& piece = bulk.pieces[bulk.piece];
    const auto length = uint32_t(std::min<uint64_t>(piece.length - bulk.offset, rail_.options_.chunk));
    pieces[n] = {reinterpret_cast<uint64_t>(piece.address + bulk.offset), length,
                 Device::mr(piece.registration->handles[rail_.index_])->lkey};
    ibv_send_wr& request = requests[n];
    request = {};
    request.sg_list = &pieces[n];
    request.num_sge = 1;
    request.opcode = bulk.write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    request.wr.rdma.remote_addr = bulk.remote;
    request.wr.rdma.rkey = bulk.key;
    bulk.remote += length;
    bulk.offset += length;
    if (bulk.offset == piece.length) {
      ++bulk.piece;
      bulk.offset = 0;
    }
    const bool last = n + 1 == most || bulk.all_posted();
    request.send_flags = last ? unsigned{IBV_SEND_SIGNALED} : 0u;
    request.wr_id = uint64_t{queue.name} << 32 | queue.outstanding.add({Slots::kNone, &bulk}, last);
    if (n > 0) requests[n - 1].next = &request;
  }
  bulk.in_flight += n;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(queue.pair, requests, &bad)) fail("the device takes no work: " + std::string(strerror(error)));
  return n;
}

/// An operation is over. The device does not touch its memory any more.
void Link::finish(Bulk& bulk, Status status) {
  for (const Bulk::Piece& piece : bulk.pieces) rail_.shared_->cache.release(piece.registration);
  Operation& operation = *bulk.operation;
  --bulks_open_;
  delete &bulk;
  operation.done(operation, status);
}

}  // namespace weft::btl::verbs
