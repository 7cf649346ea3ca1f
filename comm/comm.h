// Communicators, groups, sessions, info, error handlers: what MPI lets a user see of teams.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coll/coll.h"
#include "comm/mailbox.h"
#include "include/mpi.h"
#include "pml/lanes.h"
#include "runtime/base/attributes.h"
#include "runtime/base/object.h"

namespace weft::comm {

class Instance;
struct VirtualTopology;

/// What an MPI_Info handle points to: keys in order of insertion.
struct Info : Object {
  std::vector<std::pair<std::string, std::string>> entries;
  Info() : Object(Kind::info) {}
  static Info* make();
  static void destroy(Info*);
  const std::string* find(std::string_view key) const;
  void set(std::string_view key, std::string_view value);
  /// False if there was no such key.
  bool erase(std::string_view key);
};
/// MPI_INFO_ENV: what is known of the start of this process (MPI 5.0, 11.2.1).
Info& environment_info();

/// What an MPI_Errhandler handle points to. The kind of object it may be attached to is fixed at creation.
struct Errhandler : Object {
  enum class Action : uint8_t { fatal, abort, return_, user };
  enum class For : uint8_t { any, communicator, window, file, session };
  Action action = Action::fatal;
  For target = For::any;
  void* function = nullptr;  ///< MPI_Comm_errhandler_function* and its likes
  Errhandler() : Object(Kind::errhandler) {}
  static Errhandler* make(For target, void* function);
  static void destroy(Errhandler*);
};
Errhandler& errors_are_fatal();
Errhandler& errors_abort();
Errhandler& errors_return();

/// What an MPI_Group handle points to: an ordered set of processes. Immutable.
struct Group : Object {
  std::shared_ptr<const pml::Members> members;
  int rank = MPI_UNDEFINED;      ///< own rank in it
  Instance* instance = nullptr;  ///< null for MPI_GROUP_EMPTY; outlives what is made in it
  uint64_t session = 0;          ///< number of the session that it comes from; 0: the world model
  Group() : Object(Kind::group) {}
  static void destroy(Group*);
  int size() const { return static_cast<int>(members->size()); }
};
/// MPI_GROUP_EMPTY; the handle of every group without members.
Group& empty_group();

/// What an MPI_Session handle points to.
struct Session : Object {
  std::shared_ptr<Instance> instance;
  Errhandler* errhandler = nullptr;
  int thread_level = 0;
  uint64_t number = 0;  ///< of all sessions of the process: unique, not 0
  Session() : Object(Kind::session) {}
  static Session* make();
  static void destroy(Session*);
};

/// Hints that are used (comm/hints.h): what the user has asserted.
struct Hints {
  bool no_any_tag = false, no_any_source = false;  ///< no receive and no probe asks for any
  bool exact_length = false, allow_overtaking = false;
  std::optional<std::string> memory_kinds;  ///< the only kinds of memory that messages lie in
  std::string coll;                         ///< as WEFT_COLL, for its collectives
  std::string reproducible;                 ///< as WEFT_COLL_REPRODUCIBLE
  std::optional<uint32_t> lane;             ///< over which its messages go, from its making on
};

/// What an MPI_Comm handle points to: a team plus name, attributes, error handler, info, collective state.
struct Communicator : Object {
  pml::Team* team = nullptr;  ///< first: the send path reads only this
  std::unique_ptr<pml::Team> owned_team;
  coll::TeamStatePtr coll;
  Instance* instance = nullptr;      ///< outlives its communicators
  Errhandler* errhandler = nullptr;  ///< never null once made
  Attributes attributes;
  std::shared_ptr<const VirtualTopology> topology;  ///< comm/topology/topology.h; null: none
  Hints hints;
  uint64_t session = 0;  ///< as of its group
  std::string name;
  Communicator() : Object(Kind::communicator) {}
  static void destroy(Communicator*);

  int rank() const { return static_cast<int>(team->rank()); }
  int size() const { return static_cast<int>(team->size()); }
  pml::Lane& lane() const { return team->lane(); }
};

/// One initialised MPI of one process (bootstrap, lane): shared by all sessions and the world model; reference-counted.
/// Ranks as threads have one each.
class Instance {
 public:
  /// Opens the transports; `threads`: several threads may call at once. `again`: another one was opened and closed here before. Local:
  /// other ranks are found as they are needed.
  static Result<std::shared_ptr<Instance>> open(std::unique_ptr<boot::Bootstrap>, bool threads, bool again = false);
  /// Waits for all ranks of the job, once; addresses are exchanged on the way.
  Result<void> meet();
  /// Lets the sessions of others find those of this process, which begin now.
  Result<void> begin_sessions();
  /// Waits until a process has sessions: without limit, as for a message, if it is in MPI, otherwise WEFT_BOOT_TIMEOUT seconds.
  Status await_sessions(ProcessId);
  ~Instance();
  boot::Bootstrap& boot() { return *boot_; }
  const boot::Job& job() const { return boot_->job(); }
  pml::Lanes& lanes() { return *lanes_; }
  /// The first lane: for what belongs to no communicator.
  pml::Lane& lane() { return lanes_->first(); }
  bool threads() const { return threads_; }
  /// Where collectives are noted; null: nowhere.
  coll::Ledger* ledger() { return ledger_.get(); }
  Communicator* world() { return world_; }
  Communicator* self() { return self_; }
  /// All processes of the job with a context of its own, for agreement among groups that have no communicator yet: of the world
  /// model, and of sessions.
  pml::Team& carrier() { return *carrier_; }
  pml::Team& session_carrier() { return *session_carrier_; }
  /// Where letters of such agreements arrive, on any team.
  Mailbox& mailbox() { return mailbox_; }
  /// The kinds of memory that objects of a session (0: the world model) may be used with: a list as mem::offered_alloc_kinds gives it.
  std::string memory_kinds(uint64_t session) const;
  /// Says so of a session, until it ends: an empty list.
  void set_memory_kinds(uint64_t session, std::string kinds);
  /// Waits for outstanding traffic, leaves the job. Idempotent.
  Status close();

 private:
  Instance() = default;
  std::unique_ptr<boot::Bootstrap> boot_;
  std::unique_ptr<pml::Lanes> lanes_;
  std::unique_ptr<coll::Ledger> ledger_;
  std::unique_ptr<pml::Team> carrier_, session_carrier_;
  Mailbox mailbox_;
  Communicator* world_ = nullptr;
  Communicator* self_ = nullptr;
  bool threads_ = false;
  bool met_ = false;
  bool closed_ = false;
  mutable std::mutex kinds_mutex_;
  std::map<uint64_t, std::string> memory_kinds_;  // by session, where they are not those of the world model; guarded by kinds_mutex_
};

}  // namespace weft::comm
