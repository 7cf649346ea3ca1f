// What a file tells of the switches between hosts.
#include "runtime/topo/network.h"

#include <catch2/catch.hpp>

using namespace weft::topo;
using Path = std::vector<std::string>;

namespace {

/// Is a host on the only switch, whose hosts are these?
bool names(const std::string& list, const std::string& host) {
  const auto network = Network::parse("SwitchName=s Nodes=" + list, "file");
  return network && !network->above(host)->empty();
}

}  // namespace

TEST_CASE("lists that name hosts", "[topo]") {
  CHECK(names("a", "a"));
  CHECK(names("n[1-4,07]-ib,m1", "n3-ib"));
  CHECK(names("n[1-4,07]-ib,m1", "n07-ib"));
  CHECK(names("n[1-4,07]-ib,m1", "m1"));
  CHECK(names("n[08-11]", "n08"));
  CHECK(names("n[08-11]", "n11"));
  CHECK(names("n[9-11]", "n10"));
  CHECK(names("r[1-2]n[1-20]", "r2n15"));
  CHECK(names("n[1-2][3-4]", "n14"));
  for (const char* other : {"n5-ib", "n7-ib", "n03-ib", "n3", "n-ib", "m", "m12", "", "x", "n1-ibx", "n000000000000000000000001-ib"})
    CHECK_FALSE(names("n[1-4,07]-ib,m1", other));
  CHECK_FALSE(names("n[08-11]", "n8"));
  CHECK_FALSE(names("", ""));
}

TEST_CASE("switches above a host", "[topo]") {
  const auto network = Network::parse(
      "# two racks and a host apart\n"
      "SwitchName=leaf1 Nodes=n[1-4] LinkSpeed=100\r\n"
      "\n"
      "switchname=leaf2 NODES=n[5-8],\\\n"
      "m1  # one more\n"
      "SwitchName=lone Nodes=z\n"
      "SwitchName=top Switches=leaf[1-2]",
      "file");
  REQUIRE(network);
  CHECK(*network->above("n2") == Path{"leaf1", "top"});
  CHECK(*network->above("n8") == Path{"leaf2", "top"});
  CHECK(*network->above("n8.example.org") == Path{"leaf2", "top"});
  CHECK(*network->above("z") == Path{"lone"});
  CHECK(network->above("n9")->empty());
  CHECK(network->above("")->empty());
  CHECK(network->text() ==
        "SwitchName=leaf1 Nodes=n[1-4]\nSwitchName=leaf2 Nodes=n[5-8],m1\nSwitchName=lone Nodes=z\nSwitchName=top Switches=leaf[1-2]\n");
  // Whoever names it first.
  CHECK(*Network::parse("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n1,n3,n2", "file")->above("n1") == Path{"a"});
  CHECK(*Network::parse("SwitchName=b Nodes=n1,n3,n2\nSwitchName=a Nodes=n[1-3]", "file")->above("n1") == Path{"b"});
  CHECK(Network::parse("", "file")->above("n1")->empty());
}

namespace {

/// As ibnetdiscover writes a switch, and an adapter.
std::string switch_text(const std::string& name, const std::vector<std::string>& switches) {
  std::string text = "vendid=0x2c9\ndevid=0xb924\nswitchguid=0x" + name + "(" + name + ")\nSwitch\t36 \"S-" + name + "\"\t\t# \"sw " +
                     name + "\" enhanced port 0 lid 1 lmc 0\n";
  for (const std::string& other : switches) text += "[19]\t\"S-" + other + "\"[20]\t\t# \"sw " + other + "\" lid 2 4xHDR\n";
  return text + "\n";
}
std::string adapter_text(const std::string& host, const std::string& at) {
  return "vendid=0x2c9\ndevid=0x101b\ncaguid=0x1\nCa\t1 \"H-" + host + "\"\t\t# \"" + host + " mlx5_0\"\n[1](" + host + ") \t\"S-" + at +
         "\"[3]\t\t# lid 4 lmc 0 \"sw " + at + "\" lid 1 4xHDR\n\n";
}

}  // namespace

TEST_CASE("a fabric as ibnetdiscover describes it", "[topo]") {
  const std::string text = "# Topology file: generated on Tue Jun  5 14:15:10 2007\n#\n" + switch_text("a", {"p"}) +
                           switch_text("b", {"p"}) + switch_text("c", {"q"}) + switch_text("d", {"q"}) + switch_text("p", {"a", "b", "r"}) +
                           switch_text("q", {"c", "d", "r"}) + switch_text("r", {"p", "q"}) + adapter_text("n1", "a") +
                           adapter_text("n2", "a") + adapter_text("n3", "b") + adapter_text("n4", "c") + adapter_text("n5", "d") +
                           adapter_text("n1", "d");
  const auto network = Network::parse(text, "file");
  REQUIRE(network);
  CHECK(*network->above("n1") == Path{"S-a", "above1-1", "above2-1"});
  CHECK(*network->above("n2.example.org") == Path{"S-a", "above1-1", "above2-1"});
  CHECK(*network->above("n3") == Path{"S-b", "above1-1", "above2-1"});
  CHECK(*network->above("n4") == Path{"S-c", "above1-2", "above2-1"});
  CHECK(*network->above("n5") == Path{"S-d", "above1-2", "above2-1"});
  CHECK(network->above("n6")->empty());
  CHECK(network->hosts(9).size() == 5);
  const auto one = Network::parse(switch_text("a", {}) + adapter_text("n1", "a"), "file");
  CHECK(*one->above("n1") == Path{"S-a"});
  const auto nameless = Network::parse(switch_text("a", {}) + adapter_text("?", "a"), "file");
  REQUIRE_FALSE(nameless);
  CHECK(nameless.failure().text == "file: the description of the adapter H-? begins with no host's name");
  CHECK_FALSE(Network::parse(switch_text("a", {}) + adapter_text("n1", "x=[,y"), "file"));
}

TEST_CASE("what hosts see by lldp", "[topo]") {
  const auto seen = [](const std::string& host, const std::string& interface, const std::string& chassis) {
    const std::string start = host + ": lldp." + interface + ".";
    return start + "via=LLDP\n" + start + "chassis.mac=0c:00:00:00:00:01\n" + start + "chassis.name=" + chassis + "\n" + start +
           "chassis.descr=of lldp.eth0.chassis.name=x\n" + start + "port.ifname=swp3\n";
  };
  const auto network = Network::parse(seen("n2", "eth0", "leaf 1") + seen("n1", "eth0", "leaf 1\r") + seen("n1", "eth1", "leaf9") +
                                          seen("n3.example.org", "enp1s0f0np0", "leaf2") + "n4: pdsh: command failed\n",
                                      "file");
  REQUIRE(network);
  CHECK(*network->above("n1") == Path{"leaf_1"});
  CHECK(*network->above("n2") == Path{"leaf_1"});
  CHECK(*network->above("n3.example.org") == Path{"leaf2"});
  CHECK(network->above("n4")->empty());
  const auto mixed = Network::parse(seen("n1", "eth0", "leaf1") + seen("leaf1", "swp1", "n1"), "file");
  REQUIRE_FALSE(mixed);
  CHECK(mixed.failure().text == "file: what leaf1 sees is there, too, but others see it as a switch; take what hosts see");
}

TEST_CASE("what a network's file cannot say", "[topo]") {
  const std::pair<const char*, const char*> wrong[] = {
      {"SwitchName=a Nodes=n1\nSwitchName=b\n", "line 2 of file: a switch has either Nodes= or Switches="},
      {"SwitchName=a Nodes=n1 Switches=b", "line 1 of file: a switch has either Nodes= or Switches="},
      {"\n\nNodes=n1", "line 3 of file: no SwitchName="},
      {"SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "line 2 of file: a second switch a"},
      {"SwitchName=a Nodes=n1 Nodes=n2", "line 1 of file: Nodes= twice"},
      {"SwitchName=a Hosts=n1", "line 1 of file: \"Hosts\" is none of SwitchName=, Nodes=, Switches="},
      {"SwitchName=a Nodes=n[1-", "line 1 of file: Nodes=: unpaired brackets"},
      {"SwitchName=a Nodes=n]1[", "line 1 of file: Nodes=: unpaired brackets"},
      {"SwitchName=a Nodes=n[4-1]", "line 1 of file: Nodes=: \"4-1\" is no range; ranges are written n[01-04,7]"},
      {"SwitchName=a Nodes=n[]", "line 1 of file: Nodes=: \"\" is no range; ranges are written n[01-04,7]"},
      {"SwitchName=a Nodes=", "line 1 of file: Nodes=: an empty list"},
      {"SwitchName=a Nodes=n1,,n2", "line 1 of file: Nodes=: an empty name in a list"},
      {"SwitchName=a Nodes=n[1][1][1][1]", "line 1 of file: Nodes=: more than three ranges in one name"},
  };
  for (const auto& [text, why] : wrong) {
    const auto network = Network::parse(text, "file");
    INFO(text);
    REQUIRE_FALSE(network);
    CHECK(network.failure().text == why);
  }
  const auto circle = Network::parse("SwitchName=a Nodes=n1\nSwitchName=b Switches=a,c\nSwitchName=c Switches=b", "file");
  REQUIRE(circle);
  const auto path = circle->above("n1");
  REQUIRE_FALSE(path);
  CHECK(path.failure().text == "line 3 of file: more than 4 switches above each other, or a circle of them");
  CHECK_FALSE(Network::read("/nowhere/at/all"));
  CHECK_FALSE(Network::read("/"));
}

TEST_CASE("the hosts that a network's file names, in its order, each once") {
  const auto network =
      Network::parse("SwitchName=t Switches=a,b\nSwitchName=a Nodes=n[08-11,9-8x],m1\nSwitchName=b Nodes=n[10-12],k", "file");
  CHECK_FALSE(network);
  const auto good =
      Network::parse("SwitchName=t Switches=a,b\nSwitchName=a Nodes=n[08-11],m1\nSwitchName=b Nodes=n[10-12],r[1-2]c[3,5]", "file");
  REQUIRE(good);
  CHECK(good->hosts(100) == std::vector<std::string>{"n08", "n09", "n10", "n11", "m1", "n12", "r1c3", "r1c5", "r2c3", "r2c5"});
  CHECK(good->hosts(3) == std::vector<std::string>{"n08", "n09", "n10"});
  CHECK(Network::parse("SwitchName=a Nodes=n[1-999999999999999999]", "file")->hosts(2).size() == 2);
  for (const std::string& host : good->hosts(100)) CHECK_FALSE(good->above(host)->empty());
}
