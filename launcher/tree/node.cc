#include "launcher/tree/node.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "launcher/spawn.h"
#include "launcher/trial.h"
#include "runtime/base/clock.h"
#include "runtime/net/interfaces.h"

#ifndef PACKAGE_VERSION
#include "config.h"
#endif

extern char** environ;

namespace weft::launcher::tree {
namespace {

constexpr uint64_t second = 1'000'000'000;
constexpr int attempts_limit = 3;
constexpr size_t strangers_limit = 256;
constexpr size_t words_limit = 16 * 1024;

/// "10.0.0.1:4711", "[fd00::2]:4711".
std::optional<net::Address> parse_with_port(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  auto address = net::parse_address(host);
  if (!address) return {};
  address->port = uint16_t(atoi(text.c_str() + colon + 1));
  return address;
}

/// srun says this where it could not bind anyway.
bool harmless(const std::string& words) { return words == "srun: cluster configuration lacks support for cpu binding\n"; }

}  // namespace

Node::Node(uint32_t self, Shape shape, std::string secret, Upcalls upcalls)
    : self_(self), shape_(shape), secret_(std::move(secret)), upcalls_(std::move(upcalls)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

Node::~Node() {
  for (Starter& starter : starters_) close_streams(starter);
  close(epoll_);
}

void Node::watch(int fd, bool write, bool change) {
  epoll_event interest{uint32_t(EPOLLIN) | (write ? uint32_t(EPOLLOUT) : 0u), {.fd = fd}};
  epoll_ctl(epoll_, change ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &interest);
}

/// A parent that hundreds call at once may drop some: they call again.
Result<void> Node::join(const std::vector<std::string>& parents) {
  const uint64_t quick = now_ns() + 3 * second;
  auto joined = try_to_join(parents);
  for (int attempt = 1; !joined && attempt < 4 && now_ns() < quick; attempt++) {
    poll(nullptr, 0, attempt * 200);
    joined = try_to_join(parents);
  }
  return joined;
}

Result<void> Node::try_to_join(const std::vector<std::string>& parents) {
  std::string tried;
  for (const std::string& text : parents) {
    const auto address = parse_with_port(text);
    if (!address) continue;
    tried += (tried.empty() ? "" : ", ") + text;
    auto socket = net::start_connect({}, *address);
    if (!socket) {
      tried += " (" + socket.failure().text + ")";
      continue;
    }
    Link link(std::move(*socket), secret_, self_);
    const uint64_t give_up = now_ns() + 5 * second;
    pollfd ready{link.fd(), POLLOUT, 0};
    poll(&ready, 1, 3000);
    if (const int error = ready.revents ? net::pending_error(link.fd()) : ETIMEDOUT) {
      tried += std::string(" (") + strerror(error) + ")";
      continue;
    }
    while (!link.open() && !link.broken() && now_ns() < give_up) {
      link.process();
      ready = {link.fd(), short(POLLIN | (link.wants_to_write() ? POLLOUT : 0)), 0};
      if (!link.open() && !link.broken()) poll(&ready, 1, 100);
    }
    if (link.open()) {
      parent_ = std::make_unique<Link>(std::move(link));
      watch(parent_->fd());
      return {};
    }
    tried += " (" + (link.broken() ? link.why() : std::string("no answer")) + ")";
  }
  return Failure{"the daemon there cannot connect back to its parent; tried " + (tried.empty() ? "no address" : tried) +
                 ". A firewall? WEFT_NET_INTERFACES names the networks to use"};
}

Result<void> Node::listen() {
  auto interfaces = net::usable_interfaces(net::Extent::network);
  if (!interfaces && getenv("WEFT_NET_INTERFACES")) return interfaces.failure();
  std::vector<net::Address> usable;
  if (interfaces)
    for (const net::Interface& interface : *interfaces)
      for (const net::Address& address : interface.addresses)
        if (!address.link_local()) usable.push_back(address);
  if (auto loop = net::parse_address("127.0.0.1")) usable.push_back(*loop);  // for another name of this host
  std::vector<net::Fd> listeners;
  for (bool v6 : {false, true}) {
    if (std::none_of(usable.begin(), usable.end(), [&](const net::Address& a) { return a.v6 == v6; })) continue;
    net::Address any;
    any.v6 = v6;
    any.prefix = v6 ? 128 : 32;
    auto listener = net::listen_at(any);
    if (!listener) {
      if (v6) continue;
      return listener.failure();
    }
    const uint16_t port = net::local_address(listener->get()).port;
    for (net::Address address : usable) {
      if (address.v6 != v6) continue;
      address.port = port;
      addresses_.push_back(address.with_port());
    }
    listeners.push_back(std::move(*listener));
  }
  net::Doorman::Rules rules{.where = "the launcher's port", .silence_s = silence_s};
  rules.guests = uint32_t(strangers_limit + 2 * shape_.children(self_).size());
  doorman_.emplace(rules, key_of(secret_), std::move(listeners));
  watch(doorman_->door().fd.get());
  return {};
}

Result<void> Node::start_children(const Plan& plan) {
  plan_ = encode(plan);
  program_ = plan.program;
  hosts_ = plan.hosts;
  const std::vector<uint32_t> nodes = shape_.children(self_);
  for (uint32_t node : nodes) children_.push_back({node, nullptr});
  if (nodes.empty()) return {};
  Summons summons{PACKAGE_VERSION, 0, secret_, addresses_, {}};
  if (plan.ssh) {
    for (uint32_t node : nodes) {
      summons.node = node;
      Starter starter{How::ssh, {node}, hosts_[node], ssh_command(plan.agent, hosts_[node], program_), encode(summons)};
      starters_.push_back(std::move(starter));
    }
  } else {
    summons.names = hosts_;
    std::vector<std::string> names;
    for (uint32_t node : nodes) names.push_back(hosts_[node]);
    Starter starter{How::slurm, nodes, names.size() == 1 ? names[0] : names[0] + " and " + std::to_string(names.size() - 1) + " more hosts",
                    srun_command(names, program_), encode(summons)};
    starters_.push_back(std::move(starter));
  }
  for (Starter& starter : starters_) start(starter);
  return {};
}

void Node::start(Starter& starter) {
  int in[2], out[2], err[2];
  starter.attempts++;
  starter.retry_ns = 0;
  starter.words.clear();
  starter.summoned = 0;
  auto path = find_program(starter.command[0], {});
  if (!path) {
    starter.words = path.failure().text;
    starter.attempts = attempts_limit;
    return ended(starter, 1);
  }
  if (pipe2(in, O_CLOEXEC)) return ended(starter, 1);
  if (pipe2(out, O_CLOEXEC)) return close(in[0]), close(in[1]), ended(starter, 1);
  if (pipe2(err, O_CLOEXEC)) return close(in[0]), close(in[1]), close(out[0]), close(out[1]), ended(starter, 1);
  ::weft::launcher::Child program;
  program.path = *path;
  program.arguments = starter.command;
  for (char** v = environ; *v; v++) program.environment.emplace_back(*v);
  program.input = in[0];
  program.output = out[1];
  program.errors = err[1];
  program.session = true;  // it must not ask the terminal anything, and the kernel may share out processors by sessions
  SpawnError error;
  starter.pid = spawn(program, error);
  close(in[0]);
  close(out[1]);
  close(err[1]);
  starter.in = in[1];
  starter.out = out[0];
  starter.err = err[0];
  for (int fd : {starter.in, starter.err}) fcntl(fd, F_SETFL, O_NONBLOCK);
  if (starter.pid < 0) {
    starter.words = error.text;
    starter.attempts = attempts_limit;
    return ended(starter, error.exit_code);
  }
  starter.give_up_ns = now_ns() + start_patience_ns();
  watch(starter.err);
  write_summons(starter);
}

void Node::write_summons(Starter& starter) {
  while (starter.in >= 0 && starter.summoned < starter.summons.size()) {
    const ssize_t n = write(starter.in, starter.summons.data() + starter.summoned, starter.summons.size() - starter.summoned);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // full: again at the next tick; broken: its end says why
    starter.summoned += size_t(n);
  }
}

void Node::read_words(Starter& starter) {
  char block[4096];
  for (ssize_t n; starter.err >= 0 && (n = read(starter.err, block, sizeof block)) != -1;) {
    if (n == 0) {
      close(starter.err);
      starter.err = -1;
    } else if (starter.words.size() < words_limit) {
      starter.words.append(block, size_t(n));
    }
  }
}

void Node::close_streams(Starter& starter) {
  for (int* fd : {&starter.in, &starter.out, &starter.err}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
}

Node::Child* Node::child(uint32_t node) {
  for (Child& child : children_)
    if (child.node == node) return &child;
  return nullptr;
}

Node::Starter* Node::starter_of(uint32_t node) {
  for (Starter& starter : starters_)
    if (std::find(starter.nodes.begin(), starter.nodes.end(), node) != starter.nodes.end()) return &starter;
  return nullptr;
}

net::Doorman::Ruling Node::judge(const net::Claim& claim) {
  const auto node = node_of(claim);
  if (!node) return {net::Verdict::refused, "it speaks another version of the launcher's protocol"};
  const Child* who = child(*node);
  if (!who || who->link || who->gone || leaving_) return {net::Verdict::refused, "no such daemon is awaited"};
  return {net::Verdict::welcome};
}

void Node::admit(const net::Claim& claim, net::Fd socket) {
  Child& who = *child(*node_of(claim));
  who.link = std::make_unique<Link>(std::move(socket));
  watch(who.link->fd());
  who.link->send({Kind::plan, self_, who.node, plan_});
  hand_over_streams(who.node);
}

/// All daemons of a starter are there: what it writes from now on is theirs, and so the ranks'.
void Node::hand_over_streams(uint32_t node) {
  Starter* starter = starter_of(node);
  for (uint32_t n : starter->nodes)
    if (!child(n)->link && !child(n)->gone) return;
  read_words(*starter);
  starter->give_up_ns = 0;
  if (starter->out >= 0) output_->add_foreign(starter->out, false);
  if (starter->err >= 0) {
    epoll_ctl(epoll_, EPOLL_CTL_DEL, starter->err, nullptr);
    output_->add_foreign(starter->err, true);
  }
  starter->out = starter->err = -1;
  if (!starter->words.empty() && !harmless(starter->words)) output_->say(starter->words);
}

/// Only queues: the link's turn comes in process().
void Node::post(Link& link, const Message& message) {
  if (link.broken()) return;
  link.send(message);
  watch(link.fd(), true, true);
}

void Node::route(const Message& message) {
  if (message.to == self_) return upcalls_.deliver(message);
  if (message.to == everybody) {
    for (Child& child : children_)
      if (child.link) post(*child.link, message);
    if (message.from != self_) upcalls_.deliver(message);
    return;
  }
  if (Child* to = child(shape_.next(self_, message.to))) {
    if (to->link) post(*to->link, message);
  } else if (parent_) {
    post(*parent_, message);
  }
}

void Node::send(const Message& message) {
  if (message.kind == Kind::shutdown) leaving_ = true;
  route(message);
}

/// Takes in what has come over a link. Who may say what: a child speaks for the part of the tree below it, the parent for the rest.
void Node::serve(Link& link, uint32_t from) {
  while (auto message = link.take()) {
    const bool from_parent = &link == parent_.get();
    if (!from_parent && (message->from >= shape_.count || !shape_.below(message->from, from) || message->to == everybody)) continue;
    if (!from_parent && message->kind == Kind::farewell) {
      if (Child* who = child(from)) who->gone = true;
      continue;
    }
    if (message->to != everybody && message->to != self_ && message->to >= shape_.count) continue;
    if (message->kind == Kind::plan) message->to = self_;
    if (message->kind == Kind::shutdown) leaving_ = true;
    route(*message);
  }
}

void Node::process() {
  if (doorman_) doorman_->serve(*this);
  for (Child& child : children_)
    if (child.link) child.link->process();
  // A daemon that is gone comes first: where Slurm cancels its step for that, what the others tell follows from it.
  for (const bool gone : {true, false}) {
    for (size_t i = 0; i < children_.size(); i++)
      if (children_[i].link && children_[i].link->broken() == gone) serve(*children_[i].link, children_[i].node);
    if (gone) lose_broken();
  }
  if (parent_) {
    parent_->process();
    serve(*parent_, shape_.parent(self_));
  }
  for (Starter& starter : starters_)
    if (starter.give_up_ns) read_words(starter), write_summons(starter);
  check_clocks();
  check_links();
}

/// Writes what can be written, watches what cannot, and notices who is gone.
void Node::check_links() {
  const auto tend = [&](Link& link) {
    link.flush();  // reading here would leave messages that nothing announces
    if (!link.broken()) watch(link.fd(), link.wants_to_write(), true);
  };
  for (Child& child : children_)
    if (child.link) tend(*child.link);
  lose_broken();
  if (!parent_ || !self_) return;
  tend(*parent_);
  if (!parent_->broken() || parent_is_lost_) return;
  parent_is_lost_ = true;
  upcalls_.parent_lost();
}

void Node::lose_broken() {
  for (Child& child : children_) {
    if (!child.link || !child.link->broken()) continue;
    const std::string why = child.link->why();
    lose(child, "lost the daemon on " + hosts_[child.node] + ": " + why);
  }
}

void Node::lose(Child& child, const std::string& why) {
  suspicious_until_ns_ = now_ns() + 5 * second;
  maimed_ = true;
  const bool before = child.gone;
  child.gone = true;
  child.link.reset();
  if (!before && !leaving_) upcalls_.child_lost(child.node, why);
}

std::string Node::missing(const Starter& starter) const {
  std::string names;
  int count = 0;
  for (const Child& child : children_) {
    if (child.link || child.gone || std::find(starter.nodes.begin(), starter.nodes.end(), child.node) == starter.nodes.end()) continue;
    if (++count <= 8) names += (names.empty() ? "" : ", ") + hosts_[child.node];
  }
  return names + (count > 8 ? " and " + std::to_string(count - 8) + " more" : "");
}

void Node::check_clocks() {
  const uint64_t now = now_ns();
  if (now < suspicious_until_ns_) {
    for (Child& child : children_)
      if (child.link) child.link->check_silence();
    if (parent_) parent_->check_silence();
  }
  for (Starter& starter : starters_) {
    if (starter.retry_ns && now >= starter.retry_ns) start(starter);
    if (!starter.give_up_ns || now < starter.give_up_ns) continue;
    starter.give_up_ns = 0;
    const std::string why = "the daemon on " + missing(starter) + " was started, but did not connect back within " +
                            std::to_string(start_patience_ns() / second) + " s. A firewall between here and there?";
    for (uint32_t node : starter.nodes)
      if (Child* who = child(node); !who->link && !who->gone) lose(*who, why);
    if (starter.pid > 0) kill(-starter.pid, SIGKILL);
  }
}

uint64_t Node::next_tick_ns() const {
  const uint64_t now = now_ns();
  uint64_t next = now < suspicious_until_ns_ ? now + second / 4 : 0;
  for (const Starter& starter : starters_)
    for (uint64_t clock : {starter.retry_ns, starter.give_up_ns})
      if (clock && (!next || clock < next)) next = clock;
  return next;
}

void Node::reap() {
  for (size_t i = 0; i < starters_.size(); i++) {
    Starter& starter = starters_[i];
    siginfo_t info{};
    if (starter.pid <= 0 || waitid(P_PID, id_t(starter.pid), &info, WEXITED | WNOHANG) || info.si_pid != starter.pid) continue;
    starter.pid = -1;
    ended(starter, info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status);
  }
}

/// The program that started daemons has ended.
void Node::ended(Starter& starter, int status) {
  read_words(starter);
  starter.give_up_ns = 0;
  close_streams(starter);
  std::vector<Child*> missing, there;
  for (uint32_t node : starter.nodes) {
    Child* who = child(node);
    if (leaving_) who->gone = true;
    if (!who->gone) (who->link ? there : missing).push_back(who);
  }
  if (!missing.empty()) {
    const Diagnosis diagnosis = diagnose(starter.how, starter.name, program_, status, starter.words);
    if (diagnosis.again && there.empty() && starter.attempts < attempts_limit) {
      starter.retry_ns = now_ns() + uint64_t(starter.attempts) * second / 2;
      return;
    }
    for (Child* who : missing) lose(*who, diagnosis.text);
  }
  const std::string program = starter.how == How::ssh ? "ssh" : "srun";
  const bool killed = status > 128 && status != 255;
  for (Child* who : there)
    lose(*who, "lost the daemon on " + hosts_[who->node] + ": " +
                   (killed                                     ? "its " + program + " was ended by " + signal_text(status - 128)
                    : starter.how == How::ssh && status == 255 ? "its host does not answer any more, or its sshd was ended (ssh: code 255)"
                                                               : "its " + program + " ended with code " + std::to_string(status)));
}

std::vector<int> Node::take_inputs(std::optional<uint32_t> node) {
  std::vector<int> inputs;
  for (Starter& starter : starters_) {
    if (starter.in < 0 || (node && std::find(starter.nodes.begin(), starter.nodes.end(), *node) == starter.nodes.end())) continue;
    inputs.push_back(std::exchange(starter.in, -1));
  }
  return inputs;
}

void Node::end_children() {
  leaving_ = true;
  if (parent_is_lost_) {
    for (Child& child : children_) {
      child.link.reset();
      if (starter_of(child.node)->pid < 0) child.gone = true;
    }
  } else if (self_ == 0) {
    send({Kind::shutdown, self_, everybody, {}});
  }
  for (Starter& starter : starters_) {
    const bool any = std::any_of(starter.nodes.begin(), starter.nodes.end(), [&](uint32_t n) { return child(n)->link != nullptr; });
    if (!any && starter.pid > 0) kill(-starter.pid, SIGKILL);  // nobody there to be told
    starter.retry_ns = starter.give_up_ns = 0;
  }
}

void Node::cut_children() {
  for (Starter& starter : starters_)
    if (starter.pid > 0) kill(-starter.pid, SIGKILL);
  for (Child& child : children_) child.link.reset();
}

bool Node::below_gone() const {
  return std::all_of(starters_.begin(), starters_.end(), [](const Starter& starter) { return starter.pid <= 0; }) &&
         std::all_of(children_.begin(), children_.end(), [](const Child& child) { return child.gone || !child.link; });
}

bool Node::only_starters_left() const {
  return maimed_ && std::all_of(children_.begin(), children_.end(), [](const Child& child) { return child.gone; });
}

void Node::flush() {
  const uint64_t give_up = now_ns() + second;
  while (parent_ && !parent_->broken() && now_ns() < give_up) {
    parent_->flush();
    if (!parent_->wants_to_write()) return;
    pollfd ready{parent_->fd(), POLLOUT, 0};
    poll(&ready, 1, 100);
  }
}

}  // namespace weft::launcher::tree
