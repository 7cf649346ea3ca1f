// MPI errors with a text: the class is returned, the text waits in the thread for the error handler.
#pragma once

#include <string_view>

#include "runtime/base/status.h"

namespace weft {

/// Stores a readable text for this thread and returns `error_class` (an MPI_ERR_* value), so that callers write
/// `return fail(MPI_ERR_RANK, "rank %d is outside 0..%d of %s", ...)`. The text names the argument and the remedy.
[[gnu::cold, gnu::format(printf, 2, 3)]] int fail(int error_class, const char* format, ...);

/// The same for a Status of the message path; the text stays as set by whoever detected it.
[[gnu::cold]] int fail(Status);

/// The text of this thread's latest fail(), empty if there was none since clear_failure().
std::string_view last_failure();
void clear_failure();

}  // namespace weft
