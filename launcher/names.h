// Data that ranks publish under names for each other to look up. Pure: no process, no clock, no PMIx.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launcher/roster.h"

namespace weft::launcher {

/// Who may see what was published.
enum class Audience : uint8_t { all, space, host, self };
/// When it goes by itself.
enum class Lasting : uint8_t { job, first_read, process, space };

/// Bounded in all directions: what does not fit is refused, nothing is forgotten.
class NameService {
 public:
  struct Limits {
    size_t bytes = 64u << 20;  ///< of all names and values
    size_t items = 1u << 20;
    size_t waiting = 1u << 16;  ///< lookups
  };
  struct Asker {
    Proc who;
    uint32_t host;
  };
  enum class Outcome : uint8_t { good, partial, not_found, duplicate, full, late };
  struct Found {
    Proc owner;
    std::string name, value;
  };
  using Answer = std::function<void(Outcome, const std::vector<Found>&)>;
  struct Wish {
    Asker asker;
    std::vector<std::string> names;
    bool wait = false;        ///< until all are there
    uint64_t give_up_ns = 0;  ///< 0: never
    Answer answer;            ///< called once; not if the asker has gone
  };
  using Items = std::vector<std::pair<std::string, std::string>>;

  NameService() = default;
  explicit NameService(Limits limits) : limits_(limits) {}

  /// All or nothing. `duplicate`: the publisher itself can see such a name already.
  Outcome publish(const Asker& owner, const Items& items, Audience audience, Lasting lasting);
  /// Of one owner; without `names` all.
  void unpublish(const Proc& owner, const std::vector<std::string>& names);
  void lookup(Wish wish);

  /// A process has ended, and perhaps with it the last of its space.
  void gone(const Proc& who, bool whole_space);

  /// When tick() must be called; 0: never.
  uint64_t next_tick_ns() const;
  void tick(uint64_t now_ns);

 private:
  struct Item {
    Asker owner;
    std::string value;
    Audience audience;
    Lasting lasting;
  };
  using Shelf = std::multimap<std::string, Item>;

  Limits limits_;
  Shelf shelf_;
  size_t bytes_ = 0;
  std::vector<Wish> waiting_;

  static bool visible(const Item& item, const Asker& asker);
  Shelf::iterator find(const std::string& name, const Asker& asker);
  Shelf::iterator erase(Shelf::iterator at);
  bool try_answer(const Wish& wish, bool last_chance);
  void retry();
};

}  // namespace weft::launcher
