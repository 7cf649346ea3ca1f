// The transport between processes of one node: a ring per pair and direction in the receiver's segment, direct memory access
// for large data, a bell for sleepers.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "btl/copy/cma.h"
#include "btl/list.h"
#include "btl/shm/doorbell.h"
#include "btl/shm/ring.h"
#include "btl/shm/segment.h"
#include "include/mpi.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/fence.h"
#include "runtime/config/config.h"
#include "runtime/topo/cpus.h"

namespace weft::btl {
namespace {

using namespace shm;

config::Bytes ring_variable("shm", "ring", "0",
                            "Memory for messages from one process of a node to another; 0: by the number of ranks on the node, "
                            "a CPU's L2 cache and two thirds of it for up to four, less than a cache for eight, then 8M for all together, "
                            "or 4M where they share CPUs, and at least 32K.");
config::Bytes get_from_variable(
    "shm", "get_from", "0",
    "Bytes from which a message between two processes of a node is copied once, by the kernel, instead of twice, by both of them; 0: 64M. "
    "weft tune measures it.");
config::Bytes get_from_crowded_variable("shm", "get_from_crowded", "0", "The same where there are more than two ranks a CPU.");
config::Choice exchange_variable(
    "shm", "exchange", "auto", "auto, put, ring",
    "How messages below get_from go while both processes send: ring, put (copied once, by the kernel for the sender), or "
    "auto, by what has taken less of both sides' time.");
config::Choice share_variable("shm", "share", "auto", "auto, no",
                              "Does the sender of a long message that is read out of its memory copy some of it, while it waits: auto "
                              "(what is left when it comes), no.");
config::Choice read_variable(
    "shm", "read", "auto", "auto, always, no",
    "Are messages of 16K and more, but below get_from, read out of the sender's memory: auto, while that takes less time than a ring, "
    "always, or no.");
config::Text folder_variable("shm", "folder", "",
                             "A tmpfs folder to place shared memory in; empty: anonymous memory, which has no name and no quota.");

constexpr int kMessagesPerRing = 16;  // of one poll
constexpr int kMessagesPerPoll = 64;
constexpr size_t kCopyPiece = 512 << 10;       // bytes of a large copy between two polls: some 40 us
constexpr uint32_t kAgainsPerCheck = 1 << 12;  // full-ring answers between two looks at the clock
constexpr uint64_t kCheckEvery_ns = 100'000'000;
constexpr uint64_t kTalked_ns = 4'000'000;
// Two copies through a ring in the cache run at once and are ahead of the kernel's one copy, which pays for every page (4 MiB in 0.15
// instead of 0.6 ms, 32 MiB in 2.3 instead of 7.5 on a virtual Zen 5), however many ranks share a CPU.
constexpr uint64_t kGetFrom = 64 << 20;

uint64_t get_from(bool crowded) {
  const uint64_t wish = (crowded ? get_from_crowded_variable : get_from_variable).get();
  return wish ? wish : kGetFrom;
}

uint64_t l2_bytes() {
  const long known = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return known > 0 ? uint64_t(known) : 1 << 20;
}

/// If few ranks share the node, an area that fills a CPU's own cache by two thirds, and cells that fill it once: more is up to a fifth
/// faster while nobody else fills the L3 cache, and less than half as fast when somebody does. Who streams uses the one, who exchanges the
/// other.
uint32_t ring_bytes_for(size_t ranks, size_t cpus) {
  constexpr uint64_t least = 8 << 10, most = 16 << 20, least_of_few = 384 << 10, least_of_many = 32 << 10;
  if (const uint64_t wish = ring_variable.get()) return uint32_t(std::bit_floor(std::clamp(wish, least, most)));
  if (ranks <= 8) {
    const uint64_t cache = std::min<uint64_t>(l2_bytes(), 1 << 20), most_of_few = std::max(cache / 16 * 11 + cache, least_of_few);
    return uint32_t(std::clamp(6 * l2_bytes() / std::max<size_t>(ranks, 2), least_of_few, most_of_few) & ~uint64_t{0xffff});
  }
  const uint64_t all = uint64_t{ranks > cpus ? 4u : 8u} << 20;
  return uint32_t(std::max(std::bit_floor(all / ranks), least_of_many));
}

std::string first_line(const char* path) {
  char text[64] = {};
  const Fd file(open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t n = file ? read(file.get(), text, sizeof text - 1) : 0;
  return std::string(text, size_t(std::max<ssize_t>(n, 0)));
}

uint64_t pid_namespace() {
  struct stat info {};
  return stat("/proc/self/ns/pid", &info) == 0 ? uint64_t(info.st_ino) : 0;
}

constexpr int kLooks = 8, kLooksOfStreams = 2;

/// A process that has ended stays in the table until its parent collects it.
bool process_alive(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", int(pid));
  char text[512] = {};
  const Fd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file || read(file.get(), text, sizeof text - 1) <= 0) return false;
  const char* state = strrchr(text, ')');  // the name before it may contain anything
  return !state || (state[2] != 'Z' && state[2] != 'X');
}

class ShmTransport;
class ShmEndpoint;

/// A get or put.
struct Copy {
  copy::Transfer transfer;
  Paces& paces;
  uint64_t bytes;
  ShmEndpoint* sharer = nullptr;  ///< its peer takes part
  bool begun = false;
  uint64_t begin_ns = 0;  ///< 0: it is not timed

  Status advance();
  void took(uint64_t part, uint64_t ns) const;
};

class ShmEndpoint final : public Endpoint {
 public:
  /// `arrivals`: how many messages the process has had so far.
  ShmEndpoint(ShmTransport& transport, const uint64_t& arrivals, ProcessId who, const Address& peer, Segment segment, bool direct,
              Paces& paces)
      : arrivals_(arrivals),
        sleeping_(&segment.head().sleeping),
        fenced_(!(segment.head().asymmetric && membarrier_registered())),
        direct_(direct),
        paces_(paces),
        transport_(transport),
        who_(who),
        peer_(peer),
        segment_(std::move(segment)) {}

  Status try_inline(const Header& h, const void* payload) override {
    note_pace();
    if (producer_.push_short(h, streams_, payload)) [[likely]]
      return tell();
    return push_longer(h, payload);
  }
  Status send(const Header& h, type::Cursor& cursor) override {
    if (cursor.contiguous()) {
      const Status status = cursor.total() >= Length::kLongest ? push_from_afar(h, cursor.data()) : try_inline(h, cursor.data());
      if (status == Status::ok) cursor.seek(cursor.position() + h.length);
      return status;
    }
    note_pace();
    return push(h, false, [&](std::byte* to, uint32_t, uint32_t n) { cursor.pack(to, n); });
  }
  Status get(const Region& remote, uint64_t offset, std::span<const iovec> local, Operation& op) override {
    if (is_one_call(local) && !shares(local[0].iov_len)) return read_at_once(remote.address + offset, local[0], op);
    return start({copy::Direction::read, other_process(), remote.address + offset, local, op});
  }
  Status put(const Region& remote, uint64_t offset, std::span<const iovec> local, Operation& op) override {
    return start({copy::Direction::write, other_process(), remote.address + offset, local, op});
  }
  Status gather_get(const Region& remote, uint64_t offset, std::span<const iovec> local, Operation& op) override;
  void flush() override {
    if (!gathered_.empty()) read_gathered();
  }
  bool receive_next(Next& next, void* to, int looks) override;
  bool peek_next(Next& next, int looks) override;
  std::optional<bool> rests() const override;
  size_t receive_several(const Header& first, std::span<Place>) override;
  bool can_get() const override { return direct_; }
  bool can_put() const override { return direct_; }
  /// What has come unasked could lapse while it is read: to a thread of the sender's process that memory may be gone.
  bool get_spares(uint64_t bytes, Flow flow, bool offered) override {
    if (!offered && other_process() == 0) return false;
    const bool spares = paces_.get_spares(bytes, flow, offered, copy::read_speed());  // hears of the flow in any case
    return spares || read_variable.get() == "always";
  }
  bool put_spares() override {
    const std::string& wish = exchange_variable.get();
    return wish == "put" || (wish == "auto" && paces_.put_spares());
  }
  void recall() override {
    if (!entry_) return;
    entry_->recalls.store(entry_->recalls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    fence<std::memory_order_release>();  // before what the program stores into that memory
  }
  uint32_t recalls() const override { return entry_ ? entry_->recalls.load(std::memory_order_relaxed) : 0; }
  uint32_t peer_recalls() const override;
  bool rouse() override;

  std::string describe() const override {
    return "shm to " + text_of(who_) + " (process " + std::to_string(peer_.pid) + (direct_ ? ", cma)" : ", no cma)");
  }

  /// The CPU that the peer has lent lately.
  std::optional<topo::Lent> lent(uint64_t now) const { return segment_.head().lent.lately(now); }

  /// Have messages gone to or fro within some milliseconds, as far as looks at that tell?
  bool talks(uint64_t now);

  /// 0: none, the peer is a thread of this one.
  pid_t other_process() const;

  /// Does the peer stay where both wait on the same CPU?
  bool is_first() const;

  /// Lets the peer take part in what is read of its memory.
  bool share(copy::Transfer&);

  void* cookie = nullptr;
  std::optional<uint32_t> inbound;  ///< the number of the ring that it sends on to this process
  const std::byte* next_out() const { return producer_.next(); }
  /// Has nothing come since the latest message to the peer? Who only receives had better look without breaks: rows of several lines come at
  /// twice the rate so between packages (512 B: 82 to 88 ns each instead of 148).
  bool awaits_answer() const { return heard_ == arrivals_; }

 private:
  /// `copies`: nothing else is written, so that it says how long a copy takes.
  template <class Write>
  [[gnu::noinline]] Status push(const Header& h, bool copies, Write&& write) {
    const bool goes_alone = alone(h), timed = copies && paces_.in.due(h.length);
    const uint64_t begin = timed ? now_ns() : 0;
    if (!producer_.push(h, goes_alone, streams_, write)) [[unlikely]] {
      if (const Status status = no_room(); status != Status::ok) return status;
      if (!producer_.push(h, goes_alone, streams_, write)) return Status::again;
    }
    if (timed) [[unlikely]]
      paces_.in.took(h.length, now_ns() - begin);
    return tell();
  }
  [[gnu::noinline]] Status push_longer(const Header& h, const void* payload) {
    if (producer_.push_row(h, streams_, payload)) return tell();
    return push(h, true, [payload](std::byte* to, uint32_t from, uint32_t n) {
      if (n) copy_long(to, static_cast<const std::byte*>(payload) + from, n);  // of no data there may be no address
    });
  }
  /// A piece of what is so long that it is in no cache near by.
  [[gnu::noinline]] Status push_from_afar(const Header& h, const std::byte* payload) {
    note_pace();
    return push(h, true, [payload](std::byte* to, uint32_t from, uint32_t n) { copy_from_afar(to, payload + from, n); });
  }
  void note_pace() {
    streams_ = heard_ == arrivals_;
    heard_ = arrivals_;
  }
  /// Of something pushed.
  Status tell() {
    if (fenced_) full_fence();
    if (sleeping_->load(std::memory_order_relaxed)) [[unlikely]]
      return wake();
    return Status::ok;
  }
  /// Whoever has heard something since it sent its latest long message here does not send a stream of them.
  bool alone(const Header& h);
  Status start(copy::Transfer&& transfer);
  bool is_one_call(std::span<const iovec> local) const;
  bool shares(uint64_t bytes) const;
  Status read_at_once(uint64_t address, const iovec& local, Operation& op);
  void read_gathered();
  [[gnu::cold, gnu::noinline]] Status no_room();
  [[gnu::noinline]] Status wake() {
    if (sleeping_->exchange(0, std::memory_order_acq_rel)) bell_.ring();
    return Status::ok;
  }
  Result<void> make_ring();
  Result<void> find_bell();

  Producer producer_;
  RingEntry* entry_ = nullptr;  ///< of its ring
  uint32_t number_ = 0;         ///< likewise
  copy::JointReader joint_;     ///< of what is read here
  copy::Gathered gathered_;
  const bool shares_ = share_variable.get() != "no";
  const uint64_t& arrivals_;
  uint64_t heard_ = ~uint64_t{0};  // of these when the latest message was sent
  bool streams_ = false;           // none has come since the one before
  std::atomic<uint32_t>* sleeping_;
  bool fenced_;
  bool direct_;
  Paces& paces_;
  bool dead_ = false;
  uint64_t slots_seen_ = 0, talked_ns_ = 0;    // of both rings, when there were more than before
  uint64_t heard_before_long_ = ~uint64_t{0};  // of these when the latest long message was sent
  uint32_t agains_ = 0;
  uint64_t checked_ns_ = 0;
  ShmTransport& transport_;
  ProcessId who_;
  Address peer_;
  Segment segment_;
  Doorbell bell_;
};

/// A ring that somebody sends on to this process.
struct Inbound {
  Consumer ring;
  ProcessId from;
  void* cookie;
  const ShmEndpoint* back;  ///< the way to the sender; null: not connected
  const RingEntry* entry;
};

class ShmTransport final : public Transport {
 public:
  ShmTransport(const boot::Job& job, Segment segment, Doorbell bell);

  const Caps& caps() const override { return caps_; }
  /// Do the node's ranks outnumber its CPUs?
  bool cpus_are_shared() const { return cpus_are_shared_; }
  boot::Blob address() const override { return self_.blob(); }
  bool reaches(ProcessId who, const boot::Blob& address) const override;
  Result<Endpoint*> connect(ProcessId who, const boot::Blob& address, void* cookie) override;
  int poll(Sink& sink) override;
  int poll_waiting(Sink& sink) override {
    if (looks_ > 1 && latest_ < inbound_.size()) {
      Inbound& likely = inbound_[latest_];
      if (likely.back && likely.back->awaits_answer()) likely.ring.appears(looks_, likely.back->next_out());
    }
    return poll(sink);
  }
  bool set_aside(const std::byte* payload) override { return inbound_[first_ - 1].ring.set_aside(payload); }
  void give_back(ProcessId from, const std::byte* payload) override { cells_with(from).give_back(payload); }
  void copied_out(ProcessId from, uint64_t bytes, uint64_t ns) override { paces_with(from).out.took(bytes, ns); }
  int event_fd() const override { return bell_.read_end(); }
  bool arm() override;
  void disarm() override;
  topo::Ties lends(uint32_t cpu, uint64_t now_ns) override;
  void lends_none() override { head_->lent.clear(); }
  void rests(bool yes) override { head_->rest.store(yes ? 2 : 1, std::memory_order_relaxed); }

  const Address& self() const { return self_; }
  void defer(Copy&& copy) { transfers_.push_back(std::move(copy)); }
  Cells& cells_with(ProcessId who) { return cells_[who]; }  // stays where it is
  Paces& paces_with(ProcessId who) { return paces_[who]; }  // likewise
  bool peek_next(uint32_t ring, Endpoint::Next& next, int looks) { return idle() && inbound_[ring].ring.peek_next(next, looks); }
  bool take_next(uint32_t ring, Endpoint::Next& next, void* to, int looks, const std::byte* next_out) {
    if (!idle() || !inbound_[ring].ring.take_next(next, to, looks, next_out)) return false;
    ++arrivals_;
    latest_ = ring;
    return true;
  }
  uint64_t taken_of(uint32_t ring) const { return inbound_[ring].ring.taken(); }
  uint32_t recalls_of(uint32_t ring) const { return inbound_[ring].entry->recalls.load(std::memory_order_relaxed); }
  size_t take_several(uint32_t ring, const Header& first, std::span<Endpoint::Place> places) {
    const size_t taken = idle() ? inbound_[ring].ring.take_several(first, places) : 0;
    arrivals_ += taken;
    if (taken) latest_ = ring;
    return taken;
  }
  void report_loss(void* cookie, std::string why) { losses_.push_back({cookie, std::move(why)}); }

 private:
  struct Loss {
    void* cookie;
    std::string why;
  };
  bool idle() const { return transfers_.empty() && losses_.empty(); }
  void adopt(Sink& sink);
  int advance_transfer();
  bool help();
  void report(Sink& sink);

  Segment segment_;
  SegmentHead* head_;
  bool cpus_are_shared_ = false;
  int looks_ = 1;           // of who waits at the ring that messages came from last
  uint32_t announced_ = 0;  // as of the latest look at the directory
  uint64_t arrivals_ = 0;   // messages
  uint32_t first_ = 0;      // the ring that the next poll begins with
  uint32_t latest_ = 0;     // the ring that messages came from last
  std::vector<Inbound> inbound_;
  std::deque<Copy> transfers_;
  std::vector<Loss> losses_;
  std::vector<bool> adopted_;  // by ring number
  std::unordered_map<ProcessId, std::unique_ptr<ShmEndpoint>> endpoints_;
  std::unordered_map<ProcessId, Cells> cells_;
  std::unordered_map<ProcessId, Paces> paces_;
  std::unordered_map<uint64_t, uint32_t> jobs_;  // hash of the name -> local number
  Doorbell bell_;
  Address self_;
  Caps caps_;
};

bool ShmEndpoint::receive_next(Next& next, void* to, int looks) {
  if (!inbound) return false;
  return awaits_answer() ? transport_.take_next(*inbound, next, to, looks, next_out())
                         : transport_.take_next(*inbound, next, to, std::min(looks, kLooksOfStreams), nullptr);
}

bool ShmEndpoint::peek_next(Next& next, int looks) { return inbound && transport_.peek_next(*inbound, next, looks); }

uint32_t ShmEndpoint::peer_recalls() const {
  fence<std::memory_order_acquire>();  // after what has been read
  return inbound ? transport_.recalls_of(*inbound) : 0;
}

size_t ShmEndpoint::receive_several(const Header& first, std::span<Place> places) {
  return inbound ? transport_.take_several(*inbound, first, places) : 0;
}

bool ShmEndpoint::alone(const Header& h) { return h.length >= kPage && std::exchange(heard_before_long_, arrivals_) != arrivals_; }

bool ShmEndpoint::is_first() const {
  const Address& self = transport_.self();
  return std::tie(peer_.job, peer_.rank) < std::tie(self.job, self.rank);
}

bool ShmEndpoint::talks(uint64_t now) {
  const uint64_t slots = producer_.written() + (inbound ? transport_.taken_of(*inbound) : 0);
  if (std::exchange(slots_seen_, slots) != slots) talked_ns_ = now;
  return now - talked_ns_ < kTalked_ns;
}

std::optional<bool> ShmEndpoint::rests() const {
  if (sleeping_->load(std::memory_order_relaxed)) return true;
  const uint32_t told = segment_.head().rest.load(std::memory_order_relaxed);
  return told ? std::optional(told == 2) : std::nullopt;
}

pid_t ShmEndpoint::other_process() const { return peer_.pid == transport_.self().pid ? 0 : peer_.pid; }

/// Does the peer take part in what is read here?
bool ShmEndpoint::shares(uint64_t bytes) const { return shares_ && entry_ && paces_.shares(bytes, transport_.cpus_are_shared()); }

Status ShmEndpoint::start(copy::Transfer&& transfer) {
  const uint64_t bytes = transfer.left();
  Copy copy{std::move(transfer), paces_, bytes};
  if (copy.transfer.can_be_shared() && shares(bytes)) copy.sharer = this;
  const Status status = copy.advance();
  if (status == Status::ok) copy.transfer.operation().done(copy.transfer.operation(), Status::ok);
  if (status != Status::again) return status;
  transport_.defer(std::move(copy));
  return Status::ok;
}

/// Can one call of the system read it?
bool ShmEndpoint::is_one_call(std::span<const iovec> local) const {
  return local.size() == 1 && local[0].iov_len <= copy::Gathered::kMostBytes && other_process() != 0;
}

Status ShmEndpoint::read_at_once(uint64_t address, const iovec& local, Operation& op) {
  const uint64_t begin = paces_.times_reading(local.iov_len) ? now_ns() : 0;
  const std::span to(static_cast<std::byte*>(local.iov_base), local.iov_len);
  if (const Status s = copy::read(other_process(), reinterpret_cast<const std::byte*>(address), to); s != Status::ok) return s;
  if (begin > 0) {
    const uint64_t ns = now_ns() - begin;
    paces_.has_read({to.size(), to.size(), ns, {to.size(), ns, 1}}, copy::read_speed());
  }
  op.done(op, Status::ok);
  return Status::ok;
}

/// Of what is longer, the calls are the smaller part.
Status ShmEndpoint::gather_get(const Region& remote, uint64_t offset, std::span<const iovec> local, Operation& op) {
  constexpr uint64_t kRather = 64 << 10;  // than that both copy
  const uint64_t bytes = local[0].iov_len;
  if (!is_one_call(local) || (bytes > kRather && shares(bytes))) return get(remote, offset, local, op);
  if (!gathered_.has_room(bytes)) flush();
  gathered_.add({remote.address + offset, local[0], &op}, paces_.times_reading(bytes));
  return Status::ok;
}

/// If they cannot be made together, each by itself says why.
void ShmEndpoint::read_gathered() {
  const copy::Gathered all = std::exchange(gathered_, {});
  const uint64_t begin = all.is_timed() ? now_ns() : 0;
  const bool done = all.read_all(other_process());
  const uint64_t ns = done && begin ? now_ns() - begin : 0;
  for (const auto& [address, local, operation] : all.reads()) {
    if (ns) paces_.has_read({local.iov_len, all.bytes(), ns, {all.bytes(), ns, 1}}, copy::read_speed());
    const std::span to(static_cast<std::byte*>(local.iov_base), local.iov_len);
    operation->done(*operation, done ? Status::ok : copy::read(other_process(), reinterpret_cast<const std::byte*>(address), to));
  }
}

/// False: the one before is not over yet.
bool ShmEndpoint::share(copy::Transfer& transfer) {
  if (!joint_.is_free()) return false;
  transfer.share(joint_);
  segment_.announce_copy(number_);
  return true;
}

/// Up to kCopyPiece bytes of it. Of one that is shared the whole is timed, of others the first of these parts.
Status Copy::advance() {
  const bool begins = !begun;
  if (begins && sharer && !sharer->share(transfer)) return Status::again;
  if (begins && (transfer.direction() == copy::Direction::write || paces.times_reading(bytes))) begin_ns = now_ns();
  begun = true;
  const Status status = transfer.advance(kCopyPiece);
  if (begin_ns == 0) return status;
  if (sharer ? status == Status::ok : begins && (status == Status::ok || status == Status::again))
    took(sharer ? bytes : std::min(bytes, kCopyPiece), now_ns() - begin_ns);
  return status;
}

void Copy::took(uint64_t part, uint64_t ns) const {
  if (transfer.direction() == copy::Direction::write) return paces.put.took(part, ns);
  paces.has_read({bytes, part, ns, sharer ? transfer.own() : ReadTime{part, ns, 1}}, copy::read_speed());
}

Result<void> ShmEndpoint::find_bell() {
  if (bell_.write_end() >= 0) return {};
  auto bell = Doorbell::attach(peer_.pid, peer_.bell_fd);
  if (!bell) return bell.failure();
  bell_ = std::move(*bell);
  return {};
}

bool ShmEndpoint::rouse() {
  if (!find_bell()) return false;
  full_fence();
  wake();
  return true;
}

Result<void> ShmEndpoint::make_ring() {
  auto bell = find_bell();
  if (!bell) return bell.failure();
  uint32_t number = 0;
  auto ring = segment_.claim_ring(number);
  if (!ring) return ring.failure();
  const Shape shape = Shape::of(peer_.ring_bytes);
  Cells& cells = transport_.cells_with(who_);
  cells.add(Cells::Home::sent_on, *ring + shape.cells_offset(), shape.cells);
  shape.populate_slots(*ring);
  producer_ = Producer(*ring, peer_.ring_bytes, &cells);
  entry_ = &segment_.head().directory()[number];
  number_ = number;
  joint_ = copy::JointReader(&entry_->joint);
  segment_.announce(number, transport_.self().job, transport_.self().rank);
  return {};
}

/// ok: try once more.
Status ShmEndpoint::no_room() {
  if (!producer_.attached()) {
    auto made = make_ring();
    if (made) return Status::ok;
    fail(MPI_ERR_OTHER, "shared memory to rank %u: %s", rank_of(who_.rank), made.failure().text.c_str());
    return Status::failed;
  }
  if (dead_) return Status::peer_failed;
  if (++agains_ % kAgainsPerCheck || now_ns() - checked_ns_ < kCheckEvery_ns) return Status::again;
  checked_ns_ = now_ns();
  if (process_alive(peer_.pid)) return Status::again;
  dead_ = true;
  transport_.report_loss(cookie, text_of(who_) + " (process " + std::to_string(peer_.pid) + ") has ended");
  return Status::peer_failed;
}

ShmTransport::ShmTransport(const boot::Job& job, Segment segment, Doorbell bell)
    : segment_(std::move(segment)), head_(&segment_.head()), adopted_(head_->capacity), bell_(std::move(bell)) {
  jobs_[hash_of(job.name)] = 0;
  self_.user = geteuid();
  const std::string boot_id = first_line("/proc/sys/kernel/random/boot_id");
  std::copy_n(boot_id.data(), std::min(boot_id.size(), self_.boot_id.size()), self_.boot_id.data());
  self_.pid_namespace = pid_namespace();
  self_.job = hash_of(job.name);
  self_.rank = job.rank;
  self_.node = job.node;
  self_.pid = getpid();
  self_.memory_fd = segment_.fd();
  self_.bell_fd = bell_.write_end();
  self_.capacity = head_->capacity;
  self_.ring_bytes = head_->ring_bytes;
  self_.cookie = head_->cookie;
  self_.mapping = reinterpret_cast<uint64_t>(head_);
  self_.cookie_address = reinterpret_cast<uint64_t>(&self_.cookie);

  caps_.name = "shm";
  caps_.max_inline = caps_.max_buffered = Shape::of(head_->ring_bytes).max_payload();
  caps_.get = caps_.put = copy::allowed();
  const bool crowded = topo::crowded(job.node_ranks.size(), job.cpus);
  caps_.get_from = get_from(crowded);
  caps_.weighs = caps_.get && read_variable.get() != "no";
  cpus_are_shared_ = job.node_ranks.size() > job.cpus;
  if (!crowded) looks_ = kLooks;
  caps_.same_node = caps_.polls_memory = caps_.light = caps_.rouses = true;
  caps_.alpha_ns = 200;  // estimates, not measured here
  caps_.beta_ns_per_byte = 0.04;
}

bool ShmTransport::reaches(ProcessId, const boot::Blob& blob) const {
  const auto peer = Address::parse(blob);
  if (!peer || peer->boot_id != self_.boot_id || peer->pid_namespace != self_.pid_namespace) return false;
  if (peer->user != self_.user && self_.user != 0) return false;
  return peer->job != self_.job || peer->node == self_.node;  // two daemons on one machine pretend to be two nodes
}

Result<Endpoint*> ShmTransport::connect(ProcessId who, const boot::Blob& blob, void* cookie) {
  if (auto known = endpoints_.find(who); known != endpoints_.end()) {
    known->second->cookie = cookie;
    return known->second.get();
  }
  const auto peer = Address::parse(blob);
  if (!peer) return peer.failure();
  auto segment = Segment::attach(*peer);
  if (!segment) return segment.failure();
  const bool direct = caps_.get && copy::can_read(peer->pid, peer->cookie_address, peer->cookie);
  // Where more ranks share the node in another job, its rings are smaller.
  caps_.max_inline = caps_.max_buffered = std::min(caps_.max_buffered, Shape::of(peer->ring_bytes).max_payload());
  auto endpoint = std::make_unique<ShmEndpoint>(*this, arrivals_, who, *peer, std::move(*segment), direct, paces_with(who));
  endpoint->cookie = cookie;
  for (uint32_t i = 0; i < inbound_.size(); ++i) {
    if (inbound_[i].from != who) continue;
    inbound_[i].cookie = cookie;
    inbound_[i].back = endpoint.get();
    endpoint->inbound = i;
  }
  if (jobs_.emplace(peer->job, who.job).second) announced_ = ~0u;  // rings of that job may wait in the directory
  return endpoints_.emplace(who, std::move(endpoint)).first->second.get();
}

/// Takes over rings that senders have announced. Those of jobs not heard of yet stay where they are.
void ShmTransport::adopt(Sink& sink) {
  announced_ = head_->announced.load(std::memory_order_acquire);
  const uint32_t claimed = std::min(head_->claimed.load(std::memory_order_relaxed), uint32_t(adopted_.size()));
  for (uint32_t i = 0; i < claimed; ++i) {
    const RingEntry& entry = head_->directory()[i];
    if (adopted_[i] || !entry.state.load(std::memory_order_acquire)) continue;
    const auto job = jobs_.find(entry.job);
    if (job == jobs_.end()) continue;
    adopted_[i] = true;
    const ProcessId from{job->second, entry.rank};
    const auto known = endpoints_.find(from);
    void* cookie = known != endpoints_.end() ? known->second->cookie : sink.meet(from);
    const Shape shape = Shape::of(head_->ring_bytes);
    Cells& cells = cells_with(from);
    cells.add(Cells::Home::received_on, segment_.ring(i) + shape.cells_offset(), shape.cells);
    shape.populate_slots(segment_.ring(i));
    if (known != endpoints_.end()) known->second->inbound = static_cast<uint32_t>(inbound_.size());
    inbound_.push_back({Consumer(segment_.ring(i), head_->ring_bytes, &cells, &paces_with(from).out), from, cookie,
                        known != endpoints_.end() ? known->second.get() : nullptr, &entry});
  }
}

/// Takes part in what a peer reads of this process's memory. What is left of it comes with the next poll.
bool ShmTransport::help() {
  uint32_t asked = head_->shared.load(std::memory_order_relaxed);
  if (asked == 0 || asked > adopted_.size()) return false;
  const auto in = std::ranges::find(inbound_, &head_->directory()[asked - 1], &Inbound::entry);
  const bool can = in != inbound_.end() && in->back && in->back->can_put();
  if (can && copy::help(head_->directory()[asked - 1].joint, in->back->other_process(), kCopyPiece) == Status::again) {
    --announced_;
    return true;
  }
  head_->shared.compare_exchange_strong(asked, 0, std::memory_order_relaxed);
  return can;
}

int ShmTransport::poll(Sink& sink) {
  int count = 0;
  if (head_->announced.load(std::memory_order_relaxed) != announced_) [[unlikely]] {
    adopt(sink);
    count += help();
  }
  const size_t rings = inbound_.size();
  for (size_t i = 0; i < rings && count < kMessagesPerPoll; ++i) {
    if (first_ >= rings) first_ = 0;
    Inbound& in = inbound_[first_++];
    const int taken = in.ring.take(
        kMessagesPerRing, [&](const Header& h, const std::byte* payload) { sink.arrived(in.cookie, h, payload); }, Landing{sink, in.cookie},
        [&] { sink.lost(in.cookie, text_of(in.from) + " has damaged the memory shared with it"); });
    if (taken > 0) latest_ = first_ - 1;
    count += taken;
  }
  arrivals_ += static_cast<uint64_t>(count);
  if (!transfers_.empty()) [[unlikely]]
    count += advance_transfer();
  if (!losses_.empty()) [[unlikely]]
    report(sink);
  return count;
}

int ShmTransport::advance_transfer() {
  Copy copy = std::move(transfers_.front());
  transfers_.pop_front();
  const size_t before = copy.transfer.left();
  const Status status = copy.advance();
  if (status != Status::again) {
    copy.transfer.operation().done(copy.transfer.operation(), status);
    return 1;
  }
  const bool moved = copy.transfer.left() < before;  // else it waits for who shares it, or for its turn
  transfers_.push_back(std::move(copy));             // turns, so that a small one is not stuck behind a large one
  return moved;
}

void ShmTransport::report(Sink& sink) {
  std::vector<Loss> losses;
  losses.swap(losses_);
  for (const Loss& loss : losses) sink.lost(loss.cookie, loss.why);
}

bool ShmTransport::arm() {
  head_->sleeping.store(1, std::memory_order_seq_cst);
  if (!head_->asymmetric || !fence_all()) full_fence();
  const bool idle = transfers_.empty() && losses_.empty() && head_->announced.load(std::memory_order_acquire) == announced_ &&
                    std::ranges::none_of(inbound_, [](const Inbound& in) { return in.ring.ready(); });
  if (!idle) disarm();
  return idle;
}

void ShmTransport::disarm() {
  head_->sleeping.store(0, std::memory_order_seq_cst);
  bell_.drain();  // who is just about to ring cuts the next sleep short, which ends here, too
}

topo::Ties ShmTransport::lends(uint32_t cpu, uint64_t now_ns) {
  head_->lent.set(cpu, now_ns);
  topo::Ties ties;
  size_t near = 0, far = 0;  // of those that it talks with
  for (const auto& [who, endpoint] : endpoints_) {
    const bool talks = endpoint->talks(now_ns);
    const auto lent = endpoint->lent(now_ns);
    if (!lent) continue;
    (lent->cpu == cpu ? ties.here : ties.apart) = true;
    (lent->cpu == cpu ? near : far) += talks;
    ties.leaves |= lent->cpu == cpu && endpoint->is_first() && latest_ < inbound_.size() && inbound_[latest_].from == who;
  }
  ties.away = near == 0 && far > 1;
  return ties;
}

/// Lets peers read our memory where the Yama module restricts that to ancestors.
void allow_direct_access() {
#ifdef PR_SET_PTRACER
  if (first_line("/proc/sys/kernel/yama/ptrace_scope").starts_with('1')) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
}

}  // namespace

Result<std::unique_ptr<Transport>> open_shm(const Site& site) {
  const boot::Job& job = site.boot.job();
  const size_t ranks = job.node_ranks.size();
  auto bell = Doorbell::create();
  if (!bell) return bell.failure();
  const uint32_t capacity = uint32_t(std::max<size_t>(64, 2 * ranks));
  auto segment = Segment::create(capacity, ring_bytes_for(ranks, job.cpus), folder_variable.get());
  if (!segment) return segment.failure();
  // Sleeping is frequent where ranks outnumber CPUs: senders' fences are cheaper there than sleepers' barriers.
  segment->head().asymmetric = ranks <= job.cpus && register_membarrier();
  if (copy::allowed()) allow_direct_access();
  return std::unique_ptr<Transport>(std::make_unique<ShmTransport>(job, std::move(*segment), std::move(*bell)));
}

}  // namespace weft::btl
