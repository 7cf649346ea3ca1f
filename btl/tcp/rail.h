// One network interface as a transport: listening sockets, the connections over it, and their progress.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "btl/btl.h"
#include "btl/card.h"
#include "btl/introduction.h"
#include "btl/tcp/stream.h"
#include "runtime/net/doorman.h"
#include "runtime/net/handshake.h"
#include "runtime/net/interfaces.h"
#include "runtime/net/watch.h"

namespace weft::btl {
template <class Rail>
class Porter;
}

namespace weft::btl::tcp {

/// What the user's settings say, and what tests change.
struct Options {
  uint32_t queue_bytes = 256 * 1024;                      ///< copied bytes waiting per peer, beyond which sends are told `again`
  int socket_bytes = 0;                                   ///< SO_SNDBUF and SO_RCVBUF; 0: the kernel's own tuning
  uint32_t silence_s = 60;                                ///< a peer host that stays silent so long is lost
  std::string congestion = {};                            ///< congestion control between hosts; empty: the system's
  uint32_t connect_s = 10;                                ///< limit of one attempt to connect
  uint32_t rounds = 5;                                    ///< attempts per address before a peer counts as unreachable
  uint32_t spare_ms = 1000;                               ///< limits silence and an attempt to connect where there are other rails
  uint32_t guest_s = 30;                                  ///< time that an inbound connection has to prove itself
  uint32_t guests = 256;                                  ///< inbound connections that may be unproven at a time; others wait in the kernel
  std::optional<std::vector<net::Interface>> interfaces;  ///< instead of those that the settings choose
};
Options options_from_settings();

/// Everything that a rail counts, for reports and tests.
struct Counters {
  uint64_t lost = 0;    ///< peers lost
  uint64_t writes = 0;  ///< system calls that sent
  uint64_t reads = 0;   ///< system calls that brought something
};

class Rail;

/// The way to one peer over one rail: connects at the first send, or is adopted when the peer connects first.
class Link final : public Endpoint, public net::Watched {
 public:
  enum class State : uint8_t {
    idle,        // never used
    connecting,  // the kernel is at it
    shaking,     // own attempt, handshake under way
    waiting,     // until the next attempt, or for the peer's own
    open,
    left,  // the peer took its leave
    dead,  // lost; see why_
  };
  Link(Rail& rail, ProcessId who) : rail_(rail), who_(who) {}

  Status try_inline(const Header&, const void* payload) override;
  Status send(const Header&, type::Cursor&) override;
  Status send_zcopy(const Header&, std::span<const iovec>, Operation&) override;
  void cut() override;
  uint8_t rail() const override;
  Status gather(const Header&, const void* payload) override;
  Status gather_zcopy(const Header&, std::span<const iovec>, Operation&) override;
  void flush() override;
  size_t backlog() const override { return outbox_.bytes(); }
  std::string describe() const override;

 private:
  friend class Rail;
  friend class Porter<Rail>;

  Status admit(size_t copied);
  size_t write_now(std::span<const iovec> runs);
  ssize_t offer(std::span<const iovec> runs);
  Status write_large(const Header& header, const void* payload);
  void keep(const Header& header, const void* payload);
  Status keep_rest(std::span<const std::byte> head, const void* payload, size_t length, size_t sent);
  void refer(const Head& head, std::span<const iovec> payload, size_t sent, Operation& op);
  void push();
  void watch(bool write);
  /// What comes next comes in several parts: asking the socket itself would disturb those who bring it.
  bool expects_bulk() const { return inbox_.bulky() && !inbox_.within_message(); }
  /// The kernel has no room, or there is no connection.
  bool blocked() const { return state_ != State::open || (interest & EPOLLOUT); }

  uint64_t connect_limit_ns() const;
  void reopen();
  void begin();
  void connected();
  void shake();
  void conclude();
  void attempt_failed(const std::string& why);
  void opened();
  void adopt(net::Fd socket);
  void check_silence();
  void fail(const std::string& why);
  void hang_up(State next);
  int serve(uint32_t events, Sink& sink);
  int receive(Sink& sink);
  bool leave();

  Rail& rail_;
  ProcessId who_;
  void* cookie_ = nullptr;
  State state_ = State::idle;
  bool bye_sent_ = false;
  bool several_ = false;  // there are other rails to this peer
  uint32_t attempts_ = 0;
  uint64_t opened_ = 0;    // ns
  uint64_t deadline_ = 0;  // of connecting and waiting
  int their_rail_ = -1;
  net::Digest key_{};  // what an attempt of ours must prove to know
  std::string host_, why_;
  net::Address here_, there_;  // of the open connection; the kernel forgets them when it breaks
  std::vector<Way> ways_;      // empty until connect(): a peer that connected first
  std::unique_ptr<net::Handshake> handshake_;
  Outbox outbox_;
  Inbox inbox_;
};

class Rail final : public Transport {
 public:
  Rail(const Site& site, Options options, std::shared_ptr<const Card> card, size_t index, std::vector<net::Fd> listeners);
  ~Rail() override;

  const Caps& caps() const override { return caps_; }
  boot::Blob address() const override { return card_->encode(); }
  bool reaches(ProcessId who, const boot::Blob& address) const override;
  Price price(ProcessId who, const boot::Blob& address) const override;
  Result<Endpoint*> connect(ProcessId who, const boot::Blob& address, void* cookie) override;
  int poll(Sink&) override;
  int event_fd() const override { return watcher_.fd.get(); }
  bool arm() override;
  bool drain() override;
  void report(obs::Tally&) const override;

  const Counters& counters() const { return counters_; }
  const net::Doorman::Counters& strangers() const { return doorman_.counters(); }

 private:
  friend class Link;
  friend class Porter<Rail>;

  Link& link_to(ProcessId who);
  int look_at_all(Sink& sink);
  void choose_lively(net::Watched* only);
  int serve(const epoll_event& event, Sink& sink);
  int report(Sink& sink);
  void watch(net::Watched& what, uint32_t events) { watcher_.watch(what, events); }
  void unwatch(net::Watched& what) { watcher_.unwatch(what); }
  void wake_at(uint64_t when) { alarm_.set(when); }
  void check_deadlines();
  void check_silence(uint64_t now);
  void rest(int events);
  net::Verdict judge(const Introduction& they, Link& link);
  std::string who_text(const Link& link) const;

  boot::Bootstrap& boot_;
  const Options options_;
  const std::shared_ptr<const Card> card_;
  const size_t index_;
  Caps caps_;
  Counters counters_;
  net::Watcher watcher_;
  net::Doorman doorman_;
  net::Alarm alarm_;
  uint64_t silence_check_at_ = UINT64_MAX;
  std::unordered_map<ProcessId, std::unique_ptr<Link>> links_;
  std::vector<Link*> mourned_;            // failed, not yet reported
  std::unique_ptr<std::byte[]> scratch_;  // made at the first arrival
  bool draining_ = false;
  // how often poll() asks the kernel: always while there is traffic, then ever more rarely
  uint64_t last_look_ = 0, pause_ = 0;
  uint32_t quiet_looks_ = 0;
  uint32_t open_links_ = 0, busy_links_ = 0;  // open; being connected
  Link* lively_ = nullptr;                    // the connection asked directly
  Link* last_ready_ = nullptr;                // the only one that had something at the last look at all
  uint64_t last_look_at_all_ = 0;
};

/// The rails of this process, sharing one card.
Result<std::vector<std::unique_ptr<Rail>>> open_rails(const Site& site, const Options& options);

}  // namespace weft::btl::tcp
