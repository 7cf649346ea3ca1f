// The tools interface, MPI_T (MPI 5.0, chapter 15): what its parts share. Control variables are the table of configuration variables,
// performance variables the figures of runtime/obs, events the lane's ring. Nothing is counted or kept for tools alone.
#pragma once

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "api/state.h"
#include "include/mpi.h"
#include "runtime/config/config.h"
#include "runtime/obs/figures.h"

namespace weft::api::tool {

/// Is the tools interface initialised?
bool ready();

/// Every call runs under this lock. Callbacks of events may call tools' functions again.
std::recursive_mutex& lock();

template <class Body>
inline int run(Body body) {
  try {
    const std::lock_guard hold(lock());
    return body();
  } catch (const std::bad_alloc&) {
    return MPI_T_ERR_MEMORY;
  }
}

/// Objects behind handles: an address is a handle only while it stands in here.
template <class T>
class Registry {
 public:
  T* add(std::unique_ptr<T> object) { return all_.emplace_back(std::move(object)).get(); }
  /// Null if the handle is none (any more).
  template <class Handle>
  T* find(Handle handle) const {
    for (const auto& object : all_)
      if (reinterpret_cast<uintptr_t>(object.get()) == reinterpret_cast<uintptr_t>(handle)) return object.get();
    return nullptr;
  }
  void erase(const T* gone) {
    std::erase_if(all_, [&](const auto& object) { return object.get() == gone; });
  }
  void clear() { all_.clear(); }
  const std::vector<std::unique_ptr<T>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<T>> all_;
};

/// Puts a result where the caller wants one.
template <class T, class V>
inline void give(T* place, V value) {
  if (place) *place = static_cast<T>(value);
}

/// Strings as all of MPI_T returns them (15.3.3): at most *length - 1 characters and a null; *length becomes what the whole would need.
inline void give(char* place, int* length, std::string_view text) {
  if (!length) return;
  if (place && *length > 0) {
    const size_t n = std::min(text.size(), static_cast<size_t>(*length) - 1);
    memcpy(place, text.data(), n);
    place[n] = 0;
  }
  *length = static_cast<int>(text.size()) + 1;
}

/// Is `index` one of `all`?
template <class T>
inline bool within(int index, const std::vector<T>& all) {
  return index >= 0 && static_cast<size_t>(index) < all.size();
}

/// Control variables by index, sorted by name; the same in all processes that run the same library.
const std::vector<config::Variable*>& controls();
/// Performance variables by index.
const std::vector<obs::Figure>& figures();
/// "no" and "yes".
MPI_T_enum no_and_yes();

/// Forgets the handles of each part (the last MPI_T_finalize).
void drop_controls();
void drop_figures();
void drop_events();

}  // namespace weft::api::tool
