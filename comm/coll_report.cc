#include "comm/coll_report.h"

#include <cstdio>
#include <string>

#include "coll/machine.h"
#include "comm/gather.h"
#include "runtime/config/config.h"

namespace weft::comm {
namespace {

config::Bool report_variable("", "report_coll", "no",
                             "Say at the end which collectives have run, how often, by which algorithms and why, and how long they took.");

}  // namespace

std::unique_ptr<coll::Ledger> open_ledger() { return report_variable.get() ? std::make_unique<coll::Ledger>() : nullptr; }

void report_collectives(const coll::Ledger& ledger, pml::Lanes& lanes, pml::Context context) {
  pml::Lane& lane = lanes.at(context);
  boot::Bootstrap& boot = lanes.first().boot();  // that of another lane speaks of its seat
  const boot::Job& job = boot.job();
  const auto hosts = job.local_rank == 0 ? all_hosts(boot) : std::vector<HostOf>();
  pml::Team team(lane, context, std::make_shared<const pml::Members>(pml::Members::range(0, job.size)), job.rank);
  coll::Ledger::Rows rows = ledger.rows();
  const auto silent =
      gather(job, lane, team, hosts,
             {[&] { return coll::Ledger::to_text(rows, kMostTold); }, [&](const std::string& lines) { coll::Ledger::add(rows, lines); }});
  if (job.rank != 0) return;
  const auto count = [](uint32_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
  std::string text = "weft: collectives of " + count(job.size, "rank") + " on " + count(job.node_count, "host") + "\n";
  text += coll::describe(rows, coll::this_machine(), "weft: ");
  if (!silent.empty()) text += "weft:   no word from " + joined(silent) + "\n";
  fputs(text.c_str(), stderr);
}

}  // namespace weft::comm
