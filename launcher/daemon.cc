#include "launcher/daemon.h"

#include <errno.h>
#include <pmix_common.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

#include "launcher/arrange.h"
#include "launcher/central.h"
#include "launcher/daemon_state.h"
#include "launcher/exits.h"
#include "launcher/host.h"
#include "launcher/mpir.h"
#include "launcher/place_spawned.h"
#include "launcher/singleton.h"
#include "launcher/stacks.h"
#include "launcher/tree/exchange.h"
#include "launcher/tree/hosts.h"
#include "launcher/tree/node.h"
#include "launcher/trial.h"
#include "runtime/base/clock.h"
#include "runtime/boot/internal.h"
#include "runtime/boot/job_record.h"

extern char** environ;

namespace weft::launcher {
namespace {

constexpr uint64_t patience_ns = 4'000'000'000;  // with daemons that were told to go and send nothing
constexpr uint64_t omen_patience_ns = 300'000'000;

std::vector<RankInfo> rank_infos(const Options& options, const Layout& layout) {
  std::vector<RankInfo> infos;
  for (const App& app : options.apps)
    for (uint32_t i = 0; i < app.ranks; i++) {
      const uint32_t node = layout.host_of[infos.size()];
      infos.push_back({app.command[0], layout.hosts[node], node});
    }
  return infos;
}

std::vector<NodeInfo> node_infos(const Layout& layout, uint32_t fan_out) {
  const tree::Shape shape{uint32_t(layout.hosts.size()), fan_out};
  std::vector<NodeInfo> infos;
  for (uint32_t n = 0; n < layout.hosts.size(); n++) infos.push_back({layout.hosts[n], shape.parent(n)});
  return infos;
}

bool core_files_allowed() {
  rlimit limit;
  return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur > 0;
}

/// The way of this host's questions to what answers them: none.
class OwnServices final : public Services {
 public:
  explicit OwnServices(Central& central) : central_(central) {}
  void ask(Service what, std::string body, Done done) override { central_.ask(0, what, body, std::move(done)); }

 private:
  Central& central_;
};

class Daemon final : public Host {
 public:
  Daemon(const Options& options, const Arrangement& places, tree::Allocation& where, Singleton* singleton)
      : Host(options, where.layout),
        singleton_(singleton),
        places_(places),
        where_(where),
        state_(rank_infos(options, where.layout), core_files_allowed(), node_infos(where.layout, where.fan_out)),
        central_(roster_, where.layout, central_upcalls()) {}
  int run();

 private:
  Singleton* const singleton_;  // only for mpirun --for-singleton
  const Arrangement& places_;
  const tree::Allocation& where_;
  DaemonState state_;
  Central central_;
  OwnServices services_{central_};
  std::string secret_;
  std::vector<int> pids_ = std::vector<int>(options_.ranks(), -1);  // of all ranks, on whatever host
  StackReader stacks_;
  StackGathering gathering_;
  uint64_t gathering_until_ns_ = 0;   // 0: nothing is being gathered
  std::unique_ptr<tree::Node> node_;  // only with other hosts
  std::unique_ptr<tree::Exchange> exchange_;
  uint64_t timeout_ns_ = 0, grace_ns_ = 0, late_ns_ = 0, omen_ns_ = 0;
  std::optional<event::Signalled> omen_;  // a signal that another host's daemon got
  int exit_code_ = 0;
  /// One spawn that is under way.
  struct Spawning {
    SpawnOrder order;
    Services::Done done;
  };
  std::map<uint32_t, Spawning> spawning_;  // by the number of the namespace
  std::map<uint32_t, uint32_t> ended_;     // ranks of each namespace
  bool impatient_ = false;                 // the user has sent a signal when all ranks were gone
  Exits exits_;

  void take(const Event& event) override;
  std::vector<int> inputs_below() override;
  const placement::Place* place_of(uint32_t rank) const override {
    return rank < places_.placement.ranks.size() ? &places_.placement.ranks[rank] : nullptr;
  }
  void act(const Action& action);
  Result<void> allocate();
  Result<void> reach();
  tree::Plan plan() const;
  void take_from_host(const Event& event);
  void deliver(const tree::Message& message);
  void tell(tree::Kind kind, std::string body = {});
  void loop();
  void turn(int wait);
  int wait_ms();
  void read_signals();
  void check_clocks();
  Central::Upcalls central_upcalls();
  void spread(uint32_t origin, const std::string& notice);
  void tell_failed(uint32_t rank);
  void spawn(SpawnWish wish, Services::Done done);
  void start_spawned(uint32_t number);
  void drop(uint32_t number);
  void answer_spawn(uint32_t number, int32_t status, const std::string& why);
  void end_tree();
  void show_stacks();
  void gather_stacks(uint32_t node, HostStacks found);
  void record() const;
  void record_map() const;
  void show_debugger();
  void adopt_singleton();
  void note_singleton_end();
};

int Daemon::run() {
  take_over_signals();
  if (options_.timeout_s > 0) timeout_ns_ = now_ns() + uint64_t(options_.timeout_s * 1e9);
  if (auto ok = allocate(); !ok)
    take(event::Broken{ok.failure().text});
  else
    take(event::Allocated{});
  loop();
  end_tree();
  clean_up();
  if (options_.print_exits) fprintf(stderr, "%s\n", exits_.text().c_str());
  if (output_lost_ && !exit_code_) exit_code_ = exit_failed;
  return exit_code_;
}

Result<void> Daemon::allocate() {
  if (auto ok = make_folder({}); !ok) return ok;
  hold_for_test(0, to_string(Phase::allocate));
  record();
  if (auto ok = output_.prepare(options_.ranks(), uint32_t(layout_.here().size())); !ok) return ok;
  job_environment_.master = layout_.alone() ? "127.0.0.1" : layout_.hosts[layout_.host_of[0]];
  if (options_.torch && layout_.host_of[0] == 0) job_environment_.master_port = free_port();
  secret_ = singleton_ ? singleton_->secret() : boot::random_secret();
  if (!layout_.alone()) {
    const tree::Shape shape{uint32_t(layout_.hosts.size()), where_.fan_out};
    exchange_ = std::make_unique<tree::Exchange>(layout_, shape, [this](tree::Kind kind, uint32_t to, std::string body) {
      node_->send({kind, 0, to, std::move(body)});
    });
    tree::Node::Upcalls upcalls;
    upcalls.deliver = [this](const tree::Message& message) { deliver(message); };
    upcalls.child_lost = [this](uint32_t node, const std::string& why) { take(event::HostLost{node, why}); };
    node_ = std::make_unique<tree::Node>(0, shape, secret_, std::move(upcalls));
    exchange_->serve([this](uint32_t asker, Service what, const std::string& body, Services::Done done) {
      central_.ask(asker, what, body, std::move(done));
    });
    node_->use(output_);
    if (auto ok = reach(); !ok) return ok;  // the others start while we do
    if (layout_.here().empty()) return {};
  }
  const placement::HostLoad& load = places_.placement.hosts[places_.placement.ranks[layout_.here()[0]].host];
  const Hardware own{places_.hardware ? &*places_.hardware : nullptr, places_.topology, load.cpus, load.binding};
  auto ok = start_server(secret_, exchange_.get(), services_, own);
  if (ok && exchange_) exchange_->serve(server_.get());
  return ok;
}

tree::Plan Daemon::plan() const {
  tree::Plan plan;
  plan.job = folder_.job();
  plan.launcher = uint32_t(getpid());
  plan.fan_out = where_.fan_out;
  plan.ssh = where_.how == tree::How::ssh;
  plan.agent = options_.agent;
  plan.program = where_.program;
  plan.hosts = layout_.hosts;
  plan.host_of = layout_.host_of;
  for (char** v = environ; *v; v++) plan.environment.emplace_back(*v);
  plan.master = job_environment_.master;
  plan.options = options_;
  plan.policies = places_.request;
  char here[4096];
  const std::string start = getcwd(here, sizeof here) ? std::string(here) + "/" : "";
  const auto complete = [&](std::string& folder) {
    if (folder.empty() || folder[0] != '/') folder = start + folder;
  };
  for (App& app : plan.options.apps) complete(app.folder);
  for (std::string* file : {&plan.options.output.folder, &plan.options.output.out_pattern, &plan.options.output.error_pattern})
    if (!file->empty()) complete(*file);
  return plan;
}

Result<void> Daemon::reach() {
  if (auto ok = node_->listen(); !ok) return ok;
  return node_->start_children(plan());
}

/// The daemon of the rank that gets it is a child of ours: tree::allocate() sees to that.
std::vector<int> Daemon::inputs_below() {
  if (!node_ || options_.input == InputTo::none) return {};
  if (options_.input == InputTo::all) return node_->take_inputs({});
  const uint32_t reader = layout_.host_of[options_.input_rank];
  return reader ? node_->take_inputs(reader) : std::vector<int>{};
}

Central::Upcalls Daemon::central_upcalls() {
  Central::Upcalls upcalls;
  upcalls.spread = [this](uint32_t origin, const std::string& notice) { spread(origin, notice); };
  upcalls.spawn = [this](SpawnWish wish, Services::Done done) { spawn(std::move(wish), std::move(done)); };
  return upcalls;
}

void Daemon::spread(uint32_t origin, const std::string& notice) {
  tell(tree::Kind::notice, tree::encode(tree::Spread{origin, notice}));
  if (!origin || !server_) return;
  if (const auto record = decode_notice(notice)) server_->notify(*record);
}

/// Each host's server tells its own ranks, as PMIx's servers do where a resource manager says so.
void Daemon::tell_failed(uint32_t rank) {
  const Notice notice{PMIX_ERR_PROC_TERM_WO_SYNC, roster_.proc(rank), PMIX_RANGE_LOCAL, {}};
  tell(tree::Kind::notice, tree::encode(tree::Spread{0, encode(notice)}));
  if (server_) server_->notify(notice);
}

/// Ranks inherit what the spawning program was given on the command line.
void Daemon::spawn(SpawnWish wish, Services::Done done) {
  const auto parent = roster_.rank(wish.who);
  auto places = place_spawned(wish, places_.request, layout_);
  if (!places || !parent) return done(PMIX_ERR_JOB_FAILED_TO_MAP, encode(Spawned{{}, places ? "" : places.failure().text}));
  const App& model = app_of(*parent);
  for (App& app : wish.apps) {
    if (app.folder.empty()) app.folder = model.folder;
    app.inherit = model.inherit;
    app.listed = model.listed;
    app.variables.insert(app.variables.begin(), model.variables.begin(), model.variables.end());
  }
  const uint32_t number = uint32_t(roster_.spaces().size());
  Space space{folder_.job() + "." + std::to_string(number), number, roster_.ranks(), uint32_t(places->size()), wish.apps, wish.who};
  std::vector<RankInfo> infos;
  for (uint32_t r = 0; r < space.ranks; r++)
    infos.push_back({space.apps[space.app_of(r)].command[0], layout_.hosts[(*places)[r]], (*places)[r], label(space, r)});
  spawning_[number] = {{std::move(space), std::move(*places)}, std::move(done)};
  take(event::SpawnAsked{std::move(infos)});
}

void Daemon::start_spawned(uint32_t number) {
  const SpawnOrder& order = spawning_.at(number).order;
  add_space(order);
  pids_.resize(roster_.ranks(), -1);
  tell(tree::Kind::spawn, encode(order));
  launch_space(number);
}

void Daemon::drop(uint32_t number) {
  tell(tree::Kind::drop, tree::encode(number));
  drop_space(number);
}

void Daemon::answer_spawn(uint32_t number, int32_t status, const std::string& why) {
  auto found = spawning_.find(number);
  if (found == spawning_.end()) return;
  const Spawning spawning = std::move(found->second);
  spawning_.erase(found);
  if (status == PMIX_SUCCESS) record_map();
  spawning.done(status, encode(Spawned{status == PMIX_SUCCESS ? spawning.order.space.name : "", why}));
}

void Daemon::tell(tree::Kind kind, std::string body) {
  if (node_) node_->send({kind, 0, tree::everybody, std::move(body)});
}

void Daemon::deliver(const tree::Message& message) {
  switch (message.kind) {
    case tree::Kind::up:
      if (auto port = tree::decode_number(message.body); port && *port) job_environment_.master_port = uint16_t(*port);
      return take(event::HostUp{message.from});
    case tree::Kind::lost:
      if (auto lost = tree::decode_lost(message.body)) take(event::HostLost{lost->node, lost->why});
      return;
    case tree::Kind::event:
      if (auto event = tree::decode_event(message.body)) take_from_host(*event);
      return;
    case tree::Kind::stacks_found:
      if (auto found = tree::decode_stacks(message.body)) gather_stacks(message.from, std::move(*found));
      return;
    default: exchange_->deliver(message);
  }
}

/// Slurm ends all daemons when one has died, so that the signal of another may be heard of before that: the loss, which is the cause,
/// gets a moment to be noticed.
void Daemon::take_from_host(const Event& event) {
  const auto* signalled = std::get_if<event::Signalled>(&event);
  if (!signalled || signalled->why.empty()) return take(event);
  if (omen_) return;
  omen_ = *signalled;
  omen_ns_ = now_ns() + omen_patience_ns;
}

/// What `weft ps` shows of this job.
void Daemon::record() const {
  boot::JobRecord record;
  record.folder = folder_.path();
  record.launcher = boot::process_name(getpid());
  record.ranks = options_.ranks();
  record.since = time(nullptr);
  record.host = layout_.hosts[0];
  record.command = options_.command_line;
  if (char* here = get_current_dir_name()) {
    record.directory = here;
    free(here);
  }
  boot::write_record(record);
}

void Daemon::record_map() const {
  std::vector<boot::JobMapLine> lines;
  for (uint32_t rank = 0; rank < pids_.size(); rank++)
    lines.push_back({rank, pids_[rank], layout_.hosts[layout_.host_of[rank]], app_of(rank).command[0]});
  boot::write_map(folder_.path(), lines);
  if (!server_) return;  // no rank of ours: each host's daemon knows the environment there
  std::string text;
  for (const std::string& variable : environment_of(0)) text += variable + "\n";
  boot::write_file(folder_.path(), "environment", text);
}

/// A debugger that has started us wants to have seen the ranks before they run.
void Daemon::show_debugger() {
  std::vector<DebuggedRank> ranks;
  for (uint32_t rank = 0; rank < pids_.size(); rank++)
    ranks.push_back({layout_.hosts[layout_.host_of[rank]], programs_[options_.app_of(rank)], pids_[rank]});
  publish_ranks(ranks);
  if (held_) act({Action::signal_ranks, SIGCONT});
}

void Daemon::adopt_singleton() {
  job_environment_.job = folder_.job();
  programs_ = {singleton_->program()};
  singleton_->welcome(server_->environment(0));
  take(event::Started{0, singleton_->pid()});
}

/// How it ended only its parent knows.
void Daemon::note_singleton_end() {
  take_letters();
  singleton_->note_end();
  take(event::Exited{0, 0, 0, false});
}

void Daemon::take(const Event& event) {
  if (const auto* exited = std::get_if<event::Exited>(&event)) exits_.note(*exited);
  const Phase before = state_.phase();
  const State state = state_.step(event);
  if (const auto* exited = std::get_if<event::Exited>(&event); exited && exited->rank < roster_.ranks()) {
    const Space& space = roster_.of(exited->rank);
    const bool last = ++ended_[space.number] == space.ranks;
    central_.gone(exited->rank, last);
    if (last && space.number && state.phase == Phase::run) drop(space.number);
  }
  if (const auto* started = std::get_if<event::Started>(&event); started && started->rank < pids_.size())
    pids_[started->rank] = started->pid;
  if (state.phase == Phase::stop && before != Phase::stop)
    for (const Action& action : state.actions)
      if (action.kind == Action::say) {
        publish_abort(action.text);
        if (singleton_) singleton_->refuse(action.text);  // unless it has been taken in
      }
  if (state.phase != before) {
    say_verbose(std::string(to_string(before)) + " -> " + to_string(state.phase));
    hold_for_test(0, to_string(state.phase));
  }
  const bool starting = state.phase == Phase::reach || state.phase == Phase::launch;
  late_ns_ = starting && node_ ? now_ns() + start_patience_ns() * 3 / 2 : 0;  // any event is progress; ssh's attempts take longer than one
  for (const Action& action : state.actions) act(action);
  if (before == Phase::launch && state.phase == Phase::run) {
    record_map();
    show_debugger();
  }
}

void Daemon::act(const Action& action) {
  switch (action.kind) {
    case Action::reach: return;                      // under way since before our own server was started
    case Action::map: return take(event::Mapped{});  // done before there was a job
    case Action::launch:
      tell(tree::Kind::launch, tree::encode(tree::Launch{being_debugged(), job_environment_.master_port}));
      if (singleton_) return adopt_singleton();
      return launch(being_debugged());
    case Action::tell_failed: return tell_failed(uint32_t(action.number));
    case Action::signal_ranks:
      tell(tree::Kind::signal, tree::encode(uint32_t(action.number)));
      if (singleton_) singleton_->signal(action.number);
      return signal_ranks(action.number);
    case Action::say:
      output_.drain(UINT32_MAX);  // first what led to it
      return say(action.text);
    case Action::show_stacks: return show_stacks();
    case Action::spawn: return start_spawned(uint32_t(action.number));
    case Action::refuse_spawn: return answer_spawn(uint32_t(roster_.spaces().size()), PMIX_ERR_JOB_CANCELED, action.text);
    case Action::spawn_done: return answer_spawn(uint32_t(action.number), PMIX_SUCCESS, {});
    case Action::spawn_failed: return answer_spawn(uint32_t(action.number), PMIX_ERR_JOB_FAILED_TO_LAUNCH, action.text);
    case Action::drop: return drop(uint32_t(action.number));
    case Action::start_grace: grace_ns_ = now_ns() + uint64_t(action.number) * 1'000'000; return;
    case Action::finish: exit_code_ = action.number; return;
  }
}

/// Each host asks about its own ranks.
void Daemon::show_stacks() {
  constexpr uint64_t way_ns = 5'000'000'000;  // for what the others say to arrive
  for (const auto& [node, ranks] : layout_.by_host()) gathering_.expect(node, layout_.hosts[node]);
  gathering_until_ns_ = now_ns() + StackReader::all_ns + way_ns;
  tell(tree::Kind::stacks);
  if (!layout_.here().empty()) stacks_.start(running_ranks(), now_ns());
}

void Daemon::gather_stacks(uint32_t node, HostStacks found) {
  gathering_.add(node, std::move(found));
  if (gathering_.complete() && gathering_until_ns_) gathering_until_ns_ = 1;
}

int Daemon::wait_ms() {
  uint64_t next = output_.next_tick_ns();
  for (uint64_t clock : {timeout_ns_, grace_ns_, late_ns_, omen_ns_, central_.next_tick_ns(), stacks_.next_tick_ns(), gathering_until_ns_,
                         room_.next_tick_ns(), node_ ? node_->next_tick_ns() : 0})
    if (clock && (!next || clock < next)) next = clock;
  if (!next) return -1;
  const uint64_t now = now_ns();
  return next <= now ? 0 : int(std::min<uint64_t>((next - now) / 1'000'000 + 1, 1'000'000));
}

/// One round: waits until something happens and does what it asks for.
void Daemon::turn(int wait) {
  pollfd ready[7] = {{signals_, POLLIN, 0},
                     {mailbox_.fd(), POLLIN, 0},
                     {output_.fd(), POLLIN, 0},
                     input_.interest(),
                     {node_ ? node_->fd() : -1, POLLIN, 0},
                     {stacks_.fd(), POLLIN, 0},
                     {singleton_ ? singleton_->fd() : -1, POLLIN, 0}};
  if (poll(ready, 7, wait) < 0 && errno != EINTR) return;
  // PMIx first: that a rank has left in order was said before it exited.
  if (ready[1].revents) read_mailbox();
  if (ready[0].revents) read_signals();
  if (ready[3].revents) input_.process();
  if (ready[6].revents) note_singleton_end();
  if (node_) node_->process();
  output_.process();
  tell_loss();
}

void Daemon::loop() {
  while (state_.phase() != Phase::done) {
    turn(wait_ms());
    check_clocks();
  }
}

/// Sends the daemons away and waits until they have gone. What the ranks have written is on its way with them: as long as our reader or
/// the network is what takes time, they may take theirs, unless the user loses patience.
void Daemon::end_tree() {
  if (!node_) return;
  node_->end_children();
  uint64_t quiet_since = now_ns(), traffic = 0;
  const auto patience = [&] { return node_->only_starters_left() ? patience_ns / 8 : patience_ns; };
  while (!node_->below_gone() && !impatient_ && now_ns() - quiet_since < patience()) {
    turn(20);
    if (output_.pending() || output_.traffic() != traffic) quiet_since = now_ns();
    traffic = output_.traffic();
  }
  node_->cut_children();
}

void Daemon::check_clocks() {
  const uint64_t now = now_ns();
  if (omen_ns_ && now >= omen_ns_) {
    omen_ns_ = 0;
    if (state_.phase() != Phase::stop) take(*omen_);
  }
  if (timeout_ns_ && now >= timeout_ns_) {
    timeout_ns_ = 0;
    take(event::TimedOut{options_.timeout_s});
  }
  if (late_ns_ && now >= late_ns_) {
    late_ns_ = 0;
    take(event::Broken{state_.awaited()});
  }
  if (grace_ns_ && now >= grace_ns_) {
    grace_ns_ = 0;
    take(event::GraceOver{});
  }
  check_room();
  central_.tick(now);
  if (stacks_.process(now)) gather_stacks(0, stacks_.result());
  if (gathering_until_ns_ && now >= gathering_until_ns_) {
    gathering_until_ns_ = 0;
    if (state_.phase() == Phase::run) say(gathering_.report());
    take(event::StacksShown{});
  }
}

void Daemon::read_signals() {
  signalfd_siginfo info;
  bool children = false;
  while (read(signals_, &info, sizeof info) == sizeof info) {
    const int signal = int(info.ssi_signo);
    if (signal == SIGCHLD) {
      children = true;
      continue;
    }
    impatient_ |= state_.phase() == Phase::done && signal != SIGCONT && signal != SIGTSTP;
    take(event::Signalled{signal});
    if (signal == SIGTSTP) raise(SIGSTOP);  // the shell takes over; SIGCONT comes through here again
  }
  if (!children) return;
  reap();
  if (node_) node_->reap();
}

}  // namespace

int run_job(const Options& options, Singleton* singleton) {
  Options complete = options;
  const auto refuse = [&](const std::string& why) {
    fprintf(stderr, "mpirun: %s\n", why.c_str());
    if (singleton) singleton->refuse(why);
    return exit_usage;
  };
  auto places = arrange(complete);
  if (!places) return refuse(places.failure().text);
  fputs(show(complete, *places).c_str(), complete.dry_run ? stdout : stderr);
  if (complete.dry_run) return 0;
  auto where = tree::allocate(complete, places->placement, own_name());
  if (!where) return refuse(where.failure().text);
  Daemon daemon(complete, *places, *where, singleton);
  const int code = daemon.run();
  // PMIx's threads may be in the middle of something; everything of ours is closed, so leave without their consent.
  _exit(code);
}

}  // namespace weft::launcher
