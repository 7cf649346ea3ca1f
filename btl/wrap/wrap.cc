// A transport around another one, which delays, refuses and loses by plan.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "btl/btl.h"
#include "btl/wrap/plan.h"
#include "runtime/base/clock.h"
#include "runtime/type/predefined.h"

namespace weft::btl {
namespace wrapping {
namespace {

constexpr size_t kHeldBytes = 1 << 20;        // per peer, then `again`
constexpr uint64_t kReorderHold = 1'000'000;  // ns at most that a reordered message waits

class Wrapper;

/// A message that waits for its time.
struct Held {
  uint64_t due;
  Header header;
  std::vector<std::byte> payload;
  std::vector<iovec> user;  // of a zero-copy send
  Operation* op = nullptr;  // not null: a zero-copy send
};

class WrappedEndpoint final : public Endpoint {
 public:
  WrappedEndpoint(Wrapper& owner, ProcessId who) : owner_(owner), who_(who) {}

  Status try_inline(const Header&, const void* payload) override;
  Status send(const Header&, type::Cursor&) override;
  Status send_zcopy(const Header&, std::span<const iovec>, Operation&) override;
  Status get(const Region& region, uint64_t offset, std::span<const iovec> local, Operation& op) override;
  Status put(const Region& region, uint64_t offset, std::span<const iovec> local, Operation& op) override;
  Status atomic(const Region& region, uint64_t offset, const Atomic& what, uint64_t* before, Operation& op) override;
  bool can_get() const override { return inner_->can_get(); }
  bool get_spares(uint64_t bytes, Flow flow, bool offered) override { return inner_->get_spares(bytes, flow, offered); }
  bool put_spares() override { return inner_->put_spares(); }
  void recall() override { inner_->recall(); }
  uint32_t recalls() const override { return inner_->recalls(); }
  uint32_t peer_recalls() const override { return inner_->peer_recalls(); }
  bool can_put() const override { return inner_->can_put(); }
  size_t backlog() const override { return held_bytes_ + (failed_ ? 0 : inner_->backlog()); }
  std::string describe() const override { return inner_->describe() + " (faults injected)"; }

 private:
  friend class Wrapper;
  Status admit();
  void hold(const Header& header, std::vector<std::byte> payload, std::span<const iovec> user, Operation* op);
  size_t release(uint64_t now);
  Status pass_on(Held& message);
  void drop_held();

  Wrapper& owner_;
  ProcessId who_;
  Endpoint* inner_ = nullptr;
  void* cookie_ = nullptr;
  std::deque<Held> held_;
  size_t held_bytes_ = 0;
  uint32_t refuse_ = 0;  // so many calls more are told `again`
  bool failed_ = false, told_ = false;
};

class Wrapper final : public Transport, private Sink {
 public:
  Wrapper(std::unique_ptr<Transport> inner, Plan plan) : inner_(std::move(inner)), plan_(plan), random_(plan.seed) {}

  const Caps& caps() const override { return inner_->caps(); }
  boot::Blob address() const override { return inner_->address(); }
  bool reaches(ProcessId who, const boot::Blob& address) const override { return inner_->reaches(who, address); }
  Price price(ProcessId who, const boot::Blob& address) const override { return inner_->price(who, address); }
  Result<Endpoint*> connect(ProcessId who, const boot::Blob& address, void* cookie) override;
  Region expose(void* address, size_t length) override { return inner_->expose(address, length); }
  void conceal(const Region& region) override { inner_->conceal(region); }
  int poll(Sink&) override;
  int event_fd() const override { return inner_->event_fd(); }
  bool arm() override { return held_ == 0 && mourned_ == 0 && inner_->arm(); }
  void disarm() override { inner_->disarm(); }
  bool drain() override;

 private:
  friend class WrappedEndpoint;

  // what the inner transport tells, on its way up
  void* meet(ProcessId from) override { return outer_->meet(from); }
  void arrived(void* cookie, const Header& header, const std::byte* payload) override {
    if (!failed(cookie)) outer_->arrived(cookie, header, payload);
  }
  std::byte* landing(void* cookie, const Header& header) override {
    // memory given away cannot be taken back when the way fails in between
    return plan_.fail_after > 0 ? nullptr : outer_->landing(cookie, header);
  }
  bool scatter(void* cookie, const Header& header, const std::byte* bytes, uint32_t from, uint32_t count) override {
    return plan_.fail_after == 0 && outer_->scatter(cookie, header, bytes, from, count);
  }
  void lost(void* cookie, const std::string& why) override;

  bool failed(void* cookie) const {
    const auto at = by_cookie_.find(cookie);
    return at != by_cookie_.end() && at->second->failed_;
  }
  double chance() { return std::uniform_real_distribution<>(0, 1)(random_); }
  bool hit(double probability) { return probability > 0 && chance() < probability; }
  uint64_t delay();
  /// Counts a message; true if it is the one after which the way is lost.
  bool last_straw(ProcessId who);

  std::unique_ptr<Transport> inner_;
  const Plan plan_;
  std::mt19937_64 random_;
  Sink* outer_ = nullptr;  // during poll()
  std::unordered_map<ProcessId, std::unique_ptr<WrappedEndpoint>> endpoints_;
  std::unordered_map<void*, WrappedEndpoint*> by_cookie_;
  uint64_t messages_ = 0;
  size_t held_ = 0, mourned_ = 0;  // messages held; ways lost and not yet told
};

// ---- sending

Status WrappedEndpoint::admit() {
  if (failed_) return Status::peer_failed;
  if (refuse_ == 0 && owner_.hit(owner_.plan_.again)) refuse_ = owner_.plan_.again_run;
  if (refuse_ > 0) return --refuse_, Status::again;
  if (held_bytes_ >= kHeldBytes) return Status::again;
  if (owner_.last_straw(who_)) {
    failed_ = true;
    ++owner_.mourned_;
    return Status::peer_failed;
  }
  return Status::ok;
}

/// Keeps a message for later; never one that could overtake an earlier one to the same peer.
void WrappedEndpoint::hold(const Header& header, std::vector<std::byte> payload, std::span<const iovec> user, Operation* op) {
  const uint64_t due = std::max(now_ns() + owner_.delay(), held_.empty() ? 0 : held_.back().due);
  held_bytes_ += sizeof header + payload.size();
  held_.push_back({due, header, std::move(payload), {user.begin(), user.end()}, op});
  ++owner_.held_;
}

Status WrappedEndpoint::try_inline(const Header& header, const void* payload) {
  if (const Status status = admit(); status != Status::ok) return status;
  if (!owner_.plan_.holds()) return inner_->try_inline(header, payload);
  const auto* bytes = static_cast<const std::byte*>(payload);
  hold(header, {bytes, bytes + header.length}, {}, nullptr);
  return Status::ok;
}

Status WrappedEndpoint::send(const Header& header, type::Cursor& cursor) {
  if (const Status status = admit(); status != Status::ok) return status;
  if (!owner_.plan_.holds()) return inner_->send(header, cursor);
  std::vector<std::byte> payload(header.length);
  cursor.pack(payload.data(), payload.size());
  hold(header, std::move(payload), {}, nullptr);
  return Status::ok;
}

Status WrappedEndpoint::send_zcopy(const Header& header, std::span<const iovec> user, Operation& op) {
  if (const Status status = admit(); status != Status::ok) return status;
  if (!owner_.plan_.holds()) return inner_->send_zcopy(header, user, op);
  hold(header, {}, user, &op);
  return Status::ok;
}

Status WrappedEndpoint::get(const Region& region, uint64_t offset, std::span<const iovec> local, Operation& op) {
  if (const Status status = admit(); status != Status::ok) return status;
  if (!owner_.hit(owner_.plan_.drop)) return inner_->get(region, offset, local, op);
  op.done(op, Status::again);
  return Status::ok;
}

Status WrappedEndpoint::put(const Region& region, uint64_t offset, std::span<const iovec> local, Operation& op) {
  if (const Status status = admit(); status != Status::ok) return status;
  if (!owner_.hit(owner_.plan_.drop)) return inner_->put(region, offset, local, op);
  op.done(op, Status::again);
  return Status::ok;
}

/// Never dropped: whoever repeats an addition does it twice.
Status WrappedEndpoint::atomic(const Region& region, uint64_t offset, const Atomic& what, uint64_t* before, Operation& op) {
  if (const Status status = admit(); status != Status::ok) return status;
  return inner_->atomic(region, offset, what, before, op);
}

Status WrappedEndpoint::pass_on(Held& message) {
  if (message.op) return inner_->send_zcopy(message.header, message.user, *message.op);
  if (message.header.length <= owner_.caps().max_inline) return inner_->try_inline(message.header, message.payload.data());
  type::Cursor cursor(message.payload.data(), message.payload.size(), type::of(type::Basic::byte));
  return inner_->send(message.header, cursor);
}

/// Passes on what is due; returns how many messages that were.
size_t WrappedEndpoint::release(uint64_t now) {
  size_t count = 0;
  while (!failed_ && !held_.empty() && held_.front().due <= now) {
    const Status status = pass_on(held_.front());
    if (status == Status::again) break;
    if (status != Status::ok) break;  // the inner transport reports the loss, then drop_held()
    held_bytes_ -= sizeof(Header) + held_.front().payload.size();
    held_.pop_front();
    --owner_.held_;
    ++count;
  }
  return count;
}

void WrappedEndpoint::drop_held() {
  owner_.held_ -= held_.size();
  const std::deque<Held> gone = std::exchange(held_, {});
  held_bytes_ = 0;
  for (const Held& message : gone)
    if (message.op) message.op->done(*message.op, Status::peer_failed);
}

// ---- the transport

Result<Endpoint*> Wrapper::connect(ProcessId who, const boot::Blob& address, void* cookie) {
  auto inner = inner_->connect(who, address, cookie);
  if (!inner) return inner.failure();
  auto& slot = endpoints_[who];
  if (!slot) slot = std::make_unique<WrappedEndpoint>(*this, who);
  by_cookie_.erase(slot->cookie_);
  by_cookie_[cookie] = slot.get();
  slot->cookie_ = cookie;
  slot->inner_ = *inner;
  return slot.get();
}

uint64_t Wrapper::delay() {
  uint64_t wait = std::uniform_int_distribution<uint64_t>(plan_.delay_least_ns, plan_.delay_most_ns)(random_);
  if (hit(plan_.reorder)) wait += uint64_t(chance() * double(kReorderHold));
  return wait;
}

bool Wrapper::last_straw(ProcessId who) {
  if (plan_.fail_after == 0 || (plan_.fail_peer >= 0 && uint64_t(plan_.fail_peer) != rank_of(who.rank))) return false;
  return ++messages_ == plan_.fail_after;
}

void Wrapper::lost(void* cookie, const std::string& why) {
  if (const auto at = by_cookie_.find(cookie); at != by_cookie_.end()) {
    if (std::exchange(at->second->failed_, true)) return;  // lost by plan already, and told or about to be
    at->second->told_ = true;
    at->second->drop_held();
  }
  outer_->lost(cookie, why);
}

int Wrapper::poll(Sink& sink) {
  outer_ = &sink;
  int events = inner_->poll(*this);
  if (held_ > 0) {
    const uint64_t now = now_ns();
    std::vector<WrappedEndpoint*> waiting;  // completions may connect to more peers meanwhile
    for (auto& [who, endpoint] : endpoints_)
      if (!endpoint->held_.empty()) waiting.push_back(endpoint.get());
    for (WrappedEndpoint* endpoint : waiting) events += int(endpoint->release(now));
  }
  if (mourned_ > 0) {
    std::vector<WrappedEndpoint*> list;
    for (auto& [who, endpoint] : endpoints_)
      if (endpoint->failed_ && !std::exchange(endpoint->told_, true)) list.push_back(endpoint.get());
    mourned_ = 0;
    for (WrappedEndpoint* endpoint : list) {
      endpoint->drop_held();
      sink.lost(endpoint->cookie_, text_of(endpoint->who_) + " is lost over " + endpoint->describe() +
                                       ": fail_after=" + std::to_string(plan_.fail_after) + " of the fault plan; remove it from WEFT_WRAP");
      ++events;
    }
  }
  outer_ = nullptr;
  return events;
}

bool Wrapper::drain() {
  if (held_ > 0 || mourned_ > 0) return false;
  return inner_->drain();
}

}  // namespace
}  // namespace wrapping

Result<std::unique_ptr<Transport>> wrap(std::unique_ptr<Transport> inner, std::string_view plan) {
  auto parsed = wrapping::parse_plan(plan);
  if (!parsed) return parsed.failure();
  return std::unique_ptr<Transport>(std::make_unique<wrapping::Wrapper>(std::move(inner), *parsed));
}

}  // namespace weft::btl
