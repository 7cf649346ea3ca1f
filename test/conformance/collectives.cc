// Collectives: every one, blocking, nonblocking and persistent, in place, all roots, sizes around the switches of algorithms.
#include "check.h"

using check::rank;
using check::ranks;
using check::run;
using check::Way;
using check::ways;

namespace {

using Vector = std::vector<long>;

long cell(int who, long i) { return who * 1000003L + i * 7; }
Vector mine(long n, int who = rank) {
  Vector v(static_cast<size_t>(n));
  for (long i = 0; i < n; ++i) v[size_t(i)] = cell(who, i);
  return v;
}
long sum_cell(long i, int upto) {
  long sum = 0;
  for (int r = 0; r < upto; ++r) sum += cell(r, i);
  return sum;
}

const MPI_Comm world = MPI_COMM_WORLD;
const MPI_Info no_info = MPI_INFO_NULL;

void rooted(Way way, long n, int root) {
  const int count = int(n);
  Vector data = rank == root ? mine(n, root) : Vector(size_t(n), -1);
  run(
      way, [&] { MPI_Bcast(data.data(), count, MPI_LONG, root, world); },
      [&](MPI_Request* r) { MPI_Ibcast(data.data(), count, MPI_LONG, root, world, r); },
      [&](MPI_Request* r) { MPI_Bcast_init(data.data(), count, MPI_LONG, root, world, no_info, r); });
  CHECK(data == mine(n, root));

  const Vector in = mine(n);
  Vector out(rank == root ? size_t(n) : 0, -1);
  run(
      way, [&] { MPI_Reduce(in.data(), out.data(), count, MPI_LONG, MPI_SUM, root, world); },
      [&](MPI_Request* r) { MPI_Ireduce(in.data(), out.data(), count, MPI_LONG, MPI_SUM, root, world, r); },
      [&](MPI_Request* r) { MPI_Reduce_init(in.data(), out.data(), count, MPI_LONG, MPI_SUM, root, world, no_info, r); });
  for (long i = 0; i < long(out.size()); ++i) CHECK(out[size_t(i)] == sum_cell(i, ranks));

  Vector gathered(rank == root ? size_t(n * ranks) : 0, -1);
  run(
      way, [&] { MPI_Gather(in.data(), count, MPI_LONG, gathered.data(), count, MPI_LONG, root, world); },
      [&](MPI_Request* r) { MPI_Igather(in.data(), count, MPI_LONG, gathered.data(), count, MPI_LONG, root, world, r); },
      [&](MPI_Request* r) { MPI_Gather_init(in.data(), count, MPI_LONG, gathered.data(), count, MPI_LONG, root, world, no_info, r); });
  for (long i = 0; i < long(gathered.size()); ++i) CHECK(gathered[size_t(i)] == cell(int(i / n), i % n));

  Vector part(size_t(n), -1);
  run(
      way, [&] { MPI_Scatter(gathered.data(), count, MPI_LONG, part.data(), count, MPI_LONG, root, world); },
      [&](MPI_Request* r) { MPI_Iscatter(gathered.data(), count, MPI_LONG, part.data(), count, MPI_LONG, root, world, r); },
      [&](MPI_Request* r) { MPI_Scatter_init(gathered.data(), count, MPI_LONG, part.data(), count, MPI_LONG, root, world, no_info, r); });
  CHECK(part == in);
}

void everybody(Way way, long n) {
  const int count = int(n);
  const Vector in = mine(n);
  Vector out(size_t(n), -1);
  run(
      way, [&] { MPI_Allreduce(in.data(), out.data(), count, MPI_LONG, MPI_SUM, world); },
      [&](MPI_Request* r) { MPI_Iallreduce(in.data(), out.data(), count, MPI_LONG, MPI_SUM, world, r); },
      [&](MPI_Request* r) { MPI_Allreduce_init(in.data(), out.data(), count, MPI_LONG, MPI_SUM, world, no_info, r); });
  for (long i = 0; i < n; ++i) CHECK(out[size_t(i)] == sum_cell(i, ranks));
  out = in;
  run(
      way, [&] { MPI_Allreduce(MPI_IN_PLACE, out.data(), count, MPI_LONG, MPI_SUM, world); },
      [&](MPI_Request* r) { MPI_Iallreduce(MPI_IN_PLACE, out.data(), count, MPI_LONG, MPI_SUM, world, r); },
      [&](MPI_Request* r) { MPI_Allreduce_init(MPI_IN_PLACE, out.data(), count, MPI_LONG, MPI_SUM, world, no_info, r); });
  for (long i = 0; i < n; ++i) CHECK(out[size_t(i)] == sum_cell(i, ranks));

  run(
      way, [&] { MPI_Scan(in.data(), out.data(), count, MPI_LONG, MPI_SUM, world); },
      [&](MPI_Request* r) { MPI_Iscan(in.data(), out.data(), count, MPI_LONG, MPI_SUM, world, r); },
      [&](MPI_Request* r) { MPI_Scan_init(in.data(), out.data(), count, MPI_LONG, MPI_SUM, world, no_info, r); });
  for (long i = 0; i < n; ++i) CHECK(out[size_t(i)] == sum_cell(i, rank + 1));
  run(
      way, [&] { MPI_Exscan(in.data(), out.data(), count, MPI_LONG, MPI_SUM, world); },
      [&](MPI_Request* r) { MPI_Iexscan(in.data(), out.data(), count, MPI_LONG, MPI_SUM, world, r); },
      [&](MPI_Request* r) { MPI_Exscan_init(in.data(), out.data(), count, MPI_LONG, MPI_SUM, world, no_info, r); });
  for (long i = 0; rank > 0 && i < n; ++i) CHECK(out[size_t(i)] == sum_cell(i, rank));

  Vector all(size_t(n * ranks), -1), back(all.size(), -1);
  run(
      way, [&] { MPI_Allgather(in.data(), count, MPI_LONG, all.data(), count, MPI_LONG, world); },
      [&](MPI_Request* r) { MPI_Iallgather(in.data(), count, MPI_LONG, all.data(), count, MPI_LONG, world, r); },
      [&](MPI_Request* r) { MPI_Allgather_init(in.data(), count, MPI_LONG, all.data(), count, MPI_LONG, world, no_info, r); });
  for (long i = 0; i < n * ranks; ++i) CHECK(all[size_t(i)] == cell(int(i / n), i % n));

  for (long i = 0; i < n * ranks; ++i) all[size_t(i)] = cell(rank, i);
  run(
      way, [&] { MPI_Alltoall(all.data(), count, MPI_LONG, back.data(), count, MPI_LONG, world); },
      [&](MPI_Request* r) { MPI_Ialltoall(all.data(), count, MPI_LONG, back.data(), count, MPI_LONG, world, r); },
      [&](MPI_Request* r) { MPI_Alltoall_init(all.data(), count, MPI_LONG, back.data(), count, MPI_LONG, world, no_info, r); });
  for (long i = 0; i < n * ranks; ++i) CHECK(back[size_t(i)] == cell(int(i / n), rank * n + i % n));
  run(
      way, [&] { MPI_Alltoall(MPI_IN_PLACE, 0, MPI_LONG, all.data(), count, MPI_LONG, world); },
      [&](MPI_Request* r) { MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_LONG, all.data(), count, MPI_LONG, world, r); },
      [&](MPI_Request* r) { MPI_Alltoall_init(MPI_IN_PLACE, 0, MPI_LONG, all.data(), count, MPI_LONG, world, no_info, r); });
  if (way != Way::persistent) CHECK(all == back);

  for (long i = 0; i < n * ranks; ++i) all[size_t(i)] = cell(rank, i);
  run(
      way, [&] { MPI_Reduce_scatter_block(all.data(), out.data(), count, MPI_LONG, MPI_SUM, world); },
      [&](MPI_Request* r) { MPI_Ireduce_scatter_block(all.data(), out.data(), count, MPI_LONG, MPI_SUM, world, r); },
      [&](MPI_Request* r) { MPI_Reduce_scatter_block_init(all.data(), out.data(), count, MPI_LONG, MPI_SUM, world, no_info, r); });
  for (long i = 0; i < n; ++i) CHECK(out[size_t(i)] == sum_cell(rank * n + i, ranks));
}

void vectors(Way way, long n) {
  std::vector<int> counts, places;
  int total = 0;
  for (int r = 0; r < ranks; ++r) {
    counts.push_back(int((n + r) % (n + 2)));
    places.push_back(total);
    total += counts.back() + 1;  // a gap after each block
  }
  const int own = counts[size_t(rank)];
  const Vector in = mine(own);
  Vector out(size_t(total), -9);
  const auto right_blocks = [&] {
    for (int r = 0; r < ranks; ++r) {
      for (int i = 0; i < counts[size_t(r)]; ++i) CHECK(out[size_t(places[size_t(r)] + i)] == cell(r, i));
      CHECK(out[size_t(places[size_t(r)] + counts[size_t(r)])] == -9);
    }
  };
  run(
      way, [&] { MPI_Allgatherv(in.data(), own, MPI_LONG, out.data(), counts.data(), places.data(), MPI_LONG, world); },
      [&](MPI_Request* r) { MPI_Iallgatherv(in.data(), own, MPI_LONG, out.data(), counts.data(), places.data(), MPI_LONG, world, r); },
      [&](MPI_Request* r) {
        MPI_Allgatherv_init(in.data(), own, MPI_LONG, out.data(), counts.data(), places.data(), MPI_LONG, world, no_info, r);
      });
  right_blocks();
  const int root = ranks - 1;
  out.assign(out.size(), -9);
  run(
      way, [&] { MPI_Gatherv(in.data(), own, MPI_LONG, out.data(), counts.data(), places.data(), MPI_LONG, root, world); },
      [&](MPI_Request* r) { MPI_Igatherv(in.data(), own, MPI_LONG, out.data(), counts.data(), places.data(), MPI_LONG, root, world, r); },
      [&](MPI_Request* r) {
        MPI_Gatherv_init(in.data(), own, MPI_LONG, out.data(), counts.data(), places.data(), MPI_LONG, root, world, no_info, r);
      });
  if (rank == root) right_blocks();
  Vector part(in.size(), -1);
  run(
      way, [&] { MPI_Scatterv(out.data(), counts.data(), places.data(), MPI_LONG, part.data(), own, MPI_LONG, root, world); },
      [&](MPI_Request* r) {
        MPI_Iscatterv(out.data(), counts.data(), places.data(), MPI_LONG, part.data(), own, MPI_LONG, root, world, r);
      },
      [&](MPI_Request* r) {
        MPI_Scatterv_init(out.data(), counts.data(), places.data(), MPI_LONG, part.data(), own, MPI_LONG, root, world, no_info, r);
      });
  CHECK(part == in);
}

/// Rank r sends (r + s) % 3 * n elements to rank s.
void vector_exchanges(Way way, long n) {
  std::vector<int> to, to_places, from, from_places, to_bytes, from_bytes;
  int sent = 0, received = 0;
  for (int r = 0; r < ranks; ++r) {
    to.push_back(int((rank + r) % 3 * n));
    from.push_back(to.back());
    to_places.push_back(sent);
    from_places.push_back(received);
    sent += to.back();
    received += from.back();
    to_bytes.push_back(to_places.back() * int(sizeof(long)));
    from_bytes.push_back(from_places.back() * int(sizeof(long)));
  }
  Vector outgoing(static_cast<size_t>(sent)), incoming(size_t(received), -1);
  for (int r = 0; r < ranks; ++r)
    for (int i = 0; i < to[size_t(r)]; ++i) outgoing[size_t(to_places[size_t(r)] + i)] = cell(rank * 100 + r, i);
  const auto right_parts = [&] {
    for (int r = 0; r < ranks; ++r)
      for (int i = 0; i < from[size_t(r)]; ++i) CHECK(incoming[size_t(from_places[size_t(r)] + i)] == cell(r * 100 + rank, i));
  };
  run(
      way,
      [&] {
        MPI_Alltoallv(outgoing.data(), to.data(), to_places.data(), MPI_LONG, incoming.data(), from.data(), from_places.data(), MPI_LONG,
                      world);
      },
      [&](MPI_Request* r) {
        MPI_Ialltoallv(outgoing.data(), to.data(), to_places.data(), MPI_LONG, incoming.data(), from.data(), from_places.data(), MPI_LONG,
                       world, r);
      },
      [&](MPI_Request* r) {
        MPI_Alltoallv_init(outgoing.data(), to.data(), to_places.data(), MPI_LONG, incoming.data(), from.data(), from_places.data(),
                           MPI_LONG, world, no_info, r);
      });
  right_parts();
  incoming.assign(incoming.size(), -1);
  const std::vector<MPI_Datatype> types(size_t(ranks), MPI_LONG);
  run(
      way,
      [&] {
        MPI_Alltoallw(outgoing.data(), to.data(), to_bytes.data(), types.data(), incoming.data(), from.data(), from_bytes.data(),
                      types.data(), world);
      },
      [&](MPI_Request* r) {
        MPI_Ialltoallw(outgoing.data(), to.data(), to_bytes.data(), types.data(), incoming.data(), from.data(), from_bytes.data(),
                       types.data(), world, r);
      },
      [&](MPI_Request* r) {
        MPI_Alltoallw_init(outgoing.data(), to.data(), to_bytes.data(), types.data(), incoming.data(), from.data(), from_bytes.data(),
                           types.data(), world, no_info, r);
      });
  right_parts();
}

void scattered_sums(Way way, long n) {
  std::vector<int> counts;
  int begin = 0, length = 0;
  for (int r = 0; r < ranks; ++r) {
    counts.push_back(int((n + r) % (n + 2)));
    if (r < rank) begin += counts.back();
    length += counts.back();
  }
  const int own = counts[size_t(rank)];
  Vector whole(static_cast<size_t>(length)), piece(size_t(own), -1);
  for (int i = 0; i < length; ++i) whole[size_t(i)] = cell(rank, i);
  run(
      way, [&] { MPI_Reduce_scatter(whole.data(), piece.data(), counts.data(), MPI_LONG, MPI_SUM, world); },
      [&](MPI_Request* r) { MPI_Ireduce_scatter(whole.data(), piece.data(), counts.data(), MPI_LONG, MPI_SUM, world, r); },
      [&](MPI_Request* r) { MPI_Reduce_scatter_init(whole.data(), piece.data(), counts.data(), MPI_LONG, MPI_SUM, world, no_info, r); });
  for (int i = 0; i < own; ++i) CHECK(piece[size_t(i)] == sum_cell(begin + i, ranks));
}

/// 2x2 matrices over a small ring: associative, not commutative.
void multiply(void* in, void* inout, int* count, MPI_Datatype*) {
  const unsigned* a = static_cast<unsigned*>(in);
  unsigned* b = static_cast<unsigned*>(inout);
  for (int i = 0; i < *count; ++i, a += 4, b += 4) {
    const unsigned c[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
    std::memcpy(b, c, sizeof c);
  }
}

void non_commutative(int count) {
  MPI_Datatype matrix;
  MPI_Op op;
  MPI_Type_contiguous(4, MPI_UNSIGNED, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Op_create(multiply, 0, &op);
  const auto of = [&](int who) {
    std::vector<unsigned> m(size_t(count) * 4);
    for (size_t i = 0; i < m.size(); ++i) m[i] = unsigned(who) * 31u + unsigned(i) * 7u + 1u;
    return m;
  };
  std::vector<unsigned> in = of(rank), out(in.size()), expected = of(ranks - 1);
  for (int r = ranks - 2; r >= 0; --r) {
    auto a = of(r);
    multiply(a.data(), expected.data(), &count, &matrix);
  }
  MPI_Allreduce(in.data(), out.data(), count, matrix, op, world);
  CHECK(out == expected);
  MPI_Reduce(in.data(), out.data(), count, matrix, op, ranks / 2, world);
  if (rank == ranks / 2) CHECK(out == expected);
  MPI_Scan(in.data(), out.data(), count, matrix, op, world);
  if (rank == ranks - 1) CHECK(out == expected);
  MPI_Op_free(&op);
  MPI_Type_free(&matrix);
}

void many_at_once() {
  // Started in the same order everywhere, completed in another.
  constexpr int n = 12;
  Vector in = mine(50), outs[n];
  MPI_Request requests[n];
  for (int i = 0; i < n; ++i) {
    outs[i].assign(size_t(50 * ranks), -1);
    if (i % 3 == 0) MPI_Iallreduce(in.data(), outs[i].data(), 50, MPI_LONG, MPI_SUM, world, &requests[i]);
    if (i % 3 == 1) MPI_Iallgather(in.data(), 50, MPI_LONG, outs[i].data(), 50, MPI_LONG, world, &requests[i]);
    if (i % 3 == 2) MPI_Ibarrier(world, &requests[i]);
    if (i == 5) MPI_Barrier(world);
  }
  for (int i = n - 1; i >= 0; --i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  for (int i = 0; i < n; ++i) {
    if (i % 3 == 0) CHECK(outs[i][49] == sum_cell(49, ranks));
    if (i % 3 == 1) CHECK(outs[i].back() == cell(ranks - 1, 49));
  }
}

void strided() {
  // A column of a matrix on one side, contiguous on the other.
  MPI_Datatype column;
  MPI_Type_vector(20, 1, 3, MPI_LONG, &column);
  MPI_Type_commit(&column);
  Vector matrix(60, -1);
  for (int i = 0; i < 20; ++i) matrix[size_t(3 * i)] = cell(rank, i);
  Vector out(size_t(20 * ranks));
  MPI_Allgather(matrix.data(), 1, column, out.data(), 20, MPI_LONG, world);
  for (int i = 0; i < 20 * ranks; ++i) CHECK(out[size_t(i)] == cell(i / 20, i % 20));
  Vector data = rank == 0 ? mine(20) : matrix;
  if (rank == 0)
    MPI_Bcast(data.data(), 20, MPI_LONG, 0, world);
  else
    MPI_Bcast(data.data(), 1, column, 0, world);
  for (int i = 0; rank && i < 20; ++i) CHECK(data[size_t(3 * i)] == cell(0, i) && data[size_t(3 * i) + 1] == -1);
  MPI_Type_free(&column);
}

}  // namespace

int main(int argc, char** argv) {
  check::begin(argc, argv);
  for (Way way : ways) {
    for (long n : {0L, 1L, 5L, 100L, 1031L, 9000L}) {
      rooted(way, n, 0);
      rooted(way, n, ranks - 1);
      everybody(way, n);
      vectors(way, n);
      vector_exchanges(way, n);
      scattered_sums(way, n);
    }
    everybody(way, 70000);
    rooted(way, 70000, ranks / 2);
    MPI_Request request;
    if (way == Way::blocking) MPI_Barrier(world);
    if (way == Way::nonblocking) {
      MPI_Ibarrier(world, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }
  for (int count : {1, 10, 3000}) non_commutative(count);
  many_at_once();
  strided();
  return check::end("collectives");
}
