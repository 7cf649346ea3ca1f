// A job of several hosts as state machines: mpirun's with daemons, and a daemon's own. Every event in every state.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "launcher/daemon_state.h"
#include "launcher/job.h"
#include "launcher/tree/leaf_state.h"
#include "launcher/tree/shape.h"

using namespace weft::launcher;

namespace {

/// Ranks r on host r % hosts; host 0 is mpirun's own.
DaemonState job(uint32_t ranks, const tree::Shape& shape) {
  std::vector<RankInfo> infos;
  for (uint32_t r = 0; r < ranks; r++) infos.push_back({"./prog", "host" + std::to_string(r % shape.count), r % shape.count});
  std::vector<NodeInfo> nodes;
  for (uint32_t n = 0; n < shape.count; n++) nodes.push_back({"host" + std::to_string(n), shape.parent(n)});
  return DaemonState(infos, false, nodes);
}

const Action* find(const std::vector<Action>& actions, Action::Kind kind) {
  for (const Action& action : actions)
    if (action.kind == kind) return &action;
  return nullptr;
}

DaemonState running(uint32_t ranks, const tree::Shape& shape) {
  DaemonState state = job(ranks, shape);
  state.step(event::Allocated{});
  for (uint32_t n = 1; n < shape.count; n++) state.step(event::HostUp{n});
  state.step(event::Mapped{});
  for (uint32_t r = 0; r < ranks; r++) state.step(event::Started{r, int(r)});
  REQUIRE(state.phase() == Phase::run);
  return state;
}

}  // namespace

TEST_CASE("ranks are started when the last daemon is ready", "[hosts]") {
  DaemonState state = job(4, {3, 2});
  CHECK(find(state.step(event::Allocated{}).actions, Action::reach));
  CHECK(state.phase() == Phase::reach);
  CHECK(state.step(event::HostUp{2}).actions.empty());
  CHECK(state.step(event::HostUp{2}).actions.empty());
  CHECK(state.step(event::HostUp{9}).actions.empty());
  CHECK(find(state.step(event::HostUp{1}).actions, Action::map));
  CHECK(find(state.step(event::Mapped{}).actions, Action::launch));
}

TEST_CASE("a daemon that cannot be started ends the job with its reason", "[hosts]") {
  DaemonState state = job(4, {3, 2});
  state.step(event::Allocated{});
  state.step(event::HostUp{1});
  const State next = state.step(event::HostLost{2, "cannot start a daemon on host2: it refused"});
  CHECK(next.phase == Phase::done);
  REQUIRE(find(next.actions, Action::say));
  CHECK(find(next.actions, Action::say)->text == "mpirun: cannot start a daemon on host2: it refused");
  REQUIRE(find(next.actions, Action::finish));
  CHECK(find(next.actions, Action::finish)->number == exit_failed);
}

TEST_CASE("a lost daemon takes its ranks and those below it along; the others are ended", "[hosts]") {
  DaemonState state = running(10, {5, 2});  // 1 is above 3 and 4
  const State next = state.step(event::HostLost{1, "lost"});
  CHECK(next.phase == Phase::stop);
  CHECK(state.running() == 4);  // two each on hosts 0 and 2
  CHECK(find(next.actions, Action::signal_ranks));
  CHECK(find(next.actions, Action::say)->text.find("6 ranks were lost with it; the other 4") != std::string::npos);
  CHECK(state.step(event::HostLost{3, "too"}).actions.empty());
  for (uint32_t r : {0u, 2u, 5u}) CHECK(state.step(event::Exited{r, 0, SIGTERM, false}).actions.empty());
  CHECK(find(state.step(event::Exited{7, 0, SIGTERM, false}).actions, Action::finish)->number == exit_failed);
}

TEST_CASE("a daemon that answers no more does not keep the job alive", "[hosts]") {
  DaemonState state = running(2, {2, 1});
  state.step(event::Exited{0, 3, 0, false});
  CHECK(state.phase() == Phase::stop);
  const State killed = state.step(event::GraceOver{});
  CHECK(find(killed.actions, Action::signal_ranks)->number == SIGKILL);
  CHECK(find(killed.actions, Action::start_grace));
  CHECK(find(state.step(event::GraceOver{}).actions, Action::finish)->number == 3);
}

TEST_CASE("any order of events of several hosts keeps the machine sane", "[hosts]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; round++) {
    const tree::Shape shape{uint32_t(2 + random() % 4), uint32_t(1 + random() % 2)};
    const uint32_t ranks = 1 + random() % 6;
    DaemonState state = job(ranks, shape);
    std::vector<bool> lost(shape.count);
    int finishes = 0, reasons = 0, launches = 0;
    for (int step = 0; step < 80; step++) {
      const uint32_t r = random() % (ranks + 1), n = random() % (shape.count + 1);
      Event event = event::GraceOver{};
      switch (random() % 10) {
        case 0: event = event::Allocated{}; break;
        case 1: event = event::Mapped{}; break;
        case 2:
        case 3: event = event::HostUp{n}; break;
        case 4:
          if (random() % 4) continue;
          event = event::HostLost{n, "x"};
          if (n && n < shape.count && state.phase() != Phase::done)
            for (uint32_t below = n; below < shape.count; below++) lost[below] = lost[below] || shape.below(below, n);
          break;
        case 5:
        case 6:
          if (state.phase() != Phase::launch) continue;
          event = event::Started{r, int(r)};
          break;
        case 7: event = event::Exited{r, int(random() % 2), 0, false}; break;
        case 8: event = event::Signalled{SIGTERM}; break;
        case 9: break;
      }
      const State next = state.step(event);
      for (const Action& action : next.actions) {
        finishes += action.kind == Action::finish;
        reasons += action.kind == Action::say && action.text.find("second signal") == std::string::npos;
        launches += action.kind == Action::launch;
        if (action.kind == Action::launch) REQUIRE(std::find(lost.begin(), lost.end(), true) == lost.end());
      }
      if (next.phase == Phase::done) REQUIRE(state.running() == 0);
    }
    REQUIRE(finishes <= 1);
    REQUIRE(reasons <= 1);
    REQUIRE(launches <= 1);
    REQUIRE((state.phase() == Phase::done) == (finishes == 1));
  }
}

namespace {

using tree::Deed;
using tree::Happening;
using tree::LeafState;
using tree::Stage;

bool has(const std::vector<Deed>& deeds, Deed deed) { return std::find(deeds.begin(), deeds.end(), deed) != deeds.end(); }

LeafState leaf_in(Stage stage) {
  LeafState state;
  if (stage == Stage::join) return state;
  state.step(Happening::planned);
  if (stage == Stage::prepare) return state;
  state.step(Happening::prepared);
  if (stage == Stage::serve) return state;
  state.step(Happening::shutdown);
  if (stage == Stage::leave) return state;
  state.step(Happening::ranks_gone);
  state.step(Happening::below_gone);
  return state;
}

}  // namespace

TEST_CASE("a daemon's life that goes well", "[hosts]") {
  LeafState state;
  CHECK(state.step(Happening::planned) == std::vector{Deed::start_children, Deed::prepare});
  CHECK(state.step(Happening::signal).empty());
  CHECK(state.step(Happening::prepared) == std::vector{Deed::say_up});
  CHECK(state.step(Happening::launch) == std::vector{Deed::launch});
  CHECK(state.step(Happening::launch).empty());
  CHECK(state.step(Happening::signal) == std::vector{Deed::signal});
  CHECK(has(state.step(Happening::shutdown), Deed::kill_ranks));
  CHECK(state.step(Happening::ranks_gone).empty());
  CHECK(state.step(Happening::below_gone) == std::vector{Deed::say_farewell, Deed::exit_good});
  CHECK(state.stage() == Stage::gone);
}

TEST_CASE("a daemon in every stage, with everything that can happen", "[hosts]") {
  for (Stage stage : {Stage::join, Stage::prepare, Stage::serve, Stage::leave, Stage::gone}) {
    REQUIRE(leaf_in(stage).stage() == stage);
    for (int h = 0; h < tree::happenings; h++) {
      LeafState state = leaf_in(stage);
      const auto what = Happening(h);
      const std::vector<Deed> deeds = state.step(what);
      INFO(to_string(stage) << " with happening " << h);
      if (stage == Stage::gone) {
        CHECK(deeds.empty());
        continue;
      }
      // whatever ends a daemon ends its ranks first, unless it never had any
      if (what == Happening::shutdown || what == Happening::orphaned) {
        CHECK(state.stage() == (stage == Stage::join ? Stage::gone : Stage::leave));
        CHECK(has(deeds, Deed::kill_ranks) == (stage == Stage::prepare || stage == Stage::serve));
        if (stage != Stage::join) {  // and it goes, even if those below do not
          CHECK((stage == Stage::leave || has(deeds, Deed::start_patience)));
          state.step(Happening::patience_over);
          CHECK(state.stage() == Stage::gone);
        }
      }
      CHECK(has(deeds, Deed::launch) == (stage == Stage::serve && what == Happening::launch));
      CHECK(has(deeds, Deed::say_child_lost) == ((stage == Stage::prepare || stage == Stage::serve) && what == Happening::child_lost));
      CHECK(has(deeds, Deed::say_unable) == (stage == Stage::prepare && what == Happening::unable));
    }
  }
}

TEST_CASE("an orphan leaves without a farewell", "[hosts]") {
  LeafState state = leaf_in(Stage::serve);
  CHECK(has(state.step(Happening::orphaned), Deed::end_children));
  CHECK(state.step(Happening::below_gone).empty());
  CHECK(state.step(Happening::ranks_gone) == std::vector{Deed::exit_bad});
}
