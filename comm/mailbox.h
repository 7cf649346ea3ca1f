// Letters between processes that agree on a new communicator: each bears the name of its agreement, of any length, by which it is matched.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pml/lane.h"

namespace weft::comm {

/// The longest name of an agreement, and the most that one letter says.
constexpr size_t kLongestName = 1100, kMostNews = 64;

/// The name and what is said.
using Letter = std::vector<std::byte>;
Letter write_letter(std::string_view name, const void* news, size_t bytes);
/// The letter as what is sent; it must live as long.
pml::Buffer sealed(const Letter& letter);
/// All letters have one tag in Traffic::agreement.
constexpr int kLetterTag = 0;

/// What a process gets of such letters. Those between two processes arrive in order, but agreements may run in any order and in several
/// threads: whoever gets another one's letter hands it over, or keeps it for who will ask. Thread-safe.
class Mailbox {
 public:
  /// Waits for the next letter of rank `from` of the team (of an inter-communicator: of the remote group) that bears `name`, and copies
  /// `bytes` of news out of it.
  Status receive(pml::Team& team, int from, std::string_view name, void* news, size_t bytes);

 private:
  /// Somebody who waits: for a letter, perhaps his, that arrives in `letter`.
  struct Waiter {
    std::string_view name;
    Letter letter;
    pml::Request* arriving = nullptr;
  };
  /// Of one sender.
  struct Box {
    std::vector<Waiter*> waiters;
    std::deque<Letter> kept;  ///< that nobody has asked for yet
  };
  struct Visit;
  using Key = std::pair<pml::Context, int>;

  static void expect(pml::Team& team, int from, Waiter& waiter);
  static void sort(pml::Team& team, int from, Box& box);
  bool enter(pml::Team& team, int from, Waiter& waiter);
  void leave(pml::Team& team, int from, Waiter& waiter);

  std::mutex lock_;  // taken within a lane's
  std::map<Key, Box> boxes_;
};

}  // namespace weft::comm
