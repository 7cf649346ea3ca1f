// How each rank has ended, for -print-all-exitcodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/daemon_state.h"

namespace weft::launcher {

class Exits {
 public:
  void note(const event::Exited& event);
  /// "exit code 0: ranks 0-2,5", a line for each end, in the order of the first rank that had it.
  std::string text() const;

 private:
  std::map<std::string, std::vector<uint32_t>> ranks_;  ///< by how they ended
};

/// "0-2,5", of numbers in ascending order.
std::string ranges(const std::vector<uint32_t>& numbers);

}  // namespace weft::launcher
