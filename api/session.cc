// Sessions (MPI 5.0, 11.3).
#include <algorithm>
#include <cstring>
#include <string>

#include "api/buffers.h"
#include "api/generated/bodies.h"
#include "api/handles.h"
#include "api/init.h"
#include "comm/create.h"
#include "comm/group.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/mem/alloc_kinds.h"

namespace weft::body {

using namespace api;

namespace {

constexpr const char* kinds_key = "mpi_memory_alloc_kinds";

/// Sessions without a wish are for several threads: whoever opens the first one does not know what others will want later.
int level_in(const comm::Info* info) {
  const std::string* wish = info ? info->find("thread_level") : nullptr;
  for (const int level : {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED})
    if (wish && *wish == thread_level_name(level)) return level;
  return MPI_THREAD_MULTIPLE;
}

/// Names of all process sets, in the order in which MPI_Session_get_nth_pset counts them.
std::vector<std::string> process_sets(comm::Session& session) {
  std::vector<std::string> names{std::string(comm::kWorldSet), std::string(comm::kSelfSet), std::string(comm::kHostSet)};
  if (auto others = session.instance->boot().process_sets())
    for (std::string& name : *others)
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  return names;
}

Result<std::vector<ProcessId>> members_of(comm::Session& session, std::string_view name) {
  const boot::Job& job = session.instance->job();
  std::vector<ProcessId> members;
  if (same_word(name, comm::kSelfSet)) return std::vector<ProcessId>{{0, job.rank}};
  if (same_word(name, comm::kWorldSet)) {
    for (uint32_t rank = 0; rank < job.size; ++rank) members.push_back({0, rank});
    return members;
  }
  const auto ranks =
      same_word(name, comm::kHostSet) ? Result<std::vector<uint32_t>>(job.node_ranks) : session.instance->boot().process_set(name);
  if (!ranks) return ranks.failure();
  for (const uint32_t rank : *ranks) members.push_back({0, rank});
  return members;
}

int unknown_set(const char* name, const std::string& why) {
  return fail(MPI_ERR_ARG, "pset_name: there is no process set \"%s\" (%s); MPI_Session_get_nth_pset lists them", name, why.c_str());
}

}  // namespace

int Session_init(comm::Info* info, comm::Errhandler& errhandler, MPI_Session* session) {
  std::lock_guard hold(state.lock);
  int level = MPI_THREAD_SINGLE;
  if (const int error = open_instance(level_in(info), &level)) return error;
  if (state.sessions_made == 0)
    if (auto told = state.instance->begin_sessions(); !told) {
      close_instance_if_unused();
      return fail(MPI_ERR_OTHER, "cannot start: %s", told.failure().text.c_str());
    }
  comm::Session* made = comm::Session::make();
  made->instance = state.instance;
  made->errhandler = retain(&errhandler);
  made->thread_level = level;
  made->number = ++state.sessions_made;
  if (const std::string* kinds = info ? info->find(kinds_key) : nullptr)
    made->instance->set_memory_kinds(made->number, mem::offered_alloc_kinds(*kinds));
  ++state.sessions;
  *session = encode(made);
  return MPI_SUCCESS;
}

int Session_finalize(MPI_Session* session) {
  comm::Session* ended = decode(*session);
  drop_session_buffer(ended->number);  // waits for others, so no lock is held yet
  std::lock_guard hold(state.lock);
  ended->user_freed = true;
  ended->instance->set_memory_kinds(ended->number, {});
  ended->instance.reset();
  release(ended);
  *session = MPI_SESSION_NULL;
  --state.sessions;
  return close_instance_if_unused();
}

int Session_get_info(comm::Session& session, MPI_Info* info_used) {
  comm::Info* used = comm::Info::make();
  used->set("thread_level", thread_level_name(session.thread_level));
  used->set(kinds_key, session.instance->memory_kinds(session.number));
  *info_used = encode(used);
  return MPI_SUCCESS;
}

int Session_get_num_psets(comm::Session& session, comm::Info*, int* npset_names) {
  *npset_names = static_cast<int>(process_sets(session).size());
  return MPI_SUCCESS;
}

int Session_get_nth_pset(comm::Session& session, comm::Info*, int n, int* pset_len, char* pset_name) {
  const auto names = process_sets(session);
  if (n < 0 || static_cast<size_t>(n) >= names.size())
    return fail(MPI_ERR_ARG, "n = %d: this session has the process sets 0..%zu", n, names.size() - 1);
  const std::string& name = names[static_cast<size_t>(n)];
  if (*pset_len > 0) {
    const size_t room = std::min(name.size(), static_cast<size_t>(*pset_len) - 1);
    std::memcpy(pset_name, name.data(), room);
    pset_name[room] = 0;
  }
  *pset_len = static_cast<int>(name.size()) + 1;
  return MPI_SUCCESS;
}

int Session_get_pset_info(comm::Session& session, const char* pset_name, MPI_Info* info) {
  const auto members = members_of(session, pset_name);
  if (!members) return unknown_set(pset_name, members.failure().text);
  comm::Info* made = comm::Info::make();
  made->set("mpi_size", std::to_string(members->size()));
  *info = encode(made);
  return MPI_SUCCESS;
}

int Group_from_session_pset(comm::Session& session, const char* pset_name, MPI_Group* newgroup) {
  auto members = members_of(session, pset_name);
  if (!members) {
    *newgroup = MPI_GROUP_NULL;  // MPI 5.0, 7.3.2
    return unknown_set(pset_name, members.failure().text);
  }
  *newgroup = encode(comm::make_group(*session.instance, std::move(*members), session.number));
  return MPI_SUCCESS;
}

}  // namespace weft::body
