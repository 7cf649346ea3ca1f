/* A job that only meets once: what starting and ending it costs is the launcher's and MPI_Init's.
   With an argument rank 0 says so and all wait for a signal, so that somebody can look at who is there. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  (void)argv;
  MPI_Init(&argc, &argv);
  MPI_Barrier(MPI_COMM_WORLD);
  if (argc > 1) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!rank) puts("ready");
    fflush(stdout);
    for (int flag = 0;; usleep(200000))
      MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE); /* others may need our help */
  }
  MPI_Finalize();
  return 0;
}
