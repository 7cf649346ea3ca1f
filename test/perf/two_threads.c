/* Do two threads on two communicators send at RATIO times the rate of one? They do where they do not wait for each other. Compiles against
 * any MPI; one rank, which sends to itself.
 *
 *   two_threads RATIO [SECONDS]     exit status 0: they do; 1: they do not; 77: two processors were not there to tell
 *
 * Short batches, since others may have the processors most of the time, or the other half of the cores they are on. One counts as one on
 * two free processors if, right before it and right after it, what needs nothing but a processor's units ran on two threads as if each were
 * alone, and either thread sent as fast as the other one while that one only waited. The first of those that reaches the ratio to what one
 * thread sent then ends the run. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WINDOW = 64, WINDOWS = 30, STEPS = 50000, CHAINS = 12, WARM = 20, ENOUGH = 30 };
static const double alone = 0.9; /* of a rate of one thread: another one had a processor for itself, too */

/* A round: both threads compute, either one sends, both do, and so on; what was before the last sending of both comes after it, too. */
enum kind { COMPUTE, FIRST, SECOND, BOTH, KINDS };
enum { PARTS = 6 * KINDS + BOTH };

static MPI_Comm own[2];
static pthread_barrier_t gate;
static atomic_int arrived;
static atomic_bool over;
static double begins[2][PARTS], ends[2][PARTS];
static _Thread_local volatile unsigned long sink;

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void window(MPI_Comm comm) {
  MPI_Request requests[WINDOW];
  char in[WINDOW][8], out[8] = "weft";
  for (int i = 0; i < WINDOW; ++i) MPI_Irecv(in[i], 8, MPI_CHAR, 0, 1, comm, &requests[i]);
  for (int i = 0; i < WINDOW; ++i) MPI_Send(out, 8, MPI_CHAR, 0, 1, comm);
  MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

/* Multiplications that keep all units for them busy: two threads that share a core do hardly more of them than one. */
static void compute(void) {
  unsigned long chains[CHAINS];
  for (int i = 0; i < CHAINS; ++i) chains[i] = sink + (unsigned long)i;
  for (unsigned long step = 0; step < STEPS; ++step)
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; ++i) chains[i] = chains[i] * 0x9e3779b97f4a7c15 + step;
  for (int i = 0; i < CHAINS; ++i) sink += chains[i];
}

/* Thread `me` of `threads`, which begin each part together: without sleeping, as that would part them. */
static void part(int me, int threads, int which) {
  atomic_fetch_add(&arrived, 1);
  while (atomic_load(&arrived) < threads * (which + 1)) {
  }
  begins[me][which] = now();
  const enum kind kind = (enum kind)(which % KINDS);
  if (kind == COMPUTE)
    compute();
  else if (kind == BOTH || (kind == FIRST) == (me == 0))
    for (int i = 0; i < WINDOWS; ++i) window(own[me]);
  ends[me][which] = now();
}

static void parts(int me, int threads) {
  for (int which = 0; which < PARTS; ++which) part(me, threads, which);
}

static void* second(void* unused) {
  for (;;) {
    pthread_barrier_wait(&gate);
    if (atomic_load(&over)) return unused;
    parts(1, 2);
    pthread_barrier_wait(&gate);
  }
}

static double greater(double a, double b) { return a > b ? a : b; }

/* How often a second a thread did this part, and both together. */
static double rate(int me, int which) { return 1 / (ends[me][which] - begins[me][which]); }
static double rate_of_both(int which) {
  const double begin = -greater(-begins[0][which], -begins[1][which]);
  return 2 / (greater(ends[0][which], ends[1][which]) - begin);
}

/* How often a second one thread computed at best, and sent. */
struct best {
  double computing, sending;
};

static void one_thread(struct best* best) {
  atomic_store(&arrived, 0);
  parts(0, 1);
  for (int i = 0; i < PARTS; ++i) {
    if (i % KINDS == COMPUTE) best->computing = greater(best->computing, rate(0, i));
    if (i % KINDS == FIRST) best->sending = greater(best->sending, rate(0, i));
  }
}

static void two_threads(void) {
  atomic_store(&arrived, 0);
  pthread_barrier_wait(&gate);
  parts(0, 2);
  pthread_barrier_wait(&gate);
}

/* The rate of one thread that sends, before and after both did; 0 where they had no processor each, or shared one with others. */
static double one_of_two(const struct best* best, int both) {
  const int around[] = {both - BOTH, both + KINDS - BOTH};
  double most = 0, least = 1 / 0.0;
  for (int i = 0; i < 2; ++i) {
    if (rate_of_both(around[i] + COMPUTE) < 2 * alone * best->computing) return 0;
    const double sent[] = {rate(0, around[i] + FIRST), rate(1, around[i] + SECOND)};
    most = greater(most, greater(sent[0], sent[1]));
    least = -greater(-least, greater(-sent[0], -sent[1]));
  }
  return least >= alone * most && most >= best->sending / 2 ? most : 0;
}

/* The best batch of a round on two free processors, as a multiple of what one thread sends; counts them all. */
static double best_multiple(const struct best* best, int* batches) {
  double most = 0;
  for (int i = BOTH; i + KINDS < PARTS; i += KINDS) {
    const double one = one_of_two(best, i);
    if (one == 0) continue;
    most = greater(most, rate_of_both(i) / one);
    ++*batches;
  }
  return most;
}

static int judge(double ratio, double seconds) {
  struct best best = {0, 0};
  double most = 0;
  int batches = 0;
  for (int i = 0; i < WARM; ++i) one_thread(&best);
  for (const double end = now() + seconds; batches < ENOUGH && now() < end && most < ratio;) {
    one_thread(&best);
    two_threads();
    most = greater(most, best_multiple(&best, &batches));
  }
  printf("two threads sent at %.2f times the rate of one (%.3g messages a second), best of %d batches on two free processors\n", most,
         best.sending * WINDOWS * WINDOW, batches);
  if (most >= ratio) return 0;
  if (batches < ENOUGH) return printf("skipped: two processors were not free together often enough\n"), 77;
  return 1;
}

int main(int argc, char** argv) {
  int level, status = 77;
  pthread_t other;
  cpu_set_t allowed;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  if (argc < 2 || level != MPI_THREAD_MULTIPLE) return fprintf(stderr, "two_threads RATIO [SECONDS], with MPI_THREAD_MULTIPLE\n"), 1;
  for (int i = 0; i < 2; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < 2) {
    printf("skipped: fewer than two processors allowed\n");
  } else {
    pthread_barrier_init(&gate, NULL, 2);
    pthread_create(&other, NULL, second, NULL);
    status = judge(atof(argv[1]), argc > 2 ? atof(argv[2]) : 60);
    atomic_store(&over, 1);
    pthread_barrier_wait(&gate);
    pthread_join(other, NULL);
  }
  for (int i = 0; i < 2; ++i) MPI_Comm_free(&own[i]);
  MPI_Finalize();
  return status;
}
