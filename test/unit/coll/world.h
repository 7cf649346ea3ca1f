// Ranks as threads, each with a lane, a team of all and the team's collective state.
#pragma once

#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "coll/coll.h"
#include "coll/team_state.h"
#include "pml/lane.h"
#include "pml/team.h"
#include "runtime/boot/boot.h"

namespace weft::coll {

struct RankWorld {
  pml::Lane& lane;
  pml::Team& team;
  TeamState& state;
  int rank, size;
};

/// CPUs that ranks believe to have together; 0: those of this machine.
inline uint32_t believed_cpus = 0;
/// While it lives, ranks believe to have so many.
struct Believed {
  explicit Believed(uint32_t cpus) { believed_cpus = cpus; }
  Believed(const Believed&) = delete;
  ~Believed() { believed_cpus = 0; }
};
/// While it lives, each of up to 64 ranks believes to have one of its own.
struct Roomy : Believed {
  Roomy() : Believed(64) {}
};

/// Runs `body` on `size` ranks; returns the first complaint, empty if there is none.
inline std::string on_ranks(uint32_t size, const std::function<std::string(RankWorld&)>& body, uint32_t nodes = 1, bool threads = false,
                            const std::string& topology = {}) {
  auto boots = boot::open_fake(size, nodes, topology, believed_cpus);
  std::mutex lock;
  std::string complaint;
  auto complain = [&](const std::string& text) {
    std::lock_guard hold(lock);
    if (!complaint.empty()) return;
    complaint = text;
    std::cerr << text << std::endl;  // now: the other ranks may wait for this one for ever
  };
  auto run = [&](uint32_t rank) {
    auto lane = pml::Lane::open(*boots[rank], threads);
    if (!lane) return complain(lane.failure().text);
    if (auto fenced = boots[rank]->fence(false); !fenced) return complain(fenced.failure().text);
    {
      auto members = std::make_shared<const pml::Members>(pml::Members::range(0, size));
      pml::Team team(**lane, pml::Context{8}, members, rank);
      TeamStatePtr state = attach(team);
      RankWorld world{**lane, team, *state, static_cast<int>(rank), static_cast<int>(size)};
      const std::string wrong = body(world);
      if (!wrong.empty()) complain("rank " + std::to_string(rank) + " of " + std::to_string(size) + ": " + wrong);
      coll::run(*state, Call{});
    }
    (*lane)->close();
  };
  std::vector<std::thread> all;
  for (uint32_t r = 0; r < size; ++r) all.emplace_back(run, r);
  for (std::thread& t : all) t.join();
  return complaint;
}

}  // namespace weft::coll
