#include "btl/copy/joint.h"

#include <algorithm>

#include "btl/copy/cma.h"

namespace weft::btl::copy {
namespace {

constexpr uint64_t kUnit = 4096, kLeastUnits = 8;  // shorter parts cost more to claim and to begin than they save
constexpr int kBits = 20;                          // of a count of units
constexpr uint64_t kCount = (uint64_t{1} << kBits) - 1, kFailed = uint64_t{1} << kBits;
constexpr uint64_t kAllClaimed = kCount << kBits | kCount;  // of a copy of whatever length
static_assert(JointReader::kMost / kUnit < kCount);

constexpr uint64_t units(uint64_t bytes) { return (bytes + kUnit - 1) / kUnit; }
constexpr uint64_t number_of(uint64_t word) { return word >> 2 * kBits; }

/// What a word says of claims.
struct Claims {
  uint64_t word, front, back;
  explicit Claims(uint64_t w) : word(w), front(w >> kBits & kCount), back(w & kCount) {}
  /// None if the word makes no sense.
  uint64_t left(uint64_t all) const { return front + back <= all ? all - front - back : 0; }
  bool is_of(uint64_t number, uint64_t claimed) const { return number_of(word) == number && front == claimed; }
};

uint64_t some_of(uint64_t left, uint64_t wanted, uint64_t most) {
  return std::min({left, std::max(wanted, kLeastUnits), std::max(most / kUnit, kLeastUnits)});
}

}  // namespace

void JointReader::open(uint64_t from, const std::byte* to, uint64_t bytes, uint64_t owner) {
  open_ = true;
  bytes_ = bytes;
  front_ = 0;
  number_ = number_of((number_ + 1) << 2 * kBits);
  // Who sees any of the new words finds nothing to claim of the copy before, of which more would be left were it as long as this one.
  joint_->claims.store(number_ << 2 * kBits | kAllClaimed, std::memory_order_relaxed);
  joint_->from.store(from, std::memory_order_release);
  joint_->to.store(reinterpret_cast<uint64_t>(to), std::memory_order_release);
  joint_->bytes.store(bytes, std::memory_order_release);
  joint_->owner.store(owner, std::memory_order_release);
  joint_->claims.store(number_ << 2 * kBits, std::memory_order_release);
}

/// Half of what is left, so that the other one has as much to do.
Part JointReader::claim(uint64_t most) {
  Claims c(joint_->claims.load(std::memory_order_relaxed));
  for (;;) {
    const uint64_t left = c.is_of(number_, front_) ? c.left(units(bytes_)) : 0, n = some_of(left, (left + 1) / 2, most);
    if (n == 0) return {};
    uint64_t seen = c.word;
    if (joint_->claims.compare_exchange_weak(seen, c.word + (n << kBits), std::memory_order_acq_rel)) {
      const uint64_t from = front_ * kUnit;
      front_ += n;
      return {from, std::min(n * kUnit, bytes_ - from)};
    }
    c = Claims(seen);
  }
}

Part JointReader::owners() const {
  const uint64_t from = front_ * kUnit;
  return from < bytes_ ? Part{from, bytes_ - from} : Part{};
}

Status JointReader::owner() const {
  const Claims c(joint_->claims.load(std::memory_order_acquire));
  if (!c.is_of(number_, front_) || c.front + c.back != units(bytes_)) return Status::failed;
  if (c.back == 0) return Status::ok;
  const uint64_t written = joint_->written.load(std::memory_order_acquire);
  if (number_of(written) != number_) return Status::again;
  if (written & kFailed) return Status::failed;
  return (written & kCount) == c.back ? Status::ok : Status::again;
}

/// Who comes at once takes most of what the reader has left, so that both are done at the same time.
Status help(Joint& joint, pid_t reader, uint64_t most, uint64_t owner) {
  Claims c(joint.claims.load(std::memory_order_acquire));
  const uint64_t bytes = joint.bytes.load(std::memory_order_acquire), all = units(bytes), left = c.left(all);
  const uint64_t from = joint.from.load(std::memory_order_acquire), to = joint.to.load(std::memory_order_acquire);
  const uint64_t n = some_of(left, c.back == 0 ? left - left / 4 : (left + 1) / 2, most);
  if (n == 0 || joint.owner.load(std::memory_order_acquire) != owner) return Status::ok;
  uint64_t seen = c.word;
  // Only then have these words been of one copy.
  if (!joint.claims.compare_exchange_strong(seen, c.word + n, std::memory_order_acq_rel)) return Status::again;
  const uint64_t first = (all - c.back - n) * kUnit, end = std::min(bytes, first + n * kUnit);
  const std::byte* const data = reinterpret_cast<const std::byte*>(from) + first;
  const Status status = write(reader, reinterpret_cast<std::byte*>(to + first), {data, end - first});
  const uint64_t number = c.word >> 2 * kBits << 2 * kBits, before = joint.written.load(std::memory_order_relaxed);
  const uint64_t done = number_of(before) == number_of(number) ? before : number;
  joint.written.store((done + n) | (status == Status::ok ? 0 : kFailed), std::memory_order_release);
  return status == Status::ok && left > n ? Status::again : status;
}

}  // namespace weft::btl::copy
