// Bodies of the neighbourhood collectives (MPI 5.0, 8.6): arguments into a coll::Call, run in one of three modes.
#include "api/collective.h"
#include "api/generated/bodies.h"
#include "comm/topology/topology.h"

namespace weft::body {

namespace {

using coll::Call;
using coll::Collective;

Call among(const comm::Communicator& comm, Collective what, const void* sendbuf, void* recvbuf) {
  Call c;
  c.what = what;
  c.in = sendbuf;
  c.out = recvbuf;
  c.outdegree = api::outdegree(comm);
  c.indegree = api::indegree(comm);
  return c;
}

Call exchange(const comm::Communicator& comm, Collective what, const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype,
              void* recvbuf, MPI_Count recvcount, type::Datatype& recvtype) {
  Call c = among(comm, what, sendbuf, recvbuf);
  c.in_count = static_cast<uint64_t>(sendcount);
  c.in_type = &sendtype;
  c.out_count = static_cast<uint64_t>(recvcount);
  c.out_type = &recvtype;
  return c;
}

Call allgatherv(const comm::Communicator& comm, const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf,
                Counts recvcounts, Counts displs, type::Datatype& recvtype) {
  Call c = exchange(comm, Collective::neighbor_allgatherv, sendbuf, sendcount, sendtype, recvbuf, 0, recvtype);
  c.out_counts = recvcounts;
  c.out_displs = displs;
  return c;
}

Call alltoallv(const comm::Communicator& comm, const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype& sendtype,
               void* recvbuf, Counts recvcounts, Counts rdispls, type::Datatype& recvtype) {
  Call c = exchange(comm, Collective::neighbor_alltoallv, sendbuf, 0, sendtype, recvbuf, 0, recvtype);
  c.in_counts = sendcounts;
  c.in_displs = sdispls;
  c.out_counts = recvcounts;
  c.out_displs = rdispls;
  return c;
}

Call alltoallw(const comm::Communicator& comm, const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype* const* sendtypes,
               void* recvbuf, Counts recvcounts, Counts rdispls, type::Datatype* const* recvtypes) {
  Call c = among(comm, Collective::neighbor_alltoallw, sendbuf, recvbuf);
  c.in_counts = sendcounts;
  c.in_displs = sdispls;
  c.in_types = sendtypes;
  c.out_counts = recvcounts;
  c.out_displs = rdispls;
  c.out_types = recvtypes;
  return c;
}

}  // namespace

int Neighbor_allgather(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                       type::Datatype& recvtype, comm::Communicator& comm) {
  return coll::run(*comm.coll, exchange(comm, Collective::neighbor_allgather, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype));
}
int Ineighbor_allgather(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                        type::Datatype& recvtype, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, exchange(comm, Collective::neighbor_allgather, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype), request);
}
int Neighbor_allgather_init(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                            type::Datatype& recvtype, comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, exchange(comm, Collective::neighbor_allgather, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype), request);
}
int Neighbor_allgatherv(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, Counts recvcounts, Counts displs,
                        type::Datatype& recvtype, comm::Communicator& comm) {
  return coll::run(*comm.coll, allgatherv(comm, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype));
}
int Ineighbor_allgatherv(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, Counts recvcounts,
                         Counts displs, type::Datatype& recvtype, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, allgatherv(comm, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype), request);
}
int Neighbor_allgatherv_init(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, Counts recvcounts,
                             Counts displs, type::Datatype& recvtype, comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, allgatherv(comm, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype), request);
}
int Neighbor_alltoall(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                      type::Datatype& recvtype, comm::Communicator& comm) {
  return coll::run(*comm.coll, exchange(comm, Collective::neighbor_alltoall, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype));
}
int Ineighbor_alltoall(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                       type::Datatype& recvtype, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, exchange(comm, Collective::neighbor_alltoall, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype), request);
}
int Neighbor_alltoall_init(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                           type::Datatype& recvtype, comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, exchange(comm, Collective::neighbor_alltoall, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype), request);
}
int Neighbor_alltoallv(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype& sendtype, void* recvbuf, Counts recvcounts,
                       Counts rdispls, type::Datatype& recvtype, comm::Communicator& comm) {
  return coll::run(*comm.coll, alltoallv(comm, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype));
}
int Ineighbor_alltoallv(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype& sendtype, void* recvbuf, Counts recvcounts,
                        Counts rdispls, type::Datatype& recvtype, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, alltoallv(comm, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype), request);
}
int Neighbor_alltoallv_init(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype& sendtype, void* recvbuf,
                            Counts recvcounts, Counts rdispls, type::Datatype& recvtype, comm::Communicator& comm, comm::Info*,
                            MPI_Request* request) {
  return init(comm, alltoallv(comm, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype), request);
}
int Neighbor_alltoallw(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype* const* sendtypes, void* recvbuf,
                       Counts recvcounts, Counts rdispls, type::Datatype* const* recvtypes, comm::Communicator& comm) {
  return coll::run(*comm.coll, alltoallw(comm, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes));
}
int Ineighbor_alltoallw(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype* const* sendtypes, void* recvbuf,
                        Counts recvcounts, Counts rdispls, type::Datatype* const* recvtypes, comm::Communicator& comm,
                        MPI_Request* request) {
  return start(comm, alltoallw(comm, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes), request);
}
int Neighbor_alltoallw_init(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype* const* sendtypes, void* recvbuf,
                            Counts recvcounts, Counts rdispls, type::Datatype* const* recvtypes, comm::Communicator& comm, comm::Info*,
                            MPI_Request* request) {
  return init(comm, alltoallw(comm, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes), request);
}

}  // namespace weft::body
