// What the PMIx servers of a job ask of mpirun, which answers for all of them; as records and as bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/job.h"
#include "launcher/names.h"
#include "launcher/roster.h"

namespace weft::launcher {

enum class Service : uint8_t { publish = 1, lookup, unpublish, gather, notify, spawn, last = spawn };

/// In mpirun the answers themselves, in a daemon the way to them. Called by the loop's thread; so are the answers.
class Services {
 public:
  /// A PMIx status, and a record that goes with the question.
  using Done = std::function<void(int32_t status, std::string body)>;
  virtual ~Services() = default;
  virtual void ask(Service what, std::string body, Done done) = 0;
};

struct Publish {
  Proc who;
  Audience audience = Audience::all;
  Lasting lasting = Lasting::job;
  NameService::Items items;  ///< values as PMIx packs them
};
struct Lookup {
  Proc who;
  std::vector<std::string> names;
  bool wait = false;
  uint32_t timeout_s = 0;  ///< 0: none
};
/// The answer to Lookup.
using Found = std::vector<NameService::Found>;
struct Unpublish {
  Proc who;
  std::vector<std::string> names;  ///< none: all
};

/// What all members must have come to before it is over. Each host says so once, when all its members have.
struct Gather {
  enum class What : uint8_t { group, ungroup, connect, disconnect, last = disconnect } what = What::group;
  std::string id;             ///< of a group
  std::vector<Proc> members;  ///< a rank may be all_ranks
  std::string data;           ///< what the host's members bring, as PMIx packs it
};
/// The answer to Gather.
struct Gathered {
  uint64_t context = 0;  ///< of a group: never used before in the job
  std::string data;      ///< of all hosts
};

/// Something happened that ranks may want to hear of.
struct Notice {
  int32_t code = 0;  ///< PMIx status
  Proc source;
  uint8_t range = 0;  ///< PMIx's
  std::string infos;  ///< as PMIx packs them; empty: none
};

/// Programs that a rank wants to be started.
struct SpawnWish {
  Proc who;
  std::string map_by;  ///< as for --map-by; empty: where there is room
  std::vector<App> apps;
};
/// The answer: the new namespace, or why there is none.
struct Spawned {
  std::string space, why;
};

/// A namespace as mpirun tells it to all daemons, which start its ranks.
struct SpawnOrder {
  Space space;                    ///< numbered as all daemons will number it
  std::vector<uint32_t> host_of;  ///< by rank in the namespace
};

std::string encode(const Publish&);
std::string encode(const Lookup&);
std::string encode(const Found&);
std::string encode(const Unpublish&);
std::string encode(const Gather&);
std::string encode(const Gathered&);
std::string encode(const Notice&);
std::string encode(const SpawnWish&);
std::string encode(const Spawned&);
std::string encode(const SpawnOrder&);

/// Nothing if the bytes are not what encode() makes.
std::optional<Publish> decode_publish(std::string_view);
std::optional<Lookup> decode_lookup(std::string_view);
std::optional<Found> decode_found(std::string_view);
std::optional<Unpublish> decode_unpublish(std::string_view);
std::optional<Gather> decode_gather(std::string_view);
std::optional<Gathered> decode_gathered(std::string_view);
std::optional<Notice> decode_notice(std::string_view);
std::optional<SpawnWish> decode_spawn_wish(std::string_view);
std::optional<Spawned> decode_spawned(std::string_view);
std::optional<SpawnOrder> decode_spawn_order(std::string_view);

}  // namespace weft::launcher
