// Lines for people on stderr: quiet by default, one line each, naming the process.
#pragma once

namespace weft {

enum class Level { error, warning, info, debug };

/// Sets who speaks ("rank 3 on node1"), shown at the head of each line. Thread-local, so that ranks as threads differ.
void log_as(const char* name);
/// Who speaks on this thread.
const char* log_name();

/// Writes one line to stderr if `level` is at or above WEFT_LOG (error, warning (default), info, debug).
[[gnu::cold, gnu::format(printf, 2, 3)]] void log(Level level, const char* format, ...);

bool log_enabled(Level);

}  // namespace weft
