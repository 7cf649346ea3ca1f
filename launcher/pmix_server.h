// The PMIx server that the ranks of this host talk to.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/events.h"
#include "launcher/job.h"
#include "runtime/base/status.h"

namespace weft::launcher {

/// What the server tells the ranks of their job.
struct JobFacts {
  std::string name;    ///< namespace
  std::string folder;  ///< the job's folder on this host
  std::string host;    ///< name of this host
  std::string secret;
  std::string topology;  ///< what topo::Node::parse reads
  void* hwloc_topology = nullptr;
  uint32_t cpus = 1;  ///< that ranks of this host may use
  const Options* options = nullptr;
};

/// What the server needs in the job's folder for that many ranks.
uint64_t temporary_bytes(uint32_t ranks);

/// One in a process: PMIx keeps global state. Upcalls arrive on a thread of PMIx and are posted to the mailbox.
class PmixServer {
 public:
  virtual ~PmixServer() = default;

  static Result<std::unique_ptr<PmixServer>> start(const JobFacts& facts, Mailbox& mailbox);

  /// The variables (NAME=VALUE) that make a process rank `rank` of the job.
  virtual std::vector<std::string> environment(uint32_t rank) = 0;

  /// Answers the calls of PMIx_Abort that have been reported.
  virtual void answer_aborts() = 0;
};

}  // namespace weft::launcher
