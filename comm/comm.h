// Communicators, groups, sessions, info, error handlers: what MPI lets a user see of teams.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coll/coll.h"
#include "include/mpi.h"
#include "pml/lane.h"
#include "runtime/base/attributes.h"
#include "runtime/base/object.h"

namespace weft::comm {

class Instance;

/// What an MPI_Info handle points to: keys in order of insertion.
struct Info : Object {
  std::vector<std::pair<std::string, std::string>> entries;
  Info() : Object(Kind::info) {}
  static void destroy(Info*);
  const std::string* find(std::string_view key) const;
  void set(std::string_view key, std::string_view value);
  bool erase(std::string_view key);
};

/// What an MPI_Errhandler handle points to. The kind of object it may be attached to is fixed at creation.
struct Errhandler : Object {
  enum class Action : uint8_t { fatal, abort, return_, user };
  enum class For : uint8_t { any, communicator, window, file, session };
  Action action = Action::fatal;
  For target = For::any;
  void* function = nullptr;  ///< MPI_Comm_errhandler_function* and its likes
  Errhandler() : Object(Kind::errhandler) {}
  static void destroy(Errhandler*);
};

/// What an MPI_Group handle points to: an ordered set of processes. Immutable.
struct Group : Object {
  std::shared_ptr<const pml::Members> members;
  int rank = MPI_UNDEFINED;  ///< own rank in it
  Instance* instance = nullptr;
  Group() : Object(Kind::group) {}
  static void destroy(Group*);
};

/// What an MPI_Session handle points to.
struct Session : Object {
  Instance* instance = nullptr;
  Errhandler* errhandler = nullptr;
  Info* info = nullptr;
  int thread_level = 0;
  Session() : Object(Kind::session) {}
  static void destroy(Session*);
};

/// What an MPI_Comm handle points to: a team plus name, attributes, error handler, info, collective state.
struct Communicator : Object {
  pml::Team* team = nullptr;  ///< first: the send path reads only this
  std::unique_ptr<pml::Team> owned_team;
  coll::TeamStatePtr coll;
  Instance* instance = nullptr;
  Errhandler* errhandler = nullptr;
  Attributes* attributes = nullptr;
  Info* info = nullptr;
  std::string name;
  Communicator() : Object(Kind::communicator) {}
  static void destroy(Communicator*);

  int rank() const { return static_cast<int>(team->rank()); }
  int size() const { return static_cast<int>(team->size()); }
};

/// One initialised MPI of one process (bootstrap, lane): shared by all sessions and the world model; reference-counted.
/// Ranks as threads have one each.
class Instance {
 public:
  static Result<std::shared_ptr<Instance>> open(std::unique_ptr<boot::Bootstrap>, bool threads);
  ~Instance();
  boot::Bootstrap& boot() { return *boot_; }
  const boot::Job& job() const { return boot_->job(); }
  pml::Lane& lane() { return *lane_; }
  Communicator* world() { return world_; }
  Communicator* self() { return self_; }
  /// Waits for outstanding traffic, leaves the job.
  Status close();

 private:
  std::unique_ptr<boot::Bootstrap> boot_;
  std::unique_ptr<pml::Lane> lane_;
  Communicator* world_ = nullptr;
  Communicator* self_ = nullptr;
};

}  // namespace weft::comm
