#include "pml/paths.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "pml/lane.h"

namespace weft::pml {
namespace {

std::string numbers(const Path& path) {
  if (path.latency_us * 1000 >= kCarriesNothing.alpha_ns) return "carried nothing when measured";
  char text[96];
  snprintf(text, sizeof text, "%.3g us, %.3g GB/s, %s", path.latency_us, path.gigabytes_per_second,
           path.measured ? "measured" : "published");
  return text;
}

/// The rails of one transport: what they cost is said once if it is the same.
std::string kind_text(const std::vector<const Path*>& rails) {
  const std::string price = numbers(*rails.front());
  const bool alike = std::ranges::all_of(rails, [&](const Path* rail) { return numbers(*rail) == price; });
  std::string text = rails.front()->transport;
  for (const Path* rail : rails) {
    if (!rail->device.empty()) text += (rail == rails.front() ? " " : " + ") + rail->device;
    if (!alike) text += " (" + numbers(*rail) + ")";
  }
  if (!alike) return text;
  return text + " (" + (rails.size() > 1 ? std::to_string(rails.size()) + " rails, each " : std::string()) + price + ")";
}

}  // namespace

std::string to_text(const std::vector<Path>& paths) {
  std::string text, apart, large;
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
    if (path.large && told.size() > 1) large = "; large messages over " + path.transport;
  }
  return (text.empty() ? "no way" : text) + large + apart;
}

/// Looks at what is published and at the wires that are open, connects to nobody.
Result<std::vector<Path>> Lane::paths_to(ProcessId who) {
  auto addresses = addresses_of(who);
  if (!addresses) return addresses.failure();
  std::lock_guard hold(lock_);
  std::vector<Way> ways;
  std::vector<Path> paths, apart;
  for (const auto& wire : wires_) {
    const btl::Caps& caps = wire->transport->caps();
    const auto address = std::ranges::find(*addresses, wire->name, &Addresses::value_type::first);
    const bool reaches = address != addresses->end() && wire->transport->reaches(who, address->second);
    if (reaches)
      ways.push_back({wire->name, wire->number, nullptr, &caps, wire->transport->price(who, address->second)});
    else if (!wire->self && (!caps.same_node || who.job != 0 || is_here(who.rank)))  // otherwise nobody expects it to
      apart.push_back({caps.name, caps.device});
  }
  put_in_order(who, ways);
  // over what cannot be read from large messages go only as over rails, or as the small ones
  const auto large = [&](const Way& way) {
    return way.caps->get || way.caps->revives || way.wire == ways.front().wire ? way.large : std::numeric_limits<double>::max();
  };
  const auto best = std::ranges::min_element(ways, {}, large);
  for (const Way& way : ways) {
    const double beta = way.price.beta_ns_per_byte;
    paths.push_back(
        {way.caps->name, way.caps->device, true, way.price.alpha_ns / 1000, beta > 0 ? 1 / beta : 0, way.measured, way.wire == best->wire});
  }
  paths.insert(paths.end(), apart.begin(), apart.end());
  return paths;
}

bool Lane::is_here(uint32_t rank) const {
  const auto& here = boot_.job().node_ranks;
  return std::binary_search(here.begin(), here.end(), rank);
}

}  // namespace weft::pml
