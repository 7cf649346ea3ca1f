// The bootstrap over PMIx. libpmix is opened here, at run time, only when the environment names a server.
#include <dlfcn.h>
#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "runtime/base/log.h"
#include "runtime/boot/internal.h"
#include "runtime/boot/rank_list.h"
#include "runtime/config/config.h"
#include "runtime/topo/cpus.h"

namespace weft::boot {
namespace {

config::Integer patience("boot", "timeout", "120", "seconds to wait for another rank's start-up data before giving up");
config::Text own_library("boot", "pmix", "", "PMIx client library to open instead of the system's libpmix.so.2");

/// The functions of libpmix that we use.
struct Library {
  decltype(&PMIx_Init) init;
  decltype(&PMIx_Finalize) finalize;
  decltype(&PMIx_Put) put;
  decltype(&PMIx_Commit) commit;
  decltype(&PMIx_Get) get;
  decltype(&PMIx_Fence) fence;
  decltype(&PMIx_Abort) abort;
  decltype(&PMIx_Register_event_handler) register_handler;
  decltype(&PMIx_Query_info) query;
  decltype(&PMIx_Error_string) error_string;
  decltype(&PMIx_Value_destruct) value_destruct;
  decltype(&PMIx_Spawn) spawn;
  decltype(&PMIx_Lookup) lookup;
};

Result<Library> open_library() {
  void* handle = nullptr;
  const std::string own = own_library.get();
  if (!own.empty()) handle = dlopen(own.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) handle = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!handle) return Failure{std::string("cannot open the PMIx client library: ") + dlerror()};
  Library lib{};
  const char* missing = nullptr;
  auto bind = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
    if (!function) missing = symbol;
  };
  bind(lib.init, "PMIx_Init");
  bind(lib.finalize, "PMIx_Finalize");
  bind(lib.put, "PMIx_Put");
  bind(lib.commit, "PMIx_Commit");
  bind(lib.get, "PMIx_Get");
  bind(lib.fence, "PMIx_Fence");
  bind(lib.abort, "PMIx_Abort");
  bind(lib.register_handler, "PMIx_Register_event_handler");
  bind(lib.query, "PMIx_Query_info");
  bind(lib.error_string, "PMIx_Error_string");
  bind(lib.value_destruct, "PMIx_Value_destruct");
  bind(lib.spawn, "PMIx_Spawn");
  bind(lib.lookup, "PMIx_Lookup");
  if (missing) return Failure{std::string("libpmix.so.2 lacks ") + missing + "; PMIx 4.2 or newer is needed"};
  return lib;
}

void set_key(pmix_key_t& key, std::string_view name) {
  memset(key, 0, sizeof key);
  name.copy(key, sizeof key - 1);
}

pmix_info_t flag(const char* key) {
  pmix_info_t info{};
  set_key(info.key, key);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  return info;
}

pmix_info_t number(const char* key, int value) {
  pmix_info_t info{};
  set_key(info.key, key);
  info.value.type = PMIX_INT;
  info.value.data.integer = value;
  return info;
}

class PmixBootstrap;
std::mutex current_mutex;
PmixBootstrap* current = nullptr;  // guarded by current_mutex; PMIx's event handlers carry no pointer, and its client is one a process

using Clock = std::chrono::steady_clock;

/// How long a value is asked for.
struct Asked {
  bool waits_for_living = false;       ///< as long as it takes, if its owner has published something else: that may depend on others
  std::atomic<bool> forgotten{false};  ///< nobody wants it any more
};

/// A value that somebody looks for, and the thread that asks PMIx for it and may be kept waiting.
struct Inquiry {
  Asked asked{.waits_for_living = true};
  std::atomic<bool> over{false};  ///< there is an answer
  Result<Blob> answer{Blob()};
  std::thread thread;

  ~Inquiry() {
    asked.forgotten = true;
    if (thread.joinable()) thread.join();
  }
};

std::mutex secret_mutex;
std::string agreed_secret;  // guarded by secret_mutex; without our launcher: a process that joins its job again keeps it

class PmixBootstrap final : public Bootstrap {
 public:
  explicit PmixBootstrap(const Library& lib) : lib_(lib) {}
  /// Says no farewell: a process that exits without finalize() has not left in order, and its launcher is to see that.
  ~PmixBootstrap() override {
    std::lock_guard lock(current_mutex);
    if (current == this) current = nullptr;
  }

  Result<void> start();

  const Job& job() const override { return job_; }
  Result<void> put(std::string_view name, std::span<const std::byte> value) override;
  Result<Blob> get(ProcessId who, std::string_view name) override;
  Result<std::optional<Blob>> look(ProcessId who, std::string_view name) override;
  Result<void> fence(bool collect) override;
  Result<std::string> host_of(ProcessId who) override;
  void abort(int code, std::string_view message) override;
  void on_failure(std::function<void(ProcessId)> callback) override;
  Result<std::vector<std::string>> process_sets() override;
  Result<std::vector<uint32_t>> process_set(std::string_view name) override;
  Result<SpawnedJob> spawn(const SpawnSpec& spec) override;
  Result<uint32_t> find_job(std::string_view name) override;
  void finalize() override;

 private:
  Library lib_;
  pmix_proc_t self_{};
  Job job_;
  bool open_ = false;
  static std::atomic<int> openings;
  static bool sees_all_;  // what others have published, whenever they did
  std::mutex inquiries_mutex_;
  std::map<std::pair<ProcessId, std::string>, std::unique_ptr<Inquiry>> inquiries_;  // guarded by inquiries_mutex_
  mutable std::mutex jobs_mutex_;
  std::vector<std::string> jobs_;  // by number; guarded by jobs_mutex_
  std::mutex callback_mutex_;
  std::function<void(ProcessId)> callback_;  // guarded by callback_mutex_
  std::vector<uint32_t> failed_;             // guarded by callback_mutex_

  std::string text(pmix_status_t status) const { return std::string(lib_.error_string(status)) + " (PMIx " + std::to_string(status) + ")"; }
  pmix_proc_t proc(uint32_t rank) const {
    pmix_proc_t proc = self_;
    proc.rank = rank;
    return proc;
  }
  Result<pmix_proc_t> proc(ProcessId who) const;
  Blob take_blob(pmix_value_t* value) const;
  Result<Blob> fetch(ProcessId who, const std::string& key, int64_t seconds, const Asked& asked) const;
  uint32_t number_of(const std::string& job);
  void read_parent();
  std::string spawn_failure() const;
  /// Runs `take` on a value that PMIx has; false if it has none. Asks the server only where `ask`.
  template <class Take>
  bool lookup(uint32_t rank, const char* key, Take take, bool ask = false) const;
  /// Runs `take` on each value with which the server answers a question, about a process set if one is named.
  template <class Take>
  void ask(const char* question, std::string set, Take take);
  std::string job_text(uint32_t rank, const char* key) const;
  uint64_t job_number(uint32_t rank, const char* key, uint64_t otherwise) const;
  void read_job();
  void read_node();
  Result<void> agree_on_secret();
  void report(uint32_t rank);
  static void on_event(size_t, pmix_status_t, const pmix_proc_t*, pmix_info_t[], size_t, pmix_info_t[], size_t,
                       pmix_event_notification_cbfunc_fn_t, void*);
};

std::atomic<int> PmixBootstrap::openings{0};
bool PmixBootstrap::sees_all_ = true;

uint64_t as_number(const pmix_value_t& value, uint64_t otherwise) {
  switch (value.type) {
    case PMIX_UINT32: return value.data.uint32;
    case PMIX_INT: return uint64_t(int64_t{value.data.integer});
    case PMIX_INT32: return uint64_t(int64_t{value.data.int32});
    case PMIX_UINT16: return value.data.uint16;
    case PMIX_UINT64: return value.data.uint64;
    case PMIX_INT64: return uint64_t(value.data.int64);
    case PMIX_SIZE: return value.data.size;
    case PMIX_UINT: return value.data.uint;
    case PMIX_PROC_RANK: return value.data.rank;
    default: return otherwise;
  }
}

template <class Take>
bool PmixBootstrap::lookup(uint32_t rank, const char* key, Take take, bool ask) const {
  const pmix_proc_t who = proc(rank);
  pmix_info_t optional = flag(PMIX_OPTIONAL);
  pmix_value_t* value = nullptr;
  if (lib_.get(&who, key, ask ? nullptr : &optional, ask ? 0 : 1, &value) != PMIX_SUCCESS || !value) return false;
  take(*value);
  lib_.value_destruct(value);
  free(value);
  return true;
}

std::string PmixBootstrap::job_text(uint32_t rank, const char* key) const {
  std::string result;
  lookup(rank, key, [&](const pmix_value_t& value) {
    if (value.type == PMIX_STRING && value.data.string) result = value.data.string;
  });
  return result;
}

uint64_t PmixBootstrap::job_number(uint32_t rank, const char* key, uint64_t otherwise) const {
  uint64_t result = otherwise;
  lookup(rank, key, [&](const pmix_value_t& value) { result = as_number(value, otherwise); });
  return result;
}

constexpr long kCopiedJob = 128;  // ranks, the data of which take some 250 KiB in each process

/// The size of the job by what launchers with such a server say in the environment, 0 if they do not; the same in all its processes.
long told_size() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* size = getenv(name)) return strtol(size, nullptr, 10);
  return 0;
}

/// PMIx's store "ds21" (3.x, 4.x) gives each process of a node a lock that none gives back. A process that opens PMIx once more finds none,
/// and another store does not tell it what those have published that use ds21 (nor does "ds12" tell a process where it runs). So no process
/// of a job uses it from the start, unless the job is so large that the copy of its data counts which each process has with "hash".
/// False: this opening cannot see what others published in their first one.
bool choose_store(bool first) {
  const char* const offered = getenv("PMIX_GDS_MODULE");
  if (!offered || !strstr(offered, "ds21")) return true;
  // where nobody says, too: a process that has started without mpirun has to find the ranks that it spawns
  const bool small = told_size() <= kCopiedJob;
  if (small || !first) setenv("PMIX_GDS_MODULE", "hash", 1);
  return small || first;
}

Result<void> PmixBootstrap::start() {
  sees_all_ = choose_store(openings++ == 0) && sees_all_;
  const pmix_status_t status = lib_.init(&self_, nullptr, 0);
  if (status != PMIX_SUCCESS) {
    if (status == PMIX_ERR_UNREACH) lib_.finalize(nullptr, 0);  // the client half-starts without a server
    return Failure{"PMIx_Init: " + text(status)};
  }
  open_ = true;
  job_.name = self_.nspace;
  job_.rank = self_.rank;
  jobs_ = {job_.name};
  if (!lookup(
          PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, [&](const pmix_value_t& v) { job_.size = uint32_t(as_number(v, 0)); }, true) ||
      job_.rank >= job_.size) {
    return Failure{"the PMIx server does not tell the size of the job"};
  }
  read_job();
  read_node();
  read_parent();
  if (job_.secret.empty()) {
    if (auto agreed = agree_on_secret(); !agreed) log(Level::warning, "%s", agreed.failure().text.c_str());
  }
  {
    std::lock_guard lock(current_mutex);
    current = this;
  }
  return {};
}

std::string describe_launcher() {
  if (getenv("SLURM_STEP_ID") && getenv("SLURM_PROCID")) return "Slurm";
  const char* base = getenv("PMIX_SERVER_TMPDIR");
  if (getenv("PRTE_LAUNCHED") || (base && strstr(base, "prte"))) return "prterun";
  return "a PMIx server";
}

void PmixBootstrap::read_job() {
  job_.universe_size = uint32_t(job_number(PMIX_RANK_WILDCARD, PMIX_UNIV_SIZE, job_.size));
  job_.appnum = int(job_number(job_.rank, PMIX_APPNUM, 0));
  job_.folder = job_text(PMIX_RANK_WILDCARD, PMIX_NSDIR);
  job_.secret = job_text(PMIX_RANK_WILDCARD, key_secret);
  job_.launcher = job_text(PMIX_RANK_WILDCARD, key_launcher);
  if (job_.launcher.empty()) job_.launcher = describe_launcher();
}

void PmixBootstrap::read_node() {
  job_.node_ranks = parse_ranks(job_text(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS));
  if (std::find(job_.node_ranks.begin(), job_.node_ranks.end(), job_.rank) == job_.node_ranks.end()) job_.node_ranks = {job_.rank};
  const auto place = std::lower_bound(job_.node_ranks.begin(), job_.node_ranks.end(), job_.rank) - job_.node_ranks.begin();
  job_.local_rank = uint32_t(place);
  const bool alone = job_.node_ranks.size() == job_.size;
  job_.node_count = alone ? 1 : uint32_t(job_number(PMIX_RANK_WILDCARD, PMIX_NUM_NODES, 0));
  job_.node = alone ? 0 : uint32_t(job_number(job_.rank, PMIX_NODEID, 0));
  job_.host = job_text(job_.rank, PMIX_HOSTNAME);
  if (job_.host.empty()) {
    char name[256] = "localhost";
    gethostname(name, sizeof name - 1);
    job_.host = name;
  }
  job_.topology = job_text(PMIX_RANK_WILDCARD, key_topology);
  job_.cpus = uint32_t(job_number(PMIX_RANK_WILDCARD, key_cpus, 0));
  job_.same_cpus = job_.cpus > 0;
  if (!job_.cpus) {  // a foreign server may have bound each rank to its share of the node
    const uint64_t shares = uint64_t{topo::usable_cpus()} * job_.node_ranks.size();
    job_.cpus = uint32_t(std::min({shares, uint64_t(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN))), uint64_t{topo::cgroup_cpus()}}));
  }
}

/// Under a foreign launcher rank 0 makes the secret. PMIx hands it to clients of the same job only, and these the server has
/// authenticated as the job's own user, so it is known to whoever could ptrace the ranks anyway.
Result<void> PmixBootstrap::agree_on_secret() {
  std::lock_guard lock(secret_mutex);
  if (!agreed_secret.empty()) {
    job_.secret = agreed_secret;
    return {};
  }
  if (job_.rank == 0) {
    job_.secret = agreed_secret = random_secret();
    return job_.size > 1 ? put(key_secret, std::as_bytes(std::span(job_.secret))) : Result<void>{};
  }
  auto secret = get(ProcessId{0, 0}, key_secret);
  if (!secret) return secret.failure();
  job_.secret.assign(reinterpret_cast<const char*>(secret->data()), secret->size());
  if (job_.secret.empty()) return Failure{"rank 0 has published an empty secret"};
  agreed_secret = job_.secret;
  return {};
}

Result<void> PmixBootstrap::put(std::string_view name, std::span<const std::byte> value) {
  pmix_value_t boxed{};
  boxed.type = PMIX_BYTE_OBJECT;
  boxed.data.bo.bytes = const_cast<char*>(reinterpret_cast<const char*>(value.data()));
  boxed.data.bo.size = value.size();
  pmix_status_t status = lib_.put(PMIX_GLOBAL, std::string(name).c_str(), &boxed);
  if (status == PMIX_SUCCESS) status = lib_.commit();
  if (status != PMIX_SUCCESS) return Failure{"PMIx cannot publish \"" + std::string(name) + "\": " + text(status)};
  return {};
}

Blob PmixBootstrap::take_blob(pmix_value_t* value) const {
  Blob blob;
  if (value->type == PMIX_BYTE_OBJECT) {
    const auto* bytes = reinterpret_cast<const std::byte*>(value->data.bo.bytes);
    blob.assign(bytes, bytes + value->data.bo.size);
  }
  lib_.value_destruct(value);
  free(value);
  return blob;
}

/// Asks until there is an answer, each question for so many seconds at most.
Result<Blob> PmixBootstrap::fetch(ProcessId who, const std::string& key, int64_t seconds, const Asked& asked) const {
  const auto owner = proc(who);
  if (!owner) return owner.failure();
  const auto deadline = Clock::now() + std::chrono::seconds(patience.get());
  auto pause = std::chrono::microseconds(200);
  pmix_status_t status = PMIX_SUCCESS;
  // The first question lets the server wait until the rank has published something. If that something lacks our key, the local copy must
  // be passed over when asking again. But what a rank publishes that has joined its job again PMIx 4.2 tells only without that.
  for (bool past_copy = false; !asked.forgotten; past_copy = !past_copy) {
    pmix_info_t info[2] = {number(PMIX_TIMEOUT, int(std::max<int64_t>(1, seconds))), flag(PMIX_GET_REFRESH_CACHE)};
    pmix_value_t* value = nullptr;
    status = lib_.get(&*owner, key.c_str(), info, past_copy ? 2 : 1, &value);
    if (status == PMIX_SUCCESS && value) return take_blob(value);
    if (status == PMIX_ERR_LOST_CONNECTION || status == PMIX_ERR_UNREACH) break;
    if (Clock::now() >= deadline && !(asked.waits_for_living && sees_all_ && status == PMIX_ERR_NOT_FOUND)) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20'000));
  }
  return Failure{
      "rank " + std::to_string(who.rank) + " has not published \"" + key + "\" within " + std::to_string(patience.get()) +
      " s: " + text(status) +
      (sees_all_ ? ". Is it alive and has it called MPI_Init or MPI_Session_init?"
                 : ". If it has had a session before its MPI_Finalize, and this process none, they cannot meet: PMIx does not tell, in "
                   "jobs of this size. A session opened before MPI_Finalize helps")};
}

Result<Blob> PmixBootstrap::get(ProcessId who, std::string_view name) { return fetch(who, std::string(name), patience.get(), {}); }

Result<std::optional<Blob>> PmixBootstrap::look(ProcessId who, std::string_view name) {
  const std::pair<ProcessId, std::string> wanted{who, name};
  std::lock_guard lock(inquiries_mutex_);
  std::unique_ptr<Inquiry>& inquiry = inquiries_[wanted];
  if (!inquiry) {
    inquiry = std::make_unique<Inquiry>();
    inquiry->thread = std::thread([this, wanted, asked = inquiry.get()] {
      asked->answer = fetch(wanted.first, wanted.second, 1, asked->asked);  // a question cannot be interrupted
      asked->over = true;
    });
  }
  if (!inquiry->over) return std::optional<Blob>();
  const auto done = std::move(inquiry);
  inquiries_.erase(wanted);
  if (!done->answer) return done->answer.failure();
  return std::optional(std::move(*done->answer));
}

uint32_t PmixBootstrap::number_of(const std::string& job) {
  std::lock_guard lock(jobs_mutex_);
  const auto known = std::find(jobs_.begin(), jobs_.end(), job);
  if (known != jobs_.end()) return uint32_t(known - jobs_.begin());
  jobs_.push_back(job);
  return uint32_t(jobs_.size()) - 1;
}

Result<pmix_proc_t> PmixBootstrap::proc(ProcessId who) const {
  std::lock_guard lock(jobs_mutex_);
  if (who.job >= jobs_.size()) return Failure{"job " + std::to_string(who.job) + " is not known here"};
  pmix_proc_t proc{};
  jobs_[who.job].copy(proc.nspace, sizeof proc.nspace - 1);
  proc.rank = who.rank;
  return proc;
}

void PmixBootstrap::read_parent() {
  lookup(PMIX_RANK_WILDCARD, PMIX_PARENT_ID, [&](const pmix_value_t& value) {
    if (value.type == PMIX_PROC && value.data.proc) job_.parent = ProcessId{number_of(value.data.proc->nspace), value.data.proc->rank};
  });
}

Result<uint32_t> PmixBootstrap::find_job(std::string_view name) {
  const std::string job(name);
  if (job.empty() || job.size() > PMIX_MAX_NSLEN) return Failure{"\"" + job + "\" is no name of a job"};
  return number_of(job);
}

namespace {

pmix_info_t words(const char* key, const std::string& value) {
  pmix_info_t info{};
  set_key(info.key, key);
  info.value.type = PMIX_STRING;
  info.value.data.string = const_cast<char*>(value.c_str());
  return info;
}

/// A list as PMIx takes it; points into `texts`.
std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// One program as PMIx takes it. PMIx writes into what it is given, so argv is its own copy there.
struct Spawnable {
  std::vector<std::string> environment;
  std::vector<char*> environment_list;
  std::string hosts;
  std::vector<pmix_info_t> infos;
  pmix_app_t app{};

  explicit Spawnable(const SpawnProgram& program) {
    for (const auto& [name, value] : program.variables) environment.push_back(name + "=" + value);
    environment_list = pointers(environment);
    for (const std::string& host : program.hosts) hosts += (hosts.empty() ? "" : ",") + host;
    if (!hosts.empty()) infos.push_back(words(PMIX_HOST, hosts));
    if (!program.path.empty()) infos.push_back(words(key_path, program.path));
    app.cmd = strdup(program.command[0].c_str());
    app.argv = static_cast<char**>(calloc(program.command.size() + 1, sizeof(char*)));
    for (size_t i = 0; app.argv && i < program.command.size(); i++) app.argv[i] = strdup(program.command[i].c_str());
    app.env = environment_list.data();
    if (!program.folder.empty()) app.cwd = strdup(program.folder.c_str());
    app.maxprocs = int(program.ranks);
    app.info = infos.data();
    app.ninfo = infos.size();
  }
  ~Spawnable() {
    for (char** argument = app.argv; argument && *argument; argument++) free(*argument);
    free(app.argv);
    free(app.cmd);
    free(app.cwd);
  }
  Spawnable(const Spawnable&) = delete;
  Spawnable& operator=(const Spawnable&) = delete;
};

}  // namespace

/// Our launcher's words; empty under another one.
std::string PmixBootstrap::spawn_failure() const {
  pmix_pdata_t data{};
  set_key(data.key, key_spawn_failure);
  std::string text;
  if (lib_.lookup(&data, 1, nullptr, 0) == PMIX_SUCCESS && data.value.type == PMIX_STRING && data.value.data.string)
    text = data.value.data.string;
  lib_.value_destruct(&data.value);
  return text;
}

Result<SpawnedJob> PmixBootstrap::spawn(const SpawnSpec& spec) {
  SpawnedJob spawned;
  std::vector<std::unique_ptr<Spawnable>> programs;
  std::vector<pmix_app_t> apps;
  for (const SpawnProgram& program : spec.programs) {
    if (program.command.empty() || !program.ranks || program.ranks > INT32_MAX) return Failure{"spawn: a program without a name or ranks"};
    programs.push_back(std::make_unique<Spawnable>(program));
    apps.push_back(programs.back()->app);
    spawned.size += program.ranks;
  }
  if (apps.empty()) return Failure{"spawn: no program"};
  std::vector<pmix_info_t> infos;
  if (!spec.map_by.empty()) infos.push_back(words(PMIX_MAPBY, spec.map_by));
  pmix_nspace_t space{};
  const pmix_status_t status = lib_.spawn(infos.data(), infos.size(), apps.data(), apps.size(), space);
  for (size_t i = 0; i < apps.size(); i++) programs[i]->app = apps[i];  // PMIx may have filled in more
  if (status != PMIX_SUCCESS) {
    const std::string why = job_.launcher == "Weft's mpirun" ? spawn_failure() : "";
    return Failure{"spawn: " + (why.empty() ? text(status) + " from " + job_.launcher : why)};
  }
  spawned.name = space;
  spawned.job = number_of(spawned.name);
  return spawned;
}

Result<void> PmixBootstrap::fence(bool collect) {
  const pmix_proc_t all = proc(PMIX_RANK_WILDCARD);
  pmix_info_t info = flag(PMIX_COLLECT_DATA);
  const pmix_status_t status = lib_.fence(&all, 1, collect ? &info : nullptr, collect ? 1 : 0);
  if (status != PMIX_SUCCESS) return Failure{"PMIx fence over the " + std::to_string(job_.size) + " ranks of the job: " + text(status)};
  return {};
}

Result<std::string> PmixBootstrap::host_of(ProcessId who) {
  if (who.job != 0 || who.rank >= job_.size) return Failure{"no rank " + std::to_string(who.rank) + " in this job"};
  if (std::binary_search(job_.node_ranks.begin(), job_.node_ranks.end(), who.rank)) return job_.host;
  std::string host;
  lookup(
      who.rank, PMIX_HOSTNAME, [&](const pmix_value_t& v) { host = v.type == PMIX_STRING && v.data.string ? v.data.string : ""; }, true);
  if (host.empty()) return Failure{"the launcher does not tell where rank " + std::to_string(who.rank) + " runs"};
  return host;
}

void PmixBootstrap::abort(int code, std::string_view message) {
  const std::string words(message);
  lib_.abort(code, words.c_str(), nullptr, 0);
}

void PmixBootstrap::report(uint32_t rank) {
  std::lock_guard lock(callback_mutex_);
  if (rank == job_.rank || std::find(failed_.begin(), failed_.end(), rank) != failed_.end()) return;
  failed_.push_back(rank);
  if (callback_) callback_(ProcessId{0, rank});
}

void PmixBootstrap::on_event(size_t, pmix_status_t, const pmix_proc_t* source, pmix_info_t info[], size_t count, pmix_info_t[], size_t,
                             pmix_event_notification_cbfunc_fn_t done, void* token) {
  const pmix_proc_t* victim = source;
  for (size_t i = 0; i < count; i++)
    if (!strcmp(info[i].key, PMIX_EVENT_AFFECTED_PROC) && info[i].value.type == PMIX_PROC) victim = info[i].value.data.proc;
  {
    std::lock_guard lock(current_mutex);
    if (current && victim && current->job_.name == victim->nspace && victim->rank < current->job_.size) current->report(victim->rank);
  }
  if (done) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, token);
}

void PmixBootstrap::on_failure(std::function<void(ProcessId)> callback) {
  {
    std::lock_guard lock(callback_mutex_);
    const bool registered = callback_ != nullptr;
    callback_ = std::move(callback);
    if (registered) return;
  }
  pmix_status_t codes[] = {PMIX_ERR_PROC_ABORTED, PMIX_ERR_PROC_TERM_WO_SYNC, PMIX_ERR_PROC_KILLED_BY_CMD,
                           PMIX_ERR_PROC_SENSOR_BOUND_EXCEEDED, PMIX_ERR_NODE_DOWN};
  lib_.register_handler(
      codes, sizeof codes / sizeof *codes, nullptr, 0, on_event, [](pmix_status_t, size_t, void*) {}, nullptr);
}

template <class Take>
void PmixBootstrap::ask(const char* question, std::string set, Take take) {
  pmix_query_t query{};
  char* keys[] = {const_cast<char*>(question), nullptr};
  // Without the first one PMIx 4.2 looks into what it has before, and then sends the server a query that it has freed.
  pmix_info_t qualifiers[2] = {flag(PMIX_QUERY_REFRESH_CACHE), {}};
  set_key(qualifiers[1].key, PMIX_PSET_NAME);
  qualifiers[1].value.type = PMIX_STRING;
  qualifiers[1].value.data.string = set.data();
  query.keys = keys;
  query.qualifiers = qualifiers;
  query.nqual = set.empty() ? 1 : 2;
  pmix_info_t* answer = nullptr;
  size_t count = 0;
  if (lib_.query(&query, 1, &answer, &count) != PMIX_SUCCESS) count = 0;
  for (size_t i = 0; i < count; i++) {
    take(answer[i].value);
    lib_.value_destruct(&answer[i].value);
  }
  free(answer);
}

Result<std::vector<std::string>> PmixBootstrap::process_sets() {
  std::vector<std::string> names;
  ask(PMIX_QUERY_PSET_NAMES, {}, [&](const pmix_value_t& value) {
    if (value.type != PMIX_STRING || !value.data.string) return;
    std::stringstream list(value.data.string);
    for (std::string name; std::getline(list, name, ',');)
      if (!name.empty()) names.push_back(name);
  });
  return names;
}

Result<std::vector<uint32_t>> PmixBootstrap::process_set(std::string_view name) {
  std::vector<uint32_t> ranks;
  ask(PMIX_QUERY_PSET_MEMBERSHIP, std::string(name), [&](const pmix_value_t& value) {
    if (value.type != PMIX_DATA_ARRAY || !value.data.darray || value.data.darray->type != PMIX_PROC) return;
    const auto* procs = static_cast<const pmix_proc_t*>(value.data.darray->array);
    for (size_t p = 0; p < value.data.darray->size; p++)
      if (job_.name == procs[p].nspace) ranks.push_back(procs[p].rank);
  });
  if (ranks.empty()) return Failure{"no process set named \"" + std::string(name) + "\" is known to " + job_.launcher};
  return ranks;
}

void PmixBootstrap::finalize() {
  {
    std::lock_guard lock(current_mutex);
    if (current == this) current = nullptr;
  }
  if (!open_) return;
  open_ = false;
  {
    std::lock_guard lock(inquiries_mutex_);
    inquiries_.clear();
  }
  lib_.finalize(nullptr, 0);
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> open_pmix() {
  auto library = open_library();
  if (!library) return library.failure();
  auto boot = std::make_unique<PmixBootstrap>(*library);
  if (auto started = boot->start(); !started) return started.failure();
  return std::unique_ptr<Bootstrap>(std::move(boot));
}

}  // namespace weft::boot
