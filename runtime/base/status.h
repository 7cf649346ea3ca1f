// Outcomes of operations inside the library, below the MPI error classes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace weft {

/// Outcome of an operation on the message path. Anything richer travels in `Failure` or through `fail()`.
enum class Status : uint8_t {
  ok,
  again,        ///< no room now (back-pressure); nothing was taken, try again after progress
  truncated,    ///< the message was longer than the buffer posted for it
  peer_failed,  ///< the peer died or cannot be reached any more
  revoked,      ///< the communicator was revoked
  aborted,      ///< the job is being torn down
  failed,       ///< a local failure (memory, system call); the text stands in last_failure()
};

const char* to_string(Status);

/// A failure outside the message path: what happened, and what the user can try.
struct Failure {
  std::string text;
};

/// Either a value or a Failure.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Failure& failure() const { return std::get<1>(state_); }

 private:
  std::variant<T, Failure> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Failure failure) : failed_(true), failure_(std::move(failure)) {}
  explicit operator bool() const { return !failed_; }
  const Failure& failure() const { return failure_; }

 private:
  bool failed_ = false;
  Failure failure_;
};

}  // namespace weft
