#include "launcher/place/machine.h"

#include <algorithm>

namespace weft::placement {
namespace {

using topo::CpuSet;

const topo::Resource* find(const Machine& machine, Unit unit) {
  static constexpr const char* names[] = {"", "", "Package", "NUMANode", "L3Cache", "L2Cache", "Core", "PU"};
  for (const topo::Resource& resource : machine.hardware.resources)
    if (resource.name == names[static_cast<size_t>(unit)]) return &resource;
  return nullptr;
}

CpuSet common(CpuSet a, const CpuSet& b) { return a &= b; }

size_t kind_of(const Machine& machine, const CpuSet& core) {
  for (size_t k = 0; k < machine.kinds.size(); ++k)
    if (!common(core, machine.kinds[k]).empty()) return k;
  return machine.kinds.size();
}

/// The instances of one resource in `within`, and as the last what none of them covers.
std::vector<CpuSet> cut(const topo::Resource& resource, const CpuSet& within) {
  std::vector<CpuSet> parts;
  CpuSet rest = within;
  for (const CpuSet& instance : resource.instances) {
    CpuSet part = common(instance, rest);
    if (part.empty()) continue;
    rest -= part;
    parts.push_back(std::move(part));
  }
  if (!rest.empty()) parts.push_back(std::move(rest));
  return parts;
}

CpuSet join(const std::vector<CpuSet>& parts, size_t from, size_t to) {
  CpuSet all;
  for (size_t i = from; i < to; ++i) all |= parts[i];
  return all;
}

/// `count` runs of neighbours.
std::vector<CpuSet> runs(const std::vector<CpuSet>& parts, uint32_t count) {
  std::vector<CpuSet> result;
  for (size_t i = 0; i < count; ++i) result.push_back(join(parts, i * parts.size() / count, (i + 1) * parts.size() / count));
  return result;
}

struct Cutter {
  const Machine& machine;
  Unit unit;

  void split(const CpuSet& within, size_t level, uint32_t count, std::vector<CpuSet>& result) const {
    const auto& resources = machine.hardware.resources;  // from the largest to the smallest
    if (count == 1) return result.push_back(within);
    if (level == resources.size() || resources[level].name == "Core" || resources[level].name == "PU")
      return append(runs(pieces(machine, unit, within), count), result);
    const std::vector<CpuSet> parts = cut(resources[level], within);
    if (count < parts.size()) return append(runs(parts, count), result);
    const uint64_t total = pieces(machine, unit, within).size();
    uint64_t before = 0;
    for (const CpuSet& part : parts) {
      const uint64_t after = before + pieces(machine, unit, part).size();
      const auto here = static_cast<uint32_t>(after * count / total - before * count / total);
      if (here) split(part, level + 1, here, result);
      before = after;
    }
  }

  static void append(std::vector<CpuSet> more, std::vector<CpuSet>& result) {
    for (CpuSet& set : more) result.push_back(std::move(set));
  }
};

}  // namespace

const char* to_string(Unit unit) {
  static constexpr const char* names[] = {"slot", "node", "package", "numa", "l3cache", "l2cache", "core", "hwthread"};
  return names[static_cast<size_t>(unit)];
}

CpuSet usable_cpus(const Machine& machine, const CpuSet& cpu_set) {
  CpuSet all;
  for (const topo::Resource& resource : machine.hardware.resources)
    for (const CpuSet& instance : resource.instances) all |= instance;
  if (!machine.allowed.empty()) all &= machine.allowed;
  if (!cpu_set.empty()) all &= cpu_set;
  return all;
}

std::vector<CpuSet> pieces(const Machine& machine, Unit unit, const CpuSet& within) {
  if (within.empty()) return {};
  if (unit == Unit::slot || unit == Unit::node) return {within};
  const topo::Resource* resource = find(machine, unit);
  if (!resource && unit == Unit::core) resource = find(machine, Unit::hwthread);
  if (!resource && (unit == Unit::package || unit == Unit::numa)) return {within};
  std::vector<CpuSet> result;
  if (!resource) return result;
  for (const CpuSet& instance : resource->instances) {
    CpuSet piece = common(instance, within);
    if (!piece.empty() && (unit >= Unit::core || std::ranges::find(result, piece) == result.end())) result.push_back(std::move(piece));
  }
  if (unit >= Unit::core && !machine.kinds.empty())
    std::ranges::stable_sort(result, {}, [&](const CpuSet& piece) { return kind_of(machine, piece); });
  return result;
}

std::vector<CpuSet> shares(const Machine& machine, Unit unit, const CpuSet& within, uint32_t count) {
  std::vector<CpuSet> result;
  Cutter{machine, unit}.split(within, 0, count, result);
  return result;
}

std::vector<CpuSet> even_shares(const Machine& machine, Unit unit, const CpuSet& within, uint32_t count) {
  return runs(pieces(machine, unit, within), count);
}

}  // namespace weft::placement
