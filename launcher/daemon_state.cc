#include "launcher/daemon_state.h"

#include <signal.h>
#include <string.h>

#include "launcher/job.h"

namespace weft::launcher {
namespace {

constexpr int grace_ms = 2000;  // between SIGTERM and SIGKILL

/// An exit status that says failure, whatever the number given was.
int failing(int code) { return (code & 0xff) ? code & 0xff : 1; }

}  // namespace

const char* to_string(Phase phase) {
  static constexpr const char* names[] = {"allocate", "reach", "map", "launch", "run", "stop", "done"};
  return names[static_cast<int>(phase)];
}

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  const char* words = sigdescr_np(signal);
  if (!name) return "signal " + std::to_string(signal);
  return "signal " + std::to_string(signal) + ", SIG" + name + (words ? std::string(" (") + words + ")" : "");
}

void DaemonState::add(std::vector<RankInfo> ranks, uint32_t space) {
  waiting_ += uint32_t(ranks.size());
  for (RankInfo& info : ranks) ranks_.push_back({std::move(info), 0, Life::waiting, false, false, space});
}

State DaemonState::step(const Event& event) {
  Actions actions;
  std::visit([&](const auto& e) { on(e, actions); }, event);
  return {phase_, std::move(actions)};
}

void DaemonState::on(const event::Allocated&, Actions& actions) {
  if (phase_ != Phase::allocate) return;
  phase_ = Phase::reach;
  if (nodes_.size() > 1) actions.push_back(Action{Action::reach});
  map_if_all_up(actions);
}

void DaemonState::map_if_all_up(Actions& actions) {
  if (phase_ != Phase::reach) return;
  for (const Node& node : nodes_)
    if (!node.up) return;
  phase_ = Phase::map;
  actions.push_back(Action{Action::map});
}

void DaemonState::on(const event::HostUp& e, Actions& actions) {
  if (e.node >= nodes_.size() || nodes_[e.node].lost) return;
  nodes_[e.node].up = true;
  map_if_all_up(actions);
}

/// The ranks of a lost host count as gone: their guardian sees to it.
void DaemonState::on(const event::HostLost& e, Actions& actions) {
  if (!e.node || e.node >= nodes_.size() || nodes_[e.node].lost || phase_ == Phase::done) return;
  nodes_[e.node].lost = true;
  for (uint32_t n = e.node + 1; n < nodes_.size(); n++)  // parents have lower numbers
    nodes_[n].lost = nodes_[n].lost || nodes_[nodes_[n].info.parent].lost;
  uint32_t with_it = 0;
  for (uint32_t r = 0; r < ranks_.size(); r++) {
    Rank& rank = ranks_[r];
    if (rank.info.node >= nodes_.size() || !nodes_[rank.info.node].lost || rank.life == Life::gone) continue;
    if (rank.life == Life::running) running_--, with_it++;
    if (rank.life == Life::waiting) waiting_--;
    rank.life = Life::gone;
    mourn(r, actions);
  }
  if (phase_ == Phase::stop) return finish_if_empty(actions);
  std::string text = "mpirun: " + e.why;
  if (with_it)
    text += "\n        " + (with_it == 1 ? std::string("A rank was") : std::to_string(with_it) + " ranks were") + " lost with it";
  if (with_it) text += running_ ? "; the other " + std::to_string(running_) + " are being ended." : ".";
  stop(exit_failed, std::move(text), actions);
}

void DaemonState::on(const event::Mapped&, Actions& actions) {
  if (phase_ != Phase::map) return;
  phase_ = Phase::launch;
  actions.push_back(Action{Action::launch});
}

void DaemonState::on(const event::Started& e, Actions& actions) {
  if (!knows(e.rank) || ranks_[e.rank].life != Life::waiting) return;
  Rank& rank = ranks_[e.rank];
  rank.life = Life::running;
  rank.pid = e.pid;
  running_++;
  waiting_--;
  if (phase_ == Phase::launch && !waiting_) phase_ = Phase::run;
  if (phase_ == Phase::stop) actions.push_back(Action{Action::signal_ranks, SIGTERM});  // it came into a job that is ending
  if (rank.space && !--spawned_[rank.space - 1].waiting && live()) actions.push_back(Action{Action::spawn_done, int(rank.space)});
}

void DaemonState::on(const event::SpawnAsked& e, Actions& actions) {
  if (!live()) {
    actions.push_back(Action{Action::refuse_spawn, 0, "the job is ending"});
    return;
  }
  spawned_.push_back({uint32_t(e.ranks.size()), false});
  add(e.ranks, uint32_t(spawned_.size()));
  actions.push_back(Action{Action::spawn, int(spawned_.size())});
}

/// A spawned rank that cannot be started takes its siblings along, not the job.
void DaemonState::on(const event::LaunchFailed& e, Actions& actions) {
  if (!live() || !knows(e.rank)) return;
  const Rank& rank = ranks_[e.rank];
  const std::string text = "cannot start rank " + label(e.rank) + " (" + rank.info.program + ") on " + rank.info.host + ": " + e.why;
  if (!rank.space) return stop(e.code, "mpirun: " + text, actions);
  if (rank.life != Life::waiting || dropped(rank)) return;
  const uint32_t space = rank.space;
  spawned_[space - 1].failed = true;
  for (Rank& sibling : ranks_)
    if (sibling.space == space && sibling.life == Life::waiting) sibling.life = Life::gone, waiting_--;
  if (phase_ == Phase::launch && !waiting_) phase_ = Phase::run;
  actions.push_back(Action{Action::drop, int(space)});
  actions.push_back(Action{Action::spawn_failed, int(space), text});
  finish_if_empty(actions);
}

void DaemonState::on(const event::Broken& e, Actions& actions) {
  if (phase_ == Phase::stop || phase_ == Phase::done) return;
  stop(exit_failed, "mpirun: " + e.why, actions);
}

void DaemonState::on(const event::Connected& e, Actions&) {
  if (knows(e.rank)) ranks_[e.rank].connected = true;
}

void DaemonState::on(const event::Finalized& e, Actions&) {
  if (knows(e.rank)) ranks_[e.rank].finalized = true;
}

void DaemonState::on(const event::Aborted& e, Actions& actions) {
  if (!live() || !knows(e.rank)) return;
  std::string text = "mpirun: " + who(e.rank) + " ended the job with code " + std::to_string(e.code);
  if (!e.why.empty()) text += ": " + e.why;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  stop(failing(e.code), text + others(e.rank), actions);
}

void DaemonState::on(const event::Exited& e, Actions& actions) {
  if (!knows(e.rank) || ranks_[e.rank].life != Life::running) return;
  Rank& rank = ranks_[e.rank];
  rank.life = Life::gone;
  running_--;
  const bool unfinished = rank.connected && !rank.finalized;
  if (live() && !dropped(rank)) {
    const int code = e.signal ? 128 + e.signal : e.code;
    const bool alone_at_end = !running_ && !waiting_;
    if (interrupts_ && code) {  // the user's signal reached it; give the others the same leisure
      if (!exit_code_) exit_code_ = 128 + last_signal_;
      phase_ = Phase::stop;
      actions.push_back(Action{Action::start_grace, grace_ms});
    } else if (e.signal || (code && !rank.finalized)) {
      mourn(e.rank, actions);
      stop(code, obituary(e), actions);
    } else if (code && !exit_code_) {
      exit_code_ = code;  // it had left the job in order: the others may end their work
    } else if (unfinished && !alone_at_end) {
      mourn(e.rank, actions);
      stop(exit_failed, obituary(e), actions);
    }
  }
  finish_if_empty(actions);
}

void DaemonState::on(const event::Signalled& e, Actions& actions) {
  if (phase_ == Phase::done) return;
  if (!e.why.empty() && phase_ != Phase::stop) actions.push_back(Action{Action::say, 0, "mpirun: " + e.why});
  const bool ending = e.signal == SIGINT || e.signal == SIGTERM || e.signal == SIGHUP || e.signal == SIGQUIT;
  if (!ending) {
    if (running_) actions.push_back(Action{Action::signal_ranks, e.signal});
    return;
  }
  last_signal_ = e.signal;
  const bool again = interrupts_++ > 0;
  if (phase_ == Phase::stop) {
    if (again) actions.push_back(Action{Action::signal_ranks, SIGKILL});
  } else if (!running_ && phase_ != Phase::launch) {
    stop(128 + e.signal, "", actions);
  } else if (again) {
    exit_code_ = exit_code_ ? exit_code_ : 128 + e.signal;
    phase_ = Phase::stop;
    actions.push_back(Action{Action::say, 0, "mpirun: second signal: ranks are killed"});
    actions.push_back(Action{Action::signal_ranks, SIGKILL});
  } else if (e.signal == SIGINT) {
    actions.push_back(Action{Action::signal_ranks, SIGINT});  // no haste: Python and debuggers handle it at their leisure
  } else {
    exit_code_ = exit_code_ ? exit_code_ : 128 + e.signal;
    phase_ = Phase::stop;
    actions.push_back(Action{Action::signal_ranks, e.signal});
    actions.push_back(Action{Action::start_grace, grace_ms});
  }
  finish_if_empty(actions);
}

void DaemonState::on(const event::TimedOut& e, Actions& actions) {
  if (phase_ == Phase::stop || phase_ == Phase::done) return;
  char seconds[32];
  snprintf(seconds, sizeof seconds, "%g", e.seconds);
  std::string text = std::string("mpirun: the job ran longer than --timeout ") + seconds + " s; still running:";
  int named = 0;
  for (uint32_t r = 0; r < ranks_.size(); r++) {
    if (ranks_[r].life != Life::running) continue;
    if (++named <= 8) text += " rank " + label(r) + " (pid " + std::to_string(ranks_[r].pid) + ")";
  }
  if (named > 8) text += " and " + std::to_string(named - 8) + " more";
  if (phase_ != Phase::run || !running_) return stop(exit_timeout, text, actions);
  if (!exit_code_) exit_code_ = exit_timeout;
  actions.push_back(Action{Action::say, 0, std::move(text)});
  actions.push_back(Action{Action::show_stacks});
}

void DaemonState::on(const event::StacksShown&, Actions& actions) {
  if (phase_ == Phase::run) stop(exit_timeout, "", actions);
}

void DaemonState::on(const event::GraceOver&, Actions& actions) {
  if (phase_ != Phase::stop || !running_) return;
  if (killed_) {  // ranks of this host cannot outlive SIGKILL for long; a daemon that hangs is left to its guardian
    for (Rank& rank : ranks_)
      if (rank.life == Life::running && rank.info.node) rank.life = Life::gone, running_--;
    return finish_if_empty(actions);
  }
  killed_ = true;
  actions.push_back(Action{Action::signal_ranks, SIGKILL});
  if (nodes_.size() > 1) actions.push_back(Action{Action::start_grace, grace_ms});
}

/// Who waits for a rank that has joined the job and has not left it waits in vain, and not every transport can tell. They hear of it before
/// they are ended: some put their affairs in order.
void DaemonState::mourn(uint32_t rank, Actions& actions) const {
  if (live() && running_ && ranks_[rank].connected && !ranks_[rank].finalized) actions.push_back(Action{Action::tell_failed, int(rank)});
}

/// Ends the job early: one message, then SIGTERM, later SIGKILL.
void DaemonState::stop(int code, std::string message, Actions& actions) {
  if (!exit_code_) exit_code_ = code;
  phase_ = Phase::stop;
  if (!message.empty()) actions.push_back(Action{Action::say, 0, std::move(message)});
  if (running_) {
    actions.push_back(Action{Action::signal_ranks, SIGTERM});
    actions.push_back(Action{Action::start_grace, grace_ms});
  }
  finish_if_empty(actions);
}

void DaemonState::finish_if_empty(Actions& actions) {
  if (running_ || phase_ == Phase::done) return;
  const bool all_gone = (phase_ == Phase::run && !waiting_) || phase_ == Phase::stop;
  if (!all_gone) return;
  phase_ = Phase::done;
  actions.push_back(Action{Action::finish, exit_code_});
}

std::string DaemonState::awaited() const {
  constexpr int most = 8;  // names in a message
  std::string names;
  int count = 0;
  const auto add = [&](const std::string& name) {
    if (++count <= most) names += (count > 1 ? ", " : "") + name;
  };
  if (phase_ == Phase::launch) {
    for (uint32_t r = 0; r < ranks_.size(); r++)
      if (ranks_[r].life == Life::waiting) add(label(r) + " on " + ranks_[r].info.host);
  } else {
    for (const Node& node : nodes_)
      if (!node.up) add(node.info.name);
  }
  if (count > most) names += " and " + std::to_string(count - most) + " more";
  if (phase_ == Phase::launch) return "these ranks are not started, and nothing has happened for too long: " + names;
  return "these hosts do not get ready, and nothing has happened for too long: " + names +
         ".\n        Does a file system hang there? WEFT_LAUNCHER_PATIENCE=SECONDS makes mpirun wait longer than 30 s.";
}

std::string DaemonState::who(uint32_t rank) const {
  const Rank& r = ranks_[rank];
  return "rank " + label(rank) + " (pid " + std::to_string(r.pid) + " on " + r.info.host + ", " + r.info.program + ")";
}

std::string DaemonState::others(uint32_t but) const {
  const uint32_t count = running_ - (ranks_[but].life == Life::running);
  if (!count) return {};
  return "\n        The other " + (count == 1 ? "rank is" : std::to_string(count) + " ranks are") + " being ended.";
}

std::string DaemonState::obituary(const event::Exited& e) const {
  const Rank& rank = ranks_[e.rank];
  const char* where = rank.finalized   ? "after MPI_Finalize"
                      : rank.connected ? "in MPI_Init or after it, before MPI_Finalize"
                                       : "before MPI_Init, or without MPI";
  std::string text = "mpirun: " + who(e.rank);
  std::string remedy;
  if (!e.signal && !e.code) {
    text += " exited without calling MPI_Finalize";
    remedy = "Each rank that calls MPI_Init must call MPI_Finalize before it exits, or MPI_Abort.";
  } else if (!e.signal) {
    text += " exited with code " + std::to_string(e.code) + ", " + where;
    if (e.code == 127 && !rank.connected) remedy = "127 often means: a program or shared library was not found.";
  } else {
    text += " was killed by " + signal_text(e.signal) + ", " + where;
    if (e.signal == SIGKILL)
      remedy = "Nobody but a person, a batch system or the kernel short of memory sends SIGKILL: see dmesg or the limits of the container.";
    else if (e.signal == SIGBUS)
      remedy = "SIGBUS often means that /dev/shm or another file system of mapped files is full: see df -h /dev/shm.";
    else if (e.core)
      remedy = "A core file was written (see /proc/sys/kernel/core_pattern): gdb " + rank.info.program + " CORE shows where.";
    else if (!core_files_ && (e.signal == SIGSEGV || e.signal == SIGABRT || e.signal == SIGFPE || e.signal == SIGILL))
      remedy = "No core file was written; \"ulimit -c unlimited\" before mpirun allows one.";
  }
  text += "." + others(e.rank);
  if (!remedy.empty()) text += "\n        " + remedy;
  return text;
}

}  // namespace weft::launcher
