#include "coll/node/board.h"

#include <algorithm>

namespace weft::coll::node {

Board::Board(pml::Lane& lane, std::byte* memory, uint32_t rank, uint32_t size)
    : lane_(lane),
      progress_(reinterpret_cast<Progress*>(memory)),
      slots_(reinterpret_cast<Slot*>(memory + size * sizeof(Progress))),
      rank_(rank),
      size_(size) {
  look = [](pml::Watch& self) { return static_cast<Board&>(self).take_all(); };
}

/// Have all ranks taken what stood in the slot before?
bool Board::is_free(uint64_t number) {
  if (number <= kSlots || all_taken_ >= number - kSlots) return true;
  all_taken_ = ~uint64_t{0};
  for (uint32_t r = 0; r < size_; ++r) all_taken_ = std::min(all_taken_, progress_[r].taken.load(std::memory_order_acquire));
  return all_taken_ >= number - kSlots;
}

/// Has this rank shown its part, or could it now?
bool Board::give(Note& note) {
  if (note.given_) return true;
  if (!is_free(note.number_)) return false;
  Slot& own = slot(rank_, note.number_);
  note.give(own.data);
  own.number.store(note.number_, std::memory_order_release);
  return note.given_ = true;
}

/// Do all show what is to be taken?
bool Board::ready(Note& note) {
  while (note.first_ < note.last_ && slot(note.last_ - 1, note.number_).number.load(std::memory_order_acquire) == note.number_)
    --note.last_;
  return note.first_ == note.last_;
}

void Board::post(Note& note) {
  note.number_ = ++posted_;
  if (give(note) && ready(note)) {
    note.take();
    tell();
    return note.done();
  }
  (first_ ? last_->next_ : first_) = &note;
  last_ = &note;
  if (first_ == &note) lane_.watch(*this);
}

/// Takes what has come. Who has not given yet has nothing after it that has.
int Board::take_all() {
  int taken = 0;
  Note* before = nullptr;
  for (Note* note = first_; note && give(*note);) {
    Note* const later = note->next_;
    if (ready(*note)) {
      note->take();
      put_away(before, *note);
      ++taken;
      note->done();  // behind the last one there is nothing to look at any more
    } else {
      before = note;
    }
    note = later;
  }
  return taken;
}

void Board::put_away(Note* before, Note& note) {
  (before ? before->next_ : first_) = note.next_;
  if (!note.next_) last_ = before;
  tell();
  if (!first_) lane_.unwatch(*this);
}

void Board::tell() {
  const uint64_t taken = first_ ? first_->number_ - 1 : posted_;
  if (taken < told_ + kToldEvery) return;
  told_ = taken - taken % kToldEvery;
  progress_[rank_].taken.store(told_, std::memory_order_release);
}

}  // namespace weft::coll::node
