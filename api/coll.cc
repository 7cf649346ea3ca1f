// Bodies of the collectives: arguments into a coll::Call, run in one of three modes.
#include "coll/coll.h"

#include "api/collective.h"
#include "api/generated/bodies.h"

namespace weft::body {

namespace {

using api::in_place;
using coll::Call;
using coll::Collective;

Call bcast_of(void* buffer, MPI_Count count, type::Datatype& type, int root) {
  Call c;
  c.what = Collective::bcast;
  c.out = buffer;
  c.out_count = static_cast<uint64_t>(count);
  c.out_type = &type;
  c.root = root;
  return c;
}

/// The forms with one count each way. What does not matter on this rank is not looked at later either.
Call exchange_of(Collective what, const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                 type::Datatype& recvtype) {
  Call c;
  c.what = what;
  c.in = sendbuf;
  c.in_count = static_cast<uint64_t>(sendcount);
  c.in_type = &sendtype;
  c.out = recvbuf;
  c.out_count = static_cast<uint64_t>(recvcount);
  c.out_type = &recvtype;
  c.in_place = in_place(sendbuf);
  return c;
}

Call gather_of(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
               type::Datatype& recvtype, int root) {
  Call c = exchange_of(Collective::gather, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype);
  c.root = root;
  return c;
}

Call scatter_of(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                type::Datatype& recvtype, int root) {
  Call c = exchange_of(Collective::scatter, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype);
  c.in_place = in_place(recvbuf);
  c.root = root;
  return c;
}

Call gatherv_of(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, Counts recvcounts, Counts displs,
                type::Datatype& recvtype, int root, const comm::Communicator& comm) {
  Call c = gather_of(sendbuf, sendcount, sendtype, recvbuf, 0, recvtype, root);
  c.what = Collective::gatherv;
  if (api::role_of(comm, root).root) {
    c.out_counts = recvcounts;
    c.out_displs = displs;
  }
  return c;
}

Call scatterv_of(const void* sendbuf, Counts sendcounts, Counts displs, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                 type::Datatype& recvtype, int root, const comm::Communicator& comm) {
  Call c = scatter_of(sendbuf, 0, sendtype, recvbuf, recvcount, recvtype, root);
  c.what = Collective::scatterv;
  if (api::role_of(comm, root).root) {
    c.in_counts = sendcounts;
    c.in_displs = displs;
  }
  return c;
}

Call allgatherv_of(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, Counts recvcounts, Counts displs,
                   type::Datatype& recvtype) {
  Call c = exchange_of(Collective::allgatherv, sendbuf, sendcount, sendtype, recvbuf, 0, recvtype);
  c.out_counts = recvcounts;
  c.out_displs = displs;
  return c;
}

Call alltoallv_of(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype& sendtype, void* recvbuf, Counts recvcounts,
                  Counts rdispls, type::Datatype& recvtype) {
  Call c = allgatherv_of(sendbuf, 0, sendtype, recvbuf, recvcounts, rdispls, recvtype);
  c.what = Collective::alltoallv;
  if (!c.in_place) {
    c.in_counts = sendcounts;
    c.in_displs = sdispls;
  }
  return c;
}

Call alltoallw_of(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype* const* sendtypes, void* recvbuf,
                  Counts recvcounts, Counts rdispls, type::Datatype* const* recvtypes) {
  Call c;
  c.what = Collective::alltoallw;
  c.in_place = in_place(sendbuf);
  c.in = sendbuf;
  c.out = recvbuf;
  c.out_counts = recvcounts;
  c.out_displs = rdispls;
  c.out_types = recvtypes;
  if (!c.in_place) {
    c.in_counts = sendcounts;
    c.in_displs = sdispls;
    c.in_types = sendtypes;
  }
  return c;
}

Call reduction_of(Collective what, const void* sendbuf, void* recvbuf, MPI_Count count, type::Datatype& type, const op::Op& op,
                  int root = 0) {
  Call c;
  c.what = what;
  c.in = sendbuf;
  c.out = recvbuf;
  c.out_count = static_cast<uint64_t>(count);
  c.out_type = &type;
  c.op = &op;
  c.root = root;
  c.in_place = in_place(sendbuf);
  return c;
}

Call reduce_scatter_of(const void* sendbuf, void* recvbuf, Counts recvcounts, type::Datatype& type, const op::Op& op) {
  Call c = reduction_of(Collective::reduce_scatter, sendbuf, recvbuf, 0, type, op);
  c.out_counts = recvcounts;
  return c;
}

}  // namespace

int Barrier(comm::Communicator& comm) { return coll::run(*comm.coll, coll::Call{}); }
int Ibarrier(comm::Communicator& comm, MPI_Request* request) { return start(comm, coll::Call{}, request); }
int Barrier_init(comm::Communicator& comm, comm::Info*, MPI_Request* request) { return init(comm, coll::Call{}, request); }
int Bcast(void* buffer, MPI_Count count, type::Datatype& datatype, int root, comm::Communicator& comm) {
  return coll::run(*comm.coll, bcast_of(buffer, count, datatype, root));
}
int Ibcast(void* buffer, MPI_Count count, type::Datatype& datatype, int root, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, bcast_of(buffer, count, datatype, root), request);
}
int Bcast_init(void* buffer, MPI_Count count, type::Datatype& datatype, int root, comm::Communicator& comm, comm::Info*,
               MPI_Request* request) {
  return init(comm, bcast_of(buffer, count, datatype, root), request);
}
int Gather(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount, type::Datatype& recvtype,
           int root, comm::Communicator& comm) {
  return coll::run(*comm.coll, gather_of(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root));
}
int Igather(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
            type::Datatype& recvtype, int root, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, gather_of(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root), request);
}
int Gather_init(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                type::Datatype& recvtype, int root, comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, gather_of(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root), request);
}
int Gatherv(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, Counts recvcounts, Counts displs,
            type::Datatype& recvtype, int root, comm::Communicator& comm) {
  return coll::run(*comm.coll, gatherv_of(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm));
}
int Igatherv(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, Counts recvcounts, Counts displs,
             type::Datatype& recvtype, int root, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, gatherv_of(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm), request);
}
int Gatherv_init(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, Counts recvcounts, Counts displs,
                 type::Datatype& recvtype, int root, comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, gatherv_of(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm), request);
}
int Scatter(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
            type::Datatype& recvtype, int root, comm::Communicator& comm) {
  return coll::run(*comm.coll, scatter_of(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root));
}
int Iscatter(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
             type::Datatype& recvtype, int root, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, scatter_of(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root), request);
}
int Scatter_init(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                 type::Datatype& recvtype, int root, comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, scatter_of(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root), request);
}
int Scatterv(const void* sendbuf, Counts sendcounts, Counts displs, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
             type::Datatype& recvtype, int root, comm::Communicator& comm) {
  return coll::run(*comm.coll, scatterv_of(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm));
}
int Iscatterv(const void* sendbuf, Counts sendcounts, Counts displs, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
              type::Datatype& recvtype, int root, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, scatterv_of(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm), request);
}
int Scatterv_init(const void* sendbuf, Counts sendcounts, Counts displs, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                  type::Datatype& recvtype, int root, comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, scatterv_of(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm), request);
}
int Allgather(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
              type::Datatype& recvtype, comm::Communicator& comm) {
  return coll::run(*comm.coll, exchange_of(Collective::allgather, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype));
}
int Iallgather(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
               type::Datatype& recvtype, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, exchange_of(Collective::allgather, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype), request);
}
int Allgather_init(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                   type::Datatype& recvtype, comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, exchange_of(Collective::allgather, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype), request);
}
int Allgatherv(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, Counts recvcounts, Counts displs,
               type::Datatype& recvtype, comm::Communicator& comm) {
  return coll::run(*comm.coll, allgatherv_of(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype));
}
int Iallgatherv(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, Counts recvcounts, Counts displs,
                type::Datatype& recvtype, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, allgatherv_of(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype), request);
}
int Allgatherv_init(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, Counts recvcounts, Counts displs,
                    type::Datatype& recvtype, comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, allgatherv_of(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype), request);
}
int Alltoall(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
             type::Datatype& recvtype, comm::Communicator& comm) {
  return coll::run(*comm.coll, exchange_of(Collective::alltoall, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype));
}
int Ialltoall(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
              type::Datatype& recvtype, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, exchange_of(Collective::alltoall, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype), request);
}
int Alltoall_init(const void* sendbuf, MPI_Count sendcount, type::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                  type::Datatype& recvtype, comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, exchange_of(Collective::alltoall, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype), request);
}
int Alltoallv(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype& sendtype, void* recvbuf, Counts recvcounts,
              Counts rdispls, type::Datatype& recvtype, comm::Communicator& comm) {
  return coll::run(*comm.coll, alltoallv_of(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype));
}
int Ialltoallv(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype& sendtype, void* recvbuf, Counts recvcounts,
               Counts rdispls, type::Datatype& recvtype, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, alltoallv_of(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype), request);
}
int Alltoallv_init(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype& sendtype, void* recvbuf, Counts recvcounts,
                   Counts rdispls, type::Datatype& recvtype, comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, alltoallv_of(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype), request);
}
int Alltoallw(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype* const* sendtypes, void* recvbuf, Counts recvcounts,
              Counts rdispls, type::Datatype* const* recvtypes, comm::Communicator& comm) {
  return coll::run(*comm.coll, alltoallw_of(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes));
}
int Ialltoallw(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype* const* sendtypes, void* recvbuf, Counts recvcounts,
               Counts rdispls, type::Datatype* const* recvtypes, comm::Communicator& comm, MPI_Request* request) {
  return start(comm, alltoallw_of(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes), request);
}
int Alltoallw_init(const void* sendbuf, Counts sendcounts, Counts sdispls, type::Datatype* const* sendtypes, void* recvbuf,
                   Counts recvcounts, Counts rdispls, type::Datatype* const* recvtypes, comm::Communicator& comm, comm::Info*,
                   MPI_Request* request) {
  return init(comm, alltoallw_of(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes), request);
}
int Reduce(const void* sendbuf, void* recvbuf, MPI_Count count, type::Datatype& datatype, op::Op& op, int root, comm::Communicator& comm) {
  return coll::run(*comm.coll, reduction_of(Collective::reduce, sendbuf, recvbuf, count, datatype, op, root));
}
int Ireduce(const void* sendbuf, void* recvbuf, MPI_Count count, type::Datatype& datatype, op::Op& op, int root, comm::Communicator& comm,
            MPI_Request* request) {
  return start(comm, reduction_of(Collective::reduce, sendbuf, recvbuf, count, datatype, op, root), request);
}
int Reduce_init(const void* sendbuf, void* recvbuf, MPI_Count count, type::Datatype& datatype, op::Op& op, int root,
                comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, reduction_of(Collective::reduce, sendbuf, recvbuf, count, datatype, op, root), request);
}
int Allreduce(const void* sendbuf, void* recvbuf, MPI_Count count, type::Datatype& datatype, op::Op& op, comm::Communicator& comm) {
  return coll::run(*comm.coll, reduction_of(Collective::allreduce, sendbuf, recvbuf, count, datatype, op));
}
int Iallreduce(const void* sendbuf, void* recvbuf, MPI_Count count, type::Datatype& datatype, op::Op& op, comm::Communicator& comm,
               MPI_Request* request) {
  return start(comm, reduction_of(Collective::allreduce, sendbuf, recvbuf, count, datatype, op), request);
}
int Allreduce_init(const void* sendbuf, void* recvbuf, MPI_Count count, type::Datatype& datatype, op::Op& op, comm::Communicator& comm,
                   comm::Info*, MPI_Request* request) {
  return init(comm, reduction_of(Collective::allreduce, sendbuf, recvbuf, count, datatype, op), request);
}
int Reduce_scatter(const void* sendbuf, void* recvbuf, Counts recvcounts, type::Datatype& datatype, op::Op& op, comm::Communicator& comm) {
  return coll::run(*comm.coll, reduce_scatter_of(sendbuf, recvbuf, recvcounts, datatype, op));
}
int Ireduce_scatter(const void* sendbuf, void* recvbuf, Counts recvcounts, type::Datatype& datatype, op::Op& op, comm::Communicator& comm,
                    MPI_Request* request) {
  return start(comm, reduce_scatter_of(sendbuf, recvbuf, recvcounts, datatype, op), request);
}
int Reduce_scatter_init(const void* sendbuf, void* recvbuf, Counts recvcounts, type::Datatype& datatype, op::Op& op,
                        comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, reduce_scatter_of(sendbuf, recvbuf, recvcounts, datatype, op), request);
}
int Reduce_scatter_block(const void* sendbuf, void* recvbuf, MPI_Count recvcount, type::Datatype& datatype, op::Op& op,
                         comm::Communicator& comm) {
  return coll::run(*comm.coll, reduction_of(Collective::reduce_scatter_block, sendbuf, recvbuf, recvcount, datatype, op));
}
int Ireduce_scatter_block(const void* sendbuf, void* recvbuf, MPI_Count recvcount, type::Datatype& datatype, op::Op& op,
                          comm::Communicator& comm, MPI_Request* request) {
  return start(comm, reduction_of(Collective::reduce_scatter_block, sendbuf, recvbuf, recvcount, datatype, op), request);
}
int Reduce_scatter_block_init(const void* sendbuf, void* recvbuf, MPI_Count recvcount, type::Datatype& datatype, op::Op& op,
                              comm::Communicator& comm, comm::Info*, MPI_Request* request) {
  return init(comm, reduction_of(Collective::reduce_scatter_block, sendbuf, recvbuf, recvcount, datatype, op), request);
}
int Scan(const void* sendbuf, void* recvbuf, MPI_Count count, type::Datatype& datatype, op::Op& op, comm::Communicator& comm) {
  return coll::run(*comm.coll, reduction_of(Collective::scan, sendbuf, recvbuf, count, datatype, op));
}
int Iscan(const void* sendbuf, void* recvbuf, MPI_Count count, type::Datatype& datatype, op::Op& op, comm::Communicator& comm,
          MPI_Request* request) {
  return start(comm, reduction_of(Collective::scan, sendbuf, recvbuf, count, datatype, op), request);
}
int Scan_init(const void* sendbuf, void* recvbuf, MPI_Count count, type::Datatype& datatype, op::Op& op, comm::Communicator& comm,
              comm::Info*, MPI_Request* request) {
  return init(comm, reduction_of(Collective::scan, sendbuf, recvbuf, count, datatype, op), request);
}
int Exscan(const void* sendbuf, void* recvbuf, MPI_Count count, type::Datatype& datatype, op::Op& op, comm::Communicator& comm) {
  return coll::run(*comm.coll, reduction_of(Collective::exscan, sendbuf, recvbuf, count, datatype, op));
}
int Iexscan(const void* sendbuf, void* recvbuf, MPI_Count count, type::Datatype& datatype, op::Op& op, comm::Communicator& comm,
            MPI_Request* request) {
  return start(comm, reduction_of(Collective::exscan, sendbuf, recvbuf, count, datatype, op), request);
}
int Exscan_init(const void* sendbuf, void* recvbuf, MPI_Count count, type::Datatype& datatype, op::Op& op, comm::Communicator& comm,
                comm::Info*, MPI_Request* request) {
  return init(comm, reduction_of(Collective::exscan, sendbuf, recvbuf, count, datatype, op), request);
}

}  // namespace weft::body
