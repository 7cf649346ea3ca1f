// Lists of hosts as users of both families of MPI write them.
#pragma once

#include <string_view>

#include "launcher/place/place.h"

namespace weft::placement {

/// A hostfile's text: a line a host, `name`, `name:N`, `name slots=N max_slots=N`, `user@name`; ranges as in `node[01-04,7]`; `#` starts a
/// comment. A host named in several lines has their slots together. `file` is for messages, which name the line.
Result<std::vector<Host>> parse_hostfile(std::string_view text, const std::string& file);

/// The names of its lines, one for each, also of hosts that stand there several times.
Result<std::vector<std::string>> parse_sequence(std::string_view text, const std::string& file);

/// Reads the file, too.
Result<std::vector<Host>> read_hostfile(const std::string& file);

/// -H: `name`, `name:N` with commas between, ranges as above. Without numbers a host has as many slots as it was named times.
Result<std::vector<Host>> parse_hosts(std::string_view list);

/// `node[01-02,7]-ib` -> node01-ib, node02-ib, node7-ib; several brackets are combined.
Result<std::vector<std::string>> expand(std::string_view name);

/// Adds hosts to a list; the slots of one named before add up. Names are compared as they are written.
void add_hosts(std::vector<Host>& all, const std::vector<Host>& more);

/// Does `name` mean the host called `own`: the same, loopback, or equal up to the first dot where one of them has no dot?
bool means(std::string_view name, std::string_view own);

}  // namespace weft::placement
