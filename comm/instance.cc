#include "comm/coll_report.h"
#include "comm/comm.h"
#include "comm/create.h"
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

Result<std::shared_ptr<Instance>> Instance::open(std::unique_ptr<boot::Bootstrap> bootstrap, bool threads) {
  std::shared_ptr<Instance> made(new Instance);
  made->threads_ = threads;
  made->boot_ = std::move(bootstrap);
  auto lanes = pml::Lanes::open(*made->boot_, threads);
  if (!lanes) return lanes.failure();
  made->lanes_ = std::move(*lanes);
  made->ledger_ = open_ledger();
  if (!made->boot_->shows_at_once())
    if (auto met = made->meet(); !met) return met.failure();

  const boot::Job& job = made->job();
  auto everyone = std::make_shared<const pml::Members>(pml::Members::range(0, job.size));
  auto alone = std::make_shared<const pml::Members>(pml::Members::range(job.rank, 1));
  made->world_ = predefined(*made, predefined_context(1), everyone, job.rank, 257, "MPI_COMM_WORLD");
  made->self_ = predefined(*made, predefined_context(2), alone, 0, 258, "MPI_COMM_SELF");
  made->carrier_ = std::make_unique<pml::Team>(made->lanes_->at(predefined_context(3)), predefined_context(3), everyone, job.rank);
  return made;
}

Result<void> Instance::meet() {
  if (met_) return {};
  if (auto met = boot_->fence(true); !met) return met;
  met_ = true;
  look_at_ways(*lanes_, predefined_context(4));
  return {};
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
