// Bodies of partitioned communication (MPI 5.0, 4).
#include "pml/partitioned.h"

#include <string>

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

int check_kind(const pml::Request& request, pml::RequestKind kind, const char* maker) {
  return request.request_kind == kind ? MPI_SUCCESS : fail(MPI_ERR_REQUEST, "request was not made by %s", maker);
}
int check_sender(const pml::Request& request) { return check_kind(request, pml::RequestKind::partitioned_send, "MPI_Psend_init"); }

/// `name` says which argument: "partition"; of a list also `index`.
int check_partition(const pml::Request& request, const char* name, int partition, int index = -1) {
  const int partitions = pml::partitions_of(request);
  if (partition >= 0 && partition < partitions) [[likely]]
    return MPI_SUCCESS;
  const std::string where = index < 0 ? name : std::string(name) + "[" + std::to_string(index) + "]";
  return fail(MPI_ERR_ARG, "%s is %d, but the partitions are 0..%d", where.c_str(), partition, partitions - 1);
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
  int error = check_sender(request);
  if (!error) error = check_partition(request, "partition_low", partition_low);
  if (!error) error = check_partition(request, "partition_high", partition_high);
  return answer(request, error ? error : pml::partitions_ready(request, partition_low, partition_high));
}

int Pready(int partition, pml::Request& request) {
  int error = check_sender(request);
  if (!error) error = check_partition(request, "partition", partition);
  return answer(request, error ? error : pml::partitions_ready(request, partition, partition));
}

/// All of the list is looked at before any of it is sent.
int Pready_list(int length, const int* array_of_partitions, pml::Request& request) {
  int error = check_sender(request);
  for (int i = 0; i < length && !error; ++i) error = check_partition(request, "array_of_partitions", array_of_partitions[i], i);
  for (int i = 0; i < length && !error; ++i) error = pml::partitions_ready(request, array_of_partitions[i], array_of_partitions[i]);
  return answer(request, error);
}

int Parrived(pml::Request& request, int partition, int* flag) {
  bool arrived = false;
  int error = check_kind(request, pml::RequestKind::partitioned_receive, "MPI_Precv_init");
  if (!error) error = check_partition(request, "partition", partition);
  if (!error) error = pml::partition_arrived(request, partition, arrived);
  *flag = arrived;
  return answer(request, error);
}

}  // namespace weft::body
