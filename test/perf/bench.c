/* Micro-benchmarks in plain MPI C: compiles against any MPI. Prints one line a row: NAME BYTES VALUE UNIT.
 *
 *   bench [--quick] [--fresh] [--only NAME[,NAME...]] [--bytes N]
 *
 * Two-rank rows use ranks 0 and 1; collective rows use all. Values: latency is half a round trip in microseconds (median of
 * batches), bandwidth in MB/s (bidirectional: of both directions together), message rate in messages/s, collectives the mean time
 * of a call in microseconds (slowest rank, median of batches), memory the resident set in KiB (largest rank). Of nonblocking calls: the
 * time with nothing to do meanwhile in microseconds, and how much of it a computation as long hides, in per cent (overlap_...: without
 * a call of MPI meanwhile; ..._tested: with 16 of MPI_Test; slowest rank).
 *
 * --fresh: what latency and the collectives send is written before, within the time: whoever copies it out of its sender's cache pays for
 * lines that the cache no longer has to itself. */
#include "timed.h"

enum { WINDOW = 64, LARGEST = 4 << 20 };

static char *send_buffer, *receive_buffer;

static long rounds_for(long bytes) {
  long rounds = bytes <= 1024 ? 10000 : bytes <= 65536 ? 2000 : 200;
  return quick ? rounds / 10 : rounds;
}

/* Two ranks take turns through buffers of the caller's. */
static void ping_pong_with(char* out, char* in, long bytes, long rounds) {
  for (long i = 0; i < rounds; ++i) {
    if (rank == 0) {
      freshen(out, bytes);
      MPI_Send(out, (int)bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
      MPI_Recv(in, (int)bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
      MPI_Recv(in, (int)bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      freshen(out, bytes);
      MPI_Send(out, (int)bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
  }
}

static void ping_pong(long bytes, long rounds) { ping_pong_with(send_buffer, receive_buffer, bytes, rounds); }

static void latency(long bytes) {
  double times[BATCHES];
  const long rounds = rounds_for(bytes) / 4 + 1;
  ping_pong(bytes, rounds);
  for (int b = 0; b < BATCHES; ++b) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    ping_pong(bytes, rounds);
    times[b] = (MPI_Wtime() - begin) / (double)rounds / 2 * 1e6;
  }
  report("latency", bytes, median(times, BATCHES), "us");
}

static void stream(long bytes, long windows) {
  MPI_Request requests[WINDOW];
  char done = 0;
  for (long w = 0; w < windows; ++w) {
    for (int i = 0; i < WINDOW; ++i) {
      if (rank == 0) MPI_Isend(send_buffer, (int)bytes, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &requests[i]);
      if (rank == 1) MPI_Irecv(receive_buffer, (int)bytes, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &requests[i]);
    }
    if (rank < 2) MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    if (rank == 0) MPI_Recv(&done, 1, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(&done, 1, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
  }
}

static void bandwidth(long bytes) {
  double values[BATCHES];
  long windows = rounds_for(bytes) / WINDOW + 1;
  if (bytes >= 1 << 20) windows = quick ? 1 : 2;
  stream(bytes, 1);
  for (int b = 0; b < BATCHES; ++b) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    stream(bytes, windows);
    const double seconds = MPI_Wtime() - begin;
    values[b] = bytes <= 8 ? (double)(windows * WINDOW) / seconds : (double)(windows * WINDOW * bytes) / seconds / 1e6;
  }
  if (bytes <= 8)
    report("message_rate", bytes, median(values, BATCHES), "1/s");
  else
    report("bandwidth", bytes, median(values, BATCHES), "MB/s");
}

/* Both ranks send at the same time. */
static void exchange(long bytes, long windows) {
  MPI_Request requests[2 * WINDOW];
  for (long w = 0; w < windows; ++w) {
    for (int i = 0; i < WINDOW; ++i) MPI_Irecv(receive_buffer, (int)bytes, MPI_CHAR, 1 - rank, 2, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < WINDOW; ++i) MPI_Isend(send_buffer, (int)bytes, MPI_CHAR, 1 - rank, 2, MPI_COMM_WORLD, &requests[WINDOW + i]);
    MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
  }
}

static void bidirectional(long bytes) {
  double values[BATCHES];
  long windows = rounds_for(bytes) / WINDOW + 1;
  if (bytes >= 1 << 20) windows = quick ? 1 : 2;
  if (rank < 2) exchange(bytes, 1);
  for (int b = 0; b < BATCHES; ++b) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    if (rank < 2) exchange(bytes, windows);
    values[b] = (double)(2 * windows * WINDOW * bytes) / (MPI_Wtime() - begin) / 1e6;
  }
  report("bidirectional", bytes, median(values, BATCHES), "MB/s");
}

static void do_barrier(int n) {
  (void)n;
  MPI_Barrier(MPI_COMM_WORLD);
}
static void do_bcast(int n) { MPI_Bcast(send_buffer, n, MPI_DOUBLE, 0, MPI_COMM_WORLD); }
static void do_reduce(int n) { MPI_Reduce(send_buffer, receive_buffer, n, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD); }
static void do_allreduce(int n) { MPI_Allreduce(send_buffer, receive_buffer, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void do_allgather(int n) { MPI_Allgather(send_buffer, part(n), MPI_DOUBLE, receive_buffer, part(n), MPI_DOUBLE, MPI_COMM_WORLD); }
static void do_alltoall(int n) { MPI_Alltoall(send_buffer, part(n), MPI_DOUBLE, receive_buffer, part(n), MPI_DOUBLE, MPI_COMM_WORLD); }
static void do_reduce_scatter(int n) {
  MPI_Reduce_scatter_block(send_buffer, receive_buffer, part(n), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void time_collective(const char* name, call* run, long bytes) {
  const long rounds = bytes <= 1024 ? (quick ? 200 : 2000) : bytes <= 65536 ? (quick ? 50 : 500) : (quick ? 5 : 40);
  time_call(name, run, bytes, rounds, 1);
}

static void collectives(void) {
  static const struct {
    const char* name;
    call* run;
  } all[] = {{"bcast", do_bcast},         {"reduce", do_reduce},     {"allreduce", do_allreduce},
             {"allgather", do_allgather}, {"alltoall", do_alltoall}, {"reduce_scatter", do_reduce_scatter}};
  static const long sizes[] = {64, 4096, 65536, 1 << 20};
  if (wanted("barrier")) time_collective("barrier", do_barrier, 0);
  for (size_t c = 0; c < sizeof all / sizeof *all; ++c)
    for (size_t s = 0; wanted(all[c].name) && s < sizeof sizes / sizeof *sizes; ++s) time_collective(all[c].name, all[c].run, sizes[s]);
}

/* Nonblocking calls, and what a computation hides of them. */
typedef int nonblocking(int count, MPI_Request* requests); /* starts it; the number of its requests */
static int start_exchange(int n, MPI_Request* requests) {
  if (rank > 1) return 0;
  MPI_Irecv(receive_buffer, n, MPI_DOUBLE, 1 - rank, 4, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(send_buffer, n, MPI_DOUBLE, 1 - rank, 4, MPI_COMM_WORLD, &requests[1]);
  return 2;
}
static int start_allreduce(int n, MPI_Request* requests) {
  MPI_Iallreduce(send_buffer, receive_buffer, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, requests);
  return 1;
}
static int start_alltoall(int n, MPI_Request* requests) {
  MPI_Ialltoall(send_buffer, n / ranks, MPI_DOUBLE, receive_buffer, n / ranks, MPI_DOUBLE, MPI_COMM_WORLD, requests);
  return 1;
}

/* Work in registers only, of so many turns. */
static volatile double computed;
static void compute(double turns) {
  double x = computed;
  for (long i = (long)turns; i > 0; --i) x = x * 0.999 + 0.5;
  computed = x;
}

static double turns_per_second(void) {
  double rates[BATCHES];
  for (int b = 0; b < BATCHES; ++b) {
    const double begin = MPI_Wtime();
    compute(1e5);
    rates[b] = 1e5 / (MPI_Wtime() - begin);
  }
  return median(rates, BATCHES);
}

/* Seconds of one call at the slowest rank: started if there is a `start`, then `turns` of work in so many parts with MPI_Test after each
 * but the last, and waited for. */
static double seconds_with(nonblocking* start, int count, double turns, int parts, long rounds) {
  MPI_Request requests[2];
  double mine, slowest;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (long i = 0; i < rounds; ++i) {
    const int n = start ? start(count, requests) : 0;
    for (int p = 0, done; turns > 0 && p < parts; ++p) {
      compute(turns / parts);
      if (n > 0 && p + 1 < parts) MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
  }
  mine = (MPI_Wtime() - begin) / (double)rounds;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static double hidden(double pure, double alone, double total) {
  const double share = 100 * (1 - (total - alone) / pure);
  return share < 0 ? 0 : share > 100 ? 100 : share;
}

static void time_overlap(const char* name, nonblocking* start, long bytes) {
  enum { PARTS = 17 };
  double times[BATCHES], untouched[BATCHES], tested[BATCHES];
  char row[64];
  const int count = (int)(bytes / (long)sizeof(double));
  const long rounds = (bytes <= 65536 ? 400 : 60) / (quick ? 16 : 1);
  const double rate = turns_per_second();
  seconds_with(start, count, 0, 1, 2);
  for (int b = 0; b < BATCHES; ++b) {
    const double pure = seconds_with(start, count, 0, 1, rounds), turns = pure * rate;
    const double alone = seconds_with(NULL, 0, turns, 1, rounds), alone_in_parts = seconds_with(NULL, 0, turns, PARTS, rounds);
    times[b] = pure * 1e6;
    untouched[b] = hidden(pure, alone, seconds_with(start, count, turns, 1, rounds));
    tested[b] = hidden(pure, alone_in_parts, seconds_with(start, count, turns, PARTS, rounds));
  }
  report(name, bytes, median(times, BATCHES), "us");
  snprintf(row, sizeof row, "overlap_%s", name);
  report(row, bytes, median(untouched, BATCHES), "%");
  snprintf(row, sizeof row, "overlap_%s_tested", name);
  report(row, bytes, median(tested, BATCHES), "%");
}

static void overlaps(void) {
  static const struct {
    const char* name;
    nonblocking* start;
  } all[] = {{"isend_irecv", start_exchange}, {"iallreduce", start_allreduce}, {"ialltoall", start_alltoall}};
  static const long sizes[] = {65536, 1 << 20, LARGEST};
  for (size_t c = 0; wanted("overlap") && ranks > 1 && c < sizeof all / sizeof *all; ++c)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
      if (chosen(sizes[s])) time_overlap(all[c].name, all[c].start, sizes[s]);
}

static long resident_kib(void) {
  long pages = 0, skip;
  FILE* f = fopen("/proc/self/statm", "r");
  if (!f) return 0;
  if (fscanf(f, "%ld %ld", &skip, &pages) != 2) pages = 0;
  fclose(f);
  return pages * 4;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  read_options(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (wanted("memory")) {
    long mine, most;
    char out = 0, in = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (ranks > 1) ping_pong_with(&out, &in, 1, 100);
    mine = resident_kib();
    MPI_Reduce(&mine, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    report("memory", 0, (double)most, "KiB");
  }
  operand = send_buffer = malloc(2 * LARGEST);
  receive_buffer = malloc(2 * LARGEST);
  if (!send_buffer || !receive_buffer) MPI_Abort(MPI_COMM_WORLD, 1);
  /* Written before use: untouched memory is one page of zeros, which copies faster than anything real. */
  for (size_t i = 0; i < 2 * LARGEST / sizeof(double); ++i) ((double*)send_buffer)[i] = ((double*)receive_buffer)[i] = (double)(i % 100);
  static const long sizes[] = {1, 8, 64, 512, 4096, 16384, 65536, 262144, 1 << 20, LARGEST};
  for (size_t s = 0; wanted("latency") && ranks > 1 && s < sizeof sizes / sizeof *sizes; ++s)
    if (chosen(sizes[s])) latency(sizes[s]);
  if (wanted("message_rate") && ranks > 1) bandwidth(8);
  for (size_t s = 2; wanted("bandwidth") && ranks > 1 && s < sizeof sizes / sizeof *sizes; ++s)
    if (chosen(sizes[s])) bandwidth(sizes[s]);
  for (size_t s = 4; wanted("bidirectional") && ranks > 1 && s < sizeof sizes / sizeof *sizes; ++s)
    if (chosen(sizes[s])) bidirectional(sizes[s]);
  collectives();
  overlaps();
  free(send_buffer);
  free(receive_buffer);
  MPI_Finalize();
  return 0;
}
