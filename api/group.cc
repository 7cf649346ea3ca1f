// Groups (MPI 5.0, 7.3).
#include "comm/group.h"

#include "api/generated/bodies.h"
#include "api/handles.h"
#include "runtime/base/error.h"

namespace weft::body {

using namespace api;

namespace {

std::span<const int> view(const int* ranks, int n) { return {ranks, static_cast<size_t>(n)}; }

int expand(const comm::Group& group, int n, const int (*ranges)[3], std::vector<int>& ranks) {
  std::vector<comm::RankRange> list;
  for (int i = 0; i < n; ++i) list.push_back({ranges[i][0], ranges[i][1], ranges[i][2]});
  return comm::expand_ranges(group, list, ranks);
}

}  // namespace

int Group_size(comm::Group& group, int* size) {
  *size = group.size();
  return MPI_SUCCESS;
}

int Group_rank(comm::Group& group, int* rank) {
  *rank = group.rank;
  return MPI_SUCCESS;
}

int Group_compare(comm::Group& group1, comm::Group& group2, int* result) {
  *result = comm::compare(*group1.members, *group2.members);
  return MPI_SUCCESS;
}

int Group_translate_ranks(comm::Group& group1, int n, const int ranks1[], comm::Group& group2, int ranks2[]) {
  for (int i = 0; i < n; ++i)
    if (ranks1[i] != MPI_PROC_NULL && (ranks1[i] < 0 || ranks1[i] >= group1.size()))
      return fail(MPI_ERR_RANK, "ranks1[%d] = %d is outside group1 (0..%d)", i, ranks1[i], group1.size() - 1);
  comm::translate(group1, view(ranks1, n), group2, ranks2);
  return MPI_SUCCESS;
}

int Group_union(comm::Group& group1, comm::Group& group2, MPI_Group* newgroup) {
  *newgroup = encode(comm::group_union(group1, group2));
  return MPI_SUCCESS;
}

int Group_intersection(comm::Group& group1, comm::Group& group2, MPI_Group* newgroup) {
  *newgroup = encode(comm::group_intersection(group1, group2));
  return MPI_SUCCESS;
}

int Group_difference(comm::Group& group1, comm::Group& group2, MPI_Group* newgroup) {
  *newgroup = encode(comm::group_difference(group1, group2));
  return MPI_SUCCESS;
}

int Group_incl(comm::Group& group, int n, const int ranks[], MPI_Group* newgroup) {
  if (const int error = comm::check_ranks(group, view(ranks, n))) return error;
  *newgroup = encode(comm::group_include(group, view(ranks, n)));
  return MPI_SUCCESS;
}

int Group_excl(comm::Group& group, int n, const int ranks[], MPI_Group* newgroup) {
  if (const int error = comm::check_ranks(group, view(ranks, n))) return error;
  *newgroup = encode(comm::group_exclude(group, view(ranks, n)));
  return MPI_SUCCESS;
}

int Group_range_incl(comm::Group& group, int n, const int (*ranges)[3], MPI_Group* newgroup) {
  std::vector<int> ranks;
  if (const int error = expand(group, n, ranges, ranks)) return error;
  *newgroup = encode(comm::group_include(group, ranks));
  return MPI_SUCCESS;
}

int Group_range_excl(comm::Group& group, int n, const int (*ranges)[3], MPI_Group* newgroup) {
  std::vector<int> ranks;
  if (const int error = expand(group, n, ranges, ranks)) return error;
  *newgroup = encode(comm::group_exclude(group, ranks));
  return MPI_SUCCESS;
}

int Group_free(MPI_Group* group) {
  comm::Group* freed = decode(*group);
  if (!freed->predefined) freed->user_freed = true;
  release(freed);
  *group = MPI_GROUP_NULL;
  return MPI_SUCCESS;
}

}  // namespace weft::body
