#include "comms.h"

#include <algorithm>
#include <numeric>

namespace random_test {

namespace {

MPI_Session the_session = MPI_SESSION_NULL;
MPI_Group session_world = MPI_GROUP_NULL;  ///< all processes, as the session knows them

/// The communicator of a group of the parent's ranks, in their new order. Says who is in it; the handle comes later.
Comm model(const Comm& parent, const std::vector<int>& ranks, uint64_t id, const std::string& text) {
  Comm made;
  made.id = mix(parent.id, id);
  made.of_session = parent.of_session;
  made.text = text + "(" + parent.text + ")";
  made.owned = true;
  for (int r : ranks) made.members.push_back(parent.members[size_t(r)]);
  const auto me = std::find(ranks.begin(), ranks.end(), parent.rank);
  made.rank = int(me - ranks.begin());
  return made;
}

std::vector<int> everyone(const Comm& comm) {
  std::vector<int> ranks(comm.members.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Comm draw_dup(const Comm& parent, Rng& rng) {
  const int64_t how = rng.below(4);
  static const char* const names[] = {"dup", "idup", "dup_with_info", "idup_with_info"};
  Comm made = model(parent, everyone(parent), 1, names[how]);
  made.remote = parent.remote;
  made.side = parent.side;
  made.topology = parent.topology;
  made.ins = parent.ins;
  made.outs = parent.outs;
  if (how == 0) ok(MPI_Comm_dup(parent.handle, &made.handle));
  MPI_Info hints = MPI_INFO_NULL;
  if (how >= 2) {
    made.exact = rng.chance(60);
    ok(MPI_Info_create(&hints));
    for (const char* key : {"mpi_assert_no_any_tag", "mpi_assert_no_any_source", "mpi_assert_exact_length"})
      ok(MPI_Info_set(hints, key, made.exact ? "true" : "false"));
  }
  if (how == 2) ok(MPI_Comm_dup_with_info(parent.handle, hints, &made.handle));
  if (how == 1 || how == 3) {
    MPI_Request request;
    if (how == 1)
      ok(MPI_Comm_idup(parent.handle, &made.handle, &request));
    else
      ok(MPI_Comm_idup_with_info(parent.handle, hints, &made.handle, &request));
    ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
  if (hints != MPI_INFO_NULL) ok(MPI_Info_free(&hints));
  return made;
}

Comm draw_split(const Comm& parent, Rng& rng) {
  const int64_t colours = rng.between(1, 3);
  std::vector<int> colour, key;
  for (int i = 0; i < parent.size(); ++i) {
    colour.push_back(rng.chance(8) ? MPI_UNDEFINED : int(rng.below(colours)));
    key.push_back(int(rng.below(4)) - 2);
  }
  const int mine = colour[size_t(parent.rank)];
  std::vector<int> ranks;
  for (int i = 0; i < parent.size(); ++i) {
    if (colour[size_t(i)] == mine) ranks.push_back(i);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return key[size_t(a)] < key[size_t(b)]; });
  Comm made = model(parent, ranks, 10 + uint64_t(mine == MPI_UNDEFINED ? 9 : mine), "split");
  ok(MPI_Comm_split(parent.handle, mine, key[size_t(parent.rank)], &made.handle));
  same(made.in(), mine != MPI_UNDEFINED, "whether MPI_Comm_split makes this rank a member");
  return made;
}

/// A group in any order, made by inclusion of its members or exclusion of the others.
MPI_Group draw_group(const Comm& parent, Rng& rng, std::vector<int>& ranks) {
  ranks = everyone(parent);
  const bool ordered = rng.chance(40);
  rng.shuffle(ranks);
  ranks.resize(size_t(rng.between(1, parent.size())));
  if (ordered) std::sort(ranks.begin(), ranks.end());
  MPI_Group all, some;
  ok(MPI_Comm_group(parent.handle, &all));
  if (ordered && rng.chance(50)) {
    std::vector<int> others;
    std::vector<int> every = everyone(parent);
    std::set_difference(every.begin(), every.end(), ranks.begin(), ranks.end(), std::back_inserter(others));
    ok(MPI_Group_excl(all, int(others.size()), others.data(), &some));
  } else {
    ok(MPI_Group_incl(all, int(ranks.size()), ranks.data(), &some));
  }
  ok(MPI_Group_free(&all));
  return some;
}

Comm draw_create(const Comm& parent, Rng& rng) {
  std::vector<int> ranks;
  MPI_Group group = draw_group(parent, rng, ranks);
  const bool by_members = rng.chance(50);
  Comm made = model(parent, ranks, 30, by_members ? "create_group" : "create");
  const bool member = made.rank < made.size();
  if (!by_members)
    ok(MPI_Comm_create(parent.handle, group, &made.handle));
  else if (member)
    ok(MPI_Comm_create_group(parent.handle, group, 3, &made.handle));
  same(made.in(), member, "whether " + made.text + " makes this rank a member");
  ok(MPI_Group_free(&group));
  return made;
}

/// Without a parent: its members find each other by the group and a string.
Comm draw_from_group(const Comm& parent, Rng& rng) {
  std::vector<int> ranks = everyone(parent), processes;
  rng.shuffle(ranks);
  ranks.resize(size_t(rng.between(1, parent.size())));
  const std::string name = "random " + std::to_string(rng.next());
  Comm made = model(parent, ranks, 35, "create_from_group");
  made.of_session = true;
  if (made.rank == made.size()) return made;
  for (int r : ranks) processes.push_back(parent.members[size_t(r)]);
  MPI_Group group;
  ok(MPI_Group_incl(session_world, int(processes.size()), processes.data(), &group));
  ok(MPI_Comm_create_from_group(group, name.c_str(), MPI_INFO_NULL, MPI_ERRORS_RETURN, &made.handle));
  ok(MPI_Group_free(&group));
  return made;
}

/// Two groups of a communicator, each in order or shuffled. A rank in neither of them takes no part.
Comm draw_inter(const Comm& parent, Rng& rng) {
  std::vector<int> ranks = everyone(parent);
  const bool ordered = rng.chance(40);
  rng.shuffle(ranks);
  const size_t all = size_t(rng.between(2, parent.size())), first = size_t(rng.between(1, int64_t(all) - 1));
  std::vector<int> sides[2] = {{ranks.begin(), ranks.begin() + std::ptrdiff_t(first)},
                               {ranks.begin() + std::ptrdiff_t(first), ranks.begin() + std::ptrdiff_t(all)}};
  for (std::vector<int>& side : sides) {
    if (ordered) std::sort(side.begin(), side.end());
  }
  const bool front = std::find(sides[0].begin(), sides[0].end(), parent.rank) != sides[0].end();
  const std::vector<int>&mine = sides[front ? 0 : 1], &others = sides[front ? 1 : 0];
  Comm made = model(parent, mine, 50, "intercomm");
  made.side = front ? 0 : 1;
  for (int r : others) made.remote.push_back(parent.members[size_t(r)]);
  const size_t leaders[2] = {size_t(rng.below(int64_t(sides[0].size()))), size_t(rng.below(int64_t(sides[1].size())))};
  if (made.rank == made.size()) return made;
  MPI_Group group, some;
  MPI_Comm local;
  ok(MPI_Comm_group(parent.handle, &group));
  ok(MPI_Group_incl(group, made.size(), mine.data(), &some));
  ok(MPI_Comm_create_group(parent.handle, some, 5 + made.side, &local));
  ok(MPI_Intercomm_create(local, int(leaders[made.side]), parent.handle, others[leaders[1 - made.side]], 7, &made.handle));
  ok(MPI_Comm_free(&local));
  for (MPI_Group* g : {&group, &some}) ok(MPI_Group_free(g));
  return made;
}

Comm draw_merge(const Comm& parent, Rng& rng) {
  const int high = int(rng.below(2));  // the side whose ranks come last
  Comm made;
  made.id = mix(parent.id, 60);
  made.of_session = parent.of_session;
  made.text = "merge(" + parent.text + ")";
  made.owned = true;
  const bool first = parent.side != high;
  made.members = first ? parent.members : parent.remote;
  const std::vector<int>& rest = first ? parent.remote : parent.members;
  made.members.insert(made.members.end(), rest.begin(), rest.end());
  made.rank = parent.rank + (first ? 0 : int(parent.remote.size()));
  ok(MPI_Intercomm_merge(parent.handle, !first, &made.handle));
  return made;
}

/// Both sides fall into the same colours; a colour that one side lacks makes no communicator.
Comm draw_inter_split(const Comm& parent, Rng& rng) {
  const int64_t colours = rng.between(1, 3);
  std::vector<int> colour[2], key[2];
  for (int side = 0; side < 2; ++side) {
    for (int i = 0; i < parent.size_of(side); ++i) {
      colour[side].push_back(int(rng.below(colours)));
      key[side].push_back(int(rng.below(4)) - 2);
    }
  }
  const int mine = colour[parent.side][size_t(parent.rank)];
  const auto chosen = [&](int side) {
    std::vector<int> ranks;
    for (int i = 0; i < parent.size_of(side); ++i) {
      if (colour[side][size_t(i)] == mine) ranks.push_back(i);
    }
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return key[side][size_t(a)] < key[side][size_t(b)]; });
    return ranks;
  };
  Comm made = model(parent, chosen(parent.side), 70 + uint64_t(mine), "split");
  made.side = parent.side;
  for (int r : chosen(1 - parent.side)) made.remote.push_back(parent.remote[size_t(r)]);
  ok(MPI_Comm_split(parent.handle, mine, key[parent.side][size_t(parent.rank)], &made.handle));
  same(made.in(), made.inter(), "whether MPI_Comm_split of an inter-communicator makes one");
  return made;
}

void check_group(MPI_Group group, const std::vector<int>& members, const std::string& what) {
  int result = 0;
  MPI_Group world, model;
  ok(MPI_Comm_group(MPI_COMM_WORLD, &world));
  ok(MPI_Group_incl(world, int(members.size()), members.data(), &model));
  ok(MPI_Group_compare(group, model, &result));
  same(result, MPI_IDENT, "comparison of the group of " + what + " with its model");
  for (MPI_Group* g : {&world, &group, &model}) ok(MPI_Group_free(g));
}

void check_comm(const Comm& comm) {
  int rank = 0, size = 0, inter = 0;
  ok(MPI_Comm_rank(comm.handle, &rank));
  ok(MPI_Comm_size(comm.handle, &size));
  ok(MPI_Comm_test_inter(comm.handle, &inter));
  same(rank, comm.rank, "rank in " + comm.text);
  same(size, comm.size(), "size of " + comm.text);
  same(inter, comm.inter(), "whether this is an inter-communicator: " + comm.text);
  MPI_Group group;
  ok(MPI_Comm_group(comm.handle, &group));
  check_group(group, comm.members, comm.text);
  if (!inter) return;
  ok(MPI_Comm_remote_size(comm.handle, &size));
  same(size, int64_t(comm.remote.size()), "remote size of " + comm.text);
  ok(MPI_Comm_remote_group(comm.handle, &group));
  check_group(group, comm.remote, "the remote side of " + comm.text);
}

}  // namespace

Session::Session() {
  ok(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &the_session));
  ok(MPI_Group_from_session_pset(the_session, "mpi://WORLD", &session_world));
}

Session::~Session() {
  MPI_Group_free(&session_world);
  MPI_Session_finalize(&the_session);
}

MPI_Session session() { return the_session; }

Comm world_comm() {
  Comm world;
  world.handle = MPI_COMM_WORLD;
  int size = 0;
  ok(MPI_Comm_rank(world.handle, &world.rank));
  ok(MPI_Comm_size(world.handle, &size));
  world.members.resize(size_t(size));
  std::iota(world.members.begin(), world.members.end(), 0);
  world.text = "world";
  return world;
}

Comm draw_comm(const Comm& parent, uint64_t seed) {
  Rng rng(mix(seed, parent.id));
  const int64_t how = rng.below(8);
  Comm made;
  if (how == 0)
    made = draw_dup(parent, rng);
  else if (parent.inter())
    made = how < 4 ? draw_merge(parent, rng) : draw_inter_split(parent, rng);
  else if (how == 1 && parent.size() > 1)
    made = draw_inter(parent, rng);
  else if (how < 4)
    made = draw_topology(parent, rng);
  else
    made = how < 6 ? draw_split(parent, rng) : how == 6 ? draw_create(parent, rng) : draw_from_group(parent, rng);
  if (made.in()) check_comm(made);
  return made;
}

void free_comm(Comm& comm) {
  if (comm.in() && comm.owned) MPI_Comm_free(&comm.handle);
}

Pool::Pool(const Comm& first, uint64_t seed, const std::vector<size_t>& wanted) {
  std::vector<bool> needed(size);
  for (size_t i : wanted) {
    for (needed[i] = true; i > 0;) needed[i = parent(seed, i)] = true;
  }
  for (size_t i = 0; i < size; ++i) {
    if (i == 0) {
      comms_.push_back(first);
      comms_[0].owned = false;
    } else if (!needed[i] || !comms_[parent(seed, i)].in()) {
      comms_.emplace_back();
    } else {
      comms_.push_back(draw_comm(comms_[parent(seed, i)], mix(seed, 900 + i)));
    }
  }
}

Pool::~Pool() {
  for (size_t i = size; i > 0; --i) free_comm(comms_[i - 1]);
}

}  // namespace random_test
