// -configfile: the parts of a command line, one a line, as Hydra has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace weft::placement {

/// Each line `-n 2 program arguments` becomes a part, with `:` between parts. Quotes and backslashes work as in a shell, a backslash at
/// a line's end joins it with the next one, `#` at the start of a word begins a comment. `file` is for messages.
Result<std::vector<std::string>> parse_config_file(std::string_view text, const std::string& file);
Result<std::vector<std::string>> read_config_file(const std::string& file);

}  // namespace weft::placement
