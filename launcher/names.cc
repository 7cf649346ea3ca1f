#include "launcher/names.h"

#include <algorithm>

namespace weft::launcher {

bool NameService::visible(const Item& item, const Asker& asker) {
  switch (item.audience) {
    case Audience::all: return true;
    case Audience::space: return item.owner.who.space == asker.who.space;
    case Audience::host: return item.owner.host == asker.host;
    case Audience::self: return item.owner.who == asker.who;
  }
  return false;
}

NameService::Shelf::iterator NameService::find(const std::string& name, const Asker& asker) {
  auto [at, end] = shelf_.equal_range(name);
  for (; at != end; ++at)
    if (visible(at->second, asker)) return at;
  return shelf_.end();
}

NameService::Shelf::iterator NameService::erase(Shelf::iterator at) {
  bytes_ -= at->first.size() + at->second.value.size();
  return shelf_.erase(at);
}

NameService::Outcome NameService::publish(const Asker& owner, const Items& items, Audience audience, Lasting lasting) {
  size_t more = 0;
  for (size_t i = 0; i < items.size(); i++) {
    more += items[i].first.size() + items[i].second.size();
    if (find(items[i].first, owner) != shelf_.end()) return Outcome::duplicate;
    for (size_t other = 0; other < i; other++)
      if (items[other].first == items[i].first) return Outcome::duplicate;
  }
  if (more > limits_.bytes - bytes_ || items.size() > limits_.items - shelf_.size()) return Outcome::full;
  for (const auto& [name, value] : items) shelf_.emplace(name, Item{owner, value, audience, lasting});
  bytes_ += more;
  retry();
  return Outcome::good;
}

void NameService::unpublish(const Proc& owner, const std::vector<std::string>& names) {
  for (auto at = shelf_.begin(); at != shelf_.end();) {
    const bool named = names.empty() || std::find(names.begin(), names.end(), at->first) != names.end();
    at = named && at->second.owner.who == owner ? erase(at) : std::next(at);
  }
}

/// False: it waits on.
bool NameService::try_answer(const Wish& wish, bool last_chance) {
  std::vector<Shelf::iterator> places;
  for (const std::string& name : wish.names)
    if (auto at = find(name, wish.asker); at != shelf_.end()) places.push_back(at);
  const bool all = places.size() == wish.names.size();
  if (!all && wish.wait && !last_chance) return false;
  std::vector<Found> found;
  for (auto at : places) found.push_back({at->second.owner.who, at->first, at->second.value});
  std::sort(places.begin(), places.end(), [](auto a, auto b) { return &*a < &*b; });
  places.erase(std::unique(places.begin(), places.end()), places.end());  // a name may be asked for twice
  for (auto at : places)
    if (at->second.lasting == Lasting::first_read) erase(at);
  wish.answer(all ? Outcome::good : last_chance ? Outcome::late : found.empty() ? Outcome::not_found : Outcome::partial, found);
  return true;
}

void NameService::lookup(Wish wish) {
  if (try_answer(wish, false)) return;
  if (waiting_.size() >= limits_.waiting) return wish.answer(Outcome::full, {});
  waiting_.push_back(std::move(wish));
}

/// In the order in which they were asked. Answers may ask again.
void NameService::retry() {
  std::vector<Wish> again;
  std::swap(again, waiting_);
  for (Wish& wish : again) lookup(std::move(wish));
}

void NameService::gone(const Proc& who, bool whole_space) {
  std::erase_if(waiting_, [&](const Wish& wish) { return wish.asker.who == who; });
  for (auto at = shelf_.begin(); at != shelf_.end();) {
    const Item& item = at->second;
    const bool with_process = item.lasting == Lasting::process && item.owner.who == who;
    const bool with_space = whole_space && item.lasting == Lasting::space && item.owner.who.space == who.space;
    at = with_process || with_space ? erase(at) : std::next(at);
  }
}

uint64_t NameService::next_tick_ns() const {
  uint64_t next = 0;
  for (const Wish& wish : waiting_)
    if (wish.give_up_ns && (!next || wish.give_up_ns < next)) next = wish.give_up_ns;
  return next;
}

void NameService::tick(uint64_t now_ns) {
  std::vector<Wish> late;
  for (size_t i = 0; i < waiting_.size();) {
    if (!waiting_[i].give_up_ns || now_ns < waiting_[i].give_up_ns) {
      i++;
      continue;
    }
    late.push_back(std::move(waiting_[i]));
    waiting_.erase(waiting_.begin() + long(i));
  }
  for (const Wish& wish : late) try_answer(wish, true);
}

}  // namespace weft::launcher
