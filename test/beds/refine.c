// What refinement on the way (WEFT_COLL_REFINE) is worth: sums, the first of them and the last.
//   refine CALLS [NUMBERS]      of so many numbers of 8 B; one
// Prints how long a call took at first and in the end, in us: of a hundred each the one in the middle, on rank 0.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { some = 100 };

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double middle(double* times) {
  qsort(times, some, sizeof *times, compare);
  return times[some / 2] * 1e6;
}

int main(int argc, char** argv) {
  int rank, size, wrong = 0;
  const int calls = argc > 1 ? atoi(argv[1]) : 0, numbers = argc > 2 ? atoi(argv[2]) : 1;
  double first[some], last[some];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long* const mine = calloc((size_t)numbers, sizeof(long));
  long* const sum = calloc((size_t)numbers, sizeof(long));
  if (calls < 2 * some || numbers < 1 || !mine || !sum) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int i = 0; i < calls; i++) {
    mine[numbers - 1] = rank + i;
    const double begin = MPI_Wtime();
    MPI_Allreduce(mine, sum, numbers, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    const double took = MPI_Wtime() - begin;
    if (i < some) first[i] = took;
    if (i >= calls - some) last[i - (calls - some)] = took;
    wrong += sum[numbers - 1] != (long)size * i + (long)size * (size - 1) / 2;
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("refine: %.1f us at first, %.1f in the end, %d wrong sums\n", middle(first), middle(last), wrong);
  free(mine);
  free(sum);
  MPI_Finalize();
  return wrong != 0;
}
