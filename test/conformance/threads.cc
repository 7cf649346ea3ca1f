// MPI_THREAD_MULTIPLE: threads of every rank talk at once, on one communicator and on their own, also in collectives.
#include <thread>

#include "check.h"

using check::rank;
using check::ranks;

namespace {

constexpr int threads = 4;

void talk(int me, MPI_Comm comm) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  for (int round = 0; round < 200; ++round) {
    const int count = round % 10 == 0 ? 20000 : round % 7;
    std::vector<int> out(size_t(count) + 1, me * 1000 + round), in(out.size(), -1);
    MPI_Request request;
    MPI_Irecv(in.data(), count + 1, MPI_INT, round % 3 ? left : MPI_ANY_SOURCE, me, comm, &request);
    MPI_Send(out.data(), count + 1, MPI_INT, right, me, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(in == out);
  }
}

void meet(MPI_Comm comm) {
  for (int round = 0; round < 100; ++round) {
    int mine = rank + round, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == ranks * (ranks - 1) / 2 + ranks * round);
    if (round % 10 == 0) MPI_Barrier(comm);
  }
}

template <class Work>
void on_all_threads(Work work) {
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) all.emplace_back([=] { work(i); });
  for (std::thread& t : all) t.join();
}

}  // namespace

int main(int argc, char** argv) {
  check::begin(argc, argv, MPI_THREAD_MULTIPLE);
  int level = 0;
  MPI_Query_thread(&level);
  CHECK(level == MPI_THREAD_MULTIPLE);
  MPI_Comm own[threads];
  for (MPI_Comm& comm : own) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  on_all_threads([](int i) { talk(i, MPI_COMM_WORLD); });
  on_all_threads([&](int i) { talk(i, own[i]); });
  on_all_threads([&](int i) { meet(own[i]); });
  on_all_threads([&](int i) {
    MPI_Comm copy;
    for (int round = 0; round < 20; ++round) {
      MPI_Comm_dup(own[i], &copy);
      meet(copy);
      MPI_Comm_free(&copy);
    }
  });
  for (MPI_Comm& comm : own) MPI_Comm_free(&comm);
  return check::end("threads");
}
