#include "launcher/place_spawned.h"

#include <algorithm>
#include <string>

#include "launcher/place/hosts.h"
#include "launcher/place/policy.h"

namespace weft::launcher {
namespace {

struct Candidate {
  placement::Host host;
  uint32_t number, load;  // in the layout; ranks there
};

std::vector<Candidate> candidates(const placement::Request& job, const Layout& layout) {
  std::vector<uint32_t> load(layout.hosts.size());
  for (uint32_t host : layout.host_of) load[host]++;
  std::vector<Candidate> result;
  for (uint32_t n = 0; n < layout.hosts.size(); n++) {
    if (!load[n] && n == layout.self) continue;
    placement::Host host;
    host.name = layout.hosts[n];
    for (const placement::Host& known : job.hosts)
      if (known.name == host.name) host = known;
    result.push_back({std::move(host), n, load[n]});
  }
  std::stable_sort(result.begin(), result.end(), [](const Candidate& a, const Candidate& b) {
    return uint64_t{a.load} * std::max(1u, b.host.slots) < uint64_t{b.load} * std::max(1u, a.host.slots);
  });
  return result;
}

std::string names_of(const std::vector<Candidate>& hosts) {
  std::string names;
  for (const Candidate& c : hosts) names += (names.empty() ? "" : ", ") + c.host.name;
  return names;
}

}  // namespace

Result<std::vector<uint32_t>> place_spawned(const SpawnWish& wish, const placement::Request& job, const Layout& layout) {
  const std::vector<Candidate> hosts = candidates(job, layout);
  placement::Request request;
  request.threads_are_cores = job.threads_are_cores;
  if (!wish.map_by.empty())
    if (auto ok = placement::read_map_by(wish.map_by, request); !ok) return ok.failure();
  request.oversubscribe = true;
  request.never_oversubscribe = false;
  request.bind_to = placement::Unit::node;
  for (const Candidate& candidate : hosts) request.hosts.push_back(candidate.host);
  for (placement::Host& host : request.hosts) host.most = 0;
  for (const App& app : wish.apps) {
    placement::Program program;
    program.ranks = app.ranks;
    for (const std::string& name : app.hosts) {
      const bool here = placement::means(name, {});  // "localhost" is mpirun's host, whoever says it
      const auto known = std::find_if(hosts.begin(), hosts.end(), [&](const Candidate& c) {
        return here ? c.number == layout.self : placement::means(name, c.host.name);
      });
      if (known == hosts.end()) return Failure{name + " is none of the job's hosts (" + names_of(hosts) + ")"};
      program.hosts.push_back(known->host.name);
    }
    request.programs.push_back(std::move(program));
  }
  auto placed = placement::place(request);
  if (!placed) return placed.failure();
  std::vector<uint32_t> result;
  for (const placement::Place& place : placed->ranks) result.push_back(hosts[place.host].number);
  return result;
}

}  // namespace weft::launcher
