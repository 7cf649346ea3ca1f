#include "launcher/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "launcher/environment.h"
#include "launcher/spawn.h"
#include "runtime/base/clock.h"
#include "runtime/boot/job_record.h"

extern char** environ;

namespace weft::launcher {
namespace {

/// The signals that are taken by reading, not by handlers.
sigset_t taken_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGALRM, SIGABRT}) sigaddset(&set, s);
  return set;
}

/// What this host has to do with mpirun's input: of the others, those below get it from here.
Input::Part part_of(const Options& options, const Layout& layout) {
  const bool one = options.input == InputTo::one, all = options.input == InputTo::all;
  const bool owner = one && layout.host_of[options.input_rank] == layout.self;
  Input::Part part;
  part.readers = all ? uint32_t(layout.here().size()) : owner;
  part.passes_on = layout.self == 0 && !layout.alone() && (all || (one && !owner));
  part.to_the_end = layout.self != 0;
  return part;
}

}  // namespace

Host::Host(const Options& options, Layout& layout)
    : options_(options),
      layout_(layout),
      children_(options.ranks()),
      output_(options.output),
      input_(options.input, options.input_rank, part_of(options, layout)) {}

void Host::take_over_signals() {
  const sigset_t set = taken_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);  // before any thread exists: all inherit it
  signal(SIGPIPE, SIG_IGN);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what ranks leave behind becomes our child, and so can be ended
  raise_descriptor_limit();
}

Result<void> Host::make_folder(const std::string& job) {
  if (auto ok = folder_.create(temporary_bytes(options_.ranks(), uint32_t(layout_.here().size())), job, layout_.self); !ok) return ok;
  roster_.add({folder_.job(), 0, 0, options_.ranks(), options_.apps});
  guardian_.emplace(folder_.path(), folder_.job(), folder_.lock(), layout_.self == 0);
  if (!guardian_->start()) return Failure{std::string("cannot start the guardian process: ") + strerror(errno)};
  return {};
}

Result<void> Host::start_server(const std::string& secret, Remote* remote, Services& services, const Hardware& hardware) {
  JobFacts facts;
  facts.name = folder_.job();
  facts.folder = folder_.path();
  facts.secret = secret;
  facts.topology = hardware.topology;
  facts.hwloc_topology = hardware.handle ? hardware.handle->handle() : nullptr;
  facts.cpus = hardware.cpus;
  facts.verbose = options_.verbose;
  facts.roster = &roster_;
  facts.layout = &layout_;
  facts.remote = remote;
  facts.services = &services;
  auto server = PmixServer::start(facts, mailbox_);
  if (!server) {
    auto room = enough_room();
    return room ? server.failure() : room.failure();  // PMIx knows no reasons
  }
  server_ = std::move(*server);
  say_verbose("job " + facts.name + ", " + std::to_string(layout_.here().size()) + " of " + std::to_string(options_.ranks()) +
              " ranks on " + layout_.host() + ", " + std::to_string(facts.cpus) + " usable CPUs, " + hardware.binding + ", folder " +
              facts.folder);
  return {};
}

void Host::say(const std::string& text) {
  output_.say(text);
  if (layout_.self == 0 && !folder_.path().empty()) boot::append_message(folder_.path(), text);
}

void Host::launch(bool held) {
  held_ = held;
  for (int pipe : inputs_below()) input_.pass_to(pipe);
  job_environment_.job = folder_.job();
  job_environment_.torch = options_.torch;
  uint32_t rank = 0;
  for (const App& app : options_.apps) {
    const auto path = find_program(app.command[0], app.folder, app.path);
    programs_.push_back(path ? *path : app.command[0]);
    for (uint32_t i = 0; i < app.ranks; i++, rank++) {
      if (layout_.host_of[rank] != layout_.self) continue;
      if (!path) return say_not_found(rank, path.failure());
      if (!start_rank(rank, *path)) return;
    }
  }
  input_.begin();
  sweep_dead_jobs();  // here, while the ranks start
}

void Host::say_not_found(uint32_t rank, const Failure& why) {
  take(event::LaunchFailed{rank, why.text, access(app_of(rank).command[0].c_str(), F_OK) == 0 ? exit_not_executable : exit_not_found});
}

void Host::add_space(const SpawnOrder& order) {
  roster_.add(order.space);
  layout_.extend(order.host_of);
  children_.resize(roster_.ranks());
}

void Host::launch_space(uint32_t number) {
  const Space& space = roster_.spaces()[number];
  const uint32_t here = layout_.here(space.first, space.ranks);
  if (!here && !server_) return;                          // nobody on this host will ever ask
  const uint32_t first = roster_.spaces().front().ranks;  // its segments are as large as those of the job's first ranks
  Result<void> ok = server_ ? folder_.expect(temporary_bytes(first, layout_.here(0, first))) : Failure{"no PMIx server runs there"};
  if (ok) ok = server_->add_space(space);
  uint32_t rank = space.first;
  for (const App& app : space.apps) {
    const auto path = find_program(app.command[0], app.folder, app.path);
    for (uint32_t i = 0; i < app.ranks; i++, rank++) {
      if (layout_.host_of[rank] != layout_.self) continue;
      if (!ok) return take(event::LaunchFailed{rank, ok.failure().text, exit_failed});
      if (!path) return say_not_found(rank, path.failure());
      if (!start_rank(rank, *path)) return;
    }
  }
}

void Host::drop_space(uint32_t number) {
  if (!number || number >= roster_.spaces().size()) return;
  const Space& space = roster_.spaces()[number];
  for (uint32_t rank = space.first; rank < space.first + space.ranks; rank++)
    if (children_[rank].pid > 0) kill(-children_[rank].pid, SIGKILL);  // and what it has left in its group
  dropped_.insert(number);
  bury(space);
}

/// Once all of its ranks here are gone a namespace that is over takes no room any more: a job may spawn as often as it likes.
void Host::bury(const Space& space) {
  if (!dropped_.count(space.number)) return;
  for (uint32_t rank = space.first; rank < space.first + space.ranks; rank++)
    if (children_[rank].pid > 0 && !children_[rank].gone) return;
  for (uint32_t rank = space.first; rank < space.first + space.ranks; rank++) {
    if (children_[rank].pid > 0) {
      guardian_->forget(children_[rank].pid);
      waitpid(children_[rank].pid, nullptr, 0);
    }
    children_[rank] = {-1, true};
  }
  dropped_.erase(space.number);
  if (server_) server_->remove_space(space.name);
}

const App& Host::app_of(uint32_t rank) const {
  const Space& space = roster_.of(rank);
  return space.apps[space.app_of(rank - space.first)];
}

std::vector<std::string> Host::environment_of(uint32_t rank) const {
  const Space& space = roster_.of(rank);
  const App& app = app_of(rank);
  std::vector<std::string> all = inherited(app, environ);
  for (const auto& [name, value] : app.variables) set_variable(all, name, value);
  const std::vector<std::string> pmix = server_->environment(rank);
  all.insert(all.end(), pmix.begin(), pmix.end());
  const Seat seat{rank - space.first, space.ranks, layout_.local_rank(rank), layout_.here(space.first, space.ranks)};
  for (const auto& [name, value] : contract(job_environment_, seat, all)) set_variable(all, name, value);
  if (const placement::Place* place = place_of(rank))
    for (const auto& [name, value] : device_variables(*place)) set_variable(all, name, value);
  return all;
}

bool Host::start_rank(uint32_t rank, const std::string& path) {
  const Space& space = roster_.of(rank);
  const App& app = app_of(rank);
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
  auto taken = output_.add(rank, out[0], err[0], label(space, rank - space.first));
  if (!taken)
    for (int fd : {out[0], err[0]}) close(fd);
  const int input = space.number ? input_.nothing() : input_.open_for(rank);
  SpawnError error{input < 0 ? std::string("no input: ") + strerror(errno) : "", exit_failed};
  pid_t pid = -1;
  const placement::Place* place = place_of(rank);
  const topo::CpuSet cpus = place ? place->cpus : topo::CpuSet();
  const Child child{path, app.command, environment_of(rank), app.folder, input, out[1], err[1], cpus, held_};
  if (taken && input >= 0) pid = spawn(child, error);
  if (!space.number) input_.started();
  close(out[1]);
  close(err[1]);
  if (!taken) return failed(taken.failure().text);
  if (pid < 0) return failed(error.text, error.exit_code);
  children_[rank].pid = pid;
  guardian_->watch(pid);
  take(event::Started{rank, pid});
  return true;
}

/// Takes what PMIx's thread has posted, but keeps aborts back.
void Host::take_letters() {
  Mailbox::Letters letters = mailbox_.take();
  for (const Mailbox::Work& work : letters.works) work();
  for (Event& event : letters.events) {
    if (std::holds_alternative<event::Aborted>(event))
      aborts_.push_back(std::move(event));
    else
      take(event);
    if (const auto* connected = std::get_if<event::Connected>(&event)) room_.joining(connected->rank, now_ns());
  }
}

Result<void> Host::enough_room() const { return folder_.expect(temporary_bytes(options_.ranks(), uint32_t(layout_.here().size()))); }

void Host::check_room() {
  const auto pid_of = [&](uint32_t rank) { return rank < children_.size() && !children_[rank].gone ? children_[rank].pid : 0; };
  const std::vector<uint32_t> stuck = room_.check(
      now_ns(), [&] { return !enough_room(); }, pid_of);
  if (stuck.empty()) return;
  auto room = enough_room();
  take(event::Broken{"rank " + std::to_string(stuck[0]) + (stuck.size() > 1 ? " and " + std::to_string(stuck.size() - 1) + " more" : "") +
                     " on " + layout_.host() + " cannot join the job, " +
                     (room ? "because the temporary folder was full" : "because " + room.failure().text)});
}

void Host::read_mailbox() {
  take_letters();
  if (aborts_.empty()) return;
  reap();  // a rank that aborts because another has died is not the culprit
  const std::vector<Event> aborts = std::exchange(aborts_, {});
  for (const Event& event : aborts) take(event);
  if (server_) server_->answer_aborts();
}

void Host::reap() {
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
    bury(roster_.of(rank));
  }
  siginfo_t info{};
  if (guardian_ && guardian_->pid() > 0 && waitid(P_PID, id_t(guardian_->pid()), &info, WEXITED | WNOHANG) == 0 && info.si_pid) {
    say_verbose("the guardian process was killed; starting another");
    guardian_->start();
  }
}

std::vector<std::pair<uint32_t, pid_t>> Host::running_ranks() const {
  std::vector<std::pair<uint32_t, pid_t>> ranks;
  for (uint32_t rank = 0; rank < children_.size(); rank++)
    if (children_[rank].pid > 0 && !children_[rank].gone) ranks.emplace_back(rank, children_[rank].pid);
  return ranks;
}

void Host::signal_ranks(int signal) {
  for (const Process& child : children_)
    if (child.pid > 0 && !child.gone) kill(-child.pid, signal);
}

/// All ranks are gone: ends what they left behind, passes on the rest of their output, removes the job's files.
void Host::clean_up() {
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
void Host::finish_output() {
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
}

void Host::tell_loss() {
  const std::string loss = output_.loss();
  if (loss.empty()) return;
  say(loss);
  output_lost_ = true;
}

}  // namespace weft::launcher
