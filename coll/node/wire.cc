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

#include "coll/node/node.h"
#include "runtime/base/log.h"
#include "runtime/config/config.h"
#include "runtime/type/predefined.h"

namespace weft::coll::node {

namespace {

config::Integer group_setting("coll", "group", "0",
                              "Ranks of a host that meet among themselves in shared memory before their leaders do, in barriers and short "
                              "allreduces, if there are more of them. "
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
  bool send(uint32_t to, T& value) {
    return team_.lane().send(team_, static_cast<int>(to), tag_, pml::Traffic::collective, buffer(value)) == Status::ok;
  }
  template <class T>
  bool receive(uint32_t from, T& value) {
    pml::Outcome outcome;
    return team_.lane().receive(team_, static_cast<int>(from), tag_, pml::Traffic::collective, buffer(value), outcome) == Status::ok;
  }

 private:
  template <class T>
  pml::Buffer buffer(T& value) {
    return {&value, sizeof value, &type::of(type::Basic::byte)};
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

/// How many ranks make a group: 8, neighbours mostly, often share a cache.
uint32_t group_for(uint32_t size, bool crowded) {
  const int64_t wish = group_setting.get();
  const uint32_t group = wish > 0 ? static_cast<uint32_t>(std::min<int64_t>(wish, size)) : crowded ? 1 : 8;
  return group > 1 && group < size && (wish > 0 || size > 8) ? group : 0;
}

/// What a rank says of the segment: it has none, or has it, and does or does not share its CPU. Of all ranks the least counts.
enum class Answer : uint8_t { none, crowded, roomy };

/// Rank 0: what all say.
Answer invite(Mail& mail, Ticket& ticket, uint32_t size, Answer mine) {
  Answer all = mine;
  for (uint32_t r = 1; r < size; ++r) mail.send(r, ticket);
  for (uint32_t r = 1; r < size; ++r) {
    Answer theirs = Answer::none;
    all = mail.receive(r, theirs) ? std::min(all, theirs) : Answer::none;
  }
  for (uint32_t r = 1; r < size; ++r) mail.send(r, all);
  return all;
}

}  // namespace

std::unique_ptr<Segment> Segment::wire(pml::Team& team, int tag) {
  const uint32_t size = team.size();
  const bool shares_cpu = crowded(team.lane().boot().job());
  bool usable = true;
  for (uint32_t r = 0; r < size; ++r) usable &= r == team.rank() || team.lane().same_node(team, r);
  Mail mail(team, tag);
  Ticket ticket;
  std::byte* memory = nullptr;
  const auto answer = [&] { return !memory ? Answer::none : shares_cpu ? Answer::crowded : Answer::roomy; };
  Answer all = Answer::none;
  if (team.rank() == 0) {
    ticket.plan = Plan(size, shares_cpu, group_for(size, shares_cpu));
    if (usable) memory = make(ticket, ticket.plan.bytes(size));
    all = invite(mail, ticket, size, answer());
    if (ticket.descriptor >= 0) close(ticket.descriptor);
  } else if (mail.receive(0, ticket)) {
    if (usable) memory = open_ticket(ticket, ticket.plan.bytes(size));
    Answer mine = answer();
    mail.send(0, mine);
    if (!mail.receive(0, all)) all = Answer::none;
  }
  if (all != Answer::none) return std::unique_ptr<Segment>(new Segment(team, memory, all == Answer::roomy, ticket.plan));
  if (memory) munmap(memory, ticket.plan.bytes(size));
  log(Level::info, "collectives of %u ranks on this node go by messages: no shared segment", size);
  return nullptr;
}

Segment::~Segment() { munmap(memory_, plan_.bytes(size_)); }

}  // namespace weft::coll::node
