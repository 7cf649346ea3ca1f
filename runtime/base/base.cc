#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "include/mpi.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace weft {
namespace {

thread_local char failure_text[1024];
thread_local char speaker[96];

Level threshold() {
  static const Level level = [] {
    const char* wish = getenv("WEFT_LOG");
    if (!wish) return Level::warning;
    if (!strcmp(wish, "error")) return Level::error;
    if (!strcmp(wish, "info")) return Level::info;
    if (!strcmp(wish, "debug")) return Level::debug;
    return Level::warning;
  }();
  return level;
}

}  // namespace

const char* to_string(Status status) {
  switch (status) {
    case Status::ok: return "ok";
    case Status::again: return "no room now";
    case Status::truncated: return "message truncated";
    case Status::peer_failed: return "peer failed";
    case Status::revoked: return "communicator revoked";
    case Status::aborted: return "job aborted";
    case Status::failed: return "failed";
  }
  return "unknown status";
}

int fail(int error_class, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(failure_text, sizeof failure_text, format, args);
  va_end(args);
  return error_class;
}

int fail(Status status) {
  switch (status) {
    case Status::ok: return MPI_SUCCESS;
    case Status::truncated: return MPI_ERR_TRUNCATE;
    case Status::peer_failed: return MPI_ERR_PROC_ABORTED;
    default: break;
  }
  if (!failure_text[0]) return fail(MPI_ERR_OTHER, "%s", to_string(status));
  return MPI_ERR_OTHER;
}

std::string_view last_failure() { return failure_text; }
void clear_failure() { failure_text[0] = 0; }

void log_as(const char* name) { snprintf(speaker, sizeof speaker, "%s", name); }

const char* log_name() { return speaker; }

bool log_enabled(Level level) { return level <= threshold(); }

void log(Level level, const char* format, ...) {
  if (!log_enabled(level)) return;
  static constexpr const char* names[] = {"error", "warning", "info", "debug"};
  char line[2048];
  int at = snprintf(line, sizeof line, "weft%s%s: %s: ", speaker[0] ? " " : "", speaker, names[static_cast<int>(level)]);
  va_list args;
  va_start(args, format);
  at += vsnprintf(line + at, sizeof line - size_t(at) - 1, format, args);
  va_end(args);
  if (size_t(at) > sizeof line - 2) at = sizeof line - 2;
  line[at++] = '\n';
  if (write(STDERR_FILENO, line, size_t(at)) < 0) return;  // nowhere to complain to
}

}  // namespace weft
