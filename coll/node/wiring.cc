// Rank 0 makes the segment, tells the others its name by message, and takes the name away again once they have answered, so that nothing
// is left behind whoever dies when.
#include "coll/node/wiring.h"

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

Answer answer_with(const std::byte* memory, const Segment::Plan& plan, const boot::Job& job) {
  return {!memory ? State::none : Segment::crowded(job) ? State::crowded : State::roomy, plan.grouped ? own_spot(job) : Spot{}};
}

}  // namespace

/// What there is until the segment is there.
struct Wiring::Draft {
  Ticket ticket;
  std::byte* memory = nullptr;
  uint32_t most = 0;            ///< in a group, as rank 0 knows
  Answer mine;                  ///< other ranks'
  std::vector<Answer> answers;  ///< by rank, at rank 0
  Verdict verdict;
};

Wiring::Wiring(pml::Team& team, int tag) : team_(team), tag_(tag), draft_(std::make_unique<Draft>()) {
  run = [](pml::Deferred& self) { static_cast<Wiring&>(self).go_on(); };
  team.lane().locked([this] { team_.rank() == 0 ? invite() : enter(); });
}

Wiring::~Wiring() = default;

void WiringDeleter::operator()(Wiring* w) const {
  w->team_.lane().locked([w] {
    if (w->over_)
      delete w;
    else
      w->abandoned_ = true;  // its messages are under way
  });
}

Status Wiring::wait() {
  return team_.lane().wait_until([](void* w) { return static_cast<Wiring*>(w)->over_; }, this);
}

void Wiring::follow(Follower& follower) {
  if (over_)
    follower.wired(segment_.get());
  else
    followers_.push_back(&follower);
}

template <class T>
void Wiring::send(uint32_t to, std::span<T> values) {
  const pml::Buffer buffer{values.data(), values.size_bytes(), &type::of(type::Basic::byte)};
  messages_.push_back(team_.lane().isend(team_, static_cast<int>(to), tag_, pml::Traffic::collective, buffer));
}
template <class T>
void Wiring::receive(uint32_t from, std::span<T> values) {
  const pml::Buffer buffer{values.data(), values.size_bytes(), &type::of(type::Basic::byte)};
  messages_.push_back(team_.lane().ireceive(team_, static_cast<int>(from), tag_, pml::Traffic::collective, buffer));
}
template <class T>
void Wiring::send(uint32_t to, T& value) {
  send(to, std::span(&value, 1));
}
template <class T>
void Wiring::receive(uint32_t from, T& value) {
  receive(from, std::span(&value, 1));
}

void Wiring::message_done(pml::Request& r) {
  Wiring& w = *static_cast<Wiring*>(r.context);
  if (--w.pending_ == 0) w.team_.lane().defer(w);
}

/// Goes on there as soon as all messages have come and gone.
void Wiring::then(void (Wiring::*step)()) {
  next_ = step;
  for (pml::Request* r : messages_) {
    if (r->complete.load(std::memory_order_acquire)) continue;
    r->context = this;
    r->on_done = message_done;
    ++pending_;
  }
  if (pending_ == 0) go_on();
}

void Wiring::go_on() {
  for (pml::Request* r : messages_) {
    failed_ |= r->outcome.error != 0;
    release(r);
  }
  messages_.clear();
  (this->*next_)();
}

bool Wiring::usable() const {
  bool same = true;
  for (uint32_t r = 0; r < team_.size(); ++r) same &= r == team_.rank() || team_.lane().same_node(team_, r);
  return same;
}

/// Rank 0: makes the segment, and asks all.
void Wiring::invite() {
  Draft& d = *draft_;
  const uint32_t size = team_.size();
  const bool crowded = Segment::crowded(team_.lane().boot().job());
  d.most = most_in_group(size, crowded);
  d.ticket.plan = Segment::Plan(size, crowded, d.most > 0);
  if (usable()) d.memory = make(d.ticket, d.ticket.plan.bytes(size));
  d.answers.resize(size);
  d.answers[0] = answer_with(d.memory, d.ticket.plan, team_.lane().boot().job());
  for (uint32_t r = 1; r < size; ++r) {
    send(r, d.ticket);
    receive(r, d.answers[r]);
  }
  then(&Wiring::judge);
}

/// Rank 0: all have answered.
void Wiring::judge() {
  Draft& d = *draft_;
  d.verdict.state = failed_ ? State::none : State::roomy;
  std::vector<Spot> spots;
  for (const Answer& theirs : d.answers) {
    d.verdict.state = std::min(d.verdict.state, theirs.state);
    spots.push_back(theirs.spot);
  }
  if (d.most) d.verdict.groups = group_ranks(spots, d.most);
  if (d.ticket.descriptor >= 0) close(d.ticket.descriptor);
  for (uint32_t r = 1; r < team_.size(); ++r) {
    send(r, d.verdict.state);
    if (d.most) send(r, std::span(d.verdict.groups));
  }
  then(&Wiring::end);
}

/// Another rank: learns where the segment is.
void Wiring::enter() {
  receive(0, draft_->ticket);
  then(&Wiring::answer);
}

/// Another rank: opens it, answers, and learns what all have.
void Wiring::answer() {
  Draft& d = *draft_;
  if (failed_) return end();
  const uint32_t size = team_.size();
  if (usable()) d.memory = open_ticket(d.ticket, d.ticket.plan.bytes(size));
  d.mine = answer_with(d.memory, d.ticket.plan, team_.lane().boot().job());
  send(0, d.mine);
  receive(0, d.verdict.state);
  if (d.ticket.plan.grouped) {
    d.verdict.groups.resize(size);
    receive(0, std::span(d.verdict.groups));
  }
  then(&Wiring::end);
}

void Wiring::end() {
  Draft& d = *draft_;
  const uint32_t size = team_.size();
  if (!failed_ && d.verdict.state != State::none) {
    segment_.reset(new Segment(team_, d.memory, d.verdict.state == State::roomy, d.ticket.plan, d.verdict.groups));
  } else {
    if (d.memory) munmap(d.memory, d.ticket.plan.bytes(size));
    log(Level::info, "collectives of %u ranks on this node go by messages: no shared segment", size);
  }
  over_ = true;
  for (Follower* follower : followers_) follower->wired(segment_.get());
  if (abandoned_) delete this;
}

Segment::~Segment() {
  lane_.leaves(*this);
  munmap(memory_, plan_.bytes(size_));
}

}  // namespace weft::coll::node
