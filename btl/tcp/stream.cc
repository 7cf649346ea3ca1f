#include "btl/tcp/stream.h"

#include <algorithm>
#include <cstring>

namespace weft::btl::tcp {
namespace {

constexpr size_t kHeadBytes = 512;          // pieces between those that are referred to
constexpr size_t kHeads = 2048;             // bytes read where a large message is expected to begin
constexpr size_t kBounceStep = 256 * 1024;  // a bounce buffer starts with this
constexpr int kFewBetween = 2;              // smaller messages that may come between large ones: credits, answers

}  // namespace

Head::Head(const Header& header, const void* payload) : size_(sizeof header) {
  constexpr size_t page = 4096, near = 64;
  if (header.length >= kPaddedFrom) {
    const size_t place = reinterpret_cast<uintptr_t>(payload) % page;
    const auto unlucky = [&](size_t at) { return (at - place + near) % page < 2 * near; };
    size_ = unlucky(kMostPadding / 2) ? kMostPadding : kMostPadding / 2;
    const Header padding = padding_of(size_ - 2 * sizeof header);
    memcpy(bytes_, &padding, sizeof padding);
    memset(bytes_ + sizeof padding, 0, padding.length);
  }
  memcpy(bytes_ + size_ - sizeof header, &header, sizeof header);
}

std::byte* Outbox::extend(size_t n, size_t least) {
  bytes_ += n;
  copied_ += n;
  if (!pieces_.empty() && pieces_.back().memory && !pieces_.back().op && pieces_.back().room >= n) {
    Piece& last = pieces_.back();
    std::byte* at = last.at + last.length;
    last.length += n;
    last.room -= n;
    return at;
  }
  const size_t size = std::max(n, least);
  auto memory = size == kPieceBytes && spare_ ? std::move(spare_) : std::make_unique_for_overwrite<std::byte[]>(size);
  std::byte* at = memory.get();
  pieces_.push_back({at, n, std::move(memory), size - n});
  return at;
}

void Outbox::add(const void* data, size_t n) {
  if (n > 0) memcpy(extend(n), data, n);
}

void Outbox::head(const void* data, size_t n) { memcpy(extend(n, kHeadBytes), data, n); }

void Outbox::refer(const void* data, size_t n, Operation* op) {
  bytes_ += n;
  pieces_.push_back({static_cast<std::byte*>(const_cast<void*>(data)), n, nullptr, 0, op});
}

size_t Outbox::runs(std::span<iovec> out) const {
  size_t count = 0;
  for (auto piece = pieces_.begin(); piece != pieces_.end() && count < out.size(); ++piece)
    if (piece->length > 0) out[count++] = {piece->at, piece->length};
  return count;
}

void Outbox::taken(size_t n) {
  bytes_ -= n;
  std::vector<Operation*> ended;
  while (!pieces_.empty() && pieces_.front().length <= n) {
    Piece& front = pieces_.front();
    n -= front.length;
    if (front.memory) copied_ -= front.length;
    if (front.op) ended.push_back(front.op);
    if (front.memory && front.at + front.length + front.room == front.memory.get() + kPieceBytes) spare_ = std::move(front.memory);
    pieces_.pop_front();
  }
  if (n > 0) {
    Piece& front = pieces_.front();
    front.at += n;
    front.length -= n;
    if (front.memory) copied_ -= n;
  }
  for (Operation* op : ended) op->done(*op, Status::ok);
}

void Outbox::abandon(Status status) {
  const std::deque<Piece> gone = std::exchange(pieces_, {});
  bytes_ = copied_ = 0;
  for (const Piece& piece : gone)
    if (piece.op) piece.op->done(*piece.op, status);
}

int Inbox::places(std::span<std::byte> scratch, iovec out[2], Sink& sink, void* cookie) {
  if (under_way_ && landing_ && !sink.landing(cookie, header_)) skip_payload();
  // after a large message another one is likely: little more than its header, so that its payload goes straight where it belongs
  const iovec rest{scratch.data(), large_ahead_ > 0 ? std::min(scratch.size(), kHeads) : scratch.size()};
  const size_t room = open_room();
  if (room == 0) return out[0] = rest, 1;
  out[0] = {(landing_ ? landing_ : bounce_.get()) + got_, room};
  out[1] = rest;
  // a bounce buffer that is not yet as long as the message must be full before anything may go behind it
  return got_ + room == header_.length ? 2 : 1;
}

size_t Inbox::open_room() const {
  if (!under_way_) return 0;
  return (landing_ ? header_.length : bounce_size_) - got_;
}

/// Nobody waits any more for what is still to come.
void Inbox::skip_payload() {
  skipped_ = header_.length - got_;
  under_way_ = false;
  head_have_ = 0;
}

/// Makes room for `least` bytes of the payload at least.
void Inbox::grow(size_t least) {
  bounce_size_ = std::min<size_t>(header_.length, std::max({kBounceStep, size_t{got_} * 2, least}));
  const auto old = std::exchange(bounce_, std::make_unique_for_overwrite<std::byte[]>(bounce_size_));
  if (got_ > 0) memcpy(bounce_.get(), old.get(), got_);
}

void Inbox::begin_payload(Sink& sink, void* cookie, size_t here) {
  under_way_ = true;
  got_ = 0;
  landing_ = header_.length >= kLandingFrom ? sink.landing(cookie, header_) : nullptr;
  if (!landing_) grow(here);
}

void Inbox::finish_payload(Sink& sink, void* cookie, Taken& taken) {
  under_way_ = false;
  head_have_ = 0;
  ++taken.messages;
  const auto bounce = std::move(bounce_);
  bounce_size_ = 0;
  sink.arrived(cookie, header_, landing_ ? landing_ : bounce.get());
}

const char* Inbox::check(Taken& taken) const {
  if (closed_) return "it sent something after taking its leave";
  if (header_.context == kControl) {
    const bool leaves = header_.kind == bye().kind && header_.length == 0;
    const bool pads = header_.kind == padding_of(0).kind && header_.length <= kMostPadding;
    if (!leaves && !pads) return "it sent a control message that does not exist";
    taken.bye = leaves;
  }
  if (header_.length > kMaxPayload) return "it announced a message longer than allowed";
  return nullptr;
}

Inbox::Taken Inbox::take(size_t n, std::span<const std::byte> scratch, Sink& sink, void* cookie) {
  Taken taken;
  if (const size_t direct = std::min(n, open_room()); direct > 0) {
    got_ += uint32_t(direct);
    n -= direct;
    if (got_ == header_.length)
      finish_payload(sink, cookie, taken);
    else if (open_room() == 0)
      grow(0);
  }
  take_scratch(scratch.first(n), sink, cookie, taken);
  return taken;
}

void Inbox::take_scratch(std::span<const std::byte> bytes, Sink& sink, void* cookie, Taken& taken) {
  while (!bytes.empty()) {
    if (skipped_ > 0) {
      const size_t here = std::min<size_t>(bytes.size(), skipped_);
      skipped_ -= uint32_t(here);
      bytes = bytes.subspan(here);
      continue;
    }
    const size_t part = std::min(bytes.size(), sizeof header_ - head_have_);
    memcpy(reinterpret_cast<std::byte*>(&header_) + head_have_, bytes.data(), part);
    head_have_ += part;
    bytes = bytes.subspan(part);
    if (head_have_ < sizeof header_) return;
    if ((taken.broken = check(taken))) return;
    if (header_.context == kControl) {
      closed_ = taken.bye;
      skipped_ = header_.length;
      head_have_ = 0;
      continue;
    }
    large_ahead_ = header_.length >= kLarge ? kFewBetween + 1 : std::max(0, large_ahead_ - 1);
    bulky_ = header_.length >= kPaddedFrom;
    if (bytes.size() >= header_.length) {
      const std::byte* payload = bytes.data();
      bytes = bytes.subspan(header_.length);
      head_have_ = 0;
      ++taken.messages;
      sink.arrived(cookie, header_, payload);
      continue;
    }
    const size_t here = bytes.size();
    begin_payload(sink, cookie, here);
    memcpy((landing_ ? landing_ : bounce_.get()), bytes.data(), here);
    got_ = uint32_t(here);
    if (open_room() == 0) grow(0);
    return;
  }
}

}  // namespace weft::btl::tcp
