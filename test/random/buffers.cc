#include "buffers.h"

namespace random_test {

namespace {

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
constexpr Both attach_to_comm = BOTH(MPI_Comm_attach_buffer);
constexpr Both detach_from_comm = BOTH(MPI_Comm_detach_buffer);
constexpr Both attach_to_session = BOTH(MPI_Session_attach_buffer);
constexpr Both detach_from_session = BOTH(MPI_Session_detach_buffer);
void* const automatic = MPI_BUFFER_AUTOMATIC;
#else
int none(...) { return MPI_ERR_OTHER; }
constexpr Both attach_to_comm{none, none}, detach_from_comm{none, none}, attach_to_session{none, none}, detach_from_session{none, none};
void* const automatic = nullptr;
#endif

}  // namespace

SendBuffer::SendBuffer(const Comm& comm, bool alone, Rng& rng) : comm_(comm.handle) {
  if (!several) return;
  const int64_t kind = rng.below(100);
  if (kind < 20)
    owner_ = Owner::automatic;
  else if (kind < 60 || !alone)
    owner_ = Owner::communicator;
  else
    owner_ = comm.of_session ? Owner::session : Owner::process;
}

void SendBuffer::attach(int64_t size, Rng& rng) {
  if (size == 0) return;
  memory_.resize(size_t(size));
  switch (owner_) {
    case Owner::process: return ok(BOTH(MPI_Buffer_attach)(rng, memory_.data(), size));
    case Owner::session: return ok(attach_to_session(rng, session(), memory_.data(), size));
    case Owner::communicator: return ok(attach_to_comm(rng, comm_, memory_.data(), size));
    case Owner::automatic: return ok(attach_to_comm(rng, comm_, automatic, 0));
  }
}

void SendBuffer::detach(Rng& rng) {
  if (memory_.empty()) return;
  void* buffer = nullptr;
  Answer size;
  switch (owner_) {
    case Owner::process: ok(BOTH(MPI_Buffer_detach)(rng, &buffer, size)); break;
    case Owner::session: ok(detach_from_session(rng, session(), &buffer, size)); break;
    case Owner::communicator:
    case Owner::automatic: ok(detach_from_comm(rng, comm_, &buffer, size)); break;
  }
  const bool own = owner_ == Owner::automatic;
  same(buffer == (own ? automatic : memory_.data()), true, "whether the buffer is the one that was attached");
  if (!own) same(size, int64_t(memory_.size()), "size of the buffer that was attached");
  memory_.clear();
}

}  // namespace random_test
