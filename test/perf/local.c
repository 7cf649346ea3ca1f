/* What a process does to its own memory: packing of layouts, reduction of two buffers. Compiles against any MPI. Prints one line a row:
 * NAME BYTES VALUE UNIT; values are MB/s of packed or reduced data, and what part that is of what memory allows; medians of batches.
 *
 *   local [--quick] [--only NAME]      (compare.py --source local.c --ranks 1) */
#include <mpi.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>
#if defined(__has_include)
#if __has_include(<mpix.h>) /* where Weft has its types beyond the standard */
#include <mpix.h>
#endif
#endif

#include "row.h"

enum { BATCHES = 11, SPAN = 64 << 20 };

static char *spread, *packed;

/* Of this thread's processor time: others who wait for the processor, too, do not count. */
static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* --only may be the first part of a row's name. */
static int chosen_row(const char* name) { return !only || strncmp(only, name, strlen(only)) == 0; }

/* Runs what `work` says until a batch has moved enough; the median rate. */
static void measure(const char* name, long bytes, void (*work)(void*), void* argument) {
  double rates[BATCHES];
  long turns = (quick ? 4 << 20 : 32 << 20) / bytes + 1;
  if (!chosen_row(name)) return;
  work(argument);
  for (int b = 0; b < BATCHES; ++b) {
    const double begin = seconds();
    for (long i = 0; i < turns; ++i) work(argument);
    rates[b] = (double)bytes * (double)turns / (seconds() - begin) / 1e6;
  }
  report(name, bytes, median(rates, BATCHES), "MB/s");
}

struct layout {
  MPI_Datatype type;
  int bytes;
};

static void pack(void* argument) {
  const struct layout* l = argument;
  int at = 0;
  MPI_Pack(spread, 1, l->type, packed, l->bytes, &at, MPI_COMM_SELF);
}

static void unpack(void* argument) {
  const struct layout* l = argument;
  int at = 0;
  MPI_Unpack(packed, l->bytes, &at, spread, 1, l->type, MPI_COMM_SELF);
}

static void both_ways(const char* name, MPI_Datatype type) {
  char row[64];
  struct layout l = {type, 0};
  MPI_Type_commit(&l.type);
  MPI_Type_size(l.type, &l.bytes);
  snprintf(row, sizeof row, "pack_%s", name);
  measure(row, l.bytes, pack, &l);
  snprintf(row, sizeof row, "unpack_%s", name);
  measure(row, l.bytes, unpack, &l);
  MPI_Type_free(&l.type);
}

/* `bytes` in blocks of `block` elements, one block in two. */
static void vector(const char* name, int bytes, int block, MPI_Datatype element) {
  int size;
  MPI_Datatype type;
  MPI_Type_size(element, &size);
  MPI_Type_vector(bytes / size / block, block, 2 * block, element, &type);
  both_ways(name, type);
}

static void vectors(void) {
  vector("vector_1_char", 1 << 14, 1, MPI_CHAR);
  vector("vector_2_char", 1 << 15, 2, MPI_CHAR);
  vector("vector_1_short", 1 << 15, 1, MPI_SHORT);
  vector("vector_1_int", 1 << 16, 1, MPI_INT);
  vector("vector_3_int", 3 << 14, 3, MPI_INT);
  vector("vector_1", 1 << 16, 1, MPI_DOUBLE);
  vector("vector_2", 1 << 16, 2, MPI_DOUBLE);
  vector("vector_3", 3 << 14, 3, MPI_DOUBLE);
  vector("vector_4", 1 << 16, 4, MPI_DOUBLE);
  vector("vector_64", 1 << 20, 64, MPI_DOUBLE);
  vector("vector_2", 512, 2, MPI_DOUBLE);
  vector("vector_1_int", 1 << 10, 1, MPI_INT);
  vector("vector_1", 1 << 10, 1, MPI_DOUBLE);
  vector("vector_4", 1 << 10, 4, MPI_DOUBLE);
  vector("vector_64", 1 << 10, 64, MPI_DOUBLE);
  vector("vector_1_int", 4 << 20, 1, MPI_INT);
  vector("vector_1", 8 << 20, 1, MPI_DOUBLE);
  vector("vector_3", 6 << 20, 3, MPI_DOUBLE);
  vector("vector_4", 8 << 20, 4, MPI_DOUBLE);
  vector("vector_64", 16 << 20, 64, MPI_DOUBLE);
  vector("vector_1_int", SPAN, 1, MPI_INT);
  vector("vector_1", SPAN, 1, MPI_DOUBLE);
  vector("vector_4", SPAN, 4, MPI_DOUBLE);
  vector("vector_64", SPAN, 64, MPI_DOUBLE);
}

static void indexed(const char* name, int bytes, int longest) {
  const int most = bytes / 8;
  int *lengths = malloc(sizeof(int) * (size_t)most), *places = malloc(sizeof(int) * (size_t)most), n = 0, left = most, at = 0;
  unsigned seed = 1;
  while (left > 0) {
    seed = seed * 1103515245u + 12345u;
    lengths[n] = (int)(seed >> 16) % longest + 1;
    if (lengths[n] > left) lengths[n] = left;
    places[n] = at;
    at += lengths[n] + (int)(seed >> 8) % 7 + 1;
    left -= lengths[n++];
  }
  MPI_Datatype type;
  MPI_Type_indexed(n, lengths, places, MPI_DOUBLE, &type);
  both_ways(name, type);
  free(lengths);
  free(places);
}

/* The faces of a cube, and a block from its middle. */
static void subarrays(const char* suffix, int edge, MPI_Datatype element) {
  const int sizes[3] = {edge, edge, edge}, start[3] = {0, 0, 0};
  const struct {
    const char* name;
    int part[3];
  } parts[] = {
      {"face_xy", {1, edge, edge}}, {"face_xz", {edge, 1, edge}}, {"face_yz", {edge, edge, 1}}, {"block", {edge / 2, edge / 2, edge / 2}}};
  for (int i = 0; i < 4; ++i) {
    char name[32];
    MPI_Datatype type;
    MPI_Type_create_subarray(3, sizes, parts[i].part, start, MPI_ORDER_C, element, &type);
    snprintf(name, sizeof name, "%s%s", parts[i].name, suffix);
    both_ways(name, type);
  }
}

/* `count` structures of `size` bytes, of which some members travel. */
static void records(const char* name, int count, MPI_Aint size, int members, const int* lengths, const MPI_Aint* places,
                    const MPI_Datatype* types) {
  MPI_Datatype one, sized, all;
  MPI_Type_create_struct(members, lengths, places, types, &one);
  MPI_Type_create_resized(one, 0, size, &sized);
  MPI_Type_contiguous(count, sized, &all);
  both_ways(name, all);
  MPI_Type_free(&one);
  MPI_Type_free(&sized);
}

/* An array of particles of which position and charge are sent. */
static void structs(void) {
  struct particle {
    double position[3], velocity[3];
    int kind, charge;
  };
  const int lengths[2] = {3, 1};
  const MPI_Aint places[2] = {0, 52};
  const MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT};
  records("struct", 10000, sizeof(struct particle), 2, lengths, places, types);
}

/* Members of many kinds, with the gaps that a compiler leaves. */
static void mixed(void) {
  struct record {
    char tag;
    double weight;
    short code;
    float place[3];
    char name[5];
    int id;
  };
  const int lengths[6] = {1, 1, 1, 3, 5, 1};
  const MPI_Aint places[6] = {offsetof(struct record, tag),   offsetof(struct record, weight), offsetof(struct record, code),
                              offsetof(struct record, place), offsetof(struct record, name),   offsetof(struct record, id)};
  const MPI_Datatype types[6] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_FLOAT, MPI_CHAR, MPI_INT};
  records("struct_mixed", 4000, sizeof(struct record), 6, lengths, places, types);
}

struct reduction {
  const char* name;
  MPI_Datatype type;
  MPI_Op op;
  long count;
};

static int reduce(const struct reduction* r) { return MPI_Reduce_local(packed, spread, (int)r->count, r->type, r->op); }

/* What memory allows: a sum of doubles, which reads two streams and writes one as every reduction does, in the widest vectors of this
 * machine, from the first whole cache line that is written. */
#ifdef __x86_64__
#define FOR_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_WIDEST
#endif
typedef double line __attribute__((vector_size(64), aligned(8), may_alias));
FOR_WIDEST static void stream(long bytes) {
  const long head = 64 - ((long)spread & 63), lines = (bytes - head) / 64;
  const line* from = (const line*)(packed + head);
  line* to = (line*)(spread + head);
  *(line*)spread += *(const line*)packed;
  for (long i = 0; i < lines; ++i) to[i] += from[i];
}

static double rate(const struct reduction* r, long bytes, long turns) {
  const double begin = seconds();
  for (long i = 0; i < turns; ++i)
    if (r)
      reduce(r);
    else
      stream(bytes);
  return (double)bytes * (double)turns / (seconds() - begin) / 1e6;
}

/* Rows of a reduction and of what it reaches of the stream that memory allows: batch by batch, one after the other. */
static void beside_stream(const struct reduction* r, long bytes) {
  double rates[BATCHES], shares[BATCHES];
  char row[64];
  const long turns = (quick ? 4 << 20 : 32 << 20) / bytes + 1;
  snprintf(row, sizeof row, "reduce_%s", r->name);
  if (!chosen_row(row)) return;
  if (reduce(r) != MPI_SUCCESS) return; /* not every library has every pair */
  for (int b = 0; b < BATCHES; ++b) {
    const double before = rate(NULL, bytes, turns);
    rates[b] = rate(r, bytes, turns);
    shares[b] = rates[b] / (0.5 * before + 0.5 * rate(NULL, bytes, turns));
  }
  report(row, bytes, median(rates, BATCHES), "MB/s");
  snprintf(row, sizeof row, "share_%s", r->name);
  report(row, bytes, median(shares, BATCHES), "share");
}

/* Values of which now one side is larger, now the other; the places are as different. */
static void fill_located(long n) {
  struct located {
    double value;
    int place;
  } * at[2] = {(struct located*)packed, (struct located*)spread};
  unsigned seed = 1;
  for (long i = 0; i < 2 * n; ++i) {
    seed = seed * 1103515245u + 12345u;
    at[i & 1][i / 2].value = (double)(seed >> 28);
    at[i & 1][i / 2].place = (int)(seed >> 8) & 1023;
  }
}

static void reductions(long bytes) {
  struct reduction rows[] = {{"sum_double", MPI_DOUBLE, MPI_SUM, 0},
                             {"sum_float", MPI_FLOAT, MPI_SUM, 0},
                             {"sum_int", MPI_INT, MPI_SUM, 0},
                             {"sum_int64", MPI_INT64_T, MPI_SUM, 0},
#ifdef MPIX_C_FLOAT16
                             {"sum_half", MPIX_C_FLOAT16, MPI_SUM, 0},
                             {"max_half", MPIX_C_FLOAT16, MPI_MAX, 0},
#endif
#ifdef MPIX_BFLOAT16
                             {"sum_bfloat", MPIX_BFLOAT16, MPI_SUM, 0},
#ifndef MPICH_VERSION /* MPICH 5.0.2 aborts on it */
                             {"max_bfloat", MPIX_BFLOAT16, MPI_MAX, 0},
#endif
#endif
                             {"sum_complex", MPI_C_DOUBLE_COMPLEX, MPI_SUM, 0},
                             {"sum_complex_float", MPI_C_FLOAT_COMPLEX, MPI_SUM, 0},
                             {"prod_complex", MPI_C_DOUBLE_COMPLEX, MPI_PROD, 0},
                             {"prod_complex_float", MPI_C_FLOAT_COMPLEX, MPI_PROD, 0},
                             {"prod_double", MPI_DOUBLE, MPI_PROD, 0},
                             {"prod_int64", MPI_INT64_T, MPI_PROD, 0},
                             {"prod_int8", MPI_INT8_T, MPI_PROD, 0},
                             {"min_double", MPI_DOUBLE, MPI_MIN, 0},
                             {"max_double", MPI_DOUBLE, MPI_MAX, 0},
                             {"max_float", MPI_FLOAT, MPI_MAX, 0},
                             {"max_int", MPI_INT, MPI_MAX, 0},
                             {"min_int64", MPI_INT64_T, MPI_MIN, 0},
                             {"min_int8", MPI_INT8_T, MPI_MIN, 0},
                             {"bor_uint32", MPI_UINT32_T, MPI_BOR, 0},
                             {"land_int", MPI_INT, MPI_LAND, 0},
                             {"lxor_bool", MPI_C_BOOL, MPI_LXOR, 0},
                             {"lor_logical", MPI_LOGICAL, MPI_LOR, 0},
                             {"maxloc", MPI_DOUBLE_INT, MPI_MAXLOC, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    MPI_Aint low, extent;
    MPI_Type_get_extent(rows[i].type, &low, &extent);
    rows[i].count = bytes / extent;
    memset(packed, 0, (size_t)bytes);
    memset(spread, 0, (size_t)bytes);
    if (rows[i].op == MPI_MAXLOC) fill_located(bytes / extent);
    beside_stream(&rows[i], bytes);
  }
}

/* Large pages, in which the same addresses meet in the caches of every process; as far beyond a cache line's begin as malloc's. */
static char* memory(size_t bytes) {
  bytes += 2 << 20;
  char* at = aligned_alloc(2 << 20, bytes);
#ifdef MADV_HUGEPAGE
  madvise(at, bytes, MADV_HUGEPAGE);
#endif
  return (char*)memset(at, 0, bytes) + 16;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  read_options(argc, argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  spread = memory(2 * SPAN);
  packed = memory(SPAN);
  vectors();
  indexed("indexed_3", 1 << 10, 3);
  indexed("indexed_40", 1 << 10, 40);
  indexed("indexed_3", 1 << 16, 3);
  indexed("indexed_40", 1 << 20, 40);
  indexed("indexed_3", 4 << 20, 3);
  indexed("indexed_40", 8 << 20, 40);
  indexed("indexed_3", SPAN / 2, 3);
  indexed("indexed_40", SPAN, 40);
  subarrays("", 128, MPI_DOUBLE);
  subarrays("_float", 64, MPI_FLOAT);
  subarrays("_char", 128, MPI_CHAR);
  subarrays("_small", 16, MPI_FLOAT);
  subarrays("_large", 256, MPI_DOUBLE);
  structs();
  mixed();
  reductions(4 << 10);
  reductions(64 << 10);
  reductions(4 << 20);
  reductions(SPAN);
  MPI_Finalize();
  return 0;
}
