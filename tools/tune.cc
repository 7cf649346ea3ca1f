#include "tools/tune.h"

#include <config.h>
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/base/text.h"
#include "tools/explain.h"
#include "tools/report.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "Usage: weft tune [--output FILE] [--only COLLECTIVE,...] [--quick] [OPTIONS OF MPIRUN]\n"
    "       weft tune --words [FILE]\n\n"
    "Starts jobs (mpirun's options say where: -n 16 -H a,b), measures what messages cost and how long each algorithm of each collective "
    "takes,\n"
    "and adds that to a table, instead of what it had for as many ranks on as many hosts. mpirun hands the table to all jobs from then "
    "on;\n"
    "where another launcher starts ranks, rank 0 does.\n\n"
    "  --output FILE   the table [~/.config/weft/collectives.json; for all users: etc/weft/collectives.json where Weft is installed]\n"
    "  --only LIST     these collectives, such as bcast,allreduce\n"
    "  --quick         fewer sizes and repetitions: a first look\n"
    "  --words [FILE]  measures nothing; says what a table decides, in the words of WEFT_COLL\n";

std::string now_text() {
  const time_t now = time(nullptr);
  tm utc;
  gmtime_r(&now, &utc);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

/// A child's output and errors, line by line. Returns how it ended, as a shell says it.
template <class Take>
Result<int> run_and_read(std::vector<std::string> words, Take take) {
  int ends[2];
  if (pipe(ends) != 0) return Failure{std::string("no pipe: ") + strerror(errno)};
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    execv(list[0], list.data());
    _exit(127);
  }
  close(ends[1]);
  if (child < 0) return close(ends[0]), Failure{std::string("no process: ") + strerror(errno)};
  FILE* const in = fdopen(ends[0], "r");
  char* line = nullptr;
  size_t room = 0;
  for (ssize_t n; in && (n = getline(&line, &room, in)) >= 0;)
    take(std::string_view(line, static_cast<size_t>(n - (n > 0 && line[n - 1] == '\n'))));
  free(line);
  if (in) fclose(in);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Replaces the file in one step, so that jobs that start meanwhile read the old one or the new one.
Result<void> write_table(const config::CollTable& table, const std::string& file) {
  std::error_code error;
  const fs::path folder = fs::path(file).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  const std::string fresh = file + "." + std::to_string(getpid());
  std::ofstream out(fresh, std::ios::binary);
  out << table.to_json();
  out.close();
  if (!out) return Failure{"cannot write " + fresh + ": " + strerror(errno)};
  fs::rename(fresh, file, error);
  if (error) return fs::remove(fresh, error), Failure{"cannot write " + file};
  return {};
}

/// For people: where the table overrules the library, and by how much.
void show(const config::CollTable& table) {
  size_t overruled = 0;
  std::printf("%-16s %6s %6s %10s  %-22s %10s  %-22s %10s\n", "collective", "ranks", "hosts", "bytes", "fastest", "", "without the table",
              "");
  for (const auto& m : table.measurements) {
    const auto& best = m.best();
    const auto usual = std::ranges::find(m.times, m.usual, &config::CollTable::Time::algorithm);
    if (usual == m.times.end() || &*usual == &best) continue;
    ++overruled;
    std::printf("%-16s %6d %6d %10llu  %-22s %10s  %-22s %10s\n", m.collective.c_str(), m.ranks, m.hosts,
                static_cast<unsigned long long>(m.bytes), best.algorithm.c_str(), show_time(best.ns).c_str(), usual->algorithm.c_str(),
                show_time(usual->ns).c_str());
  }
  std::printf("\n%zu of %zu sizes run another algorithm by the table; the others what they ran before, or no more than 5 %% better.\n",
              overruled, table.measurements.size());
}

int say_words(const std::string& wanted) {
  const char* const variable = getenv("WEFT_COLL_TABLE");
  const std::string file = config::find_coll_table(wanted.empty() ? (variable ? variable : "") : wanted, own_folder());
  if (file.empty()) return std::fprintf(stderr, "weft tune: there is no table\n"), 1;
  const auto table = config::CollTable::read(file);
  if (!table) return std::fprintf(stderr, "weft tune: %s\n", table.failure().text.c_str()), 1;
  std::printf("%s\n", table->words(INT32_MAX).c_str());
  return 0;
}

void pass_on(std::string_view line) { std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data()); }

/// Jobs that copy messages once and twice take turns.
Result<std::map<std::string, config::CollTable::Number>> measure_settings(const TuneWish& wish) {
  constexpr int kRounds = 2;
  std::fprintf(stderr, "weft tune: copying within a host\n");
  CopyingReport report;
  for (int i = 0; i < 2 * kRounds; ++i) {
    const bool once = i % 2;
    std::vector<std::string> options{"--set", "shm.read=no"};
    for (const std::string& setting : config::measured_settings())
      options.insert(options.end(), {"--set", setting + (once ? "=1" : "=1G")});
    const auto run = run_tuning_job(wish, options, {"copying"}, [&](std::string_view line) {
      if (!report.take(line, once)) pass_on(line);
    });
    if (!run) return run.failure();
  }
  return report.settings();
}

Result<config::CollTable> measure(const TuneWish& wish) {
  TuneReport report;
  const auto run = run_tuning_job(wish, {"--report-paths"}, {wish.quick ? "quick" : "whole", wish.only}, [&](std::string_view line) {
    if (!report.take(line)) pass_on(line);
  });
  if (!run) return run.failure();
  auto table = report.done();
  if (!table) return table;
  auto settings = measure_settings(wish);
  if (!settings) return settings.failure();
  table->settings = std::move(*settings);
  return table;
}

/// What the library takes without a table is in docs/collectives.md.
void show_settings(const config::CollTable& table) {
  for (const auto& [name, number] : table.settings) std::printf("Best value of %s: %.0f.\n", name.c_str(), number.value);
}

}  // namespace

Result<void> run_tuning_job(const TuneWish& wish, const std::vector<std::string>& options, const std::vector<std::string>& arguments,
                            const std::function<void(std::string_view)>& take) {
  std::vector<std::string> words = {own_folder() + "/mpirun"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), wish.mpirun.begin(), wish.mpirun.end());
  words.insert(words.end(), {own_folder() + "/weft", "tuning-rank"});
  words.insert(words.end(), arguments.begin(), arguments.end());
  const auto ended = run_and_read(words, take);
  if (!ended) return ended.failure();
  if (*ended) return Failure{"the job that measures has ended with status " + std::to_string(*ended)};
  return {};
}

bool CopyingReport::take(std::string_view line, bool once) {
  if (!line.starts_with(kTuneMark)) return false;
  const auto words = split(line.substr(kTuneMark.size()), '\t');
  uint64_t bytes = 0;
  double ns = 0;
  if (words[0] != "copying" || words.size() != 4 || !read_number(words[2], bytes) || !read_number(words[3], ns)) return true;
  crowded_ = words[1] == "crowded";
  double& least = ns_[once].try_emplace(bytes, ns).first->second;
  least = std::min(least, ns);
  return true;
}

std::map<std::string, config::CollTable::Number> CopyingReport::settings() const {
  constexpr double kNever = 1 << 30, kFaster = 0.98;  // where both are alike accidents decide nothing
  if (ns_[1].empty()) return {};
  double from = kNever;
  for (auto size = ns_[1].rbegin(); size != ns_[1].rend(); ++size) {
    const auto twice = ns_[0].find(size->first);
    if (twice == ns_[0].end() || size->second > kFaster * twice->second) break;
    from = static_cast<double>(size->first);
  }
  return {{crowded_ ? "shm.get_from_crowded" : "shm.get_from", {from, 0}}};
}

Result<TuneWish> read_tune_wish(const std::vector<std::string>& options) {
  TuneWish wish;
  for (size_t i = 0; i < options.size(); ++i) {
    const std::string& option = options[i];
    const bool more = i + 1 < options.size();
    if (option == "--quick") {
      wish.quick = true;
    } else if (option == "--words") {
      wish.words = true;
      if (more) wish.output = options[++i];
    } else if (option == "--output" || option == "--only") {
      if (!more) return Failure{option + " needs a value"};
      (option == "--only" ? wish.only : wish.output) = options[++i];
    } else {
      wish.mpirun.push_back(option);
    }
  }
  return wish;
}

bool TuneReport::take(std::string_view line) {
  if (line.starts_with("weft: paths of ")) return true;
  if (line.starts_with("weft:   not used")) return true;
  if (line.starts_with("weft:   within a host") || line.starts_with("weft:   between hosts") || line.starts_with("weft:   one rank")) {
    if (table_.runs.empty()) table_.runs.emplace_back();
    table_.runs[0].network.emplace_back(line.substr(8));
    return true;
  }
  if (!line.starts_with(kTuneMark)) return false;
  if (table_.runs.empty()) table_.runs.emplace_back();
  const auto words = split(line.substr(kTuneMark.size()), '\t');
  if (words[0] == "host" && words.size() == 2) {
    table_.runs[0].hosts.emplace_back(words[1]);
  } else if (words[0] == "ranks" && words.size() == 3) {
    (void)read_number(words[1], table_.runs[0].ranks);
    table_.runs[0].cpu = words[2];
  } else if (words[0] == "machine" && words.size() == 3) {
    double value = 0;
    if (read_number(words[2], value)) table_.machine[std::string(words[1])] = {value, 0};
  } else if (words[0] == "time" && words.size() >= 6) {
    config::CollTable::Measurement m;
    m.collective = words[1];
    m.usual = words[5];
    bool right = read_number(words[2], m.ranks) && read_number(words[3], m.hosts) && read_number(words[4], m.bytes);
    for (size_t i = 6; i + 1 < words.size(); i += 2) {
      m.times.push_back({std::string(words[i]), 0});
      right = read_number(words[i + 1], m.times.back().ns) && right;
    }
    if (right && !m.times.empty()) table_.measurements.push_back(std::move(m));
  } else if (words[0] == "end") {
    complete_ = true;
  }
  return true;
}

Result<config::CollTable> TuneReport::done() const {
  if (!complete_) return Failure{"the job that measures has not come to its end"};
  config::CollTable table = table_;
  table.runs[0].date = now_text();
  table.runs[0].weft = PACKAGE_VERSION;
  return config::CollTable::parse(table.to_json());  // what is no table is found here, not at the start of the next job
}

int tune(const std::vector<std::string>& options) {
  const auto failed = [](const std::string& why) { return std::fprintf(stderr, "weft tune: %s\n", why.c_str()), 1; };
  if (std::ranges::find(options, "--help") != options.end()) return std::fputs(kUsage, stdout), 0;
  const auto wish = read_tune_wish(options);
  if (!wish) return failed(wish.failure().text);
  if (wish->words) return say_words(wish->output);
  const std::string file = wish->output.empty() ? config::own_coll_table() : wish->output;
  if (file.empty()) return failed("there is no home for the table: name one, --output FILE");
  config::CollTable all;
  if (access(file.c_str(), F_OK) == 0) {
    auto old = config::CollTable::read(file);
    if (!old) return failed(old.failure().text + "; name another file, or remove this one");
    all = std::move(*old);
  }
  setenv("WEFT_COLL_TABLE", "none", 1);  // measured is what runs without one
  unsetenv("WEFT_COLL");
  const auto found = measure(*wish);
  if (!found) return failed(found.failure().text);
  all.merge(*found);
  if (const auto written = write_table(all, file); !written) return failed(written.failure().text);
  show(*found);
  show_settings(*found);
  std::printf("Kept in %s.\n", file.c_str());
  return 0;
}

}  // namespace weft::tools
