// The transport interface: one Transport per kind and rail, one Endpoint per peer reached over it. No transport matches.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/process_id.h"
#include "runtime/base/status.h"
#include "runtime/boot/boot.h"
#include "runtime/mem/memory_kind.h"
#include "runtime/obs/figures.h"
#include "runtime/topo/lent.h"
#include "runtime/type/cursor.h"

namespace weft::btl {

/// Travels in front of every message; written by the pml, carried unread by transports (but for `length`).
/// All processes of a job have the same byte order and run the same version; the handshake of each transport checks that.
struct Header {
  uint64_t context = 0;  ///< context id of the team
  int32_t tag = 0;
  int32_t source = 0;     ///< sender's rank in the team
  uint32_t length = 0;    ///< payload bytes that follow
  uint16_t sequence = 0;  ///< per pair of processes, over all rails
  uint8_t kind = 0;       ///< a pml::MessageKind
  uint8_t flags = 0;      ///< the pml's
};
static_assert(sizeof(Header) == 24, "the small-message path counts on header + 40 bytes in one cache line");

/// A piece of memory that a peer may read or write, as sent over the wire. Filled by Transport::expose().
struct Region {
  uint64_t address = 0;
  uint64_t length = 0;
  std::array<std::byte, 16> key{};  ///< transport's own (remote key, process id, ...)
};

/// What a transport can do. Limits in bytes; alpha/beta feed the cost model.
struct Caps {
  const char* name = "";          ///< "self", "shm", "tcp", ...
  std::string device;             ///< "eth0", "mlx5_0:1"; empty if there is only one
  uint32_t max_inline = 0;        ///< payload that try_inline() takes
  uint32_t max_buffered = 0;      ///< payload of one send()
  bool zcopy = false;             ///< send_zcopy() works
  uint32_t max_zcopy = 1u << 30;  ///< payload of one send_zcopy()
  bool get = false, put = false;
  bool atomics = false;              ///< atomic() works on memory whose Region allows it
  bool weighs = false;               ///< get() may be faster for less than get_from, too: get_spares() tells
  uint64_t get_from = 0;             ///< bytes from which get() is faster than messages in a row, if both sides attend to them
  uint64_t put_from = ~uint64_t{0};  ///< bytes from which put() is faster than get(), though it costs a message more
  bool ordered = true;               ///< messages of one endpoint arrive in the order sent
  bool same_node = false;            ///< reaches processes of this node only
  bool polls_memory = false;         ///< poll() makes no system call, so that each round of progress can do it
  bool rouses = false;               ///< Endpoint::rouse() wakes processes that this one reaches
  bool revives = false;              ///< a way that was lost or cut can be connected again
  bool gathers = false;              ///< several messages cost less together than one by one: gather() holds them back
  bool light = false;                ///< costs little enough to be there several times in a process, once for each lane
  uint64_t eager_in_place = 0;       ///< up to this, one send_zcopy() costs less than asking the receiver first; 0: max_buffered
  bool near = true;                  ///< its device hangs on CPUs that this process may run on, or nobody knows where it hangs
  double alpha_ns = 0;               ///< latency of a small message, as this side knows it
  double beta_ns_per_byte = 0;       ///< inverse bandwidth of large ones, likewise
  uint32_t memory_kinds = 1u << static_cast<int>(mem::MemKind::host);
};

/// What a way costs, as both of its ends know it.
struct Price {
  double alpha_ns = 0, beta_ns_per_byte = 0;
};

/// Completion of an asynchronous transport operation; embedded in the pml's requests. `done` is called from poll() or,
/// if the operation ends at once, from the call that started it. It may enqueue work and may not progress.
struct Operation {
  void (*done)(Operation&, Status) = nullptr;
};

/// What Endpoint::atomic() does to 8 bytes of a peer's memory.
struct Atomic {
  enum class Kind : uint8_t {
    fetch_add,     ///< adds `operand`, modulo 2^64
    compare_swap,  ///< puts `operand` where `compare` stands; otherwise changes nothing
  };
  Kind kind = Kind::fetch_add;
  uint64_t operand = 0, compare = 0;
};

/// What the pml gives each transport: where arrivals go. All calls come from poll().
class Sink {
 public:
  virtual ~Sink() = default;
  /// First contact from a process that this side has not connected to over this transport: returns the cookie for it.
  virtual void* meet(ProcessId from) = 0;
  /// A message has arrived from the peer behind `cookie`. `payload` (header.length bytes) is valid during the call only, but
  /// see Transport::set_aside().
  virtual void arrived(void* cookie, const Header&, const std::byte* payload) = 0;
  /// Where the payload of a large message should be written, so that stream transports need no bounce buffer; null: none.
  /// If not null, arrived() is called afterwards with payload == the returned address. Whoever has the payload elsewhere as well may ask
  /// again for the same message: null says that the address is not to be written to any more, as the receive has ended by an error.
  virtual std::byte* landing(void* cookie, const Header&) = 0;
  /// Bytes of a large message's payload, those from `from` on, which are there before the rest: puts them to where they belong, in memory
  /// that is not in one piece. They come in order, and arrived() is called afterwards. False: nothing was put anywhere, or it does not
  /// count any more, as the receive has ended by an error; whoever goes on begins with the first byte again.
  virtual bool scatter(void*, const Header&, const std::byte* /*bytes*/, uint32_t /*from*/, uint32_t /*count*/) { return false; }
  /// The way to a peer is lost (over this transport); whether what was sent last has arrived is not known. Completions of its
  /// operations come before. `why` is one readable sentence naming peer, device and remedy.
  virtual void lost(void* cookie, const std::string& why) = 0;
};

/// How long messages go between two processes just now: one at a time; several one way; any way where CPUs are contended, so that no side's
/// copies go on beside the other's, and there while the receiver sends several itself; or both ways at once, in the last case while the
/// other one reads those that it gets.
enum class Flow : uint8_t { alone, stream, contended, contended_busy, both_ways, both_while_read };
constexpr bool is_contended(Flow f) { return f == Flow::contended || f == Flow::contended_busy; }

/// The way to one peer over one transport. Owned by its Transport. Calls are made under the lane's lock.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  /// Sends header and payload (contiguous, <= caps.max_inline); both are copied before return. `again`: nothing was taken.
  virtual Status try_inline(const Header&, const void* payload) = 0;

  /// As try_inline(), but the message may stay here until flush(): for those that will not be alone. Messages of other calls to the
  /// same endpoint take it along.
  virtual Status gather(const Header& header, const void* payload) { return try_inline(header, payload); }
  /// The same for send_zcopy().
  virtual Status gather_zcopy(const Header& header, std::span<const iovec> payload, Operation& op) {
    return send_zcopy(header, payload, op);
  }
  /// Sends off what gather() and gather_zcopy() have held back, and makes the reads of gather_get().
  virtual void flush() {}

  /// Sends header.length bytes (<= caps.max_buffered) packed from the cursor, which advances on ok only. Buffered: memory is
  /// free for reuse on return. `again`: nothing was taken.
  virtual Status send(const Header&, type::Cursor&) = 0;

  /// Sends from user memory without copying; memory must stay until op.done. Only if caps.zcopy.
  virtual Status send_zcopy(const Header&, std::span<const iovec>, Operation&) { return Status::failed; }

  /// Reads remote[offset..) into local memory / writes local memory to it. Only if caps.get and
  /// can_get() / caps.put and can_put().
  virtual Status get(const Region&, uint64_t offset, std::span<const iovec> local, Operation&) { return Status::failed; }
  virtual Status put(const Region&, uint64_t offset, std::span<const iovec> local, Operation&) { return Status::failed; }
  /// As get(), but the read may stay here until flush(), to be made together with others.
  virtual Status gather_get(const Region& remote, uint64_t offset, std::span<const iovec> local, Operation& op) {
    return get(remote, offset, local, op);
  }

  /// Changes the 8 bytes at remote[offset), which are aligned to 8, and writes what they were before to `*before`, which must stay until
  /// op.done. Atomic towards other calls of atomic() on that memory over the same rail of its owner, not towards its owner's processors
  /// or other rails. An operation that ends with peer_failed may have been done. Only if caps.atomics; `failed` where the owner's
  /// device cannot, or its memory does not allow it: nothing was begun then, and messages have to do it.
  virtual Status atomic(const Region&, uint64_t offset, const Atomic&, uint64_t* before, Operation&) { return Status::failed; }

  /// Do get() and put() work towards this very peer? A transport may offer them in general (caps) and find them denied between
  /// two processes (user namespaces, seccomp, containers). Known from connect() on; constant afterwards.
  virtual bool can_get() const { return true; }
  virtual bool can_put() const { return true; }
  /// Of less than caps.get_from: would get() take less time than messages in a row, as far as known? Only if caps.weighs. `offered`: this
  /// message can be read; else the answer is about those to come.
  virtual bool get_spares(uint64_t /*bytes*/, Flow, bool /*offered*/) { return false; }
  /// Of less than caps.get_from: would put() by its sender take less of both sides' processors than messages in a row, as far as known?
  /// That is what counts while both send.
  virtual bool put_spares() { return false; }
  /// Memory that was exposed to the peer may be changed before the peer has said that it has read it: then recall() comes before. Who has
  /// read asks whether peer_recalls() is still what recalls() was at the owner's when it was exposed; if not, what has been read is not
  /// to be trusted. Only if caps.weighs.
  virtual void recall() {}
  virtual uint32_t recalls() const { return 0; }
  virtual uint32_t peer_recalls() const { return 0; }

  /// A message to be received past poll(): its header, but for the length, which is at most that, and for the tag where any will do. Filled
  /// in when it has been found.
  struct Next {
    Header header;
    bool any_tag = false;
  };
  /// If the next message from the peer is that one, and all of it is there, puts its payload to `to`. False: nothing was taken, as `looks`
  /// looks have found no message, or another one, which poll() hands out, or there is no such shortcut.
  virtual bool receive_next(Next&, void* /*to*/, int /*looks*/) { return false; }
  /// Where one of several messages goes, and what has come there.
  struct Place {
    void* to;
    uint64_t room;
    uint32_t length;
  };
  /// As receive_next() with one look, of short messages one after another: `first` is the header of the first one; those of the others
  /// differ in their numbers. How many were taken; more may be there.
  virtual size_t receive_several(const Header& /*first*/, std::span<Place>) { return 0; }
  /// What receive_next() would take, or more of it is yet to come; it stays.
  virtual bool peek_next(Next&, int /*looks*/) { return false; }
  /// Has the peer, which shares CPUs with others, left its own to them, as it waits? Nothing if that cannot be seen.
  virtual std::optional<bool> rests() const { return std::nullopt; }
  /// Wakes the peer's process if it sleeps, as a message would. What this thread has written before it finds there then. False: that cannot
  /// be done over this transport, or just now.
  virtual bool rouse() { return false; }
  /// The number of this way among those of its kind between the two processes; the same on both sides.
  virtual uint8_t rail() const { return 0; }

  /// Bytes accepted but not yet handed over to the peer or the kernel (0: a finalize may close).
  virtual size_t backlog() const { return 0; }

  /// Ends the way at once: nothing arrives over it after this call, and what was not handed over yet is forgotten. Operations in
  /// flight complete with peer_failed before it returns. Transport::connect() opens it anew. Only if caps.revives.
  virtual void cut() {}

  /// "shm", "tcp eth0 10.0.0.1:4711 -> 10.0.0.2:5000": for messages and reports.
  virtual std::string describe() const = 0;
};

/// One kind of wire on one device. Constructed on one thread; then all calls are made under the lane's lock.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual const Caps& caps() const = 0;

  /// Opaque bytes that peers need to connect; the lane publishes those of all kinds as one value of the bootstrap. All rails of a
  /// kind return the same bytes, which describe all of them: hosts name and number their devices differently.
  virtual boot::Blob address() const = 0;

  /// Can `who`, with that address, be reached? (Same node, common subnet, ...) Cheap and without side effects.
  virtual bool reaches(ProcessId who, const boot::Blob& address) const = 0;

  /// What it costs to send to a peer that is reached, from what both sides have published: the slower end counts. Cheap and without side
  /// effects.
  virtual Price price(ProcessId, const boot::Blob&) const { return {caps().alpha_ns, caps().beta_ns_per_byte}; }

  /// The endpoint to a peer; wires lazily. `cookie` comes back in each Sink call about it. If caps.revives, a way that was lost or cut
  /// is opened anew by this call, on both sides: until a process has made it, the peer's attempts to connect over this rail are turned
  /// away (and repeated), so that nothing of the old way's traffic can be mistaken for the new one's.
  virtual Result<Endpoint*> connect(ProcessId who, const boot::Blob& address, void* cookie) = 0;

  /// Makes memory readable/writable for peers.
  virtual Region expose(void* address, size_t length) { return {reinterpret_cast<uint64_t>(address), length, {}}; }
  virtual void conceal(const Region&) {}

  /// Delivers arrived messages and completions; returns how many. Bounded work per call.
  virtual int poll(Sink&) = 0;

  /// The same for who has nothing else to do: it may look for a message for some 100 ns.
  virtual int poll_waiting(Sink& sink) { return poll(sink); }
  /// Within Sink::arrived(): its payload stays where it is, and as it is, until give_back(). False: whoever is to keep it copies it.
  virtual bool set_aside(const std::byte* /*payload*/) { return false; }
  /// `from`: as in connect() and Sink::meet().
  virtual void give_back(ProcessId /*from*/, const std::byte* /*payload*/) {}
  /// So many bytes of what had been set aside have been copied to where they belong, in so long: for transports that weigh (Caps::weighs).
  virtual void copied_out(ProcessId /*from*/, uint64_t /*bytes*/, uint64_t /*ns*/) {}

  /// File descriptor that becomes readable when something arrives while armed; -1: none (the waiter then sleeps shortly).
  virtual int event_fd() const { return -1; }
  /// Announces sleep: afterwards an arrival makes event_fd readable. False if something is there already.
  virtual bool arm() { return true; }
  virtual void disarm() {}

  /// Where ranks share CPUs: a thread of this process lends CPU `cpu` at `now_ns`, which peers of the node may be told. Which ones these
  /// have lent lately.
  virtual topo::Ties lends(uint32_t /*cpu*/, uint64_t /*now_ns*/) { return {}; }
  /// None any more: it sleeps, or waits for something else than messages.
  virtual void lends_none() {}

  /// This process is about to leave its CPU to others for a moment, or has it again: what Endpoint::rests() tells its peers.
  virtual void rests(bool) {}

  /// Adds what it has counted.
  virtual void report(obs::Tally&) const {}

  /// Flushes what was accepted and takes leave of the peers (a peer that closes after this is not "lost").
  /// Returns true when done; called repeatedly, with poll() between.
  virtual bool drain() { return true; }
};

/// What a transport is made with.
struct Site {
  boot::Bootstrap& boot;
};

/// A transport that passes everything on to `inner` and injects faults by a plan such as
/// "drop=0.01,delay=100us,reorder=0.1,fail_after=1000,seed=7" (see wrap/README.md). Drops apply to what can be retried only.
Result<std::unique_ptr<Transport>> wrap(std::unique_ptr<Transport> inner, std::string_view plan);

}  // namespace weft::btl
