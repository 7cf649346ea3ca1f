#include "coll/network.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/topo/network.h"

namespace weft::coll {
namespace {

config::Text network_setting(
    "coll", "network", "",
    "the network's switches, as lines of a file for WEFT_NETWORK, by which collectives go: mpirun sets it for all ranks, from that "
    "file; where others start the ranks, rank 0 does");

constexpr size_t kMostAbove = 2;  // levels of switches that algorithms go by: those next to hosts and those next to these

/// The switches above the hosts of these ranks, a number each for every level.
Result<std::vector<std::vector<int32_t>>> switches_above(std::span<const std::string> host_of, const topo::Network& network) {
  std::unordered_map<std::string, std::vector<std::string>> known;
  std::vector<std::vector<int32_t>> levels(kMostAbove);
  std::vector<std::unordered_map<std::string, int32_t>> numbers(kMostAbove);
  for (const std::string& host : host_of) {
    const auto [at, fresh] = known.try_emplace(host);
    if (fresh) {
      auto path = network.above(host);
      if (!path) return path.failure();
      at->second = std::move(*path);
    }
    for (size_t l = 0; l < kMostAbove; ++l) {
      const std::string name = l < at->second.size() ? at->second[l] : std::string();  // those without one are together
      levels[l].push_back(numbers[l].try_emplace(name, static_cast<int32_t>(numbers[l].size())).first->second);
    }
  }
  return levels;
}

/// Read when its text has changed: every communicator asks.
const Result<topo::Network>& network_read() {
  thread_local std::string text;
  thread_local Result<topo::Network> read = topo::Network();
  if (text != network_setting.get()) {
    text = network_setting.get();
    read = topo::Network::parse(text, "WEFT_COLL_NETWORK");
  }
  return read;
}

}  // namespace

std::unique_ptr<const Hosts> levels_of(std::span<const std::string> host_of) {
  std::unordered_map<std::string, int32_t> numbers;
  std::vector<std::vector<int32_t>> groups(1);
  for (const std::string& host : host_of)
    groups[0].push_back(numbers.try_emplace(host, static_cast<int32_t>(numbers.size())).first->second);
  if (!network_setting.get().empty() && numbers.size() > 1) {
    const auto& network = network_read();
    auto above = network ? switches_above(host_of, *network) : Result<std::vector<std::vector<int32_t>>>(network.failure());
    if (above) std::ranges::move(*above, std::back_inserter(groups));
  }
  return Hosts::of(groups);
}

std::string complaint_of_network() {
  const auto& network = network_read();
  return network ? std::string() : network.failure().text;
}

}  // namespace weft::coll
