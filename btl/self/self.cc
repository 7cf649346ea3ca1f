// Messages to oneself: a ring in private memory, delivered by the next poll(). With several threads one may sleep while another sends.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "btl/list.h"
#include "btl/shm/ring.h"
#include "btl/shm/segment.h"

namespace weft::btl {
namespace {

using shm::Consumer;
using shm::Producer;

constexpr uint32_t kRingBytes = 128 << 10;
constexpr int kMessagesPerPoll = 64;

class SelfTransport final : public Transport, Endpoint {
 public:
  explicit SelfTransport(const boot::Job& job) : rank_(job.rank) {
    caps_.name = "self";
    caps_.max_inline = caps_.max_buffered = shm::Shape::of(kRingBytes).max_payload();
    caps_.get = caps_.put = true;
    caps_.same_node = caps_.polls_memory = caps_.light = true;
    caps_.alpha_ns = 30;  // estimates
    caps_.beta_ns_per_byte = 0.05;
  }

  // Transport
  const Caps& caps() const override { return caps_; }
  boot::Blob address() const override { return {}; }
  bool reaches(ProcessId who, const boot::Blob&) const override { return who == ProcessId{0, rank_}; }
  Result<Endpoint*> connect(ProcessId who, const boot::Blob&, void* cookie) override {
    if (who != ProcessId{0, rank_}) return Failure{"the transport `self` reaches this process only"};
    cookie_ = cookie;
    if (!ring_) {
      ring_ = std::make_unique<Line[]>(kRingBytes / sizeof(Line));
      producer_ = Producer(ring_[0].bytes, kRingBytes);
      consumer_ = std::make_unique<Consumer>(ring_[0].bytes, kRingBytes);
    }
    return static_cast<Endpoint*>(this);
  }
  int poll(Sink& sink) override {
    if (!consumer_) return 0;
    return consumer_->take(
        kMessagesPerPoll, [&](const Header& h, const std::byte* payload) { sink.arrived(cookie_, h, payload); },
        shm::Landing{sink, cookie_}, [] {});
  }
  int event_fd() const override { return bell_.get(); }
  bool arm() override {
    armed_ = !consumer_ || !consumer_->ready();
    return armed_;
  }
  void disarm() override {
    armed_ = false;
    uint64_t rings;
    if (rung_ && read(bell_.get(), &rings, sizeof rings) == sizeof rings) rung_ = false;
  }

  // Endpoint
  Status try_inline(const Header& h, const void* payload) override {
    return push(h, [&](std::byte* to, uint32_t from, uint32_t n) {
      if (n) std::memcpy(to, static_cast<const std::byte*>(payload) + from, n);
    });
  }
  Status send(const Header& h, type::Cursor& cursor) override {
    return push(h, [&](std::byte* to, uint32_t, uint32_t n) { cursor.pack(to, n); });
  }
  Status get(const Region& remote, uint64_t offset, std::span<const iovec> local, Operation& op) override {
    auto* at = reinterpret_cast<const std::byte*>(remote.address + offset);
    for (const iovec& run : local) {
      std::memmove(run.iov_base, at, run.iov_len);
      at += run.iov_len;
    }
    op.done(op, Status::ok);
    return Status::ok;
  }
  Status put(const Region& remote, uint64_t offset, std::span<const iovec> local, Operation& op) override {
    auto* at = reinterpret_cast<std::byte*>(remote.address + offset);
    for (const iovec& run : local) {
      std::memmove(at, run.iov_base, run.iov_len);
      at += run.iov_len;
    }
    op.done(op, Status::ok);
    return Status::ok;
  }
  bool receive_next(Next& next, void* to, int) override { return consumer_->take_next(next, to, 1, nullptr); }
  bool peek_next(Next& next, int) override { return consumer_->peek_next(next, 1); }
  size_t backlog() const override { return 0; }
  std::string describe() const override { return "self"; }

 private:
  struct alignas(2 * shm::kLine) Line {
    std::byte bytes[2 * shm::kLine];
  };
  template <class Write>
  Status push(const Header& h, Write&& write) {
    if (!producer_.push(h, false, false, write)) return Status::again;
    if (armed_) [[unlikely]]
      ring();
    return Status::ok;
  }
  [[gnu::cold, gnu::noinline]] void ring() {
    const uint64_t one = 1;
    armed_ = false;
    rung_ = write(bell_.get(), &one, sizeof one) == sizeof one;
  }

  uint32_t rank_;
  Caps caps_;
  void* cookie_ = nullptr;
  std::unique_ptr<Line[]> ring_;
  Producer producer_;
  std::unique_ptr<Consumer> consumer_;
  bool armed_ = false, rung_ = false;
  const shm::Fd bell_{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
};

}  // namespace

Result<std::unique_ptr<Transport>> open_self(const Site& site) {
  return std::unique_ptr<Transport>(std::make_unique<SelfTransport>(site.boot.job()));
}

}  // namespace weft::btl
