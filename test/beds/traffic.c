// Checksummed traffic of all sizes between the two halves of a job: every byte once, in order. Prints what has gone over.
//   traffic MEGABYTES [SECONDS [FILE [told]]]     per pair and direction; ends earlier when the seconds are over, or when the file is there
// told: errors are returned, and the class of the first one is shown.
#include <mpi.h>
#include <mpix.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { window = 16 };
static uint64_t state;

static uint64_t next(void) {  // splitmix64
  uint64_t z = state += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

// The size and contents of message `number` of `from`: whole words of a sequence of its own, so that any byte that is lost, doubled
// or out of place is seen.
static size_t words_of(int from, long number) {
  state = (uint64_t)from << 40 ^ (uint64_t)number;
  switch (next() % 8) {
    case 0: return next() % 4;
    case 1: return next() % 64;
    case 2:
    case 3: return next() % 4096;
    case 4:
    case 5: return next() % 32768;
    default: return next() % 524288;
  }
}

static void fill(uint64_t* to, size_t words, int from, long number) {
  const uint64_t seed = (uint64_t)from << 48 ^ (uint64_t)number << 20;
  for (size_t i = 0; i < words; i++) to[i] = (seed + i) * 0x9e3779b97f4a7c15ull;
}

static void check(const uint64_t* got, size_t words, int from, long number) {
  const uint64_t seed = (uint64_t)from << 48 ^ (uint64_t)number << 20;
  for (size_t i = 0; i < words; i++)
    if (got[i] != (seed + i) * 0x9e3779b97f4a7c15ull) {
      fprintf(stderr, "message %ld of rank %d: word %zu of %zu is wrong\n", number, from, i, words);
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void told(int error) {
  int rank, class;
  if (error == MPI_SUCCESS) return;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Error_class(error, &class);
  fprintf(stderr, "rank %d has lost its peer: %s\n", rank, class == MPIX_ERR_PROC_FAILED ? "MPIX_ERR_PROC_FAILED" : "another class");
  MPI_Abort(MPI_COMM_WORLD, 4);
}

static void wait_all(MPI_Request* requests, MPI_Status* status) {
  const int error = MPI_Waitall(2 * window, requests, status);
  for (int i = 0; i < 2 * window && error == MPI_ERR_IN_STATUS; i++)
    if (status[i].MPI_ERROR != MPI_ERR_PENDING) told(status[i].MPI_ERROR);
  told(error);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const double megabytes = argc > 1 ? atof(argv[1]) : 100, seconds = argc > 2 ? atof(argv[2]) : 1e9;
  const int peer = (rank + size / 2) % size;
  if (argc > 4) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  uint64_t *out[window], *in[window];
  for (int i = 0; i < window; i++) {
    out[i] = malloc(524288 * 8);
    in[i] = malloc(524288 * 8);
  }
  const double start = MPI_Wtime();
  double bytes = 0;
  int more = 1;
  long number = 0;
  for (; more; number += window) {
    MPI_Request requests[2 * window];
    for (int i = 0; i < window; i++) MPI_Irecv(in[i], 524288, MPI_UINT64_T, peer, 1, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < window; i++) {
      const size_t words = words_of(rank, number + i);
      fill(out[i], words, rank, number + i);
      MPI_Isend(out[i], (int)words, MPI_UINT64_T, peer, 1, MPI_COMM_WORLD, &requests[window + i]);
    }
    MPI_Status status[2 * window];
    wait_all(requests, status);
    for (int i = 0; i < window; i++) {
      int words;
      MPI_Get_count(&status[i], MPI_UINT64_T, &words);
      if ((size_t)words != words_of(peer, number + i)) {
        fprintf(stderr, "message %ld of rank %d has %d words instead of %zu\n", number + i, peer, words, words_of(peer, number + i));
        MPI_Abort(MPI_COMM_WORLD, 3);
      }
      check(in[i], (size_t)words, peer, number + i);
      bytes += 8.0 * words;
    }
    const int mine = bytes < megabytes * 1e6 && MPI_Wtime() - start < seconds && !(argc > 3 && access(argv[3], F_OK) == 0);
    if (rank < size / 2) {
      more = mine;
      told(MPI_Send(&more, 1, MPI_INT, peer, 2, MPI_COMM_WORLD));
    } else {
      told(MPI_Recv(&more, 1, MPI_INT, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
  }
  const double time = MPI_Wtime() - start;
  double all;
  MPI_Reduce(&bytes, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%.0f MB in %ld messages per pair arrived as they were sent, %.0f MB/s\n", all / 1e6, number, all / 1e6 / time);
  MPI_Finalize();
  return 0;
}
