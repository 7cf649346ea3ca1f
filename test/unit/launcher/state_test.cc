// The life of a job: every event in every phase, without a process.
#include <signal.h>

#include <catch2/catch.hpp>
#include <random>

#include "launcher/daemon_state.h"
#include "launcher/job.h"

using namespace weft::launcher;

namespace {

DaemonState job(uint32_t ranks) { return DaemonState(std::vector<RankInfo>(ranks, RankInfo{"./prog", "host1"}), false); }

std::vector<Action> take(DaemonState& state, Event event) { return state.step(event).actions; }

DaemonState running(uint32_t ranks) {
  DaemonState state = job(ranks);
  take(state, event::Allocated{});
  take(state, event::Mapped{});
  for (uint32_t r = 0; r < ranks; r++) take(state, event::Started{r, int(1000 + r)});
  return state;
}

void connect_all(DaemonState& state, uint32_t ranks) {
  for (uint32_t r = 0; r < ranks; r++) take(state, event::Connected{r});
}

const Action* find(const std::vector<Action>& actions, Action::Kind kind) {
  for (const Action& action : actions)
    if (action.kind == kind) return &action;
  return nullptr;
}

bool has(const std::vector<Action>& actions, Action::Kind kind, int number) {
  for (const Action& action : actions)
    if (action.kind == kind && action.number == number) return true;
  return false;
}

std::string said(const std::vector<Action>& actions) {
  const Action* say = find(actions, Action::say);
  return say ? say->text : "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a job that goes well", "[state]") {
  DaemonState state = job(3);
  CHECK(state.phase() == Phase::allocate);
  CHECK(find(take(state, event::Allocated{}), Action::map));
  CHECK(state.phase() == Phase::map);
  CHECK(find(take(state, event::Mapped{}), Action::launch));
  CHECK(state.phase() == Phase::launch);
  for (uint32_t r = 0; r < 3; r++) CHECK(take(state, event::Started{r, int(r)}).empty());
  CHECK(state.phase() == Phase::run);
  connect_all(state, 3);
  for (uint32_t r = 0; r < 3; r++) take(state, event::Finalized{r});
  CHECK(take(state, event::Exited{1, 0, 0, false}).empty());
  CHECK(take(state, event::Exited{0, 0, 0, false}).empty());
  CHECK(has(take(state, event::Exited{2, 0, 0, false}), Action::finish, 0));
  CHECK(state.phase() == Phase::done);
}

TEST_CASE("programs without MPI end one after another", "[state]") {
  DaemonState state = running(2);
  CHECK(take(state, event::Exited{0, 0, 0, false}).empty());
  CHECK(has(take(state, event::Exited{1, 0, 0, false}), Action::finish, 0));
}

TEST_CASE("a rank that exits before the others have started does not end the job", "[state]") {
  DaemonState state = job(2);
  take(state, event::Allocated{});
  take(state, event::Mapped{});
  take(state, event::Started{0, 1});
  CHECK(take(state, event::Exited{0, 0, 0, false}).empty());
  take(state, event::Started{1, 2});
  CHECK(has(take(state, event::Exited{1, 0, 0, false}), Action::finish, 0));
}

TEST_CASE("the first failing rank ends the job and gives its code", "[state]") {
  struct Case {
    const char* text;
    event::Exited exit;
    bool connected;
    int code;
    const char* words;
  };
  const Case cases[] = {
      {"code before finalize", {1, 5, 0, false}, true, 5, "exited with code 5"},
      {"code without MPI", {1, 3, 0, false}, false, 3, "without MPI"},
      {"segmentation fault", {1, 0, SIGSEGV, false}, true, 139, "SIGSEGV"},
      {"killed", {1, 0, SIGKILL, false}, true, 137, "short of memory"},
      {"bus error", {1, 0, SIGBUS, false}, true, 128 + SIGBUS, "/dev/shm"},
      {"core", {1, 0, SIGABRT, true}, true, 134, "gdb ./prog"},
      {"no finalize", {1, 0, 0, false}, true, 1, "without calling MPI_Finalize"},
  };
  for (const Case& c : cases) {
    INFO(c.text);
    DaemonState state = running(3);
    if (c.connected) connect_all(state, 3);
    auto actions = take(state, c.exit);
    CHECK(state.phase() == Phase::stop);
    CHECK(contains(said(actions), c.words));
    CHECK(contains(said(actions), "rank 1 (pid 1001 on host1, ./prog)"));
    CHECK(contains(said(actions), "The other 2 ranks"));
    CHECK(has(actions, Action::tell_failed, 1) == c.connected);
    if (c.connected) CHECK(actions.front().kind == Action::tell_failed);  // before they are ended
    CHECK(has(actions, Action::signal_ranks, SIGTERM));
    CHECK(find(actions, Action::start_grace));
    actions = take(state, event::Exited{0, 0, SIGTERM, false});  // what we did to it is no news
    CHECK(actions.empty());
    CHECK(has(take(state, event::GraceOver{}), Action::signal_ranks, SIGKILL));
    CHECK(has(take(state, event::Exited{2, 0, SIGKILL, false}), Action::finish, c.code));
  }
}

TEST_CASE("a code after MPI_Finalize is kept, the others work on", "[state]") {
  DaemonState state = running(2);
  connect_all(state, 2);
  take(state, event::Finalized{0});
  CHECK(take(state, event::Exited{0, 9, 0, false}).empty());
  CHECK(state.phase() == Phase::run);
  take(state, event::Finalized{1});
  CHECK(has(take(state, event::Exited{1, 4, 0, false}), Action::finish, 9));
}

TEST_CASE("the last rank without MPI_Finalize leaves nobody waiting", "[state]") {
  DaemonState state = running(1);
  connect_all(state, 1);
  CHECK(has(take(state, event::Exited{0, 0, 0, false}), Action::finish, 0));
}

TEST_CASE("MPI_Abort", "[state]") {
  for (auto [code, expected] : {std::pair{5, 5}, {0, 1}, {256, 1}, {-1, 255}, {511, 255}}) {
    DaemonState state = running(2);
    connect_all(state, 2);
    auto actions = take(state, event::Aborted{0, code, "MPI_Send: no such rank\n"});
    CHECK(contains(said(actions), "rank 0 (pid 1000 on host1, ./prog) ended the job with code " + std::to_string(code)));
    CHECK(contains(said(actions), "MPI_Send: no such rank"));
    CHECK(take(state, event::Aborted{1, 77, "me too"}).empty());  // one message
    take(state, event::Exited{0, 0, SIGTERM, false});
    CHECK(has(take(state, event::Exited{1, 0, SIGTERM, false}), Action::finish, expected));
  }
}

TEST_CASE("a rank that cannot be started ends those that were", "[state]") {
  DaemonState state = job(3);
  take(state, event::Allocated{});
  take(state, event::Mapped{});
  take(state, event::Started{0, 10});
  auto actions = take(state, event::LaunchFailed{1, "no such file", exit_not_found});
  CHECK(contains(said(actions), "cannot start rank 1 (./prog) on host1: no such file"));
  CHECK(has(actions, Action::signal_ranks, SIGTERM));
  CHECK(has(take(state, event::Exited{0, 0, SIGTERM, false}), Action::finish, exit_not_found));
  DaemonState none = job(2);
  take(none, event::Allocated{});
  take(none, event::Mapped{});
  CHECK(has(take(none, event::LaunchFailed{0, "x", 126}), Action::finish, 126));
}

TEST_CASE("failures of the launcher's own", "[state]") {
  DaemonState state = job(2);
  auto actions = take(state, event::Broken{"no room in /tmp"});
  CHECK(contains(said(actions), "no room in /tmp"));
  CHECK(has(actions, Action::finish, exit_failed));
}

TEST_CASE("SIGINT is passed on; a second one kills", "[state]") {
  DaemonState state = running(2);
  connect_all(state, 2);
  auto actions = take(state, event::Signalled{SIGINT});
  CHECK(has(actions, Action::signal_ranks, SIGINT));
  CHECK_FALSE(find(actions, Action::start_grace));
  CHECK(state.phase() == Phase::run);
  SECTION("ranks die of it: no message, code 130") {
    actions = take(state, event::Exited{0, 0, SIGINT, false});
    CHECK(said(actions).empty());
    CHECK(find(actions, Action::start_grace));
    CHECK(has(take(state, event::GraceOver{}), Action::signal_ranks, SIGKILL));
    CHECK(has(take(state, event::Exited{1, 0, SIGKILL, false}), Action::finish, 130));
  }
  SECTION("they handle it and finish well") {
    for (uint32_t r : {0u, 1u}) take(state, event::Finalized{r});
    take(state, event::Exited{0, 0, 0, false});
    CHECK(has(take(state, event::Exited{1, 0, 0, false}), Action::finish, 0));
  }
  SECTION("second") {
    CHECK(has(take(state, event::Signalled{SIGINT}), Action::signal_ranks, SIGKILL));
    take(state, event::Exited{0, 0, SIGKILL, false});
    CHECK(has(take(state, event::Exited{1, 0, SIGKILL, false}), Action::finish, 130));
  }
}

TEST_CASE("SIGTERM ends the job with a grace; others are passed on", "[state]") {
  DaemonState state = running(1);
  CHECK(has(take(state, event::Signalled{SIGUSR1}), Action::signal_ranks, SIGUSR1));
  auto actions = take(state, event::Signalled{SIGTERM});
  CHECK(has(actions, Action::signal_ranks, SIGTERM));
  CHECK(find(actions, Action::start_grace));
  CHECK(has(take(state, event::Exited{0, 0, SIGTERM, false}), Action::finish, 143));
}

TEST_CASE("--timeout names the ranks that still run", "[state]") {
  DaemonState state = running(12);
  take(state, event::Exited{0, 0, 0, false});
  auto actions = take(state, event::TimedOut{1.5});
  CHECK(contains(said(actions), "--timeout 1.5 s"));
  CHECK(contains(said(actions), "rank 1 (pid 1001)"));
  CHECK_FALSE(contains(said(actions), "rank 0 "));
  CHECK(contains(said(actions), "and 3 more"));
  CHECK(has(actions, Action::show_stacks, 0));
  CHECK_FALSE(find(actions, Action::signal_ranks));  // first they are looked at
  CHECK(has(take(state, event::StacksShown{}), Action::signal_ranks, SIGTERM));
  for (uint32_t r = 1; r < 11; r++) take(state, event::Exited{r, 0, SIGTERM, false});
  CHECK(has(take(state, event::Exited{11, 0, SIGTERM, false}), Action::finish, exit_timeout));
}

TEST_CASE("ranks that end while their stacks are read end the job with the code of the timeout", "[state]") {
  DaemonState state = running(2);
  take(state, event::TimedOut{1});
  take(state, event::Exited{0, 0, 0, false});
  CHECK(has(take(state, event::Exited{1, 0, 0, false}), Action::finish, exit_timeout));
  CHECK(take(state, event::StacksShown{}).empty());
}

namespace {

event::SpawnAsked spawning(uint32_t ranks) {
  event::SpawnAsked asked;
  for (uint32_t r = 0; r < ranks; r++) asked.ranks.push_back({"./child", "host2", 0, "1." + std::to_string(r)});
  return asked;
}

}  // namespace

TEST_CASE("spawned ranks belong to the job", "[state]") {
  DaemonState state = running(2);
  CHECK(has(take(state, spawning(2)), Action::spawn, 1));
  CHECK(take(state, event::Exited{0, 0, 0, false}).empty());
  CHECK(take(state, event::Exited{1, 0, 0, false}).empty());  // not over: two are being started
  CHECK(take(state, event::Started{2, 12}).empty());
  CHECK(take(state, event::Exited{2, 0, 0, false}).empty());
  CHECK(has(take(state, event::Started{3, 13}), Action::spawn_done, 1));
  take(state, event::Connected{3});
  auto actions = take(state, spawning(1));
  CHECK(has(actions, Action::spawn, 2));
  take(state, event::Started{4, 14});
  actions = take(state, event::Exited{3, 0, SIGSEGV, false});
  CHECK(contains(said(actions), "rank 1.1 (pid 13 on host2, ./child) was killed by signal 11"));
  CHECK(has(actions, Action::signal_ranks, SIGTERM));
  CHECK(has(take(state, event::Exited{4, 0, SIGTERM, false}), Action::finish, 139));
}

TEST_CASE("ranks may spawn while others are being started", "[state]") {
  DaemonState state = job(2);
  take(state, event::Allocated{});
  take(state, event::Mapped{});
  take(state, event::Started{0, 1});
  CHECK(has(take(state, spawning(1)), Action::spawn, 1));
  CHECK(contains(state.awaited(), "1 on host1, 1.0 on host2"));
  CHECK(has(take(state, event::Started{2, 3}), Action::spawn_done, 1));
  CHECK(state.phase() == Phase::launch);
  take(state, event::Started{1, 2});
  CHECK(state.phase() == Phase::run);
}

TEST_CASE("a spawned rank that cannot be started takes its siblings along, not the job", "[state]") {
  for (int order = 0; order < 3; order++) {
    INFO(order);
    DaemonState state = running(1);
    take(state, spawning(3));
    if (order > 0) CHECK(take(state, event::Started{2, 12}).empty());
    auto actions = take(state, event::LaunchFailed{1, "not there", 127});
    CHECK(has(actions, Action::drop, 1));
    REQUIRE(find(actions, Action::spawn_failed));
    CHECK(find(actions, Action::spawn_failed)->text == "cannot start rank 1.0 (./child) on host2: not there");
    CHECK(said(actions).empty());
    CHECK(state.phase() == Phase::run);
    CHECK(take(state, event::LaunchFailed{3, "not there", 127}).empty());  // told once
    CHECK(take(state, event::Started{3, 13}).empty());                     // drop has reached it already
    if (order > 0) CHECK(take(state, event::Exited{2, 0, SIGKILL, false}).empty());
    CHECK(state.running() == 1);
    if (order == 2) {
      CHECK(has(take(state, spawning(1)), Action::spawn, 2));
      CHECK(has(take(state, event::Started{4, 14}), Action::spawn_done, 2));
      CHECK(take(state, event::Exited{4, 0, 0, false}).empty());
    }
    CHECK(has(take(state, event::Exited{0, 0, 0, false}), Action::finish, 0));
  }
  DaemonState state = running(1);  // the spawner is gone before its wish has failed
  take(state, spawning(1));
  CHECK(take(state, event::Exited{0, 0, 0, false}).empty());
  CHECK(has(take(state, event::LaunchFailed{1, "x", 1}), Action::finish, 0));
}

TEST_CASE("nothing is spawned before the ranks start, nor in a job that ends", "[state]") {
  DaemonState state = job(2);
  CHECK(find(take(state, spawning(1)), Action::refuse_spawn));
  state = running(2);
  take(state, spawning(1));
  take(state, event::Exited{0, 3, 0, false});
  CHECK(state.phase() == Phase::stop);
  CHECK(find(take(state, spawning(1)), Action::refuse_spawn));
  CHECK(take(state, event::LaunchFailed{2, "x", 1}).empty());
  CHECK(has(take(state, event::Exited{1, 0, 0, false}), Action::finish, 3));
  CHECK(find(take(state, spawning(1)), Action::refuse_spawn));
}

TEST_CASE("any order of events keeps the machine sane", "[state]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; round++) {
    const uint32_t ranks = 1 + random() % 4;
    DaemonState state = job(ranks);
    std::vector<int> life(ranks), space(ranks);  // life: 0 waiting, 1 running, 2 gone
    int spaces = 0;
    int finishes = 0, messages = 0;
    bool launched = false, timed_out = false;
    for (int step = 0; step < 60; step++) {
      const uint32_t r = random() % (life.size() + 1);  // sometimes a rank that does not exist
      const bool live = state.phase() == Phase::launch || state.phase() == Phase::run;
      Event event = event::GraceOver{};
      switch (random() % 14) {
        case 0: event = event::Allocated{}; break;
        case 1: event = event::Mapped{}; break;
        case 2:
        case 3:
          if (!launched || r >= life.size() || life[r] != 0 || !live) continue;
          life[r] = 1;
          event = event::Started{r, int(r)};
          break;
        case 4:
          event = event::LaunchFailed{r, "x", 126};
          if (live && r < life.size() && space[r] && life[r] == 0)
            for (size_t i = 0; i < life.size(); i++)
              if (space[i] == space[r] && life[i] == 0) life[i] = 2;
          break;
        case 5: event = event::Connected{r}; break;
        case 6: event = event::Finalized{r}; break;
        case 7: event = event::Aborted{r, int(random() % 3), ""}; break;
        case 8:
        case 9:
          if (r >= life.size() || life[r] != 1) continue;
          life[r] = 2;
          event = event::Exited{r, int(random() % 2), random() % 3 ? 0 : SIGTERM, false};
          break;
        case 10: event = event::Signalled{random() % 2 ? SIGINT : SIGUSR1}; break;
        case 11:
          if (timed_out) continue;  // the clock is set once
          timed_out = launched;
          event = event::TimedOut{1};
          break;
        case 12: event = event::StacksShown{}; break;
        case 13: {
          const uint32_t more = 1 + random() % 2;
          event = spawning(more);
          if (!live) break;
          life.resize(life.size() + more);
          space.resize(life.size(), ++spaces);
          break;
        }
      }
      const State next = state.step(event);
      for (const Action& action : next.actions) {
        launched |= action.kind == Action::launch;
        finishes += action.kind == Action::finish;
        messages += action.kind == Action::say;
      }
      const auto alive = std::count(life.begin(), life.end(), 1);
      REQUIRE(state.running() == alive);
      if (find(next.actions, Action::finish)) REQUIRE(alive == 0);
      if (next.phase == Phase::stop) REQUIRE(alive > 0);  // with nobody left it must have finished
    }
    REQUIRE(finishes <= 1);
    REQUIRE(messages <= 3);  // one reason, after the timeout's, and that a second signal was heard
    REQUIRE((state.phase() == Phase::done) == (finishes == 1));
  }
}

TEST_CASE("a start that hangs is explained by whom it waits for", "[state]") {
  std::vector<RankInfo> ranks = {{"./prog", "a", 0}, {"./prog", "b", 1}, {"./prog", "c", 2}};
  DaemonState state(ranks, false, {{"a", 0}, {"b", 0}, {"c", 1}});
  take(state, event::Allocated{});
  take(state, event::HostUp{0});
  take(state, event::HostUp{1});
  CHECK(state.phase() == Phase::reach);
  CHECK(contains(state.awaited(), "hosts do not get ready, and nothing has happened for too long: c."));
  take(state, event::HostUp{2});
  take(state, event::Mapped{});
  take(state, event::Started{1, 7});
  CHECK(state.phase() == Phase::launch);
  CHECK(contains(state.awaited(), "ranks are not started, and nothing has happened for too long: 0 on a, 2 on c"));
  CHECK(has(take(state, event::Broken{state.awaited()}), Action::signal_ranks, SIGTERM));
}

TEST_CASE("a daemon that is told to end ends the job, and says so unless it is ending anyway", "[state]") {
  DaemonState state = running(2);
  auto actions = take(state, event::Signalled{SIGTERM, "the daemon on b got SIGTERM"});
  CHECK(said(actions) == "mpirun: the daemon on b got SIGTERM");
  CHECK(has(actions, Action::signal_ranks, SIGTERM));
  CHECK(said(take(state, event::Signalled{SIGTERM, "the daemon on c got SIGTERM"})).empty());
  take(state, event::Exited{0, 0, SIGTERM, false});
  CHECK(has(take(state, event::Exited{1, 0, SIGTERM, false}), Action::finish, 143));
}
