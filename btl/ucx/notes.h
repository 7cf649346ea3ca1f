// What two workers tell each other in front of UCX's own data, and how it is read. Nothing of UCX in here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "btl/btl.h"

namespace weft::btl::ucx {

/// Travels in front of every message: the header, with the sender's rank (xor the job's number: a worker's address may have belonged to
/// another job before) in the place of the length, which UCX carries itself.
struct Note {
  Header header;
};
static_assert(sizeof(Note) == 24);

/// The same for messages of the kind that is most frequent, shorter by 4 bytes: with them 8 bytes of data no longer fit into one cache line
/// together with what UCX puts in front (36 bytes in shared memory), and the second takes half as long again.
struct [[gnu::packed]] ShortNote {
  uint64_t context : 56;
  uint64_t sequence_low : 8;
  int32_t tag;
  uint32_t source : 28;
  uint32_t sequence_middle : 4;
  uint32_t from : 28;
  uint32_t sequence_high : 4;

  static constexpr uint8_t kKind = 1;  ///< pml::MessageKind::eager
  static constexpr uint32_t kRanks = 1u << 28;
  /// `sender`: the own seat. Those of most lanes are too long.
  static bool fits(const Header& h, uint32_t sender) {
    return h.kind == kKind && h.flags == 0 && h.context >> 56 == 0 && static_cast<uint32_t>(h.source) < kRanks && sender < kRanks;
  }
  ShortNote() = default;
  ShortNote(const Header& h, uint32_t sender)
      : context(h.context),
        sequence_low(h.sequence & 0xff),
        tag(h.tag),
        source(static_cast<uint32_t>(h.source)),
        sequence_middle(h.sequence >> 8 & 15),
        from(sender),
        sequence_high(h.sequence >> 12 & 15) {}
  Header header(uint32_t length) const {
    const auto sequence = static_cast<uint16_t>(sequence_low | sequence_middle << 8 | sequence_high << 12);
    return {context, tag, static_cast<int32_t>(source), length, sequence, kKind, 0};
  }
};
static_assert(sizeof(ShortNote) == 20);

/// A note that has been read.
struct Arrival {
  Header header;
  uint32_t from;
};

/// What the notes of a job have in common.
struct Token {
  uint32_t whole = 0;
  uint32_t rank = 0, size = 0;  ///< of this process (its seat), of the job

  uint32_t part() const { return whole & (ShortNote::kRanks - 1); }  ///< what fits into a ShortNote
  /// Only ranks of the job, and not this one, send to it.
  std::optional<Arrival> admit(const Header& header, uint32_t from) const {
    if (is_other(from, rank, size)) [[likely]]
      return Arrival{header, from};
    return std::nullopt;
  }
  /// What came as header and data of an active message. The payload is behind the note, or it is the data.
  std::optional<Arrival> read(const void* header, size_t header_length, size_t length) const {
    Note note;
    if (header_length < sizeof note || (header_length > sizeof note && length)) [[unlikely]]
      return std::nullopt;
    memcpy(&note, header, sizeof note);
    const uint32_t from = note.header.length ^ whole;
    note.header.length = static_cast<uint32_t>(header_length - sizeof note + length);
    return admit(note.header, from);
  }
  std::optional<Arrival> read_short(const void* header, size_t header_length, size_t length) const {
    ShortNote note;
    if (header_length < sizeof note || (header_length > sizeof note && length)) [[unlikely]]
      return std::nullopt;
    memcpy(&note, header, sizeof note);
    return admit(note.header(static_cast<uint32_t>(header_length - sizeof note + length)), note.from ^ part());
  }
};

/// What a process publishes: this, then UCX's address.
struct Card {
  uint32_t magic = 0x34637577;  // "wuc4"
  uint32_t token = 0;
  uint32_t slots = 0;  ///< of UCX's queues in shared memory (worker.cc)
  uint32_t rdma = 0;   ///< 1: UCX may use an RDMA device, not sockets alone

  boot::Blob before(const void* address, size_t length) const {
    boot::Blob blob(sizeof *this + length);
    memcpy(blob.data(), this, sizeof *this);
    memcpy(blob.data() + sizeof *this, address, length);
    return blob;
  }
  /// What it says, if it is long enough to be one.
  static Card of(const boot::Blob& published) {
    Card card;
    if (published.size() >= sizeof card) memcpy(&card, published.data(), sizeof card);
    return card;
  }
  /// UCX's part of what a process of this job has published; empty if it is none.
  static std::span<const std::byte> address_in(const boot::Blob& published, uint32_t token) {
    Card card;
    if (published.size() <= sizeof card) return {};
    memcpy(&card, published.data(), sizeof card);
    if (card.magic != Card{}.magic || card.token != token) return {};
    return std::span(published).subspan(sizeof card);
  }
};

}  // namespace weft::btl::ucx
