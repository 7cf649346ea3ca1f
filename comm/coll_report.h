// What `mpirun --report-coll` shows.
#pragma once

#include <memory>

#include "coll/ledger.h"
#include "pml/lanes.h"

namespace weft::comm {

/// Where collectives are noted, if WEFT_REPORT_COLL asks for it; null: they are not.
std::unique_ptr<coll::Ledger> open_ledger();

/// Rank 0 writes what all ranks have noted to its standard error. Every rank calls it at the end of the job; it ends after some seconds
/// whoever does not.
void report_collectives(const coll::Ledger&, pml::Lanes&, pml::Context);

}  // namespace weft::comm
