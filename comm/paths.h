// What `mpirun --report-paths` shows, and WEFT_NET_MEASURE does.
#pragma once

#include "pml/lanes.h"

namespace weft::comm {

/// Measures the ways between the ranks if WEFT_NET_MEASURE says so (measure.h), so that they are chosen by that. If WEFT_REPORT_PATHS asks
/// for it, every rank finds out which ways lead from it to the others, and rank 0 writes the sum of it to its standard error. Every rank
/// calls it once all addresses are published; reporting ends after some seconds whoever does not.
void look_at_ways(pml::Lanes&, pml::Context);

}  // namespace weft::comm
