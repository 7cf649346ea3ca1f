// MPI_THREAD_MULTIPLE: threads of every rank talk at once, on one communicator and on their own, also in collectives.
#include <atomic>
#include <string>
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

/// Communicators on lanes of their own, where the implementation knows the hint.
void on_lanes() {
  MPI_Comm own[threads];
  for (int i = 0; i < threads; ++i) {
    MPI_Info info, used;
    MPI_Info_create(&info);
    MPI_Info_set(info, "weft_lane", std::to_string(i).c_str());
    if (i % 2) {
      MPI_Request request;
      MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &own[i], &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &own[i]);
    }
    char text[8] = "";
    int length = sizeof text, found = 0;
    MPI_Comm_get_info(own[i], &used);
    MPI_Info_get_string(used, "weft_lane", &length, text, &found);
    CHECK(!found || text == std::to_string(i));
    MPI_Info_free(&used);
    MPI_Info_free(&info);
  }
  on_all_threads([&](int i) { talk(i, own[i]); });
  on_all_threads([&](int i) { meet(own[i]); });
  for (MPI_Comm& comm : own) MPI_Comm_free(&comm);
}

/// A generalized request's extra state: whoever has waited for it may give it away.
struct Promise {
  std::atomic<bool> freed{false};
  std::thread::id waiter = std::this_thread::get_id();
};

/// Another thread completes what this one waits for: its free function has run by then, in this thread (MPI 5.0, 13.2).
void promises() {
  const auto query = [](void*, MPI_Status* status) {
    MPI_Status_set_elements(status, MPI_INT, 0);
    return MPI_Status_set_cancelled(status, 0);
  };
  const auto free = [](void* extra) {
    auto& promise = *static_cast<Promise*>(extra);
    CHECK(std::this_thread::get_id() == promise.waiter);
    promise.freed = true;
    return MPI_SUCCESS;
  };
  for (int round = 0; round < 60; ++round) {
    Promise promise;
    MPI_Request request, copy;
    MPI_Grequest_start(
        query, free, [](void*, int) { return MPI_SUCCESS; }, &promise, &request);
    copy = request;
    std::thread keeper([=] { MPI_Grequest_complete(copy); });
    if (round % 2) {
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      for (int done = 0; !done;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    CHECK(promise.freed);
    keeper.join();
  }
  Promise promise;  // freed before: the end comes with the completion
  MPI_Request request, copy;
  MPI_Grequest_start(
      query, free, [](void*, int) { return MPI_SUCCESS; }, &promise, &request);
  copy = request;
  MPI_Request_free(&request);
  CHECK(!promise.freed);
  MPI_Grequest_complete(copy);
  CHECK(promise.freed);
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
  on_lanes();
  promises();
  return check::end("threads");
}
