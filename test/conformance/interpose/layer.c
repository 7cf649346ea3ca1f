/* A library of the old style, as profilers and tracers are: it takes MPI's names, counts, and goes on through the PMPI names. It has a
   communicator of its own, on which it sums the counts in MPI_Finalize. It compiles against any MPI. */
#include <mpi.h>
#include <stdio.h>

static MPI_Comm own = MPI_COMM_NULL;
static long sends, receives, waits, sums, bytes, levels;

static int begin(int result) {
  if (result == MPI_SUCCESS) result = PMPI_Comm_dup(MPI_COMM_WORLD, &own);
  return result;
}

int MPI_Init(int* argc, char*** argv) { return begin(PMPI_Init(argc, argv)); }
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return begin(PMPI_Init_thread(argc, argv, required, provided));
}

static void count_bytes(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  bytes += (long)size * count;
}

int MPI_Send(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  ++sends;
  count_bytes(count, type);
  return PMPI_Send(buf, count, type, dest, tag, comm);
}

int MPI_Isend(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  ++sends;
  count_bytes(count, type);
  return PMPI_Isend(buf, count, type, dest, tag, comm, request);
}

int MPI_Recv(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  MPI_Status mine;
  ++receives;
  if (status == MPI_STATUS_IGNORE) status = &mine; /* profilers want to know who sent */
  return PMPI_Recv(buf, count, type, source, tag, comm, status);
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  ++waits;
  return PMPI_Wait(request, status);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  ++waits;
  return PMPI_Waitall(count, requests, statuses);
}

int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  long seen = 0, most = ++sums;
  PMPI_Allreduce(&most, &seen, 1, MPI_LONG, MPI_MAX, own); /* a collective of its own beside the user's */
  return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Pcontrol(const int level, ...) {
  levels += level;
  return MPI_SUCCESS;
}

int MPI_Finalize(void) {
  long mine[] = {sends, receives, waits, sums, bytes, levels}, all[6];
  int rank = 0;
  PMPI_Comm_rank(own, &rank);
  PMPI_Reduce(mine, all, 6, MPI_LONG, MPI_SUM, 0, own);
  if (rank == 0)
    printf("layer: %ld sends, %ld receives, %ld waits, %ld sums, %ld bytes, levels %ld\n", all[0], all[1], all[2], all[3], all[4], all[5]);
  fflush(stdout);
  PMPI_Comm_free(&own);
  return PMPI_Finalize();
}
