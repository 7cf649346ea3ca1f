// Starting one process of the job.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/topo/cpu_set.h"

namespace weft::launcher {

/// All that a child is given. The descriptors stay the caller's.
struct Child {
  std::string path;                      ///< file to run
  std::vector<std::string> arguments;    ///< with argv[0]
  std::vector<std::string> environment;  ///< NAME=VALUE
  std::string folder;                    ///< working directory, empty: as it is
  int input = -1, output = -1, errors = -1;
  topo::CpuSet cpus = {};  ///< to be bound to, empty: as this process
  bool held = false;       ///< stopped before its first instruction, until SIGCONT
  bool session = false;    ///< in a session of its own, without a terminal
};

struct SpawnError {
  std::string text;
  int exit_code;  ///< 127 not found, 126 cannot be run
};

/// Where `program` is, as a shell would look for it (from `folder` if it names a relative path). `before`: folders, with ':' between
/// them, to look into before those of PATH.
Result<std::string> find_program(const std::string& program, const std::string& folder, const std::string& before = {});

/// Starts a child in a process group of its own that dies when this thread's process does. Returns its pid, or -1 with `error` set.
/// Call it from the main thread: the parent-death signal follows the thread.
pid_t spawn(const Child& child, SpawnError& error);

/// Lets this process have as many descriptors as it may; children get the former limit back.
void raise_descriptor_limit();

}  // namespace weft::launcher
