// Making communicators (MPI 5.0, 7.4.2). Each function is collective as the standard says and returns an MPI error class.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/comm.h"
#include "comm/group.h"

namespace weft::comm {

/// A communicator over `members` with an agreed context; inherits error handler from `like` (fatal if null). Local. With a `remote`
/// group: an inter-communicator.
Communicator* make_communicator(Instance&, pml::Context, std::shared_ptr<const pml::Members>, uint32_t rank, const Communicator* like,
                                std::shared_ptr<const pml::Members> remote = nullptr);

/// MPI_Comm_dup, MPI_Comm_dup_with_info: copies attributes; `info` replaces the hints (may be null).
int dup(Communicator&, const Info* info, Communicator** made);
/// MPI_Comm_idup(_with_info): `*made` may be used once the request is complete.
int idup(Communicator&, const Info* info, Communicator** made, pml::Request** request);
/// MPI_Comm_split: `*made` is null for color MPI_UNDEFINED, and on an inter-communicator where the other group has nobody of the color.
int split(Communicator&, int color, int key, Communicator** made);
/// MPI_Comm_split_type. Hardware-guided splits know the names of `hardware_resources`; resource-guided ones also mpi://WORLD and
/// mpi://SELF as mpi_pset_name; unguided ones go to the first level, from the host down, at which the ranks (of both groups) are not all
/// together, and name it in `info`.
int split_type(Communicator&, int split_type, int key, Info* info, Communicator** made);
/// Process sets that there always are. The last one: the processes of the own host. Asked for, they are found in any case of letters, as
/// they are by Open MPI and MPICH, whose users have both in their programs.
inline constexpr std::string_view kWorldSet = "mpi://WORLD", kSelfSet = "mpi://SELF", kHostSet = "mpix://SHARED";
/// MPI_Get_hw_resource_info (MPI 5.0, 11.1.2): the types of resource, and whether the calling thread is bound to one instance.
/// "hwloc://Package" and so on where our launcher described the node; else the host alone, "mpi_shared_memory".
std::vector<std::pair<std::string, bool>> hardware_resources(const boot::Job&);
/// MPI_Comm_create: `*made` is null in processes outside `group`, and on an inter-communicator if the other group's is empty.
int create(Communicator&, const Group& group, Communicator** made);
/// MPI_Comm_create_group: collective over `group` only.
int create_group(Communicator&, const Group& group, int tag, Communicator** made);
/// MPI_Comm_create_from_group: needs no communicator; `stringtag` tells concurrent calls apart.
int create_from_group(const Group& group, std::string_view stringtag, const Info* info, Errhandler& errhandler, Communicator** made);

/// MPI_IDENT, MPI_CONGRUENT, MPI_SIMILAR or MPI_UNEQUAL.
int compare(const Communicator&, const Communicator&);

/// MPI_Comm_free / MPI_Comm_disconnect: runs the delete callbacks and drops the user's reference.
int free(Communicator&);

/// Rank `root` of the united groups (intra-communicators: rank `root`) sends all others `bytes` bytes.
int broadcast_united(Communicator&, void* data, uint64_t bytes, int root);

/// What the new communicator inherits by MPI_Comm_dup: attributes by their callbacks.
int copy_attributes(const Communicator& from, Communicator& to);

}  // namespace weft::comm
