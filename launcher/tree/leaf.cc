#include "launcher/tree/leaf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "launcher/arrange.h"
#include "launcher/gpus.h"
#include "launcher/host.h"
#include "launcher/stacks.h"
#include "launcher/tree/exchange.h"
#include "launcher/tree/leaf_state.h"
#include "launcher/tree/message.h"
#include "launcher/tree/node.h"
#include "launcher/trial.h"
#include "runtime/base/clock.h"
#include "runtime/boot/job_record.h"
#include "runtime/config/config.h"
#include "runtime/topo/cpus.h"

#ifndef PACKAGE_VERSION
#include "config.h"
#endif

namespace weft::launcher::tree {
namespace {

constexpr uint64_t leave_patience_ns = 3'000'000'000;  // with daemons below that send nothing
constexpr size_t stacks_limit = 64u << 20;             // bytes, of all hosts together
constexpr uint64_t plan_patience_ns = 30'000'000'000;

/// Variables that say something of mpirun's host or session, not of the job.
bool of_one_host(const std::string& entry) {
  for (const char* start : {"HOSTNAME=", "HOST=", "TMPDIR=", "HOME=", "USER=", "LOGNAME=", "SHELL=", "PWD=", "OLDPWD=", "SHLVL=", "_=",
                            "MAIL=", "SSH_", "XDG_", "DBUS_", "DISPLAY=", "SLURM", "HWLOC_XMLFILE="})
    if (entry.compare(0, strlen(start), start) == 0) return true;
  return false;
}

/// Reads exactly the summons: what follows is the input of rank 0.
std::optional<Summons> read_summons() {
  std::string text(summons_head, '\0');
  const auto fill = [&](size_t from) {
    for (size_t at = from; at < text.size();) {
      const ssize_t n = read(0, text.data() + at, text.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += size_t(n);
    }
    return true;
  };
  if (!fill(0)) return {};
  const size_t size = summons_size(text);
  if (!size) return {};
  text.resize(size);
  if (!fill(summons_head)) return {};
  return decode_summons(text);
}

/// Under srun all daemons get the same summons and find themselves in its list.
uint32_t find_self(const Summons& summons) {
  if (summons.node) return summons.node;
  char own[256] = "";
  gethostname(own, sizeof own - 1);
  const char* slurm = getenv("SLURMD_NODENAME");
  for (uint32_t n = 1; n < summons.names.size(); n++)
    if (summons.names[n] == own || (slurm && summons.names[n] == slurm)) return n;
  return 0;
}

class Leaf final : public Host {
 public:
  Leaf(const Plan& plan, Layout& layout, const std::string& secret, Node& node)
      : Host(plan.options, layout),
        plan_(plan),
        secret_(secret),
        node_(node),
        exchange_(layout, {uint32_t(layout.hosts.size()), plan.fan_out},
                  [&node, self = layout.self](Kind kind, uint32_t to, std::string body) {
                    node.send({kind, self, to, std::move(body)});
                  }) {}

  /// `early`: messages that came before this object was.
  int run(const std::vector<Message>& early);
  void deliver(const Message& message);
  void happen(Happening happening);
  void child_lost(uint32_t node, const std::string& why) {
    lost_ = {node, why};
    happen(Happening::child_lost);
  }
  Output& output() { return output_; }

 private:
  const Plan& plan_;
  const std::string secret_;
  Node& node_;
  Exchange exchange_;
  LeafState state_;
  std::optional<topo::HardwareTopology> hardware_;
  placement::Placement placement_;  // of this host's ranks
  Lost lost_;
  std::string unable_;
  StackReader stacks_;
  bool to_hold_ = false;
  int signal_ = 0, exit_code_ = 0;
  uint64_t patience_ns_ = 0, traffic_ = 0;

  const placement::Place* place_of(uint32_t rank) const override {
    const uint32_t place = layout_.local_rank(rank);
    return rank < options_.ranks() && place < placement_.ranks.size() ? &placement_.ranks[place] : nullptr;
  }
  std::vector<int> inputs_below() override {  // srun brings it to all daemons by itself
    return plan_.ssh && options_.input == InputTo::all ? node_.take_inputs({}) : std::vector<int>{};
  }
  void take(const Event& event) override { tell(Kind::event, encode(event)); }
  void tell(Kind kind, std::string body = {}) { node_.send({kind, layout_.self, 0, std::move(body)}); }
  void act(Deed deed);
  bool fits(const SpawnOrder& order) const;
  void adopt_settings();
  void prepare();
  Result<void> bind(Hardware& own);
  Result<void> start_below();
  void record() const;
  void record_map() const;
  void turn();
  void read_signals();
  void go();
};

void Leaf::happen(Happening happening) {
  const Stage before = state_.stage();
  const std::vector<Deed> deeds = state_.step(happening);
  if (state_.stage() != before) hold_for_test(layout_.self, to_string(state_.stage()));
  for (Deed deed : deeds) act(deed);
}

void Leaf::act(Deed deed) {
  switch (deed) {
    case Deed::start_children:
      if (auto ok = start_below(); !ok) unable_ = ok.failure().text;
      return;
    case Deed::prepare: return prepare();
    case Deed::say_up: return tell(Kind::up, encode(uint32_t(job_environment_.master_port)));
    case Deed::say_unable: return take(event::Broken{"the daemon on " + layout_.host() + ": " + unable_});
    case Deed::launch: launch(to_hold_); return record_map();
    case Deed::launch_spawned: launch_space(uint32_t(roster_.spaces().size()) - 1); return record_map();
    case Deed::signal: return signal_ranks(signal_);
    case Deed::say_child_lost: return tell(Kind::lost, encode(lost_));
    case Deed::kill_ranks: signal_ranks(SIGKILL); return happen(Happening::ranks_gone);
    case Deed::end_children: return node_.end_children();
    case Deed::start_patience: patience_ns_ = now_ns() + leave_patience_ns; return;
    case Deed::cut_children: return node_.cut_children();
    case Deed::say_farewell: return;  // go() does it when the last output is on its way
    case Deed::exit_good: exit_code_ = 0; return;
    case Deed::exit_bad: exit_code_ = 1; return;
  }
}

Result<void> Leaf::start_below() {
  node_.learn({uint32_t(layout_.hosts.size()), plan_.fan_out});
  if (Shape{uint32_t(layout_.hosts.size()), plan_.fan_out}.children(layout_.self).empty()) return {};
  if (auto ok = node_.listen(); !ok) return ok;
  return node_.start_children(plan_);
}

void Leaf::prepare() {
  for (const std::string& entry : plan_.environment) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0 || of_one_host(entry)) continue;
    setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
  }
  if (unable_.empty()) {
    auto ok = make_folder(plan_.job);
    if (ok) record();
    if (ok) ok = output_.prepare(options_.ranks(), uint32_t(layout_.here().size()));
    if (auto hardware = load_hardware(plan_.policies)) hardware_.emplace(std::move(*hardware));
    Hardware own{hardware_ ? &*hardware_ : nullptr, hardware_ ? describe_host(*hardware_, plan_.policies, wanted_gpus(options_)) : "",
                 topo::usable_cpus(), "not bound"};
    if (ok) ok = bind(own);
    if (ok) ok = start_server(secret_, &exchange_, exchange_, own);
    if (!ok) unable_ = ok.failure().text;
  }
  if (!unable_.empty()) return happen(Happening::unable);
  exchange_.serve(server_.get());
  job_environment_.master = plan_.master;
  if (options_.torch && layout_.host_of[0] == layout_.self) job_environment_.master_port = free_port();
  happen(Happening::prepared);
}

/// What `weft ps` shows of the job on this host.
void Leaf::record() const {
  boot::JobRecord record;
  record.folder = folder_.path();
  record.launcher = boot::process_name(getpid());
  record.ranks = options_.ranks();
  record.since = time(nullptr);
  record.host = layout_.host();
  record.command = options_.command_line;
  record.directory = options_.apps[0].folder;
  record.origin = layout_.hosts[0];
  record.origin_pid = pid_t(plan_.launcher);
  boot::write_record(record);
}

void Leaf::record_map() const {
  std::vector<boot::JobMapLine> lines;
  for (const auto& [rank, pid] : running_ranks()) lines.push_back({rank, pid, layout_.host(), app_of(rank).command[0]});
  boot::write_map(folder_.path(), lines);
}

/// Binds this host's ranks by the job's policies, now that its hardware is known.
Result<void> Leaf::bind(Hardware& own) {
  placement::Host here;
  here.name = layout_.host();
  here.machine = own.handle ? this_machine(*own.handle, own.topology, false) : nullptr;
  if (!here.machine && plan_.policies.gpus_each)
    return Failure{"the GPUs of " + here.name + " cannot be told: hwloc does not know its hardware"};
  if (!here.machine) return {};
  std::vector<std::vector<uint32_t>> ranks(options_.apps.size());
  for (uint32_t rank : layout_.here()) ranks[options_.app_of(rank)].push_back(rank);
  auto placed = placement::place_here(plan_.policies, here, ranks);
  if (!placed) return placed.failure();
  own.cpus = placed->hosts[0].cpus;
  own.binding = placed->hosts[0].binding;
  placement_ = std::move(*placed);
  return {};
}

void Leaf::deliver(const Message& message) {
  switch (message.kind) {
    case Kind::launch:
      if (auto launch = decode_launch(message.body)) {
        to_hold_ = launch->held;
        job_environment_.master_port = launch->master_port;
      }
      return happen(Happening::launch);
    case Kind::stacks: return stacks_.start(running_ranks(), now_ns());
    case Kind::signal:
      if (auto number = decode_number(message.body); number && *number < NSIG) {
        signal_ = int(*number);
        happen(Happening::signal);
      }
      return;
    case Kind::shutdown: return happen(Happening::shutdown);
    case Kind::spawn:
      if (auto order = decode_spawn_order(message.body); order && fits(*order)) {
        add_space(*order);
        happen(Happening::spawn);
      }
      return;
    case Kind::drop:
      if (auto number = decode_number(message.body)) drop_space(*number);
      return;
    default: exchange_.deliver(message);
  }
}

/// Is it the next of the job's namespaces?
bool Leaf::fits(const SpawnOrder& order) const {
  const auto known = [&](uint32_t host) { return host < layout_.hosts.size(); };
  return order.space.number == roster_.spaces().size() && order.space.first == roster_.ranks() &&
         order.space.name == roster_.spaces()[0].name + "." + std::to_string(order.space.number) &&
         std::all_of(order.host_of.begin(), order.host_of.end(), known);
}

/// The variables of Weft that hold for launchers, before daemons below are started; ranks get all of the environment.
void Leaf::adopt_settings() {
  for (const std::string& entry : plan_.environment)
    if (entry.starts_with("WEFT_NET_")) setenv(entry.substr(0, entry.find('=')).c_str(), entry.c_str() + entry.find('=') + 1, 1);
  config::load_environment();  // what is wrong in it the ranks say
}

int Leaf::run(const std::vector<Message>& early) {
  adopt_settings();
  take_over_signals();
  happen(Happening::planned);
  for (const Message& message : early) deliver(message);
  while (state_.stage() != Stage::gone) turn();
  go();
  return exit_code_;
}

void Leaf::turn() {
  uint64_t next = output_.next_tick_ns();
  for (uint64_t clock : {node_.next_tick_ns(), patience_ns_, stacks_.next_tick_ns(), room_.next_tick_ns()})
    if (clock && (!next || clock < next)) next = clock;
  const uint64_t before = now_ns();
  const int wait = !next ? -1 : next <= before ? 0 : int(std::min<uint64_t>((next - before) / 1'000'000 + 1, 1'000'000));
  pollfd ready[6] = {{signals_, POLLIN, 0},   {mailbox_.fd(), POLLIN, 0}, {output_.fd(), POLLIN, 0},
                     {node_.fd(), POLLIN, 0}, input_.interest(),          {stacks_.fd(), POLLIN, 0}};
  poll(ready, 6, wait);
  if (ready[1].revents) read_mailbox();
  if (ready[0].revents) read_signals();
  if (ready[4].revents) input_.process();
  node_.process();
  output_.process();
  tell_loss();
  if (state_.stage() == Stage::serve) check_room();
  if (stacks_.process(now_ns())) tell(Kind::stacks_found, encode(stacks_.result(), stacks_limit / layout_.hosts.size()));
  if (state_.stage() == Stage::leave && node_.below_gone()) happen(Happening::below_gone);
  if (patience_ns_ && (output_.pending() || output_.traffic() != traffic_)) patience_ns_ = now_ns() + leave_patience_ns;
  traffic_ = output_.traffic();
  if (patience_ns_ && now_ns() >= patience_ns_) {
    patience_ns_ = 0;
    happen(Happening::patience_over);
  }
}

void Leaf::read_signals() {
  signalfd_siginfo info;
  bool children = false;
  while (read(signals_, &info, sizeof info) == sizeof info) {  // mpirun forwards what is meant for the ranks
    children |= info.ssi_signo == SIGCHLD;
    if (info.ssi_signo == SIGTERM) {  // `weft kill` on this host, or whoever finds this process in his way
      take(event::Signalled{SIGTERM, "the daemon on " + layout_.host() + " got SIGTERM from process " + std::to_string(info.ssi_pid) +
                                         " of user " + std::to_string(info.ssi_uid) + " there; the job ends"});
    }
  }
  if (!children) return;
  reap();
  node_.reap();
}

void Leaf::go() {
  clean_up();
  tell(Kind::farewell);
  node_.flush();
}

}  // namespace

int run_leaf() {
  const auto refuse = [](const std::string& why) {
    fprintf(stderr, "%s\n", why.c_str());
    return exit_not_joined;
  };
  const auto summons = read_summons();
  if (!summons)
    return refuse("mpirun --daemon is for mpirun's own use: it got no summons that it understands; is the same Weft on all hosts?");
  if (summons->version != PACKAGE_VERSION)
    return refuse("versions differ: mpirun is of Weft " + summons->version + ", on this host is Weft " PACKAGE_VERSION);
  const uint32_t self = find_self(*summons);
  if (!self) return refuse("this host's name is not among those of the job");
  hold_for_test(self, to_string(Stage::join));

  signal(SIGPIPE, SIG_IGN);
  std::optional<Plan> plan;
  std::unique_ptr<Layout> layout;
  std::unique_ptr<Leaf> leaf;
  std::vector<Message> early;  // what has come right behind the plan
  bool orphan = false;
  Node::Upcalls upcalls;
  upcalls.deliver = [&](const Message& message) {
    if (leaf)
      leaf->deliver(message);
    else if (plan)
      early.push_back(message);
    else if (message.kind == Kind::plan)
      plan = decode_plan(message.body);
  };
  upcalls.child_lost = [&](uint32_t node, const std::string& why) { leaf->child_lost(node, why); };
  upcalls.parent_lost = [&] {
    orphan = true;
    if (leaf) leaf->happen(Happening::orphaned);
  };
  Node node(self, {}, summons->secret, upcalls);
  if (auto ok = node.join(summons->parents); !ok) return refuse(ok.failure().text);
  for (const uint64_t give_up = now_ns() + plan_patience_ns; !plan && !orphan && now_ns() < give_up;) {
    node.process();  // the plan may have come with the last word of the handshake
    pollfd ready{node.fd(), POLLIN, 0};
    if (!plan) poll(&ready, 1, 1000);
  }
  if (!plan || plan->hosts.size() <= self) return refuse("its parent sent no plan of the job");
  layout = std::make_unique<Layout>(plan->hosts, plan->host_of, self);
  leaf = std::make_unique<Leaf>(*plan, *layout, summons->secret, node);
  node.use(leaf->output());
  const int code = leaf->run(early);
  _exit(code);  // as mpirun does: PMIx's threads may be in the middle of something
}

}  // namespace weft::launcher::tree
