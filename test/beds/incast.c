// Incast: all ranks but the first two send to rank 0, which does not receive, while all but rank 0 go on among themselves. Then rank 0
// takes everything: each message once, in order, its memory has grown by no more than it may, and it is not slower than one that
// has received all the time.
//   incast MESSAGES BOUND [asleep]     messages of 1 KiB per sender; MiB; `asleep`: rank 0 does not even look at its connections meanwhile
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { words = 128, turns = 5, rounds = 3, flood = 1, over = 2, ring = 3 };

static long kib(const char* what) {  // of /proc/self/status
  char line[256];
  long value = -1;
  FILE* file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (!strncmp(line, what, strlen(what))) value = atol(line + strlen(what) + 1);
  if (file) fclose(file);
  return value;
}

static void give_up(const char* why) {
  fprintf(stderr, "incast: %s\n", why);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static void fill(long* to, long rank, long number) {
  for (int i = 0; i < words; i++) to[i] = rank << 40 ^ number << 8 ^ i;
}

// One number goes round all ranks but 0.
static void go_round(int rank, int size) {
  const int next = rank == size - 1 ? 1 : rank + 1, before = rank == 1 ? size - 1 : rank - 1;
  int number = 0;
  for (int turn = 0; turn < turns; turn++) {
    if (rank == 1) MPI_Send(&number, 1, MPI_INT, next, ring, MPI_COMM_WORLD);
    MPI_Recv(&number, 1, MPI_INT, before, ring, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    number++;
    if (rank != 1) MPI_Send(&number, 1, MPI_INT, next, ring, MPI_COMM_WORLD);
  }
  if (rank == 1 && number != turns * (size - 1)) give_up("the ring has lost count");
}

static void send_all(int rank, int size, long messages) {
  long* data = malloc(sizeof(long) * words * (size_t)messages);
  MPI_Request* requests = malloc(sizeof(MPI_Request) * (size_t)messages);
  for (long i = 0; i < messages; i++) {
    fill(data + words * i, rank, i);
    MPI_Isend(data + words * i, words, MPI_LONG, 0, flood, MPI_COMM_WORLD, &requests[i]);
  }
  go_round(rank, size);
  MPI_Waitall((int)messages, requests, MPI_STATUSES_IGNORE);
  free(data);
  free(requests);
}

// The seconds that it took.
static double receive_all(int size, long messages) {
  const double begin = MPI_Wtime();
  long got[words], want[words];
  long* next = calloc((size_t)size, sizeof(long));
  for (long i = 0; i < messages * (size - 2); i++) {
    MPI_Status status;
    MPI_Recv(got, words, MPI_LONG, MPI_ANY_SOURCE, flood, MPI_COMM_WORLD, &status);
    fill(want, status.MPI_SOURCE, next[status.MPI_SOURCE]++);
    if (memcmp(got, want, sizeof want)) give_up("a message is not the one that is due");
  }
  for (int rank = 2; rank < size; rank++)
    if (next[rank] != messages) give_up("a message is lost or came twice");
  free(next);
  return MPI_Wtime() - begin;
}

// Rank 1 does not flood: its word says that the others are done with each other.
static void be_deaf(int asleep) {
  const struct timespec nap = {1, 0};
  if (asleep) nanosleep(&nap, NULL);
  MPI_Recv(NULL, 0, MPI_BYTE, 1, over, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long messages = argc > 1 ? atol(argv[1]) : 1000, bound = argc > 2 ? atol(argv[2]) : 1000;
  const int asleep = argc > 3;
  for (int from = 1; from < size && rank == 0; from++) MPI_Recv(NULL, 0, MPI_BYTE, from, over, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank != 0) MPI_Send(NULL, 0, MPI_BYTE, 0, over, MPI_COMM_WORLD);  // all connections are there
  MPI_Barrier(MPI_COMM_WORLD);
  const long before = kib("VmRSS");
  double least[2] = {1e9, 1e9};  // seconds to receive, the second one after having been deaf; the least, as others may be at work here
  for (int round = 0; round < 2 * rounds; round++) {
    const int deaf = round % 2 == 0;
    if (rank == 0) {
      if (deaf) be_deaf(asleep);
      const double time = receive_all(size, messages);
      if (time < least[deaf]) least[deaf] = time;
    } else if (rank == 1) {
      go_round(rank, size);
      if (deaf) MPI_Send(NULL, 0, MPI_BYTE, 0, over, MPI_COMM_WORLD);
    } else {
      send_all(rank, size, messages);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  const double grown = (double)(kib("VmHWM") - before) / 1024;
  if (rank == 0) {
    if (grown > (double)bound) fprintf(stderr, "incast: rank 0 has grown by %.1f MiB\n", grown);
    printf("%d senders of %.1f MiB: the receiver has grown by %.1f MiB; %.2f s to receive after being deaf, %.2f s at once\n", size - 2,
           (double)messages * words * sizeof(long) / 1048576, grown, least[1], least[0]);
    if (grown > (double)bound) give_up("that is more than it may");
    if (least[1] > 3 * least[0] + 0.5) give_up("it does not recover: receiving takes longer after having been deaf");
  }
  MPI_Finalize();
  return 0;
}
