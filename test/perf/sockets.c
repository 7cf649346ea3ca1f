/* What plain sockets do in the pattern of bench.c: the floor below any MPI over tcp. Prints the same rows.
 *
 *   sockets [--quick] [--only NAME[,NAME...]] [--bytes N] [--epoll]
 *
 * Two ranks of any MPI, which only tells them where to meet. Messages have no header, their lengths are known, nothing is matched; one send
 * a message. Who waits asks the socket again and again, or epoll. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "row.h"

enum { BATCHES = 11, WINDOW = 64, LARGEST = 4 << 20 };

static int peer, looks, ask_epoll;
static char* buffer;

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "sockets: %s: %s\n", what, strerror(errno));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Rank 0 listens at the address that its host's name stands for, at the loopback if both are on one host. */
static void meet(void) {
  char names[2][256] = {{0}};
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  gethostname(names[rank], sizeof names[rank] - 1);
  for (int r = 0; r < 2; ++r) MPI_Bcast(names[r], sizeof names[r], MPI_CHAR, r, MPI_COMM_WORLD);
  if (strcmp(names[0], names[1])) {
    const struct hostent* host = gethostbyname(names[0]);
    check(host != NULL, names[0]);
    memcpy(&at.sin_addr, host->h_addr_list[0], sizeof at.sin_addr);
  }
  const int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (rank == 0)
    check(bind(fd, (struct sockaddr*)&at, sizeof at) == 0 && listen(fd, 1) == 0 && getsockname(fd, (struct sockaddr*)&at, &length) == 0,
          "listening");
  MPI_Bcast(&at, sizeof at, MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank == 1) check(connect(fd, (struct sockaddr*)&at, sizeof at) == 0, "connecting");
  peer = rank == 0 ? accept(fd, NULL, NULL) : fd;
  check(peer >= 0, "accepting");
  check(setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0, "TCP_NODELAY");
  check(setsockopt(peer, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0, "TCP_CONGESTION");
  struct epoll_event in = {.events = EPOLLIN};
  looks = epoll_create1(0);
  check(epoll_ctl(looks, EPOLL_CTL_ADD, peer, &in) == 0, "epoll");
}

static long send_some(const char* from, long n) {
  const ssize_t sent = send(peer, from, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
  check(sent >= 0 || errno == EAGAIN, "sending");
  return sent < 0 ? 0 : sent;
}

static long receive_some(char* to, long n) {
  struct epoll_event in;
  if (ask_epoll && epoll_wait(looks, &in, 1, 0) == 0) return 0;
  const ssize_t got = recv(peer, to, (size_t)n, MSG_DONTWAIT);
  check(got > 0 || (got < 0 && errno == EAGAIN), "receiving");
  return got < 0 ? 0 : got;
}

static void put(long n) {
  for (long done = 0; done < n;) done += send_some(buffer + done, n - done);
}

static void get(long n) {
  for (long done = 0; done < n;) done += receive_some(buffer + LARGEST + done, n - done);
}

/* Sends `out` messages of n bytes and receives `in` of them, whichever goes. */
static void stream(long n, long out, long in) {
  long to_send = out * n, to_get = in * n;
  while (to_send > 0 || to_get > 0) {
    const long at = (n - to_send % n) % n, into = (n - to_get % n) % n;
    if (to_send > 0) to_send -= send_some(buffer + at, n - at);
    if (to_get > 0) to_get -= receive_some(buffer + LARGEST + into, n - into);
  }
}

static long rounds_for(long bytes) {
  const long rounds = bytes <= 1024 ? 10000 : bytes <= 65536 ? 2000 : 200;
  return quick ? rounds / 10 : rounds;
}

static void latency(long bytes) {
  double times[BATCHES];
  const long rounds = rounds_for(bytes) / 4 + 1;
  for (int b = -1; b < BATCHES; ++b) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (long i = 0; i < rounds; ++i) {
      if (rank == 0) put(bytes);
      get(bytes);
      if (rank == 1) put(bytes);
    }
    if (b >= 0) times[b] = (MPI_Wtime() - begin) / (double)rounds / 2 * 1e6;
  }
  report("latency", bytes, median(times, BATCHES), "us");
}

/* Windows of messages, from rank 0 to rank 1 or both ways. */
static void bandwidth(const char* name, long bytes, int both) {
  double values[BATCHES];
  long windows = rounds_for(bytes) / WINDOW + 1;
  if (bytes >= 1 << 20) windows = quick ? 1 : 2;
  for (int b = -1; b < BATCHES; ++b) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (long w = 0; w < windows; ++w) {
      stream(bytes, both || rank == 0 ? WINDOW : 0, both || rank == 1 ? WINDOW : 0);
      rank == 0 ? get(1) : put(1);
    }
    const double messages = (double)(windows * WINDOW * (1 + both)), seconds = MPI_Wtime() - begin;
    if (b >= 0) values[b] = bytes <= 8 ? messages / seconds : messages * (double)bytes / seconds / 1e6;
  }
  report(name, bytes, median(values, BATCHES), bytes <= 8 ? "1/s" : "MB/s");
}

int main(int argc, char** argv) {
  static const long sizes[] = {1, 8, 64, 512, 4096, 16384, 65536, 262144, 1 << 20, LARGEST};
  const size_t count = sizeof sizes / sizeof *sizes;
  MPI_Init(&argc, &argv);
  read_options(argc, argv);
  for (int i = 1; i < argc; ++i) ask_epoll |= !strcmp(argv[i], "--epoll");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  buffer = malloc(2 * LARGEST);
  check(buffer != NULL, "memory");
  memset(buffer, 1, 2 * LARGEST);
  meet();
  for (size_t s = 0; wanted("latency") && s < count; ++s)
    if (chosen(sizes[s])) latency(sizes[s]);
  if (wanted("message_rate")) bandwidth("message_rate", 8, 0);
  for (size_t s = 2; wanted("bandwidth") && s < count; ++s)
    if (chosen(sizes[s])) bandwidth("bandwidth", sizes[s], 0);
  for (size_t s = 4; wanted("bidirectional") && s < count; ++s)
    if (chosen(sizes[s])) bandwidth("bidirectional", sizes[s], 1);
  MPI_Finalize();
  return 0;
}
