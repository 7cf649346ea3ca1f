#include <algorithm>

#include "comm/create.h"
#include "comm/hints.h"
#include "include/mpi.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/topo/node.h"
#include "runtime/type/predefined.h"

namespace weft::comm {
namespace {

/// More instances of a resource than a node has.
constexpr int kInstances = 1 << 13;
constexpr std::string_view kPrefix = "hwloc://", kHost = "mpi_shared_memory", kTypeKey = "mpi_hw_resource_type";

topo::Node node_of(const boot::Job& job) {
  auto node = topo::Node::parse(job.topology);
  if (node) return std::move(*node);
  log(Level::warning, "the launcher's description of the hardware is unreadable (%s); splits by hardware know hosts only",
      node.failure().text.c_str());
  return {};
}

int host_color(const boot::Job& job) { return static_cast<int>(job.node); }

/// Equal in the ranks that are bound to the same instance.
int instance_color(const boot::Job& job, const topo::Resource& resource) {
  const auto instance = resource.instance_around(topo::CpuSet::of_this_thread());
  return instance && *instance < kInstances ? host_color(job) * kInstances + static_cast<int>(*instance) : MPI_UNDEFINED;
}

int resource_color(const boot::Job& job, std::string_view name) {
  if (name == kHost) return host_color(job);
  if (name.starts_with(kPrefix))
    for (const topo::Resource& resource : node_of(job).resources)
      if (resource.name == name.substr(kPrefix.size())) return instance_color(job, resource);
  return MPI_UNDEFINED;
}

/// Equal in the members of a process set; ranks may name different ones. The launcher tells all ranks the same list.
int set_color(const Communicator& comm, const std::string& name) {
  constexpr int launchers = 1 << 28, alone = 1 << 29, of_host = 1 << 30;
  boot::Bootstrap& boot = comm.instance->boot();
  if (same_word(name, kWorldSet)) return 0;
  if (same_word(name, kSelfSet)) return alone + static_cast<int>(boot.job().rank);
  if (same_word(name, kHostSet)) return of_host + host_color(boot.job());
  const auto names = boot.process_sets();
  const auto members = boot.process_set(name);
  if (!names || !members || !std::ranges::count(*members, boot.job().rank)) return MPI_UNDEFINED;
  return launchers + static_cast<int>(std::ranges::find(*names, name) - names->begin());
}

int guided_color(const Communicator& comm, const boot::Job& job, bool by_set_too, const Info* info) {
  if (!info) return MPI_UNDEFINED;
  if (const std::string* resource = info->find(kTypeKey)) return resource_color(job, *resource);
  const std::string* set = by_set_too ? info->find("mpi_pset_name") : nullptr;
  return set ? set_color(comm, *set) : MPI_UNDEFINED;
}

/// Whether all ranks, those of both groups on an inter-communicator, have the same colour.
int compare_colors(Communicator& comm, int color, bool& same) {
  const int mine[2] = {color, -color};
  int least[2] = {};
  coll::Call call;
  call.what = coll::Collective::allreduce;
  call.united = true;
  call.in = mine;
  call.out = least;
  call.in_count = call.out_count = 2;
  call.in_type = call.out_type = &type::of(type::Basic::int32);
  call.op = op::predefined(reinterpret_cast<uintptr_t>(MPI_MIN));
  const int error = coll::run(*comm.coll, call);
  same = least[0] == -least[1];
  return error;
}

/// Goes down from the host until a level separates the ranks, which all see alike. Below the host they all have the same levels.
int split_unguided(Communicator& comm, const boot::Job& job, int key, Info* info, Communicator** made) {
  *made = nullptr;
  const topo::Node node = node_of(job);
  std::string level(kHost);
  int color = host_color(job);
  bool together = false;
  if (const int error = compare_colors(comm, color, together)) return error;
  for (const topo::Resource& resource : node.resources) {
    if (!together) break;
    color = instance_color(job, resource);
    level = std::string(kPrefix) + resource.name;
    if (const int error = compare_colors(comm, color, together)) return error;
  }
  if (together) return MPI_SUCCESS;
  const int error = split(comm, color, key, made);
  if (!error && *made && info) info->set(kTypeKey, level);
  return error;
}

}  // namespace

int split_type(Communicator& comm, int type, int key, Info* info, Communicator** made) {
  const boot::Job& job = comm.instance->job();
  int error = MPI_SUCCESS;
  switch (type) {
    case MPI_COMM_TYPE_SHARED: error = split(comm, host_color(job), key, made); break;
    case MPI_COMM_TYPE_HW_UNGUIDED: error = split_unguided(comm, job, key, info, made); break;
    case MPI_COMM_TYPE_HW_GUIDED:
    case MPI_COMM_TYPE_RESOURCE_GUIDED:
      error = split(comm, guided_color(comm, job, type == MPI_COMM_TYPE_RESOURCE_GUIDED, info), key, made);
      break;
    default: error = split(comm, MPI_UNDEFINED, key, made); break;
  }
  if (!error && *made) set_hints(**made, info);
  return error;
}

std::vector<std::pair<std::string, bool>> hardware_resources(const boot::Job& job) {
  const topo::CpuSet bound = topo::CpuSet::of_this_thread();
  std::vector<std::pair<std::string, bool>> result;
  result.emplace_back(kHost, true);
  for (const topo::Resource& resource : node_of(job).resources)
    result.emplace_back(std::string(kPrefix) + resource.name, resource.instance_around(bound).has_value());
  return result;
}

}  // namespace weft::comm
