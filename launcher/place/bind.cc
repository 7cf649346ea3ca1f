#include "launcher/place/bind.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "launcher/place/devices.h"
#include "launcher/place/machine.h"
#include "launcher/place/words.h"

namespace weft::placement {
namespace {

using topo::CpuSet;

bool overlap(CpuSet a, const CpuSet& b) { return !(a &= b).empty(); }

/// What ranks are bound to, and whether it was said in so many words (then it is done or refused, else done if it fits).
struct Wish {
  Unit unit;
  bool said;
};

std::optional<Wish> wish_of(const Request& request) {
  if (request.bind_to) return Wish{*request.bind_to, true};
  if (request.cores_each) return Wish{core_unit(request), true};
  if (request.map_by && *request.map_by > Unit::node) return Wish{*request.map_by, false};
  return {};
}

class Binder {
 public:
  Binder(const Request& request, const Host& host, const std::vector<Seat>& seats)
      : request_(request),
        host_(host),
        machine_(*host.machine),
        seats_(seats),
        usable_(usable_cpus(machine_, request.cpu_set)),
        cores_(pieces(machine_, core_unit(request), usable_)) {
    for (const Seat& seat : seats) {
      const uint32_t cores = cores_of(request, request.programs[seat.program]);
      wanted_ += cores;
      most_ = std::max(most_, cores);
    }
  }

  Result<Bound> bind() {
    if (!request_.cpu_lists.empty()) return as_listed();
    const auto wish = wish_of(request_);
    if (!wish) return request_.gpus_each ? near_gpus() : by_itself();
    if (wish->unit == Unit::node) return free("not bound, as --bind-to none says");
    auto bound = to(wish->unit);
    if (!bound && !wish->said) return free("not bound: " + bound.failure().text);
    return bound;
  }

 private:
  const Request& request_;
  const Host& host_;
  const Machine& machine_;
  const std::vector<Seat>& seats_;
  const CpuSet usable_;
  const std::vector<CpuSet> cores_;
  uint64_t wanted_ = 0;  ///< cores that all ranks together would like
  uint32_t most_ = 1;    ///< and the most that one does

  std::string core_word() const { return request_.threads_are_cores ? "hardware thread" : "core"; }

  /// Kept to what --cpu-set leaves, and to nothing else.
  Bound free(const std::string& why) const {
    const bool all = request_.cpu_set.empty();
    return finish(std::vector<CpuSet>(seats_.size(), all ? CpuSet() : usable_), why + (all ? "" : "; kept to --cpu-set"));
  }

  Bound finish(std::vector<CpuSet> sets, const std::string& why) const {
    Bound bound{std::move(sets), 1, why, {}, {}};
    CpuSet all;
    for (const CpuSet& set : bound.cpus) all |= set.empty() ? usable_ : set;
    uint64_t at_once = std::min(all.count(), machine_.quota);
    std::map<std::string, uint32_t> together;
    for (const CpuSet& set : bound.cpus)
      if (!set.empty()) {
        const uint64_t ranks = ++together[set.to_string()];
        if (ranks > set.count()) at_once = std::min<uint64_t>(at_once, seats_.size() * set.count() / ranks);
      }
    bound.at_one_time = static_cast<uint32_t>(std::max<uint64_t>(1, at_once));
    return bound;
  }

  /// Each rank gets the user's list for its place on the host; after the last list the first again.
  Result<Bound> as_listed() const {
    std::vector<CpuSet> sets;
    for (size_t s = 0; s < seats_.size(); ++s) {
      const CpuSet& list = request_.cpu_lists[s % request_.cpu_lists.size()];
      if (!usable_.includes(list))
        return Failure{"--bind-to user: CPUs " + list.to_string() + ": ranks on " + host_.name + " may use " + usable_.to_string()};
      sets.push_back(list);
    }
    return finish(std::move(sets), "bound as --bind-to user says");
  }

  /// Why nobody should be bound whom nobody has asked to bind; empty: no reason.
  std::string better_free() const {
    if (machine_.quota < cores_.size())
      return "not bound: a CPU limit grants " + std::to_string(machine_.quota) + " of " + counted(cores_.size(), core_word());
    if (machine_.kinds.size() > 1) return "not bound: the cores are of " + std::to_string(machine_.kinds.size()) + " kinds";
    return {};
  }

  /// Ranks whose GPUs are next to the same CPUs share these; where they are too few, each may use all of them.
  Bound near_gpus() const {
    if (const std::string why = better_free(); !why.empty()) return free(why);
    std::map<std::string, std::vector<size_t>> groups;
    for (size_t s = 0; s < seats_.size(); ++s) groups[within(seats_[s]).to_string()].push_back(s);
    std::vector<CpuSet> sets(seats_.size());
    for (const auto& [cpus, group] : groups) {
      const CpuSet& all = within(seats_[group[0]]);
      const size_t there = pieces(machine_, core_unit(request_), all).size();
      std::vector<CpuSet> parts(group.size(), all);
      if (uint64_t{most_} * group.size() <= there) parts = shares(machine_, core_unit(request_), all, static_cast<uint32_t>(group.size()));
      if (std::ranges::any_of(parts, [&](const CpuSet& set) { return pieces(machine_, core_unit(request_), set).size() < most_; }))
        parts.assign(group.size(), all);
      for (size_t i = 0; i < group.size(); ++i) sets[group[i]] = std::move(parts[i]);
    }
    return finish(std::move(sets), "each rank has its share of the " + core_word() + "s near its GPUs");
  }

  Bound by_itself() const {
    const uint64_t cores = cores_.size();
    if (const std::string why = better_free(); !why.empty()) return free(why);
    if (seats_.size() == 1) return free("not bound: one rank, all cores are its own");
    const uint64_t least = uint64_t{most_} * seats_.size();
    if (least > cores)
      return free("not bound: " + counted(seats_.size(), "rank") + (most_ > 1 ? " of up to " + counted(most_, "thread") : "") + " on " +
                  counted(cores, core_word()));
    const auto count = static_cast<uint32_t>(seats_.size());
    std::vector<CpuSet> sets = shares(machine_, core_unit(request_), usable_, count);
    if (std::ranges::any_of(sets, [&](const CpuSet& set) { return pieces(machine_, core_unit(request_), set).size() < most_; }))
      sets = even_shares(machine_, core_unit(request_), usable_, count);
    return finish(std::move(sets), "each rank has its share of " + counted(cores, core_word()));
  }

  const CpuSet& within(const Seat& seat) const { return seat.within.empty() ? usable_ : seat.within; }

  Result<Bound> to(Unit unit) const { return unit >= Unit::core ? to_cores(unit) : to_pieces(unit); }

  /// Each rank gets the cores of its piece that the fewest have, from the first on.
  Result<Bound> to_cores(Unit unit) const {
    const std::vector<CpuSet> cores = pieces(machine_, unit, usable_);
    const bool fits = wanted_ <= cores.size();
    std::vector<uint32_t> load(cores.size(), 0);
    std::vector<CpuSet> sets;
    for (const Seat& seat : seats_) {
      const Program& program = request_.programs[seat.program];
      const uint32_t count = request_.cores_each || fits ? cores_of(request_, program) : 1;
      std::vector<uint32_t> order;
      for (uint32_t c = 0; c < cores.size(); ++c)
        if (overlap(cores[c], within(seat))) order.push_back(c);
      const uint32_t taken = std::min<uint32_t>(count, static_cast<uint32_t>(order.size()));
      if (taken < request_.cores_each) return too_few(unit, order.size());
      std::ranges::stable_sort(order, {}, [&](uint32_t c) { return load[c]; });
      CpuSet set;
      for (uint32_t i = 0; i < taken; ++i) {
        const uint32_t c = order[i];
        if (++load[c] > cores[c].count() && !request_.overload) return overloaded(to_string(unit), cores[c]);
        set |= cores[c];
      }
      sets.push_back(std::move(set));
    }
    const std::string what =
        most_ > 1 && (fits || request_.cores_each) ? std::to_string(most_) + " " + to_string(unit) + "s" : to_string(unit);
    return finish(std::move(sets), "bound to " + what);
  }

  /// Each rank gets the larger piece that its own lies in; if its own is the larger, or the host as a whole, shares decide.
  Result<Bound> to_pieces(Unit unit) const {
    const std::vector<CpuSet> all = pieces(machine_, unit, usable_);
    if (all.empty()) return Failure{std::string("--bind-to ") + to_string(unit) + ": " + host_.name + " has none"};
    std::vector<uint32_t> load(all.size(), 0);
    std::vector<CpuSet> sets;
    for (size_t s = 0; s < seats_.size(); ++s) {
      const size_t chosen = piece_for(s, all, load);
      load[chosen] += std::max(1u, request_.cores_each);
      if (load[chosen] > all[chosen].count() && !request_.overload) return overloaded(to_string(unit), all[chosen]);
      sets.push_back(all[chosen]);
    }
    return finish(std::move(sets), std::string("bound to ") + to_string(unit));
  }

  size_t piece_for(size_t s, const std::vector<CpuSet>& all, const std::vector<uint32_t>& load) const {
    std::vector<size_t> candidates;
    for (size_t i = 0; i < all.size(); ++i)
      if (overlap(all[i], within(seats_[s]))) candidates.push_back(i);
    if (!seats_[s].within.empty()) return *std::ranges::min_element(candidates, {}, [&](size_t i) { return load[i]; });
    // dealt to the host as a whole: neighbours in rank stay together
    const size_t core = s * cores_.size() / seats_.size();
    for (const size_t i : candidates)
      if (overlap(cores_[core], all[i])) return i;
    return candidates.front();
  }

  Failure too_few(Unit unit, size_t there) const {
    return {"PE=" + std::to_string(request_.cores_each) + ": ranks on " + host_.name + " have no more than " +
            counted(there, to_string(unit)) + " to take them from"};
  }

  Failure overloaded(const std::string& unit, const CpuSet& cpus) const {
    return {counted(seats_.size(), "rank") + (request_.cores_each > 1 ? " of " + counted(request_.cores_each, core_word()) : "") + " on " +
            host_.name + " with " + counted(cores_.size(), core_word()) + ": more ranks would be bound to a " + unit + " (CPUs " +
            cpus.to_string() + ") than it has hardware threads; start fewer, or use --bind-to none, or --bind-to " + unit +
            ":overload-allowed if they shall take turns"};
  }
};

}  // namespace

Result<Bound> bind(const Request& request, const Host& host, const std::vector<Seat>& seats) {
  if (!host.machine || host.assumed)
    return Bound{std::vector<topo::CpuSet>(seats.size()), static_cast<uint32_t>(seats.size()), "bound by its own daemon", {}, {}};
  if (!request.gpus_each) return Binder(request, host, seats).bind();
  auto equipment = equip(request, host, seats);
  if (!equipment) return equipment.failure();
  std::vector<Seat> placed = seats;
  const topo::CpuSet usable = usable_cpus(*host.machine, request.cpu_set);
  for (size_t s = 0; s < placed.size(); ++s) {
    topo::CpuSet near = equipment->near[s];
    near &= placed[s].within.empty() ? usable : placed[s].within;
    if (!near.empty()) placed[s].within = std::move(near);
  }
  auto bound = Binder(request, host, placed).bind();
  if (!bound) return bound;
  bound->gpus = std::move(equipment->gpus);
  bound->nics = std::move(equipment->nics);
  return bound;
}

}  // namespace weft::placement
