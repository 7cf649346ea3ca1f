// What the tools find out, before it is printed for people or as JSON.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/boot/job_record.h"

namespace weft::tools {

/// A configuration variable as the library describes it.
struct Setting {
  std::string name, module, type, value, default_value, origin, help;
};

/// What libmpi says of itself.
struct Description {
  std::string file, version, abi;
  std::vector<std::string> transports;
  std::vector<std::pair<std::string, std::string>> built_with;  ///< part, version
  std::vector<Setting> settings;                                ///< by name
  std::vector<std::string> complaints;                          ///< about variables in the environment
};

/// A part that is looked for at run time.
struct Part {
  std::string name, version;  ///< empty version: not found
  std::string detail;         ///< where it is, or what its absence means
};

enum class Level { ok, note, warning, problem };

inline const char* to_string(Level level) {
  switch (level) {
    case Level::ok: return "ok";
    case Level::note: return "note";
    case Level::warning: return "warning";
    case Level::problem: return "problem";
  }
  return "";
}

/// One finding of `weft doctor`. `remedy` is empty if there is nothing to do.
struct Finding {
  Level level;
  std::string subject, text, remedy;
};

/// The libmpi beside this tool, opened.
struct Library {
  void* handle;
  std::string file;
  void* symbol(const char* name) const;
};
Result<Library> open_library();

/// Opens the libmpi beside this tool and asks it.
Result<Description> describe_library();

/// What is there at run time.
std::vector<Part> find_parts();

/// All findings of the doctor, in the order of the checks.
std::vector<Finding> examine();

Result<Description> parse_description(const char* json);
std::string to_json(const Description&, const std::vector<Part>&);
std::string to_json(const std::vector<Finding>&);

std::string to_json(const std::vector<boot::JobRecord>&);

/// `weft ps`, `weft ps JOB`, `weft kill JOB...`: exit codes. `now`: ranks are not asked to end first.
int list_jobs(bool json);
int show_job(const std::string& name);
int kill_jobs(const std::vector<std::string>& names, bool now);

/// `weft paths OPTIONS...`: mpirun with these options (but for --measure, which sets WEFT_NET_MEASURE), --report-paths, and be_trial_rank()
/// as the program. Returns only if that fails.
int show_paths(const std::vector<std::string>& options);
/// Starts and ends MPI: exit code.
int be_trial_rank();

/// `weft bench OPTIONS...`: the comparison of benchmarks that is installed, for this installation. Returns only if it cannot be started.
int bench(const std::vector<std::string>& options);

/// Folder of the running program, symbolic links resolved.
std::string own_folder();

}  // namespace weft::tools
