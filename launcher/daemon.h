// Runs the ranks of one host: the loop that turns what happens into events of DaemonState and does what it answers.
#pragma once

#include "launcher/job.h"

namespace weft::launcher {

class Singleton;

/// Runs the job; returns the exit code of mpirun. `singleton`: a process that is its rank 0 already.
int run_job(const Options& options, Singleton* singleton = nullptr);

}  // namespace weft::launcher
