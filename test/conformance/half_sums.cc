// Sums of 16-bit floats over all ranks are rounded once, at the end: 1 added again and again to where neighbours are 2 apart is not lost.
#include <mpix.h>

#include <cmath>
#include <cstdint>

#include "check.h"

using check::rank;
using check::ranks;
using check::run;
using check::Way;

namespace {

/// A number is this times its bits (all numbers here are between `first` and twice that).
struct Format {
  MPI_Datatype type;
  uint16_t bits_of_first;
  float first;  ///< from here on neighbours are 2 apart
  uint16_t one;
};
const Format formats[] = {{MPIX_BFLOAT16, 0x4380, 256, 0x3f80}, {MPIX_C_FLOAT16, 0x6800, 2048, 0x3c00}};

using Halves = std::vector<uint16_t>;

/// The sum of the first n ranks' numbers, rounded to even.
uint16_t sum_of(const Format& f, int n) {
  if (n == 0) return 0;
  const int above = n - 1;  // what rank 0 does not give
  return uint16_t(f.bits_of_first + int(std::nearbyint(above / 2.0)));
}

void all_forms(const Format& f, Way way, int n) {
  const Halves mine(size_t(n), rank == 0 ? f.bits_of_first : f.one);
  const Halves total(size_t(n), sum_of(f, ranks)), so_far(size_t(n), sum_of(f, rank + 1));
  Halves out(size_t(n), 7);
  MPI_Comm world = MPI_COMM_WORLD;
  run(
      way, [&] { MPI_Allreduce(mine.data(), out.data(), n, f.type, MPI_SUM, world); },
      [&](MPI_Request* r) { MPI_Iallreduce(mine.data(), out.data(), n, f.type, MPI_SUM, world, r); },
      [&](MPI_Request* r) { MPI_Allreduce_init(mine.data(), out.data(), n, f.type, MPI_SUM, world, MPI_INFO_NULL, r); });
  CHECK(out == total);
  out = mine;
  if (way != Way::persistent) {
    run(
        way, [&] { MPI_Allreduce(MPI_IN_PLACE, out.data(), n, f.type, MPI_SUM, world); },
        [&](MPI_Request* r) { MPI_Iallreduce(MPI_IN_PLACE, out.data(), n, f.type, MPI_SUM, world, r); }, nullptr);
    CHECK(out == total);
  }
  const int root = ranks - 1;
  out.assign(size_t(n), 7);
  run(
      way, [&] { MPI_Reduce(mine.data(), out.data(), n, f.type, MPI_SUM, root, world); },
      [&](MPI_Request* r) { MPI_Ireduce(mine.data(), out.data(), n, f.type, MPI_SUM, root, world, r); },
      [&](MPI_Request* r) { MPI_Reduce_init(mine.data(), out.data(), n, f.type, MPI_SUM, root, world, MPI_INFO_NULL, r); });
  CHECK(out == (rank == root ? total : Halves(size_t(n), 7)));
  run(
      way, [&] { MPI_Scan(mine.data(), out.data(), n, f.type, MPI_SUM, world); },
      [&](MPI_Request* r) { MPI_Iscan(mine.data(), out.data(), n, f.type, MPI_SUM, world, r); },
      [&](MPI_Request* r) { MPI_Scan_init(mine.data(), out.data(), n, f.type, MPI_SUM, world, MPI_INFO_NULL, r); });
  CHECK(out == so_far);
  out.assign(size_t(n), 7);
  run(
      way, [&] { MPI_Exscan(mine.data(), out.data(), n, f.type, MPI_SUM, world); },
      [&](MPI_Request* r) { MPI_Iexscan(mine.data(), out.data(), n, f.type, MPI_SUM, world, r); },
      [&](MPI_Request* r) { MPI_Exscan_init(mine.data(), out.data(), n, f.type, MPI_SUM, world, MPI_INFO_NULL, r); });
  CHECK(out == Halves(size_t(n), rank == 0 ? 7 : sum_of(f, rank)));
}

/// Each rank gets as many as its number, and nothing beyond.
void scattered(const Format& f, Way way, int each) {
  std::vector<int> counts;
  int all = 0;
  for (int r = 0; r < ranks; ++r) all += counts.emplace_back(r * each);
  const Halves mine(size_t(all), rank == 0 ? f.bits_of_first : f.one);
  Halves out(size_t(rank * each + 1), 7), wanted(size_t(rank * each), sum_of(f, ranks));
  wanted.push_back(7);
  MPI_Comm world = MPI_COMM_WORLD;
  run(
      way, [&] { MPI_Reduce_scatter(mine.data(), out.data(), counts.data(), f.type, MPI_SUM, world); },
      [&](MPI_Request* r) { MPI_Ireduce_scatter(mine.data(), out.data(), counts.data(), f.type, MPI_SUM, world, r); },
      [&](MPI_Request* r) { MPI_Reduce_scatter_init(mine.data(), out.data(), counts.data(), f.type, MPI_SUM, world, MPI_INFO_NULL, r); });
  CHECK(out == wanted);
  if (way != Way::blocking) return;
  Halves both = mine;
  MPI_Reduce_scatter(MPI_IN_PLACE, both.data(), counts.data(), f.type, MPI_SUM, world);
  CHECK(std::equal(both.begin(), both.begin() + rank * each, wanted.begin()));
}

/// Between two groups: each gets what the other one gives.
void between_groups(const Format& f, int n) {
  MPI_Comm half, inter;
  const int side = rank % 2;
  MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 5, &inter);
  int own = 0, others = 0;
  MPI_Comm_rank(half, &own);
  MPI_Comm_remote_size(inter, &others);
  const Halves mine(size_t(n), own == 0 ? f.bits_of_first : f.one), wanted(size_t(n), sum_of(f, others));
  Halves out(size_t(n), 7);
  MPI_Allreduce(mine.data(), out.data(), n, f.type, MPI_SUM, inter);
  CHECK(out == wanted);
  out.assign(size_t(n), 7);
  MPI_Reduce(mine.data(), out.data(), n, f.type, MPI_SUM, side == 1 ? 0 : own == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
  CHECK(out == (rank == 0 ? wanted : Halves(size_t(n), 7)));
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

}  // namespace

int main(int argc, char** argv) {
  check::begin(argc, argv);
  for (const Format& f : formats) {
    for (const Way way : check::ways)
      for (const int n : {0, 1, 63, 4096, 70000}) all_forms(f, way, n);
    for (const Way way : check::ways)
      for (const int each : {0, 1, 3000}) scattered(f, way, each);
    if (ranks > 1)
      for (const int n : {1, 5000}) between_groups(f, n);
  }
  return check::end("half_sums");
}
