/* Message rate of several threads, each on a communicator of its own. Compiles against any MPI. Prints one line a row:
 * NAME BYTES VALUE UNIT; medians of batches: messages a second of all threads together.
 *
 *   threads [--quick]                  (compare.py --source threads.c --ranks 1, or 2 where there are CPUs for twice the threads)
 *
 * With one rank each thread sends to itself: the library's own cost alone, for which as many cores suffice as there are threads. */
#include <mpi.h>
#include <pthread.h>

#include "row.h"

enum { MOST = 4, BATCHES = 11, WINDOW = 64 };

static int ranks, turns = 4000;
static MPI_Comm own[MOST];
static pthread_barrier_t gate;

static void window(MPI_Comm comm) {
  MPI_Request requests[WINDOW];
  char in[WINDOW][8], out[8] = "weft";
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  for (int i = 0; i < WINDOW; ++i) MPI_Irecv(in[i], 8, MPI_CHAR, from, 1, comm, &requests[i]);
  for (int i = 0; i < WINDOW; ++i) MPI_Send(out, 8, MPI_CHAR, to, 1, comm);
  MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

static void* work(void* comm) {
  for (int b = 0; b < BATCHES + 1; ++b) {
    pthread_barrier_wait(&gate);
    for (int i = 0; i < turns; ++i) window(*(MPI_Comm*)comm);
    pthread_barrier_wait(&gate);
  }
  return NULL;
}

static void measure(const char* name, int threads, MPI_Comm* comms) {
  pthread_t all[MOST];
  double rates[BATCHES];
  pthread_barrier_init(&gate, NULL, (unsigned)threads + 1);
  for (int i = 0; i < threads; ++i) pthread_create(&all[i], NULL, work, &comms[i]);
  for (int b = -1; b < BATCHES; ++b) { /* the first one warms up */
    pthread_barrier_wait(&gate);
    const double begin = MPI_Wtime();
    pthread_barrier_wait(&gate);
    if (b >= 0) rates[b] = (double)turns * WINDOW * threads / (MPI_Wtime() - begin);
  }
  for (int i = 0; i < threads; ++i) pthread_join(all[i], NULL);
  pthread_barrier_destroy(&gate);
  report(name, 8, median(rates, BATCHES), "1/s");
}

int main(int argc, char** argv) {
  int level;
  MPI_Comm same[MOST];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (level != MPI_THREAD_MULTIPLE) return fprintf(stderr, "no MPI_THREAD_MULTIPLE\n"), 1;
  if (argc > 1 && strcmp(argv[1], "--quick") == 0) turns = 400;
  for (int i = 0; i < MOST; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
    same[i] = own[0];
  }
  measure("rate_1_thread", 1, own);
  measure("rate_2_threads", 2, own);
  if (ranks == 1) measure("rate_2_threads_same_comm", 2, same);
  for (int i = 0; i < MOST; ++i) MPI_Comm_free(&own[i]);
  MPI_Finalize();
  return 0;
}
