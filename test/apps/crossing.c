/* Touches what differs most between MPI libraries (predefined handles, constants, status, callbacks), to show that a binary made
   for one library of the standard ABI runs on another. Prints the name of the library that it runs on. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 3);                                                 \
    }                                                                               \
  } while (0)

static void longer(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i)
    if (((int*)in)[i] > ((int*)inout)[i]) ((int*)inout)[i] = ((int*)in)[i];
}

static int handler_calls;
static void handler(MPI_Comm* comm, int* code, ...) {
  int class;
  (void)comm;
  MPI_Error_class(*code, &class);
  if (class == MPI_ERR_RANK) ++handler_calls;
}

static int copied(MPI_Comm comm, int key, void* extra, void* value, void* out, int* flag) {
  (void)comm, (void)key, (void)extra;
  *(void**)out = value;
  *flag = 1;
  return MPI_SUCCESS;
}

static int rank, ranks;

/* Point to point, statuses, wildcards, MPI_PROC_NULL. */
static void messages(void) {
  double out[3] = {rank, rank + 0.5, -rank}, in[3] = {0};
  MPI_Status status;
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  MPI_Sendrecv(out, 3, MPI_DOUBLE, next, 7, in, 3, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  int count;
  MPI_Get_count(&status, MPI_DOUBLE, &count);
  CHECK(count == 3 && status.MPI_SOURCE == before && status.MPI_TAG == 7 && in[1] == before + 0.5);
  MPI_Recv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
  CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
  MPI_Request requests[2];
  MPI_Irecv(in, 1, MPI_DOUBLE, before, 9, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out, 1, MPI_DOUBLE, next, 9, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  CHECK(requests[0] == MPI_REQUEST_NULL && in[0] == before);
}

/* Predefined and user operations, in place, many types. */
static void reductions(void) {
  int sum = rank, longest = rank * 3, pair[2] = {-rank, rank};
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == ranks * (ranks - 1) / 2);
  MPI_Op op;
  MPI_Op_create(longer, 1, &op);
  MPI_Allreduce(MPI_IN_PLACE, &longest, 1, MPI_INT, op, MPI_COMM_WORLD);
  CHECK(longest == 3 * (ranks - 1));
  MPI_Op_free(&op);
  CHECK(op == MPI_OP_NULL);
  MPI_Allreduce(MPI_IN_PLACE, pair, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
  CHECK(pair[0] == -(ranks - 1) && pair[1] == ranks - 1);
  float _Complex z = 1.0f;
  MPI_Allreduce(MPI_IN_PLACE, &z, 1, MPI_C_FLOAT_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
  CHECK((float)z == (float)ranks);
}

/* Derived types, their sizes, large counts. */
static void types(void) {
  MPI_Datatype column;
  MPI_Count size, lower, extent;
  int matrix[12], packed[3];
  for (int i = 0; i < 12; ++i) matrix[i] = i;
  MPI_Type_vector(3, 1, 4, MPI_INT, &column);
  MPI_Type_commit(&column);
  MPI_Type_size_x(column, &size);
  MPI_Type_get_extent_x(column, &lower, &extent);
  CHECK(size == 12 && lower == 0 && extent == 36);
  MPI_Sendrecv(matrix + 1, 1, column, rank, 1, packed, 3, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(packed[0] == 1 && packed[1] == 5 && packed[2] == 9);
  MPI_Type_free(&column);
}

/* Communicators, attributes, error handlers. */
static void communicators(void) {
  MPI_Comm half, twin;
  int key, flag, *value, where = 5, result;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2 ? MPI_UNDEFINED : 0, rank, &half);
  CHECK((half == MPI_COMM_NULL) == (rank % 2 == 1));
  if (half != MPI_COMM_NULL) MPI_Comm_free(&half);
  MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_WORLD, key, &where);
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  MPI_Comm_get_attr(twin, key, &value, &flag);
  CHECK(flag && value == &where);
  MPI_Comm_compare(twin, MPI_COMM_WORLD, &result);
  CHECK(result == MPI_CONGRUENT);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
  CHECK(flag && *value >= 32767);
  MPI_Errhandler errhandler;
  MPI_Comm_create_errhandler(handler, &errhandler);
  MPI_Comm_set_errhandler(twin, errhandler);
  MPI_Send(&rank, 1, MPI_INT, ranks + 5, 0, twin);
  CHECK(handler_calls == 1);
  MPI_Errhandler_free(&errhandler);
  MPI_Comm_set_errhandler(twin, MPI_ERRORS_RETURN);
  CHECK(MPI_Send(&rank, 1, MPI_INT, -77, 0, twin) != MPI_SUCCESS);
  MPI_Comm_free(&twin);
}

static void infos(void) {
  MPI_Info info;
  char buffer[16];
  int room = sizeof buffer, flag;
  MPI_Info_create(&info);
  MPI_Info_set(info, "colour", "blue");
  MPI_Info_get_string(info, "colour", &room, buffer, &flag);
  CHECK(flag && !strcmp(buffer, "blue"));
  MPI_Info_free(&info);
}

int main(int argc, char** argv) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length, provided;
  MPI_Get_library_version(text, &length);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  messages();
  reductions();
  types();
  communicators();
  infos();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("crossing ok on %d ranks of: %.60s\n", ranks, text);
  MPI_Finalize();
  return 0;
}
