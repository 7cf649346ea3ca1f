// What all files of the random tester share: drawing, and failing with a place in the program.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

namespace random_test {

/// One number from two, well mixed (the finaliser of splitmix64).
inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Draws from a seed. What all ranks have to draw alike comes from a generator with a seed that they share.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t next() { return mix(state_++, 0x5eed); }
  int64_t below(int64_t n) { return int64_t(next() % uint64_t(n)); }
  int64_t between(int64_t least, int64_t most) { return least + below(most - least + 1); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[size_t(below(int64_t(from.size())))];
  }
  template <class T>
  void shuffle(std::vector<T>& all) {
    for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[size_t(below(int64_t(i)))]);
  }

 private:
  uint64_t state_;
};

/// A difference between MPI and the model.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline std::string where_text(const std::source_location& where) {
  const std::string file = where.file_name();
  return file.substr(file.find_last_of('/') + 1) + ":" + std::to_string(where.line()) + ": ";
}

/// Fails unless a call of MPI succeeded.
inline void ok(int code, std::source_location where = std::source_location::current()) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Failure(where_text(where) + "error " + std::to_string(code) + ": " + text);
}

inline int error_class(int code) {
  int found = MPI_ERR_UNKNOWN;
  MPI_Error_class(code, &found);
  return found;
}

/// Fails unless what MPI says is what the model says.
inline void same(int64_t is, int64_t expected, const std::string& what, std::source_location where = std::source_location::current()) {
  if (is != expected) throw Failure(where_text(where) + what + " is " + std::to_string(is) + ", not " + std::to_string(expected));
}

}  // namespace random_test
