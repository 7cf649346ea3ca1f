// Communicators drawn at random, with the model of who is in them.
#pragma once

#include "base.h"

namespace random_test {

enum class Topology { none, cart, graph };

/// A communicator and its members by their ranks in MPI_COMM_WORLD. Not a member: `handle` is null and nothing else is of use.
/// The groups of an inter-communicator are its sides 0 and 1, in an order that all agree on; others have side 0 only.
struct Comm {
  MPI_Comm handle = MPI_COMM_NULL;
  std::vector<int> members;  ///< the local group
  std::vector<int> remote;   ///< of an inter-communicator
  int rank = 0;
  int side = 0;
  Topology topology = Topology::none;
  std::vector<int> ins, outs;  ///< this rank's neighbours, in the order of neighbourhood collectives
  uint64_t id = 0;             ///< the same on all members, and only there
  bool owned = false;          ///< to be freed
  bool of_session = false;     ///< made from the session's group, or from such a communicator
  bool exact = false;          ///< hints promise that there are no wildcards, and that messages are as long as their receives
  std::string text;
  int size() const { return int(members.size()); }
  bool inter() const { return !remote.empty(); }
  int sides() const { return inter() ? 2 : 1; }
  int size_of(int which) const { return int(which == side ? members.size() : remote.size()); }
  /// The side that messages from `which` go to.
  int other(int which) const { return inter() ? 1 - which : which; }
  bool in() const { return handle != MPI_COMM_NULL; }
};

Comm world_comm();

/// A session of the program, beside MPI_Init: groups made from it become communicators as well. One at a time.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

/// The one that there is.
MPI_Session session();

/// A communicator made from another one by a constructor drawn at random: to be called by all members of `parent`. The seed is shared.
Comm draw_comm(const Comm& parent, uint64_t seed);

/// One with a topology; its parent is no inter-communicator.
Comm draw_topology(const Comm& parent, Rng& rng);

void free_comm(Comm& comm);

/// The communicators of one thread: the first is given, each of the others is made from one before it.
class Pool {
 public:
  /// `wanted`: which of them the program needs; those that they are made from are made as well.
  Pool(const Comm& first, uint64_t seed, const std::vector<size_t>& wanted);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  const Comm& operator[](size_t i) const { return comms_[i]; }

  static constexpr size_t size = 8;

 private:
  static size_t parent(uint64_t seed, size_t i) { return size_t(mix(seed, 500 + i) % i); }
  std::vector<Comm> comms_;
};

}  // namespace random_test
