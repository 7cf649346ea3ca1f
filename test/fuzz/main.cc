// The driver: each target in a process of its own, which is watched. See README.md.
#include <fnmatch.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "test/fuzz/fuzz.h"

namespace weft::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWork = 20;                 // seconds of processor time after which an input counts as endless
constexpr double kSilence = 200;             // seconds after which it does so, too, in case that it sleeps
constexpr size_t kMemory = size_t{1} << 30;  // resident bytes beyond those at the start that count as unbounded

/// What a target's process is at, seen by the driver.
struct Progress {
  uint64_t inputs;
  uint64_t length;
  char bytes[kLongest];
};

struct Options {
  double seconds = 10;
  uint64_t seed = 0, most = UINT64_MAX;
  std::string only = "*", replay, corpus, findings = ".";
  bool list = false;
};

std::string from_hex(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string bytes, pair;
  for (char c; in.get(c);) {
    if (!isxdigit(static_cast<unsigned char>(c))) continue;
    pair += c;
    if (pair.size() == 2) bytes += char(std::stoi(std::exchange(pair, ""), nullptr, 16));
  }
  return bytes;
}

void write_hex(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream out(file);
  for (size_t i = 0; i < bytes.size(); ++i) {
    char pair[4];
    snprintf(pair, sizeof pair, "%02x%s", static_cast<unsigned char>(bytes[i]), i % 40 == 39 ? "\n" : "");
    out << pair;
  }
  out << "\n";
}

std::string file_name(std::string target) {
  std::ranges::replace(target, '/', '-');
  return target;
}

uint64_t seed_for(uint64_t seed, const std::string& target) {
  for (char c : target) seed = (seed ^ uint8_t(c)) * 0x100000001b3;
  return seed;
}

void give(const Target& target, std::string_view input, Progress& progress) {
  memcpy(progress.bytes, input.data(), std::min(input.size(), kLongest));
  progress.length = std::min(input.size(), kLongest);
  target.take(input);
  __atomic_add_fetch(&progress.inputs, 1, __ATOMIC_RELEASE);
}

/// The life of a target's process: what was found once, what is valid, then what is made of it.
void work(const Target& target, const Options& options, double seconds, Progress& progress) {
  if (!options.replay.empty()) return give(target, from_hex(options.replay), progress);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  if (!options.corpus.empty() && std::filesystem::is_directory(options.corpus))
    for (const auto& entry : std::filesystem::directory_iterator(options.corpus))
      if (entry.path().filename().string().starts_with(file_name(target.name) + ".")) give(target, from_hex(entry.path()), progress);
  for (const std::string& seed : target.seeds) give(target, seed, progress);
  Mutator mutator(seed_for(options.seed, target.name));
  while (Clock::now() < end && progress.inputs < options.most) give(target, mutator.make(target.seeds), progress);
}

size_t resident(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/statm");
  size_t total = 0, here = 0;
  in >> total >> here;
  return here * size_t(sysconf(_SC_PAGESIZE));
}

double seconds_on(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

/// Watches a target's process; why it is a finding, or nothing.
std::string watch(pid_t pid, const Progress& progress) {
  clockid_t work = CLOCK_MONOTONIC;
  clock_getcpuclockid(pid, &work);
  uint64_t seen = 0;
  double worked = seconds_on(work), since = seconds_on(CLOCK_MONOTONIC);
  const size_t at_start = resident(pid);
  for (;; usleep(10'000)) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) {
      if (WIFSIGNALED(status)) return std::string("died of ") + strsignal(WTERMSIG(status));
      return WEXITSTATUS(status) == 0 ? "" : "died";
    }
    if (const uint64_t now = __atomic_load_n(&progress.inputs, __ATOMIC_ACQUIRE); now != seen) {
      seen = now;
      worked = seconds_on(work);
      since = seconds_on(CLOCK_MONOTONIC);
    }
    std::string why;
    if (seconds_on(work) - worked > kWork || seconds_on(CLOCK_MONOTONIC) - since > kSilence) why = "does not end";
    if (resident(pid) > at_start + kMemory) why = "takes memory without bound";
    if (why.empty()) continue;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return why;
  }
}

/// True if nothing was found.
bool run(const Target& target, const Options& options, double seconds) {
  auto* progress = static_cast<Progress*>(mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  FILE* words = tmpfile();
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(fileno(words), 2);
    int status = 1;
    try {
      work(target, options, seconds, *progress);
      status = 0;
    } catch (const std::exception& e) {
      fprintf(stderr, "it threw: %s\n", e.what());
    }
    fflush(nullptr);
    _exit(status);
  }
  const std::string why = watch(pid, *progress);
  if (why.empty()) {
    printf("  %-24s %9llu inputs\n", target.name.c_str(), static_cast<unsigned long long>(progress->inputs));
  } else {
    const auto file = std::filesystem::path(options.findings) / ("finding-" + file_name(target.name) + ".hex");
    write_hex(file, {progress->bytes, progress->length});
    printf("FOUND  %s %s at input %llu of seed %llu: %s\n", target.name.c_str(), why.c_str(),
           static_cast<unsigned long long>(progress->inputs), static_cast<unsigned long long>(options.seed), file.c_str());
    rewind(words);
    char line[400];
    for (int i = 0; i < 40 && fgets(line, sizeof line, words); ++i) printf("       | %s", line);
  }
  fclose(words);
  munmap(progress, sizeof(Progress));
  return why.empty();
}

int drive(const Options& options) {
  Targets all;
  add_wires(all);
  add_messages(all);
  add_launcher(all);
  add_published(all);
  add_texts(all);
  std::erase_if(all, [&](const Target& t) { return fnmatch(options.only.c_str(), t.name.c_str(), 0) != 0; });
  if (all.empty()) return fprintf(stderr, "no target is called %s\n", options.only.c_str()), 2;
  int shares = 0, found = 0;
  for (const Target& target : all) shares += target.weight;
  if (!options.list) printf("seed %llu, %zu targets, %g s\n", static_cast<unsigned long long>(options.seed), all.size(), options.seconds);
  for (const Target& target : all) {
    if (options.list)
      printf("%s\n", target.name.c_str());
    else
      found += !run(target, options, options.seconds * target.weight / shares);
  }
  if (!options.list) printf("%d findings\n", found);
  return found > 0;
}

}  // namespace

void need(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

}  // namespace weft::fuzz

extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=768:detect_leaks=0:abort_on_error=1:disable_coredump=1"; }
extern "C" const char* __ubsan_default_options() { return "halt_on_error=1:abort_on_error=1:print_stacktrace=1"; }

int main(int argc, char** argv) {
  weft::fuzz::Options options;
  options.seed = std::random_device{}();
  CLI::App app("Gives damaged input to everything that reads from a wire, a file or another process.");
  app.add_option("--seconds", options.seconds, "time for all targets together");
  app.add_option("--seed", options.seed, "the same seed makes the same inputs");
  app.add_option("--inputs", options.most, "inputs per target at most");
  app.add_option("--target", options.only, "only these: a name or a glob");
  app.add_option("--replay", options.replay, "one input, in a file of hexadecimal digits");
  app.add_option("--corpus", options.corpus, "a folder with inputs that were findings, TARGET.NAME.hex");
  app.add_option("--findings", options.findings, "where to write new ones");
  app.add_flag("--list", options.list, "the names of all targets");
  CLI11_PARSE(app, argc, argv);
  setenv("WEFT_LOG", "error", 0);
  rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  return weft::fuzz::drive(options);
}
