// A single-producer single-consumer queue of messages in shared memory: the wire of btl/shm and btl/self.
//
// A ring is slots, one cache line each, and an area for longer payloads. A message takes one slot: header and up to 40 bytes of payload. Up
// to some 1000 bytes go on through the next slots, a row of them, as long as an eighth of all slots stays free: whoever sends one after the
// other writes line after line then, and claims those that come. Longer payloads, and others that find no row, lie contiguously in the bulk
// area, in the order of the slots, so that both sides compute where from the lengths alone. A slot's length word is stored last and carries
// the phase of its lap in the top bit: the consumer polls that one word, and no index is shared on the way of a message. Only the words in
// a row have to be put back, by the consumer, as payload stood there. It reports what it has freed in a line of its own, which the producer
// reads only when it believes the ring to be full, or is about to take more of the area into use: if there is room at the beginning,
// payloads that a row could hold wrap early, so that they go through few lines, which stay in caches. Long ones go through all of it, so
// that the consumer's cache has let go of lines by the time they are written again; or through cells (cells.h), which both sides write in
// turns.
//
// A payload of some KiB grows before the consumer's eyes: its slot is stored first, then the payload piece by piece, each counted in a line
// of the producer's. So the consumer, who knows by then where it belongs, copies one piece out while the next is copied in.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "btl/btl.h"
#include "btl/shm/cells.h"
#include "btl/shm/pace.h"
#include "btl/shm/pages.h"
#include "runtime/base/clock.h"
#include "runtime/base/copy.h"

namespace weft::btl::shm {

constexpr size_t kLine = 64;
constexpr uint32_t kSlotPayload = 40;
constexpr uint32_t kRowPayload = kSlotPayload + 16 * uint32_t{kLine};  ///< most that a row of slots holds
constexpr uint32_t kPhaseBit = 1u << 31;
constexpr uint32_t kGrowsBit = 1u << 30;  ///< the payload follows its slot
constexpr uint32_t kWrapBit = 1u << 29;   ///< the payload lies at the beginning of the area: what is behind is left out
constexpr uint32_t kCellBit = 1u << 28;   ///< the payload lies in the cell that the slot names
constexpr uint32_t kRowBit = 1u << 27;    ///< the payload goes on through the next slots
constexpr uint32_t kLengthMask = kRowBit - 1;
constexpr uint32_t kPage = 4096, kWiden = 192 << 10;  ///< the area is taken into use by so much, for payloads of rows and others
constexpr uint32_t kLarge = 800 << 10;                ///< rings among few
constexpr uint32_t kMostSlots = 512;                  ///< lines that both caches keep
constexpr uint32_t kClaimed = 6;                      ///< who writes slots claims the one so far ahead: as many pass while a line comes
constexpr uint32_t kShortRow = 3;                     ///< slots that come as soon as one: longer rows come later than cells
constexpr uint32_t kCellFrom = kSlotPayload + (kShortRow - 1) * uint32_t{kLine} + 1;  ///< payloads for which a cell is worth it
constexpr uint32_t kStaysFrom = 4096;                                                 ///< payloads that had better not be copied twice
constexpr uint32_t kTouchesFrom = 1024;                      ///< payloads for which it pays to ask where they belong, to copy them here
constexpr uint32_t kPieceFrom = 4 << 10, kPiece = 16 << 10;  ///< by so much at a time: half of what is there already, within these

/// One message as it lies in memory: a Header whose length word doubles as the ready flag, and a short payload.
struct alignas(kLine) Slot {
  uint64_t context;
  int32_t tag;
  int32_t source;
  std::atomic<uint32_t> word;  ///< length, and in the top bits the phase, whether the payload grows, and whether it wraps early
  uint16_t sequence;
  uint8_t kind;
  uint8_t flags;
  std::byte payload[kSlotPayload];
};
/// A slot's payload, which may go on through the next ones.
inline std::byte* payload_of(Slot& slot) { return reinterpret_cast<std::byte*>(&slot) + offsetof(Slot, payload); }
static_assert(sizeof(Slot) == kLine && offsetof(Slot, word) == offsetof(Header, length) && offsetof(Slot, payload) == sizeof(Header));
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

/// What the consumer gives back; monotonic counters.
struct alignas(2 * kLine) Freed {
  std::atomic<uint64_t> slots;
  std::atomic<uint64_t> bulk;
};

/// What the producer has written of payloads that grow: bytes, of all of them so far.
struct alignas(2 * kLine) Grown {
  std::atomic<uint64_t> bytes;
};

/// How a ring of `bytes` is divided: the Freed and the Grown line, a power of two of slots (an eighth at most), the bulk area, cells (a
/// third at most, or of a large ring three fifths), which begin in the middle of a page.
struct Shape {
  static constexpr uint32_t grown_offset = sizeof(Freed), slots_offset = grown_offset + uint32_t{sizeof(Grown)};
  uint32_t slots;
  uint32_t bulk_offset;
  uint32_t bulk_bytes;
  uint32_t cells;

  static constexpr Shape of(uint32_t bytes) {
    const uint32_t slots = std::min(kMostSlots, std::bit_floor(bytes / 8 / uint32_t{kLine}));
    const uint32_t bulk_offset = slots_offset + slots * uint32_t{kLine};
    const uint32_t cells = std::min(Cells::kMost, (bytes >= kLarge ? bytes / 5 * 3 : bytes / 3) / Cells::kBytes);
    return {slots, bulk_offset, bytes - bulk_offset - cells * Cells::kBytes - (cells ? uint32_t{kMidPage} : 0), cells};
  }
  /// Do so many slots lie in a row from there on?
  constexpr bool in_a_row(uint64_t index, uint32_t count) const { return (index & (slots - 1)) + count <= slots; }
  constexpr uint32_t cells_offset() const { return bulk_offset + bulk_bytes; }
  /// Maps what every lap passes: of large rings each page would cost a fault on both sides, a hundred messages long.
  void populate_slots(std::byte* ring) const { populate(ring, bulk_offset); }
  /// Largest payload: several must fit, so that senders who run ahead do not wait for each.
  constexpr uint32_t max_payload() const { return std::bit_floor(bulk_bytes / 3); }
};

/// Slots of a row for so many bytes.
constexpr uint32_t row_for(uint32_t length) {
  return length <= kSlotPayload ? 1 : 1 + (length - kSlotPayload + uint32_t{kLine} - 1) / uint32_t{kLine};
}

/// Where payloads lie in the bulk area. Both sides keep one and feed it the same lengths.
class Placement {
 public:
  explicit Placement(uint32_t size) : size_(size) {}

  struct Place {
    uint32_t offset;
    uint32_t next;   ///< offset behind it
    uint32_t taken;  ///< bytes, the piece skipped at the end included
  };
  Place next(uint32_t length) const {
    const uint32_t rounded = (length + uint32_t{kLine} - 1) & ~(uint32_t{kLine} - 1);
    if (offset_ + rounded > size_) return {0, rounded, size_ - offset_ + rounded};
    return {offset_, offset_ + rounded, rounded};
  }
  void advance(const Place& place) {
    offset_ = place.next;
    total_ += place.taken;
  }
  uint64_t total() const { return total_; }
  /// The next one lies at the beginning. What is behind counts as taken.
  void wrap() {
    total_ += size_ - offset_;
    offset_ = 0;
  }
  /// Where the next one begins, if it fits there.
  uint32_t offset() const { return offset_; }

 private:
  uint32_t size_;
  uint32_t offset_ = 0;
  uint64_t total_ = 0;
};

/// Copies a longer payload into a ring, whose lines the consumer's cache holds: string copies are ahead sooner than elsewhere (a third less
/// time at 1 KiB, AMD Zen 5).
inline void copy_long(std::byte* to, const std::byte* from, size_t n) { copy_in<512>(to, from, n); }

/// The sending side. Ring memory starts zeroed.
class Producer {
 public:
  Producer() = default;
  /// `cells`: what is shared with the consumer's process, if there is anything.
  Producer(std::byte* ring, uint32_t bytes, Cells* cells = nullptr)
      : shape_(Shape::of(bytes)),
        slots_(reinterpret_cast<Slot*>(ring + Shape::slots_offset)),
        freed_(reinterpret_cast<Freed*>(ring)),
        grown_(reinterpret_cast<Grown*>(ring + Shape::grown_offset)),
        bulk_(ring + shape_.bulk_offset),
        cells_(cells),
        placement_(shape_.bulk_bytes),
        limit_(shape_.slots),
        bulk_limit_(shape_.bulk_bytes) {}

  /// `write(std::byte* to, uint32_t from, uint32_t n)` puts n bytes of the payload there, those from `from` on; each once, in order.
  /// False: no room, or this process had better read first (Cells::awaited()); nothing was written.
  /// `alone`: no other message is likely to follow at once, so that the payload had better grow; others are copied out while the next come
  /// in. `streams`: others follow, whose lines are claimed ahead; to who waits for an answer that would only be in the way (of 64 B between
  /// far CPUs 0.38 instead of 0.30 us).
  template <class Write>
  bool push(const Header& h, bool alone, bool streams, Write&& write) {
    if (tail_ == limit_ && refresh() == 0) [[unlikely]]
      return false;
    if (h.length <= kSlotPayload) return fill(h, streams, write);
    const uint32_t row = row_at_hand(h.length);
    return row ? fill_row(h, row, streams, write) : push_long(h, alone, write);
  }
  /// For payloads that a slot holds. False: this one is longer, or the ring was full when that was looked at last; nothing was written.
  bool push_short(const Header& h, bool streams, const void* payload) {
    return h.length <= kSlotPayload && tail_ != limit_ &&
           fill(h, streams, [payload](std::byte* to, uint32_t, uint32_t n) { copy_short(to, payload, n); });
  }

  /// For longer payloads that a row of slots holds. False: there is none for it; nothing was written.
  bool push_row(const Header& h, bool streams, const void* payload) {
    const uint32_t row = row_at_hand(h.length);
    return row > 0 && fill_row(h, row, streams, [payload](std::byte* to, uint32_t, uint32_t n) {
             const auto* const from = static_cast<const std::byte*>(payload);
             copy_few(to + kSlotPayload, from + kSlotPayload, n - kSlotPayload);  // first: the consumer looks at the other line meanwhile
             copy_short(to, from, kSlotPayload);
           });
  }

  bool attached() const { return slots_ != nullptr; }
  /// Slots that it has written so far.
  uint64_t written() const { return tail_; }
  /// The slot of the next message.
  const std::byte* next() const { return slots_ ? reinterpret_cast<const std::byte*>(slots_ + (tail_ & (shape_.slots - 1))) : nullptr; }

 private:
  bool takes_cell(uint32_t length) const { return length >= kCellFrom && length <= Cells::kBytes && cells_ && cells_->any(); }
  /// Slots that a payload is to go into, which are free; 0: it had better lie elsewhere.
  uint32_t row_at_hand(uint32_t length) {
    const uint32_t row = row_for(length);
    if (row == 1 || length > kRowPayload || !shape_.in_a_row(tail_, row) || takes_cell(length)) return 0;
    const uint32_t kept = row + shape_.slots / 8;
    if (limit_ - tail_ >= kept) [[likely]]
      return row;
    if (static_cast<int32_t>(static_cast<uint32_t>(tail_) - ask_again_) < 0) return 0;
    ask_again_ = static_cast<uint32_t>(tail_) + shape_.slots / 16;
    return refresh() >= kept ? row : 0;
  }
  uint32_t phase(uint64_t index) const { return index & shape_.slots ? 0 : kPhaseBit; }
  void store(Slot& slot, const Header& h, uint32_t word) {
    slot.context = h.context;
    slot.tag = h.tag;
    slot.source = h.source;
    slot.sequence = h.sequence;
    slot.kind = h.kind;
    slot.flags = h.flags;
    slot.word.store(word | phase(tail_), std::memory_order_release);
  }
  template <class Write>
  bool fill(const Header& h, bool streams, Write&& write) {
    Slot& slot = slots_[tail_ & (shape_.slots - 1)];
    write(slot.payload, 0, h.length);
    store(slot, h, h.length);
    if (streams) claim_line(&slots_[(tail_ + kClaimed) & (shape_.slots - 1)]);
    ++tail_;
    return true;
  }
  template <class Write>
  bool fill_row(const Header& h, uint32_t row, bool streams, Write&& write) {
    Slot& slot = slots_[tail_ & (shape_.slots - 1)];
    write(payload_of(slot), 0, h.length);
    store(slot, h, h.length | kRowBit);
    for (uint32_t i = 0; streams && i < row; ++i) claim_line(&slots_[(tail_ + row * kClaimed + i) & (shape_.slots - 1)]);
    tail_ += row;
    return true;
  }
  template <class Write>
  bool push_long(const Header& h, bool alone, Write& write) {
    Slot& slot = slots_[tail_ & (shape_.slots - 1)];
    uint32_t word = h.length;
    std::byte* to = nullptr;
    Placement::Place place{};
    if (takes_cell(h.length)) {
      const uint8_t cell = cells_->take();
      slot.payload[0] = std::byte{cell};
      word |= kCellBit;
      to = cells_->at(cell);
    } else if (h.length >= growing_pays_from && cells_ && cells_->awaited()) {
      return false;
    } else {
      place = place_for(h.length, word);
      if (placement_.total() + place.taken > bulk_limit_) return false;
      placement_.advance(place);
      to = bulk_ + place.offset;
    }
    if (alone && h.length >= growing_pays_from) {
      grow(slot, h, word, to, write);
    } else {
      write(to, 0, h.length);
      store(slot, h, word);
    }
    ++tail_;
    return true;
  }
  /// Where a payload is to lie, which may not be free. Wraps early, and says so in `word`, where that is better.
  Placement::Place place_for(uint32_t length, uint32_t& word) {
    Placement::Place place = placement_.next(length);
    if (place.next > touched_ && wraps_early(place)) [[unlikely]] {
      placement_.wrap();
      place = placement_.next(length);
      word |= kWrapBit;
    }
    if (placement_.total() + place.taken > bulk_limit_) refresh();
    return place;
  }
  template <class Write>
  [[gnu::noinline]] void grow(Slot& slot, const Header& h, uint32_t word, std::byte* to, Write& write) {
    constexpr uint32_t whole_lines = ~(uint32_t{kLine} - 1);
    const uint32_t first = std::min(kPieceFrom, h.length / 2 & whole_lines);
    store(slot, h, word | kGrowsBit);
    for (uint32_t from = 0; from < h.length;) {
      const uint32_t n = std::min(std::clamp(from / 2 & whole_lines, first, kPiece), h.length - from);
      write(to + from, from, n);
      from += n;
      grown_bytes_ += n;
      grown_->bytes.store(grown_bytes_, std::memory_order_release);
    }
  }
  /// The area is about to be taken into use further than before. True if the payload had better lie at its beginning, where there is room
  /// by now, and for one more like it, as what is left out counts until the consumer has passed it. Those that no row could hold go on:
  /// lines that the consumer's cache has let go of are written sooner. Streams of others, which would touch many pages in vain, go on up to
  /// kWiden.
  [[gnu::noinline]] bool wraps_early(const Placement::Place& place) {
    refresh();
    const uint64_t under_way = placement_.total() + shape_.bulk_bytes - bulk_limit_;
    const bool goes_on = place.taken > kRowPayload || (under_way > 0 && place.next <= kWiden);
    if (!goes_on && under_way + 2 * place.taken <= placement_.offset()) return true;
    const uint32_t step = place.taken <= kRowPayload ? kPage : kWiden, before = touched_;
    touched_ = std::max(touched_, std::min(shape_.bulk_bytes, (place.next + step - 1) / step * step));
    if (touched_ > before + kPage) populate(bulk_ + before, touched_ - before);
    return false;
  }
  /// Slots that are free.
  uint64_t refresh() {
    if (!freed_) return 0;
    limit_ = freed_->slots.load(std::memory_order_acquire) + shape_.slots;
    bulk_limit_ = freed_->bulk.load(std::memory_order_acquire) + shape_.bulk_bytes;
    return limit_ - tail_;
  }

  Shape shape_{};
  Slot* slots_ = nullptr;
  Freed* freed_ = nullptr;
  Grown* grown_ = nullptr;
  std::byte* bulk_ = nullptr;
  Cells* cells_ = nullptr;
  Placement placement_{0};
  uint32_t touched_ = 0;    // bytes of the bulk area in use so far
  uint32_t ask_again_ = 0;  // at this place (modulo 2^32) whether there are slots for rows
  uint64_t tail_ = 0;
  uint64_t grown_bytes_ = 0;
  uint64_t limit_ = 0;
  uint64_t bulk_limit_ = 0;
};

/// Where payloads that still grow belong, as a Sink says.
struct Landing {
  Sink& sink;
  void* cookie;
  std::byte* place(const Header& h) const { return sink.landing(cookie, h); }
  bool scatter(const Header& h, const std::byte* bytes, uint32_t from, uint32_t count) const {
    return sink.scatter(cookie, h, bytes, from, count);
  }
};

/// The receiving side.
class Consumer {
 public:
  Consumer(std::byte* ring, uint32_t bytes, Cells* cells = nullptr, RingPace* pace = nullptr)
      : shape_(Shape::of(bytes)),
        slots_(reinterpret_cast<Slot*>(ring + Shape::slots_offset)),
        freed_(reinterpret_cast<Freed*>(ring)),
        grown_(reinterpret_cast<Grown*>(ring + Shape::grown_offset)),
        bulk_(ring + shape_.bulk_offset),
        cells_(cells),
        pace_(pace),
        placement_(shape_.bulk_bytes) {}

  /// Slots that it has taken so far.
  uint64_t taken() const { return head_; }
  bool ready() const { return (slots_[head_ & (shape_.slots - 1)].word.load(std::memory_order_acquire) & kPhaseBit) == phase(); }

  /// Looks whether there is a message, some times if there is none. If it has come meanwhile, the slot of an answer is claimed, or the
  /// short row of one that is as long: `next_out`. Whoever looks asks for all lines of a short row, as they would come after the first else
  /// (64 B on an Intel Granite Rapids 0.19 instead of 0.25 us, 128 B 0.22 instead of 0.29). Looks are few, as there is a break between
  /// them, so that the processor learns how many there are: it then runs ahead of the last one, and claims that slot while the message's
  /// own line is still on its way. 8 B near take 75 to 80 ns without breaks, 52 with them, 35 with claims, too (a line takes 38 to and
  /// fro); between packages 290 and 140 to 200 (AMD Zen 5).
  [[gnu::always_inline]] bool appears(int looks, const std::byte* next_out) {
    Slot& slot = slots_[head_ & (shape_.slots - 1)];
    const uint32_t expected = phase();
    if ((slot.word.load(std::memory_order_acquire) & kPhaseBit) == expected) return true;
    while (--looks > 0) {
      between_looks();
      const uint32_t word = slot.word.load(std::memory_order_acquire);
      for (uint32_t i = 1; i < kShortRow; ++i) __builtin_prefetch(&slot + i);
      if ((word & kPhaseBit) != expected) continue;
      if (next_out) claim_line(next_out);
      if (!(word & kRowBit)) return true;
      const uint32_t row = row_for(word & kLengthMask);
      for (uint32_t i = 1; i < row; ++i) __builtin_prefetch(&slot + i);
      for (uint32_t i = 1; next_out && i < std::min(row, kShortRow); ++i) claim_line(next_out + i * kLine);
      return true;
    }
    __builtin_prefetch(&slot + 1);  // else a short payload's second line would come after its first
    return false;
  }

  /// Hands up to `most` messages to `deliver(const Header&, const std::byte* payload)`; returns how many. `land` says where
  /// payloads that still grow belong: a Landing, or what is like one. `broken()` is called if what stands next cannot be a Producer's, who
  /// is another process: nothing comes out of this ring any more.
  template <class Deliver, class Land, class Broken>
  int take(int most, Deliver&& deliver, Land&& land, Broken&& broken) {
    if (!ready()) {
      __builtin_prefetch(&slots_[(head_ & (shape_.slots - 1)) + 1]);
      return 0;
    }
    const Known known{slots_, shape_.slots, touching_pays};
    int count = 0;
    while (count < most && take_one(known, count > 0, deliver, land, broken)) ++count;
    if (count) freed_->slots.store(head_, std::memory_order_release);
    return count;
  }

  /// As Endpoint::peek_next().
  bool peek_next(Endpoint::Next& next, int looks) {
    if (growing_ || !appears(looks, nullptr)) return false;
    const Slot& slot = slots_[head_ & (shape_.slots - 1)];
    const uint32_t length = slot.word.load(std::memory_order_acquire) & kLengthMask;
    if (!is(slot, length, next)) return false;
    note(next, slot, length);
    return true;
  }

  /// As Endpoint::receive_next().
  bool take_next(Endpoint::Next& next, void* to, int looks, const std::byte* next_out) {
    if (growing_ || !appears(looks, next_out)) return false;
    Slot& slot = slots_[head_ & (shape_.slots - 1)];
    const uint32_t word = slot.word.load(std::memory_order_acquire) & ~kPhaseBit, length = word & kLengthMask;
    if (!is(slot, length, next)) return false;
    if (length <= kSlotPayload)
      copy_short(to, slot.payload, length);
    else if (!take_longer(slot, word, length, static_cast<std::byte*>(to)))
      return false;
    note(next, slot, length);
    if (touching_pays) touch(&slot, 1);
    freed_->slots.store(++head_, std::memory_order_release);
    return true;
  }

  /// As Endpoint::receive_several().
  size_t take_several(const Header& first, std::span<Endpoint::Place> places) {
    if (growing_) return 0;
    const uint32_t begin = head_ & (shape_.slots - 1), expected = phase();
    const size_t most = std::min<size_t>({places.size(), shape_.slots - begin, size_t{UINT16_MAX} - first.sequence + 1});
    const bool touches = touching_pays;
    Slot* slot = slots_ + begin;
    Words words = Words::of(&first);
    size_t taken = 0;
    for (; taken < most; ++taken, ++slot, words.back += kNextSequence) {
      Endpoint::Place& place = places[taken];
      const uint32_t length = slot->word.load(std::memory_order_acquire) ^ expected;  // too long if there is no short message
      if (length > kSlotPayload || length > place.room || !words.are_those_of(*slot)) break;
      copy_short(place.to, slot->payload, length);
      place.length = length;
      if (touches) touch(slot, 1);
    }
    if (taken > 0) freed_->slots.store(head_ += taken, std::memory_order_release);
    return taken;
  }

  /// As Transport::set_aside(), within `deliver`.
  bool set_aside(const std::byte* payload) { return cell_ != kNoCell && payload == payload_ && cells_->set_aside(cell_); }

 private:
  uint32_t phase() const { return head_ & shape_.slots ? 0 : kPhaseBit; }
  /// A header but for the length, to be compared in few steps.
  struct Words {
    uint64_t context, tag_and_source;
    uint32_t back;  ///< sequence, kind, flags
    static Words of(const void* header) {
      const auto* const from = static_cast<const std::byte*>(header);
      Words w;
      std::memcpy(&w.context, from, sizeof w.context);
      std::memcpy(&w.tag_and_source, from + offsetof(Slot, tag), sizeof w.tag_and_source);
      std::memcpy(&w.back, from + offsetof(Slot, sequence), sizeof w.back);
      return w;
    }
    bool are_those_of(const Slot& slot) const {
      const Words w = of(&slot);
      return ((w.context ^ context) | (w.tag_and_source ^ tag_and_source)) == 0 && w.back == back;
    }
  };
  static_assert(offsetof(Slot, source) == offsetof(Slot, tag) + 4 && offsetof(Slot, flags) == offsetof(Slot, sequence) + 3);
  static constexpr auto kNextSequence = std::bit_cast<uint32_t>(std::array<uint16_t, 2>{1, 0});
  static bool is(const Slot& slot, uint32_t length, const Endpoint::Next& next) {
    const Header& h = next.header;
    return slot.context == h.context && (slot.tag == h.tag || next.any_tag) && slot.source == h.source && slot.sequence == h.sequence &&
           slot.kind == h.kind && slot.flags == h.flags && length <= h.length;
  }
  static void note(Endpoint::Next& next, const Slot& slot, uint32_t length) {
    next.header.length = length;
    if (next.any_tag) next.header.tag = slot.tag;
  }

  /// What stays as it is while messages are taken, whatever those who get them write.
  struct Known {
    Slot* slots;
    uint64_t count;
    bool touches;
    Slot& at(uint64_t index) const { return slots[index & (count - 1)]; }
    bool is_there(uint32_t word, uint64_t index) const { return ((word & kPhaseBit) != 0) != ((index & count) != 0); }
  };
  /// `others`: have some been taken just before? Then a longer one that has no place yet stays: who has waited for those may ask for it in
  /// a moment, and it would be copied twice (MPI_Irecv and MPI_Wait of 64 KiB again and again: 4.1 instead of 2.05 us, AMD Zen 3).
  template <class Deliver, class Land, class Broken>
  bool take_one(const Known& known, bool others, Deliver&& deliver, Land&& land, Broken&& broken) {
    Slot& slot = known.at(head_);
    const uint32_t word = slot.word.load(std::memory_order_acquire);
    if (!known.is_there(word, head_)) {
      __builtin_prefetch(&slot + 1);
      return false;
    }
    const uint32_t length = word & kLengthMask;
    const Header h{slot.context, slot.tag, slot.source, length, slot.sequence, slot.kind, slot.flags};
    if (length <= kSlotPayload) {
      deliver(h, slot.payload);
    } else if ((word & kRowBit) && !growing_) {
      if (!take_row(length, [&](std::byte* from) { deliver(h, from); })) [[unlikely]] {
        broken();
        return false;
      }
    } else {
      const bool asks = others && !growing_ && length >= kStaysFrom && length <= shape_.bulk_bytes;
      std::byte* const at = asks ? land.place(h) : nullptr;  // asked once, it has taken its receive out of matching
      if (asks && !at) return false;
      if (growing_ ? !(word & kGrowsBit) : !locate(slot, word, length)) [[unlikely]] {
        broken();
        return false;
      }
      if (!(word & kGrowsBit))
        pass(h, at, deliver, land);
      else if (!take_growing(h, at, deliver, land))
        return false;
      leave();
    }
    if (known.touches) touch(&slot, 1);
    ++head_;
    return true;
  }

  /// The words of the other slots are left as if this lap had passed them one by one. False: no Producer would write such a row.
  template <class Read>
  [[gnu::noinline]] bool take_row(uint32_t length, Read&& read) {
    uint32_t row = row_for(length);
    if (!shape_.in_a_row(head_, row)) return false;
    read(payload_of(slots_[head_ & (shape_.slots - 1)]));
    while (--row > 0) slots_[++head_ & (shape_.slots - 1)].word.store(phase(), std::memory_order_relaxed);
    return true;
  }
  /// Delivers a longer message that is complete, which belongs `at` a place, if it has been asked for. What is unpacked or set aside says
  /// nothing of a copy's pace.
  template <class Deliver, class Land>
  void pass(const Header& h, std::byte* at, Deliver& deliver, Land& land) {
    const bool timed = due(h.length, h.length);
    std::byte* const to = !at && (timed || (touching_pays && h.length >= kTouchesFrom)) ? land.place(h) : at;
    if (to) copy_timed(timed, h.length, [&] { take_part(to, payload_, h.length); });
    deliver(h, to ? to : payload_);
  }
  /// Copies a payload that does not fit a slot, if all of it is there, and leaves it. False: it is not, or no Producer would write such a
  /// slot.
  [[gnu::noinline]] bool take_longer(const Slot& slot, uint32_t word, uint32_t length, std::byte* to) {
    if (word & kGrowsBit) return false;
    if (word & kRowBit) return length <= kRowPayload && take_row(length, [&](std::byte* from) { copy_few(to, from, length); });
    if (!locate(slot, word, length)) return false;
    copy_timed(due(length, length), length,
               [&] { length < kTouchesFrom ? copy_few(to, payload_, length) : take_part(to, payload_, length); });
    leave();
    return true;
  }
  /// Finds a longer payload; false: no Producer would put it there.
  bool locate(const Slot& slot, uint32_t word, uint32_t length) {
    cell_ = kNoCell;
    if (word & kCellBit) {
      const uint8_t cell = Cells::named(slot.payload[0]);
      if (!cells_ || length > Cells::kBytes || !cells_->lent(cell)) return false;
      cell_ = cell;
      payload_ = cells_->at(cell);
      return true;
    }
    if (length > shape_.bulk_bytes) return false;
    if (word & kWrapBit) placement_.wrap();
    place_ = placement_.next(length);
    payload_ = bulk_ + place_.offset;
    return true;
  }
  /// A longer payload has been read.
  void leave() {
    if (cell_ != kNoCell) return cells_->passed(cell_);
    placement_.advance(place_);
    freed_->bulk.store(placement_.total(), std::memory_order_release);
  }
  /// Copies a longer payload, or a piece of it, to where it belongs. Lines of the ring are the producer's again then, who gets changed ones
  /// sooner; in a cell this side writes next.
  void take_part(std::byte* to, std::byte* from, size_t n) const {
    const bool touches = touching_pays && cell_ == kNoCell;
    if (pace_ && pace_->expects_longest())
      copy_to_afar(to, from, n, touches);
    else if (touches)
      copy_and_touch(to, from, n);
    else
      copy_received(to, from, n);
  }
  /// Is a copy of so many bytes, of so long a message, to be timed?
  bool due(size_t bytes, size_t all) { return pace_ && pace_->due(bytes, all); }
  template <class Copy>
  void copy_timed(bool timed, size_t bytes, Copy&& copy) {
    const uint64_t begin = timed ? now_ns() : 0;
    copy();
    if (timed) [[unlikely]]
      pace_->took(bytes, now_ns() - begin);
  }
  /// Copies what has been added to a payload to where it belongs, `at` a place if it has been asked for. True when that was the rest, and
  /// the message is delivered.
  template <class Deliver, class Land>
  [[gnu::noinline]] bool take_growing(const Header& now, std::byte* at, Deliver& deliver, Land& land) {
    if (!growing_) growth_ = {now, at, 0};  // kept: what stands in memory may be changed by its producer
    const Header h = growth_.header;
    const uint64_t grown = grown_->bytes.load(std::memory_order_acquire) - grown_bytes_;
    const auto there = std::max(growth_.copied, static_cast<uint32_t>(std::min<uint64_t>(grown, h.length)));
    const bool whole = there == h.length;
    growing_ = !whole;
    if (!whole || growth_.landing) {  // each time: the receive may have been posted by now, or have ended
      std::byte* const landing = land.place(h);
      if (std::exchange(growth_.landing, landing) != landing) growth_.copied = 0;
    }
    const uint32_t from = growth_.copied, added = there - from;
    if (growth_.landing) {
      copy_timed(due(added, h.length), added, [&] { take_part(growth_.landing + from, payload_ + from, added); });
      growth_.copied = there;
    } else if (added && (!whole || from > 0)) {
      growth_.copied = land.scatter(h, payload_ + from, from, added) ? there : 0;
    }
    if (!whole) return false;
    grown_bytes_ += h.length;
    deliver(h, growth_.landing ? growth_.landing : payload_);
    return true;
  }

  /// A message whose payload grows.
  struct Growth {
    Header header;
    std::byte* landing = nullptr;
    uint32_t copied = 0;
  };

  Shape shape_;
  Slot* slots_;
  Freed* freed_;
  Grown* grown_;
  std::byte* bulk_;
  Cells* cells_;
  RingPace* pace_;
  Placement placement_;
  static constexpr uint8_t kNoCell = 0xff;
  // Of the longer message that stands next: kept, as its producer may change what stands in memory.
  std::byte* payload_ = nullptr;
  Placement::Place place_{};  // unless it lies in a cell
  uint8_t cell_ = kNoCell;
  bool growing_ = false;  // the next one has begun to be copied
  uint64_t head_ = 0;
  uint64_t grown_bytes_ = 0;  // of messages taken
  Growth growth_;
};

}  // namespace weft::btl::shm
