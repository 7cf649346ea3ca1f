#include "comm/mailbox.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "runtime/base/error.h"
#include "runtime/type/predefined.h"

namespace weft::comm {
namespace {

/// A letter is the length of its name, the name, the news.
constexpr size_t kHead = sizeof(uint32_t);

std::string_view name_of(const Letter& letter) {
  uint32_t length = 0;
  memcpy(&length, letter.data(), kHead);
  return {reinterpret_cast<const char*>(letter.data()) + kHead, std::min<size_t>(length, letter.size() - kHead)};
}

bool arrived(const pml::Request& request) { return request.complete.load(std::memory_order_acquire); }

}  // namespace

Letter write_letter(std::string_view name, const void* news, size_t bytes) {
  Letter letter(kHead + name.size() + bytes);
  const auto length = static_cast<uint32_t>(name.size());
  memcpy(letter.data(), &length, kHead);
  std::ranges::copy(std::as_bytes(std::span(name)), letter.begin() + kHead);
  if (bytes) memcpy(letter.data() + kHead + name.size(), news, bytes);
  return letter;
}

pml::Buffer sealed(const Letter& letter) { return {const_cast<std::byte*>(letter.data()), letter.size(), &type::of(type::Basic::byte)}; }

/// One call of receive(), as its wait sees it.
struct Mailbox::Visit {
  Mailbox* mailbox;
  pml::Team* team;
  int from;
  Waiter* waiter;
  /// Under the lane's lock. A letter that failed to arrive ends the wait of who asked for it.
  static bool over(void* argument) {
    auto& visit = *static_cast<Visit*>(argument);
    std::lock_guard hold(visit.mailbox->lock_);
    sort(*visit.team, visit.from, visit.mailbox->boxes_.find({visit.team->context(), visit.from})->second);
    return arrived(*visit.waiter->arriving);
  }
};

void Mailbox::expect(pml::Team& team, int from, Waiter& waiter) {
  waiter.letter.resize(kHead + kLongestName + kMostNews);
  waiter.arriving = team.lane().ireceive(team, from, kLetterTag, pml::Traffic::agreement, sealed(waiter.letter));
}

/// Hands letters over until everybody who has got one has got his own. There are as many receives as waiters, so that what arrives later
/// comes to one of them.
void Mailbox::sort(pml::Team& team, int from, Box& box) {
  const auto has_own = [](const Waiter& w) { return arrived(*w.arriving) && (w.arriving->outcome.error || name_of(w.letter) == w.name); };
  for (bool again = true; std::exchange(again, false);)
    for (Waiter* waiter : box.waiters) {
      if (!arrived(*waiter->arriving) || has_own(*waiter)) continue;
      const auto addressee =
          std::ranges::find_if(box.waiters, [&](const Waiter* w) { return w->name == name_of(waiter->letter) && !has_own(*w); });
      if (addressee != box.waiters.end()) {
        std::swap(waiter->letter, (*addressee)->letter);
        std::swap(waiter->arriving, (*addressee)->arriving);
      } else {
        box.kept.push_back(std::exchange(waiter->letter, {}));
        release(waiter->arriving);
        expect(team, from, *waiter);
      }
      again = true;
    }
}

/// False if the letter lies here already, which the waiter has got then.
bool Mailbox::enter(pml::Team& team, int from, Waiter& waiter) {
  std::lock_guard hold(lock_);
  Box& box = boxes_[{team.context(), from}];
  const auto kept = std::ranges::find(box.kept, waiter.name, name_of);
  if (kept == box.kept.end()) {
    expect(team, from, waiter);
    box.waiters.push_back(&waiter);
    return true;
  }
  waiter.letter = std::move(*kept);
  box.kept.erase(kept);
  if (box.kept.empty() && box.waiters.empty()) boxes_.erase({team.context(), from});
  return false;
}

void Mailbox::leave(pml::Team& team, int from, Waiter& waiter) {
  std::lock_guard hold(lock_);
  const auto box = boxes_.find({team.context(), from});
  std::erase(box->second.waiters, &waiter);
  if (box->second.kept.empty() && box->second.waiters.empty()) boxes_.erase(box);
}

Status Mailbox::receive(pml::Team& team, int from, std::string_view name, void* news, size_t bytes) {
  pml::Lane& lane = team.lane();
  Waiter waiter{name, {}};
  bool waiting = false;
  lane.locked([&] { waiting = enter(team, from, waiter); });
  if (waiting) {
    Visit visit{this, &team, from, &waiter};
    Status status = lane.wait_until(Visit::over, &visit);
    lane.locked([&] { leave(team, from, waiter); });
    if (status != Status::ok && !arrived(*waiter.arriving)) lane.cancel(*waiter.arriving);
    if (status == Status::ok && waiter.arriving->outcome.error) status = Status::peer_failed;
    release(waiter.arriving);
    if (status != Status::ok) return status;
  }
  memcpy(news, waiter.letter.data() + kHead + name.size(), bytes);
  return Status::ok;
}

}  // namespace weft::comm
