// Long blocks from all to all, and from one to all, over and over: their owners write them anew as soon as a call is over, whoever may
// still want to read them. With WEFT_COLL_READ=always ranks of a node read them out of each other's memory, which MPI_T tells; with auto
// they do so now and then.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "check.h"
#include "counter.h"

using check::rank;
using check::ranks;

namespace {

using Vector = std::vector<long>;
const MPI_Comm world = MPI_COMM_WORLD;
constexpr int kRounds = 40;

long cell(int from, int to, int round, long i) { return from * 1'000'003L + to * 10'007L + round * 101L + i * 7; }

/// Blocks of so many cells from each rank, one after another.
struct Blocks {
  std::vector<int> counts, places;
  Vector cells;

  template <class Count>
  explicit Blocks(Count count) {
    int all = 0;
    for (int r = 0; r < ranks; ++r) {
      counts.push_back(count(r));
      places.push_back(all);
      all += counts.back();
    }
    cells.assign(size_t(all) + 1, -1);
  }
  long* block(int r) { return &cells[size_t(places[size_t(r)])]; }
  int count(int r) const { return counts[size_t(r)]; }
  void fill(int from, int to, int round) {
    const int r = from == rank ? to : from;
    for (long i = 0; i < count(r); ++i) block(r)[i] = cell(from, to, round, i);
  }
  bool came(int from, int to, int round) {
    for (long i = 0; i < count(from); ++i)
      if (block(from)[i] != cell(from, to, round, i)) return false;
    return true;
  }
  bool untouched() const { return cells.back() == -1; }
};

void allgathers(int round, int n) {
  Vector mine(static_cast<size_t>(n));
  for (long i = 0; i < n; ++i) mine[size_t(i)] = cell(rank, 0, round, i);
  Blocks all([n](int) { return n; });
  MPI_Allgather(mine.data(), n, MPI_LONG, all.cells.data(), n, MPI_LONG, world);
  mine.assign(mine.size(), -2);
  for (int r = 0; r < ranks; ++r) CHECK(all.came(r, 0, round));

  Blocks in_place([n](int) { return n; });
  for (long i = 0; i < n; ++i) in_place.block(rank)[i] = cell(rank, 0, round, i);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_LONG, in_place.cells.data(), n, MPI_LONG, world);
  for (int r = 0; r < ranks; ++r) CHECK(in_place.came(r, 0, round));

  Blocks uneven([&](int r) { return r == round % ranks ? 0 : n + r; });
  const int own = uneven.count(rank);
  Vector part(static_cast<size_t>(own));
  for (long i = 0; i < own; ++i) part[size_t(i)] = cell(rank, 0, round, i);
  MPI_Allgatherv(part.data(), own, MPI_LONG, uneven.cells.data(), uneven.counts.data(), uneven.places.data(), MPI_LONG, world);
  part.assign(part.size(), -2);
  for (int r = 0; r < ranks; ++r) CHECK(uneven.came(r, 0, round));
  CHECK((all.untouched() && in_place.untouched() && uneven.untouched()));
}

void alltoalls(int round, int n) {
  Blocks from([n](int) { return n; }), to([n](int) { return n; });
  for (int r = 0; r < ranks; ++r) from.fill(rank, r, round);
  MPI_Alltoall(from.cells.data(), n, MPI_LONG, to.cells.data(), n, MPI_LONG, world);
  from.cells.assign(from.cells.size(), -2);
  for (int r = 0; r < ranks; ++r) CHECK(to.came(r, rank, round));

  const auto length = [&](int sender, int receiver) { return (sender + receiver + round) % 5 == 0 ? 0 : n + sender * 300 - receiver; };
  Blocks give([&](int r) { return length(rank, r); }), take([&](int r) { return length(r, rank); });
  for (int r = 0; r < ranks; ++r) give.fill(rank, r, round);
  MPI_Alltoallv(give.cells.data(), give.counts.data(), give.places.data(), MPI_LONG, take.cells.data(), take.counts.data(),
                take.places.data(), MPI_LONG, world);
  give.cells.assign(give.cells.size(), -2);
  for (int r = 0; r < ranks; ++r) CHECK(take.came(r, rank, round));
  CHECK((to.untouched() && take.untouched()));
}

void broadcasts(int round, int n) {
  const int root = round / 8 % ranks;
  for (int times = 0; times < 4; ++times) {
    Vector data(static_cast<size_t>(n), -1);
    for (long i = 0; i < n && rank == root; ++i) data[size_t(i)] = cell(root, times, round, i);
    MPI_Bcast(data.data(), n, MPI_LONG, root, world);
    bool came = true;
    for (long i = 0; i < n; ++i) came &= data[size_t(i)] == cell(root, times, round, i);
    CHECK(came);
    data.assign(data.size(), -2);
  }
}

/// What other processes cannot read, as what lies in devices; null where the system has no such memory.
long* secret_memory(size_t bytes) {
#ifdef SYS_memfd_secret
  const int file = static_cast<int>(syscall(SYS_memfd_secret, 0));
#else
  const int file = -1;
#endif
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes))) return nullptr;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<long*>(memory);
}

void exchange_secrets() {
  constexpr int n = 6000, times = 8;
  long* const secret = secret_memory(sizeof(long) * size_t(n) * size_t(ranks));
  if (!secret) return;
  std::vector<int> counts(size_t(ranks), n), places;
  for (int r = 0; r < ranks; ++r) places.push_back(r * n);
  for (int i = 0; i < times; ++i) {
    Blocks all([](int) { return n; });
    const auto write = [&](int to) {
      for (long at = 0; at < n; ++at) secret[to * n + at] = cell(rank, to, i, at);
    };
    const auto check = [&](int to) {
      for (int r = 0; r < ranks; ++r) CHECK(all.came(r, to, i));
      all.cells.assign(all.cells.size(), -1);
    };
    for (int r = 0; r < ranks; ++r) write(r);
    MPI_Allgather(secret, n, MPI_LONG, all.cells.data(), n, MPI_LONG, world);
    check(0);
    MPI_Alltoall(secret, n, MPI_LONG, all.cells.data(), n, MPI_LONG, world);
    check(rank);
    MPI_Alltoallv(secret, counts.data(), places.data(), MPI_LONG, all.cells.data(), counts.data(), places.data(), MPI_LONG, world);
    check(rank);
    long* const data = rank == 0 ? secret : all.cells.data();
    MPI_Bcast(data, n, MPI_LONG, 0, world);
    for (long at = 0; at < n; ++at) CHECK(data[at] == cell(0, 0, i, at));
  }
}

/// All that has been read by now.
unsigned long long read_so_far() {
  static const check::Counter read("pml_read_in_place");
  return read.value();
}

bool is_set(const char* name, const char* to) {
  const char* const value = std::getenv(name);
  return value && !std::strcmp(value, to);
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  check::begin(argc, argv);
  for (const int n : {1024, 5000, 40'000})
    for (int round = 0; round < kRounds; ++round) {
      allgathers(round, n);
      alltoalls(round, n);
      broadcasts(round, n);
    }
  exchange_secrets();
  if (is_set("WEFT_COLL_READ", "no") || is_set("WEFT_SHM_CMA", "no"))
    CHECK(read_so_far() == 0);
  else if (is_set("WEFT_COLL_READ", "always") && ranks > 1)
    CHECK(read_so_far() > 200);
  MPI_T_finalize();
  return check::end("long_exchanges");
}
