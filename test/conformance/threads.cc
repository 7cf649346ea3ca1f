// MPI_THREAD_MULTIPLE: threads of every rank talk at once, on one communicator and on their own, also in collectives.
#include <unistd.h>

#include <atomic>
#include <climits>
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

/// Every thread makes a communicator, each rank in another order: those of one thread must come together.
template <class Make>
void make_at_once(Make make) {
  on_all_threads([&](int i) {
    usleep(static_cast<useconds_t>((i + rank) % threads) * 3000);
    MPI_Comm made = make(i);
    int inter = 0, got[2] = {i, -1};
    CHECK(made != MPI_COMM_NULL);
    MPI_Comm_test_inter(made, &inter);
    if (inter)
      MPI_Allreduce(&got[0], &got[1], 1, MPI_INT, MPI_MAX, made);
    else if (MPI_Bcast(got, 1, MPI_INT, 0, made) == MPI_SUCCESS)
      got[1] = got[0];
    CHECK(got[1] == i);
    MPI_Comm_free(&made);
  });
}

/// What tells agreements apart is all of a tag and all of a string. The first two strings have the same hash in libstdc++, to 30 bits.
const int tags[threads] = {5, 5 + (1 << 30), INT_MAX, INT_MAX - 1};
const char* const names[threads] = {"org.example.lib6162", "org.example.lib43713", "", "org.example.lib"};

void agree_at_once() {
  MPI_Group group;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  make_at_once([&](int i) {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Comm_create_group(MPI_COMM_WORLD, group, tags[i], &made);
    return made;
  });
  make_at_once([&](int i) {
    MPI_Comm made = MPI_COMM_NULL;
    if (i == 0)
      MPI_Comm_create(MPI_COMM_WORLD, group, &made);
    else
      MPI_Comm_create_group(MPI_COMM_WORLD, group, (1 << 30) - i, &made);
    return made;
  });
  make_at_once([&](int i) {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Comm_create_from_group(group, names[i], MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made);
    return made;
  });
  MPI_Group_free(&group);
}

/// Between the even ranks and the odd ones; the leaders meet over the world, where groups agree at the same time.
void agree_between_groups() {
  MPI_Comm side[threads];
  MPI_Group group, others;
  for (MPI_Comm& comm : side) MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
  make_at_once([&](int i) {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Intercomm_create(side[i], 0, MPI_COMM_WORLD, 1 - rank % 2, tags[i], &made);
    return made;
  });
  MPI_Comm_group(side[0], &group);
  MPI_Comm_group(MPI_COMM_WORLD, &others);
  make_at_once([&](int i) {
    MPI_Comm made = MPI_COMM_NULL;
    if (i == 0)
      MPI_Intercomm_create(side[0], 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &made);
    else
      MPI_Comm_create_group(MPI_COMM_WORLD, others, 6 + i, &made);
    return made;
  });
  const MPI_Group all = others;
  MPI_Group_difference(all, group, &others);
  make_at_once([&](int i) {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Intercomm_create_from_groups(group, 0, others, 0, names[i], MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made);
    return made;
  });
  for (MPI_Group used : {group, others, all}) MPI_Group_free(&used);
  for (MPI_Comm& comm : side) MPI_Comm_free(&comm);
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
  agree_at_once();
  if (ranks > 1) agree_between_groups();
  return check::end("threads");
}
