#include "test/unit/place/machines.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "runtime/topo/hardware.h"

namespace weft::placement {
namespace {

std::string set(const char* name, uint32_t bits) {
  char text[64];
  snprintf(text, sizeof text, " %s=\"0x%08x\"", name, bits);
  return text;
}

std::string sets(uint32_t cpus) {
  return set("cpuset", cpus) + set("complete_cpuset", cpus) + set("nodeset", 1) + set("complete_nodeset", 1);
}

/// Four small cores of one thread (CPUs 0-3) before two large ones of two (4-5, 6-7), as hwloc writes them.
std::string hybrid_laptop() {
  int id = 10;
  auto object = [&](const std::string& type, uint32_t cpus, const std::string& inside, const std::string& more = "") {
    return "<object type=\"" + type + "\" gp_index=\"" + std::to_string(id++) + "\"" + sets(cpus) + more + ">" + inside + "</object>";
  };
  auto pu = [&](int cpu) { return object("PU", 1u << cpu, "", " os_index=\"" + std::to_string(cpu) + "\""); };
  std::string cores;
  for (int c = 0; c < 4; ++c) cores += object("Core", 1u << c, pu(c), " os_index=\"" + std::to_string(c) + "\"");
  cores += object("Core", 0x30, pu(4) + pu(5), " os_index=\"4\"") + object("Core", 0xc0, pu(6) + pu(7), " os_index=\"5\"");
  const std::string memory = object("NUMANode", 0xff, "", " os_index=\"0\" local_memory=\"1073741824\"");
  const std::string package = object("Package", 0xff, memory + cores, " os_index=\"0\"");
  const std::string all = object("Machine", 0xff, package, " os_index=\"0\"" + set("allowed_cpuset", 0xff) + set("allowed_nodeset", 1));
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">" + all +
         "<cpukind cpuset=\"0x0000000f\" forced_efficiency=\"0\"/><cpukind cpuset=\"0x000000f0\" forced_efficiency=\"1\"/></topology>\n";
}

std::string stored_file(const std::string& name) {
  std::ifstream file(WEFT_MACHINES "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().empty()) throw std::runtime_error("no file " + name);
  return text.str();
}

}  // namespace

const std::vector<StoredMachine>& stored_machines() {
  static const std::vector<StoredMachine> all = {
      {"two sockets", "pack:2 numa:1 l3:1 core:8 pu:2"},
      {"sub-NUMA", "pack:2 l3:1 numa:2 core:6 pu:2"},
      {"chiplets", "pack:2 numa:1 l3:4 core:8 pu:2"},
      {"grace", "pack:2 numa:1 l3:1 core:72 pu:1"},
      {"hybrid laptop", hybrid_laptop()},
      {"container", "pack:1 numa:1 l3:1 core:8 pu:2", 2},  // 1.5 CPUs, rounded up
      {"cpuset", "pack:2 numa:1 l3:1 core:8 pu:2", UINT32_MAX, "3-9,20"},
      {"one core", "pack:1 core:1 pu:1"},
      {"no caches", "pack:1 core:4 pu:1"},
      {"DGX", stored_file("dgx.xml"), UINT32_MAX, "", true},
      {"grace with GPUs", stored_file("grace.xml"), UINT32_MAX, "", true},
      {"sub-NUMA with GPUs", stored_file("snc.xml"), UINT32_MAX, "", true},
      {"DGX in a container", stored_file("dgx.xml"), 2, "4-9,20-27", true},
  };
  return all;
}

std::shared_ptr<const Machine> machine(const StoredMachine& stored) {
  auto hardware = topo::HardwareTopology::load(stored.topology, stored.devices ? topo::Devices::included : topo::Devices::left_out);
  if (!hardware) throw std::runtime_error(hardware.failure().text);
  auto node = topo::Node::parse(hardware->describe());
  if (!node) throw std::runtime_error(node.failure().text);
  node->devices = hardware->devices();
  return std::make_shared<Machine>(Machine{*node, *topo::CpuSet::parse(stored.allowed), stored.quota, hardware->kinds()});
}

std::shared_ptr<const Machine> machine(const std::string& name) {
  for (const StoredMachine& stored : stored_machines())
    if (stored.name == name) return machine(stored);
  throw std::runtime_error("no machine " + name);
}

}  // namespace weft::placement
