// Runs the ranks of one host: the loop that turns what happens into events of DaemonState and does what it answers.
#pragma once

#include "launcher/job.h"

namespace weft::launcher {

/// Runs the job; returns the exit code of mpirun.
int run_job(const Options& options);

}  // namespace weft::launcher
