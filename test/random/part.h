// A step of a random program consists of parts, which all members of a communicator carry out together.
#pragma once

#include <functional>
#include <memory>

#include "comms.h"
#include "large.h"
#include "layout.h"

namespace random_test {

/// Requests that are under way, and what to do with their statuses.
class Pending {
 public:
  using Done = std::function<void(const MPI_Status&)>;
  /// `threads`: several of them may call MPI.
  explicit Pending(bool threads) : threads_(threads) {}
  void add(MPI_Request request, Done done = {});
  /// Completes all, by one of MPI's ways to wait and test.
  void complete(Rng& rng);

 private:
  void finished(size_t i, const MPI_Status& status);
  void wait_all();
  void wait_each(Rng& rng);
  void wait_any();
  void wait_some();
  void test_all();
  void test_each(Rng& rng);
  void test_any();
  void test_some();
  void look_each(Rng& rng);
  void wait_in_threads(Rng& rng);

  std::vector<MPI_Request> requests_;
  std::vector<Done> done_;
  size_t left_ = 0;
  bool threads_;
};

/// Calls `work` with 0 to before `count`, each in a thread; fails as one of them does.
void in_threads(int count, const std::function<void(int)>& work);

enum class Mode { blocking, nonblocking, persistent };

/// One of the three forms of a collective, with the arguments that they share.
template <class Blocking, class Nonblocking, class Init, class... Arguments>
void call(Mode mode, Rng& rng, MPI_Request* request, const Blocking& blocking, const Nonblocking& nonblocking, const Init& init,
          const Arguments&... arguments) {
  switch (mode) {
    case Mode::blocking: return ok(blocking(rng, arguments...));
    case Mode::nonblocking: return ok(nonblocking(rng, arguments..., request));
    case Mode::persistent: return ok(init(rng, arguments..., MPI_INFO_NULL, request));
  }
}

inline const char* mode_text(Mode mode) {
  return mode == Mode::blocking ? "blocking" : mode == Mode::nonblocking ? "nonblocking" : "persistent";
}

/// What a part is drawn from.
struct Draw {
  const Comm& comm;
  uint64_t seed;  ///< the same on all members
  int tag;        ///< the first of `Draw::tags` that no other step uses at the same time
  bool alone;     ///< no other thread of this process communicates
  static constexpr int tags = 8;

  Rng shared() const { return Rng(seed); }
  /// For what is one rank's own choice.
  Rng local() const { return Rng(mix(seed, 1000 + uint64_t(comm.rank))); }
  /// Decides which calls of this rank take large counts.
  Rng calls() const { return Rng(mix(seed, 2000 + uint64_t(comm.rank))); }
};

/// A step runs each of its parts through post, send, take and check, in every round; all parts' requests complete between take and check.
class Part {
 public:
  Part() = default;
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  virtual ~Part() = default;

  virtual std::string text() const = 0;
  /// Makes buffers and what they must contain.
  virtual void begin(int round) = 0;
  /// May not depend on other ranks' send or take: nonblocking operations, and blocking collectives.
  virtual void post(Pending&) {}
  /// May depend on all ranks' post.
  virtual void send(Pending&) {}
  /// May depend on all ranks' post and send.
  virtual void take(Pending&) {}
  virtual void check() = 0;
  /// Messages of the next round or step could be taken for those of this one: a barrier is needed.
  virtual bool fence() const { return false; }
};

/// How many units a message has: often few, sometimes none, sometimes so many that it is sent in another way.
inline int64_t draw_units(Rng& rng, int64_t unit_bytes, int64_t most_bytes) {
  const int64_t kind = rng.below(100), most = most_bytes / unit_bytes + 1;
  const int64_t units = kind < 10 ? 0 : kind < 65 ? rng.between(1, 8) : kind < 90 ? rng.between(1, 200) : rng.between(1, most);
  return units < most ? units : most;
}

inline int64_t draw_unit(Rng& rng) {
  static const std::vector<int64_t> all = {1, 1, 2, 3, 4, 6, 8, 12, 24};
  return rng.pick(all);
}

std::unique_ptr<Part> draw_messages(const Draw& draw);
std::unique_ptr<Part> draw_exchange(const Draw& draw);
/// Where several threads may call MPI, on communicators that take wildcards.
std::unique_ptr<Part> draw_crowd(const Draw& draw);
std::unique_ptr<Part> draw_partitioned(const Draw& draw);
/// Not on inter-communicators.
std::unique_ptr<Part> draw_truncated(const Draw& draw);
std::unique_ptr<Part> draw_movement(const Draw& draw);
std::unique_ptr<Part> draw_reduction(const Draw& draw);
/// On communicators with a topology.
std::unique_ptr<Part> draw_neighbors(const Draw& draw);

}  // namespace random_test
