#include "pml/paths.h"

#include <algorithm>
#include <cstdio>

#include "pml/lane.h"

namespace weft::pml {
namespace {

std::string numbers(const Path& path) {
  char text[64];
  snprintf(text, sizeof text, "%.3g us, %.3g GB/s", path.latency_us, path.gigabytes_per_second);
  return text;
}

/// The rails of one transport.
std::string kind_text(const std::vector<const Path*>& rails) {
  std::string text = rails.front()->transport;
  for (const Path* rail : rails)
    if (!rail->device.empty()) text += (rail == rails.front() ? " " : " + ") + rail->device;
  return text + " (" + (rails.size() > 1 ? std::to_string(rails.size()) + " rails, each " : std::string()) + numbers(*rails.front()) + ")";
}

}  // namespace

std::string to_text(const std::vector<Path>& paths) {
  std::string text, apart;
  std::vector<std::string> told;
  for (const Path& path : paths) {
    if (!path.reaches) {
      apart += (apart.empty() ? "; not reached over " : ", ") + path.transport + (path.device.empty() ? "" : " " + path.device);
      continue;
    }
    if (std::ranges::find(told, path.transport) != told.end()) continue;
    told.push_back(path.transport);
    std::vector<const Path*> rails;
    for (const Path& other : paths)
      if (other.reaches && other.transport == path.transport) rails.push_back(&other);
    text += (text.empty() ? "" : "; also ") + kind_text(rails);
  }
  return (text.empty() ? "no way" : text) + apart;
}

/// Looks at what is published and at the wires that are open, connects to nobody.
Result<std::vector<Path>> Lane::paths_to(ProcessId who) {
  auto addresses = addresses_of(who);
  if (!addresses) return addresses.failure();
  std::lock_guard hold(lock_);
  std::vector<Path> paths;
  for (const auto& wire : wires_) {
    const btl::Caps& caps = wire->transport->caps();
    const auto address = std::ranges::find(*addresses, wire->name, &Addresses::value_type::first);
    const bool reaches = address != addresses->end() && wire->transport->reaches(who, address->second);
    if (!reaches && (wire->self || (caps.same_node && who.job == 0 && !is_here(who.rank)))) continue;  // nobody expects it to
    const btl::Price price = reaches ? wire->transport->price(who, address->second) : btl::Price{};
    const double rate = price.beta_ns_per_byte > 0 ? 1 / price.beta_ns_per_byte : 0;
    paths.push_back({caps.name, caps.device, reaches, price.alpha_ns / 1000, rate});
  }
  return paths;
}

bool Lane::is_here(uint32_t rank) const {
  const auto& here = boot_.job().node_ranks;
  return std::binary_search(here.begin(), here.end(), rank);
}

}  // namespace weft::pml
