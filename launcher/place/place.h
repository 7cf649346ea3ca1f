// Placement: on which host and which CPUs each rank of a job runs. Pure: no process, file or clock is touched here.
//
//   Request (programs, hosts, policies) --place()--> Placement (each rank's host, local rank, CPUs), or what is wrong and what helps
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/topo/cpu_set.h"
#include "runtime/topo/node.h"

namespace weft::placement {

/// What ranks are dealt to or bound to. `slot` counts, all others are pieces of hardware from the largest to the smallest.
enum class Unit : uint8_t { slot, node, package, numa, l3cache, l2cache, core, hwthread };
const char* to_string(Unit);

/// The hardware of a host and what of it may be used.
struct Machine {
  topo::Node hardware;              ///< resources in hwloc's logical order
  topo::CpuSet allowed;             ///< affinity and cpusets; empty: all CPUs
  uint32_t quota = UINT32_MAX;      ///< CPUs' worth of time that the control groups grant, rounded up
  std::vector<topo::CpuSet> kinds;  ///< strongest first; empty: all cores are alike
};

struct Host {
  std::string name;
  uint32_t slots = 0;       ///< ranks it takes before the next host's turn; 0: one a usable core
  uint32_t most = 0;        ///< never more than this many (max_slots); 0: no limit
  bool firm = false;        ///< `slots` is a limit that only :oversubscribe lifts (slots=N; not host:N, which goes around)
  std::string source = {};  ///< where it was named: "line 7 of hosts"
  bool bare = false;        ///< named once, and without a number
  /// Unknown (before its daemon has told): ranks can be dealt by slot and node, are not bound, and `slots` 0 means 1.
  std::shared_ptr<const Machine> machine = {};
  /// `machine` is a guess (mpirun's own): ranks are dealt by it, but left unbound, for the host's daemon to do with place_here().
  bool assumed = false;
};

/// One program of the job (several with `:`).
struct Program {
  uint32_t ranks = 0;                   ///< 0: as many as there are slots
  std::vector<std::string> hosts = {};  ///< names; empty: all of the request's
  uint32_t threads = 1;                 ///< of each rank (OMP_NUM_THREADS)
  uint32_t per_host = 0;                ///< -N, -ppn; 0: as the hosts' slots say
};

/// One line of a rankfile.
struct RankLine {
  uint32_t rank;
  std::string host;    ///< a name, or "+nK": the K-th of the request's hosts
  std::string slots;   ///< "0-3,8": cores in logical order; "1:0-2": cores of package 1; empty: not bound
  std::string source;  ///< "line 3 of ranks"
};

enum class RankBy : uint8_t {
  slot,  ///< in the order of mapping
  fill,  ///< all ranks of one piece of hardware, then the next
  span,  ///< one rank of each piece of hardware (`rank_unit`) of all hosts, then the next of each
};

struct Request {
  std::vector<Program> programs;
  std::vector<Host> hosts;

  std::optional<Unit> map_by;        ///< none: slot
  uint32_t per_unit = 0;             ///< ppr:N:unit
  uint32_t cores_each = 0;           ///< PE=N; 0: as many as a rank has threads
  bool oversubscribe = false;        ///< more ranks than slots
  bool never_oversubscribe = false;  ///< not even where it is allowed by itself
  bool threads_are_cores = false;    ///< --use-hwthread-cpus
  RankBy rank_by = RankBy::slot;
  Unit rank_unit = Unit::slot;  ///< slot: that of map_by
  std::optional<Unit> bind_to;  ///< Unit::node: not at all; none: the default, see bind.h
  bool overload = false;        ///< more ranks on a CPU than it has threads
  uint32_t gpus_each = 0;       ///< GPUs of each rank, no two have one in common; 0: all ranks see all
  topo::CpuSet cpu_set;         ///< --cpu-set; empty: all
  std::vector<RankLine> rankfile = {};
  std::vector<topo::CpuSet> cpu_lists = {};  ///< --bind-to user:...: of the ranks of each host in turn
  bool in_sequence = false;                  ///< --map-by seq: rank i goes to sequence[i]
  std::vector<std::string> sequence = {};    ///< names of hosts, in the order in which they were written
};

/// Where one rank runs.
struct Place {
  uint32_t host = 0;  ///< index in Placement::hosts
  uint32_t local_rank = 0;
  uint32_t program = 0;
  topo::CpuSet cpus = {};              ///< empty: not bound
  std::vector<std::string> gpus = {};  ///< names of its GPUs, where the request asks for them
  std::vector<std::string> nics = {};  ///< the network interfaces nearest to them, that of the first GPU first
};

/// What a host is given.
struct HostLoad {
  std::string name;
  std::shared_ptr<const Machine> machine;
  uint32_t ranks = 0;
  uint32_t cpus = 1;         ///< that these ranks can run on at one time; fewer than `ranks`: they must take turns
  std::string binding = {};  ///< how its ranks are bound, and why, in one line
};

struct Placement {
  std::vector<HostLoad> hosts;  ///< as in the request, those without ranks too
  std::vector<Place> ranks;     ///< by rank; programs one after another
};

/// Deals the ranks to hosts, binds and numbers them.
Result<Placement> place(const Request& request);

/// For the daemon of a host, which knows its hardware: binds the ranks that the placement of the whole job has given to it, by the same
/// policies. `ranks`: those of each program of `request`, ascending; the result's ranks are these, program after program. `here` has
/// its name and machine.
Result<Placement> place_here(const Request& request, const Host& here, const std::vector<std::vector<uint32_t>>& ranks);

}  // namespace weft::placement
