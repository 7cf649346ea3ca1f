// What `mpirun --report-paths` shows.
#pragma once

#include "pml/lane.h"

namespace weft::comm {

/// If WEFT_REPORT_PATHS asks for it: the first rank of each host finds out which ways lead from there to the others, and rank 0 writes
/// the sum of it to its standard error. Every rank calls it once all addresses are published; it ends after some seconds whoever does not.
void report_paths(pml::Lane&, pml::Context);

}  // namespace weft::comm
