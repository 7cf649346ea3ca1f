// The matcher: brings arrived messages and posted receives together, in the order that MPI prescribes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pml/message.h"
#include "pml/transfer.h"

namespace weft::pml {

/// One per lane; all calls under the lane's lock. Posted receives that are all for the same messages stand in one list, as where one
/// rank streams to another. Otherwise those without wildcards are found by a hash of (context, source, tag), those with wildcards in a list
/// per context; of two that match, the one posted first wins. Arrived messages stand in
/// a list by (context, source, tag) and in one by context, so that a receive with wildcards sees them in order of arrival.
class Matcher {
 public:
  Matcher();
  Matcher(const Matcher&) = delete;

  /// The posted receive that a message goes to, taken out; null: none.
  Transfer* arrived(const btl::Header& h) {
    if (alike_.empty()) return posted_ ? search(h) : nullptr;
    return next_alike(h);
  }

  /// The same, if it is the first one of those that are alike.
  Transfer* next_alike(const btl::Header& h) { return !alike_.empty() && matches(*alike_.front(), h) ? alike_.pop_front() : nullptr; }

  /// The same receive, left where it is.
  Transfer* awaits(const btl::Header& h) const {
    if (!alike_.empty()) return matches(*alike_.front(), h) ? alike_.front() : nullptr;
    return posted_ ? look(h) : nullptr;
  }

  /// Is a receive only the next one of those that are alike?
  bool goes_on_alike(Context context, int32_t source, int32_t tag) const { return !unexpected_ && continues_alike(context, source, tag); }
  /// The first of those that are alike; null: there are none. The others follow it.
  Transfer* first_alike() const { return alike_.front(); }
  void take_alike_until(Transfer* rest) { alike_.drop_until(rest); }
  /// Posts it, if so.
  void post_alike(Transfer& receive) { alike_.push_back(receive); }

  /// Keeps a message for which arrived() found nothing.
  void keep(Unexpected&);

  /// The earliest message that the receive matches, taken out; null: the receive is posted.
  Unexpected* post(Transfer& receive) {
    if (unexpected_) {
      if (Unexpected* found = find(receive.match_context, receive.source, receive.tag)) {
        take(*found);
        return found;
      }
    }
    if (continues_alike(receive.match_context, receive.source, receive.tag))
      alike_.push_back(receive);
    else
      insert_behind(receive);
    return nullptr;
  }

  /// The earliest message that matches; it stays. Null: none.
  Unexpected* find(Context, int32_t source, int32_t tag) const;
  /// Takes a message out.
  void take(Unexpected&);
  /// Takes a posted receive out; false if it was not posted (any more).
  bool cancel(Transfer&);

  /// Calls `visit` for each posted receive; it may cancel the one it is given.
  template <class Visit>
  void each_posted(Visit&& visit);
  template <class Visit>
  void each_unexpected(Visit&& visit);
  /// Is there a posted receive that `test` is true of? Of those that are alike it is asked about one.
  template <class Test>
  bool any_posted(Test&& test) const;

  /// Is there nothing at all?
  bool idle() const { return !posted_ && !unexpected_ && alike_.empty(); }
  uint64_t posted() const { return posted_ + alike_.size(); }
  uint64_t unexpected() const { return unexpected_; }
  /// One line per posted receive and waiting message, for reports of hangs; at most `limit` of each.
  std::string dump(size_t limit = 20) const;

 private:
  template <class T>
  struct Chain {
    T *head = nullptr, *tail = nullptr;
  };
  static constexpr size_t kContexts = 64;

  static bool matches(const Transfer& r, const btl::Header& h) {
    return r.match_context == h.context && (r.source == h.source || r.source == any_source) && (r.tag == h.tag || r.tag == any_tag);
  }
  /// May such a receive stand in the list of those that are alike?
  bool continues_alike(Context context, int32_t source, int32_t tag) const {
    if (posted_) return false;
    const Transfer* const first = alike_.front();
    return !first || (first->match_context == context && first->source == source && first->tag == tag);
  }
  static bool wild(const Transfer& r) { return r.source == any_source || r.tag == any_tag; }
  static uint64_t mix(Context context, int32_t source, int32_t tag) {
    const uint64_t key = (context * 0x9e3779b97f4a7c15u) ^ (uint64_t{static_cast<uint32_t>(source)} << 32 | static_cast<uint32_t>(tag));
    return key * 0xd6e8feb86659fd93u;
  }
  static size_t context_index(Context context) { return (context * 0x9e3779b97f4a7c15u) >> 58; }

  const Chain<Transfer>& exact_chain(Context c, int32_t s, int32_t t) const { return exact_[mix(c, s, t) >> exact_shift_]; }
  Chain<Unexpected>& kept_chain(Context c, int32_t s, int32_t t) { return kept_[mix(c, s, t) >> kept_shift_]; }
  Chain<Transfer>& chain_of(const Transfer& r);

  Transfer* look(const btl::Header&) const;
  Transfer* search(const btl::Header&);
  void insert_behind(Transfer&);
  void insert(Transfer&);
  void grow_exact();
  void grow_kept();

  TransferList alike_;   // posted receives, all for the same messages; any others among them, and all stand in the chains
  uint64_t posted_ = 0;  // in the chains
  uint64_t unexpected_ = 0;
  uint64_t next_order_ = 0;
  int exact_shift_, kept_shift_;
  std::vector<Chain<Transfer>> exact_;
  std::vector<Chain<Transfer>> wild_;  // by context
  std::vector<Chain<Unexpected>> kept_;
  std::vector<Chain<Unexpected>> arrivals_;  // by context
};

template <class Visit>
void Matcher::each_posted(Visit&& visit) {
  const auto walk = [&](Transfer* first) {
    for (Transfer* r = first; r;) {
      Transfer* next = r->next;
      visit(*r);
      r = next;
    }
  };
  walk(alike_.front());
  for (auto* table : {&exact_, &wild_})
    for (auto& chain : *table) walk(chain.head);
}

template <class Test>
bool Matcher::any_posted(Test&& test) const {
  if (!alike_.empty()) return test(*alike_.front());
  uint64_t left = posted_;
  for (auto* table : {&exact_, &wild_})
    for (auto chain = table->begin(); left && chain != table->end(); ++chain)
      for (const Transfer* r = chain->head; r; r = r->next, --left)
        if (test(*r)) return true;
  return false;
}

template <class Visit>
void Matcher::each_unexpected(Visit&& visit) {
  for (auto& chain : arrivals_)
    for (Unexpected* u = chain.head; u;) {
      Unexpected* next = u->later;
      visit(*u);
      u = next;
    }
}

}  // namespace weft::pml
