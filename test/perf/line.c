/* How long a cache line takes from one processor to another, one way, in ns, as both look at it without breaks: a measure of how far they
 * are from each other (with breaks, as looks.cc has them, it takes less).
 *
 *   line FIRST SECOND      numbers of two processors; the best of some short runs
 *
 * Virtual processors move: near each other (one core, one cache) or far apart (another package), whence compare.py asks before and after
 * each sample. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 20000, RUNS = 3 };

static _Alignas(128) atomic_int turn;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void bind_to(int processor) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(processor, &only);
  if (pthread_setaffinity_np(pthread_self(), sizeof only, &only) != 0) exit(1);
}

static void await(int value) {
  while (atomic_load_explicit(&turn, memory_order_acquire) != value) {
  }
}

static void* answer(void* processor) {
  bind_to(*(int*)processor);
  for (int i = 0; i < ROUNDS; ++i) {
    await(2 * i + 1);
    atomic_store_explicit(&turn, 2 * i + 2, memory_order_release);
  }
  return NULL;
}

static double one_way(int first, int second) {
  pthread_t other;
  double begin = 0;
  atomic_store(&turn, 0);
  bind_to(first);
  if (pthread_create(&other, NULL, answer, &second) != 0) exit(1);
  for (int i = 0; i < ROUNDS; ++i) {
    if (i == ROUNDS / 2) begin = now_ns();
    atomic_store_explicit(&turn, 2 * i + 1, memory_order_release);
    await(2 * i + 2);
  }
  const double each = (now_ns() - begin) / (ROUNDS / 2) / 2;
  pthread_join(other, NULL);
  return each;
}

int main(int argc, char** argv) {
  if (argc != 3) return 1;
  double best = one_way(atoi(argv[1]), atoi(argv[2]));
  for (int i = 1; i < RUNS; ++i) {
    const double again = one_way(atoi(argv[1]), atoi(argv[2]));
    if (again < best) best = again;
  }
  printf("%.1f\n", best);
  return 0;
}
