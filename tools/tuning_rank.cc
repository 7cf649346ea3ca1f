// The program of the job that `weft tune` starts: measures, and rank 0 says what. It knows MPI by the library beside it.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <thread>

#include "coll/hosts.h"
#include "coll/network.h"
#include "coll/select.h"
#include "coll/shape.h"
#include "coll/wish.h"
#include "include/mpi.h"
#include "runtime/config/config.h"
#include "runtime/topo/cpus.h"
#include "tools/report.h"
#include "tools/tune.h"

namespace weft::tools {
namespace {

using coll::Pattern;

/// The functions of MPI that are called here.
struct Mpi {
  decltype(&MPI_Init) init;
  decltype(&MPI_Finalize) finalize;
  decltype(&MPI_Comm_rank) comm_rank;
  decltype(&MPI_Comm_size) comm_size;
  decltype(&MPI_Comm_dup_with_info) comm_dup_with_info;
  decltype(&MPI_Comm_free) comm_free;
  decltype(&MPI_Info_create) info_create;
  decltype(&MPI_Info_set) info_set;
  decltype(&MPI_Info_free) info_free;
  decltype(&MPI_Get_processor_name) get_processor_name;
  decltype(&MPI_Wtime) wtime;
  decltype(&MPI_Send) send;
  decltype(&MPI_Recv) recv;
  decltype(&MPI_Isend) isend;
  decltype(&MPI_Waitall) waitall;
  decltype(&MPI_Reduce_local) reduce_local;
  decltype(&MPI_Barrier) barrier;
  decltype(&MPI_Bcast) bcast;
  decltype(&MPI_Gather) gather;
  decltype(&MPI_Scatter) scatter;
  decltype(&MPI_Allgather) allgather;
  decltype(&MPI_Alltoall) alltoall;
  decltype(&MPI_Reduce) reduce;
  decltype(&MPI_Allreduce) allreduce;
  decltype(&MPI_Reduce_scatter_block) reduce_scatter_block;
  decltype(&MPI_Scan) scan;
  decltype(&MPI_Exscan) exscan;

  static Result<Mpi> load(const Library& library) {
    Mpi mpi;
    std::string missing;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library.symbol(name));
      if (!function) missing = name;
    };
    mpi.find_all(find);
    if (!missing.empty()) return Failure{library.file + " has no " + missing};
    return mpi;
  }

 private:
  template <class Find>
  void find_all(Find find) {
    find(init, "MPI_Init"), find(finalize, "MPI_Finalize"), find(comm_rank, "MPI_Comm_rank"), find(comm_size, "MPI_Comm_size");
    find(comm_dup_with_info, "MPI_Comm_dup_with_info"), find(comm_free, "MPI_Comm_free");
    find(info_create, "MPI_Info_create"), find(info_set, "MPI_Info_set"), find(info_free, "MPI_Info_free");
    find(get_processor_name, "MPI_Get_processor_name"), find(wtime, "MPI_Wtime");
    find(send, "MPI_Send"), find(recv, "MPI_Recv"), find(isend, "MPI_Isend"), find(waitall, "MPI_Waitall");
    find(reduce_local, "MPI_Reduce_local"), find(barrier, "MPI_Barrier"), find(bcast, "MPI_Bcast"), find(gather, "MPI_Gather");
    find(scatter, "MPI_Scatter"), find(allgather, "MPI_Allgather"), find(alltoall, "MPI_Alltoall"), find(reduce, "MPI_Reduce");
    find(allreduce, "MPI_Allreduce"), find(reduce_scatter_block, "MPI_Reduce_scatter_block"), find(scan, "MPI_Scan");
    find(exscan, "MPI_Exscan");
  }
};

const MPI_Comm kWorld = MPI_COMM_WORLD;

/// The ranks of the job and where they are, and what all of this needs.
class Trial {
 public:
  Trial(const Mpi& mpi, bool quick) : mpi_(mpi), quick_(quick) {
    mpi.comm_rank(kWorld, &rank_);
    mpi.comm_size(kWorld, &size_);
    std::vector<char> names(static_cast<size_t>(size_) * MPI_MAX_PROCESSOR_NAME);
    char own[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    mpi.get_processor_name(own, &length);
    mpi.allgather(own, sizeof own, MPI_CHAR, names.data(), sizeof own, MPI_CHAR, kWorld);
    std::map<std::string, int32_t> numbers;
    for (int r = 0; r < size_; ++r) {
      const std::string name = names.data() + static_cast<size_t>(r) * MPI_MAX_PROCESSOR_NAME;
      const auto [found, fresh] = numbers.try_emplace(name, static_cast<int32_t>(numbers.size()));
      if (fresh) names_.push_back(name);
      host_of_.push_back(found->second);
    }
    spread_ = names_.size() > 1;
    in_.assign(kRoom / sizeof(double), 1);
    out_.assign(kRoom / sizeof(double), 1);
  }

  /// The machine, and the algorithms of collectives: of those named, or of all.
  void measure_all(const std::string& only);
  void measure_copying();

 private:
  void introduce() const;
  void measure_machine();
  void measure_network(const coll::Hosts& hosts);
  void measure_collectives(const std::string& only);

  static constexpr double kNever = std::numeric_limits<double>::max();
  static constexpr size_t kRoom = size_t{8} << 20;
  static constexpr int kWarmUp = 10;
  struct Candidate {
    std::string name;
    MPI_Comm comm = MPI_COMM_NULL;
    double ns = kNever;
    int rounds = 0, turns = 1;
  };

  double now_ns() const { return mpi_.wtime() * 1e9 - offset_ns_; }
  /// What is largest among all ranks.
  double most(double mine) const {
    double all = mine;
    mpi_.allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, kWorld);
    return all;
  }
  /// Says a number that a rank has measured.
  void say_number(const char* name, double value, int of_rank) const {
    mpi_.bcast(&value, 1, MPI_DOUBLE, of_rank, kWorld);
    if (rank_ == 0) std::printf("%.*smachine\t%s\t%.6g\n", int(kTuneMark.size()), kTuneMark.data(), name, std::max(value, 0.0));
  }
  template <class Work>
  double fastest(int turns, Work work) const {
    double least = std::numeric_limits<double>::max();
    for (int i = 0; i < turns; ++i) {
      const double begin = now_ns();
      work();
      least = std::min(least, now_ns() - begin);
    }
    return least;
  }

  void agree_on_time();
  bool begin_together();
  double ping_pong(int other, bool first, int bytes, int turns);
  double burst(int other, bool first, bool of_sender);
  void measure_path(const char* level, int a, int b);
  void measure_link(const char* name, const std::vector<int>& from, const std::vector<int>& to);
  /// The host of each rank.
  std::vector<std::string> hosts_by_rank() const {
    std::vector<std::string> all;
    for (const int32_t host : host_of_) all.push_back(names_[static_cast<size_t>(host)]);
    return all;
  }

  std::vector<Candidate> candidates(Pattern, const coll::Topology&, int32_t hosts) const;
  void run_once(Pattern, MPI_Comm, int count);
  double time_of(Pattern, const Candidate&, int count, int turns);
  void measure_size(Pattern, std::vector<Candidate>&, uint64_t bytes, const coll::Topology&, int32_t hosts);

  const Mpi& mpi_;
  const bool quick_;
  int rank_ = 0, size_ = 1;
  std::vector<std::string> names_;  // of hosts
  std::vector<int32_t> host_of_;    // by rank
  std::vector<double> in_, out_;
  bool spread_ = false;   // over several hosts, whose clocks differ
  double offset_ns_ = 0;  // by which the own clock is ahead of that of rank 0
  double notice_ns_ = 0;  // after which all ranks know what they have agreed on
  double begin_ns_ = 0;   // of the turn
};

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  return "";
}

void Trial::introduce() const {
  if (rank_ != 0) return;
  const std::string mark(kTuneMark);
  std::printf("%sranks\t%d\t%s\n", mark.c_str(), size_, cpu_model().c_str());
  for (const std::string& name : names_) std::printf("%shost\t%s\n", mark.c_str(), name.c_str());
}

/// Half of the fastest turn, in ns.
double Trial::ping_pong(int other, bool first, int bytes, int turns) {
  const auto turn = [&] {
    if (first) mpi_.send(in_.data(), bytes, MPI_CHAR, other, 1, kWorld);
    mpi_.recv(out_.data(), bytes, MPI_CHAR, other, 1, kWorld, MPI_STATUS_IGNORE);
    if (!first) mpi_.send(in_.data(), bytes, MPI_CHAR, other, 1, kWorld);
  };
  for (int i = 0; i < kWarmUp; ++i) turn();
  return fastest(turns, turn) / 2;
}

/// What a message costs the processor of its sender, or of the receiver once it is there, in ns.
double Trial::burst(int other, bool first, bool of_sender) {
  constexpr int kMessages = 32;
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round < 20; ++round) {
    double begin = now_ns();
    if (first) {
      MPI_Request requests[kMessages];
      for (MPI_Request& request : requests) mpi_.isend(in_.data(), 8, MPI_CHAR, other, 2, kWorld, &request);
      if (of_sender) least = std::min(least, now_ns() - begin);
      mpi_.send(in_.data(), 8, MPI_CHAR, other, 3, kWorld);
      mpi_.waitall(kMessages, requests, MPI_STATUSES_IGNORE);
      mpi_.recv(out_.data(), 8, MPI_CHAR, other, 3, kWorld, MPI_STATUS_IGNORE);
    } else {
      mpi_.recv(out_.data(), 8, MPI_CHAR, other, 3, kWorld, MPI_STATUS_IGNORE);  // the others have come before
      begin = now_ns();
      for (int i = 0; i < kMessages; ++i) mpi_.recv(out_.data(), 8, MPI_CHAR, other, 2, kWorld, MPI_STATUS_IGNORE);
      if (!of_sender) least = std::min(least, now_ns() - begin);
      mpi_.send(in_.data(), 8, MPI_CHAR, other, 3, kWorld);
    }
  }
  return least / kMessages;
}

/// A message between two ranks, in the terms of coll::Path.
void Trial::measure_path(const char* level, int a, int b) {
  constexpr int kLong = 1 << 20;
  double small = 0, large = 0, send = 0, receive = 0;
  mpi_.barrier(kWorld);
  if (rank_ == a || rank_ == b) {
    const int other = rank_ == a ? b : a;
    small = ping_pong(other, rank_ == a, 8, 500);
    large = ping_pong(other, rank_ == a, kLong, 20);
    send = burst(other, rank_ == a, true);
    receive = burst(other, rank_ == b, false);
  }
  mpi_.barrier(kWorld);
  const std::string name = level;
  // Both bursts were timed at rank a: as sender of the first and as receiver of the second.
  send = std::min(send, small / 2);
  receive = std::min(receive, small / 2);
  say_number((name + ".latency").c_str(), small - send - receive, a);
  say_number((name + ".per_byte").c_str(), (large - small) / kLong, a);
  say_number((name + ".send").c_str(), send, a);
  say_number((name + ".receive").c_str(), receive, a);
}

/// These ranks send to those at the same time.
void Trial::measure_link(const char* name, const std::vector<int>& from, const std::vector<int>& to) {
  constexpr int kLong = 1 << 20, kTurns = 5;
  const size_t pairs = std::min(from.size(), to.size());
  double least = std::numeric_limits<double>::max();
  for (int turn = 0; turn < kTurns; ++turn) {
    mpi_.barrier(kWorld);
    const double begin = now_ns();
    for (size_t i = 0; i < pairs; ++i) {
      if (rank_ == from[i]) mpi_.send(in_.data(), kLong, MPI_CHAR, to[i], 4, kWorld);
      if (rank_ == to[i]) mpi_.recv(out_.data(), kLong, MPI_CHAR, from[i], 4, kWorld, MPI_STATUS_IGNORE);
    }
    least = std::min(least, most(now_ns() - begin));
  }
  say_number(name, least / (static_cast<double>(pairs) * kLong), 0);
}

/// The ways between hosts: to one behind the same switch as the first host, and to one behind another switch, as far as switches are known.
void Trial::measure_network(const coll::Hosts& hosts) {
  const auto levels = coll::levels_of(hosts_by_rank());
  const coll::Shape shape = levels ? coll::Shape::of(*levels) : coll::Shape::blocks(size_, hosts.count());
  const int first = hosts.on(0)[0];
  int near = hosts.on(1)[0], far = hosts.on(hosts.count() - 1)[0];
  std::vector<int> here, there;  // the ranks behind the first switch, those behind another one
  for (int r = size_ - 1; r >= 0; --r) {
    if (shape.leaf(r) != shape.leaf(first)) far = r;
    if (shape.leaf(r) == shape.leaf(first) && shape.host(r) != shape.host(first)) near = r;
  }
  for (int r = 0; r < size_; ++r)
    if (shape.leaf(r) == shape.leaf(first) || shape.leaf(r) == shape.leaf(far))
      (shape.leaf(r) == shape.leaf(first) ? here : there).push_back(r);
  measure_path("leaf", first, near);
  measure_path("far", first, far);
  measure_link("host_link", hosts.on(0), hosts.on(hosts.of(near)));
  if (shape.leaves() > 1) measure_link("uplink", here, there);
}

void Trial::measure_machine() {
  constexpr size_t kNumbers = size_t{1} << 16;
  const coll::Hosts hosts(host_of_);
  const auto& first = hosts.on(0);
  if (first.size() > 1) {
    measure_path("cache", first[0], first[1]);
    measure_path("host", first[0], first.back());
  }
  if (hosts.count() > 1) measure_network(hosts);
  constexpr double kBytes = sizeof(double) * kNumbers;
  const double reduce = fastest(20, [&] { mpi_.reduce_local(in_.data(), out_.data(), kNumbers, MPI_DOUBLE, MPI_SUM); });
  const double copy = fastest(20, [&] {
    std::memcpy(out_.data(), in_.data(), sizeof(double) * kNumbers);
    asm volatile("" ::: "memory");
  });
  say_number("reduce", reduce / kBytes, 0);
  say_number("copy", copy / kBytes, 0);
}

/// Between the ranks of the first host, two and two, all at the same time.
void Trial::measure_copying() {
  constexpr size_t kLeast = size_t{16} << 10, kMost = size_t{32} << 20, kAltogether = size_t{128} << 20;
  const coll::Hosts hosts(host_of_);
  const auto& local = hosts.on(0);
  const size_t pairs = local.size() / 2, place = static_cast<size_t>(std::ranges::find(local, rank_) - local.begin());
  const size_t cpus = std::min<size_t>(topo::cgroup_cpus(), static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))));
  const bool crowded = topo::crowded(local.size(), cpus);
  for (auto* memory : {&in_, &out_}) memory->assign(place < 2 * pairs ? kMost / sizeof(double) : 1, 1);
  for (size_t bytes = kLeast; bytes <= kMost && pairs > 0; bytes *= 2) {
    const int turns = static_cast<int>(std::clamp<size_t>(kAltogether / bytes / pairs, 3, 300));
    mpi_.barrier(kWorld);
    if (place >= 2 * pairs) continue;
    const double begin = now_ns(), least = ping_pong(local[place ^ 1], place % 2 == 0, static_cast<int>(bytes), turns);
    const double mean = (now_ns() - begin) / (turns + kWarmUp) / 2;
    if (place != 0) continue;
    std::printf("%.*scopying\t%s\t%zu\t%.1f\n", int(kTuneMark.size()), kTuneMark.data(), crowded ? "crowded" : "alone", bytes,
                crowded ? mean : least);
  }
  mpi_.barrier(kWorld);
}

std::vector<Trial::Candidate> Trial::candidates(Pattern pattern, const coll::Topology& topology, int32_t hosts) const {
  std::vector<Candidate> all;
  for (const coll::Algorithm& a : coll::algorithms())
    if (a.pattern == pattern && a.usable(topology, size_, {}, false)) all.push_back({a.name});
  if (hosts == 1 && size_ > 1 && coll::has_node_kernel(pattern)) all.push_back({"node"});
  for (Candidate& c : all) {
    MPI_Info info;
    mpi_.info_create(&info);
    mpi_.info_set(info, "weft_coll", (std::string(to_string(pattern)) + "=" + c.name).c_str());
    mpi_.info_set(info, "weft_reproducible", "no");  // whatever the user has set: tables are for the usual mode
    mpi_.comm_dup_with_info(kWorld, info, &c.comm);
    mpi_.info_free(&info);
  }
  return all;
}

void Trial::run_once(Pattern pattern, MPI_Comm comm, int n) {
  double *const in = in_.data(), *const out = out_.data();
  switch (pattern) {
    case Pattern::barrier: mpi_.barrier(comm); break;
    case Pattern::bcast: mpi_.bcast(in, n, MPI_DOUBLE, 0, comm); break;
    case Pattern::gather: mpi_.gather(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, 0, comm); break;
    case Pattern::scatter: mpi_.scatter(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, 0, comm); break;
    case Pattern::allgather: mpi_.allgather(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, comm); break;
    case Pattern::alltoall: mpi_.alltoall(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, comm); break;
    case Pattern::reduce: mpi_.reduce(in, out, n, MPI_DOUBLE, MPI_MAX, 0, comm); break;
    case Pattern::allreduce: mpi_.allreduce(in, out, n, MPI_DOUBLE, MPI_MAX, comm); break;
    case Pattern::reduce_scatter: mpi_.reduce_scatter_block(in, out, n / size_, MPI_DOUBLE, MPI_MAX, comm); break;
    case Pattern::scan: mpi_.scan(in, out, n, MPI_DOUBLE, MPI_MAX, comm); break;
    case Pattern::exscan: mpi_.exscan(in, out, n, MPI_DOUBLE, MPI_MAX, comm); break;
    default: break;
  }
}

/// Makes now_ns() count from the same moment on all ranks, as well as the fastest of a few messages there and back can tell.
void Trial::agree_on_time() {
  constexpr int kTurns = 8;
  offset_ns_ = 0;
  for (int other = 1; other < size_; ++other) {
    if (rank_ != 0 && rank_ != other) continue;
    double least = std::numeric_limits<double>::max(), ahead = 0;
    for (int i = 0; i < kTurns; ++i) {
      double theirs = now_ns();
      if (rank_ == other) {
        mpi_.recv(&theirs, 1, MPI_DOUBLE, 0, 5, kWorld, MPI_STATUS_IGNORE);
        theirs = now_ns();
        mpi_.send(&theirs, 1, MPI_DOUBLE, 0, 5, kWorld);
        continue;
      }
      const double begin = now_ns();
      mpi_.send(&begin, 1, MPI_DOUBLE, other, 5, kWorld);
      mpi_.recv(&theirs, 1, MPI_DOUBLE, other, 5, kWorld, MPI_STATUS_IGNORE);
      const double took = now_ns() - begin;
      if (took < least) least = took, ahead = theirs - begin - took / 2;
    }
    if (rank_ == 0) mpi_.send(&ahead, 1, MPI_DOUBLE, other, 6, kWorld);
    if (rank_ == other) mpi_.recv(&offset_ns_, 1, MPI_DOUBLE, 0, 6, kWorld, MPI_STATUS_IGNORE);
  }
  double longest = 0;  // who comes last finds all messages there
  for (int i = 0; i < 5; ++i) {
    const double begin = now_ns();
    most(0);
    longest = std::max(longest, now_ns() - begin);
  }
  notice_ns_ = most(2 * longest);
}

/// Waits for a moment that is the same on all ranks; false on one that came too late.
bool Trial::begin_together() {
  constexpr double kSleep_ns = 2e5;
  const double begin = most(now_ns()) + notice_ns_ + kSleep_ns;
  if (now_ns() > begin) return false;
  if (const double left = begin - now_ns() - kSleep_ns; left > 0)
    std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<int64_t>(left)));
  while (now_ns() < begin) std::this_thread::yield();
  begin_ns_ = begin;
  return true;
}

/// Until the last rank is done, in ns. On one host all begin when they leave a barrier. In a network, who leaves barriers late would find
/// its data there, again and again: there all begin at an agreed time, and of the turns the fastest one counts.
double Trial::time_of(Pattern pattern, const Candidate& c, int count, int turns) {
  constexpr double kLongestNotice_ns = 1e9;
  double sum = 0, least = kNever;
  for (int i = 0; i < turns; ++i) {
    bool in_time = true;
    if (spread_)
      in_time = begin_together();
    else
      mpi_.barrier(kWorld), begin_ns_ = now_ns();
    run_once(pattern, c.comm, count);
    const double took = now_ns() - begin_ns_;
    sum += took;
    if (!spread_) continue;
    const double longest = most(in_time ? took : kNever);
    if (longest == kNever) notice_ns_ = std::min(2 * notice_ns_, kLongestNotice_ns);  // on all ranks alike
    least = std::min(least, longest);
  }
  return spread_ ? least : most(sum / turns);
}

/// Candidates take turns; of each the fastest round counts: what other work delays says nothing of an algorithm.
void Trial::measure_size(Pattern pattern, std::vector<Candidate>& all, uint64_t bytes, const coll::Topology& topology, int32_t hosts) {
  constexpr double kRound_ns = 2e6, kHopeless = 8;
  int count = static_cast<int>(bytes / sizeof(double));
  if (pattern == Pattern::reduce_scatter) count = count / size_ * size_;
  double best = kNever;
  if (spread_) agree_on_time();  // each time, as clocks drift
  for (Candidate& c : all) {
    run_once(pattern, c.comm, count);
    c.ns = time_of(pattern, c, count, 3);
    c.turns = static_cast<int>(std::clamp(kRound_ns / std::max(c.ns, 1.0), spread_ ? 3.0 : 1.0, 200.0));
    best = std::min(best, c.ns);
  }
  for (int round = 0; round < (quick_ ? 3 : 9); ++round)
    for (Candidate& c : all)
      if (c.ns < kHopeless * best) c.ns = std::min(c.ns, time_of(pattern, c, count, c.turns));
  if (rank_ != 0 || std::ranges::count(all, kNever, &Candidate::ns) > 0) return;  // ranks were late all the time
  bytes = pattern == Pattern::barrier ? 0 : static_cast<uint64_t>(count) * sizeof(double);
  const coll::Agreed a{.pattern = pattern, .size = size_, .hosts = hosts, .bytes = bytes};
  const coll::Decision usual = coll::decide(a, topology, hosts == 1);
  std::printf("%.*stime\t%s\t%d\t%d\t%llu\t%s", int(kTuneMark.size()), kTuneMark.data(), to_string(pattern), size_, hosts,
              static_cast<unsigned long long>(bytes), usual.node ? "node" : usual.choice.algorithm->name);
  for (const Candidate& c : all) std::printf("\t%s\t%.1f", c.name.c_str(), c.ns);
  std::printf("\n");
}

bool of_blocks(Pattern p) { return p == Pattern::gather || p == Pattern::scatter || p == Pattern::allgather || p == Pattern::alltoall; }

void Trial::measure_collectives(const std::string& only) {
  constexpr uint64_t kLongest = uint64_t{4} << 20;
  const coll::Hosts hosts(host_of_);
  const auto levels = coll::levels_of(hosts_by_rank());
  const coll::Topology topology{.hosts = levels.get()};
  for (int p = 0; p < coll::kPatterns; ++p) {
    const auto pattern = static_cast<Pattern>(p);
    if (coll::among_neighbors(pattern) ||
        (!only.empty() && ("," + only + ",").find(std::string(",") + to_string(pattern) + ",") == only.npos))
      continue;
    if (rank_ == 0) std::fprintf(stderr, "weft tune: %s\n", to_string(pattern));
    auto all = candidates(pattern, topology, hosts.count());
    const uint64_t copies = of_blocks(pattern) ? static_cast<uint64_t>(size_) : 1;
    const uint64_t least = pattern == Pattern::reduce_scatter ? static_cast<uint64_t>(size_) * sizeof(double) : sizeof(double);
    for (uint64_t bytes = 8; bytes * copies <= kLongest; bytes *= quick_ ? 32 : 4) {
      if (bytes < least) continue;
      measure_size(pattern, all, bytes, topology, hosts.count());
      if (pattern == Pattern::barrier) break;
    }
    for (Candidate& c : all) mpi_.comm_free(&c.comm);
  }
}

void Trial::measure_all(const std::string& only) {
  introduce();
  measure_machine();
  measure_collectives(only);
  if (rank_ == 0) std::printf("%.*send\n", int(kTuneMark.size()), kTuneMark.data());
}

}  // namespace

int be_tuning_rank(const std::vector<std::string>& arguments) {
  const auto library = open_library();
  const auto mpi = library ? Mpi::load(*library) : Result<Mpi>(library.failure());
  const bool copying = arguments == std::vector<std::string>{"copying"};
  if (!mpi || (arguments.size() != 2 && !copying)) {
    std::fprintf(stderr, "weft: %s\n", mpi ? "tuning-rank is a part of weft tune" : mpi.failure().text.c_str());
    return 1;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (mpi->init(nullptr, nullptr)) return 1;
  // What the library would do without settings is what the table is measured against; but where hosts are is no setting.
  if (const char* const network = getenv("WEFT_COLL_NETWORK")) config::find("WEFT_COLL_NETWORK")->set(network, config::Origin::environment);
  {
    Trial trial(*mpi, arguments[0] == "quick");
    if (copying)
      trial.measure_copying();
    else
      trial.measure_all(arguments[1]);
  }
  return mpi->finalize();
}

}  // namespace weft::tools
