// One UCP worker a process, and the ways to its peers.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "btl/plugin.h"
#include "btl/ucx/notes.h"
#include "btl/ucx/wires.h"

namespace weft::btl::ucx {

class Worker;

/// Ids of the active messages.
enum class Say : unsigned {
  message,         ///< Note and payload
  short_message,   ///< ShortNote and payload
  hello,           ///< first on a new way, with what its sender publishes: for a way back
  farewell,        ///< nothing more comes from here
  farewell_heard,  ///< answer, from who goes on
};

constexpr uint32_t kBuffered = 64 << 10;  // payload of a buffered send

constexpr uint32_t kAtOnce = (8 << 10) + 1;  // payloads below it are worth the attempt to send them without a buffer

/// A buffered message, until UCX has sent it.
struct Parcel {
  Parcel* next = nullptr;
  class Way* way = nullptr;
  Note note;  ///< or, at its end, a ShortNote
  std::byte payload[kBuffered];
};

/// A send from user memory, until UCX has sent it.
struct Loan {
  Way* way = nullptr;
  Operation* operation = nullptr;  ///< null: completed already, with an error
  Note note;
  std::vector<ucp_dt_iov_t> pieces;
};

/// A note of the transport's own, until UCX has sent it.
struct Word {
  Way* way;
  Say what;
  Note note;
};

/// The way to one peer. Known from the first message in either direction.
class Way final : public Endpoint {
 public:
  Way(Worker& worker, uint32_t rank) : worker_(worker), rank_(rank) {}
  Status try_inline(const Header&, const void* payload) override;
  Status send(const Header&, type::Cursor&) override;
  Status send_zcopy(const Header&, std::span<const iovec>, Operation&) override;
  size_t backlog() const override { return parcels_; }
  std::string describe() const override;

 private:
  friend class Worker;
  Parcel* admit();
  Status admit_failed();
  Note note_of(Header) const;
  bool send_at_once(const Header&, const void* payload);
  Status dispatch(Parcel*, const Header&);
  Status refused(ucs_status_t);
  void say(Say);
  void greeted();
  std::string wires_text() const;
  void lend_back(Status);
  bool flushed();
  static void parcel_sent(void* request, ucs_status_t, void* parcel);
  static void said(void* request, ucs_status_t, void* word);
  static void loan_ended(void* request, ucs_status_t, void* loan);
  static void failed(void* way, ucp_ep_h, ucs_status_t);

  ucp_ep_h ep_ = nullptr;             // null: not connected
  uint32_t parcels_ = 0;              // in flight
  uint32_t at_once_below_ = kAtOnce;  // payloads that UCX may take without a buffer of ours
  bool over_ = false;                 // left, or lost: nothing can be sent any more
  bool left_ = false;                 // the peer said farewell
  bool told_ = false;                 // we have said farewell
  bool heard_ = false;                // and the peer knows
  bool greeting_ = false;             // our hello waits until UCX's two sides know each other
  bool unflushed_ = false;            // something was sent since the last flush began
  void* cookie_ = nullptr;
  bool met_ = false;      // cookie_ is set
  bool watched_ = false;  // UCX looks after the peer's life
  Worker& worker_;
  uint32_t rank_;
  std::vector<Loan*> loans_;  // in flight
  void* flush_ = nullptr;     // UCX's request
  std::vector<Wire> wires_;   // that UCX has chosen, where it looks after the peer's life
  std::string why_;           // lost because of this
};

/// What a peer has told, until poll() sees to it.
struct News {
  Way* from;
  Say what;
  boot::Blob address;  ///< of a hello
};

/// What is being received into its place by UCX's rendezvous.
struct Inbound {
  Worker* worker = nullptr;
  Way* way = nullptr;
  Arrival arrival;
  std::byte* place = nullptr;
  std::unique_ptr<std::byte[]> own;  ///< where the sink had no place
};

class Worker final : public Transport {
 public:
  static Result<std::unique_ptr<Transport>> open(const Site&, const Core&);
  ~Worker() override;
  const Caps& caps() const override { return caps_; }
  boot::Blob address() const override { return address_; }
  bool reaches(ProcessId who, const boot::Blob& address) const override;
  Price price(ProcessId who, const boot::Blob& address) const override;
  Result<Endpoint*> connect(ProcessId who, const boot::Blob& address, void* cookie) override;
  int poll(Sink&) override;
  int event_fd() const override { return event_fd_; }
  bool arm() override;
  bool drain() override;

 private:
  friend class Way;
  Worker(const Site&, const Core&);
  Result<void> start();
  Result<void> listen();
  Result<void> meet(Way&, const boot::Blob& address);
  Result<ucp_ep_h> make_endpoint(Way&, const ucp_address_t*);
  void take_news();
  Way& way(uint32_t rank);
  void* cookie_of(Way&);
  Parcel* take_parcel();
  void give_back(Parcel*);
  void report(Sink&);
  void stranger();
  void arrived(const Arrival&, const std::byte* payload);
  ucs_status_t begin_large(const Arrival&, void* descriptor);
  void end_large(Inbound*, ucs_status_t);
  std::string name_of(const Way&) const;
  bool on_node(uint32_t rank) const;
  static ucs_status_t on_short_message(void*, const void* header, size_t, void* data, size_t, const ucp_am_recv_param_t*);
  static ucs_status_t on_message(void*, const void* header, size_t, void* data, size_t, const ucp_am_recv_param_t*);
  template <Say what>
  static ucs_status_t on_news(void*, const void* header, size_t, void* data, size_t, const ucp_am_recv_param_t*);
  static void received(void* request, ucs_status_t, size_t, void* inbound);

  ucp_worker_h worker_ = nullptr;
  Sink* sink_ = nullptr;  // during poll()
  int events_ = 0;        // of this poll
  Token token_;
  uint32_t slots_ = 0;       // of UCX's queues in shared memory
  bool rdma_ = false;        // UCX may use an RDMA device
  size_t joined_limit_ = 0;  // up to this many bytes note and payload go as one
  Parcel* parcels_ = nullptr;
  size_t idle_parcels_ = 0;
  Way* latest_ = nullptr;  // who sent last
  std::unordered_map<uint32_t, std::unique_ptr<Way>> ways_;
  std::vector<News> news_;
  std::vector<Way*> mourned_;  // lost, not reported yet
  size_t loans_ = 0;           // in flight, of all ways
  size_t inbound_ = 0;         // large messages being received
  uint64_t strangers_ = 0;     // messages that cannot be ours
  enum class Leaving : uint8_t { no, telling, done } leaving_ = Leaving::no;
  ucp_context_h context_ = nullptr;
  int event_fd_ = -1;
  Caps caps_;
  boot::Blob address_;
  const boot::Job& job_;
  boot::Bootstrap& boot_;
  Core core_;
};

}  // namespace weft::btl::ucx
