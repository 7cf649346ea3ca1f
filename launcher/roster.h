// All ranks of a job: those that mpirun was told to start, and those that ranks have spawned.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/job.h"

namespace weft::launcher {

/// A process as PMIx names it: a namespace and a rank in it.
struct Proc {
  std::string space;
  uint32_t rank = 0;
  auto operator<=>(const Proc&) const = default;
};
/// As a rank: all of the namespace (PMIx's number for it).
constexpr uint32_t all_ranks = UINT32_MAX - 1;

/// Programs that were started together and so share a namespace.
struct Space {
  std::string name;
  uint32_t number = 0;  ///< 0: the job itself
  uint32_t first = 0;   ///< its rank 0 among all ranks of the job
  uint32_t ranks = 0;
  std::vector<App> apps;
  Proc parent = {};  ///< who has spawned it; no namespace: mpirun

  uint32_t app_of(uint32_t rank) const {
    uint32_t a = 0;
    for (; a + 1 < apps.size() && rank >= apps[a].ranks; a++) rank -= apps[a].ranks;
    return a;
  }
};

/// Each rank has a number in the whole job: those of the first namespace come first, then those of the first spawned one, and so on.
class Roster {
 public:
  const Space& add(Space space) {
    space.number = uint32_t(spaces_.size());
    space.first = ranks();
    return spaces_.emplace_back(std::move(space));
  }
  const std::deque<Space>& spaces() const { return spaces_; }
  uint32_t ranks() const { return spaces_.empty() ? 0 : spaces_.back().first + spaces_.back().ranks; }
  const Space* find(const std::string& name) const {
    for (const Space& space : spaces_)
      if (space.name == name) return &space;
    return nullptr;
  }
  /// The namespace of a rank of the job.
  const Space& of(uint32_t rank) const {
    size_t s = spaces_.size() - 1;
    while (s && spaces_[s].first > rank) s--;
    return spaces_[s];
  }
  Proc proc(uint32_t rank) const {
    const Space& space = of(rank);
    return {space.name, rank - space.first};
  }
  std::optional<uint32_t> rank(const Proc& proc) const {
    const Space* space = find(proc.space);
    if (!space || proc.rank >= space->ranks) return {};
    return space->first + proc.rank;
  }
  /// The numbers of these processes, whole namespaces spelt out, ascending; nothing if one of them is not ours.
  std::optional<std::vector<uint32_t>> numbers(const std::vector<Proc>& procs) const;

 private:
  std::deque<Space> spaces_;  // references stay good
};

/// How people see a rank: "5", or for rank 5 of the second spawned namespace "2.5".
inline std::string label(const Space& space, uint32_t rank_in_space) {
  return (space.number ? std::to_string(space.number) + "." : "") + std::to_string(rank_in_space);
}

}  // namespace weft::launcher
