// Whatever messages a peer sends, in whatever order: a lane over wires of this file's own, amid sends and receives of all kinds.
#include <cstring>
#include <deque>
#include <map>

#include "pml/lane.h"
#include "runtime/boot/fake.h"
#include "runtime/type/predefined.h"
#include "test/fuzz/fuzz.h"

namespace weft::fuzz {
namespace {

using namespace weft::btl;
using pml::MessageKind;

constexpr const char* kWire = "fuzz";

/// What the peer has heard, and can be asked to misuse: ids of operations, and its memory.
struct Peer {
  std::vector<uint64_t> ids{0};
  std::vector<std::byte> memory = std::vector<std::byte>(1 << 16, std::byte{'m'});
  bool takes = true;  ///< its wires have room
  uint16_t next = 0;  ///< number of the matchable message that is due

  void hears(const Header& h, const void* payload) {
    if (ids.size() > 64) return;
    const auto remember = [&](size_t at) {
      uint64_t id;
      if (h.length < at + sizeof id) return;
      memcpy(&id, static_cast<const std::byte*>(payload) + at, sizeof id);
      ids.push_back(id);
    };
    switch (MessageKind(h.kind)) {
      case MessageKind::eager_sync:
      case MessageKind::announce:
      case MessageKind::clear: return remember(0);
      case MessageKind::resume:
      case MessageKind::acknowledge: ids.push_back(h.context); return;
      default: return;
    }
  }
};

/// A wire that checks what transports check, and says what it is told to.
class Wire final : public Transport {
 public:
  Wire(Peer& peer, uint8_t rail, bool several) : peer_(peer), end_(*this, rail) {
    caps_.name = kWire;
    caps_.device = "rail" + std::to_string(rail);
    caps_.max_inline = 256;
    caps_.max_buffered = 4096;
    caps_.zcopy = caps_.get = caps_.put = true;
    caps_.put_from = 16'000;
    caps_.revives = several;
  }
  const Caps& caps() const override { return caps_; }
  boot::Blob address() const override { return boot::Blob(4); }
  bool reaches(ProcessId who, const boot::Blob&) const override { return who.rank == 1; }
  Result<Endpoint*> connect(ProcessId, const boot::Blob&, void* cookie) override {
    cookie_ = cookie;
    cut_ = false;
    return &end_;
  }
  int poll(Sink& sink) override {
    finish(Status::ok);
    auto now = std::exchange(arriving_, {});
    for (auto& [header, payload] : now) {
      if (cut_) break;
      if (!cookie_) cookie_ = sink.meet({0, 1});
      std::byte* at = header.length ? sink.landing(cookie_, header) : nullptr;
      // of exactly this size, so that reading beyond it shows
      auto own = std::make_unique<std::byte[]>(header.length);
      const bool lands = at != nullptr;
      if (!lands) at = own.get();
      memcpy(at, payload.data(), header.length);
      const uint32_t half = header.length / 2;
      if (!lands && half > 0 && sink.scatter(cookie_, header, at, 0, half))
        sink.scatter(cookie_, header, at + half, half, header.length - half);
      sink.arrived(cookie_, header, at);
    }
    if (std::exchange(loses_, false) && cookie_ && !cut_) sink.lost(cookie_, "the wire was cut");
    return int(now.size());
  }
  void bring(Header header, std::string_view payload) {
    header.length = uint32_t(payload.size());
    arriving_.emplace_back(header, std::string(payload));
  }
  void lose() { loses_ = true; }

 private:
  class End final : public Endpoint {
   public:
    End(Wire& wire, uint8_t rail) : wire_(wire), rail_(rail) {}
    Status try_inline(const Header& h, const void* payload) override { return wire_.take(h, payload); }
    Status send(const Header& h, type::Cursor& cursor) override {
      if (!wire_.peer_.takes) return Status::again;
      std::vector<std::byte> packed(h.length);
      need(cursor.pack(packed.data(), h.length) == h.length, "less to send than was said");
      return wire_.take(h, packed.data());
    }
    Status send_zcopy(const Header& h, std::span<const iovec> runs, Operation& operation) override {
      if (!wire_.peer_.takes) return Status::again;
      uint64_t sum = 0, bytes = 0;
      for (const iovec& run : runs) {
        bytes += run.iov_len;
        if (run.iov_len) sum += static_cast<const uint8_t*>(run.iov_base)[0] + static_cast<const uint8_t*>(run.iov_base)[run.iov_len - 1];
      }
      need(bytes == h.length, "other bytes to send than was said");
      wire_.sum_ += sum;
      wire_.going_.push_back(&operation);
      return Status::ok;
    }
    Status get(const Region& remote, uint64_t offset, std::span<const iovec> local, Operation& operation) override {
      return reach(remote, offset, local, operation, [](std::byte* there, const iovec& run) { memcpy(run.iov_base, there, run.iov_len); });
    }
    Status put(const Region& remote, uint64_t offset, std::span<const iovec> local, Operation& operation) override {
      return reach(remote, offset, local, operation, [](std::byte* there, const iovec& run) { memcpy(there, run.iov_base, run.iov_len); });
    }
    void cut() override {
      wire_.cut_ = true;
      wire_.finish(Status::peer_failed);
    }
    uint8_t rail() const override { return rail_; }
    std::string describe() const override { return "fuzz"; }

   private:
    /// As a device that knows what the peer has shown it.
    template <class Move>
    Status reach(const Region& remote, uint64_t offset, std::span<const iovec> local, Operation& operation, Move move) {
      uint64_t bytes = 0;
      for (const iovec& run : local) bytes += run.iov_len;
      auto& memory = wire_.peer_.memory;
      if (remote.address > memory.size() || remote.length > memory.size() - remote.address || offset > remote.length ||
          bytes > remote.length - offset)
        return Status::failed;
      std::byte* there = memory.data() + remote.address + offset;
      for (const iovec& run : local) {
        move(there, run);
        there += run.iov_len;
      }
      wire_.going_.push_back(&operation);
      return Status::ok;
    }

    Wire& wire_;
    const uint8_t rail_;
  };

  Status take(const Header& h, const void* payload) {
    if (cut_) return Status::peer_failed;
    if (!peer_.takes) return Status::again;
    peer_.hears(h, payload);
    return Status::ok;
  }
  void finish(Status status) {
    for (Operation* operation : std::exchange(going_, {})) operation->done(*operation, status);
  }

  Peer& peer_;
  Caps caps_;
  End end_;
  void* cookie_ = nullptr;
  bool cut_ = false, loses_ = false;
  uint64_t sum_ = 0;
  std::deque<std::pair<Header, std::string>> arriving_;
  std::vector<Operation*> going_;
};

/// One process's side of a conversation, as an input tells it.
class Play {
 public:
  explicit Play(uint8_t rails) : fake_(boot::open_fake_job(2)) {
    std::vector<std::unique_ptr<Transport>> wires;
    for (uint8_t rail = 0; rail < rails; ++rail) {
      auto wire = std::make_unique<Wire>(peer_, rail, rails > 1);
      wires_.push_back(wire.get());
      wires.push_back(std::move(wire));
    }
    lane_ = std::move(*pml::Lane::open_over(*fake_.ranks[0], false, std::move(wires)));
    if (auto mine = fake_.ranks[0]->get({0, 0}, "btl")) (void)fake_.ranks[1]->put("btl", *mine);
    team_ = std::make_unique<pml::Team>(*lane_, 2, std::make_shared<const pml::Members>(pml::Members::range(0, 2)), 0);
  }
  ~Play() {
    fake_.job->kill(1);
    for (pml::Request* request : requests_) {
      lane_->cancel(*request);
      lane_->wait(*request);
      release(request);
    }
    team_.reset();
    lane_.reset();
  }
  void step(Script& script) {
    switch (script.number(1) % 16) {
      default: return speak(script);
      case 10: return receive(script);
      case 11: return send(script);
      case 12: wires_[script.number(1) % wires_.size()]->lose(); return;
      case 13: peer_.takes = script.number(1) & 1; return;
      case 14: lane_->progress(); return;
      case 15: return cancel(script);
    }
  }

 private:
  void cancel(Script& script) {
    const size_t which = script.number(1);
    if (!requests_.empty()) lane_->cancel(*requests_[which % requests_.size()]);
  }
  void speak(Script& script) {
    Header h;
    const uint64_t how = script.number(1);
    h.kind = uint8_t(script.number(1));
    h.flags = how & 1;
    const uint64_t about = script.number(1);
    switch ((how >> 1) & 3) {
      case 0: h.context = team_->context() | (about & 1); break;
      case 1: h.context = peer_.ids[about % peer_.ids.size()]; break;
      case 2: h.context = about; break;
      case 3: h.context = script.number(8); break;
    }
    h.tag = (how & 8) ? int32_t(script.number(4)) : int32_t(about % 3);
    h.source = (how & 16) ? int32_t(script.number(4)) : 1;
    if (h.kind >= uint8_t(MessageKind::hello) && !(how & 8)) h.tag = int32_t(pml::wire_name(kWire)), h.source = int32_t(how >> 5);
    h.sequence = (how & 32) ? uint16_t(script.number(2)) : peer_.next;
    if (pml::in_order(h.kind) && h.sequence == peer_.next) ++peer_.next;
    const size_t length = script.number(1) * ((how & 64) ? 37 : 1);
    wires_[(how >> 7) % wires_.size()]->bring(h, script.piece(length));
  }
  void receive(Script& script) {
    const int source = script.number(1) & 1 ? 1 : pml::any_source, tag = script.number(1) & 1 ? pml::any_tag : int(script.number(1) % 3);
    const size_t bytes = script.number(1) * 100;
    buffers_.emplace_back(bytes);
    requests_.push_back(
        lane_->ireceive(*team_, source, tag, pml::Traffic::user, {buffers_.back().data(), bytes, &type::of(type::Basic::byte)}));
    drop_shared();
  }
  void send(Script& script) {
    const auto mode = script.number(1) & 1 ? pml::Mode::synchronous : pml::Mode::standard;
    const size_t bytes = script.number(1) * 700;
    buffers_.emplace_back(bytes);
    requests_.push_back(
        lane_->isend(*team_, 1, 1, pml::Traffic::user, {buffers_.back().data(), bytes, &type::of(type::Basic::byte)}, mode));
    drop_shared();
  }
  /// Requests that were complete at once need no release.
  void drop_shared() {
    if (requests_.back()->predefined) requests_.pop_back();
  }

  Peer peer_;
  boot::Fake fake_;
  std::vector<Wire*> wires_;
  std::unique_ptr<pml::Lane> lane_;
  std::unique_ptr<pml::Team> team_;
  std::deque<std::vector<std::byte>> buffers_;
  std::vector<pml::Request*> requests_;
};

template <class T>
std::string spoken(MessageKind kind, uint8_t how, uint8_t about, const T& payload) {
  return std::string(1, '\0') + char(how) + char(kind) + char(about) + char(sizeof payload) + bytes_of(payload);
}
std::string spoken(MessageKind kind, uint8_t how, uint8_t about) {
  return std::string(1, '\0') + char(how) + char(kind) + char(about) + '\0';
}

const std::string progress(1, char(14));
const std::string cancel("\x0f\0", 2);  // the oldest request
std::string receives(uint8_t hundreds) { return std::string("\x0a\1\1", 3) + char(hundreds); }
std::string sends(bool synchronous, uint8_t size) { return std::string("\x0b") + char(synchronous) + char(size); }

pml::Exposure of_rails(uint8_t rails) { return {pml::wire_name(kWire), (1u << rails) - 1, 1, 0, 0}; }

/// Announcement of memory of the peer's, that can be reached over some rails.
std::string announced(uint64_t total, uint64_t region_bytes, uint8_t rails) {
  struct {
    pml::Announcement head;
    Region regions[2];
  } record{{77, total, of_rails(rails)}, {{0, region_bytes, {}}, {0, region_bytes, {}}}};
  return spoken(MessageKind::announce, 0, 0, record);
}

/// The peer lets its memory be written.
std::string cleared(uint64_t wanted, uint8_t rails) {
  struct {
    pml::ClearToSend head;
    Region regions[2];
  } record{{5, wanted, of_rails(rails)}, {{0, wanted, {}}, {0, wanted, {}}}};
  return spoken(MessageKind::clear, 2, 1, record);
}

std::vector<std::string> conversations() {
  const pml::ClearToSend clear{5, 70'000, {}};
  const std::string eager = spoken(MessageKind::eager, 0, 0, uint64_t{1}), sync = spoken(MessageKind::eager_sync, 0, 0, uint64_t{1});
  const std::string fragment = spoken(MessageKind::fragment, 2, 1, clear), finished = spoken(MessageKind::finished, 2, 1);
  const std::string counted = spoken(MessageKind::eager, 1, 0, uint64_t{1});
  return {
      receives(1) + eager + progress + eager + progress + receives(1) + progress,
      receives(1) + sync + progress + sync + progress + receives(2) + progress,
      receives(200) + announced(5000, 5000, 1) + progress + progress + progress,
      receives(250) + announced(25'000, 25'000, 2) + progress + spoken(MessageKind::written, 2, 1) + progress + progress,
      sends(true, 90) + progress + cleared(60'000, 2) + progress + progress + progress,
      sends(false, 90) + progress + cleared(60'000, 1) + progress + std::string("\x0c\0", 2) + progress + progress,
      receives(200) + spoken(MessageKind::announce, 0, 0, pml::Announcement{7, 16, {}}) + progress + fragment + progress,
      sync + progress + spoken(MessageKind::withdraw, 4, 1) + progress + receives(2) + progress,
      sends(true, 1) + progress + cancel + progress + spoken(MessageKind::withdrawn, 2, 1) + progress + sends(true, 1) + cancel + finished,
      sends(true, 1) + progress + finished + progress + sends(false, 100) + progress + spoken(MessageKind::clear, 2, 1, clear) + progress +
          progress,
      spoken(MessageKind::credit, 4, 100) + progress + sends(false, 0) + progress,
      counted + spoken(MessageKind::hello, 1, 0) + progress + spoken(MessageKind::ask, 0, 0) + progress +
          spoken(MessageKind::acknowledge, 4, 1) + progress,
      sends(false, 0) + progress + std::string("\x0c\0", 2) + progress + spoken(MessageKind::resume, 4, 1) + progress +
          spoken(MessageKind::resume, 0x84, 1) + progress,
      sends(false, 0) + progress + spoken(MessageKind::resume, 4, 0) + progress + spoken(MessageKind::goodbye, 1, 0) + progress,
      std::string("\x0d\0", 2) + sends(false, 1) + sends(true, 90) + progress + std::string("\x0d\1", 2) + progress + progress};
}

Target talk(const char* name, uint8_t rails) {
  return {name, conversations(),
          [rails](std::string_view in) {
            Play play(rails);
            Script script(in);
            for (int steps = 0; steps < 400 && !script.over(); ++steps) play.step(script);
          },
          5};
}

}  // namespace

void add_messages(Targets& all) {
  all.push_back(talk("pml/one-way", 1));
  all.push_back(talk("pml/rails", 2));
}

}  // namespace weft::fuzz
