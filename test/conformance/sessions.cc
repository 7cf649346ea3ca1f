// Sessions: alone and together, again and again, of several threads, before, beside and after the world model; process sets and kinds
// of memory. The argument names what is tested: each begins in a process of its own, as MPI is initialised in many ways here.
#include <unistd.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "check.h"

namespace {

/// By environment: nothing here may rely on the world model.
int own_rank() { return std::getenv("OMPI_COMM_WORLD_RANK") ? std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")) : 0; }

std::string value_of(MPI_Info info, const char* key) {
  char value[256] = "";
  int length = sizeof value, found = 0;
  MPI_Info_get_string(info, key, &length, value, &found);
  return found ? value : "(none)";
}

MPI_Session open_session(MPI_Info info = MPI_INFO_NULL) {
  MPI_Session session = MPI_SESSION_NULL;
  CHECK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS && session != MPI_SESSION_NULL);
  return session;
}

MPI_Comm communicator_of(MPI_Session session, const char* set, const char* tag) {
  MPI_Group group;
  MPI_Comm comm = MPI_COMM_NULL;
  CHECK(MPI_Group_from_session_pset(session, set, &group) == MPI_SUCCESS);
  CHECK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
  MPI_Group_free(&group);
  return comm;
}

/// The sum over all ranks of a communicator, and its size.
void use(MPI_Comm comm) {
  int size = 0, rank = 0, sum = 0;
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &rank);
  CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == size * (size - 1) / 2);
}

void use_once(const char* tag) {
  MPI_Session session = open_session();
  MPI_Comm comm = communicator_of(session, "mpi://WORLD", tag);
  use(comm);
  MPI_Comm_free(&comm);
  CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS && session == MPI_SESSION_NULL);
}

/// Opening one asks nobody: ranks do so alone and at different times, and meet later.
void alone() {
  if (own_rank() == 0) {
    MPI_Session session = open_session();
    MPI_Comm self = communicator_of(session, "mpi://SELF", "alone");
    use(self);
    MPI_Comm_free(&self);
    MPI_Session_finalize(&session);
    MPI_Session held = open_session();  // over what the others begin and end meanwhile
    use_once("together");
    use_once("together");
    MPI_Session_finalize(&held);
  } else {
    usleep(100000);
    use_once("together");
    use_once("together");
  }
  use_once("at last");
}

/// A message that its receiver asks for only when the sender's sessions have ended. Nobody but MPI could bring it there.
void left_behind() {
  std::vector<char> data(20000, 'x');
  MPI_Session session = open_session();
  MPI_Comm comm = communicator_of(session, "mpi://WORLD", "left behind");
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (rank == 0)
    for (int to = 1; to < size; ++to) MPI_Send(data.data(), 2000, MPI_CHAR, to, 3, comm);
  else
    usleep(50000);
  if (rank > 0) {
    MPI_Recv(data.data(), 20000, MPI_CHAR, 0, 3, comm, MPI_STATUS_IGNORE);
    CHECK(data[1999] == 'x');
  }
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
}

void threads() {
  std::vector<std::thread> all;
  for (int t = 0; t < 3; ++t)
    all.emplace_back([t] {
      for (int i = 0; i < 5; ++i) use_once(("thread " + std::to_string(t)).c_str());
    });
  for (std::thread& thread : all) thread.join();
}

/// With the world model: sessions before it, beside it and after it.
void with_world() {
  use_once("before");
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  use(MPI_COMM_WORLD);
  MPI_Session beyond = open_session();
  use_once("beside");
  use(MPI_COMM_WORLD);
  MPI_Finalize();
  MPI_Comm comm = communicator_of(beyond, "mpi://WORLD", "beyond");
  use(comm);
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&beyond);
  use_once("after");
}

/// The first session after the world model, which has closed everything.
void after_world() {
  MPI_Init(nullptr, nullptr);
  use(MPI_COMM_WORLD);
  MPI_Finalize();
  if (own_rank() == 0) usleep(50000);
  use_once("after");
  use_once("once more");
}

/// A set has as many processes, and those talk to each other.
void look_into(MPI_Session session, const std::string& name, int expected) {
  MPI_Group group;
  int size = 0, rank = MPI_UNDEFINED;
  CHECK(MPI_Group_from_session_pset(session, name.c_str(), &group) == MPI_SUCCESS);
  MPI_Group_size(group, &size);
  MPI_Group_rank(group, &rank);
  CHECK(size == expected);
  MPI_Group_free(&group);
  if (rank == MPI_UNDEFINED) return;
  MPI_Comm comm = communicator_of(session, name.c_str(), name.c_str());
  use(comm);
  MPI_Comm_free(&comm);
}

/// The part of a communicator that is in a process set (MPI_COMM_TYPE_RESOURCE_GUIDED); each rank names one that it is in, or not.
void split_by_set(MPI_Session session, const std::string& name) {
  MPI_Comm world = communicator_of(session, "mpi://WORLD", "split"), part;
  MPI_Group group, got;
  MPI_Info info;
  int rank = 0, result = 0;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_pset_name", name.c_str());
  MPI_Group_from_session_pset(session, name.c_str(), &group);
  MPI_Group_rank(group, &rank);
  CHECK(MPI_Comm_split_type(world, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &part) == MPI_SUCCESS);
  CHECK((part == MPI_COMM_NULL) == (rank == MPI_UNDEFINED));
  if (part != MPI_COMM_NULL) {
    use(part);
    MPI_Comm_group(part, &got);
    MPI_Group_compare(got, group, &result);
    CHECK(result == MPI_IDENT);
    MPI_Group_free(&got);
    MPI_Comm_free(&part);
  }
  MPI_Group_free(&group);
  MPI_Info_free(&info);
  MPI_Comm_free(&world);
}

/// WANTED_SETS: names and sizes of all those that there are to be, but for the three that there always are.
void process_sets() {
  MPI_Session session = open_session();
  int count = 0, size = 0;
  MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count);
  std::set<std::string> names;
  for (int n = 0; n < count; ++n) {
    int length = 0;
    CHECK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, nullptr) == MPI_SUCCESS);
    std::string name(size_t(length), '?');
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, name.data());
    name.resize(size_t(length) - 1);
    names.insert(name);
    MPI_Info about;
    CHECK(MPI_Session_get_pset_info(session, name.c_str(), &about) == MPI_SUCCESS);
    MPI_Group group;
    CHECK(MPI_Group_from_session_pset(session, name.c_str(), &group) == MPI_SUCCESS);
    MPI_Group_size(group, &size);
    CHECK(value_of(about, "mpi_size") == std::to_string(size));
    MPI_Group_free(&group);
    MPI_Info_free(&about);
  }
  CHECK(names.count("mpi://WORLD") && names.count("mpi://SELF"));
  const char* const list = std::getenv("WANTED_SETS");
  std::istringstream wanted(list ? list : "");
  std::string name;
  std::set<std::string> known{"mpi://WORLD", "mpi://SELF", "mpix://SHARED"};
  for (int expected = 0; wanted >> name >> expected; known.insert(name)) {
    CHECK(names.count(name) == 1);
    look_into(session, name, expected);
    split_by_set(session, name);
  }
  CHECK(!list || names == known);
  for (const char* always : {"mpi://WORLD", "mpi://SELF", "mpi://world", "MPI://Self"}) split_by_set(session, always);
  MPI_Group none = MPI_GROUP_EMPTY;
  CHECK(check::error_class(MPI_Group_from_session_pset(session, "no such set", &none)) == MPI_ERR_ARG && none == MPI_GROUP_NULL);
  MPI_Session_finalize(&session);
}

int handled = 0;
void handler(MPI_Session*, int*, ...) { ++handled; }

/// Of two sessions at once: each has its own error handler and kinds of memory; what comes from it says so.
void apart() {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_memory_alloc_kinds", "system,mpi:alloc_mem,moon:dust,mpi:moon");
  MPI_Info_set(info, "thread_level", "MPI_THREAD_SERIALIZED");
  MPI_Session one = open_session(info), two = open_session();
  MPI_Info used;
  MPI_Session_get_info(one, &used);
  CHECK(value_of(used, "mpi_memory_alloc_kinds") == "system,mpi:alloc_mem,mpi");
  CHECK(value_of(used, "thread_level") == "MPI_THREAD_SERIALIZED");
  MPI_Info_free(&used);
  MPI_Session_get_info(two, &used);
  CHECK(value_of(used, "mpi_memory_alloc_kinds") == "mpi,system");
  MPI_Info_free(&used);
  MPI_Errhandler counts;
  MPI_Session_create_errhandler(handler, &counts);
  MPI_Session_set_errhandler(one, counts);
  MPI_Group group;
  MPI_Group_from_session_pset(two, "no such set", &group);
  CHECK(handled == 0);
  MPI_Group_from_session_pset(one, "no such set", &group);
  CHECK(handled == 1);
  MPI_Errhandler_free(&counts);

  MPI_Comm of_one = communicator_of(one, "mpi://WORLD", "one"), of_two = communicator_of(two, "mpi://WORLD", "two");
  MPI_Comm_get_info(of_one, &used);
  CHECK(value_of(used, "mpi_memory_alloc_kinds") == "system,mpi:alloc_mem,mpi");
  CHECK(value_of(used, "mpi_assert_memory_alloc_kinds") == "(none)");
  MPI_Info_free(&used);
  MPI_Info_set(info, "mpi_assert_memory_alloc_kinds", "mpi:alloc_mem,system");
  MPI_Comm_set_info(of_two, info);
  MPI_Info_set(info, "mpi_assert_memory_alloc_kinds", "system,moon");
  MPI_Comm_set_info(of_two, info);  // ignored: there is no such kind
  MPI_Comm_get_info(of_two, &used);
  CHECK(value_of(used, "mpi_memory_alloc_kinds") == "mpi,system");
  CHECK(value_of(used, "mpi_assert_memory_alloc_kinds") == "mpi:alloc_mem,system");
  MPI_Info_free(&used);
  MPI_Info_free(&info);
  use(of_one);
  use(of_two);
  MPI_Comm_free(&of_one);
  MPI_Session_finalize(&one);
  use(of_two);
  MPI_Comm_free(&of_two);
  MPI_Session_finalize(&two);
}

/// Memory that was lent for buffered sends is the user's again when the communicator or the session is freed that it was lent to. The
/// messages are too large to leave before somebody asks for them.
void lent(bool to_session) {
  constexpr int count = 1 << 20;
  MPI_Session session = open_session();
  MPI_Comm comm = communicator_of(session, "mpi://WORLD", "lent");
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  std::vector<char> data(count, 'a'), lent(size_t(size) * (count + MPI_BSEND_OVERHEAD));
  if (rank == 0) {
    if (to_session)
      MPI_Session_attach_buffer_c(session, lent.data(), MPI_Count(lent.size()));
    else
      MPI_Comm_attach_buffer_c(comm, lent.data(), MPI_Count(lent.size()));
    for (int to = 1; to < size; ++to) CHECK(MPI_Bsend(data.data(), count, MPI_CHAR, to, 0, comm) == MPI_SUCCESS);
  } else {
    usleep(50000);
    MPI_Recv(data.data(), count, MPI_CHAR, 0, 0, comm, MPI_STATUS_IGNORE);
    CHECK(data == std::vector<char>(count, 'a'));
  }
  MPI_Comm_free(&comm);
  if (!to_session) std::ranges::fill(lent, 'z');
  MPI_Session_finalize(&session);
  std::ranges::fill(lent, 'z');
}

void lent_to_comm() { lent(false); }
void lent_to_session() { lent(true); }

int refusals = 0;
void comm_handler(MPI_Comm* comm, int*, ...) { refusals += *comm == MPI_COMM_NULL; }
void session_handler(MPI_Session* session, int*, ...) { refusals += *session == MPI_SESSION_NULL; }

/// What a call would give its new object also hears of its own errors, without any world model.
void refused() {
  MPI_Errhandler of_comm, of_session;
  MPI_Session_create_errhandler(session_handler, &of_session);
  MPI_Session session = MPI_SESSION_NULL;
  MPI_Session_init(MPI_INFO_NULL, of_session, &session);
  CHECK(check::error_class(MPI_Session_init(MPI_INFO_NULL, of_session, nullptr)) == MPI_ERR_ARG && refusals == 1);
  MPI_Comm_create_errhandler(comm_handler, &of_comm);
  MPI_Group group;
  MPI_Comm comm;
  MPI_Group_from_session_pset(session, "mpi://SELF", &group);
  CHECK(check::error_class(MPI_Comm_create_from_group(group, nullptr, MPI_INFO_NULL, of_comm, &comm)) == MPI_ERR_ARG && refusals == 2);
  const std::string longest(MPI_MAX_STRINGTAG_LEN - 1, 'x'), too_long = longest + "x";
  CHECK(check::error_class(MPI_Comm_create_from_group(group, too_long.c_str(), MPI_INFO_NULL, of_comm, &comm)) == MPI_ERR_ARG &&
        refusals == 3);
  const int error = MPI_Intercomm_create_from_groups(group, 0, group, 0, "overlap", MPI_INFO_NULL, of_comm, &comm);
  CHECK(check::error_class(error) == MPI_ERR_GROUP && refusals == 4);
  MPI_Comm world = communicator_of(session, "mpi://WORLD", longest.c_str());
  use(world);
  MPI_Comm_free(&world);
  MPI_Group_free(&group);
  MPI_Errhandler_free(&of_comm);
  MPI_Errhandler_free(&of_session);
  MPI_Session_finalize(&session);
}

/// mpirun --memory-alloc-kinds.
void asked_for() {
  const char* wanted = std::getenv("WANTED_KINDS");
  MPI_Init(nullptr, nullptr);
  MPI_Info used;
  MPI_Comm_get_info(MPI_COMM_WORLD, &used);
  CHECK(wanted && value_of(used, "mpi_memory_alloc_kinds") == wanted);
  MPI_Info_free(&used);
  CHECK(value_of(MPI_INFO_ENV, "mpi_memory_alloc_kinds") == wanted);
  MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "alone";
  const std::pair<const char*, void (*)()> tests[] = {{"alone", alone},
                                                      {"left_behind", left_behind},
                                                      {"threads", threads},
                                                      {"with_world", with_world},
                                                      {"after_world", after_world},
                                                      {"apart", apart},
                                                      {"refused", refused},
                                                      {"lent_to_comm", lent_to_comm},
                                                      {"lent_to_session", lent_to_session},
                                                      {"process_sets", process_sets},
                                                      {"asked_for", asked_for}};
  check::failures = 1;
  for (const auto& [name, test] : tests)
    if (what == name) {
      check::failures = 0;
      check::rank = own_rank();
      test();
    }
  if (!check::failures && check::rank == 0) std::printf("%s: ok\n", what.c_str());
  return check::failures != 0;
}
