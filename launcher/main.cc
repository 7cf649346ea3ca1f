// mpirun, also as mpiexec.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "launcher/coll_words.h"
#include "launcher/daemon.h"
#include "launcher/options.h"
#include "launcher/singleton.h"
#include "launcher/tree/leaf.h"
#include "runtime/config/config.h"
#include "runtime/topo/cpus.h"

using namespace weft;

/// Symbolic links resolved.
static std::string folder_of_programs() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

int main(int argc, char** argv) {
  if (argc == 2 && !strcmp(argv[1], "--daemon")) return launcher::tree::run_leaf();
  if (argc == 3 && !strcmp(argv[1], "--for-singleton")) return launcher::run_for_singleton(atoi(argv[2]));
  const launcher::Parsed parsed = launcher::parse({argv + 1, argv + argc}, topo::usable_cpus());
  for (const std::string& warning : parsed.warnings) fprintf(stderr, "mpirun: warning: %s\n", warning.c_str());
  if (parsed.run) {
    if (!parsed.options.interfaces.empty()) setenv("WEFT_NET_INTERFACES", parsed.options.interfaces.c_str(), 1);
    if (parsed.options.report_paths) setenv("WEFT_REPORT_PATHS", "yes", 1);
    if (parsed.options.report_coll) setenv("WEFT_REPORT_COLL", "yes", 1);
    launcher::Options options = parsed.options;
    for (const std::string& wrong : {launcher::hand_out_table(options, folder_of_programs()), launcher::hand_out_network(options)})
      if (!wrong.empty()) fprintf(stderr, "mpirun: warning: %s\n", wrong.c_str());
    config::load_environment();  // what is wrong in it the ranks say
    return launcher::run_job(options);
  }
  if (parsed.exit_code)
    fprintf(stderr, "mpirun: %s\n", parsed.text.c_str());
  else
    fputs(parsed.text.c_str(), stdout);
  return parsed.exit_code;
}
