// Partitioned communication: all pairs of partition counts on both sides, types with gaps, threads, restarts.
#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "check.h"

using check::rank;
using check::ranks;

namespace {

using Ints = std::vector<int>;

int arrived(MPI_Request request, int partition) {
  int flag = -1;
  MPI_Parrived(request, partition, &flag);
  return flag;
}

/// Which element of round `round` from `from` stands at `i`.
int value(int from, int round, int i) { return from * 100000 + round * 10000 + i; }

/// A message of `total` ints around the ring, in `out` partitions at the sender and `in` at the receiver. `gaps`: every second int at the
/// receiver. `pair`: the receiver's elements are two ints with a gap behind them, so that partitions may end within one.
struct Ring {
  int total, out, in;
  bool gaps = false, pair = false;
  unsigned seed = 1;

  int next() const { return (rank + 1) % ranks; }
  int before() const { return (rank + ranks - 1) % ranks; }

  MPI_Datatype type() const {
    MPI_Datatype made;
    if (pair) {
      MPI_Datatype two;
      MPI_Type_contiguous(2, MPI_INT, &two);
      MPI_Type_create_resized(two, 0, 3 * sizeof(int), &made);
      MPI_Type_free(&two);
    } else {
      MPI_Type_create_resized(MPI_INT, 0, (gaps ? 2 : 1) * sizeof(int), &made);
    }
    MPI_Type_commit(&made);
    return made;
  }
  int place(int i) const { return pair ? i / 2 * 3 + i % 2 : gaps ? 2 * i : i; }

  void check(const Ints& got, int round) const {
    bool good = true;
    for (int i = 0; i < total; ++i) good = good && got[place(i)] == value(before(), round, i);
    CHECK(good);
    Ints rest = got;
    for (int i = 0; i < total; ++i) rest[place(i)] = -1;
    CHECK(std::ranges::all_of(rest, [](int x) { return x == -1; }));
  }

  void run() const {
    Ints mine(total + 1), got(2 * total + 3, -1);
    const MPI_Datatype made = type();
    MPI_Request requests[2];
    MPI_Psend_init(mine.data(), out, out ? total / out : 0, MPI_INT, next(), 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init_c(got.data(), in, in ? total / in / (pair ? 2 : 1) : 0, made, before(), 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Datatype mine_again = made;
    MPI_Type_free(&mine_again);
    std::mt19937 random(seed + unsigned(rank));
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < total; ++i) mine[i] = value(rank, round, i);
      std::fill(got.begin(), got.end(), -1);
      if (round % 2) {
        MPI_Startall(2, requests);
      } else {
        MPI_Start(&requests[1]);
        for (int p = 0; p < in; ++p) CHECK(arrived(requests[1], p) == 0 || ranks > 1);
        MPI_Start(&requests[0]);
      }
      hand_over(requests[0], random, round);
      receive(requests, round);
      check(got, round);
      for (int p = 0; p < in; ++p) CHECK(arrived(requests[1], p) == 1);  // inactive
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
  }

  void hand_over(MPI_Request send, std::mt19937& random, int round) const {
    Ints order(out);
    for (int p = 0; p < out; ++p) order[p] = p;
    if (round == 2 && out > 0) {
      MPI_Pready_range(0, out / 2, send);
      if (out / 2 + 1 < out) MPI_Pready_range(out / 2 + 1, out - 1, send);
      return;
    }
    std::shuffle(order.begin(), order.end(), random);
    if (round == 1) {
      MPI_Pready_list(out, order.data(), send);
      return;
    }
    for (int p : order) MPI_Pready(p, send);
  }

  void receive(MPI_Request* requests, int round) const {
    if (round == 0)
      for (int p = in - 1; p >= 0; --p)
        while (!arrived(requests[1], p)) {
        }
    MPI_Status statuses[2];
    MPI_Waitall(2, requests, statuses);
    int count = -1;
    MPI_Get_count(&statuses[1], MPI_INT, &count);
    CHECK(count == total && statuses[1].MPI_SOURCE == before() && statuses[1].MPI_TAG == 5);
  }
};

void shapes() {
  for (int out : {1, 2, 3, 4, 6, 12})
    for (int in : {1, 2, 3, 4, 6, 12})
      for (int kind = 0; kind < 3; ++kind) Ring{24, out, in, kind == 1, kind == 2 && 24 / in % 2 == 0, unsigned(out * 100 + in)}.run();
  Ring{0, 3, 2}.run();
  Ring{0, 0, 0}.run();
  Ring{60000, 4, 5}.run();                // announced, not sent at once
  Ring{60000, 32, 3, false, true}.run();  // through memory of its own
}

/// Each partition arrives by itself: the receiver waits for one before the sender hands the next one over.
void one_by_one() {
  if (ranks < 2 || rank > 1) return;
  constexpr int parts = 4;
  Ints data(parts, rank ? -1 : 7);
  MPI_Request request;
  if (rank == 0)
    MPI_Psend_init(data.data(), parts, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  else
    MPI_Precv_init(data.data(), parts, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  MPI_Start(&request);
  for (int p = parts - 1; p >= 0; --p) {
    if (rank == 0) {
      MPI_Pready(p, request);
      MPI_Recv(nullptr, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      while (!arrived(request, p)) {
      }
      CHECK(data[p] == 7);
      for (int q = 0; q < p; ++q) CHECK(!arrived(request, q));
      MPI_Send(nullptr, 0, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
}

/// Requests match in the order in which they were made, whatever the order of their starts; user messages of the same tag do not interfere.
void order() {
  constexpr int n = 5;
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  int out[n], in[n], word = -1;
  MPI_Request sends[n], receives[n], plain;
  for (int i = 0; i < n; ++i) {
    out[i] = rank * 10 + i;
    MPI_Psend_init(&out[i], 1, 1, MPI_INT, next, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[i]);
  }
  MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &plain);
  for (int i = 0; i < n; ++i) MPI_Precv_init(&in[i], 1, 1, MPI_INT, before, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &receives[i]);
  for (int i = n - 1; i >= 0; --i) MPI_Start(&sends[i]), MPI_Pready(0, sends[i]);
  MPI_Startall(n, receives);
  MPI_Waitall(n, receives, MPI_STATUSES_IGNORE);
  MPI_Waitall(n, sends, MPI_STATUSES_IGNORE);
  for (int i = 0; i < n; ++i) CHECK(in[i] == before * 10 + i);
  MPI_Send(&rank, 1, MPI_INT, next, 3, MPI_COMM_WORLD);
  MPI_Wait(&plain, MPI_STATUS_IGNORE);
  CHECK(word == before);
  for (int i = 0; i < n; ++i) MPI_Request_free(&sends[i]), MPI_Request_free(&receives[i]);
}

/// Threads hand over partitions while others look for them.
void threads() {
  constexpr int parts = 64, each = 100, workers = 4;
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  Ints mine(parts * each), got(parts * each);
  MPI_Request send, receive;
  MPI_Psend_init(mine.data(), parts, each, MPI_INT, next, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
  MPI_Precv_init(got.data(), parts / 2, 2 * each, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
  for (int round = 0; round < 4; ++round) {
    std::fill(got.begin(), got.end(), -1);
    MPI_Start(&receive);
    MPI_Start(&send);
    std::vector<std::thread> all;
    std::vector<int> good(workers, 1);
    for (int w = 0; w < workers; ++w) {
      all.emplace_back([&, w] {
        for (int p = w; p < parts; p += workers) {
          for (int i = 0; i < each; ++i) mine[p * each + i] = value(rank, round, p * each + i);
          MPI_Pready(p, send);
        }
        for (int p = w; p < parts / 2; p += workers) {
          while (!arrived(receive, p)) std::this_thread::yield();
          for (int i = p * 2 * each; i < (p + 1) * 2 * each; ++i) good[w] = good[w] && got[i] == value(before, round, i);
        }
      });
    }
    for (std::thread& t : all) t.join();
    CHECK(std::ranges::all_of(good, [](int g) { return g == 1; }));
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&send);
  MPI_Request_free(&receive);
}

void nowhere() {
  int word = 3;
  MPI_Request requests[2];
  MPI_Psend_init(&word, 2, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
  MPI_Precv_init(&word, 1, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
  MPI_Startall(2, requests);
  MPI_Pready_range(0, 1, requests[0]);
  CHECK(arrived(requests[1], 0));
  MPI_Status status[2];
  MPI_Waitall(2, requests, status);
  CHECK(status[1].MPI_SOURCE == MPI_PROC_NULL && word == 3);
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

#define FAILS(wanted, call) CHECK(check::error_class(call) == (wanted))

void mistakes() {
  MPI_Comm self;
  MPI_Comm_dup(MPI_COMM_SELF, &self);
  MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
  int a[4] = {}, b[4] = {}, flag;
  MPI_Request send, receive, other;
  FAILS(MPI_ERR_ARG, MPI_Psend_init(a, -1, 1, MPI_INT, 0, 0, self, MPI_INFO_NULL, &send));
  FAILS(MPI_ERR_RANK, MPI_Precv_init(a, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, self, MPI_INFO_NULL, &receive));
  FAILS(MPI_ERR_TAG, MPI_Precv_init(a, 1, 1, MPI_INT, 0, MPI_ANY_TAG, self, MPI_INFO_NULL, &receive));
  MPI_Psend_init(a, 2, 1, MPI_INT, 0, 0, self, MPI_INFO_NULL, &send);
  MPI_Precv_init(b, 1, 3, MPI_INT, 0, 0, self, MPI_INFO_NULL, &receive);
  MPI_Recv_init(b, 1, MPI_INT, 0, 0, self, &other);
  FAILS(MPI_ERR_REQUEST, MPI_Pready(0, send));
  MPI_Start(&send);
  FAILS(MPI_ERR_ARG, MPI_Pready(2, send));
  FAILS(MPI_ERR_ARG, MPI_Pready(-1, send));
  MPI_Pready(1, send);
  FAILS(MPI_ERR_ARG, MPI_Pready(1, send));
  FAILS(MPI_ERR_REQUEST, MPI_Pready(0, receive));
  FAILS(MPI_ERR_REQUEST, MPI_Parrived(send, 0, &flag));
  FAILS(MPI_ERR_REQUEST, MPI_Parrived(other, 0, &flag));
  FAILS(MPI_ERR_ARG, MPI_Parrived(receive, 1, &flag));
  // The sizes differ: both sides hear of it, now and whenever they are started again.
  MPI_Start(&receive);
  FAILS(MPI_ERR_TRUNCATE, MPI_Wait(&receive, MPI_STATUS_IGNORE));
  FAILS(MPI_ERR_TRUNCATE, MPI_Wait(&send, MPI_STATUS_IGNORE));
  MPI_Start(&send);
  FAILS(MPI_ERR_TRUNCATE, MPI_Wait(&send, MPI_STATUS_IGNORE));
  MPI_Request_free(&send);
  MPI_Request_free(&receive);
  MPI_Request_free(&other);
  MPI_Comm_free(&self);
}

}  // namespace

int main(int argc, char** argv) {
  check::begin(argc, argv, MPI_THREAD_MULTIPLE);
  shapes();
  if (!std::getenv("WEFT_PML_PARTITION")) one_by_one();  // grouped, a partition waits for its neighbours
  order();
  threads();
  nowhere();
  mistakes();
  return check::end("partitioned");
}
