// The process-global state: what MPI_Init made. The only place in the library that holds any.
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "comm/comm.h"

namespace weft::api {

/// Largest tag (MPI_TAG_UB).
inline constexpr int kTagUb = INT_MAX;

/// Where the world model stands.
enum class Phase : uint8_t { before, active, finalized };

/// The instance, never destroyed at exit: a process that ends without MPI_Finalize says no farewell to the others and to its
/// launcher, so that they see it for what it is.
class Held {
 public:
  Held() : instance_() {}
  ~Held() {}
  Held& operator=(std::shared_ptr<comm::Instance> instance) {
    instance_ = std::move(instance);
    return *this;
  }
  operator const std::shared_ptr<comm::Instance>&() const { return instance_; }
  explicit operator bool() const { return instance_ != nullptr; }
  comm::Instance* operator->() const { return instance_.get(); }
  void reset() { instance_.reset(); }

 private:
  union {
    std::shared_ptr<comm::Instance> instance_;
  };
};

/// Members read by every entry come first. Written under `lock` by initialisation, finalisation and sessions only.
struct State {
  bool active = false;                ///< the world model or some session is initialised: MPI may be called
  std::atomic<bool> watched = false;  ///< a tool wants to hear of events after each call
  Phase world_phase = Phase::before;
  comm::Communicator* world = nullptr;             ///< MPI_COMM_WORLD while the world model is active
  comm::Communicator* self = nullptr;              ///< MPI_COMM_SELF likewise
  Held instance;                                   ///< of world model and sessions; closed with the last of them
  bool opened = false;                             ///< there was an instance, which may have been closed
  int sessions = 0;                                ///< sessions not yet finalised
  uint64_t sessions_made = 0;                      ///< ever: the number of the latest one
  int thread_level = 0;                            ///< MPI_THREAD_* provided by the world model
  std::thread::id main_thread;                     ///< the thread that called MPI_Init
  comm::Errhandler* initial_errhandler = nullptr;  ///< before initialisation and without MPI_COMM_SELF; null: errors are fatal
  std::mutex lock;
};

extern State state;

}  // namespace weft::api
