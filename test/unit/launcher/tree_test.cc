// The tree of daemons: its shape, its messages against hostile bytes, links, fences, and what is made of ssh's words.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <random>
#include <set>

#include "launcher/layout.h"
#include "launcher/tree/exchange.h"
#include "launcher/tree/link.h"
#include "launcher/tree/message.h"
#include "launcher/tree/shape.h"
#include "launcher/tree/starter.h"

using namespace weft;
using namespace weft::launcher;
using namespace weft::launcher::tree;

namespace {

using Hosts = std::vector<HostSlots>;

std::string random_bytes(std::mt19937& random, size_t most) {
  std::string bytes(random() % (most + 1), '\0');
  for (char& c : bytes) c = char(random());
  return bytes;
}

Plan a_plan() {
  Plan plan;
  plan.job = "weft-12-ab";
  plan.launcher = 12;
  plan.options.command_line = "mpirun ./x";
  plan.fan_out = 3;
  plan.ssh = false;
  plan.agent = "ssh -v";
  plan.program = "/opt/weft/bin/mpirun";
  plan.hosts = {"a", "b"};
  plan.host_of = {0, 1, 1};
  plan.environment = {"A=1", "B="};
  App first, second;
  first.command = {"./x", "y"};
  first.folder = "/tmp";
  first.variables = {{"K", "V"}};
  first.inherit = Inherit::listed;
  first.listed = {"HOME"};
  second.command = {"z"};
  second.ranks = 2;
  plan.options.apps = {first, second};
  plan.policies.programs.resize(2);
  plan.policies.programs[1].threads = 4;
  plan.policies.bind_to = placement::Unit::core;
  plan.policies.cpu_set = *topo::CpuSet::parse("0-3,8");
  plan.policies.gpus_each = 3;
  plan.policies.cpu_lists = {*topo::CpuSet::parse("1,3"), *topo::CpuSet::parse("2")};
  plan.options.output.error_pattern = "e.%r";
  plan.policies.rankfile = {{2, "b", "0-1", "line 3"}};
  plan.options.output.tag = true;
  return plan;
}

}  // namespace

TEST_CASE("names that would be options or words of a shell are no hosts", "[tree]") {
  for (const char* good : {"a", "node-1.example.org", "user@h_2", "10.0.0.1"}) CHECK(names_host(good));
  for (const char* bad : {"", "-oProxyCommand=x", "a b", "a;b", "$(x)", "a\n", "a:1"}) {
    INFO(bad);
    CHECK_FALSE(names_host(bad));
  }
}

TEST_CASE("Slurm's lists", "[tree]") {
  CHECK(*parse_slurm("node[1-3,07],gpu", "2(x3),1,4") == Hosts{{"node1", 2}, {"node2", 2}, {"node3", 2}, {"node07", 1}, {"gpu", 4}});
  CHECK(*parse_slurm("r[1-2]n[09-10]", "") == Hosts{{"r1n09", 1}, {"r1n10", 1}, {"r2n09", 1}, {"r2n10", 1}});
  for (const char* bad : {"node[1-", "node[3-1]", "node[x]", "", "a[1-2],,b"}) {
    INFO(bad);
    CHECK_FALSE(parse_slurm(bad, ""));
  }
  CHECK_FALSE(parse_slurm("a", "2(x"));
  CHECK_FALSE(parse_slurm("a", "1(x4000000000)"));
}

TEST_CASE("every daemon is reached from every other, in few steps", "[tree]") {
  for (uint32_t fan_out : {1u, 2u, 3u, 16u})
    for (uint32_t count : {1u, 2u, 7u, 40u}) {
      const Shape shape{count, fan_out};
      std::set<uint32_t> seen{0};
      for (uint32_t n = 0; n < count; n++) {
        REQUIRE(shape.children(n).size() <= fan_out);
        for (uint32_t child : shape.children(n)) {
          REQUIRE(shape.parent(child) == n);
          REQUIRE(seen.insert(child).second);
        }
      }
      REQUIRE(seen.size() == count);
      for (uint32_t from = 0; from < count; from++)
        for (uint32_t to = 0; to < count; to++) {
          uint32_t at = from, steps = 0;
          for (; at != to && steps <= 2 * count; steps++) at = shape.next(at, to);
          REQUIRE(at == to);
          if (fan_out > 1) REQUIRE(steps <= 12);
        }
    }
}

TEST_CASE("messages arrive as they were sent, in whatever pieces", "[tree]") {
  const Plan plan = a_plan();
  std::string bytes = frame({tree::Kind::plan, 0, 1, encode(plan)}) + frame({tree::Kind::launch, 0, everybody, {}});
  std::string seen;
  size_t at = 0;
  std::vector<Message> messages;
  for (char c : bytes) {
    seen.push_back(c);
    for (Message m; take_frame(seen, at, m) == Taken::message;) messages.push_back(m);
  }
  REQUIRE(messages.size() == 2);
  CHECK(messages[1].kind == tree::Kind::launch);
  CHECK(messages[1].to == everybody);
  const auto back = decode_plan(messages[0].body);
  REQUIRE(back);
  CHECK(encode(*back) == encode(plan));
  CHECK(back->options.apps[0].variables[0].second == "V");
  CHECK(back->policies.bind_to == placement::Unit::core);
  CHECK(back->policies.gpus_each == 3);
  REQUIRE(back->policies.cpu_lists.size() == 2);
  CHECK(back->policies.cpu_lists[0].to_string() == "1,3");
  CHECK(back->options.output.error_pattern == "e.%r");
  CHECK(back->policies.cpu_set.to_string() == "0-3,8");
  CHECK(back->options.apps[0].inherit == Inherit::listed);

  const std::vector<Event> events{event::Started{1, 2},
                                  event::LaunchFailed{3, "why", 126},
                                  event::Broken{"b"},
                                  event::Connected{4},
                                  event::Finalized{5},
                                  event::Aborted{6, -1, "text"},
                                  event::Exited{7, 1, 0, false},
                                  event::Exited{8, 0, 11, true},
                                  event::Signalled{SIGTERM, "somebody"}};
  for (const Event& event : events) {
    const auto again = decode_event(encode(event));
    REQUIRE(again);
    CHECK(again->index() == event.index());
    CHECK(encode(*again) == encode(event));
  }
  CHECK_FALSE(decode_event(encode(Event(event::TimedOut{1}))));  // no daemon may say that
  CHECK_FALSE(decode_event(encode(Event(event::Signalled{SIGKILL}))));

  const Summons summons{"1.0", 7, "secret", {"10.0.0.1:5", "[fd00::1]:6"}, {"x"}};
  const std::string text = encode(summons);
  CHECK(summons_size(text.substr(0, summons_head)) == text.size());
  CHECK(decode_summons(text)->parents == summons.parents);
}

TEST_CASE("stacks travel in little room", "[tree]") {
  HostStacks found{"gdb", {}};
  const Frames frames(30, std::string(100, 'f'));
  for (uint32_t r = 0; r < 500; r++) found.ranks.push_back({r, pid_t(100 + r), r % 2 ? "child" : "", {frames}, ""});
  found.ranks.push_back({500, 1, "", {}, "state S"});
  const std::string bytes = encode(found, 10'000);
  CHECK(bytes.size() < 40'000);
  const auto back = decode_stacks(bytes);
  REQUIRE(back);
  REQUIRE(back->ranks.size() == 501);
  for (uint32_t r = 0; r < 500; r++) {
    REQUIRE(back->ranks[r].threads == found.ranks[r].threads);
    REQUIRE(back->ranks[r].program == found.ranks[r].program);
    REQUIRE(back->ranks[r].pid == found.ranks[r].pid);
  }
  CHECK(back->ranks[500].instead == "state S");
  for (uint32_t r = 0; r < 500; r++) found.ranks[r].threads[0][0] = "g" + std::to_string(r);  // now all differ
  const auto some = decode_stacks(encode(found, 10'000));
  REQUIRE(some);
  CHECK(some->ranks[0].threads == found.ranks[0].threads);
  CHECK(some->ranks[499].threads.empty());
  CHECK(some->ranks[499].instead.find("left out") != std::string::npos);
}

TEST_CASE("hostile bytes are refused", "[tree]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::vector<std::string> good{encode(a_plan()),
                                      encode(Lost{1, "x"}),
                                      encode(Launch{true, 4711}),
                                      encode(Fence{{1, 2}, true, "data"}),
                                      encode(Modex{1, 2, -3, "d"}),
                                      encode(Event(event::Aborted{1, 2, "three"})),
                                      encode(HostStacks{"gdb", {{1, 2, "p", {{"f ()"}}, ""}, {2, 3, "p", {{"f ()"}}, ""}}}, 1000),
                                      encode(Ask{1, 2, "question"}),
                                      encode(Answer{1, -3, "answer"}),
                                      encode(Spread{1, "notice"}),
                                      encode(Summons{"1", 1, "s", {"p"}, {}})};
  const auto try_all = [](const std::string& bytes) {
    const auto plan = decode_plan(bytes);
    if (plan)
      for (uint32_t host : plan->host_of) REQUIRE(host < plan->hosts.size());
    return int(plan.has_value()) + decode_lost(bytes).has_value() + decode_fence(bytes).has_value() + decode_modex(bytes).has_value() +
           decode_event(bytes).has_value() + decode_summons(bytes).has_value() + decode_stacks(bytes).has_value() +
           decode_launch(bytes).has_value() + decode_ask(bytes).has_value() + decode_answer(bytes).has_value() +
           decode_spread(bytes).has_value();
  };
  for (const std::string& bytes : good) {
    CHECK(try_all(bytes) >= 1);
    for (size_t cut = 0; cut < bytes.size(); cut++) {
      const std::string part = bytes.substr(0, cut);
      CHECK_FALSE(decode_plan(part));
      CHECK_FALSE(decode_summons(part));
    }
    CHECK_FALSE(decode_plan(bytes + "x"));
  }
  for (int round = 0; round < 20000; round++) {
    std::string bytes = round % 2 ? random_bytes(random, 200) : good[random() % good.size()];
    for (int change = 0; change < 3 && !bytes.empty(); change++) bytes[random() % bytes.size()] = char(random());
    try_all(bytes);
    size_t at = 0;
    Message message;
    while (take_frame(bytes, at, message) == Taken::message) REQUIRE(at <= bytes.size());
  }
  // a length that is not there reserves nothing
  size_t at = 0;
  Message message;
  CHECK(take_frame(std::string("\xff\xff\xff\xff\1\0\1\0", 8) + std::string(8, '\0'), at, message) == Taken::damaged);
  Plan escape = a_plan();
  for (const char* name : {"", "weft-../../etc", "weft-a.b", "x"}) {
    escape.job = name;
    CHECK_FALSE(decode_plan(encode(escape)));
  }
}

namespace {

/// A parent's door, and what has come through it.
struct Parent final : net::Doorman::Host {
  net::Address at = *net::parse_address("127.0.0.1");
  std::optional<net::Doorman> doorman;
  std::optional<uint32_t> node;
  std::unique_ptr<Link> link;
  explicit Parent(const std::string& secret) {
    std::vector<net::Fd> listeners;
    listeners.push_back(std::move(*net::listen_at(at)));
    at.port = net::local_address(listeners[0].get()).port;
    doorman.emplace(net::Doorman::Rules{.where = "test"}, key_of(secret), std::move(listeners));
  }
  Link child(const std::string& secret, uint32_t number) const { return Link(std::move(*net::start_connect({}, at)), secret, number); }
  net::Doorman::Ruling judge(const net::Claim& claim) override {
    node = node_of(claim);
    return {node ? net::Verdict::welcome : net::Verdict::refused};
  }
  void admit(const net::Claim&, net::Fd fd) override { link = std::make_unique<Link>(std::move(fd)); }
  /// Until the child knows.
  void meet(Link& child) {
    for (int i = 0; i < 10000 && !child.open() && !child.broken(); i++) {
      doorman->serve(*this);
      child.process();
      usleep(100);
    }
  }
};

}  // namespace

TEST_CASE("links prove themselves and then carry messages", "[tree]") {
  Parent door("secret");
  Link child = door.child("secret", 5);
  door.meet(child);
  REQUIRE(child.open());
  REQUIRE(door.link);
  CHECK(door.node == 5);
  Link& parent = *door.link;
  const std::string large(3 << 20, 'x');
  parent.send({tree::Kind::fence_done, 0, 5, large});
  child.send({tree::Kind::up, 5, 0, {}});
  std::optional<Message> down, up;
  for (int i = 0; i < 10000 && !(down && up); i++) {
    child.process(), parent.process();
    if (!down) down = child.take();
    if (!up) up = parent.take();
  }
  REQUIRE(down);
  REQUIRE(up);
  CHECK(down->body == large);
  CHECK(up->kind == tree::Kind::up);
}

TEST_CASE("links with another secret, or strangers, come to nothing", "[tree]") {
  Parent door("one");
  Link child = door.child("other", 1);
  door.meet(child);
  CHECK(child.broken());
  auto stranger = net::start_connect({}, door.at);
  REQUIRE(stranger);
  const std::string noise(1000, 'G');
  for (int i = 0; i < 10000 && door.doorman->counters().refused == 0; i++) {
    (void)!send(stranger->get(), noise.data(), noise.size(), MSG_NOSIGNAL);
    door.doorman->serve(door);
    usleep(100);
  }
  CHECK(door.doorman->counters().refused == 1);
  CHECK_FALSE(door.node);
  CHECK_FALSE(door.link);
}

namespace {

/// Exchanges of all daemons, joined by queues.
struct Net {
  Shape shape;
  std::deque<Layout> layouts;
  std::deque<Exchange> nodes;
  std::deque<Message> wire;

  Net(Shape s, const std::vector<uint32_t>& host_of) : shape(s) {
    std::vector<std::string> names;
    for (uint32_t n = 0; n < s.count; n++) names.push_back("h" + std::to_string(n));
    for (uint32_t n = 0; n < s.count; n++) {
      layouts.emplace_back(names, host_of, n);
      nodes.emplace_back(layouts.back(), s, [this, n](tree::Kind kind, uint32_t to, std::string body) {
        wire.push_back({kind, n, to, std::move(body)});
      });
    }
  }
  void run() {
    for (; !wire.empty(); wire.pop_front()) {
      const Message message = wire.front();
      REQUIRE(message.to < shape.count);
      nodes[message.to].deliver(message);
    }
  }
};

}  // namespace

TEST_CASE("fences gather what all have brought, once all are there", "[tree]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; round++) {
    const Shape shape{uint32_t(2 + random() % 9), uint32_t(1 + random() % 3)};
    std::vector<uint32_t> host_of;
    for (uint32_t n = random() % 2; n < shape.count; n++) host_of.insert(host_of.end(), 1 + random() % 3, n);
    Net net(shape, host_of);
    std::vector<uint32_t> members;
    if (random() % 2)
      for (uint32_t r = 0; r < host_of.size(); r++)
        if (random() % 2) members.push_back(r);
    std::set<uint32_t> hosts;
    for (uint32_t r = 0; r < host_of.size(); r++)
      if (members.empty() || std::find(members.begin(), members.end(), r) != members.end()) hosts.insert(host_of[r]);
    for (int again = 0; again < 2; again++) {  // the same members may meet again
      std::vector<uint32_t> order(hosts.begin(), hosts.end());
      std::shuffle(order.begin(), order.end(), random);
      size_t done = 0;
      for (size_t i = 0; i < order.size(); i++) {
        net.nodes[order[i]].fence(members, std::string(1, char('a' + order[i])), [&](bool good, std::string data) {
          CHECK(good);
          std::sort(data.begin(), data.end());
          std::string all;
          for (uint32_t host : hosts) all += char('a' + host);
          CHECK(data == all);
          done++;
        });
        net.run();
        REQUIRE(done == (i + 1 < order.size() ? 0 : order.size()));
      }
    }
  }
}

TEST_CASE("questions reach mpirun, answers whoever has asked", "[tree]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Net net({7, 2}, {0, 1, 2, 3, 4, 5, 6});
  std::vector<std::pair<Services::Done, std::string>> held;
  net.nodes[0].serve([&](uint32_t asker, Service what, const std::string& body, Services::Done done) {
    CHECK(what == Service::lookup);
    held.emplace_back(std::move(done), body + " for " + std::to_string(asker));
  });
  size_t answered = 0;
  for (int round = 0; round < 100; round++) {
    const uint32_t who = 1 + random() % 6;
    const std::string text = std::to_string(round);
    net.nodes[who].ask(Service::lookup, text,
                       [&answered, wanted = text + " for " + std::to_string(who)](int32_t status, const std::string& body) {
                         CHECK(status == -5);
                         CHECK(body == wanted);
                         answered++;
                       });
    net.run();
  }
  std::shuffle(held.begin(), held.end(), random);
  for (auto& [done, text] : held) done(-5, text);
  net.run();
  CHECK(answered == 100);
  net.nodes[1].deliver({tree::Kind::answer, 0, 1, encode(Answer{1, 0, "again"})});  // a second one finds nobody
  CHECK(answered == 100);
}

TEST_CASE("commands that start daemons carry no secret and quote what they must", "[tree]") {
  const auto plain = ssh_command("", "node1", "/opt/it's/mpirun");
  CHECK(plain.front() == "ssh");
  CHECK(plain[plain.size() - 2] == "node1");
  CHECK(plain.back() == "exec '/opt/it'\\''s/mpirun' --daemon");
  CHECK(ssh_command("/usr/bin/rsh -4", "h", "/m") == std::vector<std::string>{"/usr/bin/rsh", "-4", "h", "exec '/m' --daemon"});
  const auto slurm = srun_command({"a", "b"}, "/m");
  CHECK(std::find(slurm.begin(), slurm.end(), "--nodelist=a,b") != slurm.end());
}

TEST_CASE("the step that failed is named", "[tree]") {
  struct Row {
    int status;
    const char* words;
    const char* expected;
    bool again;
  };
  for (const Row& row : {Row{255, "ssh: Could not resolve hostname h: Name or service not known\r\n", "its name was not found", false},
                         Row{255, "ssh: connect to host h port 22: Connection refused\n", "refused the connection", true},
                         Row{255, "root@h: Permission denied (publickey).\n", "no key that it accepts", false},
                         Row{255, "Host key verification failed.\n", "host key", false},
                         Row{255, "kex_exchange_identification: read: Connection reset by peer\n", "dropped the connection", true},
                         Row{127, "bash: line 1: /w/mpirun: No such file or directory\n", "/w/mpirun is not on that host", false},
                         Row{126, "", "may not be executed", false},
                         Row{exit_not_joined, "versions differ: mpirun is of Weft 1, on this host is Weft 2\n", "versions differ", false},
                         Row{137, "", "killed by signal 9", false}, Row{255, "", "ssh failed", true}}) {
    const Diagnosis diagnosis = diagnose(How::ssh, "h", "/w/mpirun", row.status, row.words);
    INFO(diagnosis.text);
    CHECK(diagnosis.text.find("cannot start a daemon on h: ") == 0);
    CHECK(diagnosis.text.find(row.expected) != std::string::npos);
    CHECK(diagnosis.again == row.again);
  }
}
