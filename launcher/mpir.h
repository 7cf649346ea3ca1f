// The process table that parallel debuggers read from mpirun, as the MPIR process acquisition interface (version 1.1, MPI Forum) lays it
// down. The names are looked up in the program's symbol table: mpirun must not be stripped.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

extern "C" {
/// One rank.
struct MPIR_PROCDESC {
  char* host_name;
  char* executable_name;
  int pid;
};
extern MPIR_PROCDESC* MPIR_proctable;
extern int MPIR_proctable_size;
extern volatile int MPIR_being_debugged;  ///< set by a debugger that has started mpirun
extern volatile int MPIR_debug_state;     ///< 0, MPIR_DEBUG_SPAWNED (1), MPIR_DEBUG_ABORTING (2)
extern char* MPIR_debug_abort_string;
extern volatile int MPIR_i_am_starter;       ///< there: mpirun is no rank
extern volatile int MPIR_partial_attach_ok;  ///< there: mpirun lets go on what the debugger does not attach to
void MPIR_Breakpoint();
}

namespace weft::launcher {

struct DebuggedRank {
  std::string host, program;
  pid_t pid;
};

/// True if ranks are to be held before their main() until the debugger has seen the table.
bool being_debugged();

/// Fills the table, in the order of ranks, and stops at MPIR_Breakpoint().
void publish_ranks(const std::vector<DebuggedRank>& ranks);

/// Tells the debugger that the job ends early, and why.
void publish_abort(const std::string& why);

}  // namespace weft::launcher
