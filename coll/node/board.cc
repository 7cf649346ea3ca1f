#include "coll/node/board.h"

#include <algorithm>
#include <bit>

namespace weft::coll::node {

Board::Board(pml::Lane& lane, std::byte* memory, uint32_t rank, uint32_t size, Shape shape, pml::Company& ranks, Waking& waking)
    : lane_(lane),
      waking_(waking),
      shape_(shape),
      lap_(std::countr_zero(shape.slots)),
      front_(front(shape)),
      stride_(stride(shape)),
      told_every_(std::max<uint64_t>(shape.slots / 4, 1)),
      progress_(reinterpret_cast<Progress*>(memory)),
      slots_(memory + size * sizeof(Progress)),
      rank_(rank),
      size_(size) {
  company = &ranks;
  look = [](pml::Watch& self) { return static_cast<Board&>(self).advance_all(); };
}

/// Have all ranks taken what stood in the slot before?
bool Board::is_free(uint64_t number) {
  if (number <= shape_.slots || all_taken_ >= number - shape_.slots) return true;
  all_taken_ = ~uint64_t{0};
  for (uint32_t r = 0; r < size_; ++r) all_taken_ = std::min(all_taken_, progress_[r].taken.load(std::memory_order_acquire));
  return all_taken_ >= number - shape_.slots;
}

/// Shows this rank's part of the next round, if that can be now.
bool Board::give(Note& note) {
  const uint64_t round = note.given_, number = note.number_ + round;
  if (round == note.rounds_ || note.follows(round) > note.taken_ || !is_free(number)) return false;
  Head& own = slot(rank_, number);
  note.give(round);
  waking_.tell(own.number, number);
  ++note.given_;
  return true;
}

/// Takes of the next round, if this rank has given its part of it, what others show. True if that was all.
bool Board::take(Note& note) {
  if (note.taken_ == note.given_) return false;
  const uint64_t number = note.number_ + note.taken_;
  const uint32_t all = note.last_ - note.first_;
  for (; note.seen_ < all; ++note.seen_) {
    const uint32_t behind = (rank_ < note.last_ && rank_ >= note.first_ ? rank_ : note.first_) + note.seen_;
    const uint32_t rank = behind < note.last_ ? behind : behind - all;
    if (slot(rank, number).number.load(std::memory_order_acquire) != number) return false;
    note.take_from(rank, note.taken_);
  }
  note.take(note.taken_);
  ++note.taken_;
  note.seen_ = 0;
  return true;
}

/// As far as it goes. True if that is the end.
bool Board::advance(Note& note) {
  while (give(note) | take(note)) continue;
  return note.taken_ == note.rounds_;
}

void Board::post(Note& note) {
  note.number_ = posted_ + 1;
  posted_ += note.rounds_;
  if (!first_ && advance(note)) {
    tell();
    return note.done();
  }
  (first_ ? last_->next_ : first_) = &note;
  last_ = &note;
  if (first_ == &note) {
    lane_.watch(*this);
    tell();
  } else {
    advance_all();
  }
}

/// Where a round cannot be given yet, none behind it can.
int Board::advance_all() {
  int events = 0;
  Note* before = nullptr;
  for (Note* note = first_; note;) {
    Note* const later = note->next_;
    const uint64_t so_far = note->given_ + note->taken_;
    const bool over = advance(*note);
    events += note->given_ + note->taken_ > so_far;
    const bool goes_on = note->given_ == note->rounds_;
    if (over) {
      put_away(before, *note);
      note->done();  // behind the last one there is nothing to look at any more
    } else {
      before = note;
      if (note == first_) tell();
    }
    if (!goes_on) break;
    note = later;
  }
  return events;
}

void Board::put_away(Note* before, Note& note) {
  (before ? before->next_ : first_) = note.next_;
  if (!note.next_) last_ = before;
  tell();
  if (!first_) lane_.unwatch(*this);
}

void Board::tell() {
  const uint64_t taken = first_ ? first_->number_ + first_->taken_ - 1 : posted_;
  if (taken < told_ + told_every_) return;
  told_ = taken - taken % told_every_;
  waking_.tell(progress_[rank_].taken, told_);
}

}  // namespace weft::coll::node
