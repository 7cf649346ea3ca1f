#include "pml/matcher.h"

#include <bit>
#include <cstdio>

namespace weft::pml {
namespace {

constexpr size_t kFirstChains = 64;

template <class C, class T>
void append(C& chain, T& entry) {
  entry.next = nullptr;
  entry.prev = chain.tail;
  (chain.tail ? chain.tail->next : chain.head) = &entry;
  chain.tail = &entry;
}

template <class C, class T>
void unlink(C& chain, T& entry) {
  (entry.prev ? entry.prev->next : chain.head) = entry.next;
  (entry.next ? entry.next->prev : chain.tail) = entry.prev;
  entry.next = entry.prev = nullptr;
}

int shift_for(size_t chains) { return 64 - std::countr_zero(chains); }

}  // namespace

Matcher::Matcher()
    : exact_shift_(shift_for(kFirstChains)),
      kept_shift_(exact_shift_),
      exact_(kFirstChains),
      wild_(kContexts),
      kept_(kFirstChains),
      arrivals_(kContexts) {}

Matcher::Chain<Transfer>& Matcher::chain_of(const Transfer& r) {
  return wild(r) ? wild_[context_index(r.match_context)] : exact_[mix(r.match_context, r.source, r.tag) >> exact_shift_];
}

Transfer* Matcher::look(const btl::Header& h) const {
  Transfer* found = exact_chain(h.context, h.source, h.tag).head;
  while (found && !(found->match_context == h.context && found->source == h.source && found->tag == h.tag)) found = found->next;
  for (Transfer* r = wild_[context_index(h.context)].head; r && !(found && found->order < r->order); r = r->next) {
    if (!matches(*r, h)) continue;
    return r;
  }
  return found;
}

Transfer* Matcher::search(const btl::Header& h) {
  Transfer* found = look(h);
  if (found) {
    unlink(chain_of(*found), *found);
    --posted_;
  }
  return found;
}

void Matcher::insert_behind(Transfer& receive) {
  while (Transfer* first = alike_.pop_front()) insert(*first);
  insert(receive);
}

void Matcher::insert(Transfer& receive) {
  receive.order = next_order_++;
  if (posted_ >= 2 * exact_.size()) grow_exact();
  append(chain_of(receive), receive);
  ++posted_;
}

void Matcher::grow_exact() {
  std::vector<Chain<Transfer>> old(exact_.size() * 4);
  old.swap(exact_);
  exact_shift_ = shift_for(exact_.size());
  for (auto& chain : old)  // entries of one key stand in one old chain, so that their order is kept
    for (Transfer* r = chain.head; r;) {
      Transfer* next = r->next;
      append(chain_of(*r), *r);
      r = next;
    }
}

void Matcher::grow_kept() {
  std::vector<Chain<Unexpected>> old(kept_.size() * 4);
  old.swap(kept_);
  kept_shift_ = shift_for(kept_.size());
  for (auto& chain : old)
    for (Unexpected* u = chain.head; u;) {
      Unexpected* next = u->next;
      append(kept_chain(u->header.context, u->header.source, u->header.tag), *u);
      u = next;
    }
}

void Matcher::keep(Unexpected& u) {
  if (unexpected_ >= 2 * kept_.size()) grow_kept();
  append(kept_chain(u.header.context, u.header.source, u.header.tag), u);
  auto& order = arrivals_[context_index(u.header.context)];
  u.later = nullptr;
  u.earlier = order.tail;
  (order.tail ? order.tail->later : order.head) = &u;
  order.tail = &u;
  ++unexpected_;
}

Unexpected* Matcher::find(Context context, int32_t source, int32_t tag) const {
  if (!unexpected_) return nullptr;
  if (source != any_source && tag != any_tag) {
    Unexpected* u = kept_[mix(context, source, tag) >> kept_shift_].head;
    while (u && !(u->header.context == context && u->header.source == source && u->header.tag == tag)) u = u->next;
    return u;
  }
  for (Unexpected* u = arrivals_[context_index(context)].head; u; u = u->later) {
    const btl::Header& h = u->header;
    if (h.context == context && (source == any_source || source == h.source) && (tag == any_tag || tag == h.tag)) return u;
  }
  return nullptr;
}

void Matcher::take(Unexpected& u) {
  unlink(kept_chain(u.header.context, u.header.source, u.header.tag), u);
  auto& order = arrivals_[context_index(u.header.context)];
  (u.earlier ? u.earlier->later : order.head) = u.later;
  (u.later ? u.later->earlier : order.tail) = u.earlier;
  u.later = u.earlier = nullptr;
  --unexpected_;
}

bool Matcher::cancel(Transfer& receive) {
  if (receive.stage != Stage::posted) return false;
  if (alike_.empty()) {
    unlink(chain_of(receive), receive);
    --posted_;
  } else {
    alike_.remove(receive);
  }
  return true;
}

std::string Matcher::dump(size_t limit) const {
  std::string text;
  char line[160];
  size_t shown = 0;
  auto posted = [&](const Transfer& r) {
    if (shown++ >= limit) return;
    snprintf(line, sizeof line, "receive posted: context %#lx source %d tag %d room %lu bytes\n",
             static_cast<unsigned long>(r.match_context), r.source, r.tag, static_cast<unsigned long>(r.capacity));
    text += line;
  };
  auto waiting = [&](const Unexpected& u) {
    if (shown++ >= limit) return;
    snprintf(line, sizeof line, "message waiting: context %#lx source %d tag %d, %lu bytes\n", static_cast<unsigned long>(u.header.context),
             u.header.source, u.header.tag, static_cast<unsigned long>(message_bytes(u.header, u.payload)));
    text += line;
  };
  auto& self = const_cast<Matcher&>(*this);  // the walks hand out mutable entries; these visitors change nothing
  self.each_posted(posted);
  shown = 0;
  self.each_unexpected(waiting);
  return text;
}

}  // namespace weft::pml
