// What mpirun and the daemons on other hosts have in common: the ranks of one host, their PMIx server, their end.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/daemon_state.h"
#include "launcher/environment.h"
#include "launcher/events.h"
#include "launcher/guardian.h"
#include "launcher/input.h"
#include "launcher/job_folder.h"
#include "launcher/layout.h"
#include "launcher/output.h"
#include "launcher/pmix_server.h"
#include "launcher/room.h"
#include "launcher/roster.h"
#include "runtime/topo/hardware.h"

namespace weft::launcher {

class Host {
 public:
  virtual ~Host() = default;

 protected:
  /// Both outlive this.
  Host(const Options& options, Layout& layout);

  /// Something happened to a rank of this host, or to the launcher's own parts.
  virtual void take(const Event& event) = 0;

  /// What the server tells of this host.
  struct Hardware {
    const topo::HardwareTopology* handle;  ///< none if it cannot be read
    std::string topology;
    uint32_t cpus;
    std::string binding;  ///< in words
  };

  /// Where a rank of this host is to run; nothing if its daemon does not know.
  virtual const placement::Place* place_of(uint32_t) const { return nullptr; }

  struct Process {
    pid_t pid = -1;
    bool gone = false;
  };

  const Options& options_;
  Layout& layout_;
  Roster roster_;
  std::set<uint32_t> dropped_;     // numbers of spawned namespaces that are over, while a rank of this host has not been reaped
  std::vector<Process> children_;  // by rank; zombies stay until the end, so that no process group's number is used again
  JobFolder folder_;
  std::optional<Guardian> guardian_;
  Mailbox mailbox_;
  std::unique_ptr<PmixServer> server_;
  JobEnvironment job_environment_;
  std::vector<std::string> programs_;  // their files, one an app
  Output output_;
  Input input_;
  int signals_ = -1;
  bool output_lost_ = false;
  bool held_ = false;  // ranks are to stand still before main(), for a debugger
  RoomWatch room_;
  std::vector<Event> aborts_;  // waiting until it is sure that nobody has died before

  void take_over_signals();
  /// The job's folder and the guardian. `job`: its name; empty: make one.
  Result<void> make_folder(const std::string& job);
  Result<void> start_server(const std::string& secret, Remote* remote, Services& services, const Hardware& hardware);
  /// `held`: ranks are to stand still before main() until SIGCONT.
  void launch(bool held);
  /// Pipes to the daemons that get mpirun's input from here.
  virtual std::vector<int> inputs_below() { return {}; }
  bool start_rank(uint32_t rank, const std::string& path);
  void say_not_found(uint32_t rank, const Failure& why);
  /// Takes over what ranks have spawned; then starts the ranks of this host.
  void add_space(const SpawnOrder& order);
  void launch_space(uint32_t number);
  /// A spawned namespace is over: what is left of it goes.
  void drop_space(uint32_t number);
  void bury(const Space& space);
  std::vector<std::string> environment_of(uint32_t rank) const;
  const App& app_of(uint32_t rank) const;
  void reap();
  Result<void> enough_room() const;
  /// Ends the job if ranks cannot join it for lack of room; see RoomWatch.
  void check_room();
  void take_letters();
  void read_mailbox();
  void signal_ranks(int signal);
  /// Ranks of this host that have not ended, with their processes.
  std::vector<std::pair<uint32_t, pid_t>> running_ranks() const;
  void clean_up();
  void finish_output();
  void tell_loss();
  void say(const std::string& text);
  void say_verbose(const std::string& text) {
    if (options_.verbose) say("mpirun: " + text);
  }
};

}  // namespace weft::launcher
