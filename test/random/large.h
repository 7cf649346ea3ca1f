// Functions of MPI in both forms: counts are of type int, or MPI_Count.
#pragma once

#include <utility>

#include "base.h"

namespace random_test {

/// A function and its twin for large counts. One call in four takes the twin.
template <class Small, class Large>
struct Both {
  Small small;
  Large large;
  template <class... Arguments>
  int operator()(Rng& rng, Arguments&&... arguments) const {
    return rng.chance(25) ? large(std::forward<Arguments>(arguments)...) : small(std::forward<Arguments>(arguments)...);
  }
};

/// `BOTH(MPI_Send)(rng, buffer, ...)`. Before MPI 4 there is one form only.
#if MPI_VERSION >= 4
#define BOTH(function) \
  random_test::Both { function, function##_c }
#else
#define BOTH(function) \
  random_test::Both { function, function }
#endif

/// A function without counts has one form only.
template <class Function>
struct Alone {
  Function function;
  template <class... Arguments>
  int operator()(Rng&, Arguments&&... arguments) const {
    return function(std::forward<Arguments>(arguments)...);
  }
};

/// An array of numbers as either form takes it, of int, MPI_Aint or MPI_Count. Has to live as long as the operation.
class Counts {
 public:
  Counts() = default;
  template <class T>
  explicit Counts(const std::vector<T>& from) : small_(from.begin(), from.end()), large_(from.begin(), from.end()) {}
  template <class T>
  operator const T*() const {
    if constexpr (sizeof(T) == sizeof(int)) {
      return small_.data();
    } else {
      static_assert(sizeof(T) == sizeof(long long));
      return reinterpret_cast<const T*>(large_.data());
    }
  }

 private:
  std::vector<int> small_;
  std::vector<long long> large_;
};

/// A number that either form gives back.
class Answer {
 public:
  template <class T>
  operator T*() {
    is_small_ = sizeof(T) == sizeof(int);
    return is_small_ ? reinterpret_cast<T*>(&small_) : reinterpret_cast<T*>(&large_);
  }
  operator int64_t() const { return is_small_ ? small_ : large_; }

 private:
  bool is_small_ = true;
  int small_ = -1;
  long long large_ = -1;
};

inline int64_t count_of(Rng& rng, const MPI_Status& status, MPI_Datatype type) {
  Answer count;
  ok(BOTH(MPI_Get_count)(rng, &status, type, count));
  return count;
}

}  // namespace random_test
