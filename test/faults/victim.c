// A rank that waits in a given phase of its life until it is struck or let go, for the fault matrix.
//   victim PHASE HOW    PHASE: before | init | run | finalize | after
// Makes $FAULTS_DIR/rank.N when it is there. SIGUSR1: does HOW (exit | quit | abort | segv) to itself; SIGUSR2: goes on to its end.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const char *phase, *how;
static volatile sig_atomic_t struck, released;

static void on_release(int signal) { released = signal; }

static void on_strike(int signal) {
  (void)signal;
  if (!strcmp(how, "exit")) _exit(3);
  if (!strcmp(how, "quit")) _exit(0);
  if (!strcmp(how, "segv")) {
    struct sigaction standard;
    memset(&standard, 0, sizeof standard);
    standard.sa_handler = SIG_DFL;
    sigaction(SIGSEGV, &standard, NULL);
    kill(getpid(), SIGSEGV);  // another thread may take it, the process dies of it all the same
  }
  struck = 1;
}

static void mark(const char* rank) {
  char path[4096];
  snprintf(path, sizeof path, "%s/rank.%s", getenv("FAULTS_DIR"), rank);
  FILE* file = fopen(path, "w");
  if (file) fclose(file);
}

static void wait_here(void) {
  const struct timespec nap = {0, 10000000};
  while (!released) {
    if (struck) {
      struck = 0;
      if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 9);
    }
    nanosleep(&nap, NULL);
  }
}

static int in(const char* name) { return !strcmp(phase, name); }

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF before anything else (MPI 5.0, 11.2.4). */
static int in_finalize(MPI_Comm comm, int key, void* rank, void* extra) {
  (void)comm, (void)key, (void)extra;
  mark(rank);
  wait_here();
  return MPI_SUCCESS;
}

int main(int argc, char** argv) {
  const char* rank = getenv("PMI_RANK");
  const int first = rank && !strcmp(rank, "0");
  const struct rlimit none = {0, 0};
  if (argc < 3 || !rank || !getenv("FAULTS_DIR")) return 98;
  phase = argv[1];
  how = argv[2];
  setrlimit(RLIMIT_CORE, &none);
  signal(SIGUSR1, on_strike);
  signal(SIGUSR2, on_release);
  if (in("before") || in("init")) mark(rank);
  if (in("before") || (in("init") && first)) wait_here();  // the others are in MPI_Init meanwhile
  MPI_Init(&argc, &argv);
  if (in("run")) mark(rank), wait_here();
  if (in("finalize")) {
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, in_finalize, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, (void*)rank);
  }
  MPI_Finalize();
  if (in("after")) mark(rank), wait_here();
  return 0;
}
