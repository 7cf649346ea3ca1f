// The PMIx server that the ranks of this host talk to.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/events.h"
#include "launcher/job.h"
#include "launcher/layout.h"
#include "launcher/service.h"
#include "runtime/base/status.h"

namespace weft::launcher {

/// The PMIx servers of the job's other hosts. Called by the loop's thread; so are the answers.
class Remote {
 public:
  using FenceDone = std::function<void(bool good, const std::string& data)>;
  using ModexDone = std::function<void(int status, std::string data)>;
  virtual ~Remote() = default;
  /// All members (ranks; none: all of the job's first namespace) of this host have come to a fence and brought `data`.
  virtual void fence(std::vector<uint32_t> members, std::string data, FenceDone done) = 0;
  /// What did a rank of another host publish?
  virtual void modex(uint32_t rank, ModexDone done) = 0;
};

/// What the server tells the ranks of their job.
struct JobFacts {
  std::string name;    ///< namespace
  std::string folder;  ///< the job's folder on this host
  std::string secret;
  std::string topology;  ///< what topo::Node::parse reads
  void* hwloc_topology = nullptr;
  uint32_t cpus = 1;  ///< that ranks of this host may use
  bool verbose = false;
  const Roster* roster = nullptr;  ///< with the job's first namespace; outlives the server, as do the following
  const Layout* layout = nullptr;
  Remote* remote = nullptr;  ///< only with ranks on other hosts
  Services* services = nullptr;
};

/// What the server needs in the job's folder for that many ranks, `local` of them on this host.
uint64_t temporary_bytes(uint32_t ranks, uint32_t local);

/// One in a process: PMIx keeps global state. Upcalls arrive on a thread of PMIx and are posted to the mailbox.
class PmixServer {
 public:
  virtual ~PmixServer() = default;

  static Result<std::unique_ptr<PmixServer>> start(const JobFacts& facts, Mailbox& mailbox);

  /// Another namespace of the roster, whose ranks the layout has: to be told before any rank of it starts, on whatever host.
  virtual Result<void> add_space(const Space& space) = 0;

  /// No rank of that namespace lives any more, on whatever host: nobody may ask about it from now on.
  virtual void remove_space(const std::string& name) = 0;

  /// The variables (NAME=VALUE) that make a process rank `rank` of the job.
  virtual std::vector<std::string> environment(uint32_t rank) = 0;

  /// Tells this host's ranks.
  virtual void notify(const Notice& notice) = 0;

  /// Answers the calls of PMIx_Abort that have been reported.
  virtual void answer_aborts() = 0;

  /// Tells what a rank of this host has published, as soon as it has (PMIx status and PMIx's own encoding).
  virtual void published(uint32_t rank, Remote::ModexDone done) = 0;
};

}  // namespace weft::launcher
