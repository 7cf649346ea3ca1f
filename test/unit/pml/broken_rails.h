// Rails between threads of one test, which break when and how a test wants: seen by both sides or by one, for good or for a while.
#pragma once

#include <array>
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

/// The way between two ranks over one rail. Side 0 is the lower rank.
struct Line {
  std::mutex lock;
  bool alive = true;  ///< what one side sends reaches the other
  bool cable = true;  ///< false: no connection can be made
  struct Side {
    bool open = true;   ///< believes in its connection
    bool lost = false;  ///< is to be told
    int patience = 0;   ///< trying to connect; polls without cable until that is given up
    std::deque<std::pair<btl::Header, std::vector<std::byte>>> sent;
    std::vector<std::pair<std::byte*, std::vector<std::byte>>> late;  ///< writes into this side's memory that a broken line still holds

    /// The side gives its connection up. What was under way comes at the very last moment.
    void close() {
      for (const auto& [at, bytes] : std::exchange(late, {})) memcpy(at, bytes.data(), bytes.size());
      open = false;
    }
  };
  std::array<Side, 2> sides;

  /// The connection breaks. `unaware`: this side does not notice (-1: both do).
  void snap(int unaware) {
    alive = false;
    for (int s = 0; s < 2; ++s) {
      Side& side = sides[static_cast<size_t>(s)];
      side.sent.clear();
      if (s == unaware || !side.open) continue;
      side.close();
      side.lost = true;
    }
  }
  /// A side wants a new connection; it stands when both do.
  void connect(size_t side) {
    Side& me = sides[side];
    Side& other = sides[1 - side];
    if (me.open) return;
    me.open = true;
    me.lost = false;
    me.patience = 2000;
    me.sent.clear();
    if (!alive && other.open && other.patience == 0) {  // it still believed in the old one
      other.close();
      other.lost = true;
      other.sent.clear();
    }
    meet();
  }
  /// Both sides want a connection, and there is a cable.
  void meet() {
    if (alive || !cable || !sides[0].open || !sides[1].open) return;
    alive = true;
    sides[0].patience = sides[1].patience = 0;
  }
};

/// All lines of a job.
struct Yard {
  Yard(uint32_t r, uint32_t n) : ranks(r), rails(n), lines(size_t{r} * r * n), loads(n) {
    for (auto& line : lines) line = std::make_unique<Line>();
  }
  uint32_t ranks, rails;
  std::vector<std::unique_ptr<Line>> lines;
  std::atomic<double> snap = 0;  ///< chance for each message that it is the line's last
  bool zcopy = true;
  bool get = false;  ///< memory can be read and written over the rails
  uint64_t put_from = ~uint64_t{0};
  uint32_t seed = 1;
  int at_once = 8;                 ///< messages that a poll takes from a line, at most
  std::vector<uint32_t> near;      ///< by rank: the rail that hangs on its CPUs; empty: all do
  std::vector<double> prices;      ///< by rail: ns a byte takes as both ends know it; empty: what this end knows
  std::vector<const char*> names;  ///< by rail: its kind of wire; empty: all are of one
  std::vector<double> alphas;      ///< by rail: ns that a small message takes; empty: none
  struct Load {
    std::atomic<uint64_t> messages{0}, bytes{0};
  };
  std::vector<Load> loads;  ///< by rail: what has payload, and what is read or written

  Line& line(uint32_t a, uint32_t b, uint32_t rail) { return *lines[(size_t{std::min(a, b)} * ranks + std::max(a, b)) * rails + rail]; }
  /// No connection over this rail any more.
  void pull(uint32_t rail) {
    for (size_t i = rail; i < lines.size(); i += rails) {
      std::lock_guard hold(lines[i]->lock);
      lines[i]->cable = false;
      lines[i]->snap(-1);
    }
  }
  void plug(uint32_t rail) {
    for (size_t i = rail; i < lines.size(); i += rails) {
      std::lock_guard hold(lines[i]->lock);
      lines[i]->cable = true;
      lines[i]->meet();
    }
  }
};

class BrokenRail final : public btl::Transport {
 public:
  BrokenRail(std::shared_ptr<Yard> yard, uint32_t rank, uint32_t rail)
      : yard_(std::move(yard)), rank_(rank), rail_(rail), random_(yard_->seed + rank * 16 + rail) {
    caps_.name = yard_->names.empty() ? "broken" : yard_->names[rail];
    if (!yard_->alphas.empty()) caps_.alpha_ns = yard_->alphas[rail];
    caps_.device = "rail" + std::to_string(rail);
    caps_.max_inline = 256;
    caps_.max_buffered = 16384;
    caps_.zcopy = yard_->zcopy;
    caps_.get = caps_.put = yard_->get;
    caps_.put_from = yard_->put_from;
    caps_.beta_ns_per_byte = rail == 0 ? 1 : 2;
    caps_.revives = true;
    caps_.near = yard_->near.empty() || yard_->near[rank] == rail;
  }
  const btl::Caps& caps() const override { return caps_; }
  boot::Blob address() const override { return {}; }
  bool reaches(ProcessId who, const boot::Blob&) const override { return who.rank != rank_; }
  btl::Price price(ProcessId, const boot::Blob&) const override {
    return {caps_.alpha_ns, yard_->prices.empty() ? caps_.beta_ns_per_byte : yard_->prices[rail_]};
  }
  Result<btl::Endpoint*> connect(ProcessId who, const boot::Blob&, void* cookie) override {
    cookies_[who.rank] = cookie;
    auto& slot = ends_[who.rank];
    if (!slot) slot = std::make_unique<End>(*this, who.rank);
    Line& line = this->line(who.rank);
    std::lock_guard hold(line.lock);
    line.connect(side(who.rank));
    return slot.get();
  }
  int poll(btl::Sink& sink) override {
    int events = 0;
    for (uint32_t peer = 0; peer < yard_->ranks; ++peer)
      if (peer != rank_) events += poll_line(sink, peer);
    return events;
  }

 private:
  class End final : public btl::Endpoint {
   public:
    End(BrokenRail& rail, uint32_t to) : rail_(rail), to_(to) {}
    Status try_inline(const btl::Header& h, const void* payload) override {
      if (h.length > rail_.caps_.max_inline) abort();
      const auto* at = static_cast<const std::byte*>(payload);
      return put(h, std::vector<std::byte>(at, at + h.length));
    }
    Status send(const btl::Header& h, type::Cursor& cursor) override {
      if (h.length > rail_.caps_.max_buffered) abort();
      std::vector<std::byte> copy(h.length);
      type::Cursor ahead = cursor;
      ahead.pack(copy.data(), h.length);
      const Status status = put(h, std::move(copy));
      if (status == Status::ok) cursor = ahead;
      return status;
    }
    Status send_zcopy(const btl::Header& h, std::span<const iovec> runs, btl::Operation& op) override {
      std::vector<std::byte> copy;
      for (const iovec& run : runs) {
        const auto* at = static_cast<const std::byte*>(run.iov_base);
        copy.insert(copy.end(), at, at + run.iov_len);
      }
      const Status status = put(h, std::move(copy));
      if (status == Status::ok) op.done(op, Status::ok);
      return status;
    }
    Status get(const btl::Region& remote, uint64_t offset, std::span<const iovec> local, btl::Operation& op) override {
      return reach(false, remote, offset, local, op);
    }
    Status put(const btl::Region& remote, uint64_t offset, std::span<const iovec> local, btl::Operation& op) override {
      return reach(true, remote, offset, local, op);
    }
    void cut() override {
      close();
      abandon();
    }
    /// One read or write takes place, if the line is whole.
    void work() {
      if (reaches_.empty()) return;
      Line& line = rail_.line(to_);
      const Reach next = reaches_.front();
      {
        std::lock_guard hold(line.lock);
        if (!line.alive || !line.sides[rail_.side(to_)].open) return;
        const bool breaks = rail_.breaks();
        if (!breaks || rail_.random_() % 2) next.copy();                        // a write may be done though nobody says so
        if (breaks && next.write) next.delay(line.sides[1 - rail_.side(to_)]);  // or be done later
        if (breaks) line.snap(static_cast<int>(rail_.random_() % 3) - 1);
        if (breaks) return;
      }
      reaches_.pop_front();
      for (const iovec& run : next.local) rail_.yard_->loads[rail_.rail_].bytes += run.iov_len;
      next.operation->done(*next.operation, Status::ok);
    }
    /// All of them end without.
    void abandon() {
      for (const Reach& each : std::exchange(reaches_, {})) each.operation->done(*each.operation, Status::peer_failed);
    }
    uint8_t rail() const override { return static_cast<uint8_t>(rail_.rail_); }
    std::string describe() const override { return "broken"; }

   private:
    struct Reach {
      bool write;
      std::byte* remote;
      std::vector<iovec> local;
      btl::Operation* operation;
      void copy() const {
        std::byte* at = remote;
        for (const iovec& run : local) {
          memcpy(write ? at : run.iov_base, write ? run.iov_base : at, run.iov_len);
          at += run.iov_len;
        }
      }
      void delay(Line::Side& target) const {
        std::vector<std::byte> bytes;
        for (const iovec& run : local) {
          const auto* at = static_cast<const std::byte*>(run.iov_base);
          bytes.insert(bytes.end(), at, at + run.iov_len);
        }
        target.late.emplace_back(remote, std::move(bytes));
      }
    };
    Status reach(bool write, const btl::Region& remote, uint64_t offset, std::span<const iovec> local, btl::Operation& op) {
      Line& line = rail_.line(to_);
      std::lock_guard hold(line.lock);
      if (!line.sides[rail_.side(to_)].open) return Status::peer_failed;
      if (reaches_.size() >= 4) return Status::again;
      uint64_t bytes = 0;
      for (const iovec& run : local) bytes += run.iov_len;
      if (offset > remote.length || bytes > remote.length - offset) abort();
      reaches_.push_back({write, reinterpret_cast<std::byte*>(remote.address) + offset, {local.begin(), local.end()}, &op});
      return Status::ok;
    }
    void close() {
      Line& line = rail_.line(to_);
      std::lock_guard hold(line.lock);
      Line::Side& me = line.sides[rail_.side(to_)];
      me.lost = false;
      if (!me.open) return;
      me.close();
      if (line.alive) line.snap(-1);
      me.sent.clear();
    }
    Status put(const btl::Header& h, std::vector<std::byte> payload) {
      Line& line = rail_.line(to_);
      std::lock_guard hold(line.lock);
      Line::Side& me = line.sides[rail_.side(to_)];
      if (!me.open) return Status::peer_failed;
      if (me.sent.size() >= 64) return Status::again;
      rail_.yard_->loads[rail_.rail_].messages += h.length > 0;
      rail_.yard_->loads[rail_.rail_].bytes += h.length;
      if (line.alive || me.patience > 0) me.sent.emplace_back(h, std::move(payload));
      return Status::ok;  // or into the void
    }
    BrokenRail& rail_;
    uint32_t to_;
    std::deque<Reach> reaches_;
  };

  bool breaks() { return yard_->snap > 0 && std::uniform_real_distribution<>()(random_) < yard_->snap; }
  Line& line(uint32_t peer) { return yard_->line(rank_, peer, rail_); }
  size_t side(uint32_t peer) const { return rank_ < peer ? 0 : 1; }

  int poll_line(btl::Sink& sink, uint32_t peer) {
    Line& line = this->line(peer);
    std::deque<std::pair<btl::Header, std::vector<std::byte>>> taken;
    bool lost = false;
    {
      std::lock_guard hold(line.lock);
      Line::Side& me = line.sides[side(peer)];
      if (me.patience > 0 && !line.cable && --me.patience == 0 && me.open) {
        me.close();
        me.lost = true;
        me.sent.clear();
      }
      lost = std::exchange(me.lost, false);
      auto& from = line.sides[1 - side(peer)].sent;
      for (int i = 0; line.alive && i < yard_->at_once && !from.empty(); ++i) {
        if (breaks()) {
          line.snap(static_cast<int>(random_() % 3) - 1);
          break;
        }
        taken.push_back(std::move(from.front()));
        from.pop_front();
      }
    }
    if (const auto end = ends_.find(peer); end != ends_.end()) {
      if (lost) end->second->abandon();
      if (!lost) end->second->work();
    }
    auto known = cookies_.find(peer);
    if ((lost || !taken.empty()) && known == cookies_.end()) known = cookies_.emplace(peer, sink.meet({0, peer})).first;
    if (lost) sink.lost(known->second, "it was broken");
    for (auto& [header, payload] : taken) {
      std::byte* at = sink.landing(known->second, header);
      if (at && !payload.empty()) memcpy(at, payload.data(), payload.size());
      sink.arrived(known->second, header, at ? at : payload.data());
    }
    return static_cast<int>(taken.size()) + lost;
  }

  std::shared_ptr<Yard> yard_;
  uint32_t rank_, rail_;
  std::minstd_rand random_;
  btl::Caps caps_;
  std::map<uint32_t, std::unique_ptr<End>> ends_;
  std::map<uint32_t, void*> cookies_;
};

}  // namespace weft::test
