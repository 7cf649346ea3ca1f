// Draws a program from a seed, runs it, and compares everything that it receives with a sequential model. See README.md.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "part.h"

namespace random_test {

namespace {

constexpr int most_threads = 8;

struct Options {
  uint64_t seed = 1;
  int steps = 50;
  int threads = 1;
  unsigned limit = 0;  ///< seconds; 0: none
  bool trace = false;
  std::optional<std::map<int, std::set<int>>> only;  ///< step -> its parts; no parts: all
};

/// Which steps to run: "3,5.0,5.2,8-10".
std::map<int, std::set<int>> parse_steps(const char* text) {
  std::map<int, std::set<int>> steps;
  for (char* at = const_cast<char*>(text); *at != 0; at += *at == ',') {
    const int first = int(std::strtol(at, &at, 10));
    int last = first;
    if (*at == '-') last = int(std::strtol(at + 1, &at, 10));
    for (int i = first; i <= last; ++i) steps[i];
    if (*at == '.') steps[first].insert(int(std::strtol(at + 1, &at, 10)));
    if (*at != 0 && *at != ',') throw std::invalid_argument(std::string("steps: cannot understand \"") + at + "\"");
  }
  return steps;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--trace") {
      options.trace = true;
      continue;
    }
    if (++i == argc) throw std::invalid_argument(name + " needs a value");
    if (name == "--seed")
      options.seed = std::strtoull(argv[i], nullptr, 10);
    else if (name == "--count")
      options.steps = std::atoi(argv[i]);
    else if (name == "--threads")
      options.threads = std::min(std::max(std::atoi(argv[i]), 1), most_threads);
    else if (name == "--limit")
      options.limit = unsigned(std::atoi(argv[i]));
    else if (name == "--steps")
      options.only = parse_steps(argv[i]);
    else
      throw std::invalid_argument("unknown option " + name);
  }
  return options;
}

/// What each thread is doing, for a report when it does not end.
char doing[most_threads][600];
int world_rank = 0;

void report_hang(int) {
  char line[800];
  for (const char* text : doing) {
    if (text[0] == 0) continue;
    const int length = std::snprintf(line, sizeof line, "FAILED: rank %d does not end: %s\n", world_rank, text);
    if (write(2, line, size_t(length)) < 0) break;
  }
  sleep(2);  // the others say it as well, before the first that exits takes them down
  _exit(3);
}

/// The program of one thread.
class Program {
 public:
  Program(const Options& options, int thread, const Comm& first)
      : options_(options), thread_(thread), seed_(mix(options.seed, uint64_t(thread))), pool_(first, seed_, wanted()) {}

  void run() {
    for (int step : steps()) run_step(step);
  }

 private:
  std::vector<int> steps() const {
    std::vector<int> all;
    for (int i = 0; i < options_.steps; ++i) {
      if (!options_.only || options_.only->contains(i)) all.push_back(i);
    }
    return all;
  }
  Rng step_rng(int step) const { return Rng(mix(seed_, uint64_t(step) + 10000)); }
  static size_t draw_pool_index(Rng& rng) { return rng.chance(30) ? 0 : size_t(rng.below(Pool::size)); }
  std::vector<size_t> wanted() const {
    std::vector<size_t> all;
    for (int step : steps()) {
      Rng rng = step_rng(step);
      all.push_back(draw_pool_index(rng));
    }
    return all;
  }
  void say(int step, const Comm& comm, const std::string& text) {
    const std::string line = "step " + std::to_string(step) + " of thread " + std::to_string(thread_) + " on " + comm.text + " (rank " +
                             std::to_string(comm.rank) + " of " + std::to_string(comm.size()) + "): " + text;
    std::snprintf(doing[thread_], sizeof doing[0], "%s", line.c_str());
    if (options_.trace) std::fprintf(stderr, "[rank %d] %s\n", world_rank, line.c_str());
  }
  void run_step(int step);
  void run_parts(int step, const Comm& comm, Rng& rng);
  std::vector<std::unique_ptr<Part>> draw_parts(int step, const Comm& comm, Rng& rng);
  void run_round(const Comm& comm, const std::vector<std::unique_ptr<Part>>& parts, int round, Rng& local);

  const Options& options_;
  int thread_;
  uint64_t seed_;
  Pool pool_;
};

void Program::run_step(int step) {
  Rng rng = step_rng(step);
  const Comm& comm = pool_[draw_pool_index(rng)];
  const bool temporary = rng.chance(15);
  const uint64_t seed = rng.next();
  if (!comm.in()) return;
  if (!temporary) return run_parts(step, comm, rng);
  say(step, comm, "making a communicator");
  Comm made = draw_comm(comm, seed);
  if (!made.in()) return;
  run_parts(step, made, rng);
  say(step, made, "freeing the communicator");
  free_comm(made);
}

/// A part of messages between single ranks, by a number below 50.
std::unique_ptr<Part> draw_between_ranks(const Draw& draw, int64_t what) {
  if (what < 8 && !draw.alone && !draw.comm.exact) return draw_crowd(draw);
  if (what < 30) return draw_messages(draw);
  if (what < 38) return draw_partitioned(draw);
  if (what < 41 && !draw.comm.inter()) return draw_truncated(draw);
  return draw_exchange(draw);
}

/// At most one part sends messages between single ranks, so that tags tell them apart.
std::vector<std::unique_ptr<Part>> Program::draw_parts(int step, const Comm& comm, Rng& rng) {
  std::vector<std::unique_ptr<Part>> parts;
  const int count = rng.chance(50) ? 1 : int(rng.between(2, 4));
  const std::set<int> only = options_.only ? options_.only->at(step) : std::set<int>();
  std::string all;
  for (int i = 0; i < count; ++i) {
    if (!only.empty() && !only.contains(i)) continue;
    Rng kind(mix(mix(seed_, uint64_t(step) + 20000), uint64_t(i) + 77 * comm.id));
    const Draw draw{comm, kind.next(), int(step % 4000) * Draw::tags, options_.threads == 1};
    const int64_t what = kind.below(100);
    if (i == 0 && what < 50)
      parts.push_back(draw_between_ranks(draw, what));
    else if (comm.topology != Topology::none && kind.chance(60))
      parts.push_back(draw_neighbors(draw));
    else
      parts.push_back(what < 75 ? draw_movement(draw) : draw_reduction(draw));
    all += (all.empty() ? "" : " | ") + parts.back()->text();
  }
  say(step, comm, all);
  return parts;
}

void Program::run_parts(int step, const Comm& comm, Rng& rng) {
  const int rounds = rng.chance(70) ? 1 : int(rng.between(2, 3));
  Rng local(mix(rng.next(), uint64_t(comm.rank)));
  const auto parts = draw_parts(step, comm, rng);
  for (int round = 0; round < rounds; ++round) run_round(comm, parts, round, local);
}

void Program::run_round(const Comm& comm, const std::vector<std::unique_ptr<Part>>& parts, int round, Rng& local) {
  Pending pending(options_.threads > 1);
  bool fence = false;
  for (const auto& part : parts) {
    part->begin(round);
    fence |= part->fence();
  }
  for (const auto& part : parts) part->post(pending);
  for (const auto& part : parts) part->send(pending);
  for (const auto& part : parts) part->take(pending);
  pending.complete(local);
  for (const auto& part : parts) {
    try {
      part->check();
    } catch (const Failure& failure) {
      throw Failure(part->text() + ": round " + std::to_string(round) + ": " + failure.what());
    }
  }
  if (fence) ok(MPI_Barrier(comm.handle));
}

void run_thread(const Options& options, int thread, const Comm& first) {
  try {
    Program(options, thread, first).run();
    doing[thread][0] = 0;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "FAILED: rank %d, seed %llu: %s\n  %s\n", world_rank, static_cast<unsigned long long>(options.seed), doing[thread],
                 failure.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

void run(const Options& options) {
  const Session session;
  const Comm world = world_comm();
  world_rank = world.rank;
  if (options.limit > 0) {
    signal(SIGALRM, report_hang);
    alarm(options.limit);
  }
  std::vector<Comm> firsts(size_t(options.threads), world);
  for (Comm& first : firsts) {
    if (options.threads > 1) ok(MPI_Comm_dup(MPI_COMM_WORLD, &first.handle));
  }
  std::vector<std::thread> others;
  for (int i = 1; i < options.threads; ++i) others.emplace_back([&, i] { run_thread(options, i, firsts[size_t(i)]); });
  run_thread(options, 0, firsts[0]);
  for (std::thread& other : others) other.join();
  for (Comm& first : firsts) {
    if (options.threads > 1) ok(MPI_Comm_free(&first.handle));
  }
  alarm(0);
}

}  // namespace

}  // namespace random_test

int main(int argc, char** argv) {
  random_test::Options options;
  try {
    options = random_test::parse(argc, argv);
  } catch (const std::invalid_argument& wrong) {
    std::fprintf(stderr, "random: %s\n", wrong.what());
    return 2;
  }
  int level = 0;
  MPI_Init_thread(&argc, &argv, options.threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  random_test::run(options);
  MPI_Finalize();
  return 0;
}
