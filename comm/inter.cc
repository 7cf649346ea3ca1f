#include "comm/inter.h"

#include <vector>

#include "comm/context.h"
#include "comm/create.h"
#include "comm/hints.h"
#include "runtime/base/error.h"
#include "runtime/type/predefined.h"

namespace weft::comm {
namespace {

/// What a leader tells the other one and, once they agree, its group; the members of the other group follow.
struct Greeting {
  pml::Context context = 0;
  uint32_t members = 0;
  int32_t error = MPI_SUCCESS;
};

pml::Buffer bytes(const void* data, size_t size) { return {const_cast<void*>(data), size, &type::of(type::Basic::byte)}; }

/// The tag in Traffic::agreement for what follows a leader's proposal: no letter has it.
int tag_after(pml::Context proposal) { return kLetterTag + 1 + static_cast<int>(proposal >> 3 & 0x1ffffff); }

/// Both leaders send and receive.
Status exchange_greetings(Mailbox& mailbox, const RemoteLeader& remote, std::string_view name, const Greeting& mine, Greeting& theirs) {
  pml::Lane& lane = remote.team->lane();
  const Letter letter = write_letter(name, &mine, sizeof mine);
  pml::Request* leaving = lane.isend(*remote.team, remote.rank, kLetterTag, pml::Traffic::agreement, sealed(letter));
  Status status = mailbox.receive(*remote.team, remote.rank, name, &theirs, sizeof theirs);
  if (status != Status::ok) lane.cancel(*leaving);
  const Status sent = lane.wait(*leaving);
  if (status == Status::ok) status = sent;
  release(leaving);
  return status;
}

Status exchange_members(const RemoteLeader& remote, const Greeting& mine, const Greeting& theirs, pml::Buffer out, pml::Buffer in) {
  pml::Lane& lane = remote.team->lane();
  pml::Request* arriving = lane.ireceive(*remote.team, remote.rank, tag_after(theirs.context), pml::Traffic::agreement, in);
  Status status = lane.send(*remote.team, remote.rank, tag_after(mine.context), pml::Traffic::agreement, out);
  if (status != Status::ok) lane.cancel(*arriving);
  const Status arrived = lane.wait(*arriving);
  if (status == Status::ok) status = arrived;
  if (status == Status::ok && arriving->outcome.error) status = Status::peer_failed;
  release(arriving);
  return status;
}

std::vector<ProcessId> list(const pml::Members& group) {
  std::vector<ProcessId> ids;
  for (uint32_t rank = 0; rank < group.size(); ++rank) ids.push_back(group.at(rank));
  return ids;
}

/// One side of the agreement: who it is, and what it knows once it agrees.
struct Side {
  Communicator& own;  ///< over the group
  uint32_t leader;
  std::string name;  ///< of the leaders' agreement
  Greeting agreed;
  std::vector<ProcessId> others;
};

/// Of the leader. The group whose first process comes first gives the context.
Status meet(Side& side, const RemoteLeader& remote) {
  const pml::Team& team = *side.own.team;
  const Greeting mine{team.lane().new_context(team.context()), team.size(), MPI_SUCCESS};
  Greeting theirs;
  if (const Status s = exchange_greetings(side.own.instance->mailbox(), remote, side.name, mine, theirs); s != Status::ok) return s;
  const std::vector<ProcessId> own = list(team.members());
  side.others.resize(theirs.members);
  const size_t out = own.size() * sizeof own[0], in = side.others.size() * sizeof own[0];
  if (const Status s = exchange_members(remote, mine, theirs, bytes(own.data(), out), bytes(side.others.data(), in)); s != Status::ok)
    return s;
  side.agreed = {own[0] < side.others[0] ? mine.context : theirs.context, theirs.members, MPI_SUCCESS};
  return Status::ok;
}

int tell_group(Side& side) {
  const auto tell = [&](void* data, size_t size) { return broadcast_united(side.own, data, size, static_cast<int>(side.leader)); };
  if (const int error = tell(&side.agreed, sizeof side.agreed); error || side.agreed.error) return error;
  side.others.resize(side.agreed.members);
  return tell(side.others.data(), side.others.size() * sizeof(ProcessId));
}

/// Whatever fails in the leader, or has (`status`), its group hears of it.
int agree(Side& side, const RemoteLeader& remote, Status status = Status::ok) {
  if (side.own.team->rank() == side.leader) {
    if (remote.team && status == Status::ok) status = meet(side, remote);
    if (!remote.team) side.agreed.error = MPI_ERR_ARG;
    if (status != Status::ok) side.agreed.error = MPI_ERR_OTHER;
  }
  const int error = tell_group(side);
  if (status != Status::ok) return fail(status);
  if (error) return error;
  if (!side.agreed.error) return MPI_SUCCESS;
  return fail(side.agreed.error, "the local leader (rank %u) could not reach the other group, or its arguments were bad", side.leader);
}

/// The last step: what both sides know becomes a communicator, unless a process is in both groups.
int make(Side& side, const Communicator* like, int overlap_class, Communicator** made) {
  Instance& instance = *side.own.instance;
  auto group = side.own.team->share_members();
  auto remote = std::make_shared<const pml::Members>(pml::Members::list(std::move(side.others)));
  Group* const own_group = make_group(instance, group);
  Group* const other_group = make_group(instance, remote);
  Group* const both = group_intersection(*own_group, *other_group);
  const int shared = both->size();
  for (Group* g : {own_group, other_group, both}) release(g);
  if (shared > 0) return fail(overlap_class, "the groups overlap: %d processes are in both, but they must be disjoint", shared);
  *made = make_communicator(instance, side.agreed.context, std::move(group), side.own.team->rank(), like, std::move(remote));
  return MPI_SUCCESS;
}

}  // namespace

int create_inter(Communicator& local, int leader, RemoteLeader remote, int tag, Communicator** made) {
  *made = nullptr;
  Side side{local, static_cast<uint32_t>(leader), agreement_name("inter", tag), {}, {}};
  if (const int error = agree(side, remote)) return error;
  return make(side, &local, MPI_ERR_COMM, made);
}

int create_inter_from_groups(const Group& local, int leader, const Group* remote, int remote_leader, std::string_view stringtag,
                             const Info* info, Errhandler& errhandler, Communicator** made) {
  *made = nullptr;
  Instance& instance = *local.instance;
  pml::Context context = 0;
  const auto rank = static_cast<uint32_t>(local.rank);
  const std::string own_name = agreement_name("side from group", stringtag);
  Status met = agree_without(local, own_name, context);
  if (met != Status::ok) return fail(met);
  RemoteLeader there;
  if (remote) {
    const ProcessId who = remote->members->at(static_cast<uint32_t>(remote_leader));
    pml::Team& carrier = local.session ? instance.session_carrier() : instance.carrier();
    there = {&carrier, static_cast<int>(carrier.members().find(who))};
    if (local.session) met = instance.await_sessions(who);
  }
  Communicator* const own = make_communicator(instance, context, local.members, rank, nullptr);
  Side side{*own, static_cast<uint32_t>(leader), agreement_name("inter from groups", stringtag), {}, {}};
  int error = agree(side, there, met);
  if (!error) error = make(side, nullptr, MPI_ERR_GROUP, made);
  release(own);
  if (error) return error;
  release((*made)->errhandler);
  (*made)->errhandler = retain(&errhandler);
  (*made)->session = local.session;
  set_hints(**made, info);
  return MPI_SUCCESS;
}

int merge(Communicator& inter, bool high, Communicator** made) {
  *made = nullptr;
  const pml::Team& team = *inter.team;
  const bool in_front = team.in_front();
  const auto front_size = static_cast<int>(in_front ? team.size() : team.remote_size());
  struct Wish {
    pml::Context context;
    int32_t high;
  } front{in_front && team.rank() == 0 ? inter.lane().new_context(team.context()) : 0, high}, back{0, high};
  if (const int error = broadcast_united(inter, &front, sizeof front, 0)) return error;
  if (const int error = broadcast_united(inter, &back, sizeof back, front_size)) return error;

  const bool front_first = !(front.high && !back.high);
  const bool own_first = front_first == in_front;
  std::vector<ProcessId> all = list(own_first ? team.members() : team.remote_members());
  for (const ProcessId& id : list(own_first ? team.remote_members() : team.members())) all.push_back(id);
  const uint32_t rank = own_first ? team.rank() : team.remote_size() + team.rank();
  *made = make_communicator(*inter.instance, front.context, std::make_shared<const pml::Members>(pml::Members::list(std::move(all))), rank,
                            &inter);
  return MPI_SUCCESS;
}

}  // namespace weft::comm
