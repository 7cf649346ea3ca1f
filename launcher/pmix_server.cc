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

#include "runtime/boot/internal.h"

namespace weft::launcher {
namespace {

std::string text(const char* what, pmix_status_t status) {
  return std::string(what) + ": " + PMIx_Error_string(status) + " (PMIx " + std::to_string(status) + ")";
}

/// A growing list of pmix_info_t; PMIx copies what is added.
class InfoList {
 public:
  InfoList() : list_(PMIx_Info_list_start()) {}
  ~InfoList() { PMIx_Info_list_release(list_); }
  InfoList(const InfoList&) = delete;
  InfoList& operator=(const InfoList&) = delete;

  void add(const char* key, const std::string& value) { PMIx_Info_list_add(list_, key, value.c_str(), PMIX_STRING); }
  void add(const char* key, uint32_t value) { PMIx_Info_list_add(list_, key, &value, PMIX_UINT32); }
  void add_raw(const char* key, const void* value, pmix_data_type_t type) { PMIx_Info_list_add(list_, key, value, type); }
  void add(const char* key, const InfoList& inner) {
    pmix_data_array_t array = inner.convert();
    add_raw(key, &array, PMIX_DATA_ARRAY);
    PMIX_DATA_ARRAY_DESTRUCT(&array);
  }
  pmix_data_array_t convert() const {
    pmix_data_array_t array{};
    PMIx_Info_list_convert(list_, &array);
    return array;
  }

 private:
  void* list_;
};

/// Published data and lookups that wait for it. All upcalls come on the one thread of PMIx, the only one to touch this.
class NameService {
 public:
  ~NameService() {
    for (auto& [key, item] : items_) PMIx_Value_destruct(&item.value);
  }

  pmix_status_t publish(const pmix_proc_t& owner, const pmix_info_t info[], size_t count) {
    for (size_t i = 0; i < count; i++)
      if (!directive(info[i].key) && items_.count(info[i].key)) return PMIX_ERR_DUPLICATE_KEY;
    for (size_t i = 0; i < count; i++) {
      if (directive(info[i].key)) continue;
      Item& item = items_[info[i].key];
      item.owner = owner;
      PMIx_Value_xfer(&item.value, const_cast<pmix_value_t*>(&info[i].value));
    }
    return PMIX_SUCCESS;
  }

  void unpublish(const pmix_proc_t& owner, char** keys) {
    for (auto it = items_.begin(); it != items_.end();) {
      bool named = !keys;
      for (char** key = keys; key && *key; key++) named |= it->first == *key;
      if (named && !strcmp(it->second.owner.nspace, owner.nspace) && it->second.owner.rank == owner.rank) {
        PMIx_Value_destruct(&it->second.value);
        it = items_.erase(it);
      } else {
        ++it;
      }
    }
  }

  struct Wish {
    std::vector<std::string> keys;
    bool wait;
    pmix_lookup_cbfunc_t done;
    void* token;
  };

  /// Answers a wish if it can be answered now.
  bool answer(const Wish& wish) {
    std::vector<pmix_pdata_t> found;
    for (const std::string& key : wish.keys) {
      auto item = items_.find(key);
      if (item == items_.end()) continue;
      pmix_pdata_t& data = found.emplace_back();
      memset(&data, 0, sizeof data);
      data.proc = item->second.owner;
      PMIX_LOAD_KEY(data.key, key.c_str());
      PMIx_Value_xfer(&data.value, &item->second.value);
    }
    const bool all = found.size() == wish.keys.size();
    if (all || !wish.wait)
      wish.done(found.empty() ? PMIX_ERR_NOT_FOUND : all ? PMIX_SUCCESS : PMIX_ERR_PARTIAL_SUCCESS, found.data(), found.size(), wish.token);
    for (pmix_pdata_t& data : found) PMIx_Value_destruct(&data.value);
    return all || !wish.wait;
  }

  void lookup(Wish wish) {
    if (!answer(wish)) waiting_.push_back(std::move(wish));
  }
  void retry() {
    std::vector<Wish> again;
    std::swap(again, waiting_);
    for (Wish& wish : again) lookup(std::move(wish));
  }

 private:
  struct Item {
    pmix_proc_t owner;
    pmix_value_t value;
  };
  std::map<std::string, Item> items_;
  std::vector<Wish> waiting_;

  static bool directive(const char* key) {
    for (const char* known : {PMIX_RANGE, PMIX_PERSISTENCE, PMIX_USERID, PMIX_GRPID, PMIX_TIMEOUT})
      if (!strcmp(key, known)) return true;
    return false;
  }
};

/// PMIx keeps job data in mapped files of 4 MiB each and clears them page by page: over half of a small job's start-up. Server and
/// clients read these two names; a segment that fills up is followed by another of the same size.
size_t segment_size(uint32_t ranks) { return std::clamp<size_t>(size_t{ranks} * 8192, 128 * 1024, 4096 * 1024) & ~size_t{0xffff}; }

std::vector<std::string> segment_sizes(uint32_t ranks) {
  const size_t size = segment_size(ranks);
  return {"NS_META_SEG_SIZE=" + std::to_string(size), "NS_DATA_SEG_SIZE=" + std::to_string(size)};
}

class Server;
Server* the_server = nullptr;  // PMIx's upcalls carry no pointer; one server in a process

class Server final : public PmixServer {
 public:
  Server(const JobFacts& facts, Mailbox& mailbox)
      : mailbox_(mailbox), job_(facts.name), layout_(*facts.layout), remote_(facts.remote), options_(*facts.options) {
    the_server = this;
  }
  Result<void> start(const JobFacts& facts);
  std::vector<std::string> environment(uint32_t rank) override;
  void answer_aborts() override;
  void published(uint32_t rank, Remote::ModexDone done) override;

  // upcalls
  static pmix_status_t connected(const pmix_proc_t* proc, void*, pmix_info_t[], size_t, pmix_op_cbfunc_t, void*);
  static pmix_status_t finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t, void*);
  static pmix_status_t abort(const pmix_proc_t* proc, void*, int status, const char message[], pmix_proc_t[], size_t, pmix_op_cbfunc_t done,
                             void*);
  static pmix_status_t fence(const pmix_proc_t[], size_t, const pmix_info_t[], size_t, char*, size_t, pmix_modex_cbfunc_t, void*);
  static pmix_status_t modex(const pmix_proc_t*, const pmix_info_t[], size_t, pmix_modex_cbfunc_t, void*);
  static pmix_status_t publish(const pmix_proc_t*, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void*);
  static pmix_status_t lookup(const pmix_proc_t*, char**, const pmix_info_t[], size_t, pmix_lookup_cbfunc_t, void*);
  static pmix_status_t unpublish(const pmix_proc_t*, char**, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void*);
  static pmix_status_t connect(const pmix_proc_t[], size_t, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void*);
  static pmix_status_t register_events(pmix_status_t*, size_t, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void*);
  static pmix_status_t deregister_events(pmix_status_t*, size_t, pmix_op_cbfunc_t, void*);
  static pmix_status_t notify(pmix_status_t, const pmix_proc_t*, pmix_data_range_t, pmix_info_t[], size_t, pmix_op_cbfunc_t, void*);
  static pmix_status_t query(pmix_proc_t*, pmix_query_t*, size_t, pmix_info_cbfunc_t, void*);
  static pmix_status_t group(pmix_group_operation_t, char[], const pmix_proc_t[], size_t, const pmix_info_t[], size_t, pmix_info_cbfunc_t,
                             void*);

 private:
  Mailbox& mailbox_;
  const std::string job_;
  const Layout& layout_;
  Remote* const remote_;  // used on the loop's thread only
  const Options options_;
  std::vector<std::string> common_;  // environment of all ranks but for PMIX_RANK
  NameService names_;                // used on PMIx's thread only
  size_t next_context_ = 1;          // used on PMIx's thread only
  struct Call {
    pmix_op_cbfunc_t done;
    void* token;
  };
  std::mutex aborts_mutex_;
  std::vector<Call> aborts_;  // guarded by aborts_mutex_

  bool mine(const pmix_proc_t* proc) const { return job_ == proc->nspace && proc->rank < options_.ranks(); }
  static void answer(pmix_modex_cbfunc_t done, void* token, pmix_status_t status, const std::string& data);
  void reply(pmix_op_cbfunc_t done, pmix_status_t status, void* token) {
    if (done) mailbox_.post(Mailbox::Work([=] { done(status, token); }));
  }
  Result<void> register_job(const JobFacts& facts);
  void add_rank(InfoList& job, uint32_t rank, uint32_t node) const;
};

pmix_status_t Server::connected(const pmix_proc_t* proc, void*, pmix_info_t[], size_t, pmix_op_cbfunc_t, void*) {
  if (the_server->mine(proc)) the_server->mailbox_.post(Event(event::Connected{proc->rank}));
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t Server::finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t, void*) {
  if (the_server->mine(proc)) the_server->mailbox_.post(Event(event::Finalized{proc->rank}));
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t Server::abort(const pmix_proc_t* proc, void*, int status, const char message[], pmix_proc_t[], size_t, pmix_op_cbfunc_t done,
                            void* token) {
  if (!the_server->mine(proc)) return PMIX_ERR_NOT_SUPPORTED;
  {
    std::lock_guard lock(the_server->aborts_mutex_);
    the_server->aborts_.push_back({done, token});
  }
  the_server->mailbox_.post(Event(event::Aborted{proc->rank, status, message ? message : ""}));
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
  Remote* remote = the_server->remote_;
  if (!remote) {
    if (!done) return PMIX_SUCCESS;
    the_server->mailbox_.post(Mailbox::Work([=] {
      done(
          PMIX_SUCCESS, data, size, token, [](void* block) { free(block); }, data);
    }));
    return PMIX_SUCCESS;
  }
  std::vector<uint32_t> members;
  for (size_t i = 0; i < count; i++) {
    if (procs[i].rank == PMIX_RANK_WILDCARD) {
      members.clear();
      break;
    }
    if (!the_server->mine(&procs[i])) return PMIX_ERR_NOT_SUPPORTED;
    members.push_back(procs[i].rank);
  }
  std::sort(members.begin(), members.end());
  if (members.size() == the_server->options_.ranks()) members.clear();
  std::string part(data ? data : "", data ? size : 0);
  free(data);
  the_server->mailbox_.post(Mailbox::Work([=, members = std::move(members), part = std::move(part)] {
    remote->fence(members, part, [done, token](bool good, const std::string& all) {
      if (done) answer(done, token, good ? PMIX_SUCCESS : PMIX_ERROR, all);
    });
  }));
  return PMIX_SUCCESS;
}

pmix_status_t Server::modex(const pmix_proc_t* proc, const pmix_info_t[], size_t, pmix_modex_cbfunc_t done, void* token) {
  Remote* remote = the_server->remote_;
  if (!remote || !the_server->mine(proc) || the_server->layout_.host_of[proc->rank] == the_server->layout_.self)
    return PMIX_ERR_NOT_FOUND;  // every rank of the job is a client of this server
  the_server->mailbox_.post(Mailbox::Work(
      [=, rank = proc->rank] { remote->modex(rank, [done, token](int status, std::string data) { answer(done, token, status, data); }); }));
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
  pmix_proc_t proc{};
  job_.copy(proc.nspace, sizeof proc.nspace - 1);
  proc.rank = rank;
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

pmix_status_t Server::publish(const pmix_proc_t* proc, const pmix_info_t info[], size_t count, pmix_op_cbfunc_t done, void* token) {
  if (the_server->remote_) return PMIX_ERR_NOT_SUPPORTED;  // servers of several hosts do not agree on such things yet
  const pmix_status_t status = the_server->names_.publish(*proc, info, count);
  the_server->reply(done, status, token);
  if (status == PMIX_SUCCESS) the_server->names_.retry();
  return PMIX_SUCCESS;
}

pmix_status_t Server::lookup(const pmix_proc_t*, char** keys, const pmix_info_t info[], size_t count, pmix_lookup_cbfunc_t done,
                             void* token) {
  if (the_server->remote_) return PMIX_ERR_NOT_SUPPORTED;
  NameService::Wish wish{{}, false, done, token};
  for (char** key = keys; key && *key; key++) wish.keys.emplace_back(*key);
  for (size_t i = 0; i < count; i++) wish.wait |= !strcmp(info[i].key, PMIX_WAIT);
  the_server->names_.lookup(std::move(wish));
  return PMIX_SUCCESS;
}

pmix_status_t Server::unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t[], size_t, pmix_op_cbfunc_t done, void* token) {
  if (the_server->remote_) return PMIX_ERR_NOT_SUPPORTED;
  the_server->names_.unpublish(*proc, keys);
  the_server->reply(done, PMIX_SUCCESS, token);
  return PMIX_SUCCESS;
}

pmix_status_t Server::connect(const pmix_proc_t[], size_t, const pmix_info_t[], size_t, pmix_op_cbfunc_t done, void* token) {
  if (the_server->remote_) return PMIX_ERR_NOT_SUPPORTED;
  the_server->reply(done, PMIX_SUCCESS, token);
  return PMIX_SUCCESS;
}

pmix_status_t Server::register_events(pmix_status_t*, size_t, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t Server::deregister_events(pmix_status_t*, size_t, pmix_op_cbfunc_t, void*) { return PMIX_OPERATION_SUCCEEDED; }

pmix_status_t Server::notify(pmix_status_t, const pmix_proc_t*, pmix_data_range_t, pmix_info_t[], size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;  // PMIx has told its own clients; there are no other servers
}

pmix_status_t Server::query(pmix_proc_t*, pmix_query_t* queries, size_t count, pmix_info_cbfunc_t done, void* token) {
  InfoList answers;
  size_t known = 0;
  for (size_t q = 0; q < count; q++)
    for (char** key = queries[q].keys; key && *key; key++) {
      if (!strcmp(*key, PMIX_QUERY_NUM_PSETS)) {
        answers.add(*key, uint32_t{0});
      } else if (!strcmp(*key, PMIX_QUERY_PSET_NAMES)) {
        answers.add(*key, std::string());
      } else if (!strcmp(*key, PMIX_QUERY_NAMESPACES)) {
        answers.add(*key, the_server->job_);
      } else {
        continue;
      }
      known++;
    }
  if (!known) return PMIX_ERR_NOT_SUPPORTED;
  auto* array = new pmix_data_array_t(answers.convert());
  the_server->mailbox_.post(Mailbox::Work([=] {
    auto release = [](void* what) {
      auto* given = static_cast<pmix_data_array_t*>(what);
      PMIX_DATA_ARRAY_DESTRUCT(given);
      delete given;
    };
    done(PMIX_SUCCESS, static_cast<pmix_info_t*>(array->array), array->size, token, release, array);
  }));
  return PMIX_SUCCESS;
}

/// Clients of PMIx 5 insist on the membership beside the context id.
pmix_status_t Server::group(pmix_group_operation_t op, char[], const pmix_proc_t procs[], size_t count, const pmix_info_t[], size_t,
                            pmix_info_cbfunc_t done, void* token) {
  if (the_server->remote_) return PMIX_ERR_NOT_SUPPORTED;
  if (op != PMIX_GROUP_CONSTRUCT) {
    the_server->mailbox_.post(Mailbox::Work([=] { done(PMIX_SUCCESS, nullptr, 0, token, nullptr, nullptr); }));
    return PMIX_SUCCESS;
  }
  InfoList answers;
  const size_t context = the_server->next_context_++;
  answers.add_raw(PMIX_GROUP_CONTEXT_ID, &context, PMIX_SIZE);
  pmix_data_array_t members{PMIX_PROC, count, const_cast<pmix_proc_t*>(procs)};
  answers.add_raw(PMIX_GROUP_MEMBERSHIP, &members, PMIX_DATA_ARRAY);
  auto* array = new pmix_data_array_t(answers.convert());
  the_server->mailbox_.post(Mailbox::Work([=] {
    auto release = [](void* what) {
      auto* given = static_cast<pmix_data_array_t*>(what);
      PMIX_DATA_ARRAY_DESTRUCT(given);
      delete given;
    };
    done(PMIX_SUCCESS, static_cast<pmix_info_t*>(array->array), array->size, token, release, array);
  }));
  return PMIX_SUCCESS;
}

pmix_server_module_t upcalls() {
  pmix_server_module_t module{};
  module.client_connected2 = Server::connected;
  module.client_finalized = Server::finalized;
  module.abort = Server::abort;
  module.fence_nb = Server::fence;
  module.direct_modex = Server::modex;
  module.publish = Server::publish;
  module.lookup = Server::lookup;
  module.unpublish = Server::unpublish;
  module.connect = Server::connect;
  module.disconnect = Server::connect;
  module.register_events = Server::register_events;
  module.deregister_events = Server::deregister_events;
  module.notify_event = Server::notify;
  module.query = Server::query;
  module.group = Server::group;
  return module;
}

Result<void> Server::start(const JobFacts& facts) {
  static pmix_server_module_t module = upcalls();
  common_ = segment_sizes(options_.ranks());
  for (const std::string& variable : common_) {
    const size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  // What PMIx has to say about clients that die in the middle of a message is no news to the user.
  if (!options_.verbose) setenv("PMIX_OUTPUT_STDERR_FD", std::to_string(open("/dev/null", O_WRONLY | O_CLOEXEC)).c_str(), 1);
  InfoList info;
  // Fresh names per launch: PMIx 5 refuses to start where a dead server of the same name left its files.
  info.add(PMIX_SERVER_TMPDIR, facts.folder);
  info.add(PMIX_SYSTEM_TMPDIR, facts.folder);
  info.add(PMIX_SERVER_NSPACE, facts.name + "-server");
  const pmix_rank_t own = layout_.self;
  info.add_raw(PMIX_SERVER_RANK, &own, PMIX_PROC_RANK);
  info.add(PMIX_HOSTNAME, layout_.host());
  pmix_topology_t topology{const_cast<char*>("hwloc"), facts.hwloc_topology};
  if (facts.hwloc_topology) info.add_raw(PMIX_TOPOLOGY2, &topology, PMIX_POINTER);  // replaced below: the list would copy it deeply
  pmix_data_array_t array = info.convert();
  auto* items = static_cast<pmix_info_t*>(array.array);
  if (facts.hwloc_topology) {  // handed over as it is: PMIx then skips its own discovery, most of its start-up time
    pmix_value_t& value = items[array.size - 1].value;
    value.type = PMIX_TOPO;
    value.data.topo = &topology;
  }
  const pmix_status_t status = PMIx_server_init(&module, items, array.size);
  if (status != PMIX_SUCCESS) return Failure{text("the PMIx server cannot start", status)};
  return register_job(facts);
}

void Server::add_rank(InfoList& job, uint32_t rank, uint32_t node) const {
  InfoList data;
  const pmix_rank_t r = rank;
  data.add_raw(PMIX_RANK, &r, PMIX_PROC_RANK);
  const uint16_t local = uint16_t(std::min(layout_.local_rank(rank), 65535u));
  data.add_raw(PMIX_LOCAL_RANK, &local, PMIX_UINT16);
  data.add_raw(PMIX_NODE_RANK, &local, PMIX_UINT16);
  data.add(PMIX_NODEID, node);
  data.add(PMIX_APPNUM, options_.app_of(rank));
  data.add(PMIX_HOSTNAME, layout_.hosts[layout_.host_of[rank]]);
  job.add(PMIX_PROC_DATA, data);
}

std::string joined(const std::vector<uint32_t>& ranks) {
  std::string list;
  for (uint32_t r : ranks) list += (list.empty() ? "" : ",") + std::to_string(r);
  return list;
}

Result<void> Server::register_job(const JobFacts& facts) {
  const uint32_t ranks = options_.ranks();
  const auto hosts = layout_.by_host();
  std::string names, lists;
  for (const auto& [host, list] : hosts) {
    names += (names.empty() ? "" : ",") + layout_.hosts[host];
    lists += (lists.empty() ? "" : ";") + joined(list);
  }
  const std::string peers = joined(layout_.here());
  const uint32_t local = uint32_t(layout_.here().size());
  char *nodes = nullptr, *places = nullptr;
  PMIx_generate_regex(names.c_str(), &nodes);
  PMIx_generate_ppn(lists.c_str(), &places);
  InfoList job;
  job.add(PMIX_JOB_SIZE, ranks);
  job.add(PMIX_UNIV_SIZE, std::max(ranks, facts.cpus));
  job.add(PMIX_MAX_PROCS, std::max(ranks, facts.cpus));
  job.add(PMIX_JOB_NUM_APPS, uint32_t(options_.apps.size()));
  job.add(PMIX_NUM_NODES, uint32_t(hosts.size()));
  job.add(PMIX_LOCAL_SIZE, local);
  job.add(PMIX_NODE_SIZE, local);
  job.add(PMIX_LOCAL_PEERS, peers);
  job.add_raw(PMIX_NODE_MAP, nodes, PMIX_REGEX);
  job.add_raw(PMIX_PROC_MAP, places, PMIX_REGEX);
  job.add(PMIX_TMPDIR, facts.folder);
  job.add(PMIX_NSDIR, facts.folder);
  job.add(boot::key_secret, facts.secret);
  job.add(boot::key_cpus, facts.cpus);
  job.add(boot::key_launcher, std::string("Weft's mpirun"));
  job.add(boot::key_topology, facts.topology);
  for (uint32_t n = 0; n < hosts.size(); n++)
    for (uint32_t r : hosts[n].second) add_rank(job, r, n);
  free(nodes);
  free(places);

  pmix_data_array_t array = job.convert();
  pmix_nspace_t space{};
  facts.name.copy(space, sizeof space - 1);
  pmix_status_t status =
      PMIx_server_register_nspace(space, int(local), static_cast<pmix_info_t*>(array.array), array.size, nullptr, nullptr);
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
    return Failure{text("PMIx does not take the job's description", status)};
  pmix_proc_t proc{};
  memcpy(proc.nspace, space, sizeof space);
  for (uint32_t r : layout_.here()) {
    proc.rank = r;
    status = PMIx_server_register_client(&proc, getuid(), getgid(), nullptr, nullptr, nullptr);
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) return Failure{text("PMIx does not take a rank", status)};
  }
  char** variables = nullptr;
  proc.rank = layout_.here()[0];
  status = PMIx_server_setup_fork(&proc, &variables);
  if (status != PMIX_SUCCESS) return Failure{text("PMIx cannot make the environment of ranks", status)};
  for (char** v = variables; v && *v; v++) {
    if (strncmp(*v, "PMIX_RANK=", 10)) common_.emplace_back(*v);
    free(*v);
  }
  free(variables);
  return {};
}

std::vector<std::string> Server::environment(uint32_t rank) {
  std::vector<std::string> all = common_;
  all.push_back("PMIX_RANK=" + std::to_string(rank));
  return all;
}

}  // namespace

// Two segments, mapped: where they find no room, touching them is SIGBUS. And a few small files.
uint64_t temporary_bytes(uint32_t ranks) { return 2 * segment_size(ranks) + 64 * 1024; }

Result<std::unique_ptr<PmixServer>> PmixServer::start(const JobFacts& facts, Mailbox& mailbox) {
  auto server = std::make_unique<Server>(facts, mailbox);
  if (auto ok = server->start(facts); !ok) return ok.failure();
  return std::unique_ptr<PmixServer>(std::move(server));
}

}  // namespace weft::launcher
