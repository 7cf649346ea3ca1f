// Nonblocking operations go on while their rank computes without calling MPI, as far as the implementation has a thread for that: Weft with
// WEFT_PML_HELPER=always. The other ranks say by files that they are through, so that nobody looks at memory which MPI may be writing.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "check.h"

using check::rank;
using check::ranks;

namespace {

namespace fs = std::filesystem;
constexpr int kMany = 1 << 20;  // ints
constexpr auto kPatience = std::chrono::seconds(60);

fs::path folder;

void say(const std::string& word) { std::ofstream(folder / (word + std::to_string(rank))); }

/// Calls no MPI until all other ranks have said the word.
void compute_until(const std::string& word) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (int r = 0; r < ranks; ++r)
    while (r != rank && !fs::exists(folder / (word + std::to_string(r)))) {
      if (std::chrono::steady_clock::now() > end) return CHECK(!"nothing has happened while this rank computed");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

void compute(int microseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

/// Rank 0 starts something and computes, the others wait for their part of it.
template <class Start>
void away(const std::string& word, const std::vector<int>& result, int expected, Start start) {
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Barrier(MPI_COMM_WORLD);
  start(requests);
  if (rank == 0) compute_until(word);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  if (rank != 0) say(word);
  CHECK(std::ranges::count(result, expected) == std::ssize(result));
  MPI_Barrier(MPI_COMM_WORLD);
}

void messages() {
  std::vector<int> out(kMany, rank + 1), in(kMany), none;
  if (ranks != 2) return;
  const int other = 1 - rank;
  away("received", rank ? none : in, 2, [&](MPI_Request* r) {
    rank ? MPI_Isend(out.data(), kMany, MPI_INT, other, 1, MPI_COMM_WORLD, r)
         : MPI_Irecv(in.data(), kMany, MPI_INT, other, 1, MPI_COMM_WORLD, r);
  });
  away("sent", rank ? in : none, 1, [&](MPI_Request* r) {
    rank ? MPI_Irecv(in.data(), kMany, MPI_INT, other, 1, MPI_COMM_WORLD, r)
         : MPI_Isend(out.data(), kMany, MPI_INT, other, 1, MPI_COMM_WORLD, r);
  });
  away("exchanged", in, other + 1, [&](MPI_Request* r) {
    MPI_Isendrecv(out.data(), kMany, MPI_INT, other, 1, in.data(), kMany, MPI_INT, other, 1, MPI_COMM_WORLD, r);
  });
}

void collectives() {
  const int sum = ranks * (ranks + 1) / 2;
  std::vector<int> out(kMany, rank + 1), in(kMany), none;
  away("barrier", none, 0, [&](MPI_Request* r) { MPI_Ibarrier(MPI_COMM_WORLD, r); });
  away("allreduce", in, sum, [&](MPI_Request* r) { MPI_Iallreduce(out.data(), in.data(), kMany, MPI_INT, MPI_SUM, MPI_COMM_WORLD, r); });
  MPI_Request persistent;
  MPI_Allreduce_init(out.data(), in.data(), kMany, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &persistent);
  for (const char* word : {"first", "second"}) {
    std::ranges::fill(in, 0);
    away(word, in, sum, [&](MPI_Request* r) {
      MPI_Start(&persistent);
      *r = persistent;
    });
  }
  MPI_Request_free(&persistent);
  MPI_Comm copy = MPI_COMM_NULL;
  away("copied", none, 0, [&](MPI_Request* r) { MPI_Comm_idup(MPI_COMM_WORLD, &copy, r); });
  MPI_Comm_free(&copy);
}

std::thread::id main_thread;
bool elsewhere = false;

void add(void* in, void* inout, int* count, MPI_Datatype*) {
  elsewhere |= std::this_thread::get_id() != main_thread;
  for (int i = 0; i < *count; ++i) static_cast<int*>(inout)[i] += static_cast<int*>(in)[i];
}

/// The program is for one thread, and so are its operations.
void users_operations() {
  MPI_Op op;
  MPI_Op_create(add, 1, &op);
  for (int count : {1, 3000, kMany}) {
    std::vector<int> out(size_t(count), rank + 1), in(out.size());
    MPI_Request request;
    MPI_Iallreduce(out.data(), in.data(), count, MPI_INT, op, MPI_COMM_WORLD, &request);
    compute(20000);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(std::ranges::count(in, ranks * (ranks + 1) / 2) == count);
  }
  CHECK(!elsewhere);
  MPI_Op_free(&op);
}

/// The helper comes and goes beside calls of all kinds.
void comings_and_goings() {
  unsigned seed = 4711;
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  for (int round = 0; round < 150; ++round) {
    seed = seed * 1103515245 + 12345;  // the same on all ranks
    const int count = 1 << (seed >> 16) % 18, pause = (seed >> 8) % 8 ? int(seed >> 20) % 1500 : 14000;
    std::vector<int> out(size_t(count), round), in(out.size()), sums(out.size());
    MPI_Request requests[3];
    MPI_Irecv(in.data(), count, MPI_INT, left, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(out.data(), sums.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(out.data(), count, MPI_INT, right, 3, MPI_COMM_WORLD, &requests[2]);
    compute(rank % 2 ? pause : 1500 - std::min(pause, 1500));
    for (int i = 0, got = -1; i < int(seed % 5); ++i) {
      MPI_Sendrecv(&i, 1, MPI_INT, right, 4, &got, 1, MPI_INT, left, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      CHECK(got == i);
    }
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    CHECK(in == out);
    CHECK(std::ranges::count(sums, ranks * round) == count);
  }
}

/// A child has no helper, and needs none.
void fork_meanwhile() {
  std::vector<int> out(kMany, 1), in(kMany), none;
  away("forked", in, ranks, [&](MPI_Request* r) {
    MPI_Iallreduce(out.data(), in.data(), kMany, MPI_INT, MPI_SUM, MPI_COMM_WORLD, r);
    const pid_t child = fork();
    if (child == 0) _exit(7);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  });
}

}  // namespace

int main(int argc, char** argv) {
  check::begin(argc, argv);
  main_thread = std::this_thread::get_id();
  char name[] = "/tmp/overlap-XXXXXX";
  if (rank == 0 && !mkdtemp(name)) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  folder = name;
  if (ranks > 1) {
    messages();
    collectives();
    fork_meanwhile();
  }
  users_operations();
  comings_and_goings();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) fs::remove_all(folder);
  return check::end("overlap");
}
