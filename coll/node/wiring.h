// How the ranks of a team come to share a segment: by messages, in steps that nobody has to wait in.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "coll/node/node.h"
#include "pml/lane.h"

namespace weft::coll::node {

class Wiring;
struct WiringDeleter {
  void operator()(Wiring*) const;
};
using WiringPtr = std::unique_ptr<Wiring, WiringDeleter>;

/// Collective over the team. Guarded by the lane's lock, but for its beginning and take().
class Wiring final : private pml::Deferred {
 public:
  /// What goes on when all is known.
  class Follower {
   public:
    /// The segment, for as long as the team is there; null on all ranks if one of them has none. Under the lane's lock; may post.
    virtual void wired(Segment*) = 0;

   protected:
    ~Follower() = default;
  };

  /// Begins, by messages with `tag`.
  static WiringPtr begin(pml::Team& team, int tag) { return WiringPtr(new Wiring(team, tag)); }
  /// Progresses until it is over, or the job is.
  Status wait();
  bool over() const { return over_; }
  /// Tells `follower` when it is over, those before it first; at once if it is.
  void follow(Follower&);
  /// Once it is over.
  std::unique_ptr<Segment> take() { return std::move(segment_); }

 private:
  friend WiringDeleter;
  struct Draft;
  Wiring(pml::Team&, int tag);
  ~Wiring();

  template <class T>
  void send(uint32_t to, std::span<T>);
  template <class T>
  void send(uint32_t to, T&);
  template <class T>
  void receive(uint32_t from, std::span<T>);
  template <class T>
  void receive(uint32_t from, T&);
  void then(void (Wiring::*step)());
  static void message_done(pml::Request&);
  void go_on();
  bool usable() const;
  void invite();
  void judge();
  void enter();
  void answer();
  void end();

  pml::Team& team_;
  const int tag_;
  std::unique_ptr<Draft> draft_;
  std::vector<pml::Request*> messages_;  // of the step under way
  int pending_ = 0;                      // of these
  void (Wiring::*next_)() = nullptr;
  std::unique_ptr<Segment> segment_;
  std::vector<Follower*> followers_;
  bool failed_ = false, over_ = false, abandoned_ = false;
};

}  // namespace weft::coll::node
