/* Do two threads on two communicators send at RATIO times the rate of one? They do where they do not wait for each other. Compiles against
 * any MPI; one rank, which sends to itself.
 *
 *   two_threads RATIO [SECONDS]     exit status 0: they do; 1: they do not; 77: two processors were not there to tell
 *
 * Short batches, since others may have the processors most of the time. One counts as one on two free processors if what needs nothing but
 * a processor's units ran on two threads as if each were alone, right before it and right after it. The first of those that reaches the
 * ratio to the best rate of one thread ever seen ends the run. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WINDOW = 64, WINDOWS = 30, STEPS = 50000, CHAINS = 12, WARM = 20, ENOUGH = 500 };
static const double alone = 0.9; /* of two threads' work, as a share of twice that of one: they had a processor each */

/* A round: even parts compute, odd ones send. */
enum { PARTS = 21, COMPUTE = 0, MESSAGES = 1 };

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
  if (which % 2 == MESSAGES)
    for (int i = 0; i < WINDOWS; ++i) window(own[me]);
  else
    compute();
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

/* How often a second all threads together did this part. */
static double rate(int threads, int which) {
  double begin = begins[0][which], end = ends[0][which];
  for (int i = 1; i < threads; ++i) {
    if (begins[i][which] < begin) begin = begins[i][which];
    if (ends[i][which] > end) end = ends[i][which];
  }
  return threads / (end - begin);
}

static double greater(double a, double b) { return a > b ? a : b; }

static void one_thread(double best[2]) {
  atomic_store(&arrived, 0);
  parts(0, 1);
  for (int i = 0; i < PARTS; ++i) best[i % 2] = greater(best[i % 2], rate(1, i));
}

static void two_threads(void) {
  atomic_store(&arrived, 0);
  pthread_barrier_wait(&gate);
  parts(0, 2);
  pthread_barrier_wait(&gate);
}

/* The best batch of a round on two free processors, as a multiple of the best of one thread; counts them all. */
static double best_multiple(const double best[2], int* batches) {
  const double least = 2 * alone * best[COMPUTE];
  double most = 0;
  for (int i = MESSAGES; i < PARTS; i += 2) {
    if (rate(2, i - 1) < least || rate(2, i + 1) < least) continue;
    most = greater(most, rate(2, i) / best[MESSAGES]);
    ++*batches;
  }
  return most;
}

static int judge(double ratio, double seconds) {
  double best[2] = {0}, most = 0;
  int batches = 0;
  for (int i = 0; i < WARM; ++i) one_thread(best);
  for (const double end = now() + seconds; batches < ENOUGH && now() < end && most < ratio;) {
    one_thread(best);
    two_threads();
    most = greater(most, best_multiple(best, &batches));
  }
  printf("two threads sent at %.2f times the rate of one (%.3g messages a second), best of %d batches on two free processors\n", most,
         best[MESSAGES] * WINDOWS * WINDOW, batches);
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
