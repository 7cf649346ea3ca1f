// What travels between the daemons of a job: frames, and the records in them. Bytes in, records out; no sockets in here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/daemon_state.h"
#include "launcher/job.h"
#include "launcher/stacks.h"

namespace weft {
class Writer;
class Reader;
}  // namespace weft

namespace weft::launcher::tree {

/// Sent to all daemons but the sender.
constexpr uint32_t everybody = UINT32_MAX;

/// Part of several records.
void write_app(Writer&, const App&);
App read_app(Reader&);

enum class Kind : uint8_t {
  plan = 1,      ///< parent to child: the job (Plan)
  up,            ///< to mpirun: the sender's host is ready (a number: MASTER_PORT, from the host of rank 0 if wanted)
  lost,          ///< to mpirun: a daemon below the sender cannot be started, or has died (Lost)
  launch,        ///< to everybody: start the ranks (Launch)
  event,         ///< to mpirun: something happened to a rank (Event)
  signal,        ///< to everybody: signal the ranks (a number)
  fence,         ///< child to parent: what its part of the tree has collected (Fence)
  fence_done,    ///< parent to child: everything collected (Fence)
  modex,         ///< to the daemon of a rank: what did it publish? (Modex)
  modex_reply,   ///< the answer (Modex)
  shutdown,      ///< to everybody: end the ranks and go
  farewell,      ///< child to parent: all daemons from me on have ended their ranks
  stacks,        ///< to everybody: where are your ranks?
  stacks_found,  ///< to mpirun: the answer (HostStacks)
  ask,           ///< to mpirun: a service is wanted (Ask)
  answer,        ///< what comes of it (Answer)
  notice,        ///< to everybody: tell your ranks, but the daemon that has asked for it (Spread)
  spawn,         ///< to everybody: a new namespace, start its ranks (launcher/service.h: SpawnOrder)
  drop,          ///< to everybody: a spawned namespace (its number) is over; kill what is left of it
  last = drop,
};

struct Message {
  Kind kind;
  uint32_t from = 0, to = 0;  ///< numbers of daemons; mpirun is 0
  std::string body;
};

/// The largest body that is believed.
constexpr uint32_t body_limit = 256u << 20;

/// Version of the frames and records; part of what two daemons compare before anything else.
constexpr uint16_t format_version = 1;

std::string frame(const Message& message);

enum class Taken : uint8_t { message, more, damaged };
/// Takes one message from the front of `bytes`, starting at `at` (which moves). `damaged`: no frame of ours.
Taken take_frame(std::string_view bytes, size_t& at, Message& message);

/// The job, as each daemon must know it.
struct Plan {
  std::string job;
  uint32_t launcher = 0;  ///< pid of mpirun
  uint32_t fan_out = 2;
  bool ssh = true;  ///< daemons are started by their parents over ssh; otherwise all by mpirun at once
  std::string agent;
  std::string program;             ///< path of mpirun on every host
  std::vector<std::string> hosts;  ///< 0: mpirun's own
  std::vector<uint32_t> host_of;   ///< by rank
  std::vector<std::string> environment;
  std::string master;  ///< for torchrun's variables
  Options options;
  placement::Request policies;  ///< by which each daemon binds its ranks; without hosts
};

struct Launch {
  bool held = false;         ///< ranks are to stand still before main() until SIGCONT, for a debugger
  uint16_t master_port = 0;  ///< for torchrun's variables
};

struct Lost {
  uint32_t node;
  std::string why;
};

/// A fence is known by its members; none: all ranks of the job.
struct Fence {
  std::vector<uint32_t> members;
  bool good = true;
  std::string data;
};

struct Modex {
  uint64_t number = 0;  ///< of the question, the asker's
  uint32_t rank = 0;
  int32_t status = 0;  ///< PMIx status, in answers
  std::string data;
};

/// A question to a service of the job.
struct Ask {
  uint64_t number = 0;  ///< the asker's
  uint8_t what = 0;     ///< Service
  std::string body;
};
struct Answer {
  uint64_t number = 0;
  int32_t status = 0;  ///< PMIx status
  std::string body;
};
/// A notice with the daemon whose ranks know it already.
struct Spread {
  uint32_t origin = 0;
  std::string body;
};

std::string encode(const Plan&);
std::string encode(const Launch&);
std::string encode(const Lost&);
std::string encode(const Fence&);
std::string encode(const Modex&);
std::string encode(const Ask&);
std::string encode(const Answer&);
std::string encode(const Spread&);
std::string encode(const Event&);
/// At most about `limit` bytes; the stacks of ranks that find no room are replaced by a remark.
std::string encode(const HostStacks&, size_t limit);
std::string encode(uint32_t number);

/// Nothing if the bytes are not what encode() makes.
std::optional<Plan> decode_plan(std::string_view body);
std::optional<Launch> decode_launch(std::string_view body);
std::optional<Lost> decode_lost(std::string_view body);
std::optional<Fence> decode_fence(std::string_view body);
std::optional<Modex> decode_modex(std::string_view body);
std::optional<Ask> decode_ask(std::string_view body);
std::optional<Answer> decode_answer(std::string_view body);
std::optional<Spread> decode_spread(std::string_view body);
std::optional<Event> decode_event(std::string_view body);
std::optional<HostStacks> decode_stacks(std::string_view body);
std::optional<uint32_t> decode_number(std::string_view body);

/// What a daemon reads from its standard input before everything else: who it is, whom to talk to, and the secret.
struct Summons {
  std::string version;  ///< of the Weft that sends it
  uint32_t node = 0;    ///< 0: the daemon finds its number by its host's name
  std::string secret;
  std::vector<std::string> parents;  ///< addresses with port, best first
  std::vector<std::string> names;    ///< hosts by number, only where node is 0
};
std::string encode(const Summons&);
std::optional<Summons> decode_summons(std::string_view text);
/// Bytes of a summons that stand before its length is known.
constexpr size_t summons_head = 16;
/// Length of the whole summons, told by its first summons_head bytes; 0: no summons.
size_t summons_size(std::string_view head);

}  // namespace weft::launcher::tree
