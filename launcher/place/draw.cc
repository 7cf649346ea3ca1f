#include "launcher/place/draw.h"

#include <algorithm>

#include "launcher/place/machine.h"
#include "launcher/place/words.h"

namespace weft::placement {
namespace {

using topo::CpuSet;

constexpr uint32_t kMostDrawn = 256;

CpuSet all_cpus(const Machine& machine) {
  Machine whole = machine;
  whole.allowed = {};
  return usable_cpus(whole, {});
}

std::string draw_cores(const Machine& machine, const CpuSet& within, const CpuSet& usable, const CpuSet& bound) {
  std::string text;
  for (const CpuSet& core : pieces(machine, Unit::core, within)) {
    if (!text.empty()) text += '/';
    for (const uint32_t cpu : core.cpus()) text += bound.has(cpu) ? 'B' : usable.has(cpu) ? '.' : '~';
  }
  return text;
}

std::string where(const Machine* machine, const CpuSet& cpus) {
  if (cpus.empty()) return "not bound";
  const std::string drawn = machine ? picture(*machine, cpus) : "";
  return "CPUs " + cpus.to_string() + (drawn.empty() ? "" : "  " + drawn);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

/// "  GPUs 0,1 near mlx5_0", or nothing.
std::string devices_of(const Place& place) {
  if (place.gpus.empty()) return {};
  return (place.gpus.size() == 1 ? "  GPU " : "  GPUs ") + joined(place.gpus) + (place.nics.empty() ? "" : " near " + joined(place.nics));
}

std::string describe(const Machine& machine) {
  const CpuSet all = all_cpus(machine);
  if (all.empty()) return {};
  std::string text;
  for (const auto& [unit, word] : {std::pair{Unit::package, "package"}, {Unit::numa, "NUMA node"}, {Unit::core, "core"}})
    text += (text.empty() ? "" : ", ") + counted(pieces(machine, unit, all).size(), word);
  text += ", " + counted(all.count(), "CPU");
  if (!machine.hardware.devices.empty()) {
    const auto gpus = std::ranges::count(machine.hardware.devices, topo::Device::Kind::gpu, &topo::Device::kind);
    const auto nics = static_cast<long>(machine.hardware.devices.size()) - gpus;
    text += ", " + counted(static_cast<uint64_t>(gpus), "GPU") + ", " + counted(static_cast<uint64_t>(nics), "network interface");
  }
  if (const CpuSet usable = usable_cpus(machine, {}); !(usable == all)) text += ", to be used: " + usable.to_string();
  if (machine.quota < all.count()) text += ", limited to the time of " + std::to_string(machine.quota);
  return " (" + text + ")";
}

}  // namespace

std::string picture(const Machine& machine, const CpuSet& cpus) {
  const CpuSet all = all_cpus(machine);
  if (all.count() > kMostDrawn) return {};
  const CpuSet usable = usable_cpus(machine, {});
  std::string text;
  for (const CpuSet& package : pieces(machine, Unit::package, all)) {
    std::string nodes;
    for (const CpuSet& node : pieces(machine, Unit::numa, package))
      nodes += (nodes.empty() ? "" : "|") + draw_cores(machine, node, usable, cpus);
    text += "[" + nodes + "]";
  }
  return text;
}

std::string report_bindings(const Placement& placement) {
  std::string text;
  for (size_t r = 0; r < placement.ranks.size(); ++r) {
    const Place& place = placement.ranks[r];
    const HostLoad& host = placement.hosts[place.host];
    text += "rank " + std::to_string(r) + " on " + host.name + ": " + where(host.machine.get(), place.cpus) +
            (place.cpus.empty() && host.binding.starts_with("not bound: ") ? host.binding.substr(9) : "") + devices_of(place) + "\n";
  }
  return text;
}

std::string draw(const Placement& placement, const std::vector<std::string>& programs) {
  const auto used = std::ranges::count_if(placement.hosts, [](const HostLoad& host) { return host.ranks > 0; });
  std::string text = counted(placement.ranks.size(), "rank") + " on " + counted(static_cast<uint64_t>(used), "host") + "\n";
  std::vector<std::string> lines(placement.hosts.size());
  for (size_t r = 0; r < placement.ranks.size(); ++r) {
    const Place& place = placement.ranks[r];
    const std::string program = programs.size() > 1 ? "  " + programs[place.program] : "";
    lines[place.host] += "  rank " + std::to_string(r) + program + "  " + where(placement.hosts[place.host].machine.get(), place.cpus) +
                         devices_of(place) + "\n";
  }
  for (size_t h = 0; h < placement.hosts.size(); ++h) {
    const HostLoad& host = placement.hosts[h];
    if (!host.ranks) continue;
    text += host.name + (host.machine ? describe(*host.machine) : "") + ": " + counted(host.ranks, "rank") +
            (host.binding.empty() ? "" : ", " + host.binding) + "\n" + lines[h];
  }
  return text;
}

}  // namespace weft::placement
