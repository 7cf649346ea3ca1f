#include "runtime/topo/node.h"

#include <hwloc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace weft::topo {

std::string Node::summary() const {
  auto item = [](const char* name, uint64_t value) { return std::string(name) + "=" + std::to_string(value); };
  return item("packages", packages) + " " + item("numa", numa_nodes) + " " + item("l3", l3_caches) + " " + item("cores", cores) + " " +
         item("pus", pus) + " " + item("memory", memory_bytes) + " " + item("l2_bytes", l2_bytes) + " " + item("l3_bytes", l3_bytes);
}

void HardwareTopology::Destroy::operator()(void* topology) const { hwloc_topology_destroy(static_cast<hwloc_topology_t>(topology)); }

Result<HardwareTopology> HardwareTopology::load(const std::string& synthetic) {
  // Plugins (OpenCL, GL, PCI, XML) are nearly all of hwloc's loading time and tell nothing that is asked here.
  if (!getenv("HWLOC_PLUGINS_PATH")) setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 0);
  hwloc_topology_t raw;
  if (hwloc_topology_init(&raw)) return Failure{std::string("hwloc cannot start: ") + strerror(errno)};
  HardwareTopology result;
  result.topology_.reset(raw);
  if (!synthetic.empty() && hwloc_topology_set_synthetic(raw, synthetic.c_str()))
    return Failure{"hwloc does not understand \"" + synthetic + "\""};
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(raw)) return Failure{std::string("hwloc cannot read this machine's topology: ") + strerror(errno)};
  return result;
}

Node HardwareTopology::node() const {
  auto topology = static_cast<hwloc_topology_t>(handle());
  auto count = [&](hwloc_obj_type_t type) { return uint32_t(std::max(1, hwloc_get_nbobjs_by_type(topology, type))); };
  auto cache = [&](hwloc_obj_type_t type) -> uint64_t {
    const hwloc_obj_t object = hwloc_get_obj_by_type(topology, type, 0);
    return object && object->attr ? object->attr->cache.size : 0;
  };
  Node node;
  node.packages = count(HWLOC_OBJ_PACKAGE);
  node.numa_nodes = count(HWLOC_OBJ_NUMANODE);
  node.l3_caches = count(HWLOC_OBJ_L3CACHE);
  node.cores = count(HWLOC_OBJ_CORE);
  node.pus = count(HWLOC_OBJ_PU);
  node.memory_bytes = hwloc_get_root_obj(topology)->total_memory;
  node.l2_bytes = cache(HWLOC_OBJ_L2CACHE);
  node.l3_bytes = cache(HWLOC_OBJ_L3CACHE);
  return node;
}

}  // namespace weft::topo
