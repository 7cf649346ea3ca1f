// A collective as often as asked for, every result checked, and how long it took. What crosses between switches meanwhile is seen from
// outside.
//   racks COLLECTIVE BYTES ROUNDS    allreduce, alltoall, bcast, reduce, allgather or reduce_scatter
// BYTES are those of the vector; of a rank's whole send buffer for alltoall, of one rank's block for allgather. Two more rounds come first,
// untimed. Timed rounds follow each other without a pause in which the network could rest, so each has a buffer of its own for its result,
// and all are checked at the end. The root, where there is one, is rank 1. Runs with any MPI.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { warm_up = 2 };

typedef enum { allreduce, alltoall, bcast, reduce, allgather, reduce_scatter, kinds } Kind;
static const char* const names[kinds] = {"allreduce", "alltoall", "bcast", "reduce", "allgather", "reduce_scatter"};

static int rank, size, root;
static Kind kind;
static int words;  // of the buffer that BYTES describes
static int block;  // a rank's part of it

// What a rank contributes at a position. No two contributions of other ranks add up to twice a third one's, so a sum shows who is missing;
// all sums are exact.
static double factor(int of) { return 1.0 + (double)of * of * of; }
static double value(int of, int at) { return (at + 1) * factor(of); }
static double factors;  // of all ranks
static double sum(int at) { return (at + 1) * factors; }

static int result_words(void) { return kind == allgather ? words * size : kind == reduce_scatter ? block : words; }

static double expected(int at) {
  switch (kind) {
    case alltoall: return value(at / block, rank * block + at % block);
    case bcast: return value(root, at);
    case allgather: return value(at / words, at % words);
    case reduce_scatter: return sum(rank * block + at);
    default: return sum(at);
  }
}

static void call(const double* mine, double* result) {
  switch (kind) {
    case allreduce: MPI_Allreduce(mine, result, words, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); break;
    case alltoall: MPI_Alltoall(mine, block, MPI_DOUBLE, result, block, MPI_DOUBLE, MPI_COMM_WORLD); break;
    case bcast: MPI_Bcast(result, words, MPI_DOUBLE, root, MPI_COMM_WORLD); break;
    case reduce: MPI_Reduce(mine, result, words, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD); break;
    case allgather: MPI_Allgather(mine, words, MPI_DOUBLE, result, words, MPI_DOUBLE, MPI_COMM_WORLD); break;
    case reduce_scatter: MPI_Reduce_scatter_block(mine, result, block, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); break;
    default: break;
  }
}

static void give_up(const char* why) {
  if (rank == 0) fprintf(stderr, "racks: %s\n", why);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

static int read_arguments(int argc, char** argv) {
  if (argc != 4) give_up("COLLECTIVE BYTES ROUNDS are needed");
  for (kind = 0; kind < kinds && strcmp(argv[1], names[kind]); kind++) {
  }
  if (kind == kinds) give_up("there is no such collective");
  words = atoi(argv[2]) / (int)sizeof(double);
  block = words / size;
  if (words < 1 || ((kind == alltoall || kind == reduce_scatter) && block * size != words)) give_up("each rank needs as many doubles");
  if (atoi(argv[3]) < 1) give_up("at least one round is needed");
  return atoi(argv[3]);
}

// Nothing that a result may be is there before.
static double* prepared(const double* mine) {
  const size_t count = (size_t)result_words();
  double* made = malloc(count * sizeof *made);
  if (!made) give_up("there is not enough memory for that many rounds");
  for (size_t i = 0; i < count; i++) made[i] = kind == bcast && rank == root ? mine[i] : -1;
  return made;
}

static long wrong_words(const double* result) {
  long wrong = 0;
  if (kind == reduce && rank != root) return 0;
  for (int at = 0; at < result_words(); at++) wrong += result[at] != expected(at);
  return wrong;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  root = size > 1;
  for (int of = 0; of < size; of++) factors += factor(of);
  const int rounds = read_arguments(argc, argv);
  double* mine = malloc((size_t)words * sizeof *mine);
  double** results = malloc((size_t)(warm_up + rounds) * sizeof *results);
  if (!mine || !results) give_up("there is not enough memory");
  for (int i = 0; i < words; i++) mine[i] = value(rank, i);
  for (int i = 0; i < warm_up + rounds; i++) results[i] = prepared(mine);

  for (int i = 0; i < warm_up; i++) call(mine, results[i]);
  MPI_Barrier(MPI_COMM_WORLD);
  double seconds = -MPI_Wtime(), longest = 0;
  for (int i = 0; i < rounds; i++) call(mine, results[warm_up + i]);
  seconds += MPI_Wtime();
  MPI_Reduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);

  long wrong = 0;
  for (int i = 0; i < warm_up + rounds; i++) {
    wrong += wrong_words(results[i]);
    free(results[i]);
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%s %s B: %.1f us a round, %ld wrong\n", argv[1], argv[2], longest * 1e6 / rounds, wrong);
  free(results);
  free(mine);
  MPI_Finalize();
  return wrong != 0;
}
