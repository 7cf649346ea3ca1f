// What the environment of a rank holds: what it inherits, what the user sets, and the contract of docs/environment.md.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "launcher/job.h"

namespace weft::launcher {

/// Where a rank sits in its job and on its host.
struct Seat {
  uint32_t rank, size, local_rank, local_size;
};

/// What all ranks of a job are told.
struct JobEnvironment {
  std::string job;            ///< the job's name: WEFT_JOB
  bool torch = false;         ///< --env torch
  std::string master = {};    ///< MASTER_ADDR: the host of rank 0
  uint16_t master_port = 0;   ///< MASTER_PORT
  std::string universe = {};  ///< OMPI_UNIVERSE_SIZE
};

/// Of `environment` (NAME=VALUE, ended by nullptr) what the ranks of `app` get: nothing that tells of an outer job's ranks, and only
/// what the app asks for.
std::vector<std::string> inherited(const App& app, const char* const* environment);

/// The variable of a setting, which may be named as shm.get_from, shm-get-from or WEFT_SHM_GET_FROM.
std::string variable_of(std::string setting);

/// Sets NAME in a list of NAME=VALUE.
void set_variable(std::vector<std::string>& environment, const std::string& name, const std::string& value);

/// The variables that tell a rank who it is, in the names of other MPIs and, if asked for, of torchrun. MASTER_ADDR and MASTER_PORT
/// are left as they are where `known` has them.
std::vector<std::pair<std::string, std::string>> contract(const JobEnvironment& job, const Seat& seat,
                                                          const std::vector<std::string>& known);

/// What tells a rank of its GPUs and of the network interfaces near them; nothing where none were asked for.
std::vector<std::pair<std::string, std::string>> device_variables(const placement::Place& place);

/// A TCP port of this host that nobody listens on, outside the range that the kernel gives to connections; 0 if there is none.
uint16_t free_port();

}  // namespace weft::launcher
