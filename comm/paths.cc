#include "comm/paths.h"

#include <algorithm>
#include <compare>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "comm/gather.h"
#include "comm/measure.h"
#include "pml/paths.h"
#include "runtime/config/config.h"

namespace weft::comm {
namespace {

config::Bool report_variable("", "report_paths", "no",
                             "Say once, at the start, which ways messages take within and between hosts, and why.");

constexpr size_t kMostHosts = 32;     // to which a host names its ways
constexpr uint32_t kMostRanks = 256;  // of a job in which each rank names its ways to all others; else to one of each other host

/// What stands in a report: for each finding ("tcp eth0 ...") by kind of finding, where it holds: from which ranks of a host to which ranks
/// of which host.
enum Kind : char { within = 'w', between = 'b', unused = 'u' };
struct Where {
  std::string from, to, ranks;  // `ranks` of the host `to`, as ranges
  auto operator<=>(const Where&) const = default;
};
using Ranks = std::set<uint32_t>;
using Findings = std::map<std::pair<char, std::string>, std::map<Where, Ranks>>;

/// "0-3,8"
std::string ranges(const Ranks& ranks) {
  std::string text;
  for (auto at = ranks.begin(); at != ranks.end();) {
    const uint32_t first = *at;
    uint32_t last = first;
    while (++at != ranks.end() && *at == last + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
  }
  return text;
}

Ranks parse_ranges(const char* text, uint32_t most) {
  Ranks ranks;
  for (char* end = nullptr; *text >= '0' && *text <= '9'; text = *end == ',' ? end + 1 : end) {
    const auto first = static_cast<uint32_t>(strtoul(text, &end, 10));
    const auto last = *end == '-' ? static_cast<uint32_t>(strtoul(end + 1, &end, 10)) : first;
    for (uint32_t rank = first; rank <= last && rank < most; ++rank) ranks.insert(rank);
  }
  return ranks;
}

/// The ways from this rank.
Findings own_findings(pml::Lane& lane) {
  boot::Bootstrap& boot = lane.boot();
  const boot::Job& job = boot.job();
  std::map<std::pair<std::string, std::string>, Ranks> reached;  // by host and what is said of the ways
  std::set<std::string> hosts;
  for (uint32_t rank = 0; rank < job.size; ++rank) {
    const auto host = boot.host_of({0, rank});
    if (!host || rank == job.rank) continue;
    const bool first = hosts.insert(*host).second;
    if ((job.size > kMostRanks && !first && *host != job.host) || hosts.size() > kMostHosts) continue;
    const auto paths = lane.paths_to({0, rank});
    reached[{*host, paths ? to_text(*paths) : paths.failure().text}].insert(rank);
  }
  Findings own;
  for (auto& [way, ranks] : reached) {
    const auto& [host, what] = way;
    if (host == job.host) ranks.insert(job.rank);  // so that it is the same for all of them
    own[{host == job.host ? within : between, what}][{job.host, host, ranges(ranks)}] = {job.rank};
  }
  for (const pml::Unused& u : lane.unused()) own[{unused, u.transport + ": " + u.why}][{job.host, "", ""}] = {job.rank};
  return own;
}

/// A line each: kind, what, from which host, from which ranks, to which host, to which ranks.
std::string encode(const Findings& findings) {
  std::string lines;
  for (const auto& [what, places] : findings)
    for (const auto& [where, ranks] : places) {
      const std::string line =
          what.first + what.second + '\t' + where.from + '\t' + ranges(ranks) + '\t' + where.to + '\t' + where.ranks + '\n';
      if (lines.size() + line.size() <= kMostTold) lines += line;
    }
  return lines;
}

void merge(Findings& all, const std::string& lines, uint32_t size) {
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    std::vector<std::string> words;
    for (size_t tab; at <= end && words.size() < 5; at = tab + 1) {
      tab = std::min(lines.find('\t', at), end);
      words.push_back(lines.substr(at, tab - at));
    }
    at = end + 1;
    if (words.size() == 5 && !words[0].empty())
      all[{words[0][0], words[0].substr(1)}][{words[1], words[3], words[4]}].merge(parse_ranges(words[2].c_str(), size));
  }
}

std::string place(const Where& where, const Ranks& from) {
  const auto some = [](const std::string& ranks, const std::string& host) {
    return (ranks.find_first_of("-,") == ranks.npos ? "rank " : "ranks ") + ranks + " on " + host;
  };
  const std::string ranks = ranges(from);
  if (where.to.empty()) return where.from;
  if (where.from == where.to && ranks == where.ranks) return some(ranks, where.from);
  Ranks to = parse_ranges(where.ranks.c_str(), ~uint32_t{0});
  if (from.size() == 1) to.erase(*from.begin());
  return some(ranks, where.from) + " -> " + some(ranges(to), where.to);
}

std::string describe(const Findings& all, const boot::Job& job, const std::vector<std::string>& silent) {
  static constexpr std::pair<Kind, const char*> headings[] = {{within, "within a host"}, {between, "between hosts"}, {unused, "not used"}};
  const auto count = [](uint32_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
  std::string text = "weft: paths of " + count(job.size, "rank") + " on " + count(job.node_count, "host") + "\n";
  for (const auto& [kind, heading] : headings) {
    for (const auto& [what, where] : all) {
      if (what.first != kind) continue;
      std::vector<std::string> places;
      for (const auto& [there, from] : where) places.push_back(place(there, from));
      const bool everywhere = kind == unused && where.size() >= job.node_count;
      char head[32];
      snprintf(head, sizeof head, "weft:   %-15s", heading);
      text += head + what.second + (everywhere ? "" : "  [" + joined(places) + "]") + "\n";
    }
  }
  if (job.size == 1) text += "weft:   one rank sends to itself only\n";
  if (!silent.empty()) text += "weft:   no word from " + joined(silent) + "\n";
  return text;
}

/// Rank 0 says what all have found.
void report(pml::Lane& first, pml::Lane& lane, pml::Team& team, const std::vector<HostOf>& hosts) {
  Findings all = own_findings(first);
  const auto size = team.size();
  const auto silent = gather(first.boot().job(), lane, team, hosts,
                             {[&] { return encode(all); }, [&](const std::string& lines) { merge(all, lines, size); }});
  if (team.rank() == 0) fputs(describe(all, first.boot().job(), silent).c_str(), stderr);
}

}  // namespace

void look_at_ways(pml::Lanes& lanes, pml::Context context) {
  pml::Lane& lane = lanes.at(context);
  boot::Bootstrap& boot = lanes.first().boot();  // that of another lane speaks of its seat
  const boot::Job& job = boot.job();
  const bool reports = report_variable.get(), measures = measures_ways() && job.size > 1;
  if (!reports && !measures) return;
  const auto hosts = job.local_rank == 0 ? all_hosts(boot) : std::vector<HostOf>();
  pml::Team team(lane, context, std::make_shared<const pml::Members>(pml::Members::range(0, job.size)), job.rank);
  if (measures) measure_ways(lanes, lane, team, hosts);
  if (reports) report(lanes.first(), lane, team, hosts);
}

}  // namespace weft::comm
