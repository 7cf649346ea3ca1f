// Inter-communicators: made in every way from groups of all shapes; messages and every collective between the groups, in all modes,
// against what a model says. Random cases come from one seed (the first argument).
#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>

#include "check.h"

using check::rank;
using check::ranks;
using check::run;
using check::Way;

namespace {

using Vector = std::vector<long>;
const MPI_Info no_info = MPI_INFO_NULL;

/// An inter-communicator as the test knows it.
struct Bridge {
  MPI_Comm comm, local;
  int side, me, own, other;     ///< side: 0 or 1
  std::vector<int> members[2];  ///< ranks in MPI_COMM_WORLD by rank in the group
  std::mt19937 random;          ///< goes alike in both groups
  int below(int n) { return int(random() % unsigned(n)); }
  int size(int s) const { return int(members[s].size()); }
};

long cell(int side, int who, long i) { return side * 100000007L + who * 1000003L + i * 7; }
Vector data_of(int side, int who, long n) {
  Vector v(static_cast<size_t>(n));
  for (long i = 0; i < n; ++i) v[size_t(i)] = cell(side, who, i);
  return v;
}

// How the ranks are dealt to the sides.

using Deal = std::function<int(int)>;

Bridge make_bridge(const Deal& side_of, unsigned seed, int tag) {
  Bridge b;
  b.random.seed(seed);
  b.side = side_of(rank);
  for (int r = 0; r < ranks; ++r) b.members[side_of(r)].push_back(r);
  b.own = b.size(b.side);
  b.other = b.size(1 - b.side);
  b.me = int(std::find(b.members[b.side].begin(), b.members[b.side].end(), rank) - b.members[b.side].begin());
  MPI_Comm_split(MPI_COMM_WORLD, b.side, rank, &b.local);
  // Any rank may lead; leaders know each other by their ranks in the world. The others need not.
  const int leaders[2] = {int(seed) % b.size(0), int(seed / 7) % b.size(1)};
  const int remote = b.members[1 - b.side][size_t(leaders[1 - b.side])];
  const bool leads = b.me == leaders[b.side];
  const int error =
      MPI_Intercomm_create(b.local, leaders[b.side], leads ? MPI_COMM_WORLD : MPI_COMM_NULL, leads ? remote : -77, tag, &b.comm);
  CHECK(error == MPI_SUCCESS);
  return b;
}

void free_bridge(Bridge& b) {
  MPI_Comm_free(&b.comm);
  MPI_Comm_free(&b.local);
  CHECK(b.comm == MPI_COMM_NULL);
}

std::vector<int> world_ranks(MPI_Group group) {
  MPI_Group world;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int n = 0;
  MPI_Group_size(group, &n);
  std::vector<int> in(static_cast<size_t>(n)), out(in.size());
  std::iota(in.begin(), in.end(), 0);
  MPI_Group_translate_ranks(group, n, in.data(), world, out.data());
  MPI_Group_free(&world);
  return out;
}

/// Is `comm` an inter-communicator of these groups, in working order?
void is_bridge(MPI_Comm comm, const std::vector<int>& own, const std::vector<int>& other) {
  int flag = 0, me = -1, size = -1, remote = -1;
  MPI_Comm_test_inter(comm, &flag);
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &size);
  MPI_Comm_remote_size(comm, &remote);
  CHECK(flag && size == int(own.size()) && remote == int(other.size()) && own[size_t(me)] == rank);
  MPI_Group group;
  MPI_Comm_group(comm, &group);
  CHECK(world_ranks(group) == own);
  MPI_Group_free(&group);
  MPI_Comm_remote_group(comm, &group);
  CHECK(world_ranks(group) == other);
  MPI_Group_free(&group);
  int sum = 0, expected = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  for (int r : other) expected += r;
  CHECK(sum == expected);
}

// Making them

int copies = 0, deletes = 0;
int copy_attribute(MPI_Comm, int, void*, void* in, void* out, int* flag) {
  ++copies;
  *static_cast<void**>(out) = in;
  *flag = 1;
  return MPI_SUCCESS;
}
int delete_attribute(MPI_Comm, int, void*, void*) {
  ++deletes;
  return MPI_SUCCESS;
}

void copies_of(Bridge& b) {
  const auto &own = b.members[b.side], &other = b.members[1 - b.side];
  is_bridge(b.comm, own, other);
  int keyval = MPI_KEYVAL_INVALID, value = 5, result = -1, flag = 0;
  copies = deletes = 0;
  MPI_Comm_create_keyval(copy_attribute, delete_attribute, &keyval, nullptr);
  MPI_Comm_set_attr(b.comm, keyval, &value);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
  MPI_Comm made[4];
  MPI_Request requests[2];
  MPI_Comm_dup(b.comm, &made[0]);
  MPI_Comm_dup_with_info(b.comm, info, &made[1]);
  MPI_Comm_idup(b.comm, &made[2], &requests[0]);
  MPI_Comm_idup_with_info(b.comm, info, &made[3], &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  for (MPI_Comm& comm : made) {
    MPI_Comm_compare(comm, b.comm, &result);
    CHECK(result == MPI_CONGRUENT);
    int* found = nullptr;
    MPI_Comm_get_attr(comm, keyval, &found, &flag);
    CHECK(flag && found == &value);
    is_bridge(comm, own, other);
    MPI_Comm_free(&comm);
  }
  CHECK(copies == 4 && deletes == 4);
  MPI_Comm_delete_attr(b.comm, keyval);
  MPI_Comm_free_keyval(&keyval);
  MPI_Info_free(&info);
  MPI_Comm_compare(b.comm, b.local, &result);
  CHECK(result == MPI_UNEQUAL);
  MPI_Comm_set_name(b.comm, "bridge");
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Comm_get_name(b.comm, name, &result);
  CHECK(name == std::string("bridge"));
}

void merges(Bridge& b) {
  for (int high : {0, 1}) {
    MPI_Comm merged;
    MPI_Intercomm_merge(b.comm, b.side == high, &merged);
    std::vector<int> expected = b.members[1 - high];
    expected.insert(expected.end(), b.members[high].begin(), b.members[high].end());
    MPI_Group group;
    MPI_Comm_group(merged, &group);
    CHECK(world_ranks(group) == expected);
    MPI_Group_free(&group);
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
    CHECK(sum == ranks * (ranks - 1) / 2);
    MPI_Comm_free(&merged);
  }
  MPI_Comm merged;  // any order, but one
  MPI_Intercomm_merge(b.comm, 0, &merged);
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
  CHECK(sum == ranks * (ranks - 1) / 2);
  MPI_Comm_free(&merged);
}

/// Splits by what the launcher and the machine tell. A part of one rank alone has nobody on the other side.
void guided(Bridge& b, int others) {
  const struct {
    int type;
    const char *key, *value;
    bool whole;
  } cases[] = {{MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://WORLD", true},
               {MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://SELF", false},
               {MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "mpi_shared_memory", false},
               {MPI_COMM_TYPE_HW_UNGUIDED, "unused", "", false}};
  for (const auto& c : cases) {
    MPI_Info info;
    MPI_Comm part;
    MPI_Info_create(&info);
    MPI_Info_set(info, c.key, c.value);
    CHECK(MPI_Comm_split_type(b.comm, c.type, rank, info, &part) == MPI_SUCCESS);
    MPI_Info_free(&info);
    if (c.whole) CHECK(part != MPI_COMM_NULL);
    if (std::string(c.value) == "mpi://SELF") CHECK(part == MPI_COMM_NULL);
    if (part == MPI_COMM_NULL) continue;
    int size = 0, own = 0, total = 0;
    MPI_Comm_remote_size(part, &size);
    MPI_Comm_size(part, &own);
    MPI_Comm_size(b.comm, &total);
    CHECK(size > 0 && size <= others && (!c.whole || size == others));
    if (c.type == MPI_COMM_TYPE_HW_UNGUIDED) CHECK(size + own < others + total);
    MPI_Comm_free(&part);
  }
}

void splits(Bridge& b) {
  // Colors and keys at random, the same in both groups' models.
  std::vector<int> colors, keys;
  for (int r = 0; r < ranks; ++r) {
    colors.push_back(b.below(4) == 0 ? MPI_UNDEFINED : b.below(2));
    keys.push_back(b.below(3));
  }
  const int color = colors[size_t(rank)];
  std::vector<int> sides[2];
  for (int s = 0; s < 2; ++s) {
    for (int r : b.members[s])
      if (colors[size_t(r)] == color) sides[s].push_back(r);
    std::stable_sort(sides[s].begin(), sides[s].end(), [&](int x, int y) { return keys[size_t(x)] < keys[size_t(y)]; });
  }
  MPI_Comm part;
  MPI_Comm_split(b.comm, color, keys[size_t(rank)], &part);
  if (color == MPI_UNDEFINED || sides[1 - b.side].empty()) {
    CHECK(part == MPI_COMM_NULL);
  } else {
    is_bridge(part, sides[b.side], sides[1 - b.side]);
    MPI_Comm_free(&part);
  }
  // Ranks of one host; there may be hosts with ranks of one side only.
  MPI_Comm_split_type(b.comm, MPI_COMM_TYPE_SHARED, rank, no_info, &part);
  int others = 0;
  MPI_Comm_remote_size(b.comm, &others);
  if (part != MPI_COMM_NULL) {
    int size = 0;
    MPI_Comm_remote_size(part, &size);
    CHECK(size > 0 && size <= others);
    MPI_Comm_free(&part);
  }
  guided(b, others);
  // Comm_create: every second rank of each group, backwards; once nobody of the second group.
  for (const bool nobody : {false, true}) {
    std::vector<int> picked[2], picks;
    for (int s = 0; s < 2; ++s)
      for (int r = b.size(s) - 1; r >= 0; r -= 2)
        if (!nobody || s == 0) picked[s].push_back(b.members[s][size_t(r)]);
    for (int r : picked[b.side])
      picks.push_back(int(std::find(b.members[b.side].begin(), b.members[b.side].end(), r) - b.members[b.side].begin()));
    MPI_Group group, subset;
    MPI_Comm_group(b.comm, &group);
    MPI_Group_incl(group, int(picks.size()), picks.data(), &subset);
    MPI_Comm_create(b.comm, subset, &part);
    const bool in = std::find(picks.begin(), picks.end(), b.me) != picks.end();
    CHECK((part != MPI_COMM_NULL) == (in && !nobody));
    if (part != MPI_COMM_NULL) {
      is_bridge(part, picked[b.side], picked[1 - b.side]);
      MPI_Comm_free(&part);
    }
    MPI_Group_free(&group);
    if (subset != MPI_GROUP_EMPTY) MPI_Group_free(&subset);
  }
}

/// Over a bridge as peer communicator, and without any communicator.
void made_otherwise(Bridge& b) {
  MPI_Comm again;
  const int remote = b.other - 1;  // the last rank of the other group
  MPI_Intercomm_create(b.local, b.own - 1, b.me == b.own - 1 ? b.comm : MPI_COMM_NULL, remote, 3, &again);
  int result = -1;
  MPI_Comm_compare(again, b.comm, &result);
  CHECK(result == MPI_CONGRUENT);
  is_bridge(again, b.members[b.side], b.members[1 - b.side]);
  MPI_Comm_free(&again);

  MPI_Group own, other;
  MPI_Comm_group(b.comm, &own);
  MPI_Comm_remote_group(b.comm, &other);
  const bool leads = b.me == 0;
  MPI_Intercomm_create_from_groups(own, 0, leads ? other : MPI_GROUP_NULL, leads ? 0 : -1, "org.weft.test", no_info, MPI_ERRORS_RETURN,
                                   &again);
  is_bridge(again, b.members[b.side], b.members[1 - b.side]);
  MPI_Errhandler handler;
  MPI_Comm_get_errhandler(again, &handler);
  CHECK(handler == MPI_ERRORS_RETURN);
  MPI_Errhandler_free(&handler);
  MPI_Comm_disconnect(&again);
  MPI_Group_free(&own);
  MPI_Group_free(&other);
}

// Messages

void messages(Bridge& b) {
  constexpr int n = 300;
  // Everybody to everybody, received by probe or from anybody.
  std::vector<Vector> out(static_cast<size_t>(b.other)), in(out.size());
  std::vector<MPI_Request> requests(out.size());
  for (int r = 0; r < b.other; ++r) {
    out[size_t(r)] = data_of(b.side, b.me * 100 + r, n);
    if (r % 3 == 0) MPI_Isend(out[size_t(r)].data(), n, MPI_LONG, r, 8, b.comm, &requests[size_t(r)]);
    if (r % 3 == 1) MPI_Issend(out[size_t(r)].data(), n, MPI_LONG, r, 8, b.comm, &requests[size_t(r)]);
    if (r % 3 == 2) {
      MPI_Send_init(out[size_t(r)].data(), n, MPI_LONG, r, 8, b.comm, &requests[size_t(r)]);
      MPI_Start(&requests[size_t(r)]);
    }
  }
  for (int k = 0; k < b.other; ++k) {
    MPI_Status status;
    Vector got(n);
    if (k % 3 == 0) {
      MPI_Recv(got.data(), n, MPI_LONG, MPI_ANY_SOURCE, 8, b.comm, &status);
    } else if (k % 3 == 1) {
      MPI_Probe(MPI_ANY_SOURCE, 8, b.comm, &status);
      MPI_Recv(got.data(), n, MPI_LONG, status.MPI_SOURCE, 8, b.comm, &status);
    } else {
      MPI_Message message;
      MPI_Mprobe(MPI_ANY_SOURCE, 8, b.comm, &message, &status);
      MPI_Mrecv(got.data(), n, MPI_LONG, &message, &status);
    }
    const int from = status.MPI_SOURCE;
    CHECK(from >= 0 && from < b.other && in[size_t(from)].empty());
    in[size_t(from)] = got;
    CHECK(got == data_of(1 - b.side, from * 100 + b.me, n));
  }
  MPI_Waitall(b.other, requests.data(), MPI_STATUSES_IGNORE);
  for (MPI_Request& r : requests)
    if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
  // Pairs, both ways at once; and a buffered send.
  const bool paired = b.me < std::min(b.own, b.other);
  long to = rank, from = -1;
  MPI_Status status;
  MPI_Sendrecv(&to, 1, MPI_LONG, paired ? b.me : MPI_PROC_NULL, 1, &from, 1, MPI_LONG, paired ? b.me : MPI_PROC_NULL, 1, b.comm, &status);
  CHECK(!paired || (from == b.members[1 - b.side][size_t(b.me)] && status.MPI_SOURCE == b.me));
  MPI_Sendrecv_replace(&to, 1, MPI_LONG, paired ? b.me : MPI_PROC_NULL, 1, paired ? b.me : MPI_PROC_NULL, 1, b.comm, &status);
  CHECK(!paired || to == from);
  if (!paired) return;
  std::vector<char> room(4096);
  MPI_Comm_attach_buffer(b.comm, room.data(), int(room.size()));
  long more = -1;
  MPI_Bsend(&from, 1, MPI_LONG, b.me, 2, b.comm);
  MPI_Recv(&more, 1, MPI_LONG, b.me, 2, b.comm, &status);
  CHECK(more == rank);
  void* address;
  int size;
  MPI_Comm_detach_buffer(b.comm, &address, &size);
}

// Collectives

/// A column of a matrix with three: what a strided type must leave alone is -1.
struct Column {
  MPI_Datatype type;
  bool strided;
  explicit Column(bool is_strided) : strided(is_strided) {
    MPI_Datatype one;
    MPI_Type_vector(1, 1, 3, MPI_LONG, &one);
    MPI_Type_create_resized(one, 0, strided ? 3 * sizeof(long) : sizeof(long), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&one);
  }
  ~Column() { MPI_Type_free(&type); }
  Vector spread(const Vector& dense) const {
    if (!strided) return dense;
    Vector v(3 * dense.size(), -1);
    for (size_t i = 0; i < dense.size(); ++i) v[3 * i] = dense[i];
    return v;
  }
  Vector room(long n) const { return Vector(static_cast<size_t>(strided ? 3 * n : n), -1); }
};

/// What this rank passes as the root.
int role(const Bridge& b, int root_side, int root) {
  if (b.side != root_side) return root;
  return b.me == root ? MPI_ROOT : MPI_PROC_NULL;
}

Vector joined(int side, int from, int to, long n) {
  Vector all;
  for (int r = from; r < to; ++r)
    for (long value : data_of(side, r, n)) all.push_back(value);
  return all;
}

void rooted(Bridge& b, Way way, long n, bool strided) {
  const int root_side = b.below(2), root = b.below(b.size(root_side)), leaves = b.size(1 - root_side);
  const int as = role(b, root_side, root);
  const bool is_root = as == MPI_ROOT, leaf = b.side != root_side;
  const Column t(strided);
  const int count = int(n);
  Vector data = is_root ? t.spread(data_of(root_side, root, n)) : t.room(n);
  run(
      way, [&] { MPI_Bcast(data.data(), count, t.type, as, b.comm); },
      [&](MPI_Request* r) { MPI_Ibcast(data.data(), count, t.type, as, b.comm, r); },
      [&](MPI_Request* r) { MPI_Bcast_init(data.data(), count, t.type, as, b.comm, no_info, r); });
  CHECK(data == (is_root || leaf ? t.spread(data_of(root_side, root, n)) : t.room(n)));

  const Vector in = t.spread(data_of(b.side, b.me, n));
  Vector all = is_root ? t.room(n * leaves) : Vector();
  run(
      way, [&] { MPI_Gather(in.data(), count, t.type, all.data(), count, t.type, as, b.comm); },
      [&](MPI_Request* r) { MPI_Igather(in.data(), count, t.type, all.data(), count, t.type, as, b.comm, r); },
      [&](MPI_Request* r) { MPI_Gather_init(in.data(), count, t.type, all.data(), count, t.type, as, b.comm, no_info, r); });
  if (is_root) CHECK(all == t.spread(joined(1 - root_side, 0, leaves, n)));

  Vector part = t.room(n);
  run(
      way, [&] { MPI_Scatter(all.data(), count, t.type, part.data(), count, t.type, as, b.comm); },
      [&](MPI_Request* r) { MPI_Iscatter(all.data(), count, t.type, part.data(), count, t.type, as, b.comm, r); },
      [&](MPI_Request* r) { MPI_Scatter_init(all.data(), count, t.type, part.data(), count, t.type, as, b.comm, no_info, r); });
  CHECK(part == (leaf ? in : t.room(n)));
}

/// Blocks of different sizes, with gaps; the same numbers in both groups' models.
struct Blocks {
  std::vector<int> counts, places;
  int total = 0;
  Blocks(Bridge& b, int blocks, int most) {
    for (int i = 0; i < blocks; ++i) {
      counts.push_back(b.below(most + 1));
      places.push_back(total);
      total += counts.back() + b.below(3);
    }
  }
};

void rooted_vectors(Bridge& b, Way way, int most) {
  const int root_side = b.below(2), root = b.below(b.size(root_side)), leaves = b.size(1 - root_side);
  const int as = role(b, root_side, root);
  const bool is_root = as == MPI_ROOT, leaf = b.side != root_side;
  const Blocks k(b, leaves, most);
  const int own = leaf ? k.counts[size_t(b.me)] : 0;
  const int *counts = is_root ? k.counts.data() : nullptr, *places = is_root ? k.places.data() : nullptr;
  const Vector in = data_of(b.side, b.me, own);
  Vector all(static_cast<size_t>(is_root ? k.total : 0), -1);
  run(
      way, [&] { MPI_Gatherv(in.data(), own, MPI_LONG, all.data(), counts, places, MPI_LONG, as, b.comm); },
      [&](MPI_Request* r) { MPI_Igatherv(in.data(), own, MPI_LONG, all.data(), counts, places, MPI_LONG, as, b.comm, r); },
      [&](MPI_Request* r) { MPI_Gatherv_init(in.data(), own, MPI_LONG, all.data(), counts, places, MPI_LONG, as, b.comm, no_info, r); });
  Vector expected(all.size(), -1);
  for (int r = 0; is_root && r < leaves; ++r)
    for (int i = 0; i < k.counts[size_t(r)]; ++i) expected[size_t(k.places[size_t(r)] + i)] = cell(1 - root_side, r, i);
  CHECK(all == expected);
  Vector part(static_cast<size_t>(own), -1);
  run(
      way, [&] { MPI_Scatterv(all.data(), counts, places, MPI_LONG, part.data(), own, MPI_LONG, as, b.comm); },
      [&](MPI_Request* r) { MPI_Iscatterv(all.data(), counts, places, MPI_LONG, part.data(), own, MPI_LONG, as, b.comm, r); },
      [&](MPI_Request* r) { MPI_Scatterv_init(all.data(), counts, places, MPI_LONG, part.data(), own, MPI_LONG, as, b.comm, no_info, r); });
  CHECK(part == in);
}

void exchanges(Bridge& b, Way way, int most, bool strided) {
  const Column t(strided);
  const int each[2] = {b.below(most + 1), b.below(most + 1)};  // elements that a rank of each side gives to each of the other
  const int mine = each[b.side], theirs = each[1 - b.side], there = 1 - b.side;
  const Vector in = t.spread(data_of(b.side, b.me, mine));
  Vector all = t.room(long{theirs} * b.other);
  run(
      way, [&] { MPI_Allgather(in.data(), mine, t.type, all.data(), theirs, t.type, b.comm); },
      [&](MPI_Request* r) { MPI_Iallgather(in.data(), mine, t.type, all.data(), theirs, t.type, b.comm, r); },
      [&](MPI_Request* r) { MPI_Allgather_init(in.data(), mine, t.type, all.data(), theirs, t.type, b.comm, no_info, r); });
  CHECK(all == t.spread(joined(there, 0, b.other, theirs)));

  const Vector give = t.spread(data_of(b.side, b.me, long{mine} * b.other));
  Vector expected;
  for (int r = 0; r < b.other; ++r)
    for (int i = 0; i < theirs; ++i) expected.push_back(cell(there, r, long{b.me} * theirs + i));
  all = t.room(long{theirs} * b.other);
  run(
      way, [&] { MPI_Alltoall(give.data(), mine, t.type, all.data(), theirs, t.type, b.comm); },
      [&](MPI_Request* r) { MPI_Ialltoall(give.data(), mine, t.type, all.data(), theirs, t.type, b.comm, r); },
      [&](MPI_Request* r) { MPI_Alltoall_init(give.data(), mine, t.type, all.data(), theirs, t.type, b.comm, no_info, r); });
  CHECK(all == t.spread(expected));
}

void vectors(Bridge& b, Way way, int most) {
  // What each rank of a side gives to all of the other side.
  const Blocks gives[2] = {Blocks(b, b.size(0), most), Blocks(b, b.size(1), most)};
  const int there = 1 - b.side, mine = gives[b.side].counts[size_t(b.me)];
  const Blocks& k = gives[there];
  const Vector in = data_of(b.side, b.me, mine);
  Vector all(static_cast<size_t>(k.total), -1), expected(all.size(), -1);
  for (int r = 0; r < b.other; ++r)
    for (int i = 0; i < k.counts[size_t(r)]; ++i) expected[size_t(k.places[size_t(r)] + i)] = cell(there, r, i);
  const int *counts = k.counts.data(), *places = k.places.data();
  run(
      way, [&] { MPI_Allgatherv(in.data(), mine, MPI_LONG, all.data(), counts, places, MPI_LONG, b.comm); },
      [&](MPI_Request* r) { MPI_Iallgatherv(in.data(), mine, MPI_LONG, all.data(), counts, places, MPI_LONG, b.comm, r); },
      [&](MPI_Request* r) { MPI_Allgatherv_init(in.data(), mine, MPI_LONG, all.data(), counts, places, MPI_LONG, b.comm, no_info, r); });
  CHECK(all == expected);

  // Rank r of side s gives r' of the other one (r + 2 r' + s) % (most + 1) elements.
  const auto amount = [&](int side, int from, int to) { return (from + 2 * to + side) % (most + 1); };
  std::vector<int> out_counts, out_places, in_counts, in_places, out_bytes, in_bytes;
  int total_out = 0, total_in = 0;
  for (int r = 0; r < b.other; ++r) {
    out_counts.push_back(amount(b.side, b.me, r));
    in_counts.push_back(amount(there, r, b.me));
    out_places.push_back(total_out);
    in_places.push_back(total_in);
    out_bytes.push_back(total_out * int(sizeof(long)));
    in_bytes.push_back(total_in * int(sizeof(long)));
    total_out += out_counts.back();
    total_in += in_counts.back() + 1;
  }
  Vector give(static_cast<size_t>(total_out)), got(static_cast<size_t>(total_in), -1);
  expected.assign(got.size(), -1);
  for (int r = 0; r < b.other; ++r) {
    for (int i = 0; i < out_counts[size_t(r)]; ++i) give[size_t(out_places[size_t(r)] + i)] = cell(b.side, b.me * 50 + r, i);
    for (int i = 0; i < in_counts[size_t(r)]; ++i) expected[size_t(in_places[size_t(r)] + i)] = cell(there, r * 50 + b.me, i);
  }
  const int *oc = out_counts.data(), *op = out_places.data(), *ic = in_counts.data(), *ip = in_places.data();
  const MPI_Datatype type = MPI_LONG;
  run(
      way, [&] { MPI_Alltoallv(give.data(), oc, op, type, got.data(), ic, ip, type, b.comm); },
      [&](MPI_Request* r) { MPI_Ialltoallv(give.data(), oc, op, type, got.data(), ic, ip, type, b.comm, r); },
      [&](MPI_Request* r) { MPI_Alltoallv_init(give.data(), oc, op, type, got.data(), ic, ip, type, b.comm, no_info, r); });
  CHECK(got == expected);
  std::fill(got.begin(), got.end(), -1);
  const std::vector<MPI_Datatype> types(size_t(b.other), type);
  const int *ob = out_bytes.data(), *ib = in_bytes.data();
  const MPI_Datatype* w = types.data();
  run(
      way, [&] { MPI_Alltoallw(give.data(), oc, ob, w, got.data(), ic, ib, w, b.comm); },
      [&](MPI_Request* r) { MPI_Ialltoallw(give.data(), oc, ob, w, got.data(), ic, ib, w, b.comm, r); },
      [&](MPI_Request* r) { MPI_Alltoallw_init(give.data(), oc, ob, w, got.data(), ic, ib, w, b.comm, no_info, r); });
  CHECK(got == expected);
}

/// Maps x -> a x + b: to do one after the other is associative and does not commute.
void compose(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* first = static_cast<unsigned long*>(in);
  auto* then = static_cast<unsigned long*>(inout);
  for (int i = 0; i < 2 * *count; i += 2) {
    then[i + 1] += then[i] * first[i + 1];
    then[i] *= first[i];
  }
}

struct Maps {
  MPI_Datatype type;
  MPI_Op op;
  Maps() {
    MPI_Type_contiguous(2, MPI_UNSIGNED_LONG, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(compose, 0, &op);
  }
  ~Maps() {
    MPI_Op_free(&op);
    MPI_Type_free(&type);
  }
};

/// The reduction of what all ranks of a side give, n elements.
Vector reduced(int side, int size, long n, bool ordered) {
  Vector sum = data_of(side, 0, ordered ? 2 * n : n);
  for (int r = 1; r < size; ++r) {
    Vector next = data_of(side, r, long(sum.size()));
    int count = int(n);
    if (ordered) {
      compose(sum.data(), next.data(), &count, nullptr);
      sum = next;
    } else {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += next[i];
    }
  }
  return sum;
}

void reductions(Bridge& b, Way way, long n, bool ordered) {
  const Maps maps;
  const MPI_Datatype type = ordered ? maps.type : MPI_LONG;
  const MPI_Op op = ordered ? maps.op : MPI_SUM;
  const long words = ordered ? 2 : 1;
  const int count = int(n), there = 1 - b.side;
  const Vector in = data_of(b.side, b.me, n * words);
  Vector out(in.size(), -1);
  run(
      way, [&] { MPI_Allreduce(in.data(), out.data(), count, type, op, b.comm); },
      [&](MPI_Request* r) { MPI_Iallreduce(in.data(), out.data(), count, type, op, b.comm, r); },
      [&](MPI_Request* r) { MPI_Allreduce_init(in.data(), out.data(), count, type, op, b.comm, no_info, r); });
  const Vector theirs = reduced(there, b.other, n, ordered);
  CHECK(out == theirs);

  const int root_side = b.below(2), root = b.below(b.size(root_side)), as = role(b, root_side, root);
  out.assign(in.size(), -1);
  run(
      way, [&] { MPI_Reduce(in.data(), out.data(), count, type, op, as, b.comm); },
      [&](MPI_Request* r) { MPI_Ireduce(in.data(), out.data(), count, type, op, as, b.comm, r); },
      [&](MPI_Request* r) { MPI_Reduce_init(in.data(), out.data(), count, type, op, as, b.comm, no_info, r); });
  CHECK(out == (as == MPI_ROOT ? theirs : Vector(in.size(), -1)));

  // Both sides scatter vectors of the same length: n elements for each pair of ranks.
  const long length = n * b.own * b.other;
  const Vector whole = data_of(b.side, b.me, length * words), result = reduced(there, b.other, length, ordered);
  const int share = int(length / b.own);
  out.assign(static_cast<size_t>(share * words), -1);
  run(
      way, [&] { MPI_Reduce_scatter_block(whole.data(), out.data(), share, type, op, b.comm); },
      [&](MPI_Request* r) { MPI_Ireduce_scatter_block(whole.data(), out.data(), share, type, op, b.comm, r); },
      [&](MPI_Request* r) { MPI_Reduce_scatter_block_init(whole.data(), out.data(), share, type, op, b.comm, no_info, r); });
  CHECK(std::equal(out.begin(), out.end(), result.begin() + b.me * share * words));

  // Shares that differ: what is left goes to the last rank.
  std::vector<int> counts;
  long left = length;
  for (int r = 0; r < b.own; ++r) {
    counts.push_back(r + 1 < b.own ? int(std::min<long>(left, b.random() % unsigned(2 * share + 1))) : int(left));
    left -= counts.back();
  }
  for (int r = b.own; r < b.other; ++r) b.random();  // both sides draw as often
  const long begin = std::accumulate(counts.begin(), counts.begin() + b.me, 0L);
  out.assign(static_cast<size_t>(counts[size_t(b.me)] * words), -1);
  run(
      way, [&] { MPI_Reduce_scatter(whole.data(), out.data(), counts.data(), type, op, b.comm); },
      [&](MPI_Request* r) { MPI_Ireduce_scatter(whole.data(), out.data(), counts.data(), type, op, b.comm, r); },
      [&](MPI_Request* r) { MPI_Reduce_scatter_init(whole.data(), out.data(), counts.data(), type, op, b.comm, no_info, r); });
  CHECK(std::equal(out.begin(), out.end(), result.begin() + begin * words));
}

void collectives(Bridge& b, bool large) {
  for (Way way : check::ways) {
    for (int most : {0, 1, 7, 300}) {
      const long n = most ? b.below(most) + 1 : 0;
      rooted(b, way, n, n % 2);
      rooted_vectors(b, way, most);
      exchanges(b, way, most, n % 2);
      vectors(b, way, most);
      reductions(b, way, n, false);
      reductions(b, way, n, true);
    }
    run(
        way, [&] { MPI_Barrier(b.comm); }, [&](MPI_Request* r) { MPI_Ibarrier(b.comm, r); },
        [&](MPI_Request* r) { MPI_Barrier_init(b.comm, no_info, r); });
    if (!large) continue;
    rooted(b, way, 20000, true);
    exchanges(b, way, 20000, false);
    reductions(b, way, 4000, false);
    reductions(b, way, 4000, true);
  }
}

/// Some under way at once, in the order of their starts; a barrier that holds both groups back.
void at_once(Bridge& b) {
  constexpr int n = 8;
  Vector in = data_of(b.side, b.me, 40), outs[n];
  MPI_Request requests[n];
  for (int i = 0; i < n; ++i) {
    outs[i].assign(size_t(40 * b.other), -1);
    if (i % 2)
      MPI_Iallgather(in.data(), 40, MPI_LONG, outs[i].data(), 40, MPI_LONG, b.comm, &requests[i]);
    else
      MPI_Iallreduce(in.data(), outs[i].data(), 40, MPI_LONG, MPI_SUM, b.comm, &requests[i]);
    if (i == 3) MPI_Barrier(b.comm);
  }
  MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
  for (int i = 1; i < n; i += 2) CHECK(outs[i] == joined(1 - b.side, 0, b.other, 40));
  for (int i = 0; i < n; i += 2) CHECK(Vector(outs[i].begin(), outs[i].begin() + 40) == reduced(1 - b.side, b.other, 40, false));
}

void large_counts(Bridge& b) {
  Vector in = data_of(b.side, b.me, 5), out(5, -1);
  MPI_Allreduce_c(in.data(), out.data(), 5, MPI_LONG, MPI_SUM, b.comm);
  CHECK(out == reduced(1 - b.side, b.other, 5, false));
  std::vector<MPI_Count> counts(size_t(b.other), 5);
  std::vector<MPI_Aint> places;
  for (int r = 0; r < b.other; ++r) places.push_back(5 * r);
  Vector all(size_t(5 * b.other), -1);
  MPI_Allgatherv_c(in.data(), 5, MPI_LONG, all.data(), counts.data(), places.data(), MPI_LONG, b.comm);
  CHECK(all == joined(1 - b.side, 0, b.other, 5));
}

// Mistakes

#define FAILS(call, wanted) CHECK(check::error_class(call) == (wanted))

void mistakes(Bridge& b) {
  MPI_Comm_set_errhandler(b.comm, MPI_ERRORS_RETURN);
  long in[16] = {}, out[16] = {};
  const MPI_Comm c = b.comm;
  FAILS(MPI_Bcast(in, 1, MPI_LONG, b.other, c), MPI_ERR_ROOT);
  FAILS(MPI_Bcast(in, 1, MPI_LONG, -77, c), MPI_ERR_ROOT);
  FAILS(MPI_Send(in, 1, MPI_LONG, b.other, 0, c), MPI_ERR_RANK);
  FAILS(MPI_Recv(in, 1, MPI_LONG, b.other, 0, c, MPI_STATUS_IGNORE), MPI_ERR_RANK);
  FAILS(MPI_Scan(in, out, 1, MPI_LONG, MPI_SUM, c), MPI_ERR_COMM);
  FAILS(MPI_Exscan(in, out, 1, MPI_LONG, MPI_SUM, c), MPI_ERR_COMM);
  FAILS(MPI_Allreduce(MPI_IN_PLACE, out, 1, MPI_LONG, MPI_SUM, c), MPI_ERR_BUFFER);
  FAILS(MPI_Allgather(MPI_IN_PLACE, 0, MPI_LONG, out, 1, MPI_LONG, c), MPI_ERR_BUFFER);
  FAILS(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_LONG, out, 1, MPI_LONG, c), MPI_ERR_BUFFER);
  FAILS(MPI_Reduce_scatter_block(MPI_IN_PLACE, out, 1, MPI_LONG, MPI_SUM, c), MPI_ERR_BUFFER);
  FAILS(MPI_Gather(MPI_IN_PLACE, 1, MPI_LONG, out, 1, MPI_LONG, 0, c), MPI_ERR_BUFFER);
  FAILS(MPI_Reduce(MPI_IN_PLACE, out, 1, MPI_LONG, MPI_SUM, 0, c), MPI_ERR_BUFFER);
  FAILS(MPI_Scatter(in, 1, MPI_LONG, MPI_IN_PLACE, 1, MPI_LONG, 0, c), MPI_ERR_BUFFER);
  // Who takes no part may pass anything.
  CHECK(MPI_Bcast(nullptr, -5, MPI_DATATYPE_NULL, MPI_PROC_NULL, c) == MPI_SUCCESS);
  CHECK(MPI_Reduce(nullptr, nullptr, -5, MPI_DATATYPE_NULL, MPI_OP_NULL, MPI_PROC_NULL, c) == MPI_SUCCESS);
  CHECK(MPI_Gather(nullptr, -5, MPI_DATATYPE_NULL, nullptr, -5, MPI_DATATYPE_NULL, MPI_PROC_NULL, c) == MPI_SUCCESS);
  MPI_Comm made;
  FAILS(MPI_Comm_create_group(c, MPI_GROUP_EMPTY, 0, &made), MPI_ERR_COMM);
  int dims = 1, periodic = 0;
  FAILS(MPI_Cart_create(c, 1, &dims, &periodic, 0, &made), MPI_ERR_COMM);
  FAILS(MPI_Intercomm_create(c, 0, c, 0, 0, &made), MPI_ERR_COMM);
  MPI_Comm_set_errhandler(b.local, MPI_ERRORS_RETURN);
  FAILS(MPI_Intercomm_merge(b.local, 0, &made), MPI_ERR_COMM);
  int size;
  MPI_Group group;
  FAILS(MPI_Comm_remote_size(b.local, &size), MPI_ERR_COMM);
  FAILS(MPI_Comm_remote_group(b.local, &group), MPI_ERR_COMM);
  FAILS(MPI_Bcast(in, 1, MPI_LONG, MPI_ROOT, b.local), MPI_ERR_ROOT);
  FAILS(MPI_Intercomm_create(b.local, b.own, MPI_COMM_WORLD, 0, 0, &made), MPI_ERR_RANK);
  // The leader's mistakes reach its group.
  int error = check::error_class(MPI_Intercomm_create(b.local, 0, MPI_COMM_WORLD, ranks, 0, &made));
  CHECK(error == (b.me == 0 ? MPI_ERR_RANK : MPI_ERR_ARG));
  error = check::error_class(MPI_Intercomm_create(b.local, 0, MPI_COMM_NULL, 0, 0, &made));
  CHECK(error == (b.me == 0 ? MPI_ERR_COMM : MPI_ERR_ARG));
}

/// One process in both groups; on any number of ranks.
void overlaps() {
  MPI_Comm copy, made = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  FAILS(MPI_Intercomm_create(copy, 0, MPI_COMM_WORLD, 0, 11, &made), MPI_ERR_COMM);
  MPI_Group group;
  MPI_Comm_group(copy, &group);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  FAILS(MPI_Intercomm_create_from_groups(group, 0, group, 0, "overlap", no_info, MPI_ERRORS_RETURN, &made), MPI_ERR_GROUP);
  FAILS(MPI_Intercomm_create_from_groups(group, 0, MPI_GROUP_NULL, 0, "null", no_info, MPI_ERRORS_RETURN, &made),
        rank == 0 ? MPI_ERR_GROUP : MPI_ERR_ARG);
  MPI_Group_free(&group);
  MPI_Comm_free(&copy);
  MPI_Comm parent;
  MPI_Comm_get_parent(&parent);
  CHECK(parent == MPI_COMM_NULL);
}

}  // namespace

int main(int argc, char** argv) {
  check::begin(argc, argv);
  const unsigned seed = argc > 1 ? unsigned(std::atoi(argv[1])) : 1u;
  overlaps();
  const Deal deals[] = {
      [](int r) { return r % 2; },                 // interleaved
      [](int r) { return r >= (ranks + 1) / 2; },  // halves
      [](int r) { return int(r == 0); },           // all but the first : the first
      [](int r) { return int(r != ranks - 1); },   // the last : all but the last
      [](int r) { return int(r % 4 == 1 || r == 0); },
  };
  int tag = 0;
  for (const Deal& deal : deals) {
    if (ranks < 2 || (ranks == 2 && tag > 1)) break;
    Bridge b = make_bridge(deal, seed + unsigned(tag), tag);
    copies_of(b);
    merges(b);
    for (int i = 0; i < 3; ++i) splits(b);
    made_otherwise(b);
    messages(b);
    collectives(b, tag == 0 || tag == 4);
    at_once(b);
    large_counts(b);
    mistakes(b);
    free_bridge(b);
    ++tag;
  }
  return check::end("intercomm");
}
