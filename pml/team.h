// A team: what pml and coll know of a communicator.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pml/buffer.h"
#include "runtime/base/process_id.h"

namespace weft::pml {

class Lane;
struct Peer;

/// Which processes make up a team, by rank: compact for the common shapes (all of the job, one, strided), a table otherwise.
class Members {
 public:
  static Members range(uint32_t first, uint32_t count, int32_t stride = 1, uint32_t job = 0);
  /// Recognises ranges by itself.
  static Members list(std::vector<ProcessId>);

  uint32_t size() const { return size_; }
  /// True if no table is kept (find() is arithmetic).
  bool compact() const { return table_.empty(); }
  ProcessId at(uint32_t rank) const {
    if (!table_.empty()) return table_[rank];
    return {job_, static_cast<uint32_t>(first_ + int64_t{stride_} * rank)};
  }
  /// Rank of a process, -1 if it is no member. O(1) for ranges; O(size) for tables.
  int64_t find(ProcessId) const;
  bool operator==(const Members&) const;

 private:
  uint32_t size_ = 0, first_ = 0, job_ = 0;
  int32_t stride_ = 1;
  std::vector<ProcessId> table_;
};

/// A context id is {job 8 | leader's world rank 28 | of a session 1 | counter of that leader 27}: unique by construction, so that agreeing
/// on one is a broadcast from the leader. Bits 0 to 2 of the counter are clear: bits 0 and 1 tell kinds of traffic apart, bit 2 is set for
/// the team that unites both groups of an inter-communicator.
using Context = uint64_t;
constexpr Context kSessionContext = Context{1} << 27;
/// Does it belong to a session, not to the world model? Its messages go where the sessions of a process are (openings.h).
constexpr bool of_session(Context c) { return c & kSessionContext; }
constexpr Context context_of(Context c, Traffic traffic) { return c | static_cast<uint64_t>(traffic); }
constexpr Traffic traffic_of(Context c) { return static_cast<Traffic>(c & 3); }
constexpr Context without_traffic(Context c) { return c & ~Context{3}; }
constexpr Context united_context(Context c) { return c | 4; }

/// Spreads contexts over lanes: what follows each other comes to lie on different ones, on all processes alike. Those that different
/// processes lead (the rows and columns of a grid) are told apart by these.
constexpr uint32_t ticket_of(Context c) { return static_cast<uint32_t>((c & 0x0fffffff) >> 3) - 1 + static_cast<uint32_t>(c >> 28); }

/// What its user has promised about a team's messages between two ranks (hints of a communicator); each process for itself.
struct Promises {
  bool exact_length = false;  ///< each message received is just as long as the buffer; one that is not is an error
  bool overtaking = false;    ///< messages may be matched in another order than they were sent in
};

/// An ordered set of peers with a context id. `remote` differs from `local` for inter-communicators only.
class Team {
 public:
  Team(Lane&, Context, std::shared_ptr<const Members> local, uint32_t rank, std::shared_ptr<const Members> remote = nullptr);
  ~Team();
  Team(const Team&) = delete;

  Lane& lane() const { return *lane_; }
  Context context() const { return context_; }
  uint32_t rank() const { return rank_; }
  uint32_t size() const { return local_->size(); }
  uint32_t remote_size() const { return remote_->size(); }
  bool inter() const { return remote_ != local_; }
  const Members& members() const { return *local_; }
  const Members& remote_members() const { return *remote_; }
  std::shared_ptr<const Members> share_members() const { return local_; }
  std::shared_ptr<const Members> share_remote_members() const { return remote_; }
  ProcessId process(uint32_t rank) const { return remote_->at(rank); }
  /// Can a receive from `source`, a rank or any_source, match a message of `who`?
  bool may_come_from(int source, ProcessId who) const;

  /// Of inter-communicators: whether the local group stands before the remote one where they are united. The other side sees it alike:
  /// groups stand in the order of their first processes.
  bool in_front() const { return local_->at(0) < remote_->at(0); }
  /// All members of an inter-communicator: those of the front group, then those of the other one.
  std::shared_ptr<const Members> united_members() const;
  /// The own rank among them.
  uint32_t united_rank() const { return in_front() ? rank_ : remote_size() + rank_; }

  const Promises& promises() const { return promises_; }
  void promise(const Promises& promises);

  /// `n` tags of partitioned traffic to this process that no other operation of the team has; the first of them. Negative: they are
  /// none of the user's. MPI_ANY_TAG (that there are no more) after some 2^31. Under the lane's lock.
  int32_t take_tags(int32_t n);

  /// The peer behind a (remote) rank, if there was anything to do with it yet; null for what is no rank.
  Peer* known_peer(int rank) const {
    const auto at = static_cast<uint32_t>(rank);
    return at < cached_.size() ? cached_[at] : nullptr;
  }
  /// The peer behind a (remote) rank: cached after first use.
  Peer& peer(uint32_t rank) {
    Peer* const known = known_peer(static_cast<int>(rank));
    return known ? *known : find_peer(rank);
  }

 private:
  Peer& find_peer(uint32_t rank);

  Lane* lane_;
  Context context_;
  uint32_t rank_;
  Promises promises_;  // written under the lane's lock
  std::shared_ptr<const Members> local_, remote_;
  int32_t next_tag_ = INT32_MIN;
  std::vector<Peer*> cached_;  // grows to the highest rank talked to
};

}  // namespace weft::pml
