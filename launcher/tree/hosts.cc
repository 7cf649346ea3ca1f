#include "launcher/tree/hosts.h"

#include <unistd.h>

#include <cstdlib>

#include "launcher/tree/shape.h"

namespace weft::launcher::tree {
namespace {

constexpr uint32_t default_fan_out = 16;

const char* variable(const char* name) {
  const char* value = getenv(name);
  return value && *value ? value : nullptr;
}

std::string own_program() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, size_t(n)) : "mpirun";
}

}  // namespace

Result<std::vector<placement::Host>> slurm_hosts() {
  std::vector<placement::Host> result;
  const char* nodes = variable("SLURM_JOB_NODELIST");
  if (!nodes) nodes = variable("SLURM_NODELIST");
  if (!variable("SLURM_JOB_ID") || !nodes) return result;
  const char* tasks = variable("SLURM_TASKS_PER_NODE");
  auto hosts = parse_slurm(nodes, tasks ? tasks : "");
  if (!hosts) return hosts.failure();
  for (const HostSlots& host : *hosts) {
    placement::Host one;
    one.name = host.name;
    one.slots = host.slots;
    one.source = "Slurm's allocation";
    result.push_back(std::move(one));
  }
  return result;
}

Result<Allocation> allocate(const Options& options, const placement::Placement& placement, const std::string& own) {
  std::vector<std::string> names{own};
  std::vector<uint32_t> node_of(placement.hosts.size(), UINT32_MAX), places;
  const auto number = [&](uint32_t host) {
    if (node_of[host] != UINT32_MAX) return node_of[host];
    node_of[host] = placement.hosts[host].name == own ? 0 : uint32_t(names.size());
    if (node_of[host]) names.push_back(placement.hosts[host].name);
    return node_of[host];
  };
  if (options.input == InputTo::one) number(placement.ranks[options.input_rank].host);  // early, so that mpirun feeds it directly
  for (const placement::Place& place : placement.ranks) places.push_back(number(place.host));
  const bool slurm = options.launcher.empty() ? variable("SLURM_JOB_ID") != nullptr : options.launcher == "slurm";
  const How how = slurm ? How::slurm : How::ssh;
  // srun is a tree of its own; all daemons it starts talk to mpirun
  const uint32_t fan_out = how == How::slurm ? uint32_t(names.size()) : options.fan_out ? options.fan_out : default_fan_out;
  return Allocation{Layout(std::move(names), std::move(places), 0), how, fan_out, own_program()};
}

}  // namespace weft::launcher::tree
