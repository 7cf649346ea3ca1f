/* Half a round trip between two ranks, one measured for itself each time: medians bear a busy machine better than means. Data goes from one
 * buffer into another: what has just arrived lies in a processor's cache, from where it is slower to fetch.
 * Then one way, windows of 32 messages: the best window. Prints NAME BYTES VALUE a line, in us and MB/s; below 1 KiB messages a ms.
 *
 *   medians [SHARE [BYTES...]]     1/SHARE of the rounds, for slow machines; other sizes, of 4 MiB at most */
#include <mpi.h>

#include "row.h"

enum { MOST = 20000, WINDOW = 32, WINDOWS = 60, LARGEST = 4 << 20 };

int main(int argc, char** argv) {
  static const int usual[] = {8, 64, 1024, 8192, 65536, 1 << 20, LARGEST};
  static double times[MOST];
  MPI_Request requests[WINDOW];
  char *data = calloc(1, LARGEST), *into = calloc(1, LARGEST), token;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int share = argc > 1 ? atoi(argv[1]) : 1, count = argc > 2 ? argc - 2 : (int)(sizeof usual / sizeof *usual);
  for (int s = 0; s < count; s++) {
    const int n = argc > 2 ? atoi(argv[2 + s]) : usual[s], rounds = (n <= 8192 ? MOST : n <= 65536 ? 3000 : 300) / share;
    for (int i = 0; i < rounds; i++) {
      const double begin = MPI_Wtime();
      if (rank == 0) MPI_Send(data, n, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(into, n, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (rank == 1) MPI_Send(data, n, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
      times[i] = (MPI_Wtime() - begin) / 2 * 1e6;
    }
    const double latency = median(times, rounds);
    if (rank == 0) printf("latency %d %.3f\n", n, latency);
    if (rounds == 0) continue;
    double best = 0;
    for (int w = 0; w < WINDOWS / share; w++) {
      const double begin = MPI_Wtime();
      for (int i = 0; i < WINDOW; i++) {
        if (rank == 0) MPI_Isend(data, n, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &requests[i]);
        if (rank == 1) MPI_Irecv(into, n, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[i]);
      }
      MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
      if (rank == 1) MPI_Send(&token, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
      if (rank == 0) MPI_Recv(&token, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      const double rate = (double)n * WINDOW / (MPI_Wtime() - begin) / 1e6;
      if (rate > best) best = rate;
    }
    if (rank == 0 && n < 1024) printf("rate %d %.2f\n", n, best / n * 1000);
    if (rank == 0 && n >= 1024) printf("bandwidth %d %.0f\n", n, best);
  }
  MPI_Finalize();
  free(data);
  free(into);
  return 0;
}
