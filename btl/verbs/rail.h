// One port of an RDMA device as a transport, and the ways to peers over it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "btl/btl.h"
#include "btl/introduction.h"
#include "btl/verbs/arrival.h"
#include "btl/verbs/card.h"
#include "btl/verbs/device.h"
#include "btl/verbs/outstanding.h"
#include "btl/verbs/proposal.h"
#include "runtime/net/doorman.h"
#include "runtime/net/handshake.h"
#include "runtime/net/interfaces.h"
#include "runtime/net/watch.h"

namespace weft::btl {
template <class Rail>
class Porter;
}

namespace weft::btl::verbs {

/// What the user's settings say, and what tests change.
struct Options {
  uint32_t flows = 2;           ///< queue pairs a peer for bulk data; 0: it shares that of the messages
  uint32_t chunk = 256 * 1024;  ///< bytes of one read or write
  uint32_t mtu = 0;             ///< bytes of a packet; 0: what both ports can
  uint8_t service_level = 0;
  uint8_t traffic_class = 0;
  uint8_t timeout = 16;                                   ///< of an acknowledgement: 4.096 us * 2^timeout
  uint8_t retries = 6;                                    ///< 7 would be for ever on soft-RoCE
  uint32_t silence_s = 10;                                ///< after which a peer's device is asked whether it is there; 0: never
  uint32_t guest_s = 30;                                  ///< time that an inbound connection has to prove itself
  uint32_t connect_s = 10;                                ///< limit of one attempt to connect over tcp
  uint64_t registered = 1u << 30;                         ///< bytes of memory that stay registered
  uint64_t put_from = 0;                                  ///< see Caps::put_from; 0: by device
  uint32_t rounds = 5;                                    ///< attempts per address before a peer counts as unreachable
  std::optional<std::vector<net::Interface>> interfaces;  ///< for wire-up, instead of those that the settings choose
};
Options options_from_settings();

/// Everything that a rail counts, for reports and tests.
struct Counters {
  uint64_t lost = 0;       ///< ways lost
  uint64_t no_credit = 0;  ///< sends that found the peer's slots in use
  uint64_t credit_messages = 0;
  uint64_t strays = 0;  ///< arrivals of ways that were closed
  uint64_t knocks = 0;  ///< times that a silent peer's device was asked
};

class Rail;
class Link;

/// A read, a write or an atomic change of a peer's memory under way.
struct Bulk {
  struct Piece {
    std::byte* address;
    size_t length;
    mem::Registration* registration;
  };
  Operation* operation = nullptr;
  bool write = false;
  uint32_t key = 0;
  uint64_t remote = 0;  ///< where the rest begins
  std::vector<Piece> pieces;
  size_t piece = 0, offset = 0;  ///< what is posted next
  uint32_t in_flight = 0;
  uint64_t* before = nullptr;  ///< atomic change: where its answer goes, which comes in a slot
  bool all_posted() const { return piece == pieces.size(); }
};

/// What a work request that was sent holds until it is done: a slot or a part of a bulk operation, if anything.
struct Held {
  uint32_t slot = Slots::kNone;
  Bulk* bulk = nullptr;
};

/// A queue pair with what is under way in it.
struct Queue {
  ibv_qp* pair = nullptr;
  uint32_t name = 0;  ///< in work requests; never used again
  uint32_t packet = 0;
  uint32_t inline_bytes = 0;
  Outstanding<Held> outstanding;
};

/// Bytes to be read from or written to a socket whole.
class Exchange {
 public:
  void send(const void* data, size_t n);
  void expect(size_t n) { in_.assign(n, std::byte{0}), have_ = 0; }
  bool sending() const { return sent_ < out_.size(); }
  bool receiving() const { return have_ < in_.size(); }
  /// Goes on as far as the socket lets it; false if the connection is over.
  bool go_on(int fd);
  const std::byte* received() const { return in_.data(); }

 private:
  std::vector<std::byte> out_, in_;
  size_t sent_ = 0, have_ = 0;
};

/// The way to one peer over one rail. Its queue pairs are made when the first message is sent, or when the peer connects first.
class Link final : public Endpoint, public net::Watched {
 public:
  enum class State : uint8_t {
    idle,        // never used, or opened anew
    connecting,  // the kernel is at it
    shaking,     // own attempt, handshake under way
    proposing,   // own attempt accepted, proposals travel
    answering,   // the peer's attempt accepted, proposals travel
    waiting,     // until the next attempt, or for the peer's own
    open,
    left,    // the peer took its leave
    closed,  // lost or cut; see why_
  };
  Link(Rail& rail, ProcessId who) : rail_(rail), who_(who) {}

  Status try_inline(const Header&, const void* payload) override;
  Status send(const Header&, type::Cursor&) override;
  Status get(const Region&, uint64_t offset, std::span<const iovec> local, Operation&) override;
  Status put(const Region&, uint64_t offset, std::span<const iovec> local, Operation&) override;
  Status atomic(const Region&, uint64_t offset, const Atomic&, uint64_t* before, Operation&) override;
  size_t backlog() const override;
  void cut() override;
  uint8_t rail() const override;
  std::string describe() const override;

 private:
  friend class Rail;
  friend class Porter<Rail>;

  // sending (link.cc)
  Status admit();
  bool is_alike(const Header& header) const;
  Status post_slot(const Header& header, uint32_t slot);
  Status post_in_place(const Header& header, const void* payload);
  Status post_word(Tag::What what, bool report);
  Status post(Tag::What what, std::span<ibv_sge> pieces, unsigned flags, uint32_t slot);
  bool give_credit();
  void check_silence();
  // bulk data (bulk.cc)
  Status start_bulk(bool write, const Region&, uint64_t offset, std::span<const iovec> local, Operation&);
  void push_bulks();
  uint32_t post_chunks(Queue& queue, Bulk& bulk);
  Status post_atomic(Queue& queue, ibv_send_wr& request, Bulk& bulk);
  Queue& next_flow();
  void finish(Bulk& bulk, Status status);
  std::vector<Bulk*> release_queues();
  // progress (link.cc)
  void arrived(const std::byte* slot, uint32_t bytes, const Tag& tag, Sink& sink);
  void done(Queue& queue, uint32_t number);
  bool leave();
  // the life of a connection (wiring.cc)
  void begin();
  void connected();
  void shake();
  void conclude();
  void attempt_failed(const std::string& why);
  void adopt(net::Fd socket);
  void exchange();
  void propose();
  void take_proposal();
  bool reserve();
  bool make_queues();
  bool raise_queues(const Proposal& theirs);
  Proposal proposal() const;
  void opened();
  void hang_up(State next);
  void fail(const std::string& why);
  bool busy() const { return state_ >= State::connecting && state_ <= State::waiting; }

  Rail& rail_;
  ProcessId who_;
  void* cookie_ = nullptr;
  State state_ = State::idle;
  bool bye_sent_ = false, bye_heard_ = false;
  bool owing_ = false;  // in the rail's list of those that credit is owed to
  bool heard_ = true;   // since the last look at the silence
  uint8_t their_rail_ = 0;
  int32_t credit_ = 0;         // messages that may be sent
  uint32_t credit_limit_ = 0;  // most that the peer ever gives
  uint32_t granted_ = 0;       // what this side has given
  uint32_t owed_ = 0;          // slots emptied and not yet given back as credit
  uint32_t slots_ = 0;         // posted for this peer
  uint32_t replaced_ = 0;      // and those posted for what queue pairs that broke may have kept
  Header last_out_, last_in_;  // of messages in this way
  std::vector<Queue> queues_;  // messages, then bulk
  uint32_t flow_ = 0;
  std::deque<Bulk*> bulks_;  // not posted whole yet
  uint32_t bulks_open_ = 0;
  std::vector<Bulk*> orphans_;  // of a way that was lost; their operations are told by the next poll
  // connecting
  uint32_t attempts_ = 0, generation_ = 0, their_generation_ = 0;
  uint64_t deadline_ = 0;
  net::Digest key_{};
  std::string host_, why_;
  net::Gid here_, there_;
  std::vector<Way> ways_;  // empty until connect(): a peer that connected first
  std::unique_ptr<net::Handshake> handshake_;
  Exchange exchange_;
};

class Rail final : public Transport {
 public:
  static Result<std::unique_ptr<Rail>> open(const Site& site, const Options& options, std::shared_ptr<Shared> shared,
                                            std::shared_ptr<const Card> card, size_t index, std::vector<net::Fd> listeners);
  ~Rail() override;

  const Caps& caps() const override { return caps_; }
  boot::Blob address() const override { return card_->encode(); }
  bool reaches(ProcessId who, const boot::Blob& address) const override;
  Price price(ProcessId who, const boot::Blob& address) const override;
  Result<Endpoint*> connect(ProcessId who, const boot::Blob& address, void* cookie) override;
  Region expose(void* address, size_t length) override;
  void conceal(const Region&) override;
  int poll(Sink&) override;
  int event_fd() const override { return watcher_.fd.get(); }
  bool arm() override;
  void disarm() override;
  bool drain() override;
  void report(obs::Tally&) const override;

  const Counters& counters() const { return counters_; }
  const net::Doorman::Counters& strangers() const { return doorman_.counters(); }

 private:
  friend class Link;
  friend class Porter<Rail>;
  static constexpr int kBatch = 16;
  static constexpr uint64_t kArrival = uint64_t{1} << 63;  // in work request numbers: a slot of the shared receive queue

  Rail(const Site& site, const Options& options, std::shared_ptr<Shared> shared, std::shared_ptr<const Card> card, size_t index,
       std::vector<net::Fd> listeners);
  Result<void> make_queues();
  // progress (rail.cc)
  Link& link_to(ProcessId who);
  int take(std::span<const ibv_wc> completions, Sink& sink);
  void take_arrival(const ibv_wc& completion, Sink& sink);
  void take_report(const ibv_wc& completion);
  bool refill();
  void withdraw(Link& link);
  bool reserve_slots(uint32_t n);
  bool reserve_reports(uint32_t n);
  void pay_debts();
  int report(Sink& sink);
  void consume_events();
  void device_event();
  // the service through which ways are set up (wiring.cc)
  int look(Sink& sink);
  void watch(net::Watched& what, uint32_t events) { watcher_.watch(what, events); }
  void unwatch(net::Watched& what) { watcher_.unwatch(what); }
  int serve(const epoll_event& event, Sink& sink);
  void check_deadlines();
  void check_silence();
  net::Verdict judge(const Introduction& they, Link& link);
  std::string who_text(const Link& link) const;
  std::string explain(int status, uint32_t vendor) const;

  boot::Bootstrap& boot_;
  const Options options_;
  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<const Card> card_;
  const size_t index_;  // of the rail, and of its device in the cache
  Device& device_;
  const net::VerbsLibrary& verbs_;
  Caps caps_;
  Counters counters_;
  // arrivals and reports
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* completions_ = nullptr;
  ibv_srq* receives_ = nullptr;
  uint32_t receives_most_ = 0;
  uint32_t slots_reserved_ = 0, reports_reserved_ = 0;
  Slots send_slots_, receive_slots_;
  std::vector<uint32_t> empty_;  // slots to be posted again
  std::vector<ibv_wc> stash_;    // found by arm()
  bool armed_ = false;
  std::unordered_map<uint32_t, std::pair<Link*, uint32_t>> by_number_, by_name_;  // queue pairs: by hardware's number, by our name
  uint32_t next_name_ = 1;
  std::vector<Link*> owing_, pushing_;
  // exposed memory, by number
  std::vector<mem::Registration*> exposed_;
  std::vector<uint32_t> exposed_free_;
  // setting up
  net::Watcher watcher_;
  net::Watched arrivals_, device_events_;
  net::Doorman doorman_;
  std::unordered_map<ProcessId, std::unique_ptr<Link>> links_;
  std::vector<Link*> mourned_;  // lost, not yet reported
  uint32_t busy_links_ = 0, polls_ = 0;
  uint64_t next_look_ = 0, silence_check_at_ = 0;
  bool draining_ = false;
};

/// The rails of this process, sharing one card.
Result<std::vector<std::unique_ptr<Rail>>> open_rails(const Site& site, const Options& options);

}  // namespace weft::btl::verbs
