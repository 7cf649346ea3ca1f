// Buffers for MPI_Bsend and its relatives: of a communicator, of the session or process that it belongs to, or MPI's own.
#pragma once

#include "comms.h"
#include "large.h"

namespace random_test {

class SendBuffer {
 public:
  /// `alone`: no other thread of this process communicates; the others could attach a buffer to process or session at the same time.
  SendBuffer(const Comm& comm, bool alone, Rng& rng);
  /// Whether there can be one: before MPI 4.1 only processes have them.
  static bool possible(bool alone) { return alone || several; }
  /// Bytes, without the overhead of messages; 0: none is attached.
  void attach(int64_t size, Rng& rng);
  void detach(Rng& rng);

 private:
  enum class Owner { process, session, communicator, automatic };
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  static constexpr bool several = true;
#else
  static constexpr bool several = false;
#endif

  MPI_Comm comm_;
  Owner owner_ = Owner::process;
  std::vector<char> memory_;
};

}  // namespace random_test
