// What coll keeps per team.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "coll/coll.h"
#include "coll/hosts.h"
#include "coll/ledger.h"
#include "coll/node/node.h"
#include "coll/node/wiring.h"
#include "coll/plan.h"
#include "coll/refine.h"
#include "coll/wish.h"

namespace weft::coll {

/// Bytes of an element of what is reduced; 1 if nothing is.
inline uint64_t reduced_unit(const Call& c) { return c.op ? reduced_type(c).size : 1; }
/// Does a board take such a nonblocking call, if shared memory is wanted for it? `unit`: reduced_unit().
bool board_takes(const node::Segment&, const Agreed&, uint64_t unit);

/// Used by the thread that calls a collective on the team; MPI lets only one do so at a time.
class TeamState {
 public:
  TeamState(pml::Team&, Ledger*, std::shared_ptr<const Neighborhood>);
  /// What messages go over: the team; of inter-communicators one of both groups.
  pml::Team& team() const { return team_; }
  /// Is the call one between two groups?
  bool between_groups(const Call& c) const { return groups_ && !c.united; }
  /// How the team is made up of two groups.
  struct Groups {
    int32_t front = 0;  ///< ranks of the front group
    bool in_front = false;
    int32_t own = 0, other = 0;  ///< ranks of the own and of the other group
    Rank other_first = 0;        ///< the other group's rank 0 in the team
  };
  /// Null on intra-communicators.
  const Groups* groups() const { return groups_.get(); }
  /// What this rank does in such a call.
  const SchedulePtr& schedule_for(const Call&, const Agreed&);
  bool has_neighborhood() const { return neighborhood_ != nullptr; }

  /// A tag tells the collectives of a team apart; between two ranks the messages of one collective match in order. Each form has
  /// numbers of its own: persistent ones are made in the same order on all ranks but may be started in any, and blocking and
  /// nonblocking ones get along even where a program, against the standard (MPI-5.0, 6.12), starts them in different orders
  /// (except around the call from which on the team has shared memory).
  enum class Form : uint8_t { blocking, nonblocking, persistent };
  int next_tag(Form);
  /// Number of the team's next collective, for records of what happened.
  int next_number() { return static_cast<int>(number_++ & 0x7fffffff); }

  /// Runs a call by messages.
  int run_schedule(const Call&, const Agreed&);
  std::string prefer(std::string_view words);
  Reproducible reproducible() const { return reproducible_; }
  void make_reproducible(Reproducible r) {
    reproducible_ = r;
    latest_.here = false;
  }
  /// Where calls are noted; null: nowhere.
  Ledger* ledger() const { return ledger_; }
  /// The line of the ledger that a call stands in. `node`: it has run in shared memory.
  Ledger::Key line_of(const Call&, const Agreed&, Ledger::Form, bool node);
  /// Runs the call in shared memory if that is for all ranks to do. All ranks decide alike.
  bool try_node(const Call&, const Agreed&, int& error);
  /// How a nonblocking call goes: by messages, by the board in shared memory, or as it turns out when it is known whether there is one. All
  /// ranks decide alike.
  enum class Way : uint8_t { messages, board, later };
  Way way_of(const Call&, const Agreed&);
  node::Segment& node() { return *node_; }  ///< if it goes by the board
  /// What has to be known of a call that is decided later.
  struct Wants {
    bool roomy = false, crowded = false;  ///< is shared memory wanted if each rank has a CPU, and if not?
    uint64_t unit = 1;                    ///< reduced_unit()
    bool board(const node::Segment& segment, const Agreed& a) const {
      return (segment.roomy() ? roomy : crowded) && board_takes(segment, a, unit);
    }
  };
  Wants wants(const Call&, const Agreed&);
  /// Tells it then, or at once if it has become known meanwhile.
  void go_on_when_wired(node::Wiring::Follower&);
  /// A call that goes on later is to be noted in the ledger then.
  void note_later(const Call&, const Agreed&);
  /// What all know of a call that is like the latest one in shared memory, and so goes the same way; null: it has to be looked at.
  const Agreed* like_latest(const Call& c) {
    if (!latest_.here || latest_.what != c.what || latest_.op != c.op || c.terms > 0 || keeps_input(c)) return nullptr;
    if (const auto [type, count] = weighed(c); latest_.type != type || latest_.count != count) return nullptr;
    if (preferred_ || user_speaks()) return nullptr;
    latest_.agreed.root = c.root;
    return &latest_.agreed;
  }
  /// Runs a call in shared memory.
  int run_here(const Call&, const Agreed&);
  /// Runs one that is like_latest(): nothing is wide or has an order of its own.
  int run_again(const Call&, const Agreed&);

 private:
  /// The latest call that ran in shared memory; types and operations are predefined ones, which stay what they are.
  struct Latest {
    bool here = false;
    Collective what = Collective::barrier;
    const op::Op* op = nullptr;
    const type::Datatype* type = nullptr;
    uint64_t count = 0;
    Agreed agreed;
  };
  void remember(const Call&, const Agreed&);
  /// Is how long blocks are for nobody to decide by, as only two ranks know?
  static bool among_two(Collective what) {
    return what == Collective::gatherv || what == Collective::scatterv || what == Collective::alltoallv || what == Collective::alltoallw;
  }
  static bool keeps_input(const Call& c) { return c.in_place && (c.what == Collective::alltoallv || c.what == Collective::alltoallw); }
  /// What the bytes of a call that all have agreed upon are counted by, on this rank: one side means something at the root only.
  std::pair<const type::Datatype*, uint64_t> weighed(const Call& c) const {
    if (among_two(c.what)) return {nullptr, 0};
    const bool root = c.root == static_cast<int>(team_.rank());
    const bool by_in = c.what == Collective::gather ? !root || !c.in_place : c.what == Collective::scatter ? root : !c.out_type;
    return by_in ? std::pair{c.in_type, c.in_count} : std::pair{c.out_type, c.out_count};
  }
  const void* operand(const Call& c) const {
    return c.in_place && (c.what != Collective::reduce || c.root == static_cast<int>(team_.rank())) ? c.out : c.in;
  }
  void know_hosts() {
    if (!knows_hosts_) [[unlikely]]
      learn_hosts();
  }
  void learn_hosts();
  /// What the user says of a call.
  Word word_of_user(const Agreed& a) {
    if (!preferred_ && !user_speaks()) [[likely]]
      return {};
    return look_up(a);
  }
  Word look_up(Agreed);
  int run_plan(const Call&, const Agreed&, const SchedulePtr&);
  Refinement* refinement_of(const Agreed&);
  int run_refined(Refinement&, const Call&, const Agreed&);
  int exchange_times(Refinement&, Pattern);
  bool node_wanted(const Agreed&, bool roomy);
  bool node_wanted(const Agreed&);
  bool node_possible(const Call&, const Agreed&);
  bool begin_wiring(const Agreed&);
  void settle_wiring();
  void await_wiring();
  bool wiring_over();
  Order order_here(const Agreed&);
  Status reduce_as(const Call&, const void* in, void* out, const type::Datatype&, Order);
  Status reduce_here(const Call&, const Agreed&, const void* in);
  Status scatter_sums_here(const Call&, const void* in);
  std::byte* take_wide(uint64_t bytes);
  Status exchange_evenly(const Call&, const Agreed&);
  int exchange_unevenly(const Call&, const Agreed&);
  Status allgather_here(const Call&);

  std::unique_ptr<pml::Team> united_;  // of inter-communicators
  pml::Team& team_;
  std::unique_ptr<const Groups> groups_;
  std::shared_ptr<const Neighborhood> neighborhood_;
  uint32_t sequences_[3] = {};
  uint32_t number_ = 0;
  Ledger* const ledger_;
  bool knows_hosts_ = false;
  Reproducible reproducible_ = reproducible_setting();
  const bool refines_ = refinement_wanted();
  std::unique_ptr<const Wishes> preferred_;  // null: none
  int32_t host_count_ = 0;                   // 0: not known
  std::unique_ptr<const Hosts> hosts_;
  Plans plans_;
  Frame frame_;
  std::vector<pml::Request*> requests_;
  std::map<uint32_t, Refinement> refinements_;  // by kind of call
  /// What has decided the latest call by messages, if it was not what usually does.
  struct Refined {
    Word word;
    bool tried = false;
  } refined_;
  // The shared segment: wired at one of the first calls that could use it, so that short-lived teams need not pay.
  enum class Node : uint8_t { unknown, impossible, possible, wiring, ready } node_state_ = Node::unknown;
  int node_chances_ = 0;
  std::unique_ptr<const NodeWords> node_words_;    // null: the table says nothing
  std::unique_ptr<const NodeOrders> node_orders_;  // null: there has been no ordered call
  node::WiringPtr wiring_;                         // under way
  /// A call that has been started meanwhile: its lines in the ledger, by messages and by the board.
  struct Later {
    Agreed agreed;
    Wants wants;
    Ledger::Key by_messages, by_board;
  };
  std::vector<Later> later_;
  std::unique_ptr<node::Segment> node_;
  Latest latest_;
  Scratch wide_;                  // operands of reduce_here() and scatter_sums_here()
  std::vector<uint64_t> starts_;  // of the shares of scatter_sums_here()
};

Agreed agree(const TeamState&, const Call&);
/// Is there a kernel in shared memory for it?
bool node_fits(const Call&, const Agreed&);
/// In place where it matters: for some collectives at the root only. All-to-all forms stage their input instead.
bool in_place_here(const TeamState&, const Call&);

/// How long arrays of counts, displacements and types are.
int32_t array_length(const TeamState&, const Call&);

/// Does it compute, if anything, with a predefined operation in the type that its operands have?
bool is_plain(const Call&);

/// A nonblocking operation by the board. begin() it.
pml::Request* make_on_board(pml::Team&, node::Segment&, const Call&, const Agreed&, bool in_place);
/// A nonblocking operation with that tag, or a persistent one. begin() the former.
int make_operation(TeamState&, const Call&, const Agreed&, int tag, bool persistent, pml::Request** request);
/// One that begins when it is known how. `by_messages` has not begun.
pml::Request* start_later(TeamState&, const Call&, const Agreed&, pml::Request* by_messages);
inline void begin(pml::Request& r) { r.ops->start(r); }

}  // namespace weft::coll
