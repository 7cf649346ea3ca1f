// The piece of memory that a process offers to the others of its node, and how they get at it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "btl/copy/joint.h"
#include "btl/shm/ring.h"
#include "runtime/base/status.h"
#include "runtime/boot/boot.h"
#include "runtime/topo/lent.h"

namespace weft::btl::shm {

using Cookie = std::array<std::byte, 16>;

/// A file descriptor with an owner.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_ = -1;
};

/// One ring in the directory of a segment: who sends there.
struct alignas(kLine) RingEntry {
  std::atomic<uint32_t> state;  ///< 0: not there yet, 1: complete
  uint32_t rank;
  uint64_t job;                   ///< hash of the sender's job name
  std::atomic<uint32_t> recalls;  ///< times that the sender may have changed memory which the owner of this segment was to read
  copy::Joint joint;              ///< what the sender reads of the memory of the owner of this segment, who may take part
};

/// Start of a segment. Written by the owner, but for the counters of the rings, which senders advance.
struct SegmentHead {
  uint64_t magic;
  uint32_t version;
  uint32_t capacity;  ///< rings
  uint32_t ring_bytes;
  uint32_t asymmetric;                                ///< the owner runs membarrier before it sleeps: registered senders need no fence
  Cookie cookie;                                      ///< tells this segment from any other that the same numbers may lead to
  alignas(2 * kLine) std::atomic<uint32_t> sleeping;  ///< 1: ring the bell after sending
  alignas(2 * kLine) std::atomic<uint32_t> rest;      ///< 1: the owner is at work, 2: it has left its CPU to others; 0: it does not tell
  alignas(2 * kLine)
      std::atomic<uint32_t> announced;  ///< rings complete, and copies shared: the owner looks at the directory when this changes
  std::atomic<uint32_t> claimed;        ///< rings given out
  std::atomic<uint32_t> shared;         ///< 1 + the ring whose sender has shared a copy last; 0: none
  std::atomic<uint32_t> users;          ///< mappings shared by ranks that are threads of one process
  topo::LentCpu lent;                   ///< the owner's

  RingEntry* directory() { return reinterpret_cast<RingEntry*>(this + 1); }
};

/// Published by each process; all that peers need to connect.
struct Address {
  static constexpr uint32_t kVersion = 4;
  uint32_t version = kVersion;
  uint32_t user = 0;
  std::array<char, 40> boot_id{};  ///< of the kernel
  uint64_t pid_namespace = 0;      ///< process ids mean the same only within one
  uint64_t job = 0;                ///< hash of the job's name
  uint32_t rank = 0;
  uint32_t node = 0;
  int32_t pid = 0;
  int32_t memory_fd = -1;
  int32_t bell_fd = -1;
  uint32_t capacity = 0;
  uint32_t ring_bytes = 0;
  Cookie cookie{};
  uint64_t mapping = 0;         ///< where the owner has the segment: peers that are threads of the same process use it directly
  uint64_t cookie_address = 0;  ///< where the cookie lies in the owner's memory, to try remote access on

  boot::Blob blob() const;
  static Result<Address> parse(const boot::Blob&);
};

uint64_t hash_of(std::string_view text);

/// Bytes of memory as people write them: "128 KiB".
std::string size_text(uint64_t bytes);

/// A mapped segment, own or a peer's. The own one is whole; of a peer's only head and directory are mapped, and the one ring.
class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  /// Makes the own segment. `folder`: a tmpfs to place it in, empty for anonymous memory.
  static Result<Segment> create(uint32_t capacity, uint32_t ring_bytes, const std::string& folder);
  /// Opens a peer's and verifies the cookie.
  static Result<Segment> attach(const Address&);

  SegmentHead& head() const { return *reinterpret_cast<SegmentHead*>(base_); }
  int fd() const { return file_.get(); }

  /// Claims a ring in a peer's segment, backs it with memory, and maps it. To be announced once the sender is ready.
  Result<std::byte*> claim_ring(uint32_t& number);
  void announce(uint32_t number, uint64_t job, uint32_t rank);
  /// Tells a peer, who may be waiting, of what is read of its memory by who sends on ring `number`.
  void announce_copy(uint32_t number);
  /// Ring `number` of the own segment.
  std::byte* ring(uint32_t number) const { return base_ + rings_offset() + size_t{number} * head().ring_bytes; }

 private:
  size_t rings_offset() const { return directory_bytes(head().capacity); }
  static size_t directory_bytes(uint32_t capacity);
  void unmap();

  Fd file_;
  std::byte* base_ = nullptr;
  size_t mapped_ = 0;
  std::byte* ring_ = nullptr;  ///< the claimed one, if mapped on its own
  size_t ring_bytes_ = 0;
  bool shared_mapping_ = false;  ///< counted in head().users: own, or borrowed from a rank in the same process
  bool borrowed_ = false;
};

}  // namespace weft::btl::shm
