#include "runtime/topo/node.h"

namespace weft::topo {
namespace {

/// Takes what comes before `end` off the front of `text`, and `end` with it.
std::string_view take(std::string_view& text, char end) {
  const size_t length = text.find(end);
  const std::string_view part = text.substr(0, length);
  text.remove_prefix(length == std::string_view::npos ? text.size() : length + 1);
  return part;
}

}  // namespace

std::optional<uint32_t> Resource::instance_around(const CpuSet& bound) const {
  if (bound.empty()) return {};
  for (size_t i = 0; i < instances.size(); ++i)
    if (instances[i].includes(bound)) return static_cast<uint32_t>(i);
  return {};
}

Result<Node> Node::parse(std::string_view text) {
  Node node;
  while (!text.empty()) {
    std::string_view line = take(text, '\n');
    Resource resource{std::string(take(line, ' ')), {}};
    while (!line.empty()) {
      auto instance = CpuSet::parse(take(line, ' '));
      if (!instance) return instance.failure();
      resource.instances.push_back(std::move(*instance));
    }
    if (resource.name.empty() || resource.instances.empty()) return Failure{"a resource without a name or without instances"};
    node.resources.push_back(std::move(resource));
  }
  return node;
}

}  // namespace weft::topo
