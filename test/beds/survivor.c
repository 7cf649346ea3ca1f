// What becomes of a job whose last rank cannot be reached any more: errors are returned, and the others go on without it.
//   survivor     all others exchange messages with the last rank until that fails, then with each other
#include <mpi.h>
#include <mpix.h>
#include <stdio.h>
#include <stdlib.h>

enum { words = 20000, rounds = 20 };
static int rank, size, buffer[2][words];

// Says how the exchange with `peer` ended. True if it has.
static int over(int error, int peer) {
  char text[MPI_MAX_ERROR_STRING];
  int class, length;
  if (error == MPI_SUCCESS) return 0;
  MPI_Error_class(error, &class);
  MPI_Error_string(error, text, &length);
  printf("rank %d: no way to rank %d: %s: %s\n", rank, peer, class == MPIX_ERR_PROC_FAILED ? "MPIX_ERR_PROC_FAILED" : "another class",
         text);
  fflush(stdout);
  return 1;
}

static int exchange(int count, int to, int from) {
  return MPI_Sendrecv(buffer[0], count, MPI_INT, to, 1, buffer[1], count, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int last = size - 1;
  int error = MPI_SUCCESS;
  if (rank == last) {
    for (long turn = 0; error == MPI_SUCCESS; turn++) error = exchange(1 + turn % words, (int)(turn % last), (int)(turn % last));
    over(error, -1);
  } else {
    for (long turn = rank; error == MPI_SUCCESS; turn += last) error = exchange(1 + turn % words, last, last);
    over(error, last);
    for (int i = 0; i < words; i++) buffer[0][i] = rank * words + i;
    for (int round = 0; round < rounds; round++) {
      const int left = (rank + last - 1) % last;
      if (over(exchange(words, (rank + 1) % last, left), left)) return 1;
      for (int i = 0; i < words; i++)
        if (buffer[1][i] != left * words + i) return 2;
    }
    printf("rank %d goes on without rank %d\n", rank, last);
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
