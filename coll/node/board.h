// Short collectives in shared memory that nobody waits in: each rank shows what it gives when it starts, and takes what others show when
// all of it is there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pml/lane.h"

namespace weft::coll::node {

/// Slots of all ranks, and what is under way on this one. All ranks post in the same order; used under the lane's lock.
class Board final : private pml::Watch {
 public:
  static constexpr uint64_t most = 512;  ///< bytes that a rank gives

  /// What a rank's part of a collective is. It stays where it is until it has been taken.
  class Note {
   public:
    /// Those that something is taken from: `first` to before `last`.
    void takes_from(uint32_t first, uint32_t last) { first_ = first, last_ = last; }
    /// Writes what this rank gives, at most so many bytes; once.
    virtual void give(std::byte* place) = 0;
    /// All that is to be taken is there (see shown()); once.
    virtual void take() = 0;
    /// The last thing that happens to the note: it may end here, and with the last one the board.
    virtual void done() = 0;
    uint64_t number() const { return number_; }

   protected:
    virtual ~Note() = default;

   private:
    friend class Board;
    uint64_t number_ = 0;
    uint32_t first_ = 0, last_ = 0;
    bool given_ = false;
    Note* next_ = nullptr;
  };

  /// `memory`: as many bytes for as many ranks, zero at first, aligned to cache lines.
  Board(pml::Lane&, std::byte* memory, uint32_t rank, uint32_t size);
  ~Board() {
    if (first_) lane_.unwatch(*this);
  }
  static size_t bytes(uint32_t ranks) { return ranks * (sizeof(Progress) + kSlots * sizeof(Slot)); }

  /// Cache lines that so many given bytes come in.
  static uint64_t lines(uint64_t given) { return (sizeof(Slot) - most + given + 63) / 64; }

  void post(Note&);
  /// What a rank gives to this collective, while it is being taken.
  const std::byte* shown(uint32_t rank, uint64_t number) { return slot(rank, number).data; }

 private:
  static constexpr uint64_t kSlots = 32;              ///< of a rank: as many may be under way
  static constexpr uint64_t kToldEvery = kSlots / 4;  ///< who is behind comes so far in any case, so that nobody waits for ever
  struct alignas(64) Slot {
    std::atomic<uint64_t> number;
    uint64_t unused;
    std::byte data[most];
  };
  /// All up to this one have been taken by the rank, as far as it has told.
  struct alignas(64) Progress {
    std::atomic<uint64_t> taken;
  };

  Slot& slot(uint32_t rank, uint64_t number) { return slots_[rank * kSlots + number % kSlots]; }
  bool is_free(uint64_t number);
  bool give(Note&);
  bool ready(Note&);
  int take_all();
  void put_away(Note* before, Note&);
  void tell();

  pml::Lane& lane_;
  Progress* const progress_;
  Slot* const slots_;
  const uint32_t rank_, size_;
  uint64_t posted_ = 0;
  uint64_t told_ = 0;
  uint64_t all_taken_ = 0;  // by all, as far as known
  Note* first_ = nullptr;   // under way, in the order of numbers
  Note* last_ = nullptr;
};

}  // namespace weft::coll::node
