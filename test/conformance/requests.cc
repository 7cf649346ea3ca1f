// What is asked of requests without completing them, exchanges that are started only, buffers for buffered sends of communicators and
// sessions, and hints that receives must keep to.
#include <fstream>
#include <string>

#include "check.h"

using check::rank;
using check::ranks;

namespace {

int right() { return (rank + 1) % ranks; }
int left() { return (rank + ranks - 1) % ranks; }

std::vector<int> pattern(int n, int who) {
  std::vector<int> v(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) v[size_t(i)] = who * 1000 + i;
  return v;
}

void started_exchanges(int n) {
  std::vector<int> out = pattern(n, rank), in(out.size(), -1);
  MPI_Request requests[2];
  MPI_Isendrecv(out.data(), n, MPI_INT, right(), 1, in.data(), n, MPI_INT, left(), 1, MPI_COMM_WORLD, &requests[0]);
  std::vector<int> both = pattern(n, rank + 50);
  MPI_Isendrecv_replace(both.data(), n, MPI_INT, right(), 2, left(), 2, MPI_COMM_WORLD, &requests[1]);
  MPI_Status statuses[2];
  MPI_Waitall(2, requests, statuses);
  CHECK(in == pattern(n, left()) && out == pattern(n, rank) && both == pattern(n, left() + 50));
  for (int i = 0; i < 2; ++i) {
    int count = -1;
    MPI_Get_count(&statuses[i], MPI_INT, &count);
    CHECK(statuses[i].MPI_SOURCE == left() && statuses[i].MPI_TAG == i + 1 && count == n);
  }
  MPI_Isendrecv(out.data(), n, MPI_INT, MPI_PROC_NULL, 1, in.data(), n, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Wait(&requests[0], statuses);
  CHECK(statuses[0].MPI_SOURCE == MPI_PROC_NULL);
}

/// Asking completes nothing: afterwards all requests are there, and answer again.
void asking() {
  constexpr int n = 4;
  int in[n], out[n], flag = 1, index = 0, count = 0, indices[n];
  MPI_Request requests[n];
  MPI_Status status, statuses[n];
  for (int i = 0; i < n; ++i) MPI_Irecv(&in[i], 1, MPI_INT, left(), 20 + i, MPI_COMM_WORLD, &requests[i]);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Request_get_status_all(n, requests, &flag, statuses);
  CHECK(!flag);
  MPI_Request_get_status_any(n, requests, &index, &flag, &status);
  CHECK(!flag && index == MPI_UNDEFINED);
  MPI_Request_get_status_some(n, requests, &count, indices, statuses);
  CHECK(count == 0);
  MPI_Barrier(MPI_COMM_WORLD);

  out[2] = rank + 2;
  MPI_Send(&out[2], 1, MPI_INT, right(), 22, MPI_COMM_WORLD);
  for (int twice = 0; twice < 2; ++twice) {
    for (flag = 0; !flag;) MPI_Request_get_status_any(n, requests, &index, &flag, &status);
    CHECK(index == 2 && status.MPI_SOURCE == left() && status.MPI_TAG == 22 && requests[2] != MPI_REQUEST_NULL);
    MPI_Request_get_status_some(n, requests, &count, indices, statuses);
    CHECK(count == 1 && indices[0] == 2 && statuses[0].MPI_TAG == 22);
    MPI_Request_get_status(requests[2], &flag, &status);
    CHECK(flag && status.MPI_TAG == 22);
    MPI_Request_get_status_all(n, requests, &flag, statuses);
    CHECK(!flag);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < n; ++i)
    if (i != 2) MPI_Send(&(out[i] = rank + i), 1, MPI_INT, right(), 20 + i, MPI_COMM_WORLD);
  for (flag = 0; !flag;) MPI_Request_get_status_all(n, requests, &flag, statuses);
  for (int i = 0; i < n; ++i) CHECK(in[i] == left() + i && statuses[i].MPI_TAG == 20 + i && requests[i] != MPI_REQUEST_NULL);
  MPI_Waitall(n, requests, statuses);

  // Without any request there is nothing to wait for.
  MPI_Request_get_status_all(n, requests, &flag, statuses);
  CHECK(flag);
  MPI_Request_get_status_any(n, requests, &index, &flag, &status);
  CHECK(flag && index == MPI_UNDEFINED);
  MPI_Request_get_status_some(n, requests, &count, indices, statuses);
  CHECK(count == MPI_UNDEFINED);
}

/// Sends one int to the right, buffered, and receives one from the left; the error class of the send.
int pass_on(MPI_Comm comm) {
  int out = rank, in = -1;
  const int error = check::error_class(MPI_Bsend(&out, 1, MPI_INT, right(), 3, comm));
  if (error != MPI_SUCCESS) return error;
  MPI_Recv(&in, 1, MPI_INT, left(), 3, comm, MPI_STATUS_IGNORE);
  CHECK(in == left());
  return error;
}

void buffers() {
  MPI_Comm with, without;
  MPI_Comm_dup(MPI_COMM_WORLD, &with);
  MPI_Comm_dup(MPI_COMM_WORLD, &without);
  MPI_Comm_set_errhandler(without, MPI_ERRORS_RETURN);
  std::vector<char> room(2000);
  void* address = nullptr;
  int size = 0;
  MPI_Comm_attach_buffer(with, room.data(), int(room.size()));
  CHECK(pass_on(with) == MPI_SUCCESS);
  CHECK(pass_on(without) == MPI_ERR_BUFFER);  // another communicator's buffer is no help
  MPI_Comm_flush_buffer(with);
  MPI_Request request;
  MPI_Comm_iflush_buffer(with, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);

  std::vector<char> general(3000);
  MPI_Buffer_attach(general.data(), int(general.size()));
  CHECK(pass_on(without) == MPI_SUCCESS);
  MPI_Comm_detach_buffer(with, &address, &size);
  CHECK(address == room.data() && size == int(room.size()));
  CHECK(pass_on(with) == MPI_SUCCESS);  // now by the process's
  MPI_Buffer_iflush(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Buffer_detach(&address, &size);
  CHECK(address == general.data() && size == int(general.size()));

  MPI_Comm_attach_buffer(with, MPI_BUFFER_AUTOMATIC, 0);
  CHECK(pass_on(with) == MPI_SUCCESS);
  MPI_Comm_detach_buffer(with, &address, &size);
  CHECK(address == MPI_BUFFER_AUTOMATIC);
  MPI_Comm_free(&with);
  MPI_Comm_free(&without);
}

/// The communicators that come from a session use its buffer, and no others do.
void session_buffers() {
  MPI_Session sessions[2];
  MPI_Comm comms[2], copy;
  for (int i = 0; i < 2; ++i) {
    MPI_Group group;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &sessions[i]);
    MPI_Group_from_session_pset(sessions[i], "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, i ? "second" : "first", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comms[i]);
    MPI_Group_free(&group);
  }
  MPI_Comm_dup(comms[0], &copy);
  MPI_Comm world;
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  std::vector<char> room(2000);
  MPI_Session_attach_buffer(sessions[0], room.data(), int(room.size()));
  CHECK(pass_on(comms[0]) == MPI_SUCCESS);
  CHECK(pass_on(copy) == MPI_SUCCESS);
  CHECK(pass_on(comms[1]) == MPI_ERR_BUFFER);
  CHECK(pass_on(world) == MPI_ERR_BUFFER);
  MPI_Request request;
  MPI_Session_iflush_buffer(sessions[0], &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Session_flush_buffer(sessions[0]);
  void* address = nullptr;
  int size = 0;
  MPI_Session_detach_buffer(sessions[0], &address, &size);
  CHECK(address == room.data() && size == int(room.size()));
  for (MPI_Comm* comm : {&copy, &comms[0], &comms[1], &world}) MPI_Comm_free(comm);
  for (MPI_Session& session : sessions) MPI_Session_finalize(&session);
}

/// What a communicator says of a hint.
std::string hint(MPI_Comm comm, const char* key) {
  char value[64] = "";
  int length = sizeof value, found = 0;
  MPI_Info used;
  MPI_Comm_get_info(comm, &used);
  MPI_Info_get_string(used, key, &length, value, &found);
  MPI_Info_free(&used);
  return found ? value : "(none)";
}

/// A message that does not fill its buffer is an error, in every kind of receive, and is received all the same.
void exact_length() {
  MPI_Comm comm;
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_exact_length", "true");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  MPI_Info_free(&info);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  CHECK(hint(comm, "mpi_assert_exact_length") == "true");
  const std::vector<int> out(20000, rank + 1);
  std::vector<int> in(20000);
  for (int sent : {3, 20000})
    for (int room : {sent, sent - 1, sent + 1}) {
      const int expected = room == sent ? MPI_SUCCESS : room < sent ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT;
      if (room > 20000) continue;
      const auto received = [&](int error, const MPI_Status& status) {
        int count = 0;
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK(check::error_class(error) == expected && count == std::min(sent, room));
        CHECK(in[0] == left() + 1 && in[size_t(count) - 1] == left() + 1);
        std::fill(in.begin(), in.end(), 0);
      };
      MPI_Status status;
      MPI_Request send, receive;
      MPI_Isend(out.data(), sent, MPI_INT, right(), 1, comm, &send);
      int error = MPI_Recv(in.data(), room, MPI_INT, left(), 1, comm, &status);
      received(error, status);
      MPI_Wait(&send, MPI_STATUS_IGNORE);
      MPI_Irecv(in.data(), room, MPI_INT, left(), 2, comm, &receive);
      MPI_Send(out.data(), sent, MPI_INT, right(), 2, comm);
      error = MPI_Wait(&receive, &status);
      received(error, status);
      MPI_Recv_init(in.data(), room, MPI_INT, left(), 3, comm, &receive);
      for (int again = 0; again < 2; ++again) {
        MPI_Start(&receive);
        MPI_Send(out.data(), sent, MPI_INT, right(), 3, comm);
        error = MPI_Wait(&receive, &status);
        received(error, status);
      }
      MPI_Request_free(&receive);
      MPI_Message message;
      MPI_Isend(out.data(), sent, MPI_INT, right(), 4, comm, &send);
      MPI_Mprobe(left(), 4, comm, &message, &status);
      error = MPI_Mrecv(in.data(), room, MPI_INT, &message, &status);
      received(error, status);
      MPI_Wait(&send, MPI_STATUS_IGNORE);
      error = MPI_Sendrecv(out.data(), sent, MPI_INT, right(), 5, in.data(), room, MPI_INT, left(), 5, comm, &status);
      received(error, status);
      MPI_Isendrecv(out.data(), sent, MPI_INT, right(), 6, in.data(), room, MPI_INT, left(), 6, comm, &receive);
      error = MPI_Wait(&receive, &status);
      received(error, status);
    }
  int sum = 0;  // collectives are not meant, and nothing comes from nobody
  CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == ranks * (ranks - 1) / 2);
  CHECK(MPI_Recv(in.data(), 5, MPI_INT, MPI_PROC_NULL, 1, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  MPI_Comm_free(&comm);
}

/// Where messages may overtake each other all of them arrive, each once.
void overtaking() {
  MPI_Comm comm;
  MPI_Info info;
  MPI_Request request;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_allow_overtaking", "true");
  MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Info_free(&info);
  CHECK(hint(comm, "mpi_assert_allow_overtaking") == "true");
  constexpr int messages = 50;
  std::vector<std::vector<int>> out, in(messages, std::vector<int>(3000));
  std::vector<MPI_Request> requests(2 * messages);
  for (int i = 0; i < messages; ++i) out.emplace_back(i % 5 ? 1 : 3000, i);
  for (int i = 0; i < messages; ++i) MPI_Irecv(in[size_t(i)].data(), 3000, MPI_INT, left(), 8, comm, &requests[size_t(i)]);
  for (int i = 0; i < messages; ++i)
    MPI_Isend(out[size_t(i)].data(), int(out[size_t(i)].size()), MPI_INT, right(), 8, comm, &requests[size_t(messages + i)]);
  MPI_Waitall(2 * messages, requests.data(), MPI_STATUSES_IGNORE);
  std::vector<int> seen(messages);
  for (const auto& one : in) ++seen[size_t(one[0])];
  CHECK(seen == std::vector<int>(messages, 1));
  MPI_Comm_free(&comm);
}

void assertions() {
  MPI_Comm comm;
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int in = -1, flag = 0;
  MPI_Status status;
  CHECK(check::error_class(MPI_Recv(&in, 1, MPI_INT, left(), MPI_ANY_TAG, comm, &status)) == MPI_ERR_TAG);
  CHECK(check::error_class(MPI_Iprobe(left(), MPI_ANY_TAG, comm, &flag, &status)) == MPI_ERR_TAG);
  CHECK(MPI_Iprobe(MPI_ANY_SOURCE, 5, comm, &flag, &status) == MPI_SUCCESS);
  MPI_Info_set(info, "mpi_assert_no_any_source", "true");
  MPI_Info_set(info, "mpi_assert_no_any_tag", "false");
  MPI_Comm_set_info(comm, info);
  CHECK(check::error_class(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 5, comm, &status)) == MPI_ERR_RANK);
  CHECK(MPI_Iprobe(left(), MPI_ANY_TAG, comm, &flag, &status) == MPI_SUCCESS);
  MPI_Send(&rank, 1, MPI_INT, right(), 5, comm);
  CHECK(MPI_Recv(&in, 1, MPI_INT, left(), MPI_ANY_TAG, comm, &status) == MPI_SUCCESS && in == left());
  // A copy has none of the hints, nor does the world; what is no boolean changes nothing, and what nobody knows is not given back.
  MPI_Comm copy;
  MPI_Comm_dup(comm, &copy);
  CHECK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, copy, &flag, &status) == MPI_SUCCESS);
  MPI_Info_set(info, "mpi_assert_no_any_source", "perhaps");
  MPI_Info_set(info, "colour", "blue");
  MPI_Comm_set_info(comm, info);
  CHECK(hint(comm, "mpi_assert_no_any_source") == "true" && hint(comm, "mpi_assert_no_any_tag") == "false");
  CHECK(hint(comm, "mpi_assert_exact_length") == "false" && hint(comm, "mpi_assert_allow_overtaking") == "false");
  CHECK(hint(comm, "colour") == "(none)" && hint(comm, "mpi_memory_alloc_kinds") == "mpi,system");
  for (MPI_Comm other : {copy, MPI_COMM_WORLD}) CHECK(hint(other, "mpi_assert_no_any_source") == "false");
  MPI_Info_free(&info);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&comm);
}

/// A committed type of `bytes` bytes: one run, or with a hole in front of the last one.
MPI_Datatype some_type(int bytes, bool hole) {
  MPI_Datatype made;
  if (hole) {
    const int lengths[] = {bytes - 1, 1}, places[] = {0, bytes};
    MPI_Type_indexed(2, lengths, places, MPI_BYTE, &made);
  } else {
    MPI_Type_contiguous(bytes, MPI_BYTE, &made);
  }
  MPI_Type_commit(&made);
  return made;
}

/// Types and communicators are freed, and others made in their place, between the start and the end of what uses them.
void freed_meanwhile(int bytes, bool hole) {
  constexpr int ways = 5;
  std::vector<char> out(size_t(bytes) + 1, char(1 + rank)), in(out.size() * ways, 0);
  MPI_Request requests[ways][2];
  MPI_Message message;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Datatype type = some_type(bytes, hole);
  const auto place = [&](int way) { return in.data() + size_t(way) * out.size(); };
  for (int way = 1; way < ways - 1; ++way) MPI_Irecv(place(way), 1, type, left(), way, comm, &requests[way][0]);
  MPI_Recv_init(place(ways - 1), 1, type, left(), ways - 1, comm, &requests[ways - 1][0]);
  MPI_Start(&requests[ways - 1][0]);
  MPI_Type_free(&type);
  MPI_Datatype others[] = {some_type(7, true), some_type(5, false)};
  MPI_Barrier(comm);
  type = some_type(bytes, hole);
  MPI_Issend(out.data(), 1, type, right(), 0, comm, &requests[0][1]);
  MPI_Issend(out.data(), 1, type, right(), 1, comm, &requests[1][1]);
  MPI_Isend(out.data(), 1, type, right(), 2, comm, &requests[2][1]);
  MPI_Send_init(out.data(), 1, type, right(), 3, comm, &requests[3][1]);
  MPI_Ssend_init(out.data(), 1, type, right(), ways - 1, comm, &requests[ways - 1][1]);
  MPI_Type_free(&type);
  MPI_Datatype more[] = {some_type(3, false), some_type(9, true)};
  MPI_Startall(2, std::vector<MPI_Request>{requests[3][1], requests[ways - 1][1]}.data());
  MPI_Mprobe(left(), 0, comm, &message, MPI_STATUS_IGNORE);
  type = some_type(bytes, hole);
  MPI_Imrecv(place(0), 1, type, &message, &requests[0][0]);
  MPI_Type_free(&type);
  MPI_Datatype last = some_type(11, hole);
  MPI_Comm_free(&comm);
  MPI_Waitall(2 * ways, requests[0], MPI_STATUSES_IGNORE);
  for (MPI_Request* persistent : {&requests[3][1], &requests[ways - 1][0], &requests[ways - 1][1]}) MPI_Request_free(persistent);
  for (int way = 0; way < ways; ++way)
    for (int i = 0; i <= bytes; ++i) CHECK(place(way)[i] == (i == bytes - (hole ? 1 : 0) ? 0 : left() + 1));
  for (MPI_Datatype* other : {&others[0], &others[1], &more[0], &more[1], &last}) MPI_Type_free(other);
}

}  // namespace

/// What a receive that its user has freed took is there again when it has ended: among others that are alike, too, which are received
/// several at once.
void freed_receives() {
  constexpr int kRounds = 8000, kFreed = 4, kEach = 8;
  const auto pages = [] {
    long all = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident;
  };
  long before = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (round == kRounds / 4) before = pages();
    int out[kEach], in[kEach];
    MPI_Request receives[kEach], sends[kEach];
    for (int i = 0; i < kEach; ++i) MPI_Irecv(&in[i], 1, MPI_INT, left(), 40, MPI_COMM_WORLD, &receives[i]);
    for (int i = 0; i < kFreed; ++i) MPI_Request_free(&receives[i]);
    for (int i = 0; i < kEach; ++i) MPI_Isend(&(out[i] = round + i), 1, MPI_INT, right(), 40, MPI_COMM_WORLD, &sends[i]);
    MPI_Waitall(kEach - kFreed, receives + kFreed, MPI_STATUSES_IGNORE);
    MPI_Waitall(kEach, sends, MPI_STATUSES_IGNORE);
    bool right_ones = true;
    for (int i = 0; i < kEach; ++i) right_ones &= in[i] == round + i;
    if (!right_ones) CHECK(right_ones);
  }
  constexpr long kLeast = 100;  // bytes of a receive
  const long grown = (pages() - before) * 4096;
  CHECK(grown < kRounds / 4 * 3 * kFreed * kLeast / 2);
}

int main(int argc, char** argv) {
  check::begin(argc, argv);
  for (int n : {0, 1, 1000, 50000}) started_exchanges(n);
  asking();
  for (int bytes : {140, 4096, 300000})
    for (bool hole : {false, true}) freed_meanwhile(bytes, hole);
  buffers();
  session_buffers();
  assertions();
  exact_length();
  overtaking();
  freed_receives();
  return check::end("requests");
}
