#include "launcher/pmix_server.h"

#include <fcntl.h>
#include <pmix.h>
#include <pmix_server.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>

#include "launcher/pmix/requests.h"
#include "launcher/pmix/values.h"
#include "runtime/boot/internal.h"

namespace weft::launcher {
namespace {

using pmix::InfoList;
using pmix::text;

/// PMIx keeps job data in mapped files of 4 MiB each and clears them page by page: over half of a small job's start-up. Server and
/// clients read these two names; a segment that fills up is followed by another of the same size. Of ranks on other hosts there is less.
size_t segment_size(uint32_t ranks, uint32_t local) {
  const size_t wanted = size_t{local} * 8192 + size_t{ranks - local} * 1024;
  return std::clamp<size_t>(wanted, 128 * 1024, 4096 * 1024) & ~size_t{0xffff};
}

std::vector<std::string> segment_sizes(const Layout& layout) {
  const size_t size = segment_size(uint32_t(layout.host_of.size()), uint32_t(layout.here().size()));
  return {"NS_META_SEG_SIZE=" + std::to_string(size), "NS_DATA_SEG_SIZE=" + std::to_string(size)};
}

class Server;
Server* the_server = nullptr;  // PMIx's upcalls carry no pointer; one server in a process

class Server final : public PmixServer {
 public:
  Server(const JobFacts& facts, Mailbox& mailbox)
      : mailbox_(mailbox), facts_(facts), layout_(*facts.layout), requests_(mailbox, *facts.services) {
    the_server = this;
  }
  Result<void> start();
  Result<void> add_space(const Space& space) override;
  void remove_space(const std::string& name) override;
  std::vector<std::string> environment(uint32_t rank) override;
  void answer_aborts() override;
  void notify(const Notice& notice) override;
  void published(uint32_t rank, Remote::ModexDone done) override;

  // upcalls
  static pmix_status_t connected(const pmix_proc_t* proc, void*, pmix_info_t[], size_t, pmix_op_cbfunc_t, void*);
  static pmix_status_t finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t, void*);
  static pmix_status_t abort(const pmix_proc_t* proc, void*, int status, const char message[], pmix_proc_t[], size_t, pmix_op_cbfunc_t done,
                             void*);
  static pmix_status_t fence(const pmix_proc_t[], size_t, const pmix_info_t[], size_t, char*, size_t, pmix_modex_cbfunc_t, void*);
  static pmix_status_t modex(const pmix_proc_t*, const pmix_info_t[], size_t, pmix_modex_cbfunc_t, void*);
  static pmix_status_t register_events(pmix_status_t*, size_t, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void*);
  static pmix_status_t deregister_events(pmix_status_t*, size_t, pmix_op_cbfunc_t, void*);
  static pmix_status_t query(pmix_proc_t*, pmix_query_t*, size_t, pmix_info_cbfunc_t, void*);
  pmix::Requests& requests() { return requests_; }

 private:
  Mailbox& mailbox_;
  const JobFacts facts_;
  std::vector<std::string> segment_sizes_;  // as at the start: clients must see the server's
  const Layout& layout_;                    // used on the loop's thread only, as is what the facts point to
  pmix::Requests requests_;
  std::map<std::string, std::vector<std::string>> environments_;  // by namespace, of all its ranks but for PMIX_RANK
  struct Numbers {
    uint32_t first, count;
  };
  std::mutex spaces_mutex_;
  std::map<std::string, Numbers> spaces_;                 // guarded by spaces_mutex_
  std::map<std::string, std::vector<pmix_proc_t>> sets_;  // process sets by name; guarded by spaces_mutex_
  struct Call {
    pmix_op_cbfunc_t done;
    void* token;
  };
  std::mutex aborts_mutex_;
  std::vector<Call> aborts_;  // guarded by aborts_mutex_

  /// A rank's number in the job; on any thread.
  static std::optional<uint32_t> number(const pmix_proc_t* proc);
  /// The same for several processes, whole namespaces spelt out.
  static std::optional<std::vector<uint32_t>> numbers(const pmix_proc_t procs[], size_t count);
  static std::string space_names();
  static std::string set_names();
  static bool add_members(InfoList& answers, const pmix_query_t& query);
  void add_sets(const Space& space);
  static void answer(pmix_modex_cbfunc_t done, void* token, pmix_status_t status, const std::string& data);
  Result<void> register_clients(const Space& space, const Layout& places);
};

std::optional<uint32_t> Server::number(const pmix_proc_t* proc) {
  std::lock_guard lock(the_server->spaces_mutex_);
  const auto space = the_server->spaces_.find(proc->nspace);
  if (space == the_server->spaces_.end() || proc->rank >= space->second.count) return {};
  return space->second.first + proc->rank;
}

std::optional<std::vector<uint32_t>> Server::numbers(const pmix_proc_t procs[], size_t count) {
  std::vector<uint32_t> result;
  for (size_t i = 0; i < count; i++) {
    std::lock_guard lock(the_server->spaces_mutex_);
    const auto space = the_server->spaces_.find(procs[i].nspace);
    if (space == the_server->spaces_.end()) return {};
    const auto [first, size] = space->second;
    const bool all = procs[i].rank == PMIX_RANK_WILDCARD;
    if (!all && procs[i].rank >= size) return {};
    for (uint32_t r = all ? 0 : procs[i].rank; r < (all ? size : procs[i].rank + 1); r++) result.push_back(first + r);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

pmix_status_t Server::connected(const pmix_proc_t* proc, void*, pmix_info_t[], size_t, pmix_op_cbfunc_t, void*) {
  if (const auto rank = number(proc)) the_server->mailbox_.post(Event(event::Connected{*rank}));
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t Server::finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t, void*) {
  if (const auto rank = number(proc)) the_server->mailbox_.post(Event(event::Finalized{*rank}));
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t Server::abort(const pmix_proc_t* proc, void*, int status, const char message[], pmix_proc_t[], size_t, pmix_op_cbfunc_t done,
                            void* token) {
  const auto rank = number(proc);
  if (!rank) return PMIX_ERR_NOT_SUPPORTED;
  {
    std::lock_guard lock(the_server->aborts_mutex_);
    the_server->aborts_.push_back({done, token});
  }
  the_server->mailbox_.post(Event(event::Aborted{*rank, status, message ? message : ""}));
  return PMIX_SUCCESS;
}

void Server::answer_aborts() {
  std::vector<Call> calls;
  {
    std::lock_guard lock(aborts_mutex_);
    std::swap(calls, aborts_);
  }
  for (const Call& call : calls) call.done(PMIX_SUCCESS, call.token);
}

/// What a fence has collected goes straight back where all ranks are behind this one server; otherwise it is one of several parts.
pmix_status_t Server::fence(const pmix_proc_t procs[], size_t count, const pmix_info_t[], size_t, char* data, size_t size,
                            pmix_modex_cbfunc_t done, void* token) {
  Remote* remote = the_server->facts_.remote;
  if (!remote) {
    if (!done) return PMIX_SUCCESS;
    the_server->mailbox_.post(Mailbox::Work([=] {
      done(
          PMIX_SUCCESS, data, size, token, [](void* block) { free(block); }, data);
    }));
    return PMIX_SUCCESS;
  }
  auto known = numbers(procs, count);
  if (!known) return PMIX_ERR_NOT_FOUND;
  std::vector<uint32_t> members = std::move(*known);
  std::string part(data ? data : "", data ? size : 0);
  free(data);
  the_server->mailbox_.post(Mailbox::Work([=, members = std::move(members), part = std::move(part)] {
    const uint32_t job = the_server->facts_.roster->spaces().front().ranks;
    const bool whole = members.size() == job && members.back() == job - 1;
    remote->fence(whole ? std::vector<uint32_t>() : members, part, [done, token](bool good, const std::string& all) {
      if (done) answer(done, token, good ? PMIX_SUCCESS : PMIX_ERROR, all);
    });
  }));
  return PMIX_SUCCESS;
}

pmix_status_t Server::modex(const pmix_proc_t* proc, const pmix_info_t[], size_t, pmix_modex_cbfunc_t done, void* token) {
  Remote* remote = the_server->facts_.remote;
  const auto rank = number(proc);
  if (!remote || !rank) return PMIX_ERR_NOT_FOUND;  // without other hosts every rank of the job is a client of this server
  the_server->mailbox_.post(Mailbox::Work([=] {
    if (the_server->layout_.host_of[*rank] == the_server->layout_.self) return answer(done, token, PMIX_ERR_NOT_FOUND, {});
    remote->modex(*rank, [done, token](int status, std::string data) { answer(done, token, status, data); });
  }));
  return PMIX_SUCCESS;
}

void Server::answer(pmix_modex_cbfunc_t done, void* token, pmix_status_t status, const std::string& data) {
  char* copy = static_cast<char*>(malloc(data.size() + 1));
  if (!copy) return done(PMIX_ERR_NOMEM, nullptr, 0, token, nullptr, nullptr);
  memcpy(copy, data.data(), data.size());
  done(
      status, copy, data.size(), token, [](void* block) { free(block); }, copy);
}

void Server::published(uint32_t rank, Remote::ModexDone done) {
  const Proc name = facts_.roster->proc(rank);
  pmix_proc_t proc{};
  name.space.copy(proc.nspace, sizeof proc.nspace - 1);
  proc.rank = name.rank;
  auto* waiting = new Remote::ModexDone(std::move(done));
  const auto arrived = [](pmix_status_t status, char* data, size_t size, void* token) {
    auto* then = static_cast<Remote::ModexDone*>(token);
    the_server->mailbox_.post(Mailbox::Work([then, status, copy = std::string(data ? data : "", data ? size : 0)] {
      (*then)(status, copy);
      delete then;
    }));
  };
  const pmix_status_t status = PMIx_server_dmodex_request(&proc, arrived, waiting);
  if (status == PMIX_SUCCESS) return;
  (*waiting)(status, {});
  delete waiting;
}

pmix_status_t Server::register_events(pmix_status_t*, size_t, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t Server::deregister_events(pmix_status_t*, size_t, pmix_op_cbfunc_t, void*) { return PMIX_OPERATION_SUCCEEDED; }

void Server::notify(const Notice& notice) {
  pmix_proc_t source{};
  notice.source.space.copy(source.nspace, sizeof source.nspace - 1);
  source.rank = notice.source.rank;
  pmix::Infos infos(notice.infos);
  if (infos.good()) PMIx_Notify_event(notice.code, &source, notice.range, infos.data(), infos.size(), nullptr, nullptr);
}

std::string Server::space_names() {
  std::lock_guard lock(the_server->spaces_mutex_);
  std::string names;
  for (const auto& [name, numbers] : the_server->spaces_) names += (names.empty() ? "" : ",") + name;
  return names;
}

std::string Server::set_names() {
  std::lock_guard lock(the_server->spaces_mutex_);
  std::string names;
  for (const auto& [name, members] : the_server->sets_) names += (names.empty() ? "" : ",") + name;
  return names;
}

/// The members of the process set that a query names; false if there is none.
bool Server::add_members(InfoList& answers, const pmix_query_t& query) {
  const char* wanted = nullptr;
  for (size_t i = 0; i < query.nqual; i++)
    if (!strcmp(query.qualifiers[i].key, PMIX_PSET_NAME) && query.qualifiers[i].value.type == PMIX_STRING)
      wanted = query.qualifiers[i].value.data.string;
  std::lock_guard lock(the_server->spaces_mutex_);
  const auto found = wanted ? the_server->sets_.find(wanted) : the_server->sets_.end();
  if (found == the_server->sets_.end()) return false;
  const pmix_data_array_t members{PMIX_PROC, found->second.size(), found->second.data()};
  answers.add_raw(PMIX_QUERY_PSET_MEMBERSHIP, &members, PMIX_DATA_ARRAY);
  return true;
}

/// The process sets that the command line names.
void Server::add_sets(const Space& space) {
  std::lock_guard lock(spaces_mutex_);
  uint32_t rank = 0;
  for (const App& app : space.apps)
    for (const uint32_t end = rank + app.ranks; rank < end; rank++)
      for (const std::string& set : app.sets) {
        pmix_proc_t& member = sets_[set].emplace_back();
        space.name.copy(member.nspace, sizeof member.nspace - 1);
        member.rank = rank;
      }
}

pmix_status_t Server::query(pmix_proc_t*, pmix_query_t* queries, size_t count, pmix_info_cbfunc_t done, void* token) {
  InfoList answers;
  size_t known = 0;
  for (size_t q = 0; q < count; q++)
    for (char** key = queries[q].keys; key && *key; key++) {
      if (!strcmp(*key, PMIX_QUERY_NUM_PSETS)) {
        std::lock_guard lock(the_server->spaces_mutex_);
        answers.add(*key, uint32_t(the_server->sets_.size()));
      } else if (!strcmp(*key, PMIX_QUERY_PSET_NAMES)) {
        answers.add(*key, set_names());
      } else if (!strcmp(*key, PMIX_QUERY_PSET_MEMBERSHIP)) {
        if (!add_members(answers, queries[q])) continue;
      } else if (!strcmp(*key, PMIX_QUERY_NAMESPACES)) {
        answers.add(*key, space_names());
      } else {
        continue;
      }
      known++;
    }
  if (!known) return PMIX_ERR_NOT_SUPPORTED;
  auto* array = new pmix_data_array_t(answers.convert());
  the_server->mailbox_.post(Mailbox::Work([=] { pmix::answer(done, token, array); }));
  return PMIX_SUCCESS;
}

pmix_server_module_t upcalls() {
  pmix_server_module_t module{};
  module.client_connected2 = Server::connected;
  module.client_finalized = Server::finalized;
  module.abort = Server::abort;
  module.fence_nb = Server::fence;
  module.direct_modex = Server::modex;
  module.publish = [](const pmix_proc_t* who, const pmix_info_t info[], size_t count, pmix_op_cbfunc_t done, void* token) {
    return the_server->requests().publish(who, info, count, done, token);
  };
  module.lookup = [](const pmix_proc_t* who, char** keys, const pmix_info_t info[], size_t count, pmix_lookup_cbfunc_t done, void* token) {
    return the_server->requests().lookup(who, keys, info, count, done, token);
  };
  module.unpublish = [](const pmix_proc_t* who, char** keys, const pmix_info_t[], size_t, pmix_op_cbfunc_t done, void* token) {
    return the_server->requests().unpublish(who, keys, done, token);
  };
  module.connect = [](const pmix_proc_t procs[], size_t count, const pmix_info_t[], size_t, pmix_op_cbfunc_t done, void* token) {
    return the_server->requests().connect(Gather::What::connect, procs, count, done, token);
  };
  module.disconnect = [](const pmix_proc_t procs[], size_t count, const pmix_info_t[], size_t, pmix_op_cbfunc_t done, void* token) {
    return the_server->requests().connect(Gather::What::disconnect, procs, count, done, token);
  };
  module.register_events = Server::register_events;
  module.deregister_events = Server::deregister_events;
  module.notify_event = [](pmix_status_t code, const pmix_proc_t* source, pmix_data_range_t range, pmix_info_t info[], size_t count,
                           pmix_op_cbfunc_t, void*) { return the_server->requests().notify(code, source, range, info, count); };
  module.query = Server::query;
  module.group = [](pmix_group_operation_t op, char id[], const pmix_proc_t procs[], size_t count, const pmix_info_t info[], size_t infos,
                    pmix_info_cbfunc_t done,
                    void* token) { return the_server->requests().group(op, id, procs, count, info, infos, done, token); };
  module.spawn = [](const pmix_proc_t* who, const pmix_info_t info[], size_t count, const pmix_app_t apps[], size_t app_count,
                    pmix_spawn_cbfunc_t done,
                    void* token) { return the_server->requests().spawn(who, info, count, apps, app_count, done, token); };
  return module;
}

Result<void> Server::start() {
  static pmix_server_module_t module = upcalls();
  const Space& job = facts_.roster->spaces().front();
  segment_sizes_ = segment_sizes(layout_);
  for (const std::string& variable : segment_sizes_) {
    const size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  // What PMIx has to say about clients that die in the middle of a message is no news to the user.
  if (!facts_.verbose) setenv("PMIX_OUTPUT_STDERR_FD", std::to_string(open("/dev/null", O_WRONLY | O_CLOEXEC)).c_str(), 1);
  InfoList info;
  // Fresh names per launch: PMIx 5 refuses to start where a dead server of the same name left its files.
  info.add(PMIX_SERVER_TMPDIR, facts_.folder);
  info.add(PMIX_SYSTEM_TMPDIR, facts_.folder);
  info.add(PMIX_SERVER_NSPACE, facts_.name + "-server");
  const pmix_rank_t own = layout_.self;
  info.add_raw(PMIX_SERVER_RANK, &own, PMIX_PROC_RANK);
  info.add(PMIX_HOSTNAME, layout_.host());
  pmix_topology_t topology{const_cast<char*>("hwloc"), facts_.hwloc_topology};
  if (facts_.hwloc_topology) info.add_raw(PMIX_TOPOLOGY2, &topology, PMIX_POINTER);  // replaced below: the list would copy it deeply
  pmix_data_array_t array = info.convert();
  auto* items = static_cast<pmix_info_t*>(array.array);
  if (facts_.hwloc_topology) {  // handed over as it is: PMIx then skips its own discovery, most of its start-up time
    pmix_value_t& value = items[array.size - 1].value;
    value.type = PMIX_TOPO;
    value.data.topo = &topology;
  }
  const pmix_status_t status = PMIx_server_init(&module, items, array.size);
  if (status != PMIX_SUCCESS) return Failure{text("the PMIx server cannot start", status)};
  return add_space(job);
}

void add_rank(InfoList& job, const Space& space, const Layout& places, uint32_t rank, uint32_t node) {
  InfoList data;
  const pmix_rank_t r = rank;
  data.add_raw(PMIX_RANK, &r, PMIX_PROC_RANK);
  const uint16_t local = uint16_t(std::min(places.local_rank(rank), 65535u));
  data.add_raw(PMIX_LOCAL_RANK, &local, PMIX_UINT16);
  data.add_raw(PMIX_NODE_RANK, &local, PMIX_UINT16);
  data.add(PMIX_NODEID, node);
  data.add(PMIX_APPNUM, space.app_of(rank));
  data.add(PMIX_HOSTNAME, places.hosts[places.host_of[rank]]);
  job.add(PMIX_PROC_DATA, data);
}

std::string joined(const std::vector<uint32_t>& ranks) {
  std::string list;
  for (uint32_t r : ranks) list += (list.empty() ? "" : ",") + std::to_string(r);
  return list;
}

void add_parent(InfoList& job, const Space& space) {
  if (space.parent.space.empty()) return;
  const bool spawned = true;
  pmix_proc_t parent{};
  space.parent.space.copy(parent.nspace, sizeof parent.nspace - 1);
  parent.rank = space.parent.rank;
  job.add_raw(PMIX_SPAWNED, &spawned, PMIX_BOOL);
  job.add_raw(PMIX_PARENT_ID, &parent, PMIX_PROC);
}

Result<void> Server::add_space(const Space& space) {
  const Layout places = layout_.part(space.first, space.ranks);
  const auto hosts = places.by_host();
  std::string names, lists;
  for (const auto& [host, list] : hosts) {
    names += (names.empty() ? "" : ",") + places.hosts[host];
    lists += (lists.empty() ? "" : ";") + joined(list);
  }
  const uint32_t local = uint32_t(places.here().size());
  char *nodes = nullptr, *maps = nullptr;
  PMIx_generate_regex(names.c_str(), &nodes);
  PMIx_generate_ppn(lists.c_str(), &maps);
  InfoList job;
  job.add(PMIX_JOB_SIZE, space.ranks);
  job.add(PMIX_UNIV_SIZE, std::max(facts_.roster->spaces().front().ranks, facts_.cpus));
  job.add(PMIX_MAX_PROCS, std::max(space.ranks, facts_.cpus));
  job.add(PMIX_JOB_NUM_APPS, uint32_t(space.apps.size()));
  job.add(PMIX_NUM_NODES, uint32_t(hosts.size()));
  job.add(PMIX_LOCAL_SIZE, local);
  job.add(PMIX_NODE_SIZE, local);
  job.add(PMIX_LOCAL_PEERS, joined(places.here()));
  job.add_raw(PMIX_NODE_MAP, nodes, PMIX_REGEX);
  job.add_raw(PMIX_PROC_MAP, maps, PMIX_REGEX);
  job.add(PMIX_TMPDIR, facts_.folder);
  job.add(PMIX_NSDIR, facts_.folder);
  job.add(boot::key_secret, facts_.secret);
  job.add(boot::key_cpus, facts_.cpus);
  job.add(boot::key_launcher, std::string(boot::own_launcher));
  job.add(boot::key_topology, facts_.topology);
  add_parent(job, space);
  for (uint32_t n = 0; n < hosts.size(); n++)
    if (hosts[n].first == layout_.self)  // PMIx knows of the others what the two maps say: their hosts and numbers
      for (uint32_t r : hosts[n].second) add_rank(job, space, places, r, n);
  free(nodes);
  free(maps);

  {
    std::lock_guard lock(spaces_mutex_);
    spaces_[space.name] = {space.first, space.ranks};
  }
  add_sets(space);
  const pmix_data_array_t array = job.convert();
  pmix_nspace_t name{};
  space.name.copy(name, sizeof name - 1);
  const pmix_status_t status =
      PMIx_server_register_nspace(name, int(local), static_cast<pmix_info_t*>(array.array), array.size, nullptr, nullptr);
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
    return Failure{text("PMIx does not take the job's description", status)};
  return register_clients(space, places);
}

void Server::remove_space(const std::string& name) {
  {
    std::lock_guard lock(spaces_mutex_);
    if (!spaces_.erase(name)) return;
  }
  environments_.erase(name);
  pmix_nspace_t space{};
  name.copy(space, sizeof space - 1);
  PMIx_server_deregister_nspace(space, nullptr, nullptr);
}

Result<void> Server::register_clients(const Space& space, const Layout& places) {
  if (places.here().empty()) return {};
  pmix_proc_t proc{};
  space.name.copy(proc.nspace, sizeof proc.nspace - 1);
  for (uint32_t r : places.here()) {
    proc.rank = r;
    const pmix_status_t status = PMIx_server_register_client(&proc, getuid(), getgid(), nullptr, nullptr, nullptr);
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) return Failure{text("PMIx does not take a rank", status)};
  }
  char** variables = nullptr;
  proc.rank = places.here()[0];
  const pmix_status_t status = PMIx_server_setup_fork(&proc, &variables);
  if (status != PMIX_SUCCESS) return Failure{text("PMIx cannot make the environment of ranks", status)};
  std::vector<std::string>& environment = environments_[space.name];
  environment = segment_sizes_;
  for (char** v = variables; v && *v; v++) {
    if (strncmp(*v, "PMIX_RANK=", 10)) environment.emplace_back(*v);
    free(*v);
  }
  free(variables);
  return {};
}

std::vector<std::string> Server::environment(uint32_t rank) {
  const Proc name = facts_.roster->proc(rank);
  std::vector<std::string> all = environments_[name.space];
  all.push_back("PMIX_RANK=" + std::to_string(name.rank));
  return all;
}

}  // namespace

// Two segments, mapped: where they find no room, touching them is SIGBUS. And a few small files.
uint64_t temporary_bytes(uint32_t ranks, uint32_t local) { return 2 * segment_size(ranks, local) + 64 * 1024; }

Result<std::unique_ptr<PmixServer>> PmixServer::start(const JobFacts& facts, Mailbox& mailbox) {
  auto server = std::make_unique<Server>(facts, mailbox);
  if (auto ok = server->start(); !ok) return ok.failure();
  return std::unique_ptr<PmixServer>(std::move(server));
}

}  // namespace weft::launcher
