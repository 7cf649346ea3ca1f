// `weft explain`: what a collective would cost by each algorithm, and what the library runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coll/model.h"
#include "runtime/base/status.h"
#include "runtime/config/coll_table.h"

namespace weft::tools {

struct ExplainQuestion {
  std::string collective;
  int32_t ranks = 0, root = 0;
  uint64_t bytes = 0;  ///< as coll::Agreed means them
  int32_t hosts = 0;   ///< 0: of 64 ranks each; with a network those of its file, as far as there are ranks for them
  int32_t hosts_per_switch = 0, ranks_per_cache = 0;  ///< 0: all of them
  int32_t cpus = 0;                                   ///< of one host, for all its ranks; 0: one for each
  bool ordered = false, uneven = false;
  std::string network;  ///< file; empty: none
  std::string table;    ///< of weft tune: as WEFT_COLL_TABLE has it
  std::string machine;  ///< changes, see coll::set_fields
  bool json = false;
};

struct Explanation {
  ExplainQuestion question;
  coll::Agreed agreed;
  coll::Machine machine;
  int32_t hosts = 1, switches = 1;
  std::vector<coll::Candidate> candidates;  ///< the cheapest first; at least one with a price
  std::vector<std::string> unfit;           ///< algorithms that these ranks, or this operation, cannot use
  coll::Decision decision;
  std::optional<size_t> runs;                     ///< what the library runs, among the candidates; nothing: the kernel in shared memory
  std::vector<config::CollTable::Time> measured;  ///< what the table knows of this size, or the one that speaks for it; empty: nothing
  uint64_t measured_bytes = 0;                    ///< which size that is
  std::string table_file;                         ///< empty: there is none
  std::string measured_by;                        ///< when and with what
  std::string usual;                              ///< what runs without the table, as that says
  bool machine_measured = false;                  ///< are numbers of the machine the table's?
  std::string reason;                             ///< why the first one is the cheapest
  std::string verdict;                            ///< what the library runs, by whose word, and what the model thinks of it
};

/// "312.5 us".
std::string show_time(double ns);

Result<Explanation> explain(const ExplainQuestion&);
std::string to_json(const Explanation&);

/// The command: exit code.
int show_explanation(const ExplainQuestion&);

}  // namespace weft::tools
