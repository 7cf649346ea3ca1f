// The daemon of a host other than mpirun's: mpirun --daemon.
#pragma once

namespace weft::launcher::tree {

/// Reads its summons from standard input, joins the tree and serves until it is sent away. Returns the exit code.
int run_leaf();

}  // namespace weft::launcher::tree
