/* Calls that programs make besides those of bench.c, in plain MPI C: compiles against any MPI. Prints one line a row: NAME BYTES VALUE
 * UNIT.
 *
 *   calls [--quick] [--fresh] [--only NAME[,NAME...]] [--bytes N]
 *
 * Two-rank rows use ranks 0 and 1 and are half a round trip in microseconds, except sendrecv, where both send at once: a call. Collective
 * rows use all ranks: the mean time of a call (slowest rank, median of batches); BYTES is what one rank gives to all or gets from all, as
 * in bench.c. Nonblocking and persistent collectives are started and waited for at once. late_...: rank 0 comes so many microseconds after
 * the others (in the place of BYTES); how long after that all have gone on, and have told it by a message. */
#include "timed.h"

enum { LARGEST = 4 << 20, MOST_RANKS = 4096, STRIDE = 2 };

static double *send_buffer, *receive_buffer;
static int counts[MOST_RANKS], places[MOST_RANKS];

static long rounds_for(long bytes) {
  const long rounds = bytes <= 1024 ? 2000 : bytes <= 65536 ? 500 : 40;
  return quick ? rounds / 8 : rounds;
}

/* ---- two ranks ---- */

static void pp_ssend(int n) {
  if (rank == 0) {
    MPI_Ssend(send_buffer, n, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(receive_buffer, n, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (rank == 1) {
    MPI_Recv(receive_buffer, n, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Ssend(send_buffer, n, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
  }
}

static void pp_any(int n) {
  if (rank > 1) return;
  if (rank == 0) MPI_Send(send_buffer, n, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
  MPI_Recv(receive_buffer, n, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(send_buffer, n, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
}

static void pp_probe(int n) {
  MPI_Status status;
  int got;
  if (rank > 1) return;
  if (rank == 0) MPI_Send(send_buffer, n, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
  MPI_Probe(1 - rank, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_DOUBLE, &got);
  MPI_Recv(receive_buffer, got, MPI_DOUBLE, 1 - rank, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(send_buffer, n, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
}

static void pp_nonblocking(int n) {
  MPI_Request requests[2];
  if (rank > 1) return;
  MPI_Irecv(receive_buffer, n, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD, &requests[0]);
  if (rank == 1) MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Isend(send_buffer, n, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD, &requests[1]);
  if (rank == 0) MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  if (rank == 1) MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
}

static MPI_Datatype vector_of(int n) {
  static MPI_Datatype made = MPI_DATATYPE_NULL;
  static int length = -1;
  if (length == n) return made;
  if (length >= 0) MPI_Type_free(&made);
  MPI_Type_vector(n, 1, STRIDE, MPI_DOUBLE, &made);
  MPI_Type_commit(&made);
  length = n;
  return made;
}

static void pp_vector(int n) {
  const MPI_Datatype type = vector_of(n);
  if (rank > 1) return;
  if (rank == 0) MPI_Send(send_buffer, 1, type, 1, 1, MPI_COMM_WORLD);
  MPI_Recv(receive_buffer, 1, type, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(send_buffer, 1, type, 0, 1, MPI_COMM_WORLD);
}

static void pp_sendrecv(int n) {
  if (rank > 1) return;
  MPI_Sendrecv(send_buffer, n, MPI_DOUBLE, 1 - rank, 1, receive_buffer, n, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* ---- all ranks ---- */

static void spread(int n) {
  for (int r = 0; r < ranks; ++r) {
    counts[r] = part(n);
    places[r] = r * part(n);
  }
}

static void do_gather(int n) { MPI_Gather(send_buffer, part(n), MPI_DOUBLE, receive_buffer, part(n), MPI_DOUBLE, 0, MPI_COMM_WORLD); }
static void do_scatter(int n) { MPI_Scatter(send_buffer, part(n), MPI_DOUBLE, receive_buffer, part(n), MPI_DOUBLE, 0, MPI_COMM_WORLD); }
static void do_gatherv(int n) {
  spread(n);
  MPI_Gatherv(send_buffer, part(n), MPI_DOUBLE, receive_buffer, counts, places, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}
static void do_scatterv(int n) {
  spread(n);
  MPI_Scatterv(send_buffer, counts, places, MPI_DOUBLE, receive_buffer, part(n), MPI_DOUBLE, 0, MPI_COMM_WORLD);
}
static void do_allgatherv(int n) {
  spread(n);
  MPI_Allgatherv(send_buffer, part(n), MPI_DOUBLE, receive_buffer, counts, places, MPI_DOUBLE, MPI_COMM_WORLD);
}
static void do_alltoallv(int n) {
  spread(n);
  MPI_Alltoallv(send_buffer, counts, places, MPI_DOUBLE, receive_buffer, counts, places, MPI_DOUBLE, MPI_COMM_WORLD);
}
static void do_reduce_scatter(int n) {
  spread(n);
  MPI_Reduce_scatter(send_buffer, receive_buffer, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
static void do_scan(int n) { MPI_Scan(send_buffer, receive_buffer, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void do_exscan(int n) { MPI_Exscan(send_buffer, receive_buffer, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void do_allreduce_in_place(int n) { MPI_Allreduce(MPI_IN_PLACE, receive_buffer, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD); }

static void done(MPI_Request* request) { MPI_Wait(request, MPI_STATUS_IGNORE); }
static void do_ibarrier(int n) {
  MPI_Request request;
  (void)n;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  done(&request);
}
static void do_ibcast(int n) {
  MPI_Request request;
  MPI_Ibcast(send_buffer, n, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request);
  done(&request);
}
static void do_iallreduce(int n) {
  MPI_Request request;
  MPI_Iallreduce(send_buffer, receive_buffer, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  done(&request);
}
static void do_iallgather(int n) {
  MPI_Request request;
  MPI_Iallgather(send_buffer, part(n), MPI_DOUBLE, receive_buffer, part(n), MPI_DOUBLE, MPI_COMM_WORLD, &request);
  done(&request);
}
static void do_ialltoall(int n) {
  MPI_Request request;
  MPI_Ialltoall(send_buffer, part(n), MPI_DOUBLE, receive_buffer, part(n), MPI_DOUBLE, MPI_COMM_WORLD, &request);
  done(&request);
}

/* Halos: with the neighbours in a ring. */
static MPI_Comm ring(void) {
  static MPI_Comm made = MPI_COMM_NULL;
  const int wraps = 1;
  if (made == MPI_COMM_NULL) MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &wraps, 0, &made);
  return made;
}
static void do_neighbor_alltoall(int n) {
  MPI_Neighbor_alltoall(send_buffer, n / 2, MPI_DOUBLE, receive_buffer, n / 2, MPI_DOUBLE, ring());
}

static void do_comm_dup(int n) {
  MPI_Comm made;
  (void)n;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Comm_free(&made);
}
static void do_comm_split(int n) {
  MPI_Comm made;
  (void)n;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &made);
  MPI_Comm_free(&made);
}

static const struct {
  const char* name;
  call* run;
  int two;   /* ranks 0 and 1 only */
  int sized; /* otherwise it moves no data */
  int trips; /* messages one after the other */
} all[] = {{"ssend", pp_ssend, 1, 1, 2},
           {"any_source", pp_any, 1, 1, 2},
           {"probe", pp_probe, 1, 1, 2},
           {"isend_irecv", pp_nonblocking, 1, 1, 2},
           {"vector", pp_vector, 1, 1, 2},
           {"sendrecv", pp_sendrecv, 1, 1, 1},
           {"gather", do_gather, 0, 1, 1},
           {"scatter", do_scatter, 0, 1, 1},
           {"gatherv", do_gatherv, 0, 1, 1},
           {"scatterv", do_scatterv, 0, 1, 1},
           {"allgatherv", do_allgatherv, 0, 1, 1},
           {"alltoallv", do_alltoallv, 0, 1, 1},
           {"reduce_scatterv", do_reduce_scatter, 0, 1, 1},
           {"scan", do_scan, 0, 1, 1},
           {"exscan", do_exscan, 0, 1, 1},
           {"allreduce_in_place", do_allreduce_in_place, 0, 1, 1},
           {"ibarrier", do_ibarrier, 0, 0, 1},
           {"ibcast", do_ibcast, 0, 1, 1},
           {"iallreduce", do_iallreduce, 0, 1, 1},
           {"iallgather", do_iallgather, 0, 1, 1},
           {"ialltoall", do_ialltoall, 0, 1, 1},
           {"neighbor_alltoall", do_neighbor_alltoall, 0, 1, 1},
           {"comm_dup", do_comm_dup, 0, 0, 1},
           {"comm_split", do_comm_split, 0, 0, 1}};

static void time_all(void) {
  static const long sizes[] = {64, 4096, 65536, 1 << 20};
  for (size_t c = 0; c < sizeof all / sizeof *all; ++c) {
    if (!wanted(all[c].name) || (all[c].two && ranks < 2)) continue;
    if (!all[c].sized) time_call(all[c].name, all[c].run, 0, rounds_for(0), all[c].trips);
    for (size_t s = 0; all[c].sized && s < sizeof sizes / sizeof *sizes; ++s)
      if (chosen(sizes[s])) time_call(all[c].name, all[c].run, sizes[s], rounds_for(sizes[s]), all[c].trips);
  }
}

static double seconds_after_late(call* run, double late) {
  char token = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  while (rank == 0 && MPI_Wtime() < begin + late) continue;
  begin = MPI_Wtime();
  run(1);
  if (rank != 0) MPI_Send(&token, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
  for (int r = 1; rank == 0 && r < ranks; ++r) MPI_Recv(&token, 1, MPI_CHAR, r, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return MPI_Wtime() - begin;
}

static void do_barrier(int n) {
  (void)n;
  MPI_Barrier(MPI_COMM_WORLD);
}

static void time_late(void) {
  static const struct {
    const char* name;
    call* run;
  } calls[] = {{"late_barrier", do_barrier}, {"late_iallreduce", do_iallreduce}};
  static const long late[] = {1000, 4000, 12000, 40000};
  double times[BATCHES];
  for (size_t c = 0; wanted("late") && ranks > 1 && c < sizeof calls / sizeof *calls; ++c)
    for (size_t l = 0; l < sizeof late / sizeof *late; ++l) {
      seconds_after_late(calls[c].run, 1e-6 * (double)late[l]);
      for (int b = 0; b < BATCHES; ++b) times[b] = 1e6 * seconds_after_late(calls[c].run, 1e-6 * (double)late[l]);
      report(calls[c].name, late[l], median(times, BATCHES), "us");
    }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  read_options(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  operand = send_buffer = malloc(2 * LARGEST);
  receive_buffer = malloc(2 * LARGEST);
  if (!send_buffer || !receive_buffer || ranks > MOST_RANKS) MPI_Abort(MPI_COMM_WORLD, 1);
  for (size_t i = 0; i < 2 * LARGEST / sizeof(double); ++i) send_buffer[i] = receive_buffer[i] = (double)(i % 100);
  time_all();
  time_late();
  free(send_buffer);
  free(receive_buffer);
  MPI_Finalize();
  return 0;
}
