// Collectives in shared memory that nobody waits in: each rank shows what it gives, and takes what others show when all of it is there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "coll/node/waking.h"
#include "pml/lane.h"

namespace weft::coll::node {

/// Slots of all ranks, and what is under way on this one. All ranks post in the same order; used under the lane's lock.
class Board final : private pml::Watch {
 public:
  /// What a rank has of it: slots, a power of two, which take turns, and the bytes that one holds.
  struct Shape {
    uint64_t slots;
    uint64_t most;
  };
  static constexpr Shape kBrief{32, 512};  ///< for what takes few lines, many of which may be under way

  /// What a rank's part of a collective is, in one round or more: in each, ranks show something and take what others do. It stays where
  /// it is until all of that has happened. All ranks have the same rounds.
  class Note {
   public:
    /// Those that something is taken from: `first` to before `last`.
    void takes_from(uint32_t first, uint32_t last) { first_ = first, last_ = last; }
    void comes_in(uint64_t rounds) { rounds_ = rounds; }
    /// Writes what this rank gives in a round, at most Shape::most bytes, into its places; once, in the order of rounds.
    virtual void give(uint64_t round) = 0;
    /// What a rank gives in a round is there, in its places; once for each, in the order of rounds, the own rank's first.
    virtual void take_from(uint32_t rank, uint64_t round) = 0;
    /// All is.
    virtual void take(uint64_t round) = 0;
    /// How many rounds have to be taken before this one can be given.
    virtual uint64_t follows(uint64_t /*round*/) const { return 0; }
    /// The last thing that happens to the note: it may end here, and with the last one the board.
    virtual void done() = 0;

   protected:
    virtual ~Note() = default;

   private:
    friend class Board;
    uint64_t number_ = 0;  // of its first round, among all
    uint64_t rounds_ = 1;
    uint64_t given_ = 0, taken_ = 0;
    uint32_t first_ = 0, last_ = 0;
    uint32_t seen_ = 0;  // ranks, in this round
    Note* next_ = nullptr;
  };

  /// `memory`: bytes() of it, zero at first, aligned to cache lines. `ranks`: those that it is for.
  Board(pml::Lane&, std::byte* memory, uint32_t rank, uint32_t size, Shape, pml::Company& ranks, Waking&);
  ~Board() {
    if (first_) lane_.unwatch(*this);
  }
  static size_t bytes(uint32_t ranks, Shape s) { return ranks * (sizeof(Progress) + s.slots * stride(s)); }
  const Shape& shape() const { return shape_; }
  /// Is anything under way?
  bool busy() const { return first_; }

  /// Cache lines that so many given bytes come in.
  static uint64_t lines(uint64_t given) { return (sizeof(Head) + given + 63) / 64; }

  void post(Note&);
  /// Where a rank gives something to all in a round, from give() to take().
  std::byte* place(uint32_t rank, const Note& note, uint64_t round) {
    return reinterpret_cast<std::byte*>(&slot(rank, note.number_ + round)) + front_;
  }
  /// Where it gives `bytes` to one of them, as much for each. Two ranks change places each time that slots have taken their turns:
  /// each writes where it has read, as those lines came to its cache to stay.
  std::byte* place_for(uint32_t to, uint32_t from, const Note& note, uint64_t round, uint64_t bytes) {
    if (size_ > 2 && changed_places(note.number_ + round)) std::swap(to, from);
    return place(from, note, round) + (to == from ? size_ - 1 : to > from ? to - 1 : to) * bytes;  // the own one last
  }

 private:
  /// In front of what a rank gives.
  struct Head {
    std::atomic<uint64_t> number;
    uint64_t unused;
  };
  /// All up to this one have been taken by the rank, as far as it has told.
  struct alignas(64) Progress {
    std::atomic<uint64_t> taken;
  };
  /// What is long begins with a line of its own.
  static constexpr uint64_t front(Shape s) { return s.most > kBrief.most ? 64 : sizeof(Head); }
  static constexpr uint64_t stride(Shape s) { return (front(s) + s.most + 63) & ~uint64_t{63}; }

  Head& slot(uint32_t rank, uint64_t number) {
    const uint64_t place = size_ == 2 && changed_places(number) ? 1 - rank : rank;
    return *reinterpret_cast<Head*>(slots_ + ((place << lap_) + (number & (shape_.slots - 1))) * stride_);
  }
  bool changed_places(uint64_t number) const { return number >> lap_ & 1; }
  bool is_free(uint64_t number);
  bool give(Note&);
  bool take(Note&);
  bool advance(Note&);
  int advance_all();
  void put_away(Note* before, Note&);
  void tell();

  pml::Lane& lane_;
  Waking& waking_;
  const Shape shape_;
  const int lap_;  // numbers until slots take their turns again, as a power of two
  const uint64_t front_, stride_;
  const uint64_t told_every_;  // who is behind comes so far in any case, so that nobody waits for ever
  Progress* const progress_;
  std::byte* const slots_;
  const uint32_t rank_, size_;
  uint64_t posted_ = 0;  // rounds
  uint64_t told_ = 0;
  uint64_t all_taken_ = 0;  // by all, as far as known
  Note* first_ = nullptr;   // under way, in the order of numbers
  Note* last_ = nullptr;
};

}  // namespace weft::coll::node
