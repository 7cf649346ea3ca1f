#include "comm/create.h"

#include <algorithm>

#include "comm/context.h"
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
  comm.coll = coll::attach(*comm.team);
}

Communicator* make_without_team(Instance& instance, const Communicator* like) {
  Communicator* made = pool().make();
  made->instance = &instance;
  made->errhandler = retain(like ? like->errhandler : &errors_are_fatal());
  return made;
}

coll::Call broadcast_bytes(void* data, uint64_t bytes) {
  coll::Call call;
  call.what = coll::Collective::bcast;
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

int gather_ballots(Communicator& comm, const Ballot& mine, std::vector<Ballot>& all) {
  all.resize(static_cast<size_t>(comm.size()));
  coll::Call call;
  call.what = coll::Collective::allgather;
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
  std::shared_ptr<const pml::Members> members;
  uint32_t rank;
};

void finish_dup(pml::Request& request) {
  std::unique_ptr<PendingDup> pending(static_cast<PendingDup*>(request.context));
  request.context = nullptr;
  adopt_team(*pending->made, std::make_unique<pml::Team>(*request.lane, pending->context, pending->members, pending->rank));
  if (pending->made->topology) attach_topology(*pending->made, pending->made->topology);
}

}  // namespace

void set_info(Communicator& comm, const Info* info) {
  if (!info) return;
  comm.info = Info::make();
  comm.info->entries = info->entries;
}

void Communicator::destroy(Communicator* comm) {
  release(comm->errhandler);
  release(comm->info);
  pool().destroy(comm);
}

Communicator* make_communicator(Instance& instance, pml::Context context, std::shared_ptr<const pml::Members> members, uint32_t rank,
                                const Communicator* like) {
  Communicator* made = make_without_team(instance, like);
  adopt_team(*made, std::make_unique<pml::Team>(instance.lane(), context, std::move(members), rank));
  return made;
}

int copy_attributes(const Communicator& from, Communicator& to) {
  const int error = from.attributes.copy_to(handle_of(from), to.attributes);
  if (error) fail(error, "a copy callback of an attribute returned error %d", error);
  return error;
}

int dup(Communicator& comm, const Info* info, Communicator** made) {
  pml::Context context = comm.rank() == 0 ? comm.lane().new_context() : 0;
  if (const int error = coll::run(*comm.coll, broadcast_bytes(&context, sizeof context))) return error;
  Communicator* copy = make_communicator(*comm.instance, context, comm.team->share_members(), comm.team->rank(), &comm);
  if (comm.topology) attach_topology(*copy, comm.topology);
  set_info(*copy, info);
  if (const int error = copy_attributes(comm, *copy)) {
    release(copy);
    return error;
  }
  *made = copy;
  return MPI_SUCCESS;
}

int idup(Communicator& comm, const Info* info, Communicator** made, pml::Request** request) {
  Communicator* copy = make_without_team(*comm.instance, &comm);
  copy->topology = comm.topology;  // attached once there is a team
  set_info(*copy, info);
  if (const int error = copy_attributes(comm, *copy)) {
    release(copy);
    return error;
  }
  auto pending = std::make_unique<PendingDup>(PendingDup{0, copy, comm.team->share_members(), comm.team->rank()});
  if (comm.rank() == 0) pending->context = comm.lane().new_context();
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
  const pml::Context proposal = color == MPI_UNDEFINED ? 0 : comm.lane().new_context();
  if (const int error = gather_ballots(comm, {color, key, proposal}, ballots)) return error;
  if (color == MPI_UNDEFINED) return MPI_SUCCESS;

  std::vector<uint32_t> order;
  for (uint32_t rank = 0; rank < ballots.size(); ++rank)
    if (ballots[rank].color == color) order.push_back(rank);
  std::ranges::stable_sort(order, {}, [&](uint32_t rank) { return ballots[rank].key; });

  std::vector<ProcessId> members;
  for (uint32_t rank : order) members.push_back(comm.team->members().at(rank));
  const auto mine = static_cast<uint32_t>(std::ranges::find(order, comm.team->rank()) - order.begin());
  *made = make_communicator(*comm.instance, ballots[order[0]].proposal,
                            std::make_shared<pml::Members>(pml::Members::list(std::move(members))), mine, &comm);
  return MPI_SUCCESS;
}

int create_group(Communicator& comm, const Group& group, int tag, Communicator** made) {
  *made = nullptr;
  if (group.rank == MPI_UNDEFINED) return MPI_SUCCESS;
  pml::Context context = 0;
  const auto rank = static_cast<uint32_t>(group.rank);
  const Status status = agree_on_context(*comm.team, *group.members, rank, agreement_tag(tag), context);
  if (status != Status::ok) return fail(status);
  *made = make_communicator(*comm.instance, context, group.members, rank, &comm);
  return MPI_SUCCESS;
}

int create(Communicator& comm, const Group& group, Communicator** made) {
  // A tag that no MPI_Comm_create_group can have (user tags end below), so that both may run on one communicator.
  constexpr int tag_of_create = 0x3fffffff;
  return create_group(comm, group, tag_of_create, made);
}

int create_from_group(const Group& group, std::string_view stringtag, const Info* info, Errhandler& errhandler, Communicator** made) {
  *made = nullptr;
  pml::Context context = 0;
  const auto rank = static_cast<uint32_t>(group.rank);
  const int tag = agreement_tag(static_cast<int>(std::hash<std::string_view>{}(stringtag)&0x3fffffff));
  const Status status = agree_on_context(group.instance->carrier(), *group.members, rank, tag, context);
  if (status != Status::ok) return fail(status);
  *made = make_communicator(*group.instance, context, group.members, rank, nullptr);
  (*made)->errhandler = retain(&errhandler);
  set_info(**made, info);
  return MPI_SUCCESS;
}

int compare(const Communicator& a, const Communicator& b) {
  if (&a == &b) return MPI_IDENT;
  const int groups = compare(a.team->members(), b.team->members());
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
