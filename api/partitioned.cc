// Bodies of partitioned communication (MPI 5.0, 4).
#include "pml/partitioned.h"

#include "api/generated/bodies.h"
#include "api/requests.h"
#include "runtime/base/error.h"

namespace weft::body {

namespace {

pml::Buffer partition_of(const void* address, MPI_Count count, const type::Datatype& type) {
  return {const_cast<void*>(address), static_cast<uint64_t>(count), &type, mem::MemKind::host};
}

int check_partitions(int partitions) {
  return partitions < 0 ? fail(MPI_ERR_ARG, "partitions is %d, but it may not be negative", partitions) : MPI_SUCCESS;
}

/// The error handler of the request's communicator applies.
int answer(const pml::Request& request, int error) {
  if (error) [[unlikely]]
    api::blame(static_cast<comm::Communicator*>(request.team_owner));
  return error;
}

}  // namespace

int Psend_init(const void* buf, int partitions, MPI_Count count, type::Datatype& datatype, int dest, int tag, comm::Communicator& comm,
               comm::Info*, MPI_Request* request) {
  if (const int error = check_partitions(partitions)) return error;
  return api::hand_out_persistent(comm, pml::partitioned_send(*comm.team, dest, tag, partitions, partition_of(buf, count, datatype)),
                                  request);
}

int Precv_init(void* buf, int partitions, MPI_Count count, type::Datatype& datatype, int source, int tag, comm::Communicator& comm,
               comm::Info*, MPI_Request* request) {
  if (const int error = check_partitions(partitions)) return error;
  if (source == MPI_ANY_SOURCE) return fail(MPI_ERR_RANK, "source is MPI_ANY_SOURCE; partitioned receives name their sender");
  if (tag == MPI_ANY_TAG) return fail(MPI_ERR_TAG, "tag is MPI_ANY_TAG; partitioned receives name their tag");
  return api::hand_out_persistent(comm, pml::partitioned_receive(*comm.team, source, tag, partitions, partition_of(buf, count, datatype)),
                                  request);
}

int Pready_range(int partition_low, int partition_high, pml::Request& request) {
  return answer(request, pml::partitions_ready(request, partition_low, partition_high));
}

int Pready(int partition, pml::Request& request) { return Pready_range(partition, partition, request); }

int Pready_list(int length, const int* array_of_partitions, pml::Request& request) {
  if (request.request_kind != pml::RequestKind::partitioned_send)
    return answer(request, fail(MPI_ERR_REQUEST, "request was not made by MPI_Psend_init"));
  for (int i = 0; i < length; ++i)
    if (const int error = Pready(array_of_partitions[i], request)) return error;
  return MPI_SUCCESS;
}

int Parrived(pml::Request& request, int partition, int* flag) {
  bool arrived = false;
  const int error = pml::partition_arrived(request, partition, arrived);
  *flag = arrived;
  return answer(request, error);
}

}  // namespace weft::body
