#include "comm/topology/placement.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/config/config.h"
#include "runtime/topo/node.h"
#include "runtime/type/predefined.h"

namespace weft::comm {
namespace {

/// What a unit of weight costs between ranks that part at a level. Only their order and rough ratios matter: between hosts a message
/// takes an order of magnitude longer than within one, and there the longer the less cache they share; each further switch makes it longer,
/// and fewer lines lead through it.
constexpr std::array<int32_t, Place::kLevels> kDistances = {1600, 800, 400, 200, 100, 10, 8, 4, 2, 1};

config::Text network_variable(
    "", "network", "",
    "A file that tells which hosts share a switch, in lines as in Slurm's topology.conf. Where topologies are made with "
    "reorder, neighbours then come behind one switch");

std::array<int64_t, Place::kLevels> path_of(const Place& p) {
  std::array<int64_t, Place::kLevels> path = {};
  std::ranges::copy(p.switches, path.begin());
  const int64_t inside[] = {static_cast<int64_t>(p.host), p.package, p.numa, p.l3, p.l2, p.core};
  std::ranges::copy(inside, path.begin() + Place::kSwitches);
  return path;
}

}  // namespace

std::string network_file() { return network_variable.get(); }

Placement::Placement(std::span<const Place> places) : ranks_(static_cast<int32_t>(places.size())) {
  std::vector<int32_t> parent(places.size(), 0);
  int32_t parents = 1;
  for (size_t l = 0; l < kDistances.size(); ++l) {
    std::map<std::pair<int32_t, int64_t>, int32_t> numbers;
    std::vector<int32_t> group(places.size());
    for (size_t r = 0; r < places.size(); ++r)
      group[r] = numbers.try_emplace({parent[r], path_of(places[r])[l]}, static_cast<int32_t>(numbers.size())).first->second;
    const auto groups = static_cast<int32_t>(numbers.size());
    if (groups > parents) levels_.push_back({kDistances[l], group});
    parent = std::move(group);
    parents = std::max(parents, groups);
  }
}

void put_switches(Place& place, const std::vector<std::string>& nearest_first) {
  for (size_t i = 0; i < nearest_first.size(); ++i)
    place.switches[place.switches.size() - 1 - i] = std::hash<std::string>{}(nearest_first[i]);
}

Place own_place(const boot::Job& job, const std::string& network, std::string& why) {
  Place place;
  if (!network.empty()) {
    const auto read = topo::Network::read(network);
    const auto switches = read ? read->above(job.host) : read.failure();
    if (switches) {
      put_switches(place, *switches);
    } else {
      place.unknown = 1;
      why = switches.failure().text;
    }
  }
  // Two jobs may number their hosts differently, and one host may stand for several.
  place.host = std::hash<std::string>{}(job.host + "#" + std::to_string(job.node));
  const auto node = topo::Node::parse(job.topology);
  if (!node) return place;
  const topo::CpuSet bound = topo::CpuSet::of_this_thread();
  place.package = node->instance_around("Package", bound);
  place.numa = node->instance_around("NUMANode", bound);
  place.l3 = node->instance_around("L3Cache", bound);
  place.l2 = node->instance_around("L2Cache", bound);
  place.core = node->instance_around("Core", bound);
  return place;
}

int gather_places(Communicator& comm, int size, std::vector<Place>& places) {
  std::string why;
  const Place mine = own_place(comm.instance->job(), network_file(), why);
  places.resize(static_cast<size_t>(comm.size()));
  coll::Call call;
  call.what = coll::Collective::allgather;
  call.in = &mine;
  call.out = places.data();
  call.in_count = call.out_count = sizeof mine;
  call.in_type = call.out_type = &type::of(type::Basic::byte);
  if (const int error = coll::run(*comm.coll, call)) return error;
  if (mine.unknown) return fail(MPI_ERR_FILE, "WEFT_NETWORK: %s", why.c_str());
  for (size_t r = 0; r < places.size(); ++r)
    if (places[r].unknown) return fail(MPI_ERR_FILE, "WEFT_NETWORK: rank %zu could not use the file that it names", r);
  places.resize(static_cast<size_t>(size));
  return MPI_SUCCESS;
}

}  // namespace weft::comm
