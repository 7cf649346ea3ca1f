// Communicators (MPI 5.0, 7.4).
#include <cstring>
#include <string>
#include <string_view>

#include "api/buffers.h"
#include "api/generated/bodies.h"
#include "api/handles.h"
#include "comm/create.h"
#include "comm/hints.h"
#include "comm/inter.h"
#include "runtime/base/error.h"

namespace weft::body {

using namespace api;

namespace {

/// Hands out what a constructor made.
int give(int error, comm::Communicator* made, MPI_Comm* handle) {
  *handle = error ? MPI_COMM_NULL : encode(made);
  return error;
}

int check_subset(const comm::Communicator& comm, const comm::Group& group) {
  std::vector<int> ranks(static_cast<size_t>(group.size())), there(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
  comm::Group* whole = comm::make_group(*comm.instance, comm.team->share_members());
  comm::translate(group, ranks, *whole, there.data());
  release(whole);
  for (size_t i = 0; i < there.size(); ++i)
    if (there[i] == MPI_UNDEFINED)
      return fail(MPI_ERR_GROUP, "group: its rank %zu is not in the communicator; the group must be a subset", i);
  return MPI_SUCCESS;
}

int no_remote_group() {
  return fail(MPI_ERR_COMM, "comm is an intra-communicator and has no remote group; MPI_Comm_test_inter tells them apart");
}

bool in_group(int rank, int size) { return rank >= 0 && rank < size; }

int no_leader(const char* name, int rank, const char* where, int size) {
  return fail(MPI_ERR_RANK, "%s is %d, but the ranks of %s are 0..%d", name, rank, where, size - 1);
}

/// The other group's leader, by the arguments of our leader.
int find_leader(MPI_Comm peer_comm, int rank, comm::RemoteLeader& there) {
  const comm::Communicator* peer = decode(peer_comm);
  if (!peer) return fail(MPI_ERR_COMM, "peer_comm is no valid communicator in the local leader");
  const auto size = static_cast<int>(peer->team->remote_size());
  if (!in_group(rank, size)) return no_leader("remote_leader", rank, "peer_comm", size);
  there = {peer->team, rank};
  return MPI_SUCCESS;
}

}  // namespace

int Comm_size(comm::Communicator& comm, int* size) {
  *size = comm.size();
  return MPI_SUCCESS;
}

int Comm_rank(comm::Communicator& comm, int* rank) {
  *rank = comm.rank();
  return MPI_SUCCESS;
}

int Comm_compare(comm::Communicator& comm1, comm::Communicator& comm2, int* result) {
  *result = comm::compare(comm1, comm2);
  return MPI_SUCCESS;
}

int Comm_group(comm::Communicator& comm, MPI_Group* group) {
  *group = encode(comm::make_group(*comm.instance, comm.team->share_members(), comm.session));
  return MPI_SUCCESS;
}

int Comm_test_inter(comm::Communicator& comm, int* flag) {
  *flag = comm.team->inter();
  return MPI_SUCCESS;
}

int Comm_remote_size(comm::Communicator& comm, int* size) {
  if (!comm.team->inter()) return no_remote_group();
  *size = static_cast<int>(comm.team->remote_size());
  return MPI_SUCCESS;
}

int Comm_remote_group(comm::Communicator& comm, MPI_Group* group) {
  if (!comm.team->inter()) return no_remote_group();
  *group = encode(comm::make_group(*comm.instance, comm.team->share_remote_members(), comm.session));
  return MPI_SUCCESS;
}

int Comm_dup_with_info(comm::Communicator& comm, comm::Info* info, MPI_Comm* newcomm) {
  comm::Communicator* made = nullptr;
  const int error = comm::dup(comm, info, &made);
  return give(error, made, newcomm);
}

int Comm_dup(comm::Communicator& comm, MPI_Comm* newcomm) { return Comm_dup_with_info(comm, nullptr, newcomm); }

int Comm_idup_with_info(comm::Communicator& comm, comm::Info* info, MPI_Comm* newcomm, MPI_Request* request) {
  comm::Communicator* made = nullptr;
  pml::Request* running = nullptr;
  const int error = comm::idup(comm, info, &made, &running);
  *request = error ? MPI_REQUEST_NULL : encode(running);
  if (!error) {
    // What runs uses the communicator, which the user may free at once.
    running->team_owner = retain(&comm);
    running->drop_owner = [](void* owner) { release(static_cast<comm::Communicator*>(owner)); };
    running->lane->look_after(*running);
  }
  return give(error, made, newcomm);
}

int Comm_idup(comm::Communicator& comm, MPI_Comm* newcomm, MPI_Request* request) {
  return Comm_idup_with_info(comm, nullptr, newcomm, request);
}

int Comm_split(comm::Communicator& comm, int color, int key, MPI_Comm* newcomm) {
  comm::Communicator* made = nullptr;
  const int error = comm::split(comm, color, key, &made);
  return give(error, made, newcomm);
}

int Comm_split_type(comm::Communicator& comm, int split_type, int key, comm::Info* info, MPI_Comm* newcomm) {
  comm::Communicator* made = nullptr;
  const int error = comm::split_type(comm, split_type, key, info, &made);
  return give(error, made, newcomm);
}

int Comm_create(comm::Communicator& comm, comm::Group& group, MPI_Comm* newcomm) {
  if (const int error = check_subset(comm, group)) return error;
  comm::Communicator* made = nullptr;
  const int error = comm::create(comm, group, &made);
  return give(error, made, newcomm);
}

int Comm_create_group(comm::Communicator& comm, comm::Group& group, int tag, MPI_Comm* newcomm) {
  if (comm.team->inter()) return fail(MPI_ERR_COMM, "comm is an inter-communicator, of which only MPI_Comm_create makes a part");
  if (const int error = check_subset(comm, group)) return error;
  comm::Communicator* made = nullptr;
  const int error = comm::create_group(comm, group, tag, &made);
  return give(error, made, newcomm);
}

int Comm_create_from_group(comm::Group& group, const char* stringtag, comm::Info* info, comm::Errhandler& errhandler, MPI_Comm* newcomm) {
  if (group.size() == 0) {
    *newcomm = MPI_COMM_NULL;
    return MPI_SUCCESS;
  }
  if (group.rank == MPI_UNDEFINED) return fail(MPI_ERR_GROUP, "group: this process is not in it; only members may call");
  comm::Communicator* made = nullptr;
  const int error = comm::create_from_group(group, stringtag, info, errhandler, &made);
  return give(error, made, newcomm);
}

int Intercomm_create(comm::Communicator& local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int tag,
                     MPI_Comm* newintercomm) {
  if (local_comm.team->inter()) return fail(MPI_ERR_COMM, "local_comm is an inter-communicator; it must have one group");
  if (!in_group(local_leader, local_comm.size())) return no_leader("local_leader", local_leader, "local_comm", local_comm.size());
  comm::RemoteLeader there;
  int mistake = MPI_SUCCESS;
  if (local_comm.rank() == local_leader) mistake = find_leader(peer_comm, remote_leader, there);
  const std::string why(last_failure());
  comm::Communicator* made = nullptr;
  const int error = comm::create_inter(local_comm, local_leader, there, tag, &made);
  if (mistake) return fail(mistake, "%s", why.c_str());
  return give(error, made, newintercomm);
}

int Intercomm_create_from_groups(comm::Group& local_group, int local_leader, MPI_Group remote_group, int remote_leader,
                                 const char* stringtag, comm::Info* info, comm::Errhandler& errhandler, MPI_Comm* newintercomm) {
  if (local_group.size() == 0) {
    *newintercomm = MPI_COMM_NULL;
    return MPI_SUCCESS;
  }
  if (local_group.rank == MPI_UNDEFINED) return fail(MPI_ERR_GROUP, "local_group: this process is not in it; only members may call");
  if (!in_group(local_leader, local_group.size())) return no_leader("local_leader", local_leader, "local_group", local_group.size());
  const comm::Group* remote = nullptr;
  int mistake = MPI_SUCCESS;
  if (local_group.rank == local_leader) {
    remote = decode(remote_group);
    if (!remote || remote->size() == 0)
      mistake = fail(MPI_ERR_GROUP, "remote_group is no group or has no members");
    else if (!in_group(remote_leader, remote->size()))
      mistake = no_leader("remote_leader", remote_leader, "remote_group", remote->size());
  }
  const std::string why(last_failure());
  comm::Communicator* made = nullptr;
  const int error = comm::create_inter_from_groups(local_group, local_leader, mistake ? nullptr : remote, remote_leader, stringtag, info,
                                                   errhandler, &made);
  if (mistake) return fail(mistake, "%s", why.c_str());
  return give(error, made, newintercomm);
}

int Intercomm_merge(comm::Communicator& intercomm, int high, MPI_Comm* newintracomm) {
  if (!intercomm.team->inter()) return fail(MPI_ERR_COMM, "intercomm is an intra-communicator; there is nothing to merge");
  comm::Communicator* made = nullptr;
  const int error = comm::merge(intercomm, high != 0, &made);
  return give(error, made, newintracomm);
}

int Comm_free(MPI_Comm* comm) {
  comm::Communicator& freed = *decode(*comm);
  const pml::Context context = freed.team->context();
  if (const int error = comm::free(freed)) return error;
  drop_comm_buffer(context);
  *comm = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

int Comm_set_name(comm::Communicator& comm, const char* comm_name) {
  comm.name.assign(comm_name, strnlen(comm_name, MPI_MAX_OBJECT_NAME - 1));
  return MPI_SUCCESS;
}

int Comm_get_name(comm::Communicator* comm, char* comm_name, int* resultlen) {
  const std::string_view name = comm ? std::string_view(comm->name) : "MPI_COMM_NULL";
  *resultlen = static_cast<int>(name.copy(comm_name, MPI_MAX_OBJECT_NAME - 1));
  comm_name[*resultlen] = 0;
  return MPI_SUCCESS;
}

int Comm_set_info(comm::Communicator& comm, comm::Info* info) {
  comm::set_hints(comm, info);
  return MPI_SUCCESS;
}

int Comm_get_info(comm::Communicator& comm, MPI_Info* info_used) {
  *info_used = encode(comm::hints_in_use(comm));
  return MPI_SUCCESS;
}

}  // namespace weft::body
