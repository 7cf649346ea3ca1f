// Communicators and groups: dup, split, create, attributes, error handlers, info, names, sessions.
#include <sched.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"

using check::rank;
using check::ranks;

namespace {

int sum_of_ranks(MPI_Comm comm) {
  int mine = 0, sum = 0;
  MPI_Comm_rank(comm, &mine);
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
  return sum;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

int compare(MPI_Comm a, MPI_Comm b) {
  int result = -1;
  MPI_Comm_compare(a, b, &result);
  return result;
}

void duplicates() {
  MPI_Comm copy, later;
  MPI_Request request;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_idup(MPI_COMM_WORLD, &later, &request);
  CHECK(sum_of_ranks(copy) == ranks * (ranks - 1) / 2);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(compare(copy, MPI_COMM_WORLD) == MPI_CONGRUENT && compare(copy, copy) == MPI_IDENT);
  CHECK(sum_of_ranks(later) == ranks * (ranks - 1) / 2);
  // Same pair, same tag, different communicators: never mixed.
  int out[3] = {1, 2, 3}, in[3] = {};
  MPI_Request requests[3];
  MPI_Comm comms[3] = {later, MPI_COMM_WORLD, copy};
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  for (int i = 0; i < 3; ++i) MPI_Isend(&out[i], 1, MPI_INT, right, 0, comms[i], &requests[i]);
  for (int i = 2; i >= 0; --i) MPI_Recv(&in[i], 1, MPI_INT, left, 0, comms[i], MPI_STATUS_IGNORE);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  CHECK(in[0] == 1 && in[1] == 2 && in[2] == 3);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&later);
  CHECK(copy == MPI_COMM_NULL);
}

void splits() {
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  int mine = -1;
  MPI_Comm_rank(half, &mine);
  const int members = (ranks + 1 - rank % 2) / 2;
  CHECK(size_of(half) == members && mine == members - 1 - rank / 2);
  CHECK(sum_of_ranks(half) == members * (members - 1) / 2);
  MPI_Comm_free(&half);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 3, 0, &half);
  CHECK((half == MPI_COMM_NULL) == (rank == 0));
  if (half != MPI_COMM_NULL) {
    CHECK(size_of(half) == ranks - 1);
    MPI_Comm_free(&half);
  }
  MPI_Comm shared;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
  CHECK(size_of(shared) >= 1 && size_of(shared) <= ranks);
  sum_of_ranks(shared);
  MPI_Comm_free(&shared);
}

/// Splits by the types of hardware that the library names, in processes bound to one CPU each.
void hardware() {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  int nth = rank % CPU_COUNT(&all), cpu = 0;
  while (!CPU_ISSET(cpu, &all) || nth-- > 0) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
  MPI_Info types, wish;
  MPI_Get_hw_resource_info(&types);
  MPI_Info_create(&wish);
  int count = 0;
  MPI_Info_get_nkeys(types, &count);
  for (int i = 0; i < count; ++i) {
    char type[MPI_MAX_INFO_KEY + 1], bound[8];
    int length = sizeof bound, found = 0;
    MPI_Info_get_nthkey(types, i, type);
    MPI_Info_get_string(types, type, &length, bound, &found);
    MPI_Info_set(wish, "mpi_hw_resource_type", type);
    MPI_Comm part;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, wish, &part);
    CHECK((part != MPI_COMM_NULL) == (std::string(bound) == "true"));
    if (part == MPI_COMM_NULL) continue;
    const bool finest = std::string(type) == "hwloc://PU";
    std::vector<int> cpus(static_cast<size_t>(size_of(part)));
    MPI_Allgather(&cpu, 1, MPI_INT, cpus.data(), 1, MPI_INT, part);
    if (finest) CHECK(cpus == std::vector<int>(cpus.size(), cpu));
    MPI_Comm_free(&part);
  }
  MPI_Info_set(wish, "mpi_hw_resource_type", "no such thing");
  MPI_Comm none, part;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, wish, &none);
  CHECK(none == MPI_COMM_NULL);
  MPI_Info_delete(wish, "mpi_hw_resource_type");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, wish, &part);
  if (part != MPI_COMM_NULL) {
    int named = 0, length = 0;
    MPI_Info_get_string(wish, "mpi_hw_resource_type", &length, nullptr, &named);
    CHECK(named && length > 1);
    CHECK(size_of(part) < ranks);
    MPI_Comm_free(&part);
  }
  MPI_Info_free(&wish);
  MPI_Info_free(&types);
  sched_setaffinity(0, sizeof all, &all);
}

void from_groups() {
  MPI_Group world, odd;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int range[1][3] = {{ranks > 1 ? 1 : 0, ranks - 1, 2}};
  MPI_Group_range_incl(world, 1, range, &odd);
  MPI_Comm made, grouped = MPI_COMM_NULL;
  MPI_Comm_create(MPI_COMM_WORLD, odd, &made);
  int mine = -1;
  MPI_Group_rank(odd, &mine);
  CHECK((made == MPI_COMM_NULL) == (mine == MPI_UNDEFINED));
  if (mine != MPI_UNDEFINED) {
    MPI_Comm_create_group(MPI_COMM_WORLD, odd, 17, &grouped);
    CHECK(compare(made, grouped) == MPI_CONGRUENT);
    const int n = size_of(grouped);
    CHECK(sum_of_ranks(grouped) == n * (n - 1) / 2);
    MPI_Comm_free(&grouped);
    MPI_Comm_free(&made);
  }
  MPI_Group rest, all, none;
  MPI_Group_difference(world, odd, &rest);
  MPI_Group_union(rest, odd, &all);
  MPI_Group_intersection(rest, odd, &none);
  int result = -1, size = -1;
  MPI_Group_compare(world, all, &result);
  CHECK(result == (ranks > 2 ? MPI_SIMILAR : MPI_IDENT));
  MPI_Group_size(none, &size);
  CHECK(size == 0 && none == MPI_GROUP_EMPTY);
  std::vector<int> from(static_cast<size_t>(ranks)), to(from.size());
  for (int i = 0; i < ranks; ++i) from[size_t(i)] = i;
  MPI_Group_translate_ranks(all, ranks, from.data(), world, to.data());
  for (int i = 0, seen = 0; i < ranks; ++i, seen = 0) {
    for (int t : to) seen += t == i;
    CHECK(seen == 1);
  }
  for (MPI_Group* g : {&world, &odd, &rest, &all}) MPI_Group_free(g);
}

int copies = 0, deletions = 0;
int copy_callback(MPI_Comm, int, void* extra, void* in, void* out, int* flag) {
  ++copies;
  *static_cast<void**>(out) = static_cast<char*>(in) + *static_cast<int*>(extra);
  *flag = 1;
  return MPI_SUCCESS;
}
int delete_callback(MPI_Comm, int, void*, void*) {
  ++deletions;
  return MPI_SUCCESS;
}

void attributes() {
  int step = 5, key = MPI_KEYVAL_INVALID, flag = 0;
  MPI_Comm_create_keyval(copy_callback, delete_callback, &key, &step);
  char base[16];
  MPI_Comm copy;
  MPI_Comm_set_attr(MPI_COMM_WORLD, key, base);
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  char* value = nullptr;
  MPI_Comm_get_attr(copy, key, &value, &flag);
  CHECK(flag && value == base + 5 && copies == 1);
  MPI_Comm_free(&copy);
  CHECK(deletions == 1);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
  CHECK(deletions == 2);
  MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &flag);
  CHECK(!flag);
  MPI_Comm_free_keyval(&key);
  CHECK(key == MPI_KEYVAL_INVALID);
  int* bound = nullptr;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
  CHECK(flag && *bound >= 32767);
}

int handled = 0;
void handler(MPI_Comm* comm, int* code, ...) {
  handled = check::error_class(*code);
  CHECK(*comm == MPI_COMM_WORLD);
}

void error_handlers() {
  MPI_Errhandler mine, before;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
  CHECK(before == MPI_ERRORS_ARE_FATAL);
  MPI_Comm_create_errhandler(handler, &mine);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
  MPI_Errhandler_free(&mine);
  MPI_Send(&rank, 1, MPI_INT, ranks + 3, 0, MPI_COMM_WORLD);
  CHECK(handled == MPI_ERR_RANK);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  CHECK(check::error_class(MPI_Send(&rank, -1, MPI_INT, 0, 0, MPI_COMM_WORLD)) == MPI_ERR_COUNT);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  CHECK(check::error_class(MPI_Send(&rank, 1, MPI_INT, 0, -8, copy)) == MPI_ERR_TAG);
  MPI_Comm_free(&copy);
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(MPI_ERR_TRUNCATE, text, &length);
  CHECK(length > 0 && length == int(std::strlen(text)));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
}

void throwing_handler(MPI_Comm*, int* code, ...) { throw std::runtime_error(std::to_string(check::error_class(*code))); }

/// What the call throws; nothing else may come of it.
std::string thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing";
}

/// C++ programs throw in error handlers: the exception passes through the library, which goes on.
void exceptions() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(throwing_handler, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  MPI_Errhandler_free(&handler);
  for (int i = 0; i < 3; ++i) {
    CHECK(thrown([&] { MPI_Send(&rank, -1, MPI_INT, 0, 0, comm); }) == std::to_string(MPI_ERR_COUNT));
    CHECK(thrown([&] { MPI_Bcast(&rank, 1, MPI_INT, ranks, comm); }) == std::to_string(MPI_ERR_ROOT));
    const int two[] = {1, 2};
    int one = 0;
    const auto exchange = [&] {
      MPI_Sendrecv(two, 2, MPI_INT, (rank + 1) % ranks, 0, &one, 1, MPI_INT, (rank + ranks - 1) % ranks, 0, comm, MPI_STATUS_IGNORE);
    };
    CHECK(thrown(exchange) == std::to_string(MPI_ERR_TRUNCATE));
    CHECK(sum_of_ranks(comm) == ranks * (ranks - 1) / 2);
  }
  MPI_Comm_free(&comm);
}

/// What MPI says of the start of this process.
void environment() {
  const auto value = [](const char* key) {
    char text[MPI_MAX_INFO_VAL];
    int length = sizeof text, flag = 0;
    MPI_Info_get_string(MPI_INFO_ENV, key, &length, text, &flag);
    return flag ? std::string(text) : std::string("missing");
  };
  const auto ends_with = [](const std::string& text, const std::string& end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
  };
  CHECK(ends_with(value("command"), "communicators"));
  CHECK(value("argv") == "");
  CHECK(value("maxprocs") == std::to_string(ranks));
  CHECK(value("arch") != "missing" && value("host") != "missing" && value("wdir") != "missing");
}

void info_and_names() {
  MPI_Info info, copy;
  MPI_Info_create(&info);
  MPI_Info_set(info, "colour", "blue");
  MPI_Info_set(info, "size", "large");
  MPI_Info_set(info, "colour", "red");
  int keys = 0, flag = 0, length = 64;
  char value[64], key[MPI_MAX_INFO_KEY];
  MPI_Info_get_nkeys(info, &keys);
  MPI_Info_dup(info, &copy);
  MPI_Info_delete(info, "size");
  MPI_Info_get_string(copy, "colour", &length, value, &flag);
  CHECK(keys == 2 && flag && !std::strcmp(value, "red") && length == 4);
  MPI_Info_get_nthkey(copy, 1, key);
  CHECK(!std::strcmp(key, "size"));
  MPI_Info_free(&info);
  MPI_Info_free(&copy);

  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_name(comm, "a copy of the world");
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Comm_get_name(comm, name, &length);
  CHECK(!std::strcmp(name, "a copy of the world"));
  MPI_Comm_free(&comm);
  MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
  CHECK(!std::strcmp(name, "MPI_COMM_WORLD"));
}

void sessions() {
  MPI_Session session;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  int sets = 0, length = MPI_MAX_PSET_NAME_LEN;
  MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets);
  CHECK(sets >= 2);
  char name[MPI_MAX_PSET_NAME_LEN];
  MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, name);
  CHECK(!std::strcmp(name, "mpi://WORLD"));
  MPI_Group world;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
  MPI_Comm comm;
  MPI_Comm_create_from_group(world, "conformance/sessions", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  CHECK(size_of(comm) == ranks && sum_of_ranks(comm) == ranks * (ranks - 1) / 2);
  MPI_Comm_free(&comm);
  MPI_Group_free(&world);
  MPI_Session_finalize(&session);
  CHECK(session == MPI_SESSION_NULL);
}

}  // namespace

int main(int argc, char** argv) {
  check::begin(argc, argv);
  duplicates();
  splits();
  hardware();
  from_groups();
  attributes();
  error_handlers();
  exceptions();
  environment();
  info_and_names();
  sessions();
  for (int i = 0; i < 300; ++i) {  // context ids and memory are given back or never run out
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_free(&comm);
  }
  return check::end("communicators");
}
