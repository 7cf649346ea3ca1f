// What users write: hostfiles, -H, policies, rankfiles, configfiles; and their mistakes.
#include <catch2/catch.hpp>
#include <random>

#include "launcher/place/config_file.h"
#include "launcher/place/hosts.h"
#include "launcher/place/policy.h"
#include "launcher/place/rankfile.h"
#include "launcher/place/words.h"
#include "test/unit/place/machines.h"

using namespace weft::placement;
using weft::Result;
using Texts = std::vector<std::string>;

namespace {

/// "name*slots" with "!" for firm and "/most".
Texts texts(const Result<std::vector<Host>>& hosts) {
  if (!hosts) return {hosts.failure().text};
  Texts result;
  for (const Host& host : *hosts)
    result.push_back(host.name + "*" + std::to_string(host.slots) + (host.firm ? "!" : "") +
                     (host.most ? "/" + std::to_string(host.most) : ""));
  return result;
}

Texts file(const std::string& text) { return texts(parse_hostfile(text, "hosts")); }

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return true;
}

template <class R>
std::string failure(const R& result) {
  return result ? "no failure" : result.failure().text;
}

}  // namespace

TEST_CASE("hostfiles of both families", "[lists]") {
  CHECK(file("node1 slots=4 max_slots=8\nnode2 slots = 2 # comment\n\n# node3\n  node4\n") == Texts{"node1*4!/8", "node2*2!", "node4*0"});
  CHECK(file("node1:4\nnode2:2\r\nnode3\n") == Texts{"node1*4", "node2*2", "node3*0"});
  CHECK(file("node[01-03,7] slots=2") == Texts{"node01*2!", "node02*2!", "node03*2!", "node7*2!"});
  CHECK(file("r[1-2]n[8-9]-ib:3") == Texts{"r1n8-ib*3", "r1n9-ib*3", "r2n8-ib*3", "r2n9-ib*3"});
  CHECK(file("a\na\nb") == Texts{"a*2", "b*0"});
  CHECK(file("a slots=2\na slots=3") == Texts{"a*5!"});
  CHECK(file("me@a.example.org slots=1") == Texts{"me@a.example.org*1!"});
  CHECK(file("fe80::1 slots=2") == Texts{"fe80::1*2!"});
  CHECK(parse_hostfile("\n\nx slots=1\n", "hosts")->at(0).source == "line 3 of hosts");
}

TEST_CASE("mistakes in hostfiles name the line", "[lists]") {
  const std::string six = "a\nb\nc\nd\ne\nf\n";
  for (const auto& [line, says] : {std::pair<std::string, std::string>{"node7 slot=4", "did you mean slots?"},
                                   {"node7 slots=0", "slots=N needs"},
                                   {"node7 slots=x", "\"x\""},
                                   {"node7 slots=4 max_slots=2", "more than max_slots"},
                                   {"node7:", "host:N"},
                                   {"node7:-1", "host:N"},
                                   {"node[1-", "brackets"},
                                   {"node[3-1]", "no range"},
                                   {"node[1-99999999]", "too many"},
                                   {"node[1-200000]-[1-2]", "too many"},
                                   {"no\\de", "no name"},
                                   {"node7 99999999999", "not known"}}) {
    INFO(line);
    const std::string text = failure(parse_hostfile(six + line + "\n", "hosts"));
    CHECK(contains(text, "line 7 of hosts: "));
    CHECK(contains(text, says));
  }
  CHECK(contains(failure(parse_hostfile("# nothing\n", "hosts")), "no host"));
  CHECK(contains(failure(parse_hostfile("a[1-200000]\nb[1-200000]\n", "hosts")), "line 2 of hosts: these are more than 262144 hosts"));
  CHECK(contains(failure(parse_hosts("a[1-200000],b[1-200000]")), "more than 262144 hosts"));
  CHECK(contains(failure(read_hostfile("/nonexistent/hosts")), "/nonexistent/hosts: No such file"));
}

TEST_CASE("-H", "[lists]") {
  CHECK(texts(parse_hosts("a,b")) == Texts{"a*1", "b*1"});
  CHECK(texts(parse_hosts("a,a,b")) == Texts{"a*2", "b*1"});
  CHECK(texts(parse_hosts("a:4,b:2")) == Texts{"a*4", "b*2"});
  CHECK(texts(parse_hosts("n[1-2,4]:3,x")) == Texts{"n1*3", "n2*3", "n4*3", "x*1"});
  CHECK(parse_hosts("a,b:1")->at(0).bare);
  CHECK_FALSE(parse_hosts("a,b:1")->at(1).bare);
  for (const char* bad : {"", ",", "a,,b", "a:0", "a:b", "[", "a b"}) {
    INFO(bad);
    CHECK_FALSE(parse_hosts(bad));
  }
}

TEST_CASE("which host a name means", "[lists]") {
  for (const char* name : {"localhost", "127.0.0.1", "::1", "node1", "node1.example.org", "me@node1"}) CHECK(means(name, "node1"));
  CHECK(means("node1", "node1.example.org"));
  for (const char* name : {"node2", "node1.a.org", "10", "10.0.0.1"}) CHECK_FALSE(means(name, "node1.b.org"));
  CHECK_FALSE(means("10", "10.0.0.1"));
}

TEST_CASE("policies in all spellings", "[lists]") {
  auto map = [](const char* text) {
    Request request;
    const auto ok = read_map_by(text, request);
    INFO(text);
    if (!ok) FAIL(ok.failure().text);
    return request;
  };
  CHECK(map("slot").map_by == Unit::slot);
  CHECK(map("SOCKET").map_by == Unit::package);
  CHECK(map(":OVERSUBSCRIBE").oversubscribe);
  CHECK_FALSE(map(":oversubscribe").map_by);
  CHECK(map("numa:PE=4,oversubscribe").cores_each == 4);
  CHECK(map("numa:PE=4,oversubscribe").oversubscribe);
  CHECK(map("ppr:3:l3cache:pe=2").per_unit == 3);
  CHECK(map("ppr:3:l3cache:pe=2").map_by == Unit::l3cache);
  CHECK(map("core:pe-list=1,3-4,7:oversubscribe").cpu_set.to_string() == "1,3-4,7");
  Request request;
  for (const char* bad : {"sockt", "core:PE=0", "core:PE=x", "core:PE", "ppr:0:node", "ppr:x:node", "ppr:2", "core:oversubscrib", "pe=2"}) {
    INFO(bad);
    CHECK(contains(failure(read_map_by(bad, request)), "--map-by"));
  }
  CHECK(contains(failure(read_map_by("sockt", request)), "did you mean socket?"));
  CHECK(contains(failure(read_map_by("core:oversubscrib", request)), "did you mean oversubscribe?"));
  CHECK(contains(failure(read_bind_to("cor", request)), "did you mean core?"));
  CHECK(contains(failure(read_rank_by("fil", request)), "did you mean fill?"));
  CHECK(contains(failure(read_cpu_set("0-", request)), "0-3,8"));
  for (const char* good : {"none", "core", "hwthread", "l3cache", "numa", "package", "socket", "core:4", "core:overload-allowed",
                           "core:if-supported", ":overload-allowed"}) {
    INFO(good);
    CHECK(read_bind_to(good, request));
  }
  for (const auto& [text, threads] : {std::pair{"", 1u}, {"4", 4u}, {" 8 ", 8u}, {"4,3,2", 4u}, {"0", 1u}, {"x", 1u}, {"-3", 1u}})
    CHECK(threads_of(text) == threads);
}

TEST_CASE("rankfiles", "[lists]") {
  Request request;
  request.programs = {{}};
  Host host{"node1"};
  host.machine = machine("two sockets");
  request.hosts = {host, host};
  request.hosts[1].name = "node2";
  auto place_by = [&](const std::string& text) -> Result<Placement> {
    auto lines = parse_rankfile(text, "ranks");
    if (!lines) return lines.failure();
    request.rankfile = *lines;
    return place(request);
  };
  const auto placement = place_by("# ranks\nrank 1=node1 slot=1:0-1\nrank 0 = +n1 slots=0,2\nrank 2=node1\nrank 3=node1 slot=1:*\n");
  REQUIRE(placement);
  CHECK(placement->ranks[0].host == 1);
  CHECK(placement->ranks[0].cpus.to_string() == "0-1,4-5");
  CHECK(placement->ranks[1].cpus.to_string() == "16-19");
  CHECK(placement->ranks[2].cpus.empty());
  CHECK(placement->ranks[2].local_rank == 1);
  CHECK(placement->ranks[3].cpus.to_string() == "16-31");
  const auto here = place_here(request, request.hosts[0], {{1, 3}});
  REQUIRE(here);
  CHECK(here->ranks.at(0).cpus.to_string() == "16-19");
  CHECK(here->ranks.at(1).cpus.to_string() == "16-31");
  for (const auto& [text, says] : {std::pair<std::string, std::string>{"rank 0=node9 slot=0", "line 1 of ranks: node9"},
                                   {"\nrank 1=node1", "line 2 of ranks: rank 1 of a job of 1 rank"},
                                   {"rank 0=node1\nrank 0=node1", "already"},
                                   {"rank x=node1", "\"x\""},
                                   {"rank 0=node1 slt=0", "a line is"},
                                   {"rank 0=node1 slot=99", "core 99 of 16 cores"},
                                   {"rank 0=node1 slot=2:0", "2 packages"},
                                   {"rank 0=node1 slot=a-b", "no list"},
                                   {"rank 0=+n7", "2 hosts"},
                                   {"rank", "a line is"},
                                   {"", "no rank"}})
    CHECK(contains(failure(place_by(text)), says));
  request.programs = {{3}};
  CHECK(contains(failure(place_by("rank 0=node1\nrank 2=node1\n")), "no line for rank 1"));
}

TEST_CASE("configfiles", "[lists]") {
  CHECK(*parse_config_file("-n 2 a 'x y' \"q\\\"r\"  # comment\n\n# all of it\n-n 1 \\\n b c\\ d ''\n", "f") ==
        Texts{"-n", "2", "a", "x y", "q\"r", ":", "-n", "1", "b", "c d", ""});
  CHECK(contains(failure(parse_config_file("a\nb 'c\nd", "f")), "line 2 of f"));
  CHECK(contains(failure(parse_config_file("# a\n", "f")), "no program"));
}

TEST_CASE("readers stand any bytes", "[lists]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::string letters = "node0123456789:=[],- \n#@ranksltpe_+*'\"\\\xff";
  for (int i = 0; i < 1000; ++i) {
    std::string text;
    for (size_t n = random() % 40; n > 0; --n) text += letters[random() % letters.size()];
    Request request;
    (void)bool(parse_hostfile(text, "f"));
    (void)bool(parse_hosts(text));
    (void)bool(parse_rankfile(text, "f"));
    (void)bool(parse_config_file(text, "f"));
    (void)bool(read_map_by(text, request));
    (void)bool(read_bind_to(text, request));
    (void)bool(read_rank_by(text, request));
    (void)bool(read_cpu_set(text, request));
  }
}
