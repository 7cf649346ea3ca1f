#include "runtime/topo/hardware.h"

#include <errno.h>
#include <hwloc.h>
#include <hwloc/cpukinds.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

namespace weft::topo {
namespace {

struct Line {
  int largest = 0;  ///< CPUs of the largest instance
  std::string text;
};

Line describe_resource(hwloc_topology_t topology, hwloc_obj_type_t type) {
  Line line;
  const int count = std::max(0, hwloc_get_nbobjs_by_type(topology, type));
  for (int i = 0; i < count; ++i) {
    const hwloc_const_cpuset_t cpus = hwloc_get_obj_by_type(topology, type, static_cast<unsigned>(i))->cpuset;
    char* list = nullptr;
    if (!cpus || hwloc_bitmap_iszero(cpus) || hwloc_bitmap_list_asprintf(&list, cpus) < 0) continue;  // a NUMA node may be memory alone
    line.text += std::string(" ") + list;
    line.largest = std::max(line.largest, hwloc_bitmap_weight(cpus));
    free(list);
  }
  if (!line.text.empty()) line.text.insert(0, hwloc_obj_type_string(type));
  return line;
}

constexpr unsigned kNvidia = 0x10de;
constexpr unsigned kDisplayClass = 0x03;  // the first byte of the class of a GPU

/// False if the device tells the states of its ports and none is active (4).
bool has_active_port(hwloc_obj_t device) {
  bool told = false;
  for (unsigned i = 0; i < device->infos_count; ++i) {
    const std::string name = device->infos[i].name;
    if (!name.starts_with("Port") || !name.ends_with("State")) continue;
    if (strcmp(device->infos[i].value, "4") == 0) return true;
    told = true;
  }
  return !told;
}

Device place_device(hwloc_topology_t topology, hwloc_obj_t object, Device::Kind kind, const std::string& name) {
  Device device{kind, name, {}, {}, {}};
  hwloc_obj_t pci = object;
  while (pci && pci->type == HWLOC_OBJ_OS_DEVICE) pci = pci->parent;  // a PCI device, or none
  if (pci && pci->type == HWLOC_OBJ_PCI_DEVICE) {
    const auto& where = pci->attr->pcidev;
    char bus[32];
    snprintf(bus, sizeof bus, "%04x:%02x:%02x.%01x", where.domain, where.bus, where.dev, where.func);
    device.bus = bus;
    for (hwloc_obj_t up = pci->parent; up && up->type != HWLOC_OBJ_MACHINE; up = up->parent)
      device.path.push_back(static_cast<uint32_t>(up->gp_index));
    std::ranges::reverse(device.path);
  }
  char* list = nullptr;
  const hwloc_obj_t host = hwloc_get_non_io_ancestor_obj(topology, object);
  if (host && host->cpuset && hwloc_bitmap_list_asprintf(&list, host->cpuset) >= 0) {
    if (auto near = CpuSet::parse(list)) device.near = std::move(*near);
    free(list);
  }
  return device;
}

}  // namespace

void HardwareTopology::Destroy::operator()(void* topology) const { hwloc_topology_destroy(static_cast<hwloc_topology_t>(topology)); }

Result<HardwareTopology> HardwareTopology::load(const std::string& stored, Devices devices) {
  // Plugins (OpenCL, GL, PCI, XML) are nearly all of hwloc's loading time and tell nothing that is asked here: PCI devices come from sysfs.
  if (!getenv("HWLOC_PLUGINS_PATH")) setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 0);
  hwloc_topology_t raw;
  if (hwloc_topology_init(&raw)) return Failure{std::string("hwloc cannot start: ") + strerror(errno)};
  HardwareTopology result;
  result.topology_.reset(raw);
  const bool xml = stored.starts_with('<');
  if (xml && hwloc_topology_set_xmlbuffer(raw, stored.c_str(), static_cast<int>(stored.size()) + 1))
    return Failure{"hwloc does not understand a topology in XML of " + std::to_string(stored.size()) + " bytes"};
  if (!xml && !stored.empty() && hwloc_topology_set_synthetic(raw, stored.c_str()))
    return Failure{"hwloc does not understand \"" + stored + "\""};
  const bool all = devices == Devices::included;
  hwloc_topology_set_io_types_filter(raw, all ? HWLOC_TYPE_FILTER_KEEP_IMPORTANT : HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(raw)) return Failure{std::string("hwloc cannot read this machine's topology: ") + strerror(errno)};
  return result;
}

std::string HardwareTopology::describe() const {
  std::vector<Line> lines;
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_NUMANODE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_CORE, HWLOC_OBJ_PU})
    if (Line line = describe_resource(static_cast<hwloc_topology_t>(handle()), type); !line.text.empty()) lines.push_back(std::move(line));
  // a NUMA node may be smaller or larger than an L3 cache
  std::ranges::stable_sort(lines, std::ranges::greater(), &Line::largest);
  std::string text;
  for (const Line& line : lines) text += line.text + "\n";
  return text;
}

std::vector<Device> HardwareTopology::devices() const {
  const auto topology = static_cast<hwloc_topology_t>(handle());
  std::vector<Device> gpus, verbs, sockets;
  for (hwloc_obj_t pci = nullptr; (pci = hwloc_get_next_pcidev(topology, pci));)
    if (pci->attr->pcidev.vendor_id == kNvidia && pci->attr->pcidev.class_id >> 8 == kDisplayClass)
      gpus.push_back(place_device(topology, pci, Device::Kind::gpu, ""));
  for (hwloc_obj_t os = nullptr; (os = hwloc_get_next_osdev(topology, os));) {
    if (!os->name || strpbrk(os->name, " \n") || !os->parent || os->parent->type != HWLOC_OBJ_PCI_DEVICE) continue;
    if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && has_active_port(os))
      verbs.push_back(place_device(topology, os, Device::Kind::nic, os->name));
    if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) sockets.push_back(place_device(topology, os, Device::Kind::nic, os->name));
  }
  std::ranges::stable_sort(gpus, {}, &Device::bus);
  for (size_t i = 0; i < gpus.size(); ++i) gpus[i].name = std::to_string(i);
  std::ranges::move(verbs.empty() ? sockets : verbs, std::back_inserter(gpus));
  return gpus;
}

bool HardwareTopology::is_this_machine() const { return hwloc_topology_is_thissystem(static_cast<hwloc_topology_t>(handle())); }

std::vector<CpuSet> HardwareTopology::kinds() const {
  std::vector<CpuSet> kinds;
  const auto topology = static_cast<hwloc_topology_t>(handle());
  const int count = hwloc_cpukinds_get_nr(topology, 0);
  if (count < 2) return kinds;
  hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
  for (int kind = count - 1; kind >= 0; --kind) {  // hwloc begins with the weakest
    int efficiency = -1;
    char* list = nullptr;
    if (hwloc_cpukinds_get_info(topology, static_cast<unsigned>(kind), cpus, &efficiency, nullptr, nullptr, 0) || efficiency < 0 ||
        hwloc_bitmap_list_asprintf(&list, cpus) < 0)
      continue;
    if (auto set = CpuSet::parse(list); set && !set->empty()) kinds.push_back(std::move(*set));
    free(list);
  }
  hwloc_bitmap_free(cpus);
  if (kinds.size() < 2) kinds.clear();
  return kinds;
}

}  // namespace weft::topo
