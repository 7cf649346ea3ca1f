#include "btl/copy/cma.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "include/mpi.h"
#include "runtime/base/error.h"

namespace weft::btl::copy {
namespace {

constexpr size_t kRuns = 64;  // iovecs a system call; the kernel takes 1024 and copies them to its stack or heap

Status failure(pid_t peer, int error) {
  if (error == ESRCH) return Status::peer_failed;
  fail(MPI_ERR_OTHER, "cannot access the memory of process %d: %s; WEFT_SHM_CMA=no avoids direct access", int(peer), strerror(error));
  return Status::failed;
}

}  // namespace

bool can_read(pid_t pid, uint64_t address, std::span<const std::byte> expected) {
  std::byte seen[64] = {};
  if (expected.size() > sizeof seen) return false;
  const iovec local{seen, expected.size()};
  const iovec remote{reinterpret_cast<void*>(address), expected.size()};
  return process_vm_readv(pid, &local, 1, &remote, 1, 0) == ssize_t(expected.size()) &&
         std::memcmp(seen, expected.data(), expected.size()) == 0;
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

ssize_t Transfer::move(std::span<iovec> local, size_t bytes) {
  const iovec remote{reinterpret_cast<void*>(remote_), bytes};
  if (peer_ == 0) {
    auto* at = reinterpret_cast<std::byte*>(remote_);
    for (const iovec& run : local) {
      if (direction_ == Direction::read)
        std::memcpy(run.iov_base, at, run.iov_len);
      else
        std::memcpy(at, run.iov_base, run.iov_len);
      at += run.iov_len;
    }
    return ssize_t(bytes);
  }
  ssize_t n;
  do
    n = direction_ == Direction::read ? process_vm_readv(peer_, local.data(), local.size(), &remote, 1, 0)
                                      : process_vm_writev(peer_, local.data(), local.size(), &remote, 1, 0);
  while (n < 0 && errno == EINTR);
  return n;
}

Status Transfer::advance(size_t most) {
  while (left_ && most) {
    iovec runs[kRuns];
    size_t count = 0, bytes = 0;
    for (size_t i = next_; i < local_.size() && count < kRuns && bytes < most; ++i) {
      if (!local_[i].iov_len) continue;
      runs[count] = local_[i];
      runs[count].iov_len = std::min(runs[count].iov_len, most - bytes);
      bytes += runs[count++].iov_len;
    }
    const ssize_t n = move({runs, count}, bytes);
    if (n < 0) return failure(peer_, errno);
    if (n == 0) return failure(peer_, EFAULT);
    skip(size_t(n));
    most -= std::min(most, size_t(n));
  }
  return left_ ? Status::again : Status::ok;
}

}  // namespace weft::btl::copy
