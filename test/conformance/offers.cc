// Messages that could be eager, and whose receiver would rather read them in their sender's memory: a standard send ends without its
// receive, as an eager one does, and what its program writes there next is not what is received.
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <random>
#include <thread>
#include <vector>

#include "check.h"
#include "counter.h"

using check::rank;
using check::ranks;

namespace {

constexpr int kBytes = 48 << 10, kTag = 3;
using Data = std::vector<unsigned char>;

int peer() { return rank ^ 1; }
bool has_peer() { return peer() < ranks; }
bool all_are(const Data& data, unsigned char value) {
  return std::all_of(data.begin(), data.end(), [=](unsigned char c) { return c == value; });
}
void send(const Data& data, int tag = kTag) { MPI_Send(data.data(), int(data.size()), MPI_BYTE, peer(), tag, MPI_COMM_WORLD); }
void receive(Data& data, int tag = kTag) {
  MPI_Recv(data.data(), int(data.size()), MPI_BYTE, peer(), tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/// To and fro, until whoever wants to read has said so.
void warm_up() {
  Data out(kBytes), in(kBytes);
  for (int i = 0; i < 50; ++i) {
    std::fill(out.begin(), out.end(), static_cast<unsigned char>(i));
    if (rank % 2 == 0) send(out);
    receive(in);
    CHECK(all_are(in, static_cast<unsigned char>(i)));
    if (rank % 2 != 0) send(out);
  }
}

/// Both send first, as programs do that count on room. What was sent is changed at once.
void both_send_first() {
  constexpr int messages = 8;
  Data out(kBytes), in(kBytes);
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < messages; ++i) {
      std::fill(out.begin(), out.end(), static_cast<unsigned char>(i));
      send(out, i);
    }
    std::fill(out.begin(), out.end(), 99);
    for (int i = messages - 1; i >= 0; --i) {
      receive(in, i);
      CHECK(all_are(in, static_cast<unsigned char>(i)));
    }
  }
}

/// The same without blocking, waited for in different ways before anything is received.
void requests_end_first() {
  Data out(kBytes), in(kBytes);
  for (int way = 0; way < 4; ++way) {
    std::fill(out.begin(), out.end(), static_cast<unsigned char>(way));
    MPI_Request request;
    if (way < 3)
      MPI_Isend(out.data(), kBytes, MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &request);
    else
      MPI_Send_init(out.data(), kBytes, MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &request);
    if (way == 3) MPI_Start(&request);
    int done = 0;
    while (way == 1 && !done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (way != 1) MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    std::fill(out.begin(), out.end(), 99);
    receive(in);
    CHECK(all_are(in, static_cast<unsigned char>(way)));
    if (way < 3) continue;
    std::fill(out.begin(), out.end(), 7);  // the second start of a persistent one whose first has left a copy
    MPI_Start(&request);
    receive(in);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(all_are(in, 7));
    MPI_Request_free(&request);
  }
}

/// The receiver comes at all times around the one when the sender leaves a copy: whole messages, the right ones.
void late_receivers() {
  std::mt19937 random(17);
  Data out(kBytes), in(kBytes);
  for (int i = 0; i < 300; ++i) {
    const auto value = static_cast<unsigned char>(i);
    const auto late = std::chrono::microseconds(random() % 1200);
    if (rank % 2 == 0) {
      std::fill(out.begin(), out.end(), value);
      send(out);
      std::fill(out.begin(), out.end(), static_cast<unsigned char>(value + 1));
      receive(in);
    } else {
      for (const auto begin = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - begin < late;) {
      }
      receive(in);
      std::fill(out.begin(), out.end(), value);
      send(out);
    }
    CHECK(all_are(in, value));
  }
}

/// What has been left a copy of is found by probes, may be truncated, and comes behind what was sent before.
void matched_late() {
  Data out(kBytes, 5), in(kBytes), less(kBytes / 2);
  for (int i = 0; i < 3; ++i) {
    send(out, 0);
    send(out, 1);
    send(out, 0);
    std::fill(out.begin(), out.end(), 99);
    MPI_Message message;
    MPI_Status status;
    MPI_Mprobe(peer(), 1, MPI_COMM_WORLD, &message, &status);
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == kBytes);
    MPI_Mrecv(in.data(), kBytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    CHECK(all_are(in, 5));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int code = MPI_Recv(less.data(), kBytes / 2, MPI_BYTE, peer(), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    CHECK(check::error_class(code) == MPI_ERR_TRUNCATE);
    CHECK(all_are(less, 5));
    receive(in, 0);
    CHECK(all_are(in, 5));
    std::fill(out.begin(), out.end(), 5);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// Memory that is gone when its message is received.
void unmapped() {
  Data in(kBytes);
  for (int i = 0; i < 20; ++i) {
    const auto value = static_cast<unsigned char>(i);
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(memory, value, kBytes);
    MPI_Send(memory, kBytes, MPI_BYTE, peer(), kTag, MPI_COMM_WORLD);
    munmap(memory, kBytes);
    receive(in);
    CHECK(all_are(in, value));
  }
}

/// Room for one buffered message is enough for one after another, as what is eager leaves it at once. (MPI promises less.)
void buffered() {
  constexpr int messages = 8;
  std::vector<char> room(kBytes + MPI_BSEND_OVERHEAD);
  Data out(kBytes), in(kBytes);
  MPI_Buffer_attach(room.data(), int(room.size()));
  for (int i = 0; i < messages; ++i) {
    std::fill(out.begin(), out.end(), static_cast<unsigned char>(i));
    MPI_Bsend(out.data(), kBytes, MPI_BYTE, peer(), kTag, MPI_COMM_WORLD);
  }
  for (int i = 0; i < messages; ++i) {
    receive(in);
    CHECK(all_are(in, static_cast<unsigned char>(i)));
  }
  void* was = nullptr;
  int bytes = 0;
  MPI_Buffer_detach(&was, &bytes);
}

/// A cancelled one is gone, or its send has ended.
void cancelled() {
  Data out(kBytes, 1), in(kBytes);
  for (int i = 0; i < 10; ++i) {
    MPI_Request request;
    MPI_Isend(out.data(), kBytes, MPI_BYTE, peer(), 1, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Status status;
    MPI_Wait(&request, &status);
    int gone = 0, theirs = 0;
    MPI_Test_cancelled(&status, &gone);
    MPI_Sendrecv(&gone, 1, MPI_INT, peer(), 2, &theirs, 1, MPI_INT, peer(), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (theirs) continue;
    receive(in, 1);
    CHECK(all_are(in, 1));
  }
}

/// How often the CPU has been given to others.
long interruptions() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_nivcsw + used.ru_nvcsw;
}

/// A receiver that has been away once, while a window of messages was offered to it, is soon asked again.
void away_once() {
  constexpr int messages = 64, soon = 1000;
  Data out(kBytes, 1), in(kBytes);
  if (rank % 2 == 0) {
    std::vector<MPI_Request> requests(messages);
    for (int i = 0; i < messages; ++i) MPI_Isend(out.data(), kBytes, MPI_BYTE, peer(), kTag, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(messages, requests.data(), MPI_STATUSES_IGNORE);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int i = 0; i < messages; ++i) receive(in);
  }
  const check::Counter offered("pml_rendezvous");
  const unsigned long long before = offered.value();
  const long switches = interruptions();
  for (int i = 0; i < soon; ++i) {
    if (rank % 2 == 0) send(out);
    receive(in);
    if (rank % 2 != 0) send(out);
  }
  const bool shares_cpu = ranks > 2 || interruptions() > switches + 10;  // with other ranks or other programs: then nothing is offered
  CHECK(shares_cpu || offered.value() > before);
}

/// More than there is room for: sends wait for receives then, and nothing is lost.
void more_than_room() {
  constexpr int messages = 400;
  Data in(kBytes);
  if (rank % 2 == 0) {
    Data out(kBytes);
    for (int i = 0; i < messages; ++i) {
      std::fill(out.begin(), out.end(), static_cast<unsigned char>(i));
      send(out, i);
    }
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int i = 0; i < messages; ++i) {
      receive(in, i);
      CHECK(all_are(in, static_cast<unsigned char>(i)));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  check::begin(argc, argv);
  const auto with_peer = [](void (*part)()) {
    if (has_peer()) part();
    MPI_Barrier(MPI_COMM_WORLD);
  };
  for (const auto part : {warm_up, away_once, warm_up, both_send_first, warm_up, requests_end_first, warm_up, late_receivers, warm_up,
                          unmapped, warm_up, buffered, cancelled, more_than_room})
    with_peer(part);
  if (ranks % 2 == 0) matched_late();
  return check::end("offers");
}
