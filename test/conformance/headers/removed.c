/* An old program: functions that MPI 3.0 removed, on any number of ranks. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  char letter;
  double number;
} Record;

static int calls = 0, wrong = 0;

static void count_error(MPI_Comm* comm, int* error, ...) {
  (void)comm;
  (void)error;
  ++calls;
}

static void check(int holds, const char* what) {
  if (holds) return;
  ++wrong;
  fprintf(stderr, "removed: %s does not hold\n", what);
}

static MPI_Datatype record_type(void) {
  static Record record;
  int lengths[2] = {1, 1};
  MPI_Datatype types[2], type;
  MPI_Aint places[2], base;
  types[0] = MPI_CHAR;
  types[1] = MPI_DOUBLE;
  MPI_Address(&record, &base);
  MPI_Address(&record.letter, &places[0]);
  MPI_Address(&record.number, &places[1]);
  places[0] -= base;
  places[1] -= base;
  MPI_Type_struct(2, lengths, places, types, &type);
  MPI_Type_commit(&type);
  return type;
}

static void types(void) {
  MPI_Datatype record = record_type(), column, picked;
  MPI_Aint lower, upper, extent, places[2] = {0, 64};
  int lengths[2] = {1, 2}, size;
  Record out, in;
  MPI_Type_extent(record, &extent);
  MPI_Type_lb(record, &lower);
  MPI_Type_ub(record, &upper);
  check(extent == (MPI_Aint)sizeof(Record) && lower == 0 && upper == extent, "the bounds of a struct");
  MPI_Type_hvector(3, 1, 100, MPI_INT, &column);
  MPI_Type_ub(column, &upper);
  check(upper == 204, "the bound of an hvector");
  MPI_Type_hindexed(2, lengths, places, MPI_INT, &picked);
  MPI_Type_size(picked, &size);
  MPI_Type_ub(picked, &upper);
  check(size == 12 && upper == 72, "the size and the bound of an hindexed");
  memset(&in, 0, sizeof in);
  out.letter = 'x';
  out.number = 1.5;
  MPI_Sendrecv(&out, 1, record, 0, 1, &in, 1, record, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  check(in.letter == 'x' && in.number == 1.5, "a struct arrives");
  MPI_Type_free(&record);
  MPI_Type_free(&column);
  MPI_Type_free(&picked);
}

static void error_handlers(void) {
  MPI_Handler_function* function = count_error;
  MPI_Errhandler handler, found;
  MPI_Errhandler_create(function, &handler);
  MPI_Errhandler_set(MPI_COMM_WORLD, handler);
  MPI_Errhandler_get(MPI_COMM_WORLD, &found);
  check(found == handler, "the error handler that was set");
  MPI_Send(NULL, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  check(calls == 1, "the error handler is called");
  MPI_Errhandler_free(&found);
  MPI_Errhandler_free(&handler);
}

int main(int argc, char** argv) {
  int rank, all = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  types();
  error_handlers();
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) puts("removed: ok");
  MPI_Finalize();
  return all != 0;
}
