#include "launcher/place/map.h"

#include <algorithm>

#include "launcher/place/devices.h"
#include "launcher/place/hosts.h"
#include "launcher/place/machine.h"
#include "launcher/place/words.h"

namespace weft::placement {
namespace {

/// A host while ranks are dealt to it.
struct Table {
  const Host* host;
  std::vector<topo::CpuSet> pieces;    ///< that ranks are dealt to in turn; empty: the host as a whole
  std::vector<uint32_t> sizes, taken;  ///< of each piece: its cores, and those that ranks have
  uint32_t slots = 1;
  uint32_t used = 0;           ///< ranks of all programs
  uint32_t used_here = 0;      ///< ranks of the program that is being dealt
  uint32_t turn = 0;           ///< the piece whose turn it is
  uint32_t round = 1;          ///< ranks before the next host's turn
  uint32_t most = UINT32_MAX;  ///< of the program that is being dealt

  uint32_t room() const { return most > used_here ? most - used_here : 0; }
};

/// Ranks are dealt to these pieces in turn; by core and thread they simply follow one another, as by slot.
bool deals_pieces(const Request& request) {
  if (request.per_unit) return true;
  return request.map_by && *request.map_by >= Unit::package && *request.map_by <= Unit::l2cache;
}

class Dealer {
 public:
  explicit Dealer(const Request& request) : request_(request) {}

  Result<std::vector<Seat>> deal() {
    for (const Host& host : request_.hosts)
      if (auto ok = lay(host); !ok) return ok.failure();
    if (tables_.empty()) return Failure{"no hosts to run on"};
    if (request_.in_sequence) return in_sequence();
    for (uint32_t p = 0; p < request_.programs.size(); ++p)
      if (auto ok = deal_program(p); !ok) return ok.failure();
    return std::move(seats_);
  }

 private:
  const Request& request_;
  std::vector<Table> tables_;
  std::vector<Seat> seats_;

  /// A rank for each name of the sequence.
  Result<std::vector<Seat>> in_sequence() {
    const size_t named = request_.sequence.size();
    if (!named) return Failure{"--map-by seq needs a hostfile or -H: a rank goes to each host that is named there, line by line"};
    uint64_t ranks = 0;
    for (const Program& program : request_.programs) ranks += program.ranks;
    if (ranks > named)
      return Failure{"--map-by seq: " + counted(ranks, "rank") + ", but hosts for " + std::to_string(named) +
                     " are named; name more, or start fewer"};
    if (!ranks && request_.programs.size() > 1) return Failure{"--map-by seq with several programs: say with -n how many ranks each has"};
    size_t next = 0;
    for (uint32_t p = 0; p < request_.programs.size(); ++p)
      for (uint32_t i = 0; i < (ranks ? request_.programs[p].ranks : named); ++i, ++next) {
        const auto table = std::ranges::find_if(tables_, [&](const Table& t) {
          return t.host->name == request_.sequence[next] || means(request_.sequence[next], t.host->name);
        });
        if (table == tables_.end()) return Failure{"--map-by seq: " + request_.sequence[next] + " is not among the hosts"};
        sit(*table, p);
      }
    return std::move(seats_);
  }

  Result<void> lay(const Host& host) {
    Table table{&host, {}, {}, {}};
    uint32_t each = 1;
    for (const Program& program : request_.programs) each = std::max(each, cores_of(request_, program));
    if (host.machine) {
      const topo::CpuSet usable = usable_cpus(*host.machine, request_.cpu_set);
      if (usable.empty())
        return Failure{"--cpu-set " + request_.cpu_set.to_string() + ": ranks on " + host.name + " may use CPUs " +
                       usable_cpus(*host.machine, {}).to_string()};
      const auto cores = static_cast<uint32_t>(pieces(*host.machine, core_unit(request_), usable).size());
      table.slots = std::max(1u, std::min(cores, host.machine->quota) / each);
      if (request_.gpus_each && !host.assumed) table.slots = std::max(1u, gpus_of(*host.machine) / request_.gpus_each);
      if (auto ok = lay_pieces(table, usable); !ok) return ok;
    } else if (deals_pieces(request_)) {
      return Failure{"the hardware of " + host.name + " is not known: map by slot or node"};
    }
    if (host.slots) table.slots = host.slots;
    if (host.most) table.slots = std::min(table.slots, host.most);
    if (request_.per_unit) table.slots = request_.per_unit * static_cast<uint32_t>(table.pieces.size());
    tables_.push_back(std::move(table));
    return {};
  }

  Result<void> lay_pieces(Table& table, const topo::CpuSet& usable) {
    if (!deals_pieces(request_)) return {};
    const Unit unit = request_.map_by.value_or(Unit::node);
    const Machine& machine = *table.host->machine;
    table.pieces = pieces(machine, unit, usable);
    if (table.pieces.empty()) {
      std::string there;
      for (const topo::Resource& resource : machine.hardware.resources) there += (there.empty() ? "" : ", ") + resource.name;
      return Failure{std::string("--map-by ") + to_string(unit) + ": " + table.host->name + " has none (it has: " + there + ")"};
    }
    for (const topo::CpuSet& piece : table.pieces)
      table.sizes.push_back(static_cast<uint32_t>(pieces(machine, core_unit(request_), piece).size()));
    table.taken.assign(table.pieces.size(), 0);
    const uint32_t largest = *std::ranges::max_element(table.sizes);
    if (request_.cores_each > largest)
      return Failure{"PE=" + std::to_string(request_.cores_each) + ": a " + to_string(unit) + " of " + table.host->name +
                     " has no more than " + counted(largest, to_string(core_unit(request_))) +
                     "; map by something larger, or ask for fewer"};
    return {};
  }

  /// Sets what this program may have of each host; those that it may use.
  Result<std::vector<Table*>> open(const Program& program) {
    std::vector<Table*> open;
    for (Table& table : tables_) {
      table.used_here = 0;
      const bool wanted = program.hosts.empty() || std::ranges::any_of(program.hosts, [&](const std::string& name) {
                            return name == table.host->name || means(name, table.host->name);
                          });
      if (!wanted) continue;
      const bool limited = (table.host->firm && !request_.oversubscribe) || request_.never_oversubscribe;
      uint32_t most = table.host->most ? table.host->most : UINT32_MAX;
      if (limited) most = std::min(most, table.slots);
      if (request_.per_unit) most = std::min(most, table.slots);
      table.most = most > table.used ? most - table.used : 0;
      if (program.per_host) table.most = std::min(table.most, program.per_host);
      table.round = program.per_host ? program.per_host : table.slots;
      open.push_back(&table);
    }
    if (open.empty()) return Failure{"-H " + program.hosts.front() + ": not among the hosts of the hostfile"};
    return open;
  }

  Result<void> deal_program(uint32_t p) {
    const Program& program = request_.programs[p];
    auto tables = open(program);
    if (!tables) return tables.failure();
    uint64_t wanted = program.ranks;
    if (!wanted)
      for (const Table* table : *tables) wanted += std::min(table->room(), program.per_host ? program.per_host : free_slots(*table));
    if (!wanted) wanted = 1;
    uint64_t room = 0;
    for (const Table* table : *tables) room += table->room();
    if (wanted > room) return too_many(program, wanted, room, *tables);
    const bool by_node = request_.map_by == Unit::node && !request_.per_unit;
    for (bool first = true; wanted; first = false) {
      for (Table* table : *tables) {
        uint32_t turn = std::min(table->round, table->room());
        if (first && !program.per_host) turn = std::min(turn, free_slots(*table));
        if (by_node) turn = std::min(turn, 1u);
        const auto now = static_cast<uint32_t>(std::min<uint64_t>(turn, wanted));
        for (uint32_t i = 0; i < now; ++i) sit(*table, p);
        wanted -= now;
      }
      if (by_node && first && wanted) deal_nodes(p, *tables, wanted);
    }
    return {};
  }

  static uint32_t free_slots(const Table& table) { return table.slots > table.used ? table.slots - table.used : 0; }

  /// One rank a host in turn, as long as there are free slots.
  void deal_nodes(uint32_t p, const std::vector<Table*>& tables, uint64_t& wanted) {
    for (bool again = true; again && wanted;) {
      again = false;
      for (Table* table : tables) {
        const bool free = table->room() && (request_.programs[p].per_host ? table->used_here < table->round : table->used < table->slots);
        if (!free || !wanted) continue;
        sit(*table, p);
        --wanted;
        again = true;
      }
    }
  }

  void sit(Table& table, uint32_t p) {
    Seat seat{static_cast<uint32_t>(&table - tables_.data()), p};
    if (!table.pieces.empty()) {
      seat.piece = request_.per_unit ? std::min<uint32_t>(table.used / request_.per_unit, static_cast<uint32_t>(table.pieces.size()) - 1)
                                     : next_piece(table, cores_of(request_, request_.programs[p]));
      seat.within = table.pieces[seat.piece];
    }
    ++table.used;
    ++table.used_here;
    seats_.push_back(std::move(seat));
  }

  /// The next piece with free cores; where none has, simply the next.
  static uint32_t next_piece(Table& table, uint32_t cores) {
    const auto count = static_cast<uint32_t>(table.pieces.size());
    uint32_t chosen = table.turn % count;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t piece = (table.turn + i) % count;
      if (table.taken[piece] + cores > table.sizes[piece]) continue;
      chosen = piece;
      break;
    }
    table.taken[chosen] += cores;
    table.turn = chosen + 1;
    return chosen;
  }

  Failure too_many(const Program& program, uint64_t wanted, uint64_t room, const std::vector<Table*>& tables) const {
    std::string text = counted(wanted, "rank") + " do not fit: ";
    std::string why, remedy;
    if (request_.per_unit) {
      why = "ppr:" + std::to_string(request_.per_unit) + ":" + to_string(request_.map_by.value_or(Unit::node));
      remedy = "ask for more per unit or for fewer ranks";
    } else if (program.per_host) {
      why = std::to_string(program.per_host) + " per host (-N, -ppn)";
      remedy = "name more hosts, or ask for more per host";
    } else if (request_.never_oversubscribe) {
      why = ":nooversubscribe";
      remedy = "ask for fewer ranks, or leave :nooversubscribe out";
    } else {
      for (const Table* table : tables)
        if (table->host->firm || table->host->most) {
          why = "their slots (" + table->host->source + ")";
          break;
        }
      remedy = "raise slots= or max_slots=, name more hosts, or allow more ranks than slots with --map-by :oversubscribe";
    }
    return {text + counted(tables.size(), "host") + " with room for " + std::to_string(room) + " by " + why + "; " + remedy};
  }
};

}  // namespace

uint32_t cores_of(const Request& request, const Program& program) {
  return request.cores_each ? request.cores_each : std::max(1u, program.threads);
}

Result<std::vector<Seat>> deal(const Request& request) { return Dealer(request).deal(); }

}  // namespace weft::placement
