// The life of a daemon beside mpirun as a pure state machine: events in, actions out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::launcher::tree {

/// join -> prepare -> serve -> leave -> gone.
enum class Stage : uint8_t { join, prepare, serve, leave, gone };
const char* to_string(Stage);

/// What can happen to a daemon.
enum class Happening : uint8_t {
  planned,       ///< the parent has sent the job
  prepared,      ///< the job's folder, the guardian and the PMIx server are there
  unable,        ///< something of that failed
  launch,        ///< mpirun says: start the ranks
  signal,        ///< mpirun says: signal the ranks
  spawn,         ///< mpirun says: start ranks that others have spawned
  shutdown,      ///< mpirun says: end the ranks and go
  orphaned,      ///< the connection to the parent is lost
  child_lost,    ///< a daemon below cannot be started, or has died
  ranks_gone,    ///< no process of the job is left here
  below_gone,    ///< no daemon is left below
  patience_over  ///< what was to go has not gone in time
};
constexpr int happenings = 12;

/// What it is to do.
enum class Deed : uint8_t {
  start_children,
  prepare,
  say_up,
  say_unable,
  launch,
  launch_spawned,
  signal,
  say_child_lost,
  kill_ranks,      ///< and everything else of the job on this host; ranks_gone follows
  end_children,    ///< pass the word, or cut the connections; below_gone follows
  start_patience,  ///< patience_over is wanted after a time
  cut_children,    ///< kill what starts daemons below
  say_farewell,
  exit_good,
  exit_bad,
};

class LeafState {
 public:
  std::vector<Deed> step(Happening happening);
  Stage stage() const { return stage_; }

 private:
  Stage stage_ = Stage::join;
  bool orphan_ = false, ranks_gone_ = false, below_gone_ = false, launched_ = false;

  std::vector<Deed> leave();
  std::vector<Deed> go_if_done();
};

}  // namespace weft::launcher::tree
