// What is left of a job when a rank is killed: each of the others must hear of it as an error of the class MPIX_ERR_PROC_FAILED.
//   survivors BYTES [away]    rank 1 kills itself; rank 0 waits for a message of BYTES from it, the others send it such; away: rank 0
//   computes
//                             while that happens
#include <mpi.h>
#include <mpix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Everybody has talked to rank 1, both ways. */
static void meet(int rank, int size) {
  int word = 0;
  for (int other = 0; other < size; other++) {
    if (other == 1 || (rank != 1 && rank != other)) continue;
    const int peer = rank == 1 ? other : 1;
    MPI_Sendrecv(&word, 1, MPI_INT, peer, 0, &word, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static int receive_after_a_while(char* data, int bytes) {
  MPI_Request request;
  MPI_Irecv(data, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request);
  usleep(300000);
  return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  const int bytes = argc > 1 ? atoi(argv[1]) : 8;
  char* data = calloc(1, (size_t)bytes);
  int rank, size, error = MPI_SUCCESS, class = MPI_SUCCESS;
  signal(SIGTERM, SIG_IGN);  // mpirun ends the job meanwhile
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  meet(rank, size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (rank == 1) raise(SIGKILL);
  if (rank == 0 && argc > 2) error = receive_after_a_while(data, bytes);
  if (rank == 0 && argc <= 2) error = MPI_Recv(data, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  while (rank > 1 && error == MPI_SUCCESS) error = MPI_Send(data, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
  MPI_Error_class(error, &class);
  fprintf(stderr, "rank %d: %s\n", rank, class == MPIX_ERR_PROC_FAILED ? "MPIX_ERR_PROC_FAILED" : "another class");
  _exit(0);
}
