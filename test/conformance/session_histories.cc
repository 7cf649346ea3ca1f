// Sessions of processes that have done different things with MPI before: some have left the world model without ever having had a session,
// others had one before it, beside it, still have it, or had several. They find each other all the same: all of them, in pairs, as two
// groups, of several threads. The first argument says what is played, the second which history rank 0 has; the other ranks have the next.
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kLarge = 1 << 20;

/// By environment: nothing here may rely on the world model.
int own_rank() {
  for (const char* name : {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (const char* rank = std::getenv(name)) return std::atoi(rank);
  return 0;
}

MPI_Session open_session() {
  MPI_Session session = MPI_SESSION_NULL;
  CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) == MPI_SUCCESS && session != MPI_SESSION_NULL);
  return session;
}

MPI_Group group_of(MPI_Session session, const char* set) {
  MPI_Group group = MPI_GROUP_NULL;
  CHECK(MPI_Group_from_session_pset(session, set, &group) == MPI_SUCCESS);
  return group;
}

MPI_Comm communicator_of(MPI_Group group, const std::string& tag) {
  MPI_Comm comm = MPI_COMM_NULL;
  CHECK(MPI_Comm_create_from_group(group, tag.c_str(), MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm) == MPI_SUCCESS);
  return comm;
}

/// Every rank sends to every other one, small and large, and all agree on a sum.
void use(MPI_Comm comm) {
  int size = 0, rank = 0, sum = 0;
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &rank);
  CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == size * (size - 1) / 2);
  std::vector<char> out(kLarge, static_cast<char>('a' + rank)), in(kLarge);
  for (int shift = 1; shift < size; ++shift)
    for (int bytes : {1, kLarge}) {
      const int to = (rank + shift) % size, from = (rank + size - shift) % size;
      std::fill(in.begin(), in.end(), '?');
      MPI_Sendrecv(out.data(), bytes, MPI_CHAR, to, bytes, in.data(), bytes, MPI_CHAR, from, bytes, comm, MPI_STATUS_IGNORE);
      CHECK(std::count(in.begin(), in.end(), static_cast<char>('a' + from)) == bytes);
    }
}

void use_alone() {
  MPI_Session session = open_session();
  MPI_Group group = group_of(session, "mpi://SELF");
  MPI_Comm comm = communicator_of(group, "alone");
  use(comm);
  MPI_Group_free(&group);
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
}

void init() {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
}

void plain() {
  init();
  use(MPI_COMM_WORLD);
  MPI_Finalize();
}
void before() {
  use_alone();
  plain();
}
void beside() {
  init();
  use_alone();
  use(MPI_COMM_WORLD);
  MPI_Finalize();
}
void several() {
  for (int i = 0; i < 3; ++i) use_alone();
  beside();
}
MPI_Session held = MPI_SESSION_NULL;
void still_open() {
  init();
  use(MPI_COMM_WORLD);
  held = open_session();
  MPI_Finalize();
}
void open_from_the_start() {
  held = open_session();
  plain();
}
constexpr void (*histories[])() = {plain, before, beside, plain, several, still_open, open_from_the_start};

/// Those of a job without the world model.
void sessions_only(int number) {
  for (int i = 0; i < number % 4; ++i) use_alone();
  if (number % 3 == 0) held = open_session();
}

void in_pairs(MPI_Group all, const std::string& tag) {
  int size = 0, rank = 0;
  MPI_Group_size(all, &size);
  MPI_Group_rank(all, &rank);
  for (int i = 0; i < size; ++i)
    for (int j = i + 1; j < size; ++j) {
      if (rank != i && rank != j) continue;
      const int two[] = {(i + j) % 2 ? i : j, (i + j) % 2 ? j : i};
      MPI_Group pair;
      MPI_Group_incl(all, 2, two, &pair);
      MPI_Comm comm = communicator_of(pair, tag + " " + std::to_string(i) + " " + std::to_string(j));
      use(comm);
      MPI_Group_free(&pair);
      MPI_Comm_free(&comm);
    }
}

/// Even ranks and odd ones, joined by an inter-communicator.
void as_two_groups(MPI_Group all, const std::string& tag) {
  int size = 0, rank = 0;
  MPI_Group_size(all, &size);
  MPI_Group_rank(all, &rank);
  if (size < 2) return;
  MPI_Group half[2];
  for (int odd : {0, 1}) {
    int range[1][3] = {{odd, size - 1, 2}};
    MPI_Group_range_incl(all, 1, range, &half[odd]);
  }
  MPI_Comm between, merged;
  MPI_Intercomm_create_from_groups(half[rank % 2], 0, half[1 - rank % 2], 0, tag.c_str(), MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &between);
  MPI_Intercomm_merge(between, rank % 2, &merged);
  use(merged);
  for (MPI_Group& group : half) MPI_Group_free(&group);
  MPI_Comm_free(&merged);
  MPI_Comm_free(&between);
}

void all_together(MPI_Group all, const std::string& tag) {
  MPI_Comm comm = communicator_of(all, tag), copy, part;
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  use(comm);
  MPI_Comm_dup(comm, &copy);
  use(copy);
  MPI_Comm_split(copy, rank % 2, -rank, &part);
  use(part);
  for (MPI_Comm* c : {&comm, &copy, &part}) MPI_Comm_free(c);
}

/// Sessions that begin and end, of one thread and of two; what they do first differs by `number`, which all ranks have in common.
void meet(int number) {
  for (int round = 0; round < 2; ++round) {
    const std::string tag = "meeting " + std::to_string(round);
    MPI_Session session = open_session();
    MPI_Group all = group_of(session, "mpi://WORLD");
    if (number % 2) in_pairs(all, tag + ", pair");
    if (number % 3 == 1) as_two_groups(all, tag + ", groups");
    all_together(all, tag);
    if (number % 2 == 0) in_pairs(all, tag + ", pair");
    if (number % 3 != 1) as_two_groups(all, tag + ", groups");
    std::thread other([&] { all_together(all, tag + ", other thread"); });
    all_together(all, tag + ", first thread");
    other.join();
    MPI_Group_free(&all);
    if (held != MPI_SESSION_NULL) MPI_Session_finalize(&held);
    MPI_Session_finalize(&session);
  }
}

/// Rank 0 has a session and waits for the others, who are still in the world model and need something of it before they open theirs.
void awaited() {
  std::vector<char> data(4 * kLarge, 'x');
  std::vector<MPI_Request> sends;
  int rank = 0, size = 0;
  init();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) {
    for (int to = 1; to < size; ++to) MPI_Isend(data.data(), 4 * kLarge, MPI_CHAR, to, 0, MPI_COMM_WORLD, &sends.emplace_back());
  } else {
    usleep(100000);
    std::fill(data.begin(), data.end(), '?');
    MPI_Recv(data.data(), 4 * kLarge, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(std::count(data.begin(), data.end(), 'x') == 4 * kLarge);
  }
  meet(0);
  MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
  use(MPI_COMM_WORLD);
  MPI_Finalize();
}

/// The same, and the others leave the world model before.
void awaited_beyond(int number) {
  const bool waits = own_rank() % 2 == number % 2;
  init();
  use(MPI_COMM_WORLD);
  if (waits) held = open_session();
  if (!waits) usleep(100000);
  MPI_Finalize();
  if (!waits) usleep(100000);
  meet(number);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "mixed";
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  check::rank = own_rank();
  if (what == "mixed") {
    histories[static_cast<size_t>(own_rank() + number) % std::size(histories)]();
    meet(number);
  } else if (what == "sessions") {
    sessions_only(own_rank() + number);
    meet(number);
  } else if (what == "awaited") {
    awaited();
  } else {
    awaited_beyond(number);
  }
  if (!check::failures && check::rank == 0) std::printf("histories, %s %d: ok\n", what.c_str(), number);
  return check::failures != 0;
}
