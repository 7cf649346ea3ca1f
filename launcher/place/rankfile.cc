#include "launcher/place/rankfile.h"

#include <algorithm>

#include "launcher/place/devices.h"
#include "launcher/place/hosts.h"
#include "launcher/place/machine.h"
#include "launcher/place/words.h"

namespace weft::placement {
namespace {

constexpr uint32_t kMostRanks = 1u << 24;

/// `rank 3=host slot=list`; blanks around `=` do not matter.
Result<RankLine> parse_line(std::string line, const std::string& source) {
  const Failure form{source + ": a line is: rank N=HOST slot=CORES, as in rank 0=node1 slot=0-3"};
  for (size_t i = 0; (i = line.find('=', i)) != line.npos; i += 3) line.replace(i, 1, " = ");
  const std::vector<std::string> words = split_words(line);
  if (words.size() < 4 || words[0] != "rank" || words[2] != "=") return form;
  const auto rank = parse_number(words[1], 0, kMostRanks - 1);
  if (!rank) return Failure{source + ": \"" + words[1] + "\" is no number of a rank"};
  RankLine result{*rank, words[3], {}, source};
  if (words.size() == 4) return result;
  if ((words[4] != "slot" && words[4] != "slots") || words.size() != 7 || words[5] != "=") return form;
  result.slots = words[6];
  return result;
}

class ByFile {
 public:
  explicit ByFile(const Request& request) : request_(request) {}

  Result<Placement> place() {
    for (const Host& host : request_.hosts) result_.hosts.push_back({host.name, host.machine, 0, 1, "bound by the rankfile"});
    if (auto ok = number_ranks(); !ok) return ok.failure();
    for (const RankLine* line : lines_)
      if (auto ok = seat(*line); !ok) return ok.failure();
    count();
    if (request_.gpus_each)
      for (uint32_t h = 0; h < request_.hosts.size(); ++h)
        if (auto ok = equip_host(h); !ok) return ok.failure();
    return std::move(result_);
  }

 private:
  const Request& request_;
  Placement result_;
  std::vector<const RankLine*> lines_;  ///< by rank

  Result<void> number_ranks() {
    uint64_t ranks = 0;
    for (const Program& program : request_.programs) ranks += program.ranks;
    if (request_.programs.size() == 1 && !ranks) ranks = request_.rankfile.size();
    lines_.assign(ranks, nullptr);
    for (const RankLine& line : request_.rankfile) {
      if (line.rank >= ranks)
        return Failure{line.source + ": rank " + std::to_string(line.rank) + " of a job of " + counted(ranks, "rank")};
      if (lines_[line.rank])
        return Failure{line.source + ": rank " + std::to_string(line.rank) + " stands in " + lines_[line.rank]->source + " already"};
      lines_[line.rank] = &line;
    }
    for (uint64_t r = 0; r < ranks; ++r)
      if (!lines_[r]) return Failure{"the rankfile has no line for rank " + std::to_string(r)};
    return {};
  }

  Result<uint32_t> host_of(const RankLine& line) const {
    const auto& hosts = request_.hosts;
    if (line.host.starts_with("+n")) {
      const auto number = parse_number(std::string_view(line.host).substr(2), 0, static_cast<uint32_t>(hosts.size()) - 1);
      if (!number) return Failure{line.source + ": " + line.host + " of " + counted(hosts.size(), "host")};
      return *number;
    }
    for (uint32_t h = 0; h < hosts.size(); ++h)
      if (hosts[h].name == line.host || means(line.host, hosts[h].name)) return h;
    return Failure{line.source + ": " + line.host + " is not among the hosts of the job"};
  }

  Result<void> seat(const RankLine& line) {
    auto host = host_of(line);
    if (!host) return host.failure();
    Place place;
    place.host = *host;
    place.local_rank = result_.hosts[*host].ranks++;
    place.program = program_of(static_cast<uint32_t>(result_.ranks.size()));
    const auto& machine = request_.hosts[*host].machine;
    if (!line.slots.empty() && machine && !request_.hosts[*host].assumed) {
      auto cpus = cpus_of(line, *machine);
      if (!cpus) return cpus.failure();
      place.cpus = std::move(*cpus);
    }
    result_.ranks.push_back(std::move(place));
    return {};
  }

  uint32_t program_of(uint32_t rank) const {
    uint32_t p = 0;
    for (; p + 1 < request_.programs.size() && rank >= request_.programs[p].ranks; ++p) rank -= request_.programs[p].ranks;
    return p;
  }

  Result<topo::CpuSet> cpus_of(const RankLine& line, const Machine& machine) const {
    topo::CpuSet within = usable_cpus(machine, {}), result;
    std::string list = line.slots;
    if (const size_t colon = list.find(':'); colon != list.npos) {
      const std::vector<topo::CpuSet> packages = pieces(machine, Unit::package, usable_cpus(machine, {}));
      const auto number = parse_number(list.substr(0, colon), 0, static_cast<uint32_t>(packages.size()) - 1);
      if (!number) return Failure{line.source + ": \"" + line.slots + "\": the host has " + counted(packages.size(), "package")};
      within = packages[*number];
      list.erase(0, colon + 1);
    }
    const Unit unit = request_.threads_are_cores ? Unit::hwthread : Unit::core;
    const std::vector<topo::CpuSet> cores = pieces(machine, unit, within);
    if (list == "*") return within;
    auto numbers = topo::CpuSet::parse(list);
    if (!numbers || numbers->empty())
      return Failure{line.source + ": \"" + line.slots + "\" is no list of cores; write it as 0-3,8 or 1:0-3"};
    for (const uint32_t core : numbers->cpus()) {
      if (core >= cores.size())
        return Failure{line.source + ": core " + std::to_string(core) + " of " + counted(cores.size(), "core") + " that may be used there"};
      result |= cores[core];
    }
    return result;
  }

  /// GPUs near the cores that the lines say.
  Result<void> equip_host(uint32_t h) {
    const Host& host = request_.hosts[h];
    if (!host.machine || host.assumed) return {};
    std::vector<Place*> places;
    std::vector<Seat> seats;
    for (Place& place : result_.ranks)
      if (place.host == h) {
        places.push_back(&place);
        seats.push_back({h, place.program, 0, place.cpus});
      }
    auto equipment = equip(request_, host, seats);
    if (!equipment) return equipment.failure();
    for (size_t s = 0; s < places.size(); ++s) {
      places[s]->gpus = std::move(equipment->gpus[s]);
      places[s]->nics = std::move(equipment->nics[s]);
    }
    return {};
  }

  void count() {
    for (uint32_t h = 0; h < result_.hosts.size(); ++h) {
      HostLoad& load = result_.hosts[h];
      load.cpus = std::max(1u, load.ranks);
      if (!load.machine || request_.hosts[h].assumed) continue;
      topo::CpuSet all;
      for (const Place& place : result_.ranks)
        if (place.host == h) all |= place.cpus.empty() ? usable_cpus(*load.machine, {}) : place.cpus;
      load.cpus = std::max(1u, std::min(all.count(), load.machine->quota));
    }
  }
};

}  // namespace

Result<std::vector<RankLine>> parse_rankfile(std::string_view text, const std::string& file) {
  std::vector<RankLine> lines;
  uint32_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    const std::string bare = line.substr(0, line.find('#'));
    if (split_words(bare).empty()) continue;
    auto parsed = parse_line(bare, "line " + std::to_string(number) + " of " + file);
    if (!parsed) return parsed.failure();
    lines.push_back(std::move(*parsed));
  }
  if (lines.empty()) return Failure{file + ": no rank is named in it"};
  return lines;
}

Result<std::vector<RankLine>> read_rankfile(const std::string& file) {
  auto text = read_text(file);
  if (!text) return Failure{"rankfile " + text.failure().text};
  return parse_rankfile(*text, file);
}

Result<Placement> place_by_rankfile(const Request& request) { return ByFile(request).place(); }

}  // namespace weft::placement
