// What the tests of broken jobs ask of a launcher: to stand still in a state until they have struck, and to be impatient.
#pragma once

#include <cstdint>

namespace weft::launcher {

/// WEFT_LAUNCHER_HOLD=NODE:STATE:FILE: daemon NODE (mpirun is 0), on coming into STATE, makes FILE with its pid and waits until FILE is
/// gone, a minute at most. Without the variable this costs one look at the environment.
void hold_for_test(uint32_t node, const char* state);

/// How long a step of the start may take without any progress. WEFT_LAUNCHER_PATIENCE=SECONDS, 30 unless set.
uint64_t start_patience_ns();

}  // namespace weft::launcher
