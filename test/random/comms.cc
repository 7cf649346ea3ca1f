#include "comms.h"

#include <algorithm>
#include <numeric>

namespace random_test {

namespace {

/// The communicator of a group of the parent's ranks, in their new order. Says who is in it; the handle comes later.
Comm model(const Comm& parent, const std::vector<int>& ranks, uint64_t id, const std::string& text) {
  Comm made;
  made.id = mix(parent.id, id);
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
  const int64_t how = rng.below(3);
  Comm made = model(parent, everyone(parent), 1, how == 0 ? "dup" : how == 1 ? "idup" : "dup_with_info");
  if (how == 0) ok(MPI_Comm_dup(parent.handle, &made.handle));
  if (how == 2) ok(MPI_Comm_dup_with_info(parent.handle, MPI_INFO_NULL, &made.handle));
  if (how == 1) {
    MPI_Request request;
    ok(MPI_Comm_idup(parent.handle, &made.handle, &request));
    ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
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

void check_comm(const Comm& comm) {
  int rank = 0, size = 0, result = 0;
  ok(MPI_Comm_rank(comm.handle, &rank));
  ok(MPI_Comm_size(comm.handle, &size));
  same(rank, comm.rank, "rank in " + comm.text);
  same(size, comm.size(), "size of " + comm.text);
  MPI_Group world, mine, model;
  ok(MPI_Comm_group(MPI_COMM_WORLD, &world));
  ok(MPI_Comm_group(comm.handle, &mine));
  ok(MPI_Group_incl(world, size, comm.members.data(), &model));
  ok(MPI_Group_compare(mine, model, &result));
  same(result, MPI_IDENT, "comparison of the group of " + comm.text + " with its model");
  for (MPI_Group* g : {&world, &mine, &model}) ok(MPI_Group_free(g));
}

}  // namespace

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
  Comm made;
  switch (rng.below(4)) {
    case 0: made = draw_dup(parent, rng); break;
    case 1:
    case 2: made = draw_split(parent, rng); break;
    default: made = draw_create(parent, rng); break;
  }
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
