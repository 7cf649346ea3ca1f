// What the user asked for: programs, ranks, environment. Made by the command line, read by everything in the launcher.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "launcher/place/place.h"

namespace weft::launcher {

/// What ranks inherit of mpirun's environment.
enum class Inherit : uint8_t { all, none, listed };

/// One program of the job (several with `:` on the command line).
struct App {
  std::vector<std::string> command;  ///< program and its arguments
  uint32_t ranks = 1;
  std::string folder;                                          ///< working directory, empty: mpirun's own
  std::vector<std::pair<std::string, std::string>> variables;  ///< set in these ranks besides what they inherit
  Inherit inherit = Inherit::all;
  std::vector<std::string> listed;  ///< names, for Inherit::listed
  std::vector<std::string> hosts;   ///< that its ranks may run on; empty: all
  uint32_t per_host = 0;            ///< its ranks on each host; 0: as the hosts' slots say
  std::string path;                 ///< folders with ':' between them where the program is looked for before PATH
  std::vector<std::string> sets;    ///< names of the process sets (MPI sessions) that its ranks are in
};

/// Who reads mpirun's standard input.
enum class InputTo : uint8_t { one, all, none };

/// What becomes of the ranks' output.
struct OutputWish {
  bool tag = false;        ///< [rank] heads each line
  bool timestamp = false;  ///< date and time head each line
  bool copy = true;        ///< to mpirun's own output (always, without a folder)
  std::string folder;      ///< a file a rank there; empty: none
  /// Files instead of mpirun's own output; %r: rank, %h: host, %p: the same as the host's name, %g: 0, %%: %. Empty: none.
  std::string out_pattern = {}, error_pattern = {};
};

struct Options {
  std::vector<App> apps;
  bool counted = true;         ///< the user said how many ranks; otherwise apps[0].ranks is settled by placement
  placement::Request request;  ///< hosts and policies as the user gave them; without programs and hardware
  bool hosts_by_file = false;  ///< a hostfile says which hosts there are
  bool report_bindings = false;
  bool display_map = false;
  bool dry_run = false;
  std::string command_line;  ///< as the user wrote it, for people
  OutputWish output;
  bool verbose = false;
  bool report_paths = false;  ///< WEFT_REPORT_PATHS for the ranks
  bool report_coll = false;   ///< WEFT_REPORT_COLL for the ranks
  bool print_exits = false;   ///< say at the end how each rank ended
  std::string interfaces;     ///< WEFT_NET_INTERFACES for launcher and ranks; empty: as the environment has it
  bool torch = false;         ///< torchrun's variables as well
  double timeout_s = 0;       ///< 0: none
  InputTo input = InputTo::one;
  uint32_t input_rank = 0;  ///< for InputTo::one
  std::string launcher;     ///< how daemons are started: ssh, slurm; empty: slurm inside an allocation, otherwise ssh
  std::string agent;        ///< instead of ssh, with its options
  uint32_t fan_out = 0;     ///< daemons that one daemon starts; 0: the default

  uint32_t ranks() const {
    uint32_t sum = 0;
    for (const App& app : apps) sum += app.ranks;
    return sum;
  }
  /// The number of the app that a rank belongs to.
  uint32_t app_of(uint32_t rank) const {
    uint32_t a = 0;
    for (; a + 1 < apps.size() && rank >= apps[a].ranks; a++) rank -= apps[a].ranks;
    return a;
  }
};

/// How mpirun itself ends, besides the codes of ranks.
enum ExitCode : int { exit_failed = 1, exit_usage = 2, exit_timeout = 124, exit_not_executable = 126, exit_not_found = 127 };

}  // namespace weft::launcher
