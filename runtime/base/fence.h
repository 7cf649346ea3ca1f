// Fences between processes, and those that only one side pays for.
#pragma once

#include <atomic>

namespace weft {

template <std::memory_order order>
inline void fence() {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wtsan"
  std::atomic_thread_fence(order);
#pragma GCC diagnostic pop
}
inline void full_fence() { fence<std::memory_order_seq_cst>(); }

/// Is this process known to membarrier(2), so that other processes' fence_all() is one of its threads, too? Registering is cheap while a
/// process has one thread only, so it is done when the library is loaded; register_membarrier() makes up for it (some 10 ms).
bool membarrier_registered();
bool register_membarrier();

/// A full fence in every running thread of all registered processes, this one included: who writes and then reads while others do so the
/// other way round needs none itself if these call it in between. False if the system does not offer it.
bool fence_all();

}  // namespace weft
