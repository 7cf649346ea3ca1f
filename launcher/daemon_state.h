// The life of a job as a pure state machine: events in, actions out. No process, clock or file is touched here,
// so that every event can be tried in every state by a unit test.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weft::launcher {

/// allocate -> reach -> map -> launch -> run -> done; `stop` lies before done when the job ends early. `reach` is over at once where
/// there are no other hosts.
enum class Phase : uint8_t { allocate, reach, map, launch, run, stop, done };
const char* to_string(Phase);

/// What the messages need to know of a rank.
struct RankInfo {
  std::string program;
  std::string host;
  uint32_t node = 0;
  std::string label = {};  ///< how people are told of it; empty: its number
};

namespace event {
struct Allocated {};  ///< hosts, the job's folder and the PMIx server are there
struct HostUp {
  uint32_t node;
};  ///< the daemon of another host is ready
struct HostLost {
  uint32_t node;
  std::string why;
};                 ///< the daemon of another host cannot be started, or has died; those below it are lost with it
struct Mapped {};  ///< each rank has its place
struct Started {
  uint32_t rank;
  int pid;
};  ///< a rank's process runs its program
struct LaunchFailed {
  uint32_t rank;
  std::string why;
  int code;
};
struct Broken {
  std::string why;
};  ///< something of the launcher's own failed
struct Connected {
  uint32_t rank;
};  ///< PMIx client calls
struct Finalized {
  uint32_t rank;
};
struct Aborted {
  uint32_t rank;
  int code;
  std::string why;
};
struct Exited {
  uint32_t rank;
  int code;
  int signal;
  bool core;
};  ///< `signal` 0: exited with `code`
struct Signalled {
  int signal;
  std::string why = {};  ///< who got it, if that is not mpirun
};                       ///< mpirun got a signal to forward, or the daemon of another host one that ends the job
struct TimedOut {
  double seconds;
};                      ///< --timeout is over
struct StacksShown {};  ///< what Action::show_stacks wanted has been said
struct GraceOver {};    ///< the time between SIGTERM and SIGKILL is over
struct SpawnAsked {
  std::vector<RankInfo> ranks;
};  ///< a rank wants these to be started as well; they are numbered on
}  // namespace event

using Event = std::variant<event::Allocated, event::Mapped, event::Started, event::LaunchFailed, event::Broken, event::Connected,
                           event::Finalized, event::Aborted, event::Exited, event::Signalled, event::TimedOut, event::StacksShown,
                           event::GraceOver, event::HostUp, event::HostLost, event::SpawnAsked>;

/// What the daemon is to do.
struct Action {
  enum Kind : uint8_t {
    reach,  ///< the daemons of other hosts are to be ready
    map,
    launch,
    tell_failed,   ///< rank `number` is gone without having left the job: the others are to hear of it
    signal_ranks,  ///< `number` goes to the process groups of all ranks that still run
    say,           ///< `text` to stderr, after the output that ranks have written so far
    show_stacks,   ///< find out and say where the ranks are, then StacksShown; they go on meanwhile
    start_grace,   ///< GraceOver is wanted after `number` milliseconds
    spawn,         ///< the ranks of SpawnAsked are accepted, as spawned namespace `number`: start them
    refuse_spawn,  ///< they are not, because of `text`
    spawn_done,    ///< all ranks of spawned namespace `number` run
    spawn_failed,  ///< one of them could not be started, `text` says why; the job goes on
    drop,          ///< SIGKILL to the ranks of spawned namespace `number`, of which one could not be started
    finish,        ///< all ranks are gone: clean up and end with exit code `number`
  };
  Kind kind;
  int number = 0;
  std::string text = {};
};

/// What a step leads to.
struct State {
  Phase phase;
  std::vector<Action> actions;
};

/// A host: its name, and the number of the daemon above its own in the tree. The first is mpirun's own.
struct NodeInfo {
  std::string name;
  uint32_t parent = 0;
};

class DaemonState {
 public:
  explicit DaemonState(std::vector<RankInfo> ranks, bool core_files = true, std::vector<NodeInfo> nodes = {}) : core_files_(core_files) {
    for (NodeInfo& info : nodes) nodes_.push_back({std::move(info), nodes_.empty(), false});
    add(std::move(ranks), 0);
  }

  /// Takes one event; says what to do. Events that make no sense in a phase are ignored.
  State step(const Event& event);

  Phase phase() const { return phase_; }
  uint32_t running() const { return running_; }
  /// What the start is waiting for, as a complaint: which daemons, or which ranks.
  std::string awaited() const;

 private:
  enum class Life : uint8_t { waiting, running, gone };
  struct Rank {
    RankInfo info;
    int pid;
    Life life;
    bool connected, finalized;
    uint32_t space;  ///< 0: the job's own, otherwise that of spawned_[space - 1]
  };
  struct Spawned {
    uint32_t waiting;  ///< ranks that do not run yet
    bool failed;
  };
  struct Node {
    NodeInfo info;
    bool up, lost;
  };
  using Actions = std::vector<Action>;

  std::vector<Rank> ranks_;
  std::vector<Spawned> spawned_;
  std::vector<Node> nodes_;
  Phase phase_ = Phase::allocate;
  uint32_t running_ = 0, waiting_ = 0;
  int exit_code_ = 0;   // of the first failing rank
  int interrupts_ = 0;  // SIGINT or SIGTERM so far
  int last_signal_ = 0;
  bool core_files_;
  bool killed_ = false;  // SIGKILL has been sent because the grace was over

  void on(const event::Allocated&, Actions&);
  void on(const event::HostUp&, Actions&);
  void on(const event::HostLost&, Actions&);
  void on(const event::Mapped&, Actions&);
  void on(const event::Started&, Actions&);
  void on(const event::LaunchFailed&, Actions&);
  void on(const event::Broken&, Actions&);
  void on(const event::Connected&, Actions&);
  void on(const event::Finalized&, Actions&);
  void on(const event::Aborted&, Actions&);
  void on(const event::Exited&, Actions&);
  void on(const event::Signalled&, Actions&);
  void on(const event::TimedOut&, Actions&);
  void on(const event::StacksShown&, Actions&);
  void on(const event::GraceOver&, Actions&);
  void on(const event::SpawnAsked&, Actions&);

  bool knows(uint32_t rank) const { return rank < ranks_.size(); }
  void add(std::vector<RankInfo> ranks, uint32_t space);
  bool dropped(const Rank& rank) const { return rank.space && spawned_[rank.space - 1].failed; }
  std::string label(uint32_t rank) const { return ranks_[rank].info.label.empty() ? std::to_string(rank) : ranks_[rank].info.label; }
  bool live() const { return phase_ == Phase::launch || phase_ == Phase::run; }
  void mourn(uint32_t rank, Actions&) const;
  void stop(int code, std::string message, Actions&);
  void finish_if_empty(Actions&);
  void map_if_all_up(Actions&);
  std::string who(uint32_t rank) const;
  std::string others(uint32_t but) const;
  std::string obituary(const event::Exited&) const;
};

/// "SIGSEGV (Segmentation fault)".
std::string signal_text(int signal);

}  // namespace weft::launcher
