#include "btl/shm/segment.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace weft::btl::shm {
namespace {

constexpr uint64_t kMagic = 0x316d'6873'7466'6577;  // "weftshm1"

std::string because(int error) { return std::string(": ") + strerror(error); }

int anonymous_file() {
#ifdef MFD_NOEXEC_SEAL
  constexpr unsigned no_exec = MFD_NOEXEC_SEAL;
#else
  constexpr unsigned no_exec = 0x0008u;  // Linux 6.3; some systems insist on it
#endif
  const int fd = memfd_create("weft", MFD_CLOEXEC | no_exec);
  return fd >= 0 || errno != EINVAL ? fd : memfd_create("weft", MFD_CLOEXEC);
}

/// Backs a range with memory now, so that a shortage is an error here and not a SIGBUS later.
Result<void> reserve(int fd, size_t offset, size_t bytes) {
  int rc;
  do rc = fallocate(fd, 0, off_t(offset), off_t(bytes));
  while (rc != 0 && errno == EINTR);
  if (rc == 0 || errno == EOPNOTSUPP) return {};
  return Failure{"cannot reserve " + size_text(bytes) + " of shared memory" + because(errno) +
                 "; free memory, raise the memory limit of this job or container, or lower WEFT_SHM_RING"};
}

Result<void> check_file_size_limit(size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes) return {};
  return Failure{"shared memory needs files of " + size_text(bytes) + ", but the limit on file sizes is " + size_text(limit.rlim_cur) +
                 "; raise it (ulimit -f unlimited)"};
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.release();
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

uint64_t hash_of(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;  // FNV-1a: the same in all processes
  for (const char c : text) h = (h ^ uint8_t(c)) * 0x100000001b3;
  return h;
}

std::string size_text(uint64_t bytes) {
  static constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB"};
  double value = double(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 3) value /= 1024, ++unit;
  char text[32];
  snprintf(text, sizeof text, "%.4g %s", value, units[unit]);
  return text;
}

boot::Blob Address::blob() const {
  boot::Blob out(sizeof *this);
  std::memcpy(out.data(), this, sizeof *this);
  return out;
}

Result<Address> Address::parse(const boot::Blob& blob) {
  Address address;
  if (blob.size() >= sizeof address.version) std::memcpy(&address.version, blob.data(), sizeof address.version);
  if (blob.size() != sizeof address || address.version != kVersion)
    return Failure{"the peer runs another version of Weft; use the same installation for all ranks of a job"};
  std::memcpy(&address, blob.data(), sizeof address);
  return address;
}

size_t Segment::directory_bytes(uint32_t capacity) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  return (sizeof(SegmentHead) + capacity * sizeof(RingEntry) + page - 1) / page * page;
}

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  file_ = std::move(other.file_);
  base_ = std::exchange(other.base_, nullptr);
  mapped_ = std::exchange(other.mapped_, 0);
  ring_ = std::exchange(other.ring_, nullptr);
  ring_bytes_ = std::exchange(other.ring_bytes_, 0);
  shared_mapping_ = other.shared_mapping_;
  borrowed_ = other.borrowed_;
  return *this;
}

Segment::~Segment() { unmap(); }

void Segment::unmap() {
  if (ring_ && !borrowed_) munmap(ring_, ring_bytes_);
  // Ranks in one process share the owner's mapping; the last one to leave takes it down.
  if (base_ && (!shared_mapping_ || head().users.fetch_sub(1, std::memory_order_acq_rel) == 1)) munmap(base_, mapped_);
  base_ = ring_ = nullptr;
}

Result<Segment> Segment::create(uint32_t capacity, uint32_t ring_bytes, const std::string& folder) {
  Segment segment;
  segment.mapped_ = directory_bytes(capacity) + size_t{capacity} * ring_bytes;
  if (auto fits = check_file_size_limit(segment.mapped_); !fits) return fits.failure();
  segment.file_ = Fd(folder.empty() ? anonymous_file() : open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!segment.file_) return Failure{"cannot make a shared memory file" + (folder.empty() ? "" : " in " + folder) + because(errno)};
  if (ftruncate(segment.fd(), off_t(segment.mapped_)) != 0)
    return Failure{"cannot size a shared memory file to " + size_text(segment.mapped_) + because(errno)};
  if (auto backed = reserve(segment.fd(), 0, directory_bytes(capacity)); !backed) return backed.failure();
  void* base = mmap(nullptr, segment.mapped_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, segment.fd(), 0);
  if (base == MAP_FAILED) return Failure{"cannot map " + size_text(segment.mapped_) + " of shared memory" + because(errno)};
  segment.base_ = static_cast<std::byte*>(base);
  segment.shared_mapping_ = true;

  SegmentHead& head = segment.head();
  head.magic = kMagic;
  head.version = Address::kVersion;
  head.capacity = capacity;
  head.ring_bytes = ring_bytes;
  head.users.store(1, std::memory_order_relaxed);
  if (getrandom(head.cookie.data(), head.cookie.size(), 0) != ssize_t(head.cookie.size()))
    return Failure{"cannot draw random bytes" + because(errno)};
  return segment;
}

Result<Segment> Segment::attach(const Address& peer) {
  Segment segment;
  if (peer.pid == getpid()) {
    segment.base_ = reinterpret_cast<std::byte*>(peer.mapping);
    segment.mapped_ = directory_bytes(peer.capacity) + size_t{peer.capacity} * peer.ring_bytes;
    segment.shared_mapping_ = segment.borrowed_ = true;
    segment.head().users.fetch_add(1, std::memory_order_relaxed);
    return segment;
  }
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", peer.pid, peer.memory_fd);
  segment.file_ = Fd(open(path, O_RDWR | O_CLOEXEC));
  if (!segment.file_) return Failure{std::string("cannot open ") + path + because(errno)};
  segment.mapped_ = directory_bytes(peer.capacity);
  struct stat info {};
  if (fstat(segment.fd(), &info) != 0 || uint64_t(info.st_size) < segment.mapped_ + size_t{peer.capacity} * peer.ring_bytes)
    return Failure{std::string(path) + " is not the segment that the peer announced; it has probably ended"};
  void* base = mmap(nullptr, segment.mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd(), 0);
  if (base == MAP_FAILED) return Failure{"cannot map the head of a peer's shared memory" + because(errno)};
  segment.base_ = static_cast<std::byte*>(base);
  const SegmentHead& head = segment.head();
  if (head.magic != kMagic || head.version != Address::kVersion || head.cookie != peer.cookie || head.capacity != peer.capacity ||
      head.ring_bytes != peer.ring_bytes)
    return Failure{std::string(path) + " belongs to another process than the one announced"};
  return segment;
}

Result<std::byte*> Segment::claim_ring(uint32_t& number) {
  number = head().claimed.fetch_add(1, std::memory_order_relaxed);
  if (number >= head().capacity) {
    head().claimed.store(head().capacity, std::memory_order_relaxed);
    return Failure{"all " + std::to_string(head().capacity) + " message rings of the peer are taken"};
  }
  const size_t bytes = head().ring_bytes;
  const size_t offset = rings_offset() + number * bytes;
  // A borrowed mapping has no file of its own here: the owner is this process.
  if (borrowed_) return base_ + offset;
  if (auto backed = reserve(fd(), offset, bytes); !backed) return backed.failure();
  void* ring = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd(), off_t(offset));
  if (ring == MAP_FAILED) return Failure{"cannot map " + size_text(bytes) + " of a peer's shared memory" + because(errno)};
  ring_ = static_cast<std::byte*>(ring);
  ring_bytes_ = bytes;
  file_ = Fd();
  return ring_;
}

void Segment::announce(uint32_t number, uint64_t job, uint32_t rank) {
  RingEntry& entry = head().directory()[number];
  entry.job = job;
  entry.rank = rank;
  entry.state.store(1, std::memory_order_release);
  head().announced.fetch_add(1, std::memory_order_release);
}

void Segment::announce_copy(uint32_t number) {
  head().shared.store(number + 1, std::memory_order_relaxed);
  head().announced.fetch_add(1, std::memory_order_release);
}

}  // namespace weft::btl::shm
