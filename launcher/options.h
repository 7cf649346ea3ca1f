// The command line of mpirun.
#pragma once

#include <string>
#include <vector>

#include "launcher/job.h"

namespace weft::launcher {

/// Outcome of reading a command line: run `options`, or print `text` and end with `exit_code`.
struct Parsed {
  bool run = false;
  Options options;
  int exit_code = 0;
  std::string text;                   ///< help or version (exit code 0), or what is wrong
  std::vector<std::string> warnings;  ///< one line each
};

/// `words` without the name of the program. `default_ranks`: for an absent -n.
Parsed parse(const std::vector<std::string>& words, uint32_t default_ranks);

}  // namespace weft::launcher
