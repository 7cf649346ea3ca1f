/* Knows nothing of the layer. On n ranks it makes, all together, 2n sends, n receives, 2n waits, n sums and says 3 to MPI_Pcontrol n times;
   it sends 12n bytes. The calls below that name neither (exchanges, collectives, persistent ones) are no sends of the program's. */
#include <mpi.h>
#include <stdio.h>

static int failures;
static void check(int holds, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "%s does not hold\n", what);
}

int main(int argc, char** argv) {
  int rank, ranks, a = 0, sum = 0, word = 0;
  double b = 0;
  MPI_Request requests[2];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  const double out = 0.5 + rank;
  MPI_Irecv(&a, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(&rank, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  check(a == left, "what Isend brought");
  MPI_Irecv(&b, 1, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &requests[0]);
  MPI_Send(&out, 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  check(b == 0.5 + left, "what Send brought");
  MPI_Sendrecv(&rank, 1, MPI_INT, right, 3, &a, 1, MPI_INT, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Ssend_init(&rank, 1, MPI_INT, right, 4, MPI_COMM_WORLD, &requests[0]);
  MPI_Start(&requests[0]);
  MPI_Recv(&a, 1, MPI_INT, left, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  check(a == left, "what Start brought");
  while (!word) MPI_Test(&requests[0], &word, MPI_STATUS_IGNORE);
  MPI_Request_free(&requests[0]);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  check(sum == ranks * (ranks - 1) / 2, "the sum");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Bcast(&sum, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Pcontrol(3);
  MPI_Finalize();
  return failures != 0;
}
