// Initialisation and the end (MPI 5.0, 11.2 and 11.4): the world model, built on the instance that sessions share.
#include "api/init.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "api/buffers.h"
#include "api/generated/bodies.h"
#include "api/handles.h"
#include "api/state.h"
#include "coll/select.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"
#include "runtime/config/config.h"
#include "runtime/topo/cpus.h"

namespace weft::api {
namespace {

void speak_as(const boot::Job& job) { log_as(("rank " + std::to_string(job.rank) + " on " + job.host).c_str()); }

/// Misspelt or malformed variables are said once a job.
void complain(const std::vector<std::string>& complaints, const boot::Job& job) {
  if (job.rank != 0) return;
  for (const std::string& complaint : complaints) log(Level::warning, "%s", complaint.c_str());
}

/// The command and, with spaces between them, its arguments. What is longer than a value of an info may be is left out.
void describe_command(comm::Info& info) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words(std::istreambuf_iterator<char>(file), {});
  const size_t command = std::min(words.find('\0'), words.size());
  if (command == 0 || command >= MPI_MAX_INFO_VAL) return;
  info.set("command", words.substr(0, command));
  words.erase(0, command + 1);
  if (!words.empty() && words.back() == '\0') words.pop_back();
  std::ranges::replace(words, '\0', ' ');
  if (words.size() < MPI_MAX_INFO_VAL) info.set("argv", words);
}

void describe_start(const boot::Job& job, const char* level) {
  comm::Info& info = comm::environment_info();
  describe_command(info);
  char folder[4096];
  if (getcwd(folder, sizeof folder)) info.set("wdir", folder);
  if (utsname machine; uname(&machine) == 0) info.set("arch", machine.machine);
  info.set("host", job.host);
  info.set("maxprocs", std::to_string(job.size));
  info.set("soft", std::to_string(job.size));
  info.set("thread_level", level);
  info.set("mpi_memory_alloc_kinds", state.instance->memory_kinds(0));
}

/// A process that ends in good order leaves its job then, unless it is still in it.
void close_at_exit() {
  static const pid_t opener = getpid();  // and not its children
  static const bool registered [[maybe_unused]] = std::atexit([] {
                                                    if (getpid() != opener || state.active || !state.instance) return;
                                                    state.instance->close();
                                                    state.instance.reset();
                                                  }) == 0;
}

}  // namespace

const char* thread_level_name(int level) {
  switch (level) {
    case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_MULTIPLE: return "MPI_THREAD_MULTIPLE";
    default: return "MPI_THREAD_SINGLE";
  }
}

/// Ranks that share CPUs begin side by side: neighbours, who work together more often than not, on different ones. Whoever has slept since
/// may have been woken elsewhere.
void take_place(const boot::Job& job) {
  if (job.node_ranks.size() <= job.cpus) return;
  topo::start_at(job.local_rank);
}

int open_instance(int wanted_level, int* provided) {
  const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
  if (std::ranges::find(levels, wanted_level) == std::end(levels))
    return fail(MPI_ERR_ARG, "required is %d, which is no level of thread support; MPI_THREAD_MULTIPLE is one", wanted_level);
  *provided = wanted_level;
  if (state.instance) {
    if (!state.active) state.active = true;  // threads with sessions of their own read it meanwhile
    if (wanted_level == MPI_THREAD_MULTIPLE && !state.instance->threads()) *provided = MPI_THREAD_SERIALIZED;
    return MPI_SUCCESS;
  }
  auto complaints = config::load_environment();
  if (std::string wrong = coll::complaint(); !wrong.empty()) complaints.push_back(std::move(wrong));
  auto bootstrap = boot::open();
  if (!bootstrap) return fail(MPI_ERR_OTHER, "cannot join the job: %s", bootstrap.failure().text.c_str());
  speak_as((*bootstrap)->job());
  complain(complaints, (*bootstrap)->job());
  auto instance = comm::Instance::open(std::move(*bootstrap), wanted_level == MPI_THREAD_MULTIPLE, state.opened);
  if (!instance) return fail(MPI_ERR_OTHER, "cannot start: %s", instance.failure().text.c_str());
  state.instance = std::move(*instance);
  take_place(state.instance->boot().job());
  state.active = state.opened = true;
  return MPI_SUCCESS;
}

int close_instance_if_unused() {
  if (state.world_phase == Phase::active || state.sessions > 0 || !state.instance) return MPI_SUCCESS;
  state.active = false;
  if (state.sessions_made > 0) {
    state.instance->lanes().settle();
    close_at_exit();
    return MPI_SUCCESS;
  }
  tool::keep_figures();
  const Status status = state.instance->close();
  state.instance.reset();
  return fail(status);
}

}  // namespace weft::api

namespace weft::body {

using namespace api;

int Init_thread(int*, char***, int required, int* provided) {
  std::lock_guard hold(state.lock);
  if (state.world_phase == Phase::active) return fail(MPI_ERR_OTHER, "MPI is initialised already; call MPI_Init or MPI_Init_thread once");
  if (state.world_phase == Phase::finalized)
    return fail(MPI_ERR_OTHER, "MPI_Init after MPI_Finalize; a process can start MPI's world model once (sessions can be opened again)");
  int level = MPI_THREAD_SINGLE;
  if (const int error = open_instance(required, &level)) return error;
  if (auto met = state.instance->meet(); !met) return fail(MPI_ERR_OTHER, "cannot start: %s", met.failure().text.c_str());
  take_place(state.instance->boot().job());
  describe_start(state.instance->job(), thread_level_name(level));
  state.thread_level = level;
  state.main_thread = std::this_thread::get_id();
  state.world = state.instance->world();
  state.self = state.instance->self();
  if (state.initial_errhandler) {
    for (comm::Communicator* comm : {state.world, state.self}) {
      release(comm->errhandler);
      comm->errhandler = retain(state.initial_errhandler);
    }
  }
  state.world_phase = Phase::active;
  if (provided) *provided = level;
  return MPI_SUCCESS;
}

int Init(int* argc, char*** argv) { return Init_thread(argc, argv, MPI_THREAD_SINGLE, nullptr); }

int Finalize() {
  // Callbacks of attributes may still call MPI (MPI 5.0, 11.2.4), so no lock is held yet.
  for (comm::Communicator* comm : {state.self, state.world}) {
    if (const int error = comm->attributes.clear(handle_of(*comm)))
      return fail(error, "a delete callback of an attribute of %s returned error %d", comm->name.c_str(), error);
  }
  api::drop_buffers();
  std::lock_guard hold(state.lock);
  state.world_phase = Phase::finalized;
  state.world = state.self = nullptr;
  return close_instance_if_unused();
}

int Initialized(int* flag) {
  *flag = state.world_phase != Phase::before;
  return MPI_SUCCESS;
}

int Finalized(int* flag) {
  *flag = state.world_phase == Phase::finalized;
  return MPI_SUCCESS;
}

int Is_thread_main(int* flag) {
  *flag = state.main_thread == std::this_thread::get_id();
  return MPI_SUCCESS;
}

int Query_thread(int* provided) {
  *provided = state.thread_level;
  return MPI_SUCCESS;
}

int Abort(comm::Communicator& comm, int errorcode) {
  const std::string name = comm.name.empty() ? "a communicator" : comm.name;
  const int status = errorcode & 0xff ? errorcode & 0xff : 1;
  end_job(status, "MPI_Abort(" + name + ", " + std::to_string(errorcode) + ") was called");
}

}  // namespace weft::body
