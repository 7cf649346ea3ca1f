// What `reorder` saves: neighbours exchange data in a topology, with or without it. How much crosses between hosts is seen from outside.
//   reorder grid|ring 0|1 ROUNDS     blocks of 64 KiB; a grid of 2 rows, or a ring whose members sit three ranks apart
// Prints how many bytes go from hosts to others in each round, by the places of the ranks.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { words = 8192, most = 4 };

static int modulo(int a, int size) { return (a % size + size) % size; }

// The topology, and the neighbours of the caller in it.
static MPI_Comm topology(const char* kind, int reorder, int neighbours[most], int* count) {
  MPI_Comm made;
  int rank, size, got = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (!strcmp(kind, "ring")) {
    const int both[2] = {modulo(rank - 3, size), modulo(rank + 3, size)};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, both, MPI_UNWEIGHTED, 2, both, MPI_UNWEIGHTED, MPI_INFO_NULL, reorder, &made);
    int in[2];
    MPI_Dist_graph_neighbors(made, 2, in, MPI_UNWEIGHTED, 2, neighbours, MPI_UNWEIGHTED);
    *count = 2;
    return made;
  }
  const int extents[2] = {2, size / 2}, periods[2] = {0, 0};
  MPI_Cart_create(MPI_COMM_WORLD, 2, extents, periods, reorder, &made);
  for (int dimension = 0; dimension < 2; dimension++) {
    MPI_Cart_shift(made, dimension, 1, &neighbours[got], &neighbours[got + 1]);
    got += 2;
  }
  *count = got;
  return made;
}

static long crossing(MPI_Comm comm, const int* neighbours, int count) {
  MPI_Comm host;
  int first, size, sum = 0, rank;
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  first = rank;
  MPI_Bcast(&first, 1, MPI_INT, 0, host);
  int* hosts = malloc(sizeof(int) * (size_t)size);
  MPI_Allgather(&first, 1, MPI_INT, hosts, 1, MPI_INT, comm);
  for (int i = 0; i < count; i++) sum += neighbours[i] != MPI_PROC_NULL && hosts[neighbours[i]] != first;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm);
  free(hosts);
  MPI_Comm_free(&host);
  return (long)sum * words * (long)sizeof(long);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  int neighbours[most], count, rank, wrong = 0;
  MPI_Comm comm = topology(argv[1], atoi(argv[2]), neighbours, &count);
  MPI_Comm_rank(comm, &rank);
  const long bytes = crossing(comm, neighbours, count);
  long* out = malloc(sizeof(long) * words * most);
  long* in = malloc(sizeof(long) * words * most);
  for (int round = 0; round < atoi(argv[3]); round++) {
    for (int i = 0; i < words * count; i++) out[i] = (long)rank << 32 | round;
    MPI_Neighbor_alltoall(out, words, MPI_LONG, in, words, MPI_LONG, comm);
    for (int i = 0; i < words * count; i++)
      wrong += neighbours[i / words] != MPI_PROC_NULL && in[i] != ((long)neighbours[i / words] << 32 | round);
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, comm);
  if (rank == 0) printf("%s: %ld bytes cross in a round, %d wrong words\n", argv[1], bytes, wrong);
  MPI_Comm_free(&comm);
  free(out);
  free(in);
  MPI_Finalize();
  return wrong != 0;
}
