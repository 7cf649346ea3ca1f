#include "comm/gather.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "runtime/type/predefined.h"

namespace weft::comm {
namespace {

constexpr int kTag = 1;
constexpr uint64_t kPatience_ns = 4'000'000'000;

pml::Buffer bytes(const std::string& text) { return {const_cast<char*>(text.data()), text.size(), &type::of(type::Basic::byte)}; }

/// Hears others, so long that they can have heard others before. Names those that say nothing.
std::vector<std::string> hear(pml::Lane& lane, pml::Team& team, const std::vector<HostOf>& others, uint64_t patience,
                              const Knowledge& knowledge) {
  struct Awaited {
    pml::Request* request;
    std::string text;
  };
  std::vector<Awaited> awaited(others.size());
  for (size_t i = 0; i < others.size(); ++i) {
    awaited[i].text.resize(kMostTold);
    awaited[i].request = lane.ireceive(team, static_cast<int>(others[i].rank), kTag, pml::Traffic::user, bytes(awaited[i].text));
  }
  const auto complete = [](void* list) {
    return std::ranges::all_of(*static_cast<std::vector<Awaited>*>(list), [](const Awaited& a) { return a.request->complete.load(); });
  };
  lane.wait_for(complete, &awaited, patience);
  std::vector<std::string> silent;
  for (size_t i = 0; i < others.size(); ++i) {
    pml::Request& request = *awaited[i].request;
    if (!request.complete.load()) lane.cancel(request);
    lane.wait(request);
    if (request.outcome.cancelled || request.outcome.error)
      silent.push_back(others[i].name);
    else
      knowledge.add(awaited[i].text.substr(0, request.outcome.bytes));
    release(&request);
  }
  return silent;
}

/// To a rank, if it listens.
void tell(pml::Lane& lane, pml::Team& team, uint32_t rank, const std::string& text) {
  pml::Request* request = lane.isend(team, static_cast<int>(rank), kTag, pml::Traffic::user, bytes(text));
  const auto complete = [](void* r) { return static_cast<pml::Request*>(r)->complete.load(); };
  if (lane.wait_for(complete, request, kPatience_ns) != Status::ok) lane.cancel(*request);
  lane.wait(*request);
  release(request);
}

}  // namespace

std::vector<HostOf> all_hosts(boot::Bootstrap& boot) {
  const boot::Job& job = boot.job();
  std::vector<HostOf> list;
  std::set<std::string> seen;
  for (uint32_t rank = 0; rank < job.size; ++rank) {
    auto host = boot.host_of({0, rank});
    if (host && seen.insert(*host).second) list.push_back({*host, rank});
  }
  return list;
}

std::vector<std::string> gather(const boot::Job& job, pml::Lane& lane, pml::Team& team, const std::vector<HostOf>& hosts,
                                const Knowledge& knowledge) {
  const auto none = std::vector<std::string>();
  if (job.local_rank != 0) return tell(lane, team, job.node_ranks[0], knowledge.tell()), none;
  std::vector<HostOf> here;
  for (size_t i = 1; i < job.node_ranks.size(); ++i) here.push_back({"rank " + std::to_string(job.node_ranks[i]), job.node_ranks[i]});
  std::vector<std::string> silent = hear(lane, team, here, kPatience_ns, knowledge);
  if (job.rank != 0) return tell(lane, team, 0, knowledge.tell()), none;
  const auto mute = hear(lane, team, {hosts.begin() + 1, hosts.end()}, 2 * kPatience_ns, knowledge);
  silent.insert(silent.end(), mute.begin(), mute.end());
  return silent;
}

std::string joined(const std::vector<std::string>& words) {
  constexpr size_t most = 8;
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), most); ++i) text += (i ? ", " : "") + words[i];
  return words.size() > most ? text + " and " + std::to_string(words.size() - most) + " more" : text;
}

}  // namespace weft::comm
