// GPUs of ranks and the network interfaces near them: machine x ranks x policy -> what must hold.
#include "launcher/place/devices.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "launcher/environment.h"
#include "launcher/gpus.h"
#include "launcher/place/draw.h"
#include "launcher/place/machine.h"
#include "launcher/place/place.h"
#include "launcher/place/policy.h"
#include "test/unit/place/machines.h"

using namespace weft::placement;
using weft::topo::CpuSet;
using weft::topo::Device;
using Texts = std::vector<std::string>;

namespace {

Request on(const std::string& name, uint32_t ranks, uint32_t gpus) {
  Request request;
  request.programs = {{ranks}};
  request.gpus_each = gpus;
  request.hosts = {{"node"}};
  request.hosts[0].machine = machine(name);
  return request;
}

const Device& device(const Machine& machine, const std::string& name) {
  for (const Device& device : machine.hardware.devices)
    if (device.name == name) return device;
  throw std::runtime_error("no device " + name);
}

std::vector<const Device*> all(const Machine& machine, Device::Kind kind) {
  std::vector<const Device*> found;
  for (const Device& device : machine.hardware.devices)
    if (device.kind == kind) found.push_back(&device);
  return found;
}

bool overlap(CpuSet a, const CpuSet& b) { return !(a &= b).empty(); }

uint32_t package_of(const Machine& machine, const CpuSet& near) {
  const auto packages = pieces(machine, Unit::package, usable_cpus(machine, {}));
  for (uint32_t p = 0; p < packages.size(); ++p)
    if (overlap(near, packages[p])) return p;
  return 99;
}

/// What every placement with GPUs must keep to.
std::string unsound(const Request& request, const Placement& placement) {
  const Machine& machine = *request.hosts[0].machine;
  std::set<std::string> used;
  for (const Place& place : placement.ranks) {
    if (place.gpus.size() != request.gpus_each) return "a rank with another number of GPUs";
    CpuSet near;
    for (const std::string& gpu : place.gpus) {
      if (!used.insert(gpu).second) return "GPU " + gpu + " is two ranks'";
      near |= device(machine, gpu).near;
    }
    CpuSet reachable = near;
    reachable &= usable_cpus(machine, {});
    if (!request.map_by && !place.cpus.empty() && !reachable.empty() && !near.includes(place.cpus)) return "bound far from its GPUs";
    const auto nics = all(machine, Device::Kind::nic);
    if (place.nics.empty() != nics.empty()) return "no interface";
    for (const std::string& nic : place.nics) {
      size_t best = 0;
      for (const std::string& gpu : place.gpus) {
        const size_t here = nearness(device(machine, gpu), device(machine, nic));
        size_t most = 0;
        for (const Device* other : nics) most = std::max(most, nearness(device(machine, gpu), *other));
        best += here == most;
      }
      if (!best) return nic + " is not the nearest to any GPU of its rank";
    }
  }
  return {};
}

const std::vector<std::string> machines_with_gpus = {"DGX", "grace with GPUs", "sub-NUMA with GPUs", "DGX in a container"};

}  // namespace

TEST_CASE("devices are found where they hang", "[devices]") {
  const auto dgx = machine("DGX");
  CHECK(all(*dgx, Device::Kind::gpu).size() == 8);
  CHECK(all(*dgx, Device::Kind::nic).size() == 8);  // neither Ethernet beside InfiniBand nor what is down
  CHECK(device(*dgx, "0").bus == "0000:14:00.0");
  CHECK(device(*dgx, "0").near.to_string() == "0-15");
  CHECK(nearness(device(*dgx, "0"), device(*dgx, "mlx5_1")) > nearness(device(*dgx, "0"), device(*dgx, "mlx5_2")));
  CHECK(nearness(device(*dgx, "0"), device(*dgx, "mlx5_2")) > nearness(device(*dgx, "0"), device(*dgx, "mlx5_4")));
  CHECK(all(*machine("sub-NUMA with GPUs"), Device::Kind::nic).at(1)->name == "eth1");
  CHECK(machine("two sockets")->hardware.devices.empty());
}

TEST_CASE("GPUs on every machine", "[devices][serial]") {
  for (const std::string& name : machines_with_gpus) {
    const uint32_t gpus = gpus_of(*machine(name));
    for (uint32_t each = 1; each <= gpus + 1; ++each)
      for (uint32_t ranks = 0; ranks * each <= gpus + each; ++ranks)
        for (const char* map : {"", "package", "numa", "core", "slot:PE=2"})
          for (const char* bind : {"", "none", "core", "numa", "core:overload-allowed"}) {
            INFO(name << ": " << ranks << " ranks, " << each << " GPUs each, map " << map << " bind " << bind);
            Request request = on(name, ranks, each);
            if (*map) REQUIRE(read_map_by(map, request));
            if (*bind) REQUIRE(read_bind_to(bind, request));
            const auto placement = place(request);
            if (std::max(1u, ranks) * each > gpus) {
              REQUIRE_FALSE(placement);
              continue;
            }
            if (!placement) continue;  // more ranks bound to a core than it has threads, or the like
            CHECK(unsound(request, *placement) == "");
            CHECK(draw(*placement, {"a"}).find("near") != std::string::npos);
          }
  }
}

TEST_CASE("GPUs and rails are spread", "[devices]") {
  for (const uint32_t ranks : {1u, 2u, 4u, 8u}) {
    const Request request = on("DGX", ranks, 1);
    const auto placement = place(request);
    REQUIRE(placement);
    std::map<uint32_t, uint32_t> packages;
    std::set<std::string> rails;
    CpuSet cpus;
    uint32_t sum = 0;
    for (const Place& place : placement->ranks) {
      packages[package_of(*request.hosts[0].machine, device(*request.hosts[0].machine, place.gpus[0]).near)]++;
      rails.insert(place.nics[0]);
      cpus |= place.cpus;
      sum += place.cpus.count();
    }
    CHECK(rails.size() == ranks);
    CHECK(packages.size() == std::min(2u, ranks));
    CHECK(std::ranges::all_of(packages, [&](const auto& entry) { return entry.second == (ranks + 1) / 2; }));
    CHECK(cpus.count() == sum);
  }
  // three GPUs each: within a package, although 3 does not divide its 4
  const Request request = on("DGX", 2, 3);
  const auto placement = place(request);
  REQUIRE(placement);
  CHECK(placement->ranks[0].gpus == Texts{"0", "1", "2"});
  CHECK(placement->ranks[1].gpus == Texts{"4", "5", "6"});
  CHECK(placement->ranks[1].nics == Texts{"mlx5_4", "mlx5_5", "mlx5_6"});
  const auto slots = place(on("DGX", 0, 2));  // without -n: as many ranks as there are GPUs for
  REQUIRE(slots);
  CHECK(slots->ranks.size() == 4);
  const auto grace = place(on("grace with GPUs", 2, 1));
  REQUIRE(grace);
  CHECK(grace->ranks[0].cpus.to_string() == "0-11");
  CHECK(grace->ranks[1].nics == Texts{"mlx5_1"});
}

TEST_CASE("GPUs follow the CPUs that a policy gives", "[devices]") {
  Request request = on("DGX", 4, 1);
  REQUIRE(read_map_by("package", request));
  const auto placement = place(request);
  REQUIRE(placement);
  Texts gpus;
  for (const Place& place : placement->ranks) gpus.push_back(place.gpus.at(0));
  CHECK(gpus == Texts{"0", "4", "1", "5"});
  request = on("DGX", 2, 1);
  request.rankfile = {{0, "node", "1:0-3", "line 1"}, {1, "node", "0:4", "line 2"}};
  const auto by_file = place(request);
  REQUIRE(by_file);
  CHECK(by_file->ranks[0].gpus == Texts{"4"});
  CHECK(by_file->ranks[1].gpus == Texts{"0"});
}

TEST_CASE("too few GPUs are said with numbers and what helps", "[devices]") {
  auto said = [](const Request& request) {
    const auto placement = place(request);
    return placement ? "no failure" : placement.failure().text;
  };
  CHECK(said(on("DGX", 5, 2)) ==
        "2 GPUs for each of 5 ranks on node are 10, but there are 8; start 4 ranks there at most, ask for fewer GPUs "
        "each, or leave -gpus-per-proc out: all ranks then see all GPUs");
  CHECK(said(on("DGX", 1, 9)).find("start no rank there") != std::string::npos);
  CHECK(said(on("two sockets", 2, 1)).find("there is no GPU that ranks may use") != std::string::npos);
  Request wrong = on("DGX", 1, 0);
  CHECK_FALSE(read_map_by("slot:GPU=0", wrong));
  CHECK(read_map_by("slot:GPU=2", wrong));
  CHECK(wrong.gpus_each == 2);
}

TEST_CASE("the user's CUDA_VISIBLE_DEVICES and the driver restrict", "[devices]") {
  namespace fs = std::filesystem;
  std::string root = (fs::temp_directory_path() / "weft-gpus-XXXXXX").string();
  REQUIRE(mkdtemp(root.data()));
  const std::vector<Device> devices = machine("DGX")->hardware.devices;
  auto names = [](const std::vector<Device>& all) {
    std::string text;
    for (const Device& device : all)
      if (device.kind == Device::Kind::gpu) text += device.name + (device.bus.empty() ? "?" : "@" + device.bus.substr(5, 2)) + " ";
    return text;
  };
  using weft::launcher::present_devices;
  using weft::launcher::visible_devices;
  CHECK(names(visible_devices(devices, "6,1")) == "6@b4 1@18 ");
  CHECK(names(visible_devices(devices, " 2 , 3")) == "2@34 3@38 ");
  CHECK(names(visible_devices(devices, "1,9,2")) == "1@18 ");  // as CUDA has it
  CHECK(names(visible_devices(devices, "1,1")) == "1@18 ");
  CHECK(names(visible_devices(devices, "")) == "");
  CHECK(names(visible_devices(devices, "-1")) == "");
  CHECK(names(visible_devices(devices, "GPU-12ab,MIG-77")) == "GPU-12ab? MIG-77? ");
  CHECK(visible_devices(devices, "0").size() == 9);  // the interfaces stay

  CHECK(names(present_devices(devices, root)) == "");  // no driver
  for (const char* bus : {"0000:18:00.0", "0000:94:00.0"}) {
    fs::create_directories(root + "/proc/driver/nvidia/gpus/" + bus);
    std::ofstream(root + "/proc/driver/nvidia/gpus/" + bus + "/information")
        << "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-" << std::string(bus).substr(5, 2) << "00-1\n";
  }
  const auto present = present_devices(devices, root);
  CHECK(names(present) == "0@18 1@94 ");
  CHECK(names(visible_devices(present, "GPU-94", root)) == "GPU-94@94 ");
  fs::create_directories(root + "/proc/driver/nvidia/gpus/0009:01:00.0");  // the driver knows what the bus does not show
  CHECK(names(present_devices(devices, root)) == "0@18 1@94 2? ");
  fs::remove_all(root + "/proc");
  fs::create_directories(root + "/dev");
  for (const char* file : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"}) std::ofstream(root + "/dev/" + file);
  CHECK(names(present_devices(devices, root)) == "0? 1? ");  // in a sandbox only the device files tell
  fs::remove_all(root);
}

TEST_CASE("GPUs of unknown place", "[devices]") {
  Request request = on("two sockets", 4, 1);
  auto plain = std::make_shared<Machine>(*request.hosts[0].machine);
  for (const char* name : {"0", "1", "2", "3"}) plain->hardware.devices.push_back({Device::Kind::gpu, name, {}, {}, {}});
  request.hosts[0].machine = plain;
  const auto placement = place(request);
  REQUIRE(placement);
  Texts gpus, cpus;
  for (const Place& place : placement->ranks) gpus.push_back(place.gpus.at(0)), cpus.push_back(place.cpus.to_string());
  CHECK(gpus == Texts{"0", "1", "2", "3"});
  CHECK(cpus == Texts{"0-7", "8-15", "16-23", "24-31"});
  const auto variables = weft::launcher::device_variables(placement->ranks[2]);
  REQUIRE(variables.size() == 3);
  CHECK(variables[0] == std::pair<std::string, std::string>{"CUDA_VISIBLE_DEVICES", "2"});
  CHECK(weft::launcher::device_variables(Place{}).empty());
}

TEST_CASE("a node's text with devices", "[devices]") {
  weft::topo::Node node = machine("DGX")->hardware;
  node.devices.push_back({Device::Kind::nic, "eth0", {}, {}, {}});
  const std::string text = node.to_string();
  auto back = weft::topo::Node::parse(text);
  REQUIRE(back);
  CHECK(back->to_string() == text);
  CHECK(back->devices.size() == node.devices.size());
  for (const char* wrong : {"+gpu", "+gpu 0", "+gpu 0 b 1.x 0", "+gpu 0 b 1 0-", "+tpu 0 b 1 0", "+gpu 0 b 1 0 more", "+gpu  b 1 0", "Core",
                            "Core  ", "Core 0  1"})
    CHECK_FALSE(weft::topo::Node::parse(wrong));
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {  // damaged texts end in a failure or in another node, never worse
    std::string damaged = text;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = "+-.,0 9\nx"[random() % 9];
    const auto other = weft::topo::Node::parse(damaged);
    if (!other) continue;
    INFO(damaged);
    CHECK(weft::topo::Node::parse(other->to_string()));
  }
}
