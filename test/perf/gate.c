/* What single MPI calls cost rank 0, one line each: NAME VALUE.
 *
 *   mpirun -n 2 gate count FILE     user-space instructions: a child steps through the call (ptrace), so that neither performance counters
 *                                   nor a quiet machine are needed; the least of the repetitions
 *   mpirun -n 2 gate cycles FILE    ticks of the processor's clock, what one in twenty of many repetitions stays below: the least is
 *                                   now and then a matter of luck, as of a message whose line has come by the way
 *
 * FILE is memory that both ranks share without MPI: while rank 0 is in a call, rank 1 is not inside MPI. So what runs does not depend on
 * who is faster. "no way to count: ..." instead of lines: this is no x86-64, or ptrace is not allowed. */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNTED = 6, TIMED = 400, MOST_BYTES = 1024, SPINS = 100000 };

/* What the ranks, and rank 0 and its tracer, tell each other. */
struct board {
  volatile long begun, ready, done; /* repetitions: rank 0 is outside MPI; rank 1 has done its part for the call; the call has ended */
  volatile int tracing;             /* by the tracer: 1, or -errno */
  volatile long instructions, over; /* of the call that ended last; rank 0 needs no tracer any more */
};

static struct board* board;
static int rank, counting;
static char in[MOST_BYTES], out[MOST_BYTES];
static MPI_Datatype strided;
static MPI_Request request;

#ifdef __x86_64__
static void mark(void) { __asm__ volatile("int3" ::: "memory"); }

static unsigned long long ticks(void) {
  unsigned low, high;
  __asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high)::"memory");
  return (unsigned long long)high << 32 | low;
}

/* The next stop of the process; ends the tracer with it. Returns the signal, 0 for stops that are none. */
static int next_stop(pid_t pid) {
  int status;
  if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status)) _exit(0);
  return status >> 16 ? 0 : WSTOPSIG(status);
}

/* Instructions up to the next mark. A string instruction stops once for each of its elements, where it stands: one instruction. */
static long steps(pid_t pid) {
  long count = 0, at = 0;
  for (int pass_on = 0;;) {
    siginfo_t why;
    ptrace(PTRACE_SINGLESTEP, pid, NULL, (void*)(long)pass_on);
    pass_on = next_stop(pid);
    if (pass_on != SIGTRAP) continue;
    pass_on = 0;
    if (ptrace(PTRACE_GETSIGINFO, pid, NULL, &why) == 0 && why.si_code == SI_KERNEL) return count; /* int3 */
    const long now = ptrace(PTRACE_PEEKUSER, pid, (void*)offsetof(struct user_regs_struct, rip), NULL);
    count += now != at;
    at = now;
  }
}

static void trace(pid_t pid) {
  board->tracing = ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0 ? 1 : -errno;
  if (board->tracing < 0) _exit(0);
  for (;;) {
    const int sign = next_stop(pid);
    if (sign == SIGTRAP) {
      if (board->over) break;
      board->instructions = steps(pid);
    }
    ptrace(PTRACE_CONT, pid, NULL, (void*)(long)(sign == SIGTRAP ? 0 : sign));
  }
  ptrace(PTRACE_DETACH, pid, NULL, NULL);
  _exit(0);
}
#else
static void mark(void) {}
static unsigned long long ticks(void) { return 0; }
static void trace(pid_t pid) {
  (void)pid;
  board->tracing = -ENOSYS;
  _exit(0);
}
#endif

/* Whoever times a call must not have slept just before it: what a CPU has learnt of the code may be gone when it wakes (three times the
 * ticks, seen in virtual machines). So it spins as long as the other rank takes on a CPU of its own. */
static void until(volatile long* counter, long value) {
  for (int i = 0; *counter < value; ++i)
    if (counting || i > SPINS) usleep(20);
}

/* The calls. Peers and tags are always the same. */
static void nothing(void) {}
static void send_bytes(int bytes) { MPI_Send(out, bytes, MPI_CHAR, 1, 7, MPI_COMM_WORLD); }
static void receive_bytes(int bytes) { MPI_Recv(in, bytes, MPI_CHAR, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }
static void post_8(void) { MPI_Irecv(in, 8, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request); }
static void wait_for_it(void) { MPI_Wait(&request, MPI_STATUS_IGNORE); }
static void comm_rank(void) { MPI_Comm_rank(MPI_COMM_WORLD, &rank); }
static void send_null(void) { MPI_Send(out, 8, MPI_CHAR, MPI_PROC_NULL, 7, MPI_COMM_WORLD); }
static void send_8(void) { send_bytes(8); }
static void send_1024(void) { send_bytes(1024); }
static void send_strided(void) { MPI_Send(out, 1, strided, 1, 7, MPI_COMM_WORLD); }
static void isend_wait(void) {
  MPI_Isend(out, 8, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request);
  wait_for_it();
}
static void recv_8(void) { receive_bytes(8); }
static void recv_1024(void) { receive_bytes(1024); }
static void probe(void) { MPI_Probe(1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }
static void irecv_wait(void) {
  post_8();
  wait_for_it();
}
static void self(void) {
  MPI_Send(out, 8, MPI_CHAR, 0, 8, MPI_COMM_WORLD);
  MPI_Recv(in, 8, MPI_CHAR, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void test(void) {
  int flag;
  MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
}
static void withdraw(void) {
  MPI_Cancel(&request);
  wait_for_it();
}
static void iprobe(void) {
  int flag;
  MPI_Iprobe(1, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static const struct row {
  const char* name;
  void (*before)(void); /* at rank 0, not measured; so is `after` */
  void (*call)(void);
  void (*after)(void);
  int arrives, leaves; /* bytes that rank 1 has sent before the call, that it receives after it */
} rows[] = {
    {"comm_rank", nothing, comm_rank, nothing, 0, 0},
    {"send_null", nothing, send_null, nothing, 0, 0},
    {"send_8", nothing, send_8, nothing, 0, 8},
    {"send_1024", nothing, send_1024, nothing, 0, 1024},
    {"send_strided", nothing, send_strided, nothing, 0, 512},
    {"isend_wait_8", nothing, isend_wait, nothing, 0, 8},
    {"recv_8", nothing, recv_8, nothing, 8, 0},
    {"recv_1024", nothing, recv_1024, nothing, 1024, 0},
    {"recv_early_8", probe, recv_8, nothing, 8, 0},
    {"irecv_wait_8", nothing, irecv_wait, nothing, 8, 0},
    {"self_8", nothing, self, nothing, 0, 0},
    {"test_in_vain", post_8, test, withdraw, 0, 0},
    {"iprobe_in_vain", nothing, iprobe, nothing, 0, 0},
};

/* What the call of one repetition takes at rank 0. */
static long measured(const struct row* r) {
  if (counting) {
    mark();
    r->call();
    mark();
    return board->instructions;
  }
  const unsigned long long begin = ticks();
  r->call();
  return (long)(ticks() - begin);
}

static int by_size(const void* a, const void* b) {
  const long x = *(const long*)a, y = *(const long*)b;
  return (x > y) - (x < y);
}

static void measure(const struct row* r) {
  static long turn, took[TIMED];
  for (int i = 0; i < (counting ? COUNTED : TIMED); ++i) {
    ++turn;
    if (rank == 0) {
      board->begun = turn;
      until(&board->ready, turn);
      r->before();
      took[i] = measured(r);
      r->after();
      board->done = turn;
    } else {
      until(&board->begun, turn); /* what comes while rank 0 is in a barrier is taken there, and received as unexpected */
      if (r->arrives) MPI_Send(out, r->arrives, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
      board->ready = turn;
      until(&board->done, turn);
      if (r->leaves) MPI_Recv(in, r->leaves, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  if (rank != 0) return;
  qsort(took, counting ? COUNTED : TIMED, sizeof *took, by_size);
  printf("%s %ld\n", r->name, took[counting ? 0 : TIMED / 20]);
}

/* Rank 0 gets a tracer. Returns why not, or null. */
static const char* begin_counting(pid_t* tracer) {
  const pid_t pid = getpid();
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* where only parents may trace; fails where all may */
  *tracer = fork();
  if (*tracer < 0) return strerror(errno);
  if (*tracer == 0) trace(pid);
  while (board->tracing == 0) usleep(1000);
  return board->tracing < 0 ? strerror(-board->tracing) : NULL;
}

static void end_counting(pid_t tracer) {
  board->over = 1;
  mark();
  waitpid(tracer, NULL, 0);
}

/* Both ranks see the same file. */
static void share(const char* path) {
  const int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, 4096) != 0) exit(1);
  board = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (board == MAP_FAILED) exit(1);
}

int main(int argc, char** argv) {
  pid_t tracer = 0;
  const char* trouble = NULL;
  if (argc != 3) return fprintf(stderr, "gate count|cycles FILE\n"), 2;
  counting = strcmp(argv[1], "count") == 0;
  share(argv[2]);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Type_vector(64, 1, 2, MPI_DOUBLE, &strided);
  MPI_Type_commit(&strided);
  if (counting && rank == 0) trouble = begin_counting(&tracer);
  int go_on = !trouble;
  MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (trouble) printf("no way to count: %s\n", trouble);
  for (size_t r = 0; go_on && r < sizeof rows / sizeof *rows; ++r) {
    measure(&rows[r]);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (tracer && go_on) end_counting(tracer);
  MPI_Type_free(&strided);
  MPI_Finalize();
  return 0;
}
