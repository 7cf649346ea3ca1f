#include "comm/paths.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "comm/measure.h"
#include "pml/paths.h"
#include "runtime/config/config.h"
#include "runtime/type/predefined.h"

namespace weft::comm {
namespace {

config::Bool report_variable("", "report_paths", "no",
                             "Say once, at the start, which ways messages take within and between hosts, and why.");

config::Bool measure_variable("net", "measure", "no", "With WEFT_REPORT_PATHS: measure the ways that are named, at the start.");

constexpr int kTag = 1;
constexpr size_t kMostHosts = 32;       // to which a host names its ways
constexpr size_t kMostText = 12 << 10;  // of one host: sent at once, whoever listens
constexpr uint64_t kPatience_ns = 5'000'000'000;

/// Another host, by one of its ranks.
struct Neighbour {
  std::string host;
  uint32_t rank;
};

std::vector<Neighbour> neighbours(boot::Bootstrap& boot) {
  const boot::Job& job = boot.job();
  std::vector<Neighbour> list;
  std::set<std::string> seen;
  for (uint32_t rank = 0; rank < job.size; ++rank) {
    if (std::binary_search(job.node_ranks.begin(), job.node_ranks.end(), rank)) continue;
    auto host = boot.host_of({0, rank});
    if (host && seen.insert(*host).second) list.push_back({*host, rank});
  }
  return list;
}

/// What stands in a report: for each finding ("tcp eth0 ...") where it holds ("a -> b"), by kind of finding.
enum Kind : char { within = 'w', between = 'b', measured = 'm', unused = 'u' };
using Findings = std::map<std::pair<char, std::string>, std::vector<std::string>>;

void add(std::string& lines, Kind kind, const std::string& what, const std::string& where) {
  lines += std::string(1, kind) + what + '\t' + where + '\n';
}

/// The ways from this host, a line each: kind, what, tab, where.
std::string own_lines(pml::Lane& lane, const std::vector<Neighbour>& others) {
  const boot::Job& job = lane.boot().job();
  std::string lines;
  auto way_to = [&](uint32_t rank) {
    auto paths = lane.paths_to({0, rank});
    return paths ? to_text(*paths) : paths.failure().text;
  };
  if (job.node_ranks.size() > 1) add(lines, within, way_to(job.node_ranks[job.node_ranks[0] == job.rank ? 1 : 0]), job.host);
  for (size_t i = 0; i < std::min(others.size(), kMostHosts); ++i)
    add(lines, between, way_to(others[i].rank), job.host + " -> " + others[i].host);
  for (const pml::Unused& u : lane.unused()) add(lines, unused, u.transport + ": " + u.why, job.host);
  return lines;
}

void add_speed(std::string& lines, const std::optional<Speed>& speed, const std::string& where) {
  char text[64] = "no answer";
  if (speed) snprintf(text, sizeof text, "%.3g us, %.3g GB/s", speed->latency_us, speed->gigabytes_per_second);
  add(lines, measured, text, where);
}

/// A line of this host's first two ranks, and on rank 0 one of each other host. The others take part.
std::string measured_lines(pml::Lane& lane, pml::Team& team, const std::vector<Neighbour>& others) {
  const boot::Job& job = lane.boot().job();
  std::string lines;
  if (job.local_rank == 1) {
    be_measured(lane, team, static_cast<int>(job.node_ranks[0]));
    return lines;
  }
  if (job.node_ranks.size() > 1) add_speed(lines, measure(lane, team, static_cast<int>(job.node_ranks[1])), "within " + job.host);
  if (job.rank != 0) {
    be_measured(lane, team, 0);
    return lines;
  }
  for (size_t i = 0; i < std::min(others.size(), kMostHosts); ++i)
    add_speed(lines, measure(lane, team, static_cast<int>(others[i].rank)), job.host + " -> " + others[i].host);
  return lines;
}

void merge(Findings& all, const std::string& lines) {
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    const size_t tab = lines.find('\t', at);
    if (tab < end) all[{lines[at], lines.substr(at + 1, tab - at - 1)}].push_back(lines.substr(tab + 1, end - tab - 1));
    at = end + 1;
  }
}

std::string joined(const std::vector<std::string>& words) {
  constexpr size_t most = 8;
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), most); ++i) text += (i ? ", " : "") + words[i];
  return words.size() > most ? text + " and " + std::to_string(words.size() - most) + " more" : text;
}

/// What holds everywhere is said without a list of where.
std::string describe(const Findings& all, const boot::Job& job, const std::vector<std::string>& silent) {
  static constexpr std::pair<Kind, const char*> headings[] = {
      {within, "within a host"}, {between, "between hosts"}, {measured, "measured"}, {unused, "not used"}};
  const auto count = [](uint32_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
  std::string text = "weft: paths of " + count(job.size, "rank") + " on " + count(job.node_count, "host") + " (numbers are estimates" +
                     (measure_variable.get() ? ", but for those measured)\n" : ")\n");
  for (const auto& [kind, heading] : headings) {
    const auto rows = std::ranges::count_if(all, [&, k = kind](const auto& row) { return row.first.first == k; });
    for (const auto& [what, where] : all) {
      if (what.first != kind) continue;
      const bool everywhere = kind == unused ? where.size() >= job.node_count : rows == 1 && kind != measured;
      char head[32];
      snprintf(head, sizeof head, "weft:   %-15s", heading);
      text += head + what.second + (everywhere ? "" : "  [" + joined(where) + "]") + "\n";
    }
  }
  if (job.size == 1) text += "weft:   one rank sends to itself only\n";
  if (!silent.empty()) text += "weft:   no word from " + joined(silent) + "\n";
  return text;
}

pml::Buffer bytes(const std::string& text) { return {const_cast<char*>(text.data()), text.size(), &type::of(type::Basic::byte)}; }

/// Rank 0 hears the others.
void gather(pml::Lane& lane, pml::Team& team, const std::vector<Neighbour>& others, Findings& all, std::vector<std::string>& silent) {
  struct Awaited {
    pml::Request* request;
    std::string text;
  };
  std::vector<Awaited> awaited(others.size());
  for (size_t i = 0; i < others.size(); ++i) {
    awaited[i].text.resize(kMostText);
    awaited[i].request = lane.ireceive(team, static_cast<int>(others[i].rank), kTag, pml::Traffic::user, bytes(awaited[i].text));
  }
  const auto complete = [](void* list) {
    return std::ranges::all_of(*static_cast<std::vector<Awaited>*>(list), [](const Awaited& a) { return a.request->complete.load(); });
  };
  lane.wait_for(complete, &awaited, kPatience_ns);
  for (size_t i = 0; i < others.size(); ++i) {
    pml::Request& request = *awaited[i].request;
    if (!request.complete.load()) lane.cancel(request);
    lane.wait(request);
    if (request.outcome.cancelled || request.outcome.error)
      silent.push_back(others[i].host);
    else
      merge(all, awaited[i].text.substr(0, request.outcome.bytes));
    release(&request);
  }
}

/// To rank 0, if it listens.
void tell(pml::Lane& lane, pml::Team& team, const std::string& text) {
  pml::Request* request = lane.isend(team, 0, kTag, pml::Traffic::user, bytes(text));
  const auto complete = [](void* r) { return static_cast<pml::Request*>(r)->complete.load(); };
  if (lane.wait_for(complete, request, kPatience_ns) != Status::ok) lane.cancel(*request);
  lane.wait(*request);
  release(request);
}

}  // namespace

void report_paths(pml::Lane& lane, pml::Context context) {
  const boot::Job& job = lane.boot().job();
  const bool measures = measure_variable.get();
  if (!report_variable.get() || job.local_rank > (measures ? 1 : 0)) return;
  const auto others = neighbours(lane.boot());
  pml::Team team(lane, context, std::make_shared<const pml::Members>(pml::Members::range(0, job.size)), job.rank);
  const std::string speeds = measures ? measured_lines(lane, team, others) : "";
  if (job.local_rank != 0) return;
  const std::string mine = own_lines(lane, others) + speeds;
  if (job.rank != 0) return tell(lane, team, mine.substr(0, kMostText));
  Findings all;
  std::vector<std::string> silent;
  merge(all, mine);
  gather(lane, team, others, all, silent);
  fputs(describe(all, job, silent).c_str(), stderr);
}

}  // namespace weft::comm
