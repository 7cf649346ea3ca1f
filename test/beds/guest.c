/* A rank that shows what its launcher and its transports do for it. Plain MPI.
 *   guest paths NODES    ranks of one node meet in shared memory, others over the network (the hosts' counters tell)
 *   guest abort RANK     that rank calls MPI_Abort with 7 while the others wait for it
 *   guest kill RANK      that rank is killed while the others wait for it
 *   guest wait RANK      all wait, that rank outside of MPI */
#include <inttypes.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 16 << 20 };

static int rank, ranks;

/* Bytes that this host has received over any interface, the loopback included. */
static uint64_t received(void) {
  char line[512], name[64];
  uint64_t bytes, sum = 0;
  FILE* file = fopen("/proc/net/dev", "r");
  if (!file) MPI_Abort(MPI_COMM_WORLD, 2);
  while (fgets(line, sizeof line, file))
    if (sscanf(line, " %63[^:]: %" SCNu64, name, &bytes) == 2) sum += bytes;
  fclose(file);
  return sum;
}

/* What the host received while each rank exchanged SIZE bytes with a neighbour in a ring. */
static uint64_t ring(MPI_Comm comm) {
  static char out[SIZE], in[SIZE];
  int me, size;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &size);
  memset(out, 'a' + me, SIZE);
  MPI_Barrier(MPI_COMM_WORLD);
  const uint64_t before = received();
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Sendrecv(out, SIZE, MPI_CHAR, (me + 1) % size, 0, in, SIZE, MPI_CHAR, (me + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  if (in[0] != 'a' + (me + size - 1) % size || in[SIZE - 1] != in[0]) MPI_Abort(MPI_COMM_WORLD, 3);
  return received() - before;
}

static int paths(int nodes) {
  MPI_Comm node, across;
  int size, place;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &size);
  MPI_Comm_rank(node, &place);
  MPI_Comm_split(MPI_COMM_WORLD, place, 0, &across);
  const uint64_t within = ring(node), between = ring(across);
  int bad = size * nodes != ranks || within > SIZE / 8 || between < SIZE, all;
  if (bad)
    printf("rank %d: %d ranks on its node, %" PRIu64 " bytes over the network within it, %" PRIu64 " between nodes\n", rank, size, within,
           between);
  MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && !all) printf("paths ok: %d ranks on %d nodes\n", ranks, nodes);
  MPI_Comm_free(&across);
  MPI_Comm_free(&node);
  return all != 0;
}

static int lose(const char* how, int who) {
  int never;
  if (rank == who && strcmp(how, "kill") == 0) raise(SIGKILL);
  while (rank == who && strcmp(how, "wait") == 0) pause();
  if (rank == who) MPI_Abort(MPI_COMM_WORLD, 7);
  MPI_Recv(&never, 1, MPI_INT, who, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return 1;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  const int status = strcmp(argv[1], "paths") == 0 ? paths(atoi(argv[2])) : lose(argv[1], atoi(argv[2]));
  MPI_Finalize();
  return status;
}
