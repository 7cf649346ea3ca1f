#include "launcher/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "launcher/arrange.h"
#include "launcher/daemon_state.h"
#include "launcher/environment.h"
#include "launcher/events.h"
#include "launcher/guardian.h"
#include "launcher/input.h"
#include "launcher/job_folder.h"
#include "launcher/mpir.h"
#include "launcher/output.h"
#include "launcher/pmix_server.h"
#include "launcher/spawn.h"
#include "launcher/stacks.h"
#include "runtime/base/clock.h"
#include "runtime/boot/internal.h"
#include "runtime/boot/job_record.h"

extern char** environ;

namespace weft::launcher {
namespace {

std::string host_name() {
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  return name;
}

/// The signals that mpirun takes by reading, not by handlers.
sigset_t taken_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGALRM, SIGABRT}) sigaddset(&set, s);
  return set;
}

std::vector<RankInfo> rank_infos(const Options& options, const std::string& host) {
  std::vector<RankInfo> infos;
  for (const App& app : options.apps) infos.insert(infos.end(), app.ranks, RankInfo{app.command[0], host});
  return infos;
}

bool core_files_allowed() {
  rlimit limit;
  return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur > 0;
}

class Daemon {
 public:
  Daemon(const Options& options, const Arrangement& places)
      : options_(options),
        places_(places),
        host_(host_name()),
        state_(rank_infos(options, host_), core_files_allowed()),
        children_(options.ranks()) {}
  int run();

 private:
  struct Process {
    pid_t pid = -1;
    bool gone = false;
  };

  const Options& options_;
  const Arrangement& places_;
  const std::string host_;
  DaemonState state_;
  std::vector<Process> children_;  // zombies stay until the end, so that no process group's number is used again
  JobFolder folder_;
  std::optional<Guardian> guardian_;
  Mailbox mailbox_;
  std::unique_ptr<PmixServer> server_;
  JobEnvironment job_environment_;
  std::vector<std::string> programs_;  // their files, one an app
  StackReader stacks_;
  Output output_{options_.output};
  Input input_{options_.input, options_.input_rank, options_.ranks()};
  int signals_ = -1;
  uint64_t timeout_ns_ = 0, grace_ns_ = 0;
  int exit_code_ = 0;
  bool output_lost_ = false;
  std::vector<Event> aborts_;  // waiting until it is sure that nobody has died before

  void take(const Event& event);
  void act(const Action& action);
  Result<void> allocate();
  void launch();
  bool start_rank(uint32_t rank, const std::string& path);
  std::vector<std::string> environment_of(uint32_t rank, const App& app) const;
  void loop();
  int wait_ms();
  void read_signals();
  void reap();
  void take_letters();
  void read_mailbox();
  void check_clocks();
  void signal_ranks(int signal);
  void clean_up();
  void finish_output();
  void show_stacks();
  void tell_loss();
  void record() const;
  void record_map() const;
  void show_debugger();
  void say(const std::string& text) {
    output_.say(text);
    if (!folder_.path().empty()) boot::append_message(folder_.path(), text);
  }
  void say_verbose(const std::string& text) {
    if (options_.verbose) say("mpirun: " + text);
  }
};

int Daemon::run() {
  const sigset_t set = taken_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);  // before any thread exists: all inherit it
  signal(SIGPIPE, SIG_IGN);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what ranks leave behind becomes our child, and so can be ended
  raise_descriptor_limit();
  if (options_.timeout_s > 0) timeout_ns_ = now_ns() + uint64_t(options_.timeout_s * 1e9);
  if (auto ok = allocate(); !ok)
    take(event::Broken{ok.failure().text});
  else
    take(event::Allocated{});
  loop();
  clean_up();
  return exit_code_;
}

Result<void> Daemon::allocate() {
  if (auto ok = folder_.create(temporary_bytes(options_.ranks())); !ok) return ok;
  record();
  if (auto ok = output_.prepare(options_.ranks()); !ok) return ok;
  guardian_.emplace(folder_.path(), folder_.job());
  if (!guardian_->start()) return Failure{std::string("cannot start the guardian process: ") + strerror(errno)};
  JobFacts facts;
  facts.name = folder_.job();
  facts.folder = folder_.path();
  facts.host = host_;
  facts.secret = boot::random_secret();
  facts.topology = places_.topology;
  facts.hwloc_topology = places_.hardware ? places_.hardware->handle() : nullptr;
  facts.cpus = places_.placement.hosts[0].cpus;
  facts.options = &options_;
  auto server = PmixServer::start(facts, mailbox_);
  if (!server) return server.failure();
  server_ = std::move(*server);
  say_verbose("job " + facts.name + ", " + std::to_string(options_.ranks()) + " ranks, " + std::to_string(facts.cpus) + " usable CPUs, " +
              places_.placement.hosts[0].binding + ", folder " + facts.folder);
  return {};
}

/// What `weft ps` shows of this job.
void Daemon::record() const {
  boot::JobRecord record;
  record.folder = folder_.path();
  record.launcher = boot::process_name(getpid());
  record.ranks = options_.ranks();
  record.since = time(nullptr);
  record.host = host_;
  record.command = options_.command_line;
  if (char* here = get_current_dir_name()) {
    record.directory = here;
    free(here);
  }
  boot::write_record(record);
}

void Daemon::record_map() const {
  std::vector<boot::JobMapLine> lines;
  for (uint32_t rank = 0; rank < children_.size(); rank++)
    lines.push_back({rank, children_[rank].pid, host_, options_.apps[options_.app_of(rank)].command[0]});
  boot::write_map(folder_.path(), lines);
  std::string text;
  for (const std::string& variable : environment_of(0, options_.apps[0])) text += variable + "\n";
  boot::write_file(folder_.path(), "environment", text);
}

/// A debugger that has started us wants to have seen the ranks before they run.
void Daemon::show_debugger() {
  std::vector<DebuggedRank> ranks;
  uint32_t rank = 0;
  for (size_t a = 0; a < options_.apps.size(); a++)
    for (uint32_t i = 0; i < options_.apps[a].ranks; i++, rank++) ranks.push_back({host_, programs_[a], children_[rank].pid});
  publish_ranks(ranks);
  if (being_debugged()) signal_ranks(SIGCONT);
}

void Daemon::take(const Event& event) {
  const Phase before = state_.phase();
  const State state = state_.step(event);
  if (state.phase == Phase::stop && before != Phase::stop)
    for (const Action& action : state.actions)
      if (action.kind == Action::say) publish_abort(action.text);
  if (state.phase != before) say_verbose(std::string(to_string(before)) + " -> " + to_string(state.phase));
  for (const Action& action : state.actions) act(action);
}

void Daemon::act(const Action& action) {
  switch (action.kind) {
    case Action::map: return take(event::Mapped{});  // one host: every rank's place is here
    case Action::launch: return launch();
    case Action::signal_ranks: return signal_ranks(action.number);
    case Action::say:
      output_.drain(UINT32_MAX);  // first what led to it
      return say(action.text);
    case Action::show_stacks: return show_stacks();
    case Action::start_grace: grace_ns_ = now_ns() + uint64_t(action.number) * 1'000'000; return;
    case Action::finish: exit_code_ = action.number; return;
  }
}

void Daemon::launch() {
  job_environment_.job = folder_.job();
  job_environment_.torch = options_.torch;
  job_environment_.master = "127.0.0.1";
  if (options_.torch) job_environment_.master_port = free_port();
  uint32_t rank = 0;
  for (const App& app : options_.apps) {
    auto path = find_program(app.command[0], app.folder);
    programs_.push_back(path ? *path : app.command[0]);
    for (uint32_t i = 0; i < app.ranks; i++, rank++) {
      if (!path)
        take(event::LaunchFailed{rank, path.failure().text,
                                 access(app.command[0].c_str(), F_OK) == 0 ? exit_not_executable : exit_not_found});
      if (state_.phase() != Phase::launch || !start_rank(rank, *path)) return;
    }
  }
  record_map();
  show_debugger();
  sweep_dead_jobs();  // here, while the ranks start
}

std::vector<std::string> Daemon::environment_of(uint32_t rank, const App& app) const {
  std::vector<std::string> all = inherited(app, environ);
  for (const auto& [name, value] : app.variables) set_variable(all, name, value);
  const std::vector<std::string> pmix = server_->environment(rank);
  all.insert(all.end(), pmix.begin(), pmix.end());
  const Seat seat{rank, options_.ranks(), rank, options_.ranks()};  // one host: local numbers are the job's
  for (const auto& [name, value] : contract(job_environment_, seat, all)) set_variable(all, name, value);
  return all;
}

bool Daemon::start_rank(uint32_t rank, const std::string& path) {
  const App& app = options_.apps[options_.app_of(rank)];
  int out[2], err[2];
  auto failed = [&](const std::string& why, int code = exit_failed) {
    take(event::LaunchFailed{rank, why, code});
    return false;
  };
  if (pipe2(out, O_CLOEXEC)) return failed(std::string("no pipe for its output: ") + strerror(errno) + " (see ulimit -n)");
  if (pipe2(err, O_CLOEXEC)) {
    close(out[0]);
    close(out[1]);
    return failed(std::string("no pipe for its output: ") + strerror(errno) + " (see ulimit -n)");
  }
  auto taken = output_.add(rank, out[0], err[0]);
  if (!taken)
    for (int fd : {out[0], err[0]}) close(fd);
  const int input = input_.open_for(rank);
  SpawnError error{input < 0 ? std::string("no input: ") + strerror(errno) : "", exit_failed};
  pid_t pid = -1;
  const Child child{path,   app.command, environment_of(rank, app),          app.folder,      input,
                    out[1], err[1],      places_.placement.ranks[rank].cpus, being_debugged()};
  if (taken && input >= 0) pid = spawn(child, error);
  input_.started(rank);
  close(out[1]);
  close(err[1]);
  if (!taken) return failed(taken.failure().text);
  if (pid < 0) return failed(error.text, error.exit_code);
  children_[rank].pid = pid;
  guardian_->watch(pid);
  take(event::Started{rank, pid});
  return true;
}

void Daemon::show_stacks() {
  std::vector<std::pair<uint32_t, pid_t>> ranks;
  for (uint32_t rank = 0; rank < children_.size(); rank++)
    if (children_[rank].pid > 0 && !children_[rank].gone) ranks.emplace_back(rank, children_[rank].pid);
  stacks_.start(ranks, now_ns());
}

int Daemon::wait_ms() {
  uint64_t next = output_.next_tick_ns();
  for (uint64_t clock : {timeout_ns_, grace_ns_, stacks_.next_tick_ns()})
    if (clock && (!next || clock < next)) next = clock;
  if (!next) return -1;
  const uint64_t now = now_ns();
  return next <= now ? 0 : int(std::min<uint64_t>((next - now) / 1'000'000 + 1, 1'000'000));
}

void Daemon::loop() {
  while (state_.phase() != Phase::done) {
    pollfd ready[5] = {
        {signals_, POLLIN, 0}, {mailbox_.fd(), POLLIN, 0}, {output_.fd(), POLLIN, 0}, input_.interest(), {stacks_.fd(), POLLIN, 0}};
    if (poll(ready, 5, wait_ms()) < 0 && errno != EINTR) break;
    // PMIx first: that a rank has left in order was said before it exited.
    if (ready[1].revents) read_mailbox();
    if (ready[0].revents) read_signals();
    if (ready[3].revents) input_.process();
    output_.process();
    tell_loss();
    check_clocks();
  }
}

void Daemon::check_clocks() {
  const uint64_t now = now_ns();
  if (timeout_ns_ && now >= timeout_ns_) {
    timeout_ns_ = 0;
    take(event::TimedOut{options_.timeout_s});
  }
  if (grace_ns_ && now >= grace_ns_) {
    grace_ns_ = 0;
    take(event::GraceOver{});
  }
  if (stacks_.process(now) && state_.phase() == Phase::run) {
    say(stacks_.report());
    take(event::StacksShown{});
  }
}

/// Takes what PMIx's thread has posted, but keeps aborts back.
void Daemon::take_letters() {
  Mailbox::Letters letters = mailbox_.take();
  for (const Mailbox::Work& work : letters.works) work();
  for (Event& event : letters.events) {
    if (std::holds_alternative<event::Aborted>(event))
      aborts_.push_back(std::move(event));
    else
      take(event);
  }
}

void Daemon::read_mailbox() {
  take_letters();
  if (aborts_.empty()) return;
  reap();  // a rank that aborts because another has died is not the culprit
  const std::vector<Event> aborts = std::exchange(aborts_, {});
  for (const Event& event : aborts) take(event);
  server_->answer_aborts();
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
    take(event::Signalled{signal});
    if (signal == SIGTSTP) raise(SIGSTOP);  // the shell takes over; SIGCONT comes through here again
  }
  if (!children) return;
  reap();
}

void Daemon::reap() {
  for (uint32_t rank = 0; rank < children_.size(); rank++) {
    Process& child = children_[rank];
    if (child.pid < 0 || child.gone) continue;
    siginfo_t info{};
    if (waitid(P_PID, id_t(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid != child.pid) continue;
    child.gone = true;
    take_letters();  // what the dead said in time counts, and was posted before they died
    output_.drain(rank);
    const bool exited = info.si_code == CLD_EXITED;
    take(event::Exited{rank, exited ? info.si_status : 0, exited ? 0 : info.si_status, info.si_code == CLD_DUMPED});
  }
  siginfo_t info{};
  if (guardian_ && guardian_->pid() > 0 && waitid(P_PID, id_t(guardian_->pid()), &info, WEXITED | WNOHANG) == 0 && info.si_pid) {
    say_verbose("the guardian process was killed; starting another");
    guardian_->start();
  }
}

void Daemon::signal_ranks(int signal) {
  for (const Process& child : children_)
    if (child.pid > 0 && !child.gone) kill(-child.pid, signal);
}

/// All ranks are gone: ends what they left behind, passes on the rest of their output, removes the job's files.
void Daemon::clean_up() {
  for (const Process& child : children_)
    if (child.pid > 0) {
      kill(-child.pid, SIGKILL);  // its zombie still holds the number, so the group can be nobody else's
      waitpid(child.pid, nullptr, 0);
    }
  kill_children_but(guardian_ ? guardian_->pid() : -1);
  finish_output();
  if (!folder_.path().empty()) remove_job(folder_.path(), folder_.job());
  if (guardian_) guardian_->dismiss();
}

/// All that the ranks have written reaches its reader, however slow, unless the user loses patience.
void Daemon::finish_output() {
  constexpr uint64_t patience_ns = 1'000'000'000;  // with a pipe that somebody out of our reach holds open
  uint64_t quiet_since = now_ns();
  bool impatient = false;
  while (!impatient && (output_.open_streams() || output_.pending())) {
    pollfd ready[2] = {{output_.fd(), POLLIN, 0}, {signals_, POLLIN, 0}};
    const bool some = poll(ready, 2, 50) > 0 && ready[0].revents;
    output_.process();
    if (some || output_.pending()) quiet_since = now_ns();
    if (output_.open_streams() && now_ns() - quiet_since > patience_ns) output_.end_streams();
    signalfd_siginfo info;
    while (read(signals_, &info, sizeof info) == sizeof info) impatient |= info.ssi_signo != SIGCHLD;
  }
  output_.end_streams();
  tell_loss();
  if (output_lost_ && !exit_code_) exit_code_ = exit_failed;
}

void Daemon::tell_loss() {
  const std::string loss = output_.loss();
  if (loss.empty()) return;
  say(loss);
  output_lost_ = true;
}

}  // namespace

int run_job(const Options& options) {
  Options complete = options;
  auto places = arrange(complete);
  if (!places) {
    fprintf(stderr, "mpirun: %s\n", places.failure().text.c_str());
    return exit_usage;
  }
  fputs(show(complete, *places).c_str(), complete.dry_run ? stdout : stderr);
  if (complete.dry_run) return 0;
  Daemon daemon(complete, *places);
  const int code = daemon.run();
  // PMIx's threads may be in the middle of something; everything of ours is closed, so leave without their consent.
  _exit(code);
}

}  // namespace weft::launcher
