// Point-to-point: modes, order, wildcards, probes, truncation, cancel, persistence, completion calls.
#include "check.h"

using check::rank;
using check::ranks;

namespace {

std::vector<int> pattern(int count, int seed) {
  std::vector<int> v(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) v[static_cast<size_t>(i)] = seed * 7919 + i;
  return v;
}

int right() { return (rank + 1) % ranks; }
int left() { return (rank + ranks - 1) % ranks; }

void ring_all_sizes() {
  for (int count : {0, 1, 3, 9, 10, 16, 100, 1000, 1023, 2048, 4096, 10000, 100000, 700000}) {
    const auto out = pattern(count, rank);
    std::vector<int> in(out.size() + 1, -1);
    MPI_Request requests[2];
    MPI_Irecv(in.data(), count, MPI_INT, left(), count % 1000, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out.data(), count, MPI_INT, right(), count % 1000, MPI_COMM_WORLD, &requests[1]);
    MPI_Status statuses[2];
    MPI_Waitall(2, requests, statuses);
    in.pop_back();
    CHECK(in == pattern(count, left()));
    int got = -1;
    MPI_Get_count(&statuses[0], MPI_INT, &got);
    CHECK(got == count && statuses[0].MPI_SOURCE == left() && statuses[0].MPI_TAG == count % 1000);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
  }
}

void order_between_sizes() {
  // Small messages must not overtake large ones of the same pair and tag.
  constexpr int messages = 60;
  std::vector<std::vector<int>> out, in;
  std::vector<MPI_Request> requests;
  for (int i = 0; i < messages; ++i) {
    const int count = i % 3 == 0 ? 50000 : i % 3 == 1 ? 1 : 900;
    out.push_back(pattern(count, i));
    in.emplace_back(50000, -1);
  }
  for (int i = 0; i < messages; ++i) {
    requests.emplace_back();
    MPI_Isend(out[size_t(i)].data(), int(out[size_t(i)].size()), MPI_INT, right(), 5, MPI_COMM_WORLD, &requests.back());
  }
  for (int i = 0; i < messages; ++i) {
    MPI_Status status;
    MPI_Recv(in[size_t(i)].data(), 50000, MPI_INT, i % 2 ? MPI_ANY_SOURCE : left(), i % 5 ? 5 : MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    int got = 0;
    MPI_Get_count(&status, MPI_INT, &got);
    in[size_t(i)].resize(size_t(got));
    CHECK(in[size_t(i)] == out[size_t(i)]);
  }
  MPI_Waitall(messages, requests.data(), MPI_STATUSES_IGNORE);
}

void modes() {
  std::vector<int> in(2000), out = pattern(2000, 3);
  MPI_Request request;
  MPI_Irecv(in.data(), 2000, MPI_INT, left(), 1, MPI_COMM_WORLD, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Rsend(out.data(), 2000, MPI_INT, right(), 1, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(in == out);

  MPI_Irecv(in.data(), 1, MPI_INT, left(), 2, MPI_COMM_WORLD, &request);
  MPI_Ssend(out.data(), 1, MPI_INT, right(), 2, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(in[0] == out[0]);

  std::vector<char> buffer(3 * (8000 + MPI_BSEND_OVERHEAD));
  MPI_Buffer_attach(buffer.data(), int(buffer.size()));
  for (int i = 0; i < 3; ++i) MPI_Bsend(out.data(), 2000, MPI_INT, right(), 10 + i, MPI_COMM_WORLD);
  for (int i = 2; i >= 0; --i) {
    MPI_Recv(in.data(), 2000, MPI_INT, left(), 10 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(in == out);
  }
  void* address;
  int size;
  MPI_Buffer_detach(&address, &size);
  CHECK(address == buffer.data() && size == int(buffer.size()));
}

void synchronous_waits_for_match() {
  if (ranks < 2 || rank > 1) return;
  int value = 7, flag = 1;
  if (rank == 0) {
    MPI_Request request;
    MPI_Issend(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 1000; ++i) {
      MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
      CHECK(!flag);
      if (flag) return;
    }
    MPI_Send(&value, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(value == 7);
  }
}

void probes() {
  const auto out = pattern(rank + 5, rank);
  MPI_Request request;
  MPI_Isend(out.data(), int(out.size()), MPI_INT, right(), 8, MPI_COMM_WORLD, &request);
  MPI_Status status;
  MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  int count = 0;
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == left() + 5 && status.MPI_SOURCE == left() && status.MPI_TAG == 8);
  MPI_Message message;
  int flag = 0;
  while (!flag) MPI_Improbe(left(), 8, MPI_COMM_WORLD, &flag, &message, &status);
  int other = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &other, MPI_STATUS_IGNORE);
  CHECK(!other);
  std::vector<int> in(static_cast<size_t>(count));
  MPI_Mrecv(in.data(), count, MPI_INT, &message, &status);
  CHECK(in == pattern(left() + 5, left()) && message == MPI_MESSAGE_NULL);
  MPI_Wait(&request, MPI_STATUS_IGNORE);

  MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status);
  CHECK(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
  MPI_Mrecv(nullptr, 0, MPI_INT, &message, &status);
}

void truncation() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int count : {4, 1000, 100000}) {
    const auto out = pattern(count, 1);
    std::vector<int> in(static_cast<size_t>(count), -5);
    MPI_Request request;
    MPI_Isend(out.data(), count, MPI_INT, right(), 9, MPI_COMM_WORLD, &request);
    MPI_Status status;
    const int error = MPI_Recv(in.data(), count - 2, MPI_INT, left(), 9, MPI_COMM_WORLD, &status);
    CHECK(check::error_class(error) == MPI_ERR_TRUNCATE);
    CHECK(in[size_t(count) - 1] == -5 && in[size_t(count) - 2] == -5);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

void cancel_receive() {
  int value = 0, cancelled = 0;
  MPI_Request request;
  MPI_Irecv(&value, 1, MPI_INT, left(), 4711, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Status status;
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(cancelled);
  MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4712, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Request_free(&request);
  CHECK(request == MPI_REQUEST_NULL);
}

/// A cancelled send that nobody receives ends, and leaves nothing behind that a later receive could find.
void cancel_send() {
  for (const int count : {1, 500000}) {
    const auto lost = pattern(count, 1), out = pattern(count, 2);
    std::vector<int> in(static_cast<size_t>(count), -5);
    MPI_Request request;
    MPI_Issend(lost.data(), count, MPI_INT, right(), 21, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Status status;
    MPI_Wait(&request, &status);
    int cancelled = 0;
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled);
    MPI_Barrier(MPI_COMM_WORLD);  // nobody receives before all have cancelled
    MPI_Isend(out.data(), count, MPI_INT, right(), 21, MPI_COMM_WORLD, &request);
    MPI_Recv(in.data(), count, MPI_INT, left(), 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(in == out);
  }
}

void persistent() {
  int out = 0, in = -1;
  MPI_Request requests[2];
  MPI_Send_init(&out, 1, MPI_INT, right(), 6, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(&in, 1, MPI_INT, left(), 6, MPI_COMM_WORLD, &requests[1]);
  for (int round = 0; round < 20; ++round) {
    out = rank * 100 + round;
    MPI_Startall(2, requests);
    MPI_Status statuses[2];
    MPI_Waitall(2, requests, statuses);
    CHECK(in == left() * 100 + round && requests[0] != MPI_REQUEST_NULL);
  }
  int flag = 0;
  MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
  CHECK(flag);
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

void completion_calls() {
  constexpr int n = 8;
  int in[n], out[n];
  MPI_Request requests[2 * n];
  for (int i = 0; i < n; ++i) MPI_Irecv(&in[i], 1, MPI_INT, left(), 100 + i, MPI_COMM_WORLD, &requests[i]);
  for (int i = n - 1; i >= 0; --i) {
    out[i] = i * i;
    MPI_Isend(&out[i], 1, MPI_INT, right(), 100 + i, MPI_COMM_WORLD, &requests[n + i]);
  }
  int index = -1, done = 0;
  MPI_Status status;
  MPI_Waitany(n, requests, &index, &status);
  CHECK(index >= 0 && index < n && status.MPI_TAG == 100 + index && in[index] == index * index);
  for (int left_over = n - 1; left_over > 0; left_over -= done) {
    int indices[n];
    MPI_Status statuses[n];
    MPI_Waitsome(n, requests, &done, indices, statuses);
    CHECK(done > 0);
    for (int i = 0; i < done; ++i) CHECK(in[indices[i]] == indices[i] * indices[i]);
  }
  MPI_Waitsome(n, requests, &done, &index, MPI_STATUSES_IGNORE);
  CHECK(done == MPI_UNDEFINED);
  MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE);
  CHECK(index == MPI_UNDEFINED);
  int flag = 0;
  while (!flag) MPI_Testall(n, requests + n, &flag, MPI_STATUSES_IGNORE);
  CHECK(requests[2 * n - 1] == MPI_REQUEST_NULL);
}

void sendrecv() {
  auto out = pattern(30000, rank);
  std::vector<int> in(30000);
  MPI_Status status;
  MPI_Sendrecv(out.data(), 30000, MPI_INT, right(), 1, in.data(), 30000, MPI_INT, left(), 1, MPI_COMM_WORLD, &status);
  CHECK(in == pattern(30000, left()));
  MPI_Sendrecv_replace(out.data(), 30000, MPI_INT, right(), 2, left(), 2, MPI_COMM_WORLD, &status);
  CHECK(out == pattern(30000, left()));
  MPI_Sendrecv(out.data(), 1, MPI_INT, MPI_PROC_NULL, 1, in.data(), 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
  CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
}

void flood() {
  // Unexpected messages from everybody to rank 0, taken in reverse order of arrival.
  constexpr int each = 500;
  if (rank != 0) {
    for (int i = 0; i < each; ++i) MPI_Send(&i, 1, MPI_INT, 0, i, MPI_COMM_WORLD);
  } else {
    for (int i = each - 1; i >= 0; --i)
      for (int source = ranks - 1; source > 0; --source) {
        int value = -1;
        MPI_Recv(&value, 1, MPI_INT, source, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(value == i);
      }
  }
}

}  // namespace

int main(int argc, char** argv) {
  check::begin(argc, argv);
  ring_all_sizes();
  order_between_sizes();
  modes();
  synchronous_waits_for_match();
  MPI_Barrier(MPI_COMM_WORLD);
  probes();
  MPI_Barrier(MPI_COMM_WORLD);
  truncation();
  cancel_receive();
  cancel_send();
  persistent();
  completion_calls();
  sendrecv();
  flood();
  return check::end("point_to_point");
}
