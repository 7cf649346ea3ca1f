// What was handed to a queue pair and is not known to be done. Queue pairs finish in order, and only some work requests report it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::btl::verbs {

/// `Item` is what is to be released when a work request is done.
template <class Item>
class Outstanding {
 public:
  explicit Outstanding(uint32_t depth = 0) : ring_(depth) {}

  uint32_t depth() const { return uint32_t(ring_.size()); }
  uint32_t count() const { return next_ - done_; }
  uint32_t room() const { return depth() - count(); }
  bool empty() const { return next_ == done_; }

  /// Must the next work request ask for a report, so that its room becomes free some time? Every 16th does, and at least two of a ring.
  bool report_due() const { return next_ - reported_ + 1 >= (depth() < 32 ? (depth() + 1) / 2 : 16); }
  /// Will everything posted be reported?
  bool all_reported() const { return reported_ == next_; }

  /// Notes a work request that is about to be posted; returns its number. Only if there is room.
  uint32_t add(Item item, bool reports) {
    ring_[next_ % ring_.size()] = item;
    ++next_;
    if (reports) reported_ = next_;
    return next_ - 1;
  }
  /// Takes the newest `n` back: posting them failed.
  void take_back(uint32_t n) { next_ -= n; }

  /// Number `number` has reported: it and all before it are done. Returns how many that were; numbers of the past are ignored.
  template <class Done>
  uint32_t complete(uint32_t number, Done&& done) {
    const uint32_t upto = number + 1;
    if (upto - done_ > count()) return 0;
    uint32_t n = 0;
    for (; done_ != upto; ++n) done(ring_[done_++ % ring_.size()]);
    return n;
  }
  /// Everything is over.
  template <class Done>
  void abandon(Done&& done) {
    while (done_ != next_) done(ring_[done_++ % ring_.size()]);
    reported_ = next_;
  }

 private:
  std::vector<Item> ring_;
  uint32_t done_ = 0, next_ = 0, reported_ = 0;  // numbers, which wrap around
};

}  // namespace weft::btl::verbs
