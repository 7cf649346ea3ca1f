// Messages over a queue pair: sending, arriving, credit, leaving.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "btl/verbs/rail.h"

namespace weft::btl::verbs {

uint8_t Link::rail() const { return rail_.boot_.job().rank < who_.rank ? uint8_t(rail_.index_) : their_rail_; }

std::string Link::describe() const {
  std::string text = "verbs " + rail_.caps_.device;
  if (here_ != net::Gid{}) text += " " + here_.text() + " -> " + there_.text();
  return text;
}

/// May a message be sent? Begins to connect if that has not been done.
Status Link::admit() {
  if (state_ != State::open) [[unlikely]] {
    if (state_ == State::left || state_ == State::closed) return Status::peer_failed;
    if (rail_.draining_) return Status::failed;
    if (state_ == State::idle) begin();
    return state_ == State::closed ? Status::peer_failed : Status::again;
  }
  if (bye_heard_) return Status::peer_failed;
  if (credit_ <= 0) [[unlikely]] {
    ++rail_.counters_.no_credit;
    return Status::again;
  }
  return queues_[0].outstanding.room() > 2 ? Status::ok : Status::again;  // the rest is for credit and farewell
}

/// Does a header say nothing that the peer does not know from the message before?
bool Link::is_alike(const Header& header) const {
  const Header next = alike(last_out_, header.length);
  return memcmp(&next, &header, sizeof next) == 0;
}

Status Link::try_inline(const Header& header, const void* payload) {
  if (const Status status = admit(); status != Status::ok) [[unlikely]]
    return status;
  if (kFront + header.length <= queues_[0].inline_bytes) return post_in_place(header, payload);
  const uint32_t slot = rail_.send_slots_.take();
  if (slot == Slots::kNone) return Status::again;
  if (header.length) memcpy(rail_.send_slots_.at(slot) + kFront, payload, header.length);
  return post_slot(header, slot);
}

Status Link::send(const Header& header, type::Cursor& cursor) {
  if (cursor.contiguous()) {
    const Status status = try_inline(header, cursor.data());
    if (status == Status::ok) cursor.seek(cursor.position() + header.length);
    return status;
  }
  if (const Status status = admit(); status != Status::ok) return status;
  const uint32_t slot = rail_.send_slots_.take();
  if (slot == Slots::kNone) return Status::again;
  cursor.pack(rail_.send_slots_.at(slot) + kFront, header.length);
  return post_slot(header, slot);
}

/// Sends what lies in a slot behind the place of the header.
Status Link::post_slot(const Header& header, uint32_t slot) {
  std::byte* at = rail_.send_slots_.at(slot);
  const bool alike = is_alike(header);
  if (!alike) memcpy(at, &header, sizeof header);
  const uint32_t front = alike ? kFront : 0;
  ibv_sge piece{reinterpret_cast<uint64_t>(at + front), kFront - front + header.length, rail_.send_slots_.key(slot)};
  const bool report = queues_[0].outstanding.report_due() || rail_.send_slots_.scarce();
  last_out_ = header;
  return post(alike ? Tag::What::alike : Tag::What::message, {&piece, 1}, report ? unsigned{IBV_SEND_SIGNALED} : 0u, slot);
}

/// Sends a short message, which the device copies while it is posted.
Status Link::post_in_place(const Header& header, const void* payload) {
  ibv_sge pieces[2] = {{reinterpret_cast<uint64_t>(&header), sizeof header, 0}, {reinterpret_cast<uint64_t>(payload), header.length, 0}};
  const size_t first = is_alike(header) ? 1 : 0, last = header.length ? 2 : 1;
  const unsigned report = queues_[0].outstanding.report_due() ? unsigned{IBV_SEND_SIGNALED} : 0u;
  last_out_ = header;
  return post(first ? Tag::What::alike : Tag::What::message, {pieces + first, pieces + last}, IBV_SEND_INLINE | report, Slots::kNone);
}

/// Credit or farewell, which cost no credit.
Status Link::post_word(Tag::What what, bool report) {
  return post(what, {}, IBV_SEND_INLINE | (report ? unsigned{IBV_SEND_SIGNALED} : 0u), Slots::kNone);
}

/// Hands a message over to the device, together with the credit that is owed.
Status Link::post(Tag::What what, std::span<ibv_sge> pieces, unsigned flags, uint32_t slot) {
  Queue& queue = queues_[0];
  ibv_send_wr request{}, *bad = nullptr;
  request.wr_id = uint64_t{queue.name} << 32 | queue.outstanding.add({slot, nullptr}, flags & IBV_SEND_SIGNALED);
  request.sg_list = pieces.data();
  request.num_sge = int(pieces.size());
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.send_flags = flags;
  request.imm_data = std::bit_cast<uint32_t>(Tag{uint16_t(owed_), what, 0});
  if (const int error = ibv_post_send(queue.pair, &request, &bad)) [[unlikely]] {
    fail("the device takes no message: " + std::string(strerror(error)));
    return Status::peer_failed;
  }
  owed_ = 0;
  if (what == Tag::What::message || what == Tag::What::alike) --credit_;
  return Status::ok;
}

/// Tells the peer of slots that are free again, if no message of ours does. False if there is no room for it now.
bool Link::give_credit() {
  if (state_ != State::open || bye_heard_ || owed_ * 4 < granted_) return true;
  Queue& queue = queues_[0];
  if (queue.outstanding.room() <= 1) return false;
  ++rail_.counters_.credit_messages;
  post_word(Tag::What::credit, queue.outstanding.report_due());
  return true;
}

/// Queue pairs have no life signs of their own: who only waits for a peer's message would wait for ever where its host has vanished. A
/// write of no bytes needs nobody's attention over there, no slot and no key (InfiniBand specification, C9-88), and is acknowledged by the
/// device.
void Link::check_silence() {
  if (std::exchange(heard_, false) || state_ != State::open || bye_heard_) return;
  Queue& queue = queues_[0];
  if (queue.outstanding.room() <= 2) return;  // so much is under way that its end will tell
  ibv_send_wr request{}, *bad = nullptr;
  request.wr_id = uint64_t{queue.name} << 32 | queue.outstanding.add({Slots::kNone, nullptr}, true);
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  ++rail_.counters_.knocks;
  if (const int error = ibv_post_send(queue.pair, &request, &bad)) fail("the device takes no work: " + std::string(strerror(error)));
}

/// Messages are the device's as soon as they are taken; that it has delivered them is what leave() waits for.
size_t Link::backlog() const { return bulks_open_; }

// ---- arriving

void Link::arrived(const std::byte* slot, uint32_t bytes, const Tag& tag, Sink& sink) {
  heard_ = true;
  if (state_ == State::answering) opened();  // it has all it needs: its messages are there before its word for that
  credit_ += tag.credits;
  if (credit_ > int32_t(credit_limit_)) return fail("it gave more credit than there is; memory of one side is damaged");
  if (tag.what == Tag::What::bye) bye_heard_ = true;
  const Arrival arrival = read_arrival(slot, bytes, tag, last_in_);
  if (arrival.trouble) return fail(arrival.trouble);
  if (!arrival.payload) return;
  last_in_ = arrival.header;
  ++owed_;
  if (!owing_ && owed_ * 4 >= granted_) {
    owing_ = true;
    rail_.owing_.push_back(this);
  }
  sink.arrived(cookie_, arrival.header, arrival.payload);
}

/// Work requests up to `number` are done.
void Link::done(Queue& queue, uint32_t number) {
  heard_ = true;
  queue.outstanding.complete(number, [&](Held& held) {
    if (held.bulk && held.bulk->before) memcpy(held.bulk->before, rail_.send_slots_.at(held.slot), sizeof(uint64_t));
    if (held.slot != Slots::kNone) rail_.send_slots_.give(held.slot);
    if (held.bulk && --held.bulk->in_flight == 0 && held.bulk->all_posted()) finish(*held.bulk, Status::ok);
  });
}

// ---- the end

/// One step of taking leave; true when nothing is left to do.
bool Link::leave() {
  if (state_ == State::idle || state_ == State::left || state_ == State::closed) return true;
  if (state_ != State::open) {
    hang_up(State::idle);  // nothing was accepted for it
    release_queues();
    return true;
  }
  if (bye_heard_ && bulks_open_ == 0) {  // the peer has all that it waits for; its farewell may still have to be acknowledged
    hang_up(State::left);
    return true;
  }
  Queue& queue = queues_[0];
  if (!bye_sent_ && queue.outstanding.room() > 0 && bulks_open_ == 0) {
    bye_sent_ = true;  // first: whoever fails from now on has left
    post_word(Tag::What::bye, true);
  }
  if (state_ != State::open) return true;
  return bye_sent_ && std::ranges::all_of(queues_, [](const Queue& each) { return each.outstanding.empty(); });
}

/// Ends the queue pairs; the hardware then touches no memory any more. Returns the operations that are over with them.
std::vector<Bulk*> Link::release_queues() {
  std::vector<Bulk*> over(bulks_.begin(), bulks_.end());
  if (!queues_.empty()) rail_.withdraw(*this);
  for (Queue& queue : queues_) {
    if (queue.pair) {
      rail_.by_number_.erase(queue.pair->qp_num);
      rail_.verbs_.destroy_qp(queue.pair);
    }
    rail_.by_name_.erase(queue.name);
    queue.outstanding.abandon([&](Held& held) {
      if (held.slot != Slots::kNone) rail_.send_slots_.give(held.slot);
      if (held.bulk) over.push_back(held.bulk);
    });
  }
  bulks_.clear();
  queues_.clear();
  std::erase(rail_.pushing_, this);
  std::ranges::sort(over);
  const auto rest = std::ranges::unique(over);
  over.erase(rest.begin(), rest.end());
  return over;
}

void Link::cut() {
  std::erase(rail_.mourned_, this);
  std::vector<Bulk*> over = std::exchange(orphans_, {});
  if (state_ != State::closed) {
    hang_up(State::closed);
    why_ = "it was cut";
    const std::vector<Bulk*> more = release_queues();
    over.insert(over.end(), more.begin(), more.end());
  }
  for (Bulk* bulk : over) finish(*bulk, Status::peer_failed);
}

}  // namespace weft::btl::verbs
