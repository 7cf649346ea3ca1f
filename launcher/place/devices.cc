#include "launcher/place/devices.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <tuple>

#include "launcher/place/machine.h"
#include "launcher/place/words.h"

namespace weft::placement {
namespace {

using topo::CpuSet;
using topo::Device;

bool overlap(CpuSet a, const CpuSet& b) { return !(a &= b).empty(); }

/// "0000:1b:00.0" as a number.
int64_t bus_number(const Device& device) {
  std::string digits = device.bus;
  std::erase_if(digits, [](char c) { return c == ':' || c == '.'; });
  return strtoll(digits.c_str(), nullptr, 16);
}

class Equipper {
 public:
  Equipper(const Request& request, const Host& host, const std::vector<Seat>& seats)
      : each_(request.gpus_each), host_(host), seats_(seats) {
    for (const Device& device : host.machine->hardware.devices) (device.kind == Device::Kind::gpu ? gpus_ : nics_).push_back(&device);
    order_.resize(gpus_.size());
    std::iota(order_.begin(), order_.end(), 0u);
    // neighbours in the tree of buses stand together; a user's own order is kept where it does not matter
    std::ranges::stable_sort(order_, [&](uint32_t a, uint32_t b) { return rank_of_path(a) < rank_of_path(b); });
    taken_.resize(gpus_.size());
    given_.resize(seats.size());
    usage_.resize(nics_.size());
  }

  Result<Equipment> equip() {
    if (uint64_t{each_} * seats_.size() > gpus_.size()) return too_few();
    std::vector<uint32_t> anywhere;
    for (uint32_t s = 0; s < seats_.size(); ++s)
      if (seats_[s].within.empty())
        anywhere.push_back(s);
      else
        take_near(s);
    std::vector<uint32_t> free;
    for (const uint32_t gpu : order_)
      if (!taken_[gpu]) free.push_back(gpu);
    spread(free, anywhere, 0);
    return result();
  }

 private:
  const uint32_t each_;
  const Host& host_;
  const std::vector<Seat>& seats_;
  std::vector<const Device*> gpus_, nics_;
  std::vector<uint32_t> order_;  ///< GPUs, by their places
  std::vector<bool> taken_;
  std::vector<std::vector<uint32_t>> given_;  ///< GPUs of each seat
  std::vector<uint32_t> usage_;               ///< GPUs that each interface serves

  /// Where a GPU's path first occurs among all: a key that keeps equal beginnings together.
  std::vector<size_t> rank_of_path(uint32_t gpu) const {
    std::vector<size_t> key;
    for (size_t depth = 1; depth <= gpus_[gpu]->path.size(); ++depth)
      for (size_t other = 0; other < gpus_.size(); ++other)
        if (topo::nearness(*gpus_[gpu], *gpus_[other]) >= depth) {
          key.push_back(other);
          break;
        }
    return key;
  }

  /// The free GPUs that are next to the seat's CPUs, then any.
  void take_near(uint32_t s) {
    for (const bool anywhere : {false, true})
      for (const uint32_t gpu : order_) {
        if (given_[s].size() == each_) return;
        if (taken_[gpu] || (!anywhere && !overlap(gpus_[gpu]->near, seats_[s].within))) continue;
        give(s, gpu);
      }
  }

  void give(uint32_t s, uint32_t gpu) {
    taken_[gpu] = true;
    given_[s].push_back(gpu);
  }

  /// Runs of GPUs that hang from the same thing at this depth.
  std::vector<std::vector<uint32_t>> groups(const std::vector<uint32_t>& gpus, size_t depth) const {
    std::vector<std::vector<uint32_t>> all;
    for (const uint32_t gpu : gpus) {
      const bool together = !all.empty() && gpus_[all.back()[0]]->path.size() > depth && gpus_[gpu]->path.size() > depth &&
                            gpus_[all.back()[0]]->path[depth] == gpus_[gpu]->path[depth];
      if (together)
        all.back().push_back(gpu);
      else
        all.push_back({gpu});
    }
    return all;
  }

  /// Spreads seats over GPUs: over the branches of the tree as long as each seat's GPUs fit into one.
  void spread(const std::vector<uint32_t>& gpus, const std::vector<uint32_t>& seats, size_t depth) {
    if (seats.empty()) return;
    const bool deeper = std::ranges::any_of(gpus, [&](uint32_t gpu) { return gpus_[gpu]->path.size() > depth; });
    const auto branches = deeper ? groups(gpus, depth) : std::vector<std::vector<uint32_t>>();
    uint64_t capacity = 0;
    for (const auto& branch : branches) capacity += branch.size() / each_;
    if (capacity < seats.size()) return in_row(gpus, seats);
    const auto counts = divide(branches, seats.size());
    size_t from = 0;
    for (size_t b = 0; b < branches.size(); ++b) {
      const auto first = seats.begin() + static_cast<long>(from);
      spread(branches[b], {first, first + static_cast<long>(counts[b])}, depth + 1);
      from += counts[b];
    }
  }

  /// Seats for each branch: one after another goes to the branch with the largest part of its room left.
  std::vector<size_t> divide(const std::vector<std::vector<uint32_t>>& branches, size_t seats) const {
    std::vector<size_t> counts(branches.size(), 0);
    const auto left = [&](size_t b) {  // per mille, for the comparison alone
      const size_t room = branches[b].size() / each_;
      return room > counts[b] ? 1 + (room - counts[b]) * 1000 / room : 0;
    };
    for (; seats; --seats) {
      size_t best = 0;
      for (size_t b = 1; b < branches.size(); ++b)
        if (left(b) > left(best)) best = b;
      ++counts[best];
    }
    return counts;
  }

  void in_row(const std::vector<uint32_t>& gpus, const std::vector<uint32_t>& seats) {
    for (size_t i = 0; i < seats.size(); ++i)
      for (uint32_t g = 0; g < each_; ++g) give(seats[i], gpus[i * gpus.size() / seats.size() + g]);
  }

  Result<Equipment> result() {
    Equipment all;
    for (const auto& gpus : given_) {
      std::vector<std::string> names, interfaces;
      CpuSet near;
      bool known = true;
      for (const uint32_t gpu : gpus) {
        names.push_back(gpus_[gpu]->name);
        near |= gpus_[gpu]->near;
        known &= !gpus_[gpu]->near.empty();
        if (const std::string nic = nic_for(*gpus_[gpu]); !nic.empty() && std::ranges::find(interfaces, nic) == interfaces.end())
          interfaces.push_back(nic);
      }
      all.gpus.push_back(std::move(names));
      all.nics.push_back(std::move(interfaces));
      all.near.push_back(known ? std::move(near) : CpuSet());
    }
    return all;
  }

  /// Of the nearest interfaces that with the fewest GPUs so far; of these the next on the bus, so that jobs which share a host by
  /// CUDA_VISIBLE_DEVICES choose different ones, too.
  std::string nic_for(const Device& gpu) {
    if (nics_.empty()) return {};
    const auto cost = [&](size_t n) {
      const int64_t apart = bus_number(gpu) - bus_number(*nics_[n]);
      return std::tuple(-static_cast<int64_t>(topo::nearness(gpu, *nics_[n])), usage_[n], apart < 0 ? -apart : apart);
    };
    size_t best = 0;
    for (size_t n = 1; n < nics_.size(); ++n)
      if (cost(n) < cost(best)) best = n;
    ++usage_[best];
    return nics_[best]->name;
  }

  Failure too_few() const {
    const auto most = gpus_.size() / each_;
    const std::string asked =
        std::to_string(each_) + (each_ == 1 ? " GPU" : " GPUs") + " for each of " + counted(seats_.size(), "rank") + " on " + host_.name;
    if (gpus_.empty())
      return {asked + ": there is no GPU that ranks may use (NVIDIA's driver, CUDA_VISIBLE_DEVICES); leave -gpus-per-proc out"};
    return {asked + (uint64_t{each_} * seats_.size() == 1 ? " is " : " are ") + std::to_string(uint64_t{each_} * seats_.size()) +
            ", but there " + (gpus_.size() == 1 ? "is " : "are ") + std::to_string(gpus_.size()) + "; start " +
            (most ? counted(most, "rank") + " there at most" : "no rank there") +
            ", ask for fewer GPUs each, or leave -gpus-per-proc out: all ranks then see all GPUs"};
  }
};

}  // namespace

uint32_t gpus_of(const Machine& machine) {
  return static_cast<uint32_t>(std::ranges::count(machine.hardware.devices, Device::Kind::gpu, &Device::kind));
}

Result<Equipment> equip(const Request& request, const Host& host, const std::vector<Seat>& seats) {
  return Equipper(request, host, seats).equip();
}

}  // namespace weft::placement
