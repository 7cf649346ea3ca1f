// What the bootstraps share among themselves; not for other floors.
#pragma once

#include "runtime/boot/boot.h"

namespace weft::boot {

/// Keys that our launcher gives its jobs besides PMIx's own.
inline constexpr char key_secret[] = "weft.secret";      ///< string: the job's secret
inline constexpr char key_cpus[] = "weft.cpus";          ///< uint32: CPUs that the ranks of this node may use
inline constexpr char key_launcher[] = "weft.launcher";  ///< string: name and version of the launcher
inline constexpr char key_topology[] = "weft.topology";  ///< string: the node's hardware, see topo::Node

/// What a rank says of programs to be spawned, besides PMIx's own keys, and where it finds the reason if there are none.
inline constexpr char key_path[] = "weft.path";                    ///< string: folders to look for the program in, before PATH
inline constexpr char key_spawn_failure[] = "weft.spawn.failure";  ///< string, published by the launcher for the spawning rank

/// 32 random bytes as hex.
std::string random_secret();

/// A process alone: rank 0 of 1.
std::unique_ptr<Bootstrap> open_singleton();

/// A client of the PMIx server that the environment names.
Result<std::unique_ptr<Bootstrap>> open_pmix();

/// For a process without a launcher: starts an mpirun that takes it in as the only rank of a job with this secret. At most once in a
/// process, as PMIx can be joined once.
Result<std::unique_ptr<Bootstrap>> open_own_launcher(const std::string& secret);

/// Does the environment name a PMI server (PMI_FD) that can be talked to?
bool has_pmi();
/// A client of that server, which speaks PMI-1 or PMI-2.
Result<std::unique_ptr<Bootstrap>> open_pmi();

/// The launcher (in words) whose environment this is although it offers no PMIx server, empty if there is none.
std::string foreign_launcher();

}  // namespace weft::boot
