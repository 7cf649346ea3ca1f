// How the ranks of a team come to share a segment: rank 0 makes it, tells the others its name by message, and takes the name away
// again once they have answered, so that nothing is left behind whoever dies when.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "coll/node/groups.h"
#include "coll/node/node.h"
#include "runtime/base/log.h"
#include "runtime/config/config.h"
#include "runtime/type/predefined.h"

namespace weft::coll::node {

namespace {

config::Integer group_setting(
    "coll", "group", "0",
    "Most ranks of a host that meet among themselves in shared memory before their leaders do, in barriers and short "
    "allreduces: neighbours in caches and NUMA nodes, if they are bound. "
    "0: 8 where each rank has a CPU of its own, else no groups, as each meeting costs a switch. 1: no groups.");

/// What rank 0 tells: which file descriptor of which process; the nonce shows that it is the right one (process numbers mean
/// something else in another container).
struct Ticket {
  uint64_t nonce = 0;
  int32_t process = 0, descriptor = -1;
  Segment::Plan plan;
};

class Mail {
 public:
  Mail(pml::Team& team, int tag) : team_(team), tag_(tag) {}
  template <class T>
  bool send(uint32_t to, std::span<T> values) {
    return team_.lane().send(team_, static_cast<int>(to), tag_, pml::Traffic::collective, buffer(values)) == Status::ok;
  }
  template <class T>
  bool receive(uint32_t from, std::span<T> values) {
    pml::Outcome outcome;
    return team_.lane().receive(team_, static_cast<int>(from), tag_, pml::Traffic::collective, buffer(values), outcome) == Status::ok;
  }
  template <class T>
  bool send(uint32_t to, T& value) {
    return send(to, std::span(&value, 1));
  }
  template <class T>
  bool receive(uint32_t from, T& value) {
    return receive(from, std::span(&value, 1));
  }

 private:
  template <class T>
  pml::Buffer buffer(std::span<T> values) {
    return {values.data(), values.size_bytes(), &type::of(type::Basic::byte)};
  }
  pml::Team& team_;
  int tag_;
};

std::byte* map(int descriptor, size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

std::byte* open_ticket(const Ticket& ticket, size_t bytes) {
  if (ticket.descriptor < 0) return nullptr;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", ticket.process, ticket.descriptor);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  // The file may be anything if the number means another process here: a look at its size comes first.
  std::byte* memory = lseek(fd, 0, SEEK_END) == static_cast<off_t>(bytes) ? map(fd, bytes) : nullptr;
  close(fd);
  if (memory && std::memcmp(memory, &ticket.nonce, sizeof ticket.nonce) != 0) {
    munmap(memory, bytes);
    memory = nullptr;
  }
  return memory;
}

std::byte* make(Ticket& ticket, size_t bytes) {
  ticket.descriptor = memfd_create("weft-node", MFD_CLOEXEC);
  if (ticket.descriptor < 0) return nullptr;
  std::byte* memory = ftruncate(ticket.descriptor, static_cast<off_t>(bytes)) == 0 ? map(ticket.descriptor, bytes) : nullptr;
  if (!memory || getrandom(&ticket.nonce, sizeof ticket.nonce, 0) != sizeof ticket.nonce) {
    if (memory) munmap(memory, bytes);
    close(std::exchange(ticket.descriptor, -1));
    return nullptr;
  }
  std::memcpy(memory, &ticket.nonce, sizeof ticket.nonce);
  ticket.process = getpid();
  return memory;
}

/// How many ranks make a group at most; 0: there are none.
uint32_t most_in_group(uint32_t size, bool crowded) {
  const int64_t wish = group_setting.get();
  const uint32_t most = wish > 0 ? static_cast<uint32_t>(std::min<int64_t>(wish, size)) : crowded ? 1 : 8;
  return most > 1 && most < size && (wish > 0 || size > 8) ? most : 0;
}

/// What can be said of the segment: a rank has none, or has it, and does or does not share its CPU. Of all ranks the least counts.
enum class State : uint8_t { none, crowded, roomy };

/// What each rank answers.
struct Answer {
  State state = State::none;
  Spot spot;
};

/// What all learn at the end.
struct Verdict {
  State state = State::none;
  std::vector<int32_t> groups;  ///< by rank, if the plan has them
};

/// Rank 0: asks all.
Verdict invite(Mail& mail, Ticket& ticket, uint32_t size, Answer mine, uint32_t most) {
  Verdict verdict{mine.state, {}};
  std::vector<Spot> spots(size, mine.spot);
  for (uint32_t r = 1; r < size; ++r) mail.send(r, ticket);
  for (uint32_t r = 1; r < size; ++r) {
    Answer theirs;
    verdict.state = mail.receive(r, theirs) ? std::min(verdict.state, theirs.state) : State::none;
    spots[r] = theirs.spot;
  }
  if (most) verdict.groups = group_ranks(spots, most);
  for (uint32_t r = 1; r < size; ++r) {
    mail.send(r, verdict.state);
    if (most) mail.send(r, std::span(verdict.groups));
  }
  return verdict;
}

/// Another rank: answers, and learns what all have.
Verdict accept(Mail& mail, const Ticket& ticket, uint32_t size, Answer mine) {
  Verdict verdict;
  mail.send(0, mine);
  if (!mail.receive(0, verdict.state)) return {};
  if (ticket.plan.grouped) verdict.groups.resize(size);
  return verdict.groups.empty() || mail.receive(0, std::span(verdict.groups)) ? verdict : Verdict{};
}

}  // namespace

std::unique_ptr<Segment> Segment::wire(pml::Team& team, int tag) {
  const uint32_t size = team.size();
  const boot::Job& job = team.lane().boot().job();
  const bool shares_cpu = crowded(job);
  bool usable = true;
  for (uint32_t r = 0; r < size; ++r) usable &= r == team.rank() || team.lane().same_node(team, r);
  Mail mail(team, tag);
  Ticket ticket;
  std::byte* memory = nullptr;
  const auto answer = [&] {
    return Answer{!memory ? State::none : shares_cpu ? State::crowded : State::roomy, ticket.plan.grouped ? own_spot(job) : Spot{}};
  };
  Verdict all;
  if (team.rank() == 0) {
    const uint32_t most = most_in_group(size, shares_cpu);
    ticket.plan = Plan(size, shares_cpu, most > 0);
    if (usable) memory = make(ticket, ticket.plan.bytes(size));
    all = invite(mail, ticket, size, answer(), most);
    if (ticket.descriptor >= 0) close(ticket.descriptor);
  } else if (mail.receive(0, ticket)) {
    if (usable) memory = open_ticket(ticket, ticket.plan.bytes(size));
    all = accept(mail, ticket, size, answer());
  }
  if (all.state != State::none)
    return std::unique_ptr<Segment>(new Segment(team, memory, all.state == State::roomy, ticket.plan, all.groups));
  if (memory) munmap(memory, ticket.plan.bytes(size));
  log(Level::info, "collectives of %u ranks on this node go by messages: no shared segment", size);
  return nullptr;
}

Segment::~Segment() { munmap(memory_, plan_.bytes(size_)); }

}  // namespace weft::coll::node
