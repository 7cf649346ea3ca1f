#include "runtime/topo/node.h"

#include <algorithm>
#include <charconv>

namespace weft::topo {
namespace {

/// Takes what comes before `end` off the front of `text`, and `end` with it.
std::string_view take(std::string_view& text, char end) {
  const size_t length = text.find(end);
  const std::string_view part = text.substr(0, length);
  text.remove_prefix(length == std::string_view::npos ? text.size() : length + 1);
  return part;
}

const char* kind_name(Device::Kind kind) { return kind == Device::Kind::gpu ? "+gpu" : "+nic"; }

/// "kind name bus path cpus"
Result<Device> parse_device(std::string_view line) {
  const Failure wrong{"\"" + std::string(line) + "\" describes no device"};
  Device device;
  const std::string_view kind = take(line, ' ');
  if (kind != "+gpu" && kind != "+nic") return wrong;
  device.kind = kind == "+gpu" ? Device::Kind::gpu : Device::Kind::nic;
  device.name = take(line, ' ');
  const std::string_view bus = take(line, ' ');
  if (bus != "-") device.bus = bus;
  std::string_view path = take(line, ' ');
  while (!path.empty() && path != "-") {
    const std::string_view number = take(path, '.');
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size()) return wrong;
    device.path.push_back(value);
  }
  const std::string_view cpus = take(line, ' ');
  if (device.name.empty() || bus.empty() || cpus.empty() || !line.empty()) return wrong;
  if (cpus == "-") return device;
  auto near = CpuSet::parse(cpus);
  if (!near) return near.failure();
  device.near = std::move(*near);
  return device;
}

std::string text_of(const Device& device) {
  std::string path;
  for (const uint32_t step : device.path) path += (path.empty() ? "" : ".") + std::to_string(step);
  const auto known = [](const std::string& text) { return text.empty() ? "-" : text; };
  return std::string(kind_name(device.kind)) + " " + device.name + " " + known(device.bus) + " " + known(path) + " " +
         known(device.near.to_string());
}

}  // namespace

std::optional<uint32_t> Resource::instance_around(const CpuSet& bound) const {
  if (bound.empty()) return {};
  for (size_t i = 0; i < instances.size(); ++i)
    if (instances[i].includes(bound)) return static_cast<uint32_t>(i);
  return {};
}

size_t nearness(const Device& a, const Device& b) {
  const size_t most = std::min(a.path.size(), b.path.size());
  size_t common = 0;
  while (common < most && a.path[common] == b.path[common]) ++common;
  return common;
}

Result<Node> Node::parse(std::string_view text) {
  Node node;
  while (!text.empty()) {
    std::string_view line = take(text, '\n');
    if (line.starts_with('+')) {
      auto device = parse_device(line);
      if (!device) return device.failure();
      node.devices.push_back(std::move(*device));
      continue;
    }
    Resource resource{std::string(take(line, ' ')), {}};
    while (!line.empty()) {
      auto instance = CpuSet::parse(take(line, ' '));
      if (!instance) return instance.failure();
      if (instance->empty()) return Failure{"an instance of " + resource.name + " without CPUs"};
      resource.instances.push_back(std::move(*instance));
    }
    if (resource.name.empty() || resource.instances.empty()) return Failure{"a resource without a name or without instances"};
    node.resources.push_back(std::move(resource));
  }
  return node;
}

int32_t Node::instance_around(std::string_view resource, const CpuSet& bound) const {
  const auto found = std::ranges::find(resources, resource, &Resource::name);
  const auto instance = found == resources.end() ? std::nullopt : found->instance_around(bound);
  return instance ? static_cast<int32_t>(*instance) : -1;
}

std::string Node::to_string() const {
  std::string text;
  for (const Resource& resource : resources) {
    text += resource.name;
    for (const CpuSet& instance : resource.instances) text += " " + instance.to_string();
    text += "\n";
  }
  for (const Device& device : devices) text += text_of(device) + "\n";
  return text;
}

}  // namespace weft::topo
