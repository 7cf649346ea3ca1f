#include "btl/copy/cma.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "include/mpi.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/config/config.h"

namespace weft::btl::copy {
namespace {

config::Choice cma_variable("shm", "cma", "auto", "auto, no",
                            "Copy large messages straight between the memories of two processes: auto (where the system allows it), no.");

constexpr size_t kRuns = 64;  // iovecs a system call; the kernel takes 1024 and copies them to its stack or heap

Status failure(pid_t peer, int error) {
  if (error == ESRCH) return Status::peer_failed;
  fail(MPI_ERR_OTHER, "cannot access the memory of process %d: %s; WEFT_SHM_CMA=no avoids direct access", int(peer), strerror(error));
  return Status::failed;
}

/// Bytes moved between remote memory and local runs that hold so many, or -1 with errno.
ssize_t move(Direction direction, pid_t peer, uint64_t remote_address, std::span<const iovec> local, size_t bytes) {
  const iovec remote{reinterpret_cast<void*>(remote_address), bytes};
  if (peer == 0) {
    auto* at = reinterpret_cast<std::byte*>(remote_address);
    for (const iovec& run : local) {
      if (direction == Direction::read)
        std::memcpy(run.iov_base, at, run.iov_len);
      else
        std::memcpy(at, run.iov_base, run.iov_len);
      at += run.iov_len;
    }
    return ssize_t(bytes);
  }
  ssize_t n;
  do
    n = direction == Direction::read ? process_vm_readv(peer, local.data(), local.size(), &remote, 1, 0)
                                     : process_vm_writev(peer, local.data(), local.size(), &remote, 1, 0);
  while (n < 0 && errno == EINTR);
  if (n == 0) errno = EFAULT;
  return n > 0 ? n : -1;
}

/// Of own memory, which is as near; 0: it cannot be done.
double least_ns(std::span<const std::byte> from, std::span<std::byte> to) {
  constexpr int kTries = 6;  // the first ones bring it near
  double least = 0;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t begin = now_ns();
    const iovec local{to.data(), to.size()};
    if (move(Direction::read, getpid(), reinterpret_cast<uint64_t>(from.data()), {&local, 1}, to.size()) != ssize_t(to.size())) return 0;
    const auto ns = static_cast<double>(now_ns() - begin);
    least = i == 0 ? ns : std::min(least, ns);
  }
  return least;
}

constexpr size_t kTimed = 64 << 10;  // bytes
struct Unmap {
  void operator()(std::byte* pages) const { munmap(pages, 2 * kTimed); }
};

ReadSpeed measure_read_speed() {
  if (!allowed()) return {};
  // Not of the heap, where what programs allocate later would lie differently.
  void* const pages = mmap(nullptr, 2 * kTimed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return {};
  const std::unique_ptr<std::byte, Unmap> memory(static_cast<std::byte*>(pages));
  const std::span from(memory.get(), kTimed), to(memory.get() + kTimed, kTimed);
  std::memset(from.data(), 1, from.size());
  const double call = least_ns(from.first(64), to.first(64)), all = least_ns(from, to);
  return call > 0 && all > call ? ReadSpeed{call, (all - call) / kTimed} : ReadSpeed{};
}

}  // namespace

bool allowed() { return cma_variable.get() != "no"; }

bool can_read(pid_t pid, uint64_t address, std::span<const std::byte> expected) {
  std::byte seen[64] = {};
  if (expected.size() > sizeof seen) return false;
  const iovec local{seen, expected.size()};
  const iovec remote{reinterpret_cast<void*>(address), expected.size()};
  return process_vm_readv(pid, &local, 1, &remote, 1, 0) == ssize_t(expected.size()) &&
         std::memcmp(seen, expected.data(), expected.size()) == 0;
}

bool is_readable(const std::byte* data, size_t bytes) {
  if (bytes == 0) return true;
  std::byte seen[2];
  const iovec local{seen, sizeof seen};
  auto* const first = const_cast<std::byte*>(data);
  const iovec ends[] = {{first, 1}, {first + bytes - 1, 1}};
  return process_vm_readv(getpid(), &local, 1, ends, 2, 0) == ssize_t(sizeof seen);
}

const ReadSpeed& read_speed() {
  static const ReadSpeed speed = measure_read_speed();
  return speed;
}

namespace {

Status move_all(Direction direction, pid_t peer, uint64_t remote, iovec local) {
  while (local.iov_len > 0) {
    const ssize_t n = move(direction, peer, remote, {&local, 1}, local.iov_len);
    if (n < 0) return failure(peer, errno);
    remote += static_cast<uint64_t>(n);
    local = {static_cast<std::byte*>(local.iov_base) + n, local.iov_len - static_cast<size_t>(n)};
  }
  return Status::ok;
}

}  // namespace

Status read(pid_t peer, const std::byte* remote, std::span<std::byte> local) {
  return move_all(Direction::read, peer, reinterpret_cast<uint64_t>(remote), {local.data(), local.size()});
}

Status write(pid_t peer, std::byte* remote, std::span<const std::byte> local) {
  return move_all(Direction::write, peer, reinterpret_cast<uint64_t>(remote), {const_cast<std::byte*>(local.data()), local.size()});
}

bool Gathered::read_all(pid_t peer) const {
  std::array<iovec, kMost> local, remote;
  for (size_t i = 0; i < count_; ++i) {
    local[i] = reads_[i].local;
    remote[i] = {reinterpret_cast<void*>(reads_[i].remote), local[i].iov_len};
  }
  return process_vm_readv(peer, local.data(), count_, remote.data(), count_, 0) == ssize_t(bytes_);
}

Transfer::Transfer(Direction direction, pid_t peer, uint64_t remote, std::span<const iovec> local, Operation& operation)
    : direction_(direction), peer_(peer), remote_(remote), local_(local.begin(), local.end()), operation_(&operation) {
  for (const iovec& run : local_) left_ += run.iov_len;
}

void Transfer::skip(size_t bytes) {
  remote_ += bytes;
  left_ -= bytes;
  while (bytes) {
    iovec& run = local_[next_];
    const size_t part = std::min(bytes, run.iov_len);
    run.iov_base = static_cast<std::byte*>(run.iov_base) + part;
    run.iov_len -= part;
    bytes -= part;
    if (!run.iov_len) ++next_;
  }
}

bool Transfer::can_be_shared() const { return direction_ == Direction::read && local_.size() == 1 && JointReader::fits(left_); }

void Transfer::share(JointReader& joint) {
  joint_ = &joint;
  joint.open(remote_, static_cast<std::byte*>(local_[0].iov_base), left_);
}

std::span<std::byte> Transfer::place(Part part) const { return {static_cast<std::byte*>(local_[0].iov_base) + part.from, part.bytes}; }

Status Transfer::await_owner(int looks) const {
  while (true) {
    if (const Status owner = joint_->owner(); owner != Status::again || --looks <= 0) return owner;
    cpu_pause();
  }
}

/// Also after an error all has to be claimed, and what its owner has claimed to be written.
Status Transfer::advance_jointly(size_t most) {
  constexpr uint32_t kWaitsPerLook = 1 << 12;
  constexpr int kLooks = 500;  // who claims last of two that work side by side is done a little later
  const auto read_part = [this](Part part) {
    if (status_ == Status::ok) status_ = read(peer_, reinterpret_cast<const std::byte*>(remote_) + part.from, place(part));
    left_ -= std::min(left_, part.bytes);
  };
  const uint64_t begin = now_ns();
  uint64_t done = 0, calls = 0;
  for (Part part; done < most && (part = joint_->claim(most - done)); done += part.bytes, ++calls) read_part(part);
  if (done > 0) own_ = {own_.bytes + done, own_.ns + now_ns() - begin, own_.calls + calls};
  if (done >= most) return Status::again;
  const Status owner = await_owner(done > 0 ? kLooks : 1);
  if (owner == Status::again) {
    // Somebody who has ended cannot be read from.
    std::byte probe[1];
    if (++waits_ % kWaitsPerLook || read(peer_, reinterpret_cast<const std::byte*>(remote_), probe) == Status::ok) return Status::again;
    status_ = Status::peer_failed;
  }
  if (owner == Status::failed) read_part(joint_->owners());
  joint_->close();
  left_ = 0;
  return status_;
}

Status Transfer::advance(size_t most) {
  if (joint_) return advance_jointly(most);
  while (left_ && most) {
    iovec runs[kRuns];
    size_t count = 0, bytes = 0;
    for (size_t i = next_; i < local_.size() && count < kRuns && bytes < most; ++i) {
      if (!local_[i].iov_len) continue;
      runs[count] = local_[i];
      runs[count].iov_len = std::min(runs[count].iov_len, most - bytes);
      bytes += runs[count++].iov_len;
    }
    const ssize_t n = move(direction_, peer_, remote_, {runs, count}, bytes);
    if (n < 0) return failure(peer_, errno);
    skip(size_t(n));
    most -= std::min(most, size_t(n));
  }
  return left_ ? Status::again : Status::ok;
}

}  // namespace weft::btl::copy
