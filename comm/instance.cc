#include "comm/coll_report.h"
#include "comm/comm.h"
#include "comm/create.h"
#include "comm/knowledge.h"
#include "comm/paths.h"
#include "runtime/base/error.h"
#include "runtime/config/config.h"
#include "runtime/mem/alloc_kinds.h"

namespace weft::comm {
namespace {

config::Text kinds_variable(
    "mem", "alloc_kinds", "",
    "kinds of memory that the program asks for (mpirun --memory-alloc-kinds): those of them that there are appear in "
    "the hint mpi_memory_alloc_kinds");

// Contexts that need no agreement: their "leader" is a rank that no job has.
constexpr pml::Context predefined_context(uint64_t number) { return uint64_t{0x0fffffff} << 28 | number << 3; }

Pool<Session>& sessions() {
  static auto* pool = new Pool<Session>;
  return *pool;
}

Communicator* predefined(Instance& instance, pml::Context context, std::shared_ptr<const pml::Members> members, uint32_t rank,
                         uint32_t abi_handle, const char* name) {
  Communicator* comm = make_communicator(instance, context, std::move(members), rank, nullptr);
  comm->predefined = true;
  comm->abi_handle = abi_handle;
  comm->name = name;
  return comm;
}

}  // namespace

Session* Session::make() { return sessions().make(); }
void Session::destroy(Session* session) {
  release(session->errhandler);
  sessions().destroy(session);
}

Result<std::shared_ptr<Instance>> Instance::open(std::unique_ptr<boot::Bootstrap> bootstrap, bool threads, bool again) {
  std::shared_ptr<Instance> made(new Instance);
  made->threads_ = threads;
  made->boot_ = std::move(bootstrap);
  auto lanes = pml::Lanes::open(*made->boot_, threads, again);
  if (!lanes) return lanes.failure();
  made->lanes_ = std::move(*lanes);
  made->ledger_ = open_ledger();
  if (!made->boot_->shows_at_once()) {  // now or never
    if (auto told = made->lanes_->openings().publish(); !told) return told.failure();
    if (auto met = made->meet(); !met) return met.failure();
  }

  const boot::Job& job = made->job();
  auto everyone = std::make_shared<const pml::Members>(pml::Members::range(0, job.size));
  auto alone = std::make_shared<const pml::Members>(pml::Members::range(job.rank, 1));
  made->world_ = predefined(*made, predefined_context(1), everyone, job.rank, 257, "MPI_COMM_WORLD");
  made->self_ = predefined(*made, predefined_context(2), alone, 0, 258, "MPI_COMM_SELF");
  const auto carrier = [&](pml::Context context) {
    return std::make_unique<pml::Team>(made->lanes_->at(context), context, everyone, job.rank);
  };
  made->carrier_ = carrier(predefined_context(3));
  made->session_carrier_ = carrier(predefined_context(3) | pml::kSessionContext);
  return made;
}

Result<void> Instance::meet() {
  if (met_) return {};
  if (auto told = offer_knowledge(*boot_); !told) return told;
  if (auto met = boot_->fence(true); !met) return met;
  if (auto told = take_knowledge(*boot_); !told) return told;
  met_ = true;
  look_at_ways(*lanes_, predefined_context(4));
  return {};
}

Result<void> Instance::begin_sessions() {
  if (!boot_->shows_at_once()) return {};
  return lanes_->openings().publish();
}

Status Instance::await_sessions(ProcessId who) {
  struct Search {
    Instance& instance;
    ProcessId who;
    bool ended = false;
    Result<std::optional<uint32_t>> found{std::nullopt};
    static bool over(void* argument) {  // under the lane's lock
      auto& search = *static_cast<Search*>(argument);
      search.ended = search.instance.lane().has_ended(search.who);
      search.found = search.instance.lanes().openings().look(search.who);
      return search.ended || !search.found || *search.found;
    }
  } search{*this, who};
  if (const Status status = lane().wait_silent(Search::over, &search); status != Status::ok) return status;
  if (search.found && *search.found) return Status::ok;
  const std::string name = name_of(*boot_, who);
  fail(MPI_ERR_PROC_ABORTED, "%s has no sessions: %s", name.c_str(), search.ended ? "it has ended" : search.found.failure().text.c_str());
  return Status::peer_failed;
}

std::string Instance::memory_kinds(uint64_t session) const {
  std::lock_guard lock(kinds_mutex_);
  const auto own = memory_kinds_.find(session);
  return own == memory_kinds_.end() ? mem::offered_alloc_kinds(kinds_variable.get()) : own->second;
}

void Instance::set_memory_kinds(uint64_t session, std::string kinds) {
  std::lock_guard lock(kinds_mutex_);
  if (kinds.empty())
    memory_kinds_.erase(session);
  else
    memory_kinds_.insert_or_assign(session, std::move(kinds));
}

Status Instance::close() {
  if (closed_) return Status::ok;
  closed_ = true;
  if (ledger_ && met_) report_collectives(*ledger_, *lanes_, predefined_context(5));
  const Status status = lanes_->close();
  boot_->finalize();
  return status;
}

Instance::~Instance() {
  if (!lanes_) return;
  close();
  for (Communicator* comm : {world_, self_})
    if (comm) Communicator::destroy(comm);
}

}  // namespace weft::comm
