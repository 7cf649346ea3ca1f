// What a way between two ranks achieves, for reports: measured with messages of the pml, over all rails that it uses.
#pragma once

#include <optional>

#include "pml/lane.h"
#include "pml/team.h"

namespace weft::comm {

struct Speed {
  double latency_us = 0;            ///< half the median round trip of 8 bytes
  double gigabytes_per_second = 0;  ///< of a message of 4 MiB, by the median round trip
};

/// Measures the way to `other`, which calls be_measured() meanwhile. Nothing if it does not answer within a minute.
std::optional<Speed> measure(pml::Lane&, pml::Team&, int other);
void be_measured(pml::Lane&, pml::Team&, int by);

}  // namespace weft::comm
