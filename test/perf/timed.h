/* How the benchmarks of MPI time a call of all ranks. */
#include <mpi.h>

#include "row.h"

enum { BATCHES = 11 };

static int ranks;
static void* operand; /* what calls send */

/* With --fresh, writes what is about to be sent, as programs do: a byte of each cache line, of doubles one that matters least. */
static inline void freshen(void* data, long bytes) {
  for (long i = 0; fresh && i < bytes; i += 64) ++((char*)data)[i];
}

typedef void call(int count);

/* A rank's part of n elements: at least one, as calls that move nothing need not do anything. */
static inline int part(int n) { return n > ranks ? n / ranks : 1; }

/* Reports the mean time of a call in microseconds, divided by `trips`: of the slowest rank, the median of batches of so many calls. */
static inline void time_call(const char* name, call* run, long bytes, long rounds, double trips) {
  double times[BATCHES], mine, slowest = 0;
  const int count = (int)(bytes / (long)sizeof(double));
  run(count);
  for (int b = 0; b < BATCHES; ++b) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (long i = 0; i < rounds; ++i) {
      freshen(operand, bytes);
      run(count);
    }
    mine = (MPI_Wtime() - begin) / (double)rounds * 1e6 / trips;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    times[b] = slowest;
  }
  report(name, bytes, median(times, BATCHES), "us");
}
