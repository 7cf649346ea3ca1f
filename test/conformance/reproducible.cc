// Reductions whose floating-point result depends on the order of additions, in all forms: those of one kind must give the same bits, and
// rank 0 prints which, for reproducible.sh to compare with other runs.
//   reproducible runs|exact|no
// no: each form need not agree, so it fails: the data is such.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <map>
#include <string>

#include "check.h"

using check::rank;
using check::ranks;
using check::run;
using check::Way;

namespace {

constexpr int kTerms = 3;  // exact: so many ranks bring one, the others 0, so that sums are the same on 3 ranks and on more
bool exact = false;

/// Term t of the sum at a place: exponents far apart, some terms taking others away again.
double term(int t, int place) {
  if (t % 3 == 2 && place % 2) return -term(t - 1, place);
  uint64_t state = static_cast<uint64_t>(place) * 0xd1342543de82ef95U + static_cast<uint64_t>(t);  // SplitMix64
  const auto random = [&state] {
    uint64_t z = state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
  };
  const double mantissa = static_cast<double>(static_cast<int64_t>(random()));
  return std::ldexp(mantissa, static_cast<int>(random() % 90) - 63);
}

template <class T>
void put(T& to, double x) {
  to = static_cast<T>(x);
}
template <class T>
void put(std::complex<T>& to, double x) {
  to = {static_cast<T>(x), static_cast<T>(-x / 3)};
}

/// FNV-1a.
uint64_t bits_of(const void* data, size_t bytes) {
  uint64_t hash = 14695981039346656037U;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211U;
  return hash;
}

/// What the forms of each kind of reduction have given.
std::map<std::string, uint64_t> found;
int disagreements = 0;

void compare(const std::string& kind, uint64_t bits) {
  if (found.try_emplace(kind, bits).first->second == bits) return;
  ++disagreements;
  if (std::getenv("VERBOSE")) std::fprintf(stderr, "[rank %d of %d] %s: other bits\n", rank, ranks, kind.c_str());
}

/// What this rank brings. exact: one of the terms, or 0; ranks take turns.
template <class T>
std::vector<T> data(int count, int turn) {
  std::vector<T> mine(static_cast<size_t>(count));
  const int seat = exact ? (rank + turn) % ranks : rank;
  for (int i = 0; i < count; ++i)
    if (!exact || seat < kTerms) put(mine[static_cast<size_t>(i)], term(seat, i));
  return mine;
}

struct Kind {
  const char* name;
  MPI_Datatype type;
};

/// All forms of the reductions of `count` elements on a communicator of all ranks.
template <class T>
void all_forms(const Kind& kind, int count, int turn, Way way, MPI_Comm comm) {
  const size_t n = static_cast<size_t>(count), bytes = n * sizeof(T);
  const std::vector<T> mine = data<T>(count, turn);
  std::vector<T> out(n);
  const std::string name = std::string(kind.name) + " x " + std::to_string(count);
  run(
      way, [&] { MPI_Allreduce(mine.data(), out.data(), count, kind.type, MPI_SUM, comm); },
      [&](MPI_Request* r) { MPI_Iallreduce(mine.data(), out.data(), count, kind.type, MPI_SUM, comm, r); },
      [&](MPI_Request* r) { MPI_Allreduce_init(mine.data(), out.data(), count, kind.type, MPI_SUM, comm, MPI_INFO_NULL, r); });
  compare("allreduce of " + name, bits_of(out.data(), bytes));
  out = mine;
  run(
      way, [&] { MPI_Allreduce(MPI_IN_PLACE, out.data(), count, kind.type, MPI_SUM, comm); },
      [&](MPI_Request* r) { MPI_Iallreduce(MPI_IN_PLACE, out.data(), count, kind.type, MPI_SUM, comm, r); },
      [&](MPI_Request* r) { MPI_Allreduce_init(MPI_IN_PLACE, out.data(), count, kind.type, MPI_SUM, comm, MPI_INFO_NULL, r); });
  compare("allreduce of " + name, bits_of(out.data(), bytes));
  const int root = ranks - 1;
  run(
      way, [&] { MPI_Reduce(mine.data(), out.data(), count, kind.type, MPI_SUM, root, comm); },
      [&](MPI_Request* r) { MPI_Ireduce(mine.data(), out.data(), count, kind.type, MPI_SUM, root, comm, r); },
      [&](MPI_Request* r) { MPI_Reduce_init(mine.data(), out.data(), count, kind.type, MPI_SUM, root, comm, MPI_INFO_NULL, r); });
  if (rank == root) compare((exact ? "allreduce of " : "reduce of ") + name, bits_of(out.data(), bytes));
  run(
      way, [&] { MPI_Scan(mine.data(), out.data(), count, kind.type, MPI_SUM, comm); },
      [&](MPI_Request* r) { MPI_Iscan(mine.data(), out.data(), count, kind.type, MPI_SUM, comm, r); },
      [&](MPI_Request* r) { MPI_Scan_init(mine.data(), out.data(), count, kind.type, MPI_SUM, comm, MPI_INFO_NULL, r); });
  // exact: what stands on the last rank is the sum of all
  if (!exact) compare("scan of " + name, bits_of(out.data(), bytes));
  if (exact && rank == ranks - 1) compare("allreduce of " + name, bits_of(out.data(), bytes));
  const std::vector<T> blocks = data<T>(count * ranks, turn);
  run(
      way, [&] { MPI_Reduce_scatter_block(blocks.data(), out.data(), count, kind.type, MPI_SUM, comm); },
      [&](MPI_Request* r) { MPI_Ireduce_scatter_block(blocks.data(), out.data(), count, kind.type, MPI_SUM, comm, r); },
      [&](MPI_Request* r) { MPI_Reduce_scatter_block_init(blocks.data(), out.data(), count, kind.type, MPI_SUM, comm, MPI_INFO_NULL, r); });
  compare("reduce_scatter of " + name, bits_of(out.data(), bytes));
}

/// Each call of a communicator, the first ones too, gives the same.
template <class T>
void many_calls(const Kind& kind, const std::vector<int>& counts) {
  for (const int count : counts) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    const int calls = count < 1000 ? 14 : 6;
    for (int i = 0; i < calls; ++i) {
      all_forms<T>(kind, count, i, i < calls / 2 ? Way::blocking : check::ways[i % 3], comm);
      // Other ranks, the same numbers.
      if (!exact || i % 3) continue;
      MPI_Comm turned;
      MPI_Comm_split(MPI_COMM_WORLD, 0, (rank * 7 + i) % ranks, &turned);
      const std::vector<T> mine = data<T>(count, i);
      std::vector<T> out(mine.size());
      MPI_Allreduce(mine.data(), out.data(), count, kind.type, MPI_SUM, turned);
      compare("allreduce of " + std::string(kind.name) + " x " + std::to_string(count), bits_of(out.data(), out.size() * sizeof(T)));
      MPI_Comm_free(&turned);
    }
    MPI_Comm_free(&comm);
  }
}

/// Between two groups: the order is within each of them.
void between_groups() {
  MPI_Comm half, inter;
  const int side = rank % 2;
  MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 5, &inter);
  for (const int count : {1, 3000})
    for (int i = 0; i < 6; ++i) {
      const std::vector<double> mine = data<double>(count, 0);
      std::vector<double> out(mine.size());
      run(
          check::ways[i % 3], [&] { MPI_Allreduce(mine.data(), out.data(), count, MPI_DOUBLE, MPI_SUM, inter); },
          [&](MPI_Request* r) { MPI_Iallreduce(mine.data(), out.data(), count, MPI_DOUBLE, MPI_SUM, inter, r); },
          [&](MPI_Request* r) { MPI_Allreduce_init(mine.data(), out.data(), count, MPI_DOUBLE, MPI_SUM, inter, MPI_INFO_NULL, r); });
      compare("allreduce between groups of double x " + std::to_string(count), bits_of(out.data(), out.size() * sizeof(double)));
    }
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

/// The hint of a communicator; a sum that is 0 unless it is exact.
void hints() {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "weft_reproducible", "exact");
  MPI_Comm comm;
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  MPI_Info_free(&info);
  const double terms[] = {1e100, 1, -1e100};
  double mine = rank < 3 ? terms[rank] : 0, sum = 0;
  for (int i = 0; i < 10; ++i) {
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    if (ranks > 2) CHECK(sum == 1);
  }
  MPI_Info used;
  MPI_Comm_get_info(comm, &used);
  char word[16] = "";
  int flag = 0, length = sizeof word;
  MPI_Info_get_string(used, "weft_reproducible", &length, word, &flag);
  CHECK(flag && std::string(word) == "exact");
  MPI_Info_free(&used);
  MPI_Comm_free(&comm);
}

/// A line for each kind, of what all ranks have found. exact: of what does not depend on how many there are.
void print() {
  for (const auto& [kind, bits] : found) {
    if (kind.starts_with("reduce of") || (exact && !kind.starts_with("allreduce"))) continue;  // the former only one rank knows
    const uint64_t mine = bits * (exact && rank > 0 ? 0 : static_cast<uint64_t>(2 * rank + 1));
    uint64_t all = 0;
    MPI_Reduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, 0, MPI_COMM_WORLD);
    if (rank == 0) std::printf("bits of %s: %016llx\n", kind.c_str(), static_cast<unsigned long long>(all));
  }
}

}  // namespace

int main(int argc, char** argv) {
  check::begin(argc, argv);
  const std::string mode = argc > 1 ? argv[1] : "runs";
  exact = mode == "exact";
  many_calls<double>({"double", MPI_DOUBLE}, {1, 100, 2500, exact ? 4000 : 40000});
  many_calls<float>({"float", MPI_FLOAT}, {7, exact ? 3000 : 10000});
  many_calls<std::complex<float>>({"complex float", MPI_CXX_FLOAT_COMPLEX}, {50});
  many_calls<std::complex<double>>({"complex double", MPI_CXX_DOUBLE_COMPLEX}, {50});
  if (ranks > 1 && !exact) between_groups();
  if (mode != "no") hints();
  CHECK(disagreements == 0);
  print();
  return check::end("reproducible");
}
