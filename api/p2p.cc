// Bodies of point-to-point messages: sends, receives, probes, persistent requests.
#include <cstring>
#include <memory>

#include "api/buffers.h"
#include "api/generated/bodies.h"
#include "api/requests.h"
#include "api/status.h"

namespace weft::body {

namespace {

using api::buffer_of;
using api::hand_out;
using api::hand_out_persistent;
using pml::Buffer;
using pml::Lane;
using pml::Mode;
using pml::Outcome;
using pml::Traffic;

int send(const void* buf, MPI_Count count, const type::Datatype& type, int dest, int tag, comm::Communicator& comm, Mode mode) {
  const Status status = comm.team->lane().send(*comm.team, dest, tag, Traffic::user, buffer_of(buf, count, type), mode);
  return status == Status::ok ? MPI_SUCCESS : fail(status);
}

int isend(const void* buf, MPI_Count count, const type::Datatype& type, int dest, int tag, comm::Communicator& comm, Mode mode,
          MPI_Request* request) {
  return hand_out(comm, comm.team->lane().isend_among_others(*comm.team, dest, tag, Traffic::user, buffer_of(buf, count, type), mode),
                  request);
}

int send_init(const void* buf, MPI_Count count, const type::Datatype& type, int dest, int tag, comm::Communicator& comm, Mode mode,
              MPI_Request* request) {
  return hand_out_persistent(comm, comm.team->lane().send_init(*comm.team, dest, tag, buffer_of(buf, count, type), mode), request);
}

/// Hands out a matched message; errors of its receive are the communicator's. No message: none was there.
void hand_out_message(comm::Communicator& comm, pml::Message* taken, MPI_Message* handle) {
  if (taken && taken->arrived) taken->team_owner = &comm;
  *handle = api::encode(taken);
}

/// The result of a blocking call that fills one status.
int conclude(Status status, const Outcome& outcome, MPI_Status* out) {
  if (status == Status::ok || status == Status::truncated || outcome.error == MPI_ERR_COUNT) api::set_status(out, outcome);
  return status == Status::ok ? MPI_SUCCESS : outcome.error ? outcome.error : fail(status);
}

[[gnu::always_inline]] inline int receive(comm::Communicator& comm, const Buffer& in, int source, int tag, MPI_Status* status) {
  Outcome outcome;
  const Status ended = comm.team->lane().receive(*comm.team, source, tag, Traffic::user, in, outcome);
  if (ended != Status::ok) [[unlikely]]
    return conclude(ended, outcome, status);
  api::set_status(status, outcome);
  return MPI_SUCCESS;
}

/// A packed copy of a message, for calls that receive into the buffer they send from.
struct Packed {
  Packed(const void* buf, MPI_Count count, const type::Datatype& type) : bytes(static_cast<uint64_t>(count) * type.size) {
    if (bytes > sizeof few) many = std::make_unique_for_overwrite<std::byte[]>(bytes);
    type::pack(type, static_cast<uint64_t>(count), buf, data());
  }
  std::byte* data() { return many ? many.get() : few; }
  Buffer buffer() { return {data(), bytes, &type::of(type::Basic::byte), mem::MemKind::host}; }

  uint64_t bytes;
  std::unique_ptr<std::byte[]> many;
  std::byte few[1024];
};

int exchange(comm::Communicator& comm, const Buffer& out, int dest, int sendtag, const Buffer& in, int source, int recvtag,
             MPI_Status* status) {
  Lane& lane = comm.lane();
  if (lane.send_at_once(*comm.team, dest, sendtag, Traffic::user, out)) return receive(comm, in, source, recvtag, status);
  pml::Request* request = lane.ireceive(*comm.team, source, recvtag, Traffic::user, in);
  if (!request->predefined) request->team_owner = &comm;
  const Status sent = lane.send(*comm.team, dest, sendtag, Traffic::user, out);
  if (sent != Status::ok) {
    lane.cancel(*request);
    release(request);
    return fail(sent);
  }
  MPI_Request handle = api::encode(request);
  return Wait(&handle, status);
}

}  // namespace

int Send(const void* buf, MPI_Count count, type::Datatype& type, int dest, int tag, comm::Communicator& comm) {
  return send(buf, count, type, dest, tag, comm, Mode::standard);
}
int Rsend(const void* buf, MPI_Count count, type::Datatype& type, int dest, int tag, comm::Communicator& comm) {
  return send(buf, count, type, dest, tag, comm, Mode::ready);
}
int Ssend(const void* buf, MPI_Count count, type::Datatype& type, int dest, int tag, comm::Communicator& comm) {
  return send(buf, count, type, dest, tag, comm, Mode::synchronous);
}

int Isend(const void* buf, MPI_Count count, type::Datatype& type, int dest, int tag, comm::Communicator& comm, MPI_Request* request) {
  return isend(buf, count, type, dest, tag, comm, Mode::standard, request);
}
int Irsend(const void* buf, MPI_Count count, type::Datatype& type, int dest, int tag, comm::Communicator& comm, MPI_Request* request) {
  return isend(buf, count, type, dest, tag, comm, Mode::ready, request);
}
int Issend(const void* buf, MPI_Count count, type::Datatype& type, int dest, int tag, comm::Communicator& comm, MPI_Request* request) {
  return isend(buf, count, type, dest, tag, comm, Mode::synchronous, request);
}

int Send_init(const void* buf, MPI_Count count, type::Datatype& type, int dest, int tag, comm::Communicator& comm, MPI_Request* request) {
  return send_init(buf, count, type, dest, tag, comm, Mode::standard, request);
}
int Rsend_init(const void* buf, MPI_Count count, type::Datatype& type, int dest, int tag, comm::Communicator& comm, MPI_Request* request) {
  return send_init(buf, count, type, dest, tag, comm, Mode::ready, request);
}
int Ssend_init(const void* buf, MPI_Count count, type::Datatype& type, int dest, int tag, comm::Communicator& comm, MPI_Request* request) {
  return send_init(buf, count, type, dest, tag, comm, Mode::synchronous, request);
}

int Recv(void* buf, MPI_Count count, type::Datatype& type, int source, int tag, comm::Communicator& comm, MPI_Status* status) {
  return receive(comm, buffer_of(buf, count, type), source, tag, status);
}
int Irecv(void* buf, MPI_Count count, type::Datatype& type, int source, int tag, comm::Communicator& comm, MPI_Request* request) {
  return hand_out(comm, comm.team->lane().ireceive(*comm.team, source, tag, Traffic::user, buffer_of(buf, count, type)), request);
}
int Recv_init(void* buf, MPI_Count count, type::Datatype& type, int source, int tag, comm::Communicator& comm, MPI_Request* request) {
  return hand_out_persistent(comm, comm.team->lane().receive_init(*comm.team, source, tag, buffer_of(buf, count, type)), request);
}

// Probes

int Probe(int source, int tag, comm::Communicator& comm, MPI_Status* status) {
  Outcome outcome;
  return conclude(comm.lane().probe(*comm.team, source, tag, outcome), outcome, status);
}
int Iprobe(int source, int tag, comm::Communicator& comm, int* flag, MPI_Status* status) {
  Outcome outcome;
  *flag = comm.lane().probe_now(*comm.team, source, tag, outcome);
  if (*flag) api::set_status(status, outcome);
  return MPI_SUCCESS;
}
int Mprobe(int source, int tag, comm::Communicator& comm, MPI_Message* message, MPI_Status* status) {
  Outcome outcome;
  pml::Message* taken = nullptr;
  const int error = conclude(comm.lane().match(*comm.team, source, tag, taken, outcome), outcome, status);
  hand_out_message(comm, taken, message);
  return error;
}
int Improbe(int source, int tag, comm::Communicator& comm, int* flag, MPI_Message* message, MPI_Status* status) {
  Outcome outcome;
  pml::Message* taken = comm.lane().match_now(*comm.team, source, tag, outcome);
  *flag = taken != nullptr;
  hand_out_message(comm, taken, message);
  if (taken) api::set_status(status, outcome);
  return MPI_SUCCESS;
}
int Imrecv(void* buf, MPI_Count count, type::Datatype& type, MPI_Message* message, MPI_Request* request) {
  pml::Message* const matched = api::decode(*message);
  pml::Lane& lane = matched->lane ? *matched->lane : api::lane();  // none: MPI_MESSAGE_NO_PROC
  pml::Request* const receive = lane.ireceive(matched, buffer_of(buf, count, type));
  lane.look_after(*receive);
  *request = api::encode(receive);
  *message = MPI_MESSAGE_NULL;
  return MPI_SUCCESS;
}
int Mrecv(void* buf, MPI_Count count, type::Datatype& type, MPI_Message* message, MPI_Status* status) {
  MPI_Request request;
  Imrecv(buf, count, type, message, &request);
  return Wait(&request, status);
}

// Both ways at once

int Sendrecv(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, int dest, int sendtag, void* recvbuf, MPI_Count recvcount,
             type::Datatype& recvtype, int source, int recvtag, comm::Communicator& comm, MPI_Status* status) {
  return exchange(comm, buffer_of(sendbuf, sendcount, sendtype), dest, sendtag, buffer_of(recvbuf, recvcount, recvtype), source, recvtag,
                  status);
}
int Sendrecv_replace(void* buf, MPI_Count count, type::Datatype& type, int dest, int sendtag, int source, int recvtag,
                     comm::Communicator& comm, MPI_Status* status) {
  Packed copy(buf, dest == MPI_PROC_NULL ? 0 : count, type);
  return exchange(comm, copy.buffer(), dest, sendtag, buffer_of(buf, count, type), source, recvtag, status);
}
int Isendrecv(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, int dest, int sendtag, void* recvbuf, MPI_Count recvcount,
              type::Datatype& recvtype, int source, int recvtag, comm::Communicator& comm, MPI_Request* request) {
  return api::start_pair(comm, buffer_of(sendbuf, sendcount, sendtype), dest, sendtag, buffer_of(recvbuf, recvcount, recvtype), source,
                         recvtag, nullptr, request);
}
int Isendrecv_replace(void* buf, MPI_Count count, type::Datatype& type, int dest, int sendtag, int source, int recvtag,
                      comm::Communicator& comm, MPI_Request* request) {
  const uint64_t bytes = dest == MPI_PROC_NULL ? 0 : static_cast<uint64_t>(count) * type.size;
  auto copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
  if (bytes) type::pack(type, static_cast<uint64_t>(count), buf, copy.get());
  const Buffer out{copy.get(), bytes, &type::of(type::Basic::byte), mem::MemKind::host};
  return api::start_pair(comm, out, dest, sendtag, buffer_of(buf, count, type), source, recvtag, std::move(copy), request);
}

// Buffered

int Bsend(const void* buf, MPI_Count count, type::Datatype& type, int dest, int tag, comm::Communicator& comm) {
  return dest == MPI_PROC_NULL ? MPI_SUCCESS : api::send_buffered(comm, dest, tag, buffer_of(buf, count, type));
}
int Ibsend(const void* buf, MPI_Count count, type::Datatype& type, int dest, int tag, comm::Communicator& comm, MPI_Request* request) {
  if (const int error = Bsend(buf, count, type, dest, tag, comm)) return error;
  return hand_out(comm, comm.lane().sent(), request);
}
int Bsend_init(const void* buf, MPI_Count count, type::Datatype& type, int dest, int tag, comm::Communicator& comm, MPI_Request* request) {
  return hand_out_persistent(comm, api::make_buffered(comm, dest, tag, buffer_of(buf, count, type)), request);
}

// Statuses

int Get_count(const MPI_Status* status, type::Datatype& type, MPI_Count* count) {
  const uint64_t bytes = api::status_bytes(*status);
  if (type.size == 0)
    *count = bytes == 0 ? 0 : MPI_UNDEFINED;
  else
    *count = bytes % type.size == 0 ? static_cast<MPI_Count>(bytes / type.size) : MPI_UNDEFINED;
  return MPI_SUCCESS;
}
int Test_cancelled(const MPI_Status* status, int* flag) {
  *flag = api::status_cancelled(*status);
  return MPI_SUCCESS;
}

}  // namespace weft::body
