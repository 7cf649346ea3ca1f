// `weft ps` and `weft kill`: the jobs of this user on this host.
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/boot/job_record.h"
#include "tools/report.h"

namespace weft::tools {
namespace {

using boot::JobRecord;

std::string age(int64_t since) {
  const long long s = std::max<long long>(0, time(nullptr) - since);
  char text[64];
  if (s < 3600)
    snprintf(text, sizeof text, "%lld:%02lld", s / 60, s % 60);
  else
    snprintf(text, sizeof text, "%lldd-%02lld:%02lld:%02lld" + (s < 86400 ? 5 : 0), s / 86400, s / 3600 % 24, s / 60 % 60, s % 60);
  return text;
}

/// What a rank is doing: state letter of the kernel, or "gone". A process that is not the launcher's child only has its number.
std::string state_of(const boot::JobMapLine& line, const JobRecord& job) {
  std::ifstream file("/proc/" + std::to_string(line.pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(')');
  char state = '?';
  long parent = 0;
  if (end == std::string::npos || sscanf(text.c_str() + end + 1, " %c %ld", &state, &parent) != 2) return "gone";
  if (parent != job.launcher.pid || state == 'Z') return "gone";
  return state == 'R' ? "runs" : state == 'T' || state == 't' ? "stopped" : state == 'D' ? "waits for a device" : "waits";
}

/// Where mpirun is, if not here.
std::string elsewhere(const JobRecord& job) {
  return job.origin.empty() ? "" : "mpirun is pid " + std::to_string(job.origin_pid) + " on " + job.origin;
}

/// Waits until nobody holds the job's folder; false after `milliseconds`.
bool ends_within(const JobRecord& job, int milliseconds) {
  for (int waited = 0; boot::job_lives(job); waited += 20) {
    if (waited >= milliseconds) return false;
    const timespec nap{0, 20'000'000};
    nanosleep(&nap, nullptr);
  }
  return true;
}

/// One job; what went wrong, or nothing.
std::string kill_job(const std::string& name, bool now) {
  const auto job = boot::find_job(name);
  if (!job) return job.failure().text;
  if (job->life == JobRecord::Life::dead) return job->job + " is dead already; the next mpirun removes " + job->folder;
  if (job->life == JobRecord::Life::elsewhere) return job->job + " runs in another container; end it there";
  constexpr int patience_ms = 5000, cleaning_ms = 5000;
  if (job->life == JobRecord::Life::running) {
    const auto sent = boot::signal_job(*job, now ? SIGKILL : SIGTERM);
    if (!sent && boot::job_lives(*job)) return sent.failure().text;
    if (!now && !ends_within(*job, patience_ms)) (void)bool(boot::signal_job(*job, SIGKILL));  // its guardian then ends the ranks
  }
  if (!ends_within(*job, cleaning_ms)) return job->job + " has been signalled and has not ended yet";
  std::printf("%s has ended\n", job->job.c_str());
  return {};
}

}  // namespace

int list_jobs(bool json) {
  const std::vector<JobRecord> jobs = boot::list_jobs();
  if (json) {
    std::printf("%s\n", to_json(jobs).c_str());
    return 0;
  }
  if (jobs.empty()) {
    std::printf("no jobs of yours under %s\n", boot::temporary_root().c_str());
    return 0;
  }
  std::printf("%-32s %8s %6s %12s %-9s %s\n", "JOB", "PID", "RANKS", "AGE", "STATE", "COMMAND");
  for (const JobRecord& j : jobs)
    std::printf("%-32s %8d %6u %12s %-9s %s%s\n", j.job.c_str(), int(j.launcher.pid), j.ranks, age(j.since).c_str(), to_string(j.life),
                j.command.c_str(), j.origin.empty() ? "" : (" (" + elsewhere(j) + ")").c_str());
  return 0;
}

int show_job(const std::string& name) {
  const auto job = boot::find_job(name);
  if (!job) {
    std::fprintf(stderr, "weft ps: %s\n", job.failure().text.c_str());
    return 1;
  }
  std::printf("job        %s, %s since %s\ncommand    %s\ndirectory  %s\nfolder     %s\n\n%6s %8s %-16s %-18s %s\n", job->job.c_str(),
              to_string(job->life), age(job->since).c_str(), job->command.c_str(), job->directory.c_str(), job->folder.c_str(), "RANK",
              "PID", "HOST", "STATE", "PROGRAM");
  if (!job->origin.empty()) std::printf("%6s %8s %-16s ranks of this host only: %s\n", "", "", "", elsewhere(*job).c_str());
  for (const auto& line : boot::read_map(job->folder))
    std::printf("%6u %8d %-16s %-18s %s\n", line.rank, int(line.pid), line.host.c_str(),
                line.host == job->host ? state_of(line, *job).c_str() : "", line.program.c_str());
  if (const std::string messages = boot::read_messages(job->folder); !messages.empty()) std::printf("\nmessages\n%s", messages.c_str());
  return 0;
}

int kill_jobs(const std::vector<std::string>& names, bool now) {
  int failed = 0;
  for (const std::string& name : names) {
    const std::string why = kill_job(name, now);
    if (why.empty()) continue;
    std::fprintf(stderr, "weft kill: %s\n", why.c_str());
    failed = 1;
  }
  return failed;
}

}  // namespace weft::tools
