#include "launcher/arrange.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "launcher/gpus.h"
#include "launcher/place/draw.h"
#include "launcher/place/hosts.h"
#include "launcher/place/policy.h"
#include "launcher/tree/hosts.h"
#include "launcher/tree/shape.h"
#include "runtime/topo/cpus.h"

namespace weft::launcher {
namespace {

/// The hosts that were named, or those of a Slurm job, with this one under its own name. Nothing is known of others' hardware.
Result<std::vector<placement::Host>> hosts_of(const Options& options, const std::string& own,
                                              std::shared_ptr<const placement::Machine> machine) {
  std::vector<placement::Host> named = options.request.hosts;
  if (named.empty()) {
    auto allocated = tree::slurm_hosts();
    if (!allocated) return allocated.failure();
    named = std::move(*allocated);
  }
  if (named.empty()) named.push_back({own});
  for (placement::Host& host : named) {
    if (placement::means(host.name, own))
      host.name = own;
    else if (!tree::names_host(host.name))
      return Failure{(host.source.empty() ? "" : host.source + ": ") + "\"" + host.name + "\" is no name of a host"};
  }
  std::vector<placement::Host> hosts;
  placement::add_hosts(hosts, named);
  for (placement::Host& host : hosts)
    if (host.name == own) host.machine = machine;
  return hosts;
}

/// The threads that OMP_NUM_THREADS, as the app's ranks will see it, gives each of them.
uint32_t threads_of(const App& app) {
  for (auto variable = app.variables.rbegin(); variable != app.variables.rend(); ++variable)
    if (variable->first == "OMP_NUM_THREADS") return placement::threads_of(variable->second);
  const bool listed = std::ranges::find(app.listed, "OMP_NUM_THREADS") != app.listed.end();
  const char* value = app.inherit == Inherit::all || (app.inherit == Inherit::listed && listed) ? getenv("OMP_NUM_THREADS") : nullptr;
  return value ? placement::threads_of(value) : 1;
}

}  // namespace

Result<topo::HardwareTopology> load_hardware(const placement::Request& request) {
  return topo::HardwareTopology::load("", request.gpus_each ? topo::Devices::included : topo::Devices::left_out);
}

std::string describe_host(const topo::HardwareTopology& hardware, const placement::Request& request,
                          const std::optional<std::string>& visible_gpus) {
  const std::string text = hardware.describe();
  auto node = topo::Node::parse(text);
  if (!node || !request.gpus_each) return text;
  node->devices = hardware.devices();
  if (hardware.is_this_machine()) node->devices = present_devices(std::move(node->devices));
  if (visible_gpus) node->devices = visible_devices(std::move(node->devices), *visible_gpus);
  return node->to_string();
}

/// A machine that is only described serves for plans, not for binding.
std::shared_ptr<const placement::Machine> this_machine(const topo::HardwareTopology& hardware, const std::string& topology,
                                                       bool plan_only) {
  auto node = topo::Node::parse(topology);
  if (!node || node->resources.empty()) return nullptr;
  placement::Machine machine{std::move(*node), {}, UINT32_MAX, hardware.kinds()};
  if (hardware.is_this_machine()) {
    machine.allowed = topo::CpuSet::of_this_thread();
    machine.quota = topo::cgroup_cpus();
  } else if (!plan_only) {
    return nullptr;
  }
  return std::make_shared<placement::Machine>(std::move(machine));
}

std::string own_name() {
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  return name;
}

Result<Arrangement> arrange(Options& options) {
  Arrangement result;
  auto hardware = load_hardware(options.request);
  if (hardware) {
    result.topology = describe_host(*hardware, options.request, wanted_gpus(options));
    result.hardware.emplace(std::move(*hardware));
  }
  const std::string own = own_name();
  auto hosts = hosts_of(options, own, result.hardware ? this_machine(*result.hardware, result.topology, options.dry_run) : nullptr);
  if (!hosts) return hosts.failure();
  placement::Request request = options.request;
  request.hosts = std::move(*hosts);
  for (const App& app : options.apps) {
    placement::Program program{options.counted ? app.ranks : 0, {}, threads_of(app), app.per_host};
    for (const std::string& host : app.hosts) program.hosts.push_back(placement::means(host, own) ? own : host);
    request.programs.push_back(std::move(program));
  }
  for (placement::Host& host : request.hosts)
    if (host.name == own && !host.machine && !host.slots) host.slots = topo::usable_cpus();
  auto placed = placement::place(request);
  if (!placed) return placed.failure();
  if (!options.counted) options.apps[0].ranks = static_cast<uint32_t>(placed->ranks.size());
  if (options.input == InputTo::one && options.input_rank && options.input_rank >= placed->ranks.size())
    return Failure{"--stdin " + std::to_string(options.input_rank) + ": the job has ranks 0 to " +
                   std::to_string(placed->ranks.size() - 1)};
  result.placement = std::move(*placed);
  for (size_t h = 0; h < request.hosts.size(); h++)
    if (request.hosts[h].name == own && !request.hosts[h].machine) result.placement.hosts[h].cpus = topo::usable_cpus();
  result.request = std::move(request);
  return result;
}

std::string show(const Options& options, const Arrangement& arrangement) {
  std::string text;
  if (options.display_map || options.dry_run) {
    std::vector<std::string> programs;
    for (const App& app : options.apps) programs.push_back(app.command[0]);
    text += placement::draw(arrangement.placement, programs);
  }
  if (options.report_bindings) text += placement::report_bindings(arrangement.placement);
  return text;
}

}  // namespace weft::launcher
