#include "comm/topology/placement.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "runtime/topo/node.h"
#include "runtime/type/predefined.h"

namespace weft::comm {
namespace {

/// What a unit of weight costs between ranks that part at a level. Only their order and rough ratios matter: between hosts a message
/// takes an order of magnitude longer than within one, and there the longer the less cache they share.
constexpr std::array<int32_t, Place::kLevels> kDistances = {100, 10, 8, 4, 2, 1};

std::array<int64_t, Place::kLevels> path_of(const Place& p) {
  return {static_cast<int64_t>(p.host), p.package, p.numa, p.l3, p.l2, p.core};
}

int32_t* slot_of(Place& place, std::string_view resource) {
  if (resource == "Package") return &place.package;
  if (resource == "NUMANode") return &place.numa;
  if (resource == "L3Cache") return &place.l3;
  if (resource == "L2Cache") return &place.l2;
  return resource == "Core" ? &place.core : nullptr;
}

}  // namespace

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

Place own_place(const boot::Job& job) {
  Place place;
  // Two jobs may number their hosts differently, and one host may stand for several.
  place.host = std::hash<std::string>{}(job.host + "#" + std::to_string(job.node));
  const auto node = topo::Node::parse(job.topology);
  if (!node) return place;
  const topo::CpuSet bound = topo::CpuSet::of_this_thread();
  for (const topo::Resource& resource : node->resources) {
    int32_t* const slot = slot_of(place, resource.name);
    if (const auto instance = resource.instance_around(bound); slot && instance) *slot = static_cast<int32_t>(*instance);
  }
  return place;
}

int gather_places(Communicator& comm, int size, std::vector<Place>& places) {
  const Place mine = own_place(comm.instance->job());
  places.resize(static_cast<size_t>(comm.size()));
  coll::Call call;
  call.what = coll::Collective::allgather;
  call.in = &mine;
  call.out = places.data();
  call.in_count = call.out_count = sizeof mine;
  call.in_type = call.out_type = &type::of(type::Basic::byte);
  const int error = coll::run(*comm.coll, call);
  places.resize(static_cast<size_t>(size));
  return error;
}

}  // namespace weft::comm
