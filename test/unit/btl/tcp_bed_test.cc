// Two hosts as network namespaces, joined by two wires: rails, pairing, and a wire that is cut. Needs root; says so otherwise.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

#include "runtime/net/interfaces.h"
#include "test/unit/btl/tcp_world.h"

using namespace tcp_test;

namespace {

bool run(const std::string& command) { return system(("{ " + command + "; } >/dev/null 2>&1").c_str()) == 0; }

net::Fd this_network() { return net::Fd(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)); }

/// Two namespaces with eth0 and eth1 each, in a subnet per wire, and a docker0 of the same address on both.
class Bed {
 public:
  Bed() : home_(this_network()) {
    good_ = run("command -v ip") && make(0) && make(1);
    for (int wire = 0; wire < 2 && good_; ++wire) {
      const std::string name = "eth" + std::to_string(wire), net = "10.77." + std::to_string(wire) + ".",
                        far = std::to_string(200 + hosts_[0].get());
      enter(1);
      good_ = run("ip link add " + name + " type veth peer name x" + far);
      good_ = good_ && run("ip link set x" + far + " netns /proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(hosts_[0].get()));
      good_ = good_ && run("ip addr add " + net + "2/24 dev " + name + " && ip link set " + name + " up");
      enter(0);
      good_ = good_ && run("ip link set x" + far + " name " + name + " && ip addr add " + net + "1/24 dev " + name + " && ip link set " +
                           name + " up");
    }
    for (size_t host = 0; host < 2 && good_; ++host) good_ = carried(host);
  }
  ~Bed() { setns(home_.get(), CLONE_NEWNET); }
  bool good() const { return good_; }
  void enter(size_t host) { setns(hosts_[host].get(), CLONE_NEWNET); }

 private:
  bool make(size_t host) {
    if (unshare(CLONE_NEWNET) != 0) return false;
    hosts_[host] = this_network();
    return run("ip link set lo up") && run("ip link add docker0 type veth peer name veth7 && ip addr add 172.17.0.1/16 dev docker0") &&
           run("ip link set docker0 up && ip link set veth7 up");
  }
  /// Waits until the kernel says that both wires carry, which it does a while after both ends are up.
  bool carried(size_t host) {
    enter(host);
    const auto limit = Clock::now() + std::chrono::seconds(20);
    while (std::ranges::count_if(net::list_interfaces(), [](const auto& found) { return found.up && found.name.starts_with("eth"); }) < 2) {
      if (Clock::now() > limit) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  net::Fd home_, hosts_[2];
  bool good_ = false;
};

/// A process on a host with all rails.
struct Host {
  Bed& bed;
  size_t number;
  std::vector<std::unique_ptr<Node>> rails;
  std::vector<boot::Blob> addresses;
  Host(Bed& b, size_t n, boot::Bootstrap& boot, const tcp::Options& options) : bed(b), number(n) {
    bed.enter(n);
    auto made = tcp::open_rails(Site{boot}, options);
    REQUIRE(made);
    for (auto& rail : *made) rails.push_back(std::make_unique<Node>(boot, std::move(rail)));
  }
  void poll() {
    bed.enter(number);
    for (auto& node : rails) node->rail->poll(*node);
  }
};

}  // namespace

TEST_CASE("two hosts, two wires, and a docker0 of each") {
  Bed bed;
  if (!bed.good()) {
    WARN("skipped: this needs root and ip(8), to make network namespaces");
    return;
  }
  tcp::Options options;
  options.silence_s = 1;
  auto boots = boot::open_fake(2, 2);
  Host a(bed, 0, *boots[0], options), b(bed, 1, *boots[1], options);
  REQUIRE(a.rails.size() == 2);
  REQUIRE(b.rails.size() == 2);
  std::vector<boot::Blob> addresses{a.rails[0]->rail->address(), b.rails[0]->rail->address()};
  for (Host* host : {&a, &b})
    for (auto& node : host->rails) {
      node->addresses = &addresses;
      CHECK(node->rail->reaches({0, uint32_t(1 - host->number)}, addresses[1 - host->number]));
    }
  auto until = [&](auto done) {
    const auto limit = Clock::now() + std::chrono::seconds(20);
    while (!done() && Clock::now() < limit) a.poll(), b.poll();
    return done();
  };
  for (size_t rail = 0; rail < 2; ++rail) {
    bed.enter(0);
    REQUIRE(a.rails[rail]->send(1, header_of(2), "ab") == Status::ok);
    bed.enter(1);
    REQUIRE(b.rails[rail]->send(0, header_of(2), "ba") == Status::ok);
  }
  REQUIRE(until([&] { return a.rails[0]->count + a.rails[1]->count + b.rails[0]->count + b.rails[1]->count == 4; }));
  for (size_t rail = 0; rail < 2; ++rail) {
    INFO(a.rails[rail]->to(1).describe());
    CHECK(a.rails[rail]->to(1).describe().find(rail == 0 ? " 10.77.0.1:" : " 10.77.1.1:") != std::string::npos);
    CHECK(b.rails[rail]->count == 1);
  }
  // one wire is cut: its rail is lost, the other goes on
  bed.enter(1);
  REQUIRE(run("ip link set eth1 down"));
  bed.enter(0);
  REQUIRE(a.rails[1]->send(1, header_of(2), "??") == Status::ok);
  REQUIRE(until([&] { return a.rails[1]->losses.size() == 1; }));
  INFO(a.rails[1]->losses[1]);
  CHECK(a.rails[1]->losses[1].find("rank 1 on node1 is lost over tcp eth1 10.77.1.1:") == 0);
  CHECK(a.rails[1]->losses[1].find(" (rail 1, link down): ") != std::string::npos);
  CHECK(a.rails[1]->losses[1].find("this side's own link is down: look at the cable") != std::string::npos);
  bed.enter(0);
  REQUIRE(a.rails[0]->send(1, header_of(2), "ok") == Status::ok);
  REQUIRE(until([&] { return b.rails[0]->count == 2; }));
  CHECK(a.rails[0]->losses.empty());
}
