// A transport between threads of one test, whose abilities can be set: limits, zero copy, get, disorder, a full wire.
#pragma once

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "btl/btl.h"

namespace weft::test {

/// A receiver's mind about reading (Endpoint::get_spares()), and what it has seen.
struct Reading {
  std::atomic<bool> spares = false;
  std::atomic<int> declines = 0;  ///< offers that it does not take up, though it wants more
  std::atomic<int> offers = 0, reads = 0;
  std::atomic<int> crossed = 0;  ///< messages to rank 1 that were on their way while it sent, too
};

/// What the pretended wire can do.
struct Abilities {
  uint32_t max_inline = 64;
  uint32_t max_buffered = 4096;
  bool zcopy = false;
  bool get = false;
  bool ordered = true;  ///< false: messages of one sender overtake each other
  size_t room = 64;     ///< messages a mailbox takes before senders hear `again`
  bool get_fails = false;
  bool lazy = false;  ///< zero-copy operations, reads and writes complete in a later poll
  /// Not null: while both send, it had better be written (Endpoint::put_spares()); how often that was done.
  std::atomic<int>* written = nullptr;
  Reading* reading = nullptr;  ///< not null: what is shorter than get_from may be read, too
};

struct Parcel {
  uint32_t from;
  btl::Header header;
  std::vector<std::byte> payload;
};

/// What the ranks of one test share.
struct Post {
  struct Box {
    std::mutex lock;
    std::deque<Parcel> parcels;
    bool dead = false;
  };
  explicit Post(uint32_t ranks, Abilities a) : abilities(a), boxes(ranks) {}
  Abilities abilities;
  std::vector<Box> boxes;
};

class ThreadTransport final : public btl::Transport {
 public:
  ThreadTransport(std::shared_ptr<Post> post, uint32_t rank) : post_(std::move(post)), rank_(rank), random_(rank + 1) {
    const Abilities& a = post_->abilities;
    caps_.name = "thread";
    caps_.max_inline = a.max_inline;
    caps_.max_buffered = a.max_buffered;
    caps_.zcopy = a.zcopy;
    caps_.get = a.get || a.written || a.reading;
    caps_.weighs = a.reading;
    caps_.put = a.written;
    if (a.written || a.reading) caps_.get_from = ~uint64_t{0};
    caps_.ordered = a.ordered;
    caps_.same_node = caps_.polls_memory = true;
  }
  const btl::Caps& caps() const override { return caps_; }
  boot::Blob address() const override { return {}; }
  bool reaches(ProcessId, const boot::Blob&) const override { return true; }
  Result<btl::Endpoint*> connect(ProcessId who, const boot::Blob&, void* cookie) override {
    cookies_[who.rank] = cookie;
    auto& slot = endpoints_[who.rank];
    if (!slot) slot = std::make_unique<End>(*this, who.rank);
    return slot.get();
  }
  int poll(btl::Sink& sink) override {
    finish_lazy();
    std::deque<Parcel> taken;
    {
      Post::Box& box = post_->boxes[rank_];
      std::lock_guard hold(box.lock);
      for (int i = 0; i < 16 && !box.parcels.empty(); ++i) {
        size_t pick = 0;
        if (!post_->abilities.ordered) pick = random_() % std::min<size_t>(box.parcels.size(), 8);
        taken.push_back(std::move(box.parcels[pick]));
        box.parcels.erase(box.parcels.begin() + static_cast<ptrdiff_t>(pick));
      }
    }
    for (Parcel& p : taken) {
      auto known = cookies_.find(p.from);
      void* cookie = known != cookies_.end() ? known->second : cookies_[p.from] = sink.meet({0, p.from});
      if (std::byte* at = sink.landing(cookie, p.header)) {
        if (!p.payload.empty()) memcpy(at, p.payload.data(), p.payload.size());
        sink.arrived(cookie, p.header, at);
      } else {
        const size_t half = p.payload.size() / 2;  // as if the rest were still to come
        if (half > 0 && random_() % 2 && sink.scatter(cookie, p.header, p.payload.data(), 0, static_cast<uint32_t>(half)))
          sink.scatter(cookie, p.header, p.payload.data() + half, static_cast<uint32_t>(half),
                       static_cast<uint32_t>(p.payload.size() - half));
        sink.arrived(cookie, p.header, p.payload.data());
      }
    }
    return static_cast<int>(taken.size());
  }
  bool arm() override {
    std::lock_guard hold(post_->boxes[rank_].lock);
    return post_->boxes[rank_].parcels.empty() && lazy_.empty();
  }

 private:
  class End final : public btl::Endpoint {
   public:
    End(ThreadTransport& t, uint32_t to) : transport_(t), to_(to) {}
    Status try_inline(const btl::Header& h, const void* payload) override {
      if (h.length > transport_.caps_.max_inline) abort();
      std::vector<std::byte> copy(h.length);
      if (h.length) memcpy(copy.data(), payload, h.length);
      return mail(h, std::move(copy));
    }
    Status send(const btl::Header& h, type::Cursor& cursor) override {
      if (h.length > transport_.caps_.max_buffered) abort();
      std::vector<std::byte> copy(h.length);
      type::Cursor ahead = cursor;
      if (ahead.pack(copy.data(), h.length) != h.length) abort();
      const Status status = mail(h, std::move(copy));
      if (status == Status::ok) cursor = ahead;
      return status;
    }
    Status send_zcopy(const btl::Header& h, std::span<const iovec> runs, btl::Operation& op) override {
      std::vector<std::byte> copy;
      for (const iovec& run : runs) {
        const auto* at = static_cast<const std::byte*>(run.iov_base);
        copy.insert(copy.end(), at, at + run.iov_len);
      }
      if (copy.size() != h.length) abort();
      const Status status = mail(h, std::move(copy));
      if (status == Status::ok) transport_.complete(op);
      return status;
    }
    Status get(const btl::Region& remote, uint64_t offset, std::span<const iovec> local, btl::Operation& op) override {
      if (transport_.post_->abilities.get_fails) return Status::failed;
      const auto* at = reinterpret_cast<const std::byte*>(remote.address + offset);
      for (const iovec& run : local) {
        memcpy(run.iov_base, at, run.iov_len);
        at += run.iov_len;
      }
      if (at > reinterpret_cast<const std::byte*>(remote.address + remote.length)) abort();
      if (Reading* const reading = transport_.post_->abilities.reading) ++reading->reads;
      transport_.complete(op);
      return Status::ok;
    }
    Status put(const btl::Region& remote, uint64_t offset, std::span<const iovec> local, btl::Operation& op) override {
      auto* at = reinterpret_cast<std::byte*>(remote.address + offset);
      for (const iovec& run : local) {
        if (at + run.iov_len > reinterpret_cast<std::byte*>(remote.address + remote.length)) abort();
        memcpy(at, run.iov_base, run.iov_len);
        at += run.iov_len;
      }
      ++*transport_.post_->abilities.written;
      transport_.complete(op);
      return Status::ok;
    }
    bool get_spares(uint64_t, btl::Flow flow, bool offered) override {
      Reading& reading = *transport_.post_->abilities.reading;
      reading.crossed += transport_.rank_ == 1 && flow >= btl::Flow::both_ways;
      reading.offers += offered;
      if (!offered || reading.declines == 0) return reading.spares;
      --reading.declines;
      return false;
    }
    bool put_spares() override { return transport_.post_->abilities.written; }
    std::string describe() const override { return "thread " + std::to_string(to_); }

   private:
    Status mail(const btl::Header& h, std::vector<std::byte> payload) {
      Post::Box& box = transport_.post_->boxes[to_];
      std::lock_guard hold(box.lock);
      if (box.dead) return Status::peer_failed;
      if (box.parcels.size() >= transport_.post_->abilities.room) return Status::again;
      box.parcels.push_back({transport_.rank_, h, std::move(payload)});
      return Status::ok;
    }
    ThreadTransport& transport_;
    uint32_t to_;
  };

  void complete(btl::Operation& op) {
    if (post_->abilities.lazy)
      lazy_.push_back(&op);
    else
      op.done(op, Status::ok);
  }
  void finish_lazy() {
    std::vector<btl::Operation*> now;
    now.swap(lazy_);
    for (btl::Operation* op : now) op->done(*op, Status::ok);
  }

  std::shared_ptr<Post> post_;
  uint32_t rank_;
  std::minstd_rand random_;
  btl::Caps caps_;
  std::map<uint32_t, std::unique_ptr<End>> endpoints_;
  std::map<uint32_t, void*> cookies_;
  std::vector<btl::Operation*> lazy_;
};

}  // namespace weft::test
