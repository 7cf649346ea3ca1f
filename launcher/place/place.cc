#include "launcher/place/place.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "launcher/place/bind.h"
#include "launcher/place/machine.h"
#include "launcher/place/map.h"
#include "launcher/place/rankfile.h"

namespace weft::placement {
namespace {

using Key = std::pair<uint32_t, uint32_t>;  // host, number of a piece

/// A seat and the CPUs that it was bound to.
struct Chair {
  Seat seat;
  topo::CpuSet cpus = {};
  std::vector<std::string> gpus = {}, nics = {};
};

/// The piece of `unit` that a rank runs on: the one of its first CPU.
uint32_t piece_of(const Request& request, const Chair& chair, Unit unit) {
  const Host& host = request.hosts[chair.seat.host];
  const topo::CpuSet& where = chair.cpus.empty() ? chair.seat.within : chair.cpus;
  if (!host.machine || where.empty() || unit == Unit::node) return 0;
  topo::CpuSet first;
  first.add(where.cpus().front());
  const auto all = pieces(*host.machine, unit, usable_cpus(*host.machine, request.cpu_set));
  for (uint32_t i = 0; i < all.size(); ++i)
    if (all[i].includes(first)) return i;
  return 0;
}

Key key_of(const Request& request, const Chair& chair) {
  if (request.rank_unit != Unit::slot) return {chair.seat.host, piece_of(request, chair, request.rank_unit)};
  return {chair.seat.host, chair.seat.piece};
}

/// Numbers the ranks of one program: the order of its chairs becomes that of its ranks.
void order(const Request& request, std::vector<Chair>::iterator from, std::vector<Chair>::iterator to) {
  if (request.rank_by == RankBy::slot) return;
  std::vector<std::pair<Key, uint32_t>> keys;  // and how many came before with the same key
  std::map<Key, uint32_t> before;
  for (auto chair = from; chair != to; ++chair) {
    const Key key = key_of(request, *chair);
    keys.emplace_back(key, before[key]++);
  }
  std::vector<uint32_t> index(keys.size());
  std::iota(index.begin(), index.end(), 0u);
  const bool fill = request.rank_by == RankBy::fill;
  std::ranges::stable_sort(index, [&](uint32_t a, uint32_t b) {
    if (fill || keys[a].second == keys[b].second) return keys[a].first < keys[b].first;
    return keys[a].second < keys[b].second;
  });
  std::vector<Chair> ordered;
  for (const uint32_t i : index) ordered.push_back(std::move(from[i]));
  std::ranges::move(ordered, from);
}

Result<void> bind_all(const Request& request, std::vector<Chair>& chairs, Placement& placement) {
  std::vector<std::vector<uint32_t>> of_host(request.hosts.size());
  for (uint32_t i = 0; i < chairs.size(); ++i) of_host[chairs[i].seat.host].push_back(i);
  for (uint32_t h = 0; h < request.hosts.size(); ++h) {
    const Host& host = request.hosts[h];
    HostLoad load{host.name, host.machine, static_cast<uint32_t>(of_host[h].size()), 1, {}};
    if (load.ranks) {
      std::vector<Seat> seats;
      for (const uint32_t i : of_host[h]) seats.push_back(chairs[i].seat);
      auto bound = bind(request, host, seats);
      if (!bound) return bound.failure();
      for (uint32_t i = 0; i < of_host[h].size(); ++i) {
        Chair& chair = chairs[of_host[h][i]];
        chair.cpus = std::move(bound->cpus[i]);
        if (bound->gpus.empty()) continue;
        chair.gpus = std::move(bound->gpus[i]);
        chair.nics = std::move(bound->nics[i]);
      }
      load.cpus = bound->at_one_time;
      load.binding = std::move(bound->why);
    }
    placement.hosts.push_back(std::move(load));
  }
  return {};
}

/// The lines of a rankfile for these ranks, which are numbered from 0 here.
Result<std::vector<RankLine>> lines_for(const Request& request, const std::vector<std::vector<uint32_t>>& ranks) {
  std::vector<RankLine> lines;
  if (request.rankfile.empty()) return lines;
  for (const auto& of_program : ranks)
    for (const uint32_t rank : of_program) {
      const auto line = std::ranges::find(request.rankfile, rank, &RankLine::rank);
      if (line == request.rankfile.end()) return Failure{"the rankfile has no line for rank " + std::to_string(rank)};
      lines.push_back({static_cast<uint32_t>(lines.size()), "+n0", line->slots, line->source});
    }
  return lines;
}

}  // namespace

Result<Placement> place_here(const Request& request, const Host& here, const std::vector<std::vector<uint32_t>>& ranks) {
  Request own = request;
  own.hosts = {here};
  own.hosts[0].slots = own.hosts[0].most = 0;  // how many come here is settled
  own.hosts[0].firm = own.hosts[0].assumed = own.never_oversubscribe = false;
  own.programs.clear();
  std::vector<uint32_t> number;  // of each program in the request
  for (uint32_t p = 0; p < ranks.size(); ++p) {
    if (ranks[p].empty()) continue;
    own.programs.push_back({static_cast<uint32_t>(ranks[p].size()), {}, request.programs[p].threads});
    number.push_back(p);
  }
  auto lines = lines_for(request, ranks);
  if (!lines) return lines.failure();
  own.rankfile = std::move(*lines);
  auto placed = place(own);
  if (placed)
    for (Place& place : placed->ranks) place.program = number[place.program];
  return placed;
}

Result<Placement> place(const Request& request) {
  if (!request.rankfile.empty()) return place_by_rankfile(request);
  auto seats = deal(request);
  if (!seats) return seats.failure();
  std::vector<Chair> chairs;
  for (Seat& seat : *seats) chairs.push_back({std::move(seat)});
  Placement placement;
  if (auto ok = bind_all(request, chairs, placement); !ok) return ok.failure();
  for (auto from = chairs.begin(); from != chairs.end();) {
    const auto to = std::find_if(from, chairs.end(), [&](const Chair& chair) { return chair.seat.program != from->seat.program; });
    order(request, from, to);
    from = to;
  }
  std::vector<uint32_t> local(request.hosts.size(), 0);
  for (Chair& chair : chairs)
    placement.ranks.push_back({chair.seat.host, local[chair.seat.host]++, chair.seat.program, std::move(chair.cpus), std::move(chair.gpus),
                               std::move(chair.nics)});
  return placement;
}

}  // namespace weft::placement
