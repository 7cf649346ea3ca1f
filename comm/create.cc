#include "comm/create.h"

#include <algorithm>

#include "comm/context.h"
#include "comm/hints.h"
#include "comm/topology/topology.h"
#include "runtime/base/error.h"
#include "runtime/type/predefined.h"

namespace weft::comm {
namespace {

Pool<Communicator>& pool() {
  static auto* communicators = new Pool<Communicator>;
  return *communicators;
}

void adopt_team(Communicator& comm, std::unique_ptr<pml::Team> team) {
  comm.owned_team = std::move(team);
  comm.team = comm.owned_team.get();
  comm.coll = coll::attach(*comm.team, comm.instance->ledger());
}

Communicator* make_without_team(Instance& instance, const Communicator* like) {
  Communicator* made = pool().make();
  made->instance = &instance;
  made->errhandler = retain(like ? like->errhandler : &errors_are_fatal());
  made->session = like ? like->session : 0;
  return made;
}

coll::Call broadcast_bytes(void* data, uint64_t bytes, int root = 0) {
  coll::Call call;
  call.what = coll::Collective::bcast;
  call.united = true;
  call.root = root;
  call.out = data;
  call.out_count = bytes;
  call.out_type = &type::of(type::Basic::byte);
  call.in = data;
  call.in_count = bytes;
  call.in_type = &type::of(type::Basic::byte);
  return call;
}

/// What a rank tells the others in a split.
struct Ballot {
  int32_t color, key;
  pml::Context proposal;
};

/// All members of the communicator by rank; on an inter-communicator the groups stand as where they are united.
uint32_t total_size(const pml::Team& team) { return team.inter() ? team.size() + team.remote_size() : team.size(); }
uint32_t total_rank(const pml::Team& team) { return team.inter() ? team.united_rank() : team.rank(); }

int gather_ballots(Communicator& comm, const Ballot& mine, std::vector<Ballot>& all) {
  all.resize(total_size(*comm.team));
  coll::Call call;
  call.what = coll::Collective::allgather;
  call.united = true;
  call.in = &mine;
  call.out = all.data();
  call.in_count = call.out_count = sizeof(Ballot);
  call.in_type = call.out_type = &type::of(type::Basic::byte);
  return coll::run(*comm.coll, call);
}

/// State of a nonblocking dup until the context id has come.
struct PendingDup {
  pml::Context context = 0;
  Communicator* made;
  std::shared_ptr<const pml::Members> members, remote;
  uint32_t rank;
};

std::shared_ptr<const pml::Members> remote_group(const pml::Team& team) { return team.inter() ? team.share_remote_members() : nullptr; }

/// Ranks of a group, which begins at `first` of all ballots, that voted for a color, in the order of their keys.
std::vector<uint32_t> voters(const std::vector<Ballot>& ballots, uint32_t first, uint32_t size, int color) {
  std::vector<uint32_t> order;
  for (uint32_t rank = 0; rank < size; ++rank)
    if (ballots[first + rank].color == color) order.push_back(rank);
  std::ranges::stable_sort(order, {}, [&](uint32_t rank) { return ballots[first + rank].key; });
  return order;
}

std::shared_ptr<const pml::Members> pick(const pml::Members& group, const std::vector<uint32_t>& ranks) {
  std::vector<ProcessId> members;
  for (uint32_t rank : ranks) members.push_back(group.at(rank));
  return std::make_shared<const pml::Members>(pml::Members::list(std::move(members)));
}

void finish_dup(pml::Request& request) {
  std::unique_ptr<PendingDup> pending(static_cast<PendingDup*>(request.context));
  request.context = nullptr;
  pml::Lane& lane = pending->made->instance->lanes().at(pending->context);  // its lock is not taken: request.lane's is
  adopt_team(*pending->made, std::make_unique<pml::Team>(lane, pending->context, pending->members, pending->rank, pending->remote));
  if (pending->made->topology) attach_topology(*pending->made, pending->made->topology);
  apply_hints(*pending->made);
}

/// A communicator over a part of another one; `name`: of the agreement on it.
int create_named(Communicator& comm, const Group& group, std::string_view name, Communicator** made) {
  *made = nullptr;
  if (group.rank == MPI_UNDEFINED) return MPI_SUCCESS;
  pml::Context context = 0;
  const auto rank = static_cast<uint32_t>(group.rank);
  const Status status = agree_on_context(comm.instance->mailbox(), *comm.team, *group.members, rank, name, context);
  if (status != Status::ok) return fail(status);
  *made = make_communicator(*comm.instance, context, group.members, rank, &comm);
  return MPI_SUCCESS;
}

}  // namespace

void Communicator::destroy(Communicator* comm) {
  release(comm->errhandler);
  pool().destroy(comm);
}

Communicator* make_communicator(Instance& instance, pml::Context context, std::shared_ptr<const pml::Members> members, uint32_t rank,
                                const Communicator* like, std::shared_ptr<const pml::Members> remote) {
  Communicator* made = make_without_team(instance, like);
  auto team = std::make_unique<pml::Team>(instance.lanes().at(context), context, std::move(members), rank, std::move(remote));
  adopt_team(*made, std::move(team));
  return made;
}

int copy_attributes(const Communicator& from, Communicator& to) {
  const int error = from.attributes.copy_to(handle_of(from), to.attributes);
  if (error) fail(error, "a copy callback of an attribute returned error %d", error);
  return error;
}

int broadcast_united(Communicator& comm, void* data, uint64_t bytes, int root) {
  return coll::run(*comm.coll, broadcast_bytes(data, bytes, root));
}

int dup(Communicator& comm, const Info* info, Communicator** made) {
  const pml::Team& team = *comm.team;
  pml::Context context = total_rank(team) == 0 ? comm.lane().new_context(team.context(), wanted_lane(info)) : 0;
  if (const int error = broadcast_united(comm, &context, sizeof context, 0)) return error;
  Communicator* copy = make_communicator(*comm.instance, context, team.share_members(), team.rank(), &comm, remote_group(team));
  if (comm.topology) attach_topology(*copy, comm.topology);
  set_hints(*copy, info);
  copy->hints.lane = wanted_lane(info);
  if (const int error = copy_attributes(comm, *copy)) {
    release(copy);
    return error;
  }
  *made = copy;
  return MPI_SUCCESS;
}

int idup(Communicator& comm, const Info* info, Communicator** made, pml::Request** request) {
  const pml::Team& team = *comm.team;
  Communicator* copy = make_without_team(*comm.instance, &comm);
  copy->topology = comm.topology;  // attached once there is a team
  set_hints(*copy, info);
  copy->hints.lane = wanted_lane(info);
  if (const int error = copy_attributes(comm, *copy)) {
    release(copy);
    return error;
  }
  auto pending = std::make_unique<PendingDup>(PendingDup{0, copy, team.share_members(), remote_group(team), team.rank()});
  if (total_rank(team) == 0) pending->context = comm.lane().new_context(team.context(), wanted_lane(info));
  if (const int error = coll::start(*comm.coll, broadcast_bytes(&pending->context, sizeof pending->context), request)) {
    release(copy);
    return error;
  }
  pml::Request& running = **request;
  running.context = pending.release();
  comm.lane().locked([&] {
    if (running.complete.load(std::memory_order_acquire))
      finish_dup(running);
    else
      running.on_done = finish_dup;
  });
  *made = copy;
  return MPI_SUCCESS;
}

int split(Communicator& comm, int color, int key, Communicator** made) {
  *made = nullptr;
  std::vector<Ballot> ballots;
  const pml::Context proposal = color == MPI_UNDEFINED ? 0 : comm.lane().new_context(comm.team->context());
  if (const int error = gather_ballots(comm, {color, key, proposal}, ballots)) return error;
  if (color == MPI_UNDEFINED) return MPI_SUCCESS;

  const pml::Team& team = *comm.team;
  const uint32_t own_first = total_rank(team) - team.rank();
  const std::vector<uint32_t> own = voters(ballots, own_first, team.size(), color);
  const auto mine = static_cast<uint32_t>(std::ranges::find(own, team.rank()) - own.begin());
  auto members = pick(team.members(), own);
  if (!team.inter()) {
    *made = make_communicator(*comm.instance, ballots[own[0]].proposal, std::move(members), mine, &comm);
    return MPI_SUCCESS;
  }
  const uint32_t other_first = own_first == 0 ? team.size() : 0;
  const std::vector<uint32_t> other = voters(ballots, other_first, team.remote_size(), color);
  if (other.empty()) return MPI_SUCCESS;
  const Ballot& decides = ballots[own_first == 0 ? own[0] : other[0]];
  *made = make_communicator(*comm.instance, decides.proposal, std::move(members), mine, &comm, pick(team.remote_members(), other));
  return MPI_SUCCESS;
}

int create_group(Communicator& comm, const Group& group, int tag, Communicator** made) {
  return create_named(comm, group, agreement_name("group", tag), made);
}

int create(Communicator& comm, const Group& group, Communicator** made) {
  if (comm.team->inter()) return split(comm, group.rank == MPI_UNDEFINED ? MPI_UNDEFINED : 0, group.rank, made);
  return create_named(comm, group, "create", made);  // both may run on one communicator at once
}

int create_from_group(const Group& group, std::string_view stringtag, const Info* info, Errhandler& errhandler, Communicator** made) {
  *made = nullptr;
  pml::Context context = 0;
  const auto rank = static_cast<uint32_t>(group.rank);
  Instance& instance = *group.instance;
  const std::string name = agreement_name("from group", stringtag);
  const Status status = agree_without(group, name, context, wanted_lane(info));
  if (status != Status::ok) return fail(status);
  *made = make_communicator(instance, context, group.members, rank, nullptr);
  (*made)->errhandler = retain(&errhandler);
  (*made)->session = group.session;
  set_hints(**made, info);
  (*made)->hints.lane = wanted_lane(info);
  return MPI_SUCCESS;
}

int compare(const Communicator& a, const Communicator& b) {
  if (&a == &b) return MPI_IDENT;
  if (a.team->inter() != b.team->inter()) return MPI_UNEQUAL;
  int groups = compare(a.team->members(), b.team->members());
  // From the closest to the loosest the results are increasing numbers.
  if (a.team->inter()) groups = std::max(groups, compare(a.team->remote_members(), b.team->remote_members()));
  return groups == MPI_IDENT ? MPI_CONGRUENT : groups;
}

int free(Communicator& comm) {
  if (const int error = comm.attributes.clear(handle_of(comm)))
    return fail(error, "a delete callback of an attribute returned error %d", error);
  comm.user_freed = true;
  release(&comm);
  return MPI_SUCCESS;
}

}  // namespace weft::comm
