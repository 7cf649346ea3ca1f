#include "launcher/mpir.h"

#include <deque>

extern "C" {
MPIR_PROCDESC* MPIR_proctable = nullptr;
int MPIR_proctable_size = 0;
volatile int MPIR_being_debugged = 0;
volatile int MPIR_debug_state = 0;
char* MPIR_debug_abort_string = nullptr;
volatile int MPIR_i_am_starter = 0;
volatile int MPIR_partial_attach_ok = 0;

/// A place for a breakpoint: it does nothing, and no compiler may know that.
[[gnu::noinline]] void MPIR_Breakpoint() { asm volatile("" ::: "memory"); }
}

namespace weft::launcher {
namespace {

constexpr int spawned = 1, aborting = 2;
// What the table points to. A debugger may read it at any moment until mpirun is gone, so it is never freed.
std::vector<MPIR_PROCDESC> table;
std::deque<std::string> texts;

char* keep(const std::string& text) {
  if (texts.empty() || texts.back() != text) texts.push_back(text);  // neighbours share host and program
  return texts.back().data();
}

}  // namespace

bool being_debugged() { return MPIR_being_debugged != 0; }

void publish_ranks(const std::vector<DebuggedRank>& ranks) {
  MPIR_proctable_size = 0;
  table.clear();
  for (const DebuggedRank& rank : ranks) table.push_back({keep(rank.host), nullptr, int(rank.pid)});
  for (size_t i = 0; i < ranks.size(); i++) table[i].executable_name = keep(ranks[i].program);
  MPIR_proctable = table.data();
  MPIR_proctable_size = int(table.size());
  MPIR_debug_state = spawned;
  MPIR_Breakpoint();
}

void publish_abort(const std::string& why) {
  MPIR_debug_abort_string = keep(why);
  MPIR_debug_state = aborting;
  MPIR_Breakpoint();
}

}  // namespace weft::launcher
