// Inter-communicators (MPI 5.0, 7.6): two disjoint groups, whose processes talk to those of the other one.
#pragma once

#include <string_view>

#include "comm/comm.h"

namespace weft::comm {

/// Where the leader of the other group is reached. Looked at in the own leader only; `team` null: the leader's arguments were bad,
/// which its group hears of.
struct RemoteLeader {
  pml::Team* team = nullptr;
  int rank = 0;  ///< in it
};

/// MPI_Intercomm_create: collective over `local`, whose rank `leader` talks to the other group's. Arguments are checked but for the
/// groups, which must not overlap.
int create_inter(Communicator& local, int leader, RemoteLeader, int tag, Communicator** made);
/// MPI_Intercomm_create_from_groups: collective over `local`; `remote` and its rank `remote_leader` matter in the leader only, where a
/// null `remote` says that the arguments were bad.
int create_inter_from_groups(const Group& local, int leader, const Group* remote, int remote_leader, std::string_view stringtag,
                             const Info* info, Errhandler&, Communicator** made);
/// MPI_Intercomm_merge: the group with `high` comes last.
int merge(Communicator&, bool high, Communicator** made);

}  // namespace weft::comm
