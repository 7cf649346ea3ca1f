// Places for payloads that two processes of a node pass to each other.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace weft::btl::shm {

/// Each cell belongs to one of the two at a time: to the one that has read a payload there last, and that writes its own next one there.
/// A processor that reads a line which another one has written gets it to itself (migratory sharing), so that it writes there at once. To
/// write again where the other one has read takes several times as long: 16 KiB 1.6 instead of 0.4 us between two cores of one L3
/// cache, 6.5 instead of 0.5 between two packages (AMD Zen 4). Who only sends runs out of cells, and goes on through the ring. A payload
/// that nobody has asked for yet can be left in its cell.
class Cells {
 public:
  static constexpr uint32_t kBytes = 64 << 10;
  static constexpr uint32_t kMost = 16;  ///< of a ring: what they hold stays in the caches of both sides

  /// The ring that a cell lies in, as one of the two sees it.
  enum class Home : uint8_t { sent_on, received_on };

  /// Cells of a ring, as soon as it is there: those of the one that this process sends on are its own at first.
  void add(Home home, std::byte* memory, uint32_t count) {
    const uint32_t first = home == Home::sent_on ? 0 : kMost;
    if (memory_[first / kMost]) return;
    memory_[first / kMost] = memory;
    count_[first / kMost] = count;
    if (home != Home::sent_on) return;
    for (uint32_t i = count; i-- > 0;) keep(static_cast<uint8_t>(i));
    came_ -= count;  // not from the other one
  }

  bool any() const { return height_ > 0; }
  /// Had this process, which has none now, better read first, as the other one passes some to it? Once for each time that one has come.
  bool awaited() { return height_ == 0 && std::exchange(asked_, came_) != came_; }
  /// The own one that was read last. It belongs to the other process from then on.
  uint8_t take() {
    const uint8_t cell = stack_[--height_];
    own_ &= ~(1u << cell);
    return cell;
  }
  /// Which one is meant by a number that the other process, who may be anybody, has given with a message.
  static uint8_t named(std::byte number) { return (std::to_integer<uint8_t>(number) ^ kMost) % (2 * kMost); }
  /// Can it have been passed to this process?
  bool lent(uint8_t cell) const { return cell % kMost < count_[cell / kMost] && !((own_ | aside_) & (1u << cell)); }
  /// Its message has been delivered: it has been read, unless it was set aside.
  void passed(uint8_t cell) {
    if (!(aside_ & (1u << cell))) keep(cell);
  }
  /// What has come in it will be read later; false: half of all cells are set aside already, and the others go on passing to and fro.
  bool set_aside(uint8_t cell) {
    if (2 * static_cast<uint32_t>(std::popcount(aside_)) >= count_[0] + count_[1]) return false;
    aside_ |= 1u << cell;
    return true;
  }
  /// The payload of a cell that was set aside has been read.
  void give_back(const std::byte* payload) {
    for (uint32_t mine = aside_; mine; mine &= mine - 1) {
      const auto cell = static_cast<uint8_t>(std::countr_zero(mine));
      if (at(cell) != payload) continue;
      aside_ &= ~(1u << cell);
      return keep(cell);
    }
  }
  std::byte* at(uint8_t cell) const { return memory_[cell / kMost] + size_t{cell % kMost} * kBytes; }

 private:
  void keep(uint8_t cell) {
    own_ |= 1u << cell;
    stack_[height_++] = cell;
    ++came_;
  }

  std::array<std::byte*, 2> memory_ = {};
  std::array<uint32_t, 2> count_ = {};
  std::array<uint8_t, 2 * kMost> stack_ = {};  // the own ones, the latest on top
  uint32_t height_ = 0;
  uint32_t own_ = 0, aside_ = 0;  // a bit each
  uint64_t came_ = 0;             // to this process
  uint64_t asked_ = 0;            // of these when it had none last
};
static_assert(2 * Cells::kMost <= 32);

}  // namespace weft::btl::shm
