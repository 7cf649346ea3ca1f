#include "comm/group.h"

#include <unordered_map>
#include <unordered_set>

#include "runtime/base/error.h"

namespace weft::comm {
namespace {

Pool<Group>& pool() {
  static auto* groups = new Pool<Group>;
  return *groups;
}

/// Finds ranks of many processes in one group: a hash if the group is a table, arithmetic otherwise.
class Lookup {
 public:
  explicit Lookup(const pml::Members& members) : members_(members) {
    constexpr uint32_t few = 16;
    if (members.compact() || members.size() <= few) return;
    for (uint32_t rank = 0; rank < members.size(); ++rank) ranks_.emplace(members.at(rank), rank);
  }
  int64_t find(ProcessId id) const {
    if (ranks_.empty()) return members_.find(id);
    const auto found = ranks_.find(id);
    return found == ranks_.end() ? -1 : int64_t{found->second};
  }

 private:
  const pml::Members& members_;
  std::unordered_map<ProcessId, uint32_t> ranks_;
};

/// A group made of two: only the members of MPI_GROUP_EMPTY have no instance, and they are none.
Group* combine(const Group& a, const Group& b, std::vector<ProcessId> members) {
  if (members.empty()) return &empty_group();
  const Group& origin = a.instance ? a : b;
  return make_group(*origin.instance, std::move(members), origin.session);
}

/// Members of `a` that are (`wanted`) or are not in `b`.
std::vector<ProcessId> select(const pml::Members& a, const pml::Members& b, bool wanted) {
  const Lookup in_b(b);
  std::vector<ProcessId> result;
  for (uint32_t rank = 0; rank < a.size(); ++rank)
    if ((in_b.find(a.at(rank)) >= 0) == wanted) result.push_back(a.at(rank));
  return result;
}

}  // namespace

void Group::destroy(Group* group) { pool().destroy(group); }

Group& empty_group() {
  static Group* empty = [] {
    Group* group = pool().make();
    group->predefined = true;
    group->abi_handle = 265;  // MPI_GROUP_EMPTY
    group->members = std::make_shared<pml::Members>();
    return group;
  }();
  return *empty;
}

Group* make_group(Instance& instance, std::shared_ptr<const pml::Members> members, uint64_t session) {
  if (members->size() == 0) return &empty_group();
  Group* group = pool().make();
  const int64_t mine = members->find({0, instance.job().rank});
  group->rank = mine < 0 ? MPI_UNDEFINED : static_cast<int>(mine);
  group->members = std::move(members);
  group->instance = &instance;
  group->session = session;
  return group;
}

Group* make_group(Instance& instance, std::vector<ProcessId> members, uint64_t session) {
  if (members.empty()) return &empty_group();
  return make_group(instance, std::make_shared<pml::Members>(pml::Members::list(std::move(members))), session);
}

Group* group_union(const Group& a, const Group& b) {
  std::vector<ProcessId> all;
  for (uint32_t rank = 0; rank < a.members->size(); ++rank) all.push_back(a.members->at(rank));
  for (const ProcessId& id : select(*b.members, *a.members, false)) all.push_back(id);
  return combine(a, b, std::move(all));
}

Group* group_intersection(const Group& a, const Group& b) { return combine(a, b, select(*a.members, *b.members, true)); }

Group* group_difference(const Group& a, const Group& b) { return combine(a, b, select(*a.members, *b.members, false)); }

Group* group_include(const Group& group, std::span<const int> ranks) {
  std::vector<ProcessId> chosen;
  chosen.reserve(ranks.size());
  for (int rank : ranks) chosen.push_back(group.members->at(static_cast<uint32_t>(rank)));
  return combine(group, group, std::move(chosen));
}

Group* group_exclude(const Group& group, std::span<const int> ranks) {
  std::vector<bool> left_out(group.members->size());
  for (int rank : ranks) left_out[static_cast<size_t>(rank)] = true;
  std::vector<ProcessId> kept;
  for (uint32_t rank = 0; rank < group.members->size(); ++rank)
    if (!left_out[rank]) kept.push_back(group.members->at(rank));
  return combine(group, group, std::move(kept));
}

int check_ranks(const Group& group, std::span<const int> ranks) {
  std::unordered_set<int> seen;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= group.size())
      return fail(MPI_ERR_RANK, "ranks[%zu] = %d is outside the group (0..%d)", i, ranks[i], group.size() - 1);
    if (!seen.insert(ranks[i]).second)
      return fail(MPI_ERR_RANK, "ranks[%zu] = %d is named twice; each process may appear once", i, ranks[i]);
  }
  return MPI_SUCCESS;
}

int expand_ranges(const Group& group, std::span<const RankRange> ranges, std::vector<int>& ranks) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto [first, last, stride] = ranges[i];
    if (stride == 0) return fail(MPI_ERR_ARG, "ranges[%zu] has stride 0; a stride must be positive or negative", i);
    for (const int rank : {first, last})
      if (rank < 0 || rank >= group.size())
        return fail(MPI_ERR_RANK, "ranges[%zu] names rank %d, outside the group (0..%d)", i, rank, group.size() - 1);
    if ((stride > 0 && first > last) || (stride < 0 && first < last))
      return fail(MPI_ERR_ARG, "ranges[%zu] = (%d, %d, %d) leads away from its end", i, first, last, stride);
    for (int64_t rank = first; stride > 0 ? rank <= last : rank >= last; rank += stride) ranks.push_back(static_cast<int>(rank));
  }
  return check_ranks(group, ranks);
}

int compare(const pml::Members& a, const pml::Members& b) {
  if (a.size() != b.size()) return MPI_UNEQUAL;
  if (a == b) return MPI_IDENT;
  const Lookup in_b(b);
  bool same_order = true;
  for (uint32_t rank = 0; rank < a.size(); ++rank) {
    const int64_t there = in_b.find(a.at(rank));
    if (there < 0) return MPI_UNEQUAL;
    same_order &= there == rank;
  }
  return same_order ? MPI_IDENT : MPI_SIMILAR;
}

void translate(const Group& from, std::span<const int> in, const Group& to, int* out) {
  const Lookup there(*to.members);
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] == MPI_PROC_NULL) {
      out[i] = MPI_PROC_NULL;
      continue;
    }
    const int64_t rank = there.find(from.members->at(static_cast<uint32_t>(in[i])));
    out[i] = rank < 0 ? MPI_UNDEFINED : static_cast<int>(rank);
  }
}

}  // namespace weft::comm
