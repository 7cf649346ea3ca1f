// The `weft` command: what is installed (info), whether this machine is fit for it (doctor), the jobs that run (ps, kill), what
// collectives cost (explain), the table that says which algorithms are best (tune), and how fast this is beside others (bench).
#include <config.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/explain.h"
#include "tools/report.h"
#include "tools/tune.h"

namespace {

using namespace weft::tools;

void print_variables(const Description& d) {
  for (const Setting& s : d.settings) {
    const std::string value = s.value.empty() ? "(empty)" : s.value;
    std::printf("  %s = %s  [%s%s]\n      %s\n", s.name.c_str(), value.c_str(), s.origin.c_str(),
                s.origin == "default" ? "" : (", default " + (s.default_value.empty() ? std::string("(empty)") : s.default_value)).c_str(),
                s.help.c_str());
  }
  std::printf("  WEFT_LOG = %s  [%s]\n      How much Weft says on standard error: error, warning, info or debug.\n",
              getenv("WEFT_LOG") ? getenv("WEFT_LOG") : "warning", getenv("WEFT_LOG") ? "environment" : "default");
}

void print_about(const Description& d, const std::vector<Part>& parts) {
  std::printf("Weft %s\n", d.version.c_str());
  std::printf("  interface    %s\n  library      %s\n  transports   ", d.abi.c_str(), d.file.c_str());
  for (const auto& name : d.transports) std::printf("%s%s", &name == &d.transports.front() ? "" : ", ", name.c_str());
  std::printf("\n\nBuilt with\n");
  for (const auto& [name, version] : d.built_with) std::printf("  %-12s %s\n", name.c_str(), version.c_str());
  std::printf("\nFound on this machine\n");
  for (const Part& p : parts)
    std::printf("  %-12s %-8s %s\n", p.name.c_str(), p.version.empty() ? "no" : p.version.c_str(), p.detail.c_str());
}

int info(bool json, bool only_variables) {
  const auto description = describe_library();
  if (!description) {
    std::fprintf(stderr, "weft info: %s\n", description.failure().text.c_str());
    return 1;
  }
  const auto parts = only_variables ? std::vector<Part>{} : find_parts();
  if (json) {
    std::printf("%s\n", to_json(*description, parts).c_str());
    return 0;
  }
  if (!only_variables) {
    print_about(*description, parts);
    std::printf("\nVariables (set them in the environment)\n");
  }
  print_variables(*description);
  for (const std::string& complaint : description->complaints) std::printf("\nwarning: %s\n", complaint.c_str());
  return 0;
}

int doctor(bool json) {
  const auto findings = examine();
  int problems = 0, warnings = 0;
  for (const Finding& f : findings) {
    problems += f.level == Level::problem;
    warnings += f.level == Level::warning;
  }
  if (json) {
    std::printf("%s\n", to_json(findings).c_str());
    return problems ? 1 : 0;
  }
  for (const Finding& f : findings) {
    std::printf("%-8s %s: %s\n", to_string(f.level), f.subject.c_str(), f.text.c_str());
    if (!f.remedy.empty()) std::printf("         -> %s\n", f.remedy.c_str());
  }
  std::printf("\n%zu findings: %d problems, %d warnings\n", findings.size(), problems, warnings);
  return problems ? 1 : 0;
}

CLI::App* add_explain(CLI::App& app, ExplainQuestion& q) {
  constexpr int32_t kMostRanks = 65536;  // whose schedules have room in memory
  auto* const sub = app.add_subcommand(
      "explain", "what a collective would cost by each algorithm, which one the library runs, and by whose word; nothing is measured");
  sub->add_option("collective", q.collective, "such as allreduce or bcast")->required();
  sub->add_option("--ranks", q.ranks, "ranks of the communicator")->required()->check(CLI::Range(1, kMostRanks));
  sub->add_option("--bytes", q.bytes,
                  "of the whole vector (bcast, reductions, scans), else of the block of one rank; K, M, G: powers of 1024")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 50));
  sub->add_option("--hosts", q.hosts, "ranks are on so many, one after the other [64 ranks on each]")->check(CLI::Range(1, kMostRanks));
  sub->add_option("--hosts-per-switch", q.hosts_per_switch, "hosts behind each of several switches [one switch]")
      ->check(CLI::Range(1, kMostRanks));
  sub->add_option("--ranks-per-cache", q.ranks_per_cache, "ranks of a host that share a cache [all]")->check(CLI::Range(1, kMostRanks));
  sub->add_option("--cpus", q.cpus, "CPUs that ranks on one host have together [one each]")->check(CLI::Range(1, kMostRanks));
  sub->add_option("--network", q.network, "a file that tells which hosts share a switch, as for WEFT_NETWORK; the hosts are its first ones")
      ->envname("WEFT_NETWORK");
  sub->add_option("--root", q.root, "rank of the root [0]")->check(CLI::Range(0, kMostRanks));
  sub->add_flag("--ordered", q.ordered, "the operation does not commute");
  sub->add_flag("--uneven", q.uneven, "blocks of different sizes, as in the v forms; --bytes is their average");
  sub->add_option("--table", q.table, "a table of weft tune, as for WEFT_COLL_TABLE; \"none\": none")->envname("WEFT_COLL_TABLE");
  sub->add_option("--machine", q.machine, "other numbers than the built-in ones, such as leaf.latency=1500,host_link=0.04");
  sub->add_flag("--json", q.json, "as JSON");
  return sub;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"weft: what is installed, whether this machine is fit for it, and the jobs that run here, what collectives cost", "weft"};
  app.set_version_flag("--version", "weft " PACKAGE_VERSION);
  app.require_subcommand(1);
  bool json = false, variables = false, now = false;
  std::string job;
  std::vector<std::string> jobs;
  auto* about = app.add_subcommand("info", "version, parts found, configuration variables with value, origin and meaning");
  about->add_flag("--json", json, "as JSON");
  about->add_flag("--variables", variables, "the variables only");
  auto* health = app.add_subcommand("doctor", "tries what MPI programs need; each finding with its remedy; status 1 if there is a problem");
  health->add_flag("--json", json, "as JSON");
  auto* list = app.add_subcommand("ps", "your jobs on this host; with JOB: its ranks and messages");
  list->add_option("job", job, "name of a job, or the pid of its mpirun");
  list->add_flag("--json", json, "as JSON");
  auto* end = app.add_subcommand("kill", "ends jobs: SIGTERM to their ranks, SIGKILL a little later; waits until they have ended");
  end->add_option("job", jobs, "names of jobs, or pids of their mpirun")->required();
  end->add_flag("--now", now, "SIGKILL at once");
  auto* ways = app.add_subcommand(
      "paths", "which ways messages take within and between hosts, and why: by a trial job; options as for mpirun, and --measure");
  ways->prefix_command()->set_help_flag("--help", "Print this help message and exit");  // -h begins -hostfile
  auto* measures = app.add_subcommand(
      "tune",
      "measures messages and the algorithms of collectives by a job, for a table that mpirun goes by from then on (weft tune --help)");
  measures->prefix_command()->set_help_flag();
  auto* beside = app.add_subcommand(
      "bench", "micro-benchmarks of this Weft, alone or in turns with other MPI installations: --against PREFIX... (weft bench --help)");
  beside->prefix_command()->set_help_flag();
  ExplainQuestion question;
  auto* costs = add_explain(app, question);
  auto* trial = app.add_subcommand("trial-rank", "")->group("");                      // the program of that job
  auto* tuning = app.add_subcommand("tuning-rank", "")->group("")->prefix_command();  // that of weft tune
  CLI11_PARSE(app, argc, argv);
  if (tuning->parsed()) return be_tuning_rank(tuning->remaining());
  if (beside->parsed()) return bench(beside->remaining());
  if (measures->parsed()) return tune(measures->remaining());
  if (trial->parsed()) return be_trial_rank();
  if (ways->parsed()) return show_paths(ways->remaining());
  if (costs->parsed()) return show_explanation(question);
  if (list->parsed()) return job.empty() ? list_jobs(json) : show_job(job);
  if (end->parsed()) return kill_jobs(jobs, now);
  return about->parsed() ? info(json, variables) : doctor(json);
}
