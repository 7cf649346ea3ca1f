// The options that say where ranks run, from words to a request for placement.
#pragma once

#include <string>
#include <vector>

#include "launcher/job.h"
#include "runtime/base/status.h"

namespace weft::launcher {

/// What one part of the command line says of places, as it was written.
struct PlaceWords {
  std::vector<std::string> map, rank_by, bind;
  std::string cpu_set, hosts, hostfile, rankfile, display;
  long per_host = 0, cores_each = 0, gpus_each = 0;
  bool oversubscribe = false, never_oversubscribe = false, threads_are_cores = false;
  bool report_bindings = false, display_map = false, dry_run = false;
};

/// Reads them, and the files that they name, into `options.request` and `app`.
Result<void> read_places(const PlaceWords& words, Options& options, App& app);

}  // namespace weft::launcher
