/* What the benchmarks here share: which rows are wanted, and how one is printed: NAME BYTES VALUE UNIT. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;             /* the own one; the first prints */
static const char* only;     /* NAME[,NAME...]; null: all */
static long only_bytes = -1; /* this size; negative: all */

static int quick; /* fewer repetitions */
static int fresh; /* data is written before it is sent */

/* [--quick] [--fresh] [--only NAME[,NAME...]] [--bytes N]; passes over other words. */
static inline void read_options(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (!strcmp(argv[i], "--quick")) quick = 1;
    if (!strcmp(argv[i], "--fresh")) fresh = 1;
    if (!strcmp(argv[i], "--only") && i + 1 < argc) only = argv[++i];
    if (!strcmp(argv[i], "--bytes") && i + 1 < argc) only_bytes = atol(argv[++i]);
  }
}

static inline int wanted(const char* name) {
  const size_t length = strlen(name);
  for (const char* at = only; at; at = strchr(at, ','), at += at != NULL)
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length])) return 1;
  return !only;
}

static inline int chosen(long bytes) { return only_bytes < 0 || only_bytes == bytes; }

static inline int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Sorts the values. */
static inline double median(double* values, int n) {
  qsort(values, (size_t)n, sizeof *values, ascending);
  return values[n / 2];
}

static inline void report(const char* name, long bytes, double value, const char* unit) {
  if (rank != 0) return;
  printf("%s %ld %.6g %s\n", name, bytes, value, unit);
  fflush(stdout);
}
