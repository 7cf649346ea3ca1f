// The worker: opening, arrivals, losses, leaving; and what the file shows to the library.
#include "btl/ucx/worker.h"

#include <config.h>
#include <ucs/config/global_opts.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "runtime/base/clock.h"

namespace weft::btl::ucx {
namespace {

constexpr int kStepsPerPoll = 8;
constexpr size_t kIdleParcels = 16;
constexpr size_t kJoined = 2048;   // copying so much costs less than a second piece of memory
constexpr size_t kManyRanks = 16;  // of one node, each of which has UCX's queue: with more the usual small slots
constexpr uint64_t kCloseLimit_ns = 1'000'000'000;

Failure failure(const char* what, ucs_status_t status) {
  return Failure{std::string("UCX ") + ucp_get_version_string() + ": " + what + " failed: " + ucs_status_string(status) +
                 " (see UCX_TLS, UCX_NET_DEVICES; UCX_LOG_LEVEL=info says more)"};
}

/// Of the UCX that runs.
bool is_at_least(unsigned wanted_major, unsigned wanted_minor) {
  unsigned major, minor, release;
  ucp_get_version(&major, &minor, &release);
  return std::pair(major, minor) >= std::pair(wanted_major, wanted_minor);
}

/// Sizes of the slots of UCX's queues in shared memory, as far as they matter: who connects to each other must have the same.
enum Slots : uint32_t { no_shared_memory, set_by_user, usual, of_4_KiB = 4288, of_8_KiB = 8384 };

bool is_set(std::initializer_list<const char*> variables) {
  return std::ranges::any_of(variables, [](const char* name) { return getenv(name) != nullptr; });
}

/// Slots that take a message of up to 4 KiB (8 KiB where UCX has 64 of them instead of 256): what fits goes in one copy, without a buffer,
/// and the second cache line of a slot does not arrive as late as with the usual 128 bytes.
Slots slots_for(size_t ranks) {
  const char* wires = getenv("UCX_TLS");
  const auto named = [&](const char* wire) { return strstr(wires, wire) != nullptr; };
  if (wires && (*wires == '^' || !(named("posix") || named("sysv") || named("sm") || named("shm") || named("all"))))
    return no_shared_memory;
  if (is_set({"UCX_MM_FIFO_ELEM_SIZE", "UCX_POSIX_FIFO_ELEM_SIZE", "UCX_SYSV_FIFO_ELEM_SIZE"})) return set_by_user;
  if (ranks > kManyRanks) return usual;
  if (is_at_least(1, 22)) return of_4_KiB;
  return is_at_least(1, 14) ? usual : of_8_KiB;
}

/// UCX 1.13 names settings of a wire without the wire, later versions with it; it complains of those that nothing uses.
void apply(Slots slots, ucp_config_t* config) {
  if (slots <= usual) return;
  const std::string size = std::to_string(slots);
  const bool named = is_at_least(1, 22);
  for (const char* name : named ? std::vector{"POSIX_FIFO_ELEM_SIZE", "SYSV_FIFO_ELEM_SIZE"} : std::vector{"MM_FIFO_ELEM_SIZE"})
    ucp_config_modify(config, name, size.c_str());
}

constexpr Price kInMemory{400, 0.06}, kOverRdma{2'000, 0.1}, kOverSockets{20'000, 0.8};  // estimates

Caps caps_of() {
  Caps caps;
  caps.name = "ucx";
  caps.max_inline = caps.max_buffered = kBuffered;
  caps.zcopy = true;
  caps.ordered = false;
  caps.alpha_ns = kOverRdma.alpha_ns;
  caps.beta_ns_per_byte = kOverRdma.beta_ns_per_byte;
  return caps;
}

/// May UCX use an RDMA device, by what it prints of itself?
bool uses_rdma(ucp_context_h context) {
  const std::string printed = printed_by([&](FILE* file) { ucp_context_print_info(context, file); });
  return std::ranges::any_of(std::initializer_list<const char*>{" rc_", " dc_", " ud_"},
                             [&](const char* transport) { return printed.find(transport) != printed.npos; });
}

}  // namespace

// ---- opening

Worker::Worker(const Site& site, const Core& core) : caps_(caps_of()), job_(site.boot.job()), boot_(site.boot), core_(core) {}

Result<std::unique_ptr<Transport>> Worker::open(const Site& site, const Core& core) {
  std::unique_ptr<Worker> made(new Worker(site, core));
  const boot::Job& job = site.boot.job();
  made->token_ = {core.token(job, "weft btl ucx"), job.rank, job.size};
  if (auto started = made->start(); !started) return started.failure();
  if (auto listening = made->listen(); !listening) return listening.failure();
  return std::unique_ptr<Transport>(std::move(made));
}

Result<void> Worker::start() {
  // settings of other UCX users in the environment are none of ours
  if (!getenv("UCX_WARN_UNUSED_ENV_VARS")) ucs_global_opts_set_value("WARN_UNUSED_ENV_VARS", "n");
  ucp_config_t* config;
  if (const ucs_status_t s = ucp_config_read(nullptr, nullptr, &config); s != UCS_OK) return failure("reading its settings", s);
  // its sockets would cut a buffered message of ours into nine (1.13 does not, and complains of the setting); what the user has set holds
  if (is_at_least(1, 22) && !getenv("UCX_TCP_TX_SEG_SIZE")) ucp_config_modify(config, "TCP_TX_SEG_SIZE", "64k");
  const Slots slots = slots_for(job_.node_ranks.size());
  slots_ = slots;
  apply(slots, config);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "weft";
  const ucs_status_t opened = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  if (opened != UCS_OK) return failure("opening a context", opened);
  ucp_worker_params_t wanted{};
  wanted.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  wanted.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // the lane's lock
  if (const ucs_status_t s = ucp_worker_create(context_, &wanted, &worker_); s != UCS_OK) return failure("opening a worker", s);
  return {};
}

Result<void> Worker::listen() {
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  if (const ucs_status_t s = ucp_worker_query(worker_, &attributes); s != UCS_OK) return failure("asking for the address", s);
  rdma_ = uses_rdma(context_);
  address_ = Card{.token = token_.whole, .slots = slots_, .rdma = rdma_}.before(attributes.address, attributes.address_length);
  ucp_worker_release_address(worker_, attributes.address);
  joined_limit_ = std::min(attributes.max_am_header, kJoined);
  const std::pair<Say, ucp_am_recv_callback_t> handlers[] = {{Say::message, on_message},
                                                             {Say::short_message, on_short_message},
                                                             {Say::hello, on_news<Say::hello>},
                                                             {Say::farewell, on_news<Say::farewell>},
                                                             {Say::farewell_heard, on_news<Say::farewell_heard>}};
  for (const auto& [what, handler] : handlers) {
    ucp_am_handler_param_t param{};
    param.field_mask =
        UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    param.id = unsigned(what);
    param.flags = UCP_AM_FLAG_WHOLE_MSG;
    param.cb = handler;
    param.arg = this;
    if (const ucs_status_t s = ucp_worker_set_am_recv_handler(worker_, &param); s != UCS_OK) return failure("active messages", s);
  }
  if (ucp_worker_get_efd(worker_, &event_fd_) != UCS_OK) event_fd_ = -1;  // the waiter looks now and then
  return {};
}

// ---- peers

Way& Worker::way(uint32_t rank) {
  if (latest_ && latest_->rank_ == rank) return *latest_;
  auto& slot = ways_[rank];
  if (!slot) slot = std::make_unique<Way>(*this, rank);
  return *slot;
}

void* Worker::cookie_of(Way& way) {
  if (!way.met_) {
    void* cookie = sink_->meet({0, way.rank_});
    if (!way.met_) way.cookie_ = cookie;
    way.met_ = true;
  }
  return way.cookie_;
}

std::string Worker::name_of(const Way& way) const { return boot::name_of(boot_, {0, way.rank_}); }

bool Worker::on_node(uint32_t rank) const { return std::binary_search(job_.node_ranks.begin(), job_.node_ranks.end(), rank); }

bool Worker::reaches(ProcessId who, const boot::Blob& address) const {
  return who.job == 0 && who.rank != job_.rank && address.size() > sizeof(Card);
}

/// As UCX does not say what it will take: by what both sides may use.
Price Worker::price(ProcessId who, const boot::Blob& address) const {
  const Card theirs = Card::of(address);
  if (on_node(rank_of(who.rank)) && slots_ != no_shared_memory && theirs.slots != no_shared_memory) return kInMemory;
  return rdma_ && theirs.rdma == 1 ? kOverRdma : kOverSockets;
}

Result<Endpoint*> Worker::connect(ProcessId who, const boot::Blob& address, void* cookie) {
  Way& to = way(who.rank);
  to.cookie_ = cookie;
  to.met_ = true;
  if (auto met = meet(to, address); !met) return met.failure();
  return &to;
}

/// Makes the way's endpoint, if it has none yet, and says hello on it. Where the peer has done so before, UCX gives the connection that
/// there is.
Result<void> Worker::meet(Way& to, const boot::Blob& address) {
  const std::string rank = text_of({0, to.rank_});
  const auto theirs = Card::address_in(address, token_.whole);
  if (theirs.empty()) return Failure{rank + " published no valid address for ucx; do all processes run the same version of Weft?"};
  // one would write into the other's queue past its end
  if (const uint32_t slots = Card::of(address).slots; on_node(rank_of(to.rank_)) && slots != slots_ && slots && slots_)
    return Failure{
        rank +
        " has UCX's queues in shared memory in another shape; give all processes the same version and UCX_ settings, or leave out "
        "shared memory (UCX_TLS)"};
  if (to.ep_) return {};
  auto made = make_endpoint(to, reinterpret_cast<const ucp_address_t*>(theirs.data()));
  if (!made) return made.failure();
  to.ep_ = *made;
  to.say(Say::hello);
  return {};
}

Result<ucp_ep_h> Worker::make_endpoint(Way& way, const ucp_address_t* address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = address;
  // UCX's shared memory cannot tell of a peer's death: there the launcher does
  way.watched_ = !on_node(rank_of(way.rank_));
  params.err_mode = way.watched_ ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler.cb = Way::failed;
  params.err_handler.arg = &way;
  ucp_ep_h made;
  if (const ucs_status_t s = ucp_ep_create(worker_, &params, &made); s != UCS_OK)
    return failure(("connecting to " + text_of({0, way.rank_})).c_str(), s);
  return made;
}

// ---- buffers

Parcel* Worker::take_parcel() {
  Parcel* parcel = parcels_;
  if (!parcel) [[unlikely]]
    return new Parcel;
  parcels_ = parcel->next;
  --idle_parcels_;
  return parcel;
}

void Worker::give_back(Parcel* parcel) {
  if (idle_parcels_ >= kIdleParcels) [[unlikely]] {
    delete parcel;
    return;
  }
  ++idle_parcels_;
  parcel->next = parcels_;
  parcels_ = parcel;
}

// ---- arrivals

void Worker::stranger() {
  if (std::has_single_bit(++strangers_))
    core_.log(Level::warning,
              ("ucx: dropped a message of a process that is not of this job (" + std::to_string(strangers_) + " so far)").c_str());
}

void Worker::arrived(const Arrival& arrival, const std::byte* payload) {
  Way& from = way(arrival.from);
  latest_ = &from;
  ++events_;
  sink_->arrived(cookie_of(from), arrival.header, payload);
}

/// The note is UCX's header or its beginning; of the shortest messages the beginning of UCX's data.
ucs_status_t Worker::on_short_message(void* at, const void* header, size_t header_length, void* data, size_t length,
                                      const ucp_am_recv_param_t*) {
  auto& self = *static_cast<Worker*>(at);
  if (!header_length) {
    header = data;
    header_length = std::exchange(length, 0);
  }
  const std::optional<Arrival> arrival = self.token_.read_short(header, header_length, length);
  if (!arrival) [[unlikely]]
    self.stranger();
  else if (self.sink_) [[likely]]
    self.arrived(*arrival, static_cast<const std::byte*>(length ? data : header) + (length ? 0 : sizeof(ShortNote)));
  return UCS_OK;
}

ucs_status_t Worker::on_message(void* at, const void* header, size_t header_length, void* data, size_t length,
                                const ucp_am_recv_param_t* param) {
  auto& self = *static_cast<Worker*>(at);
  const std::optional<Arrival> arrival = self.token_.read(header, header_length, length);
  if (!arrival) self.stranger();
  if (!arrival || !self.sink_) return UCS_OK;
  if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) return self.begin_large(*arrival, data);
  self.arrived(*arrival,
               header_length > sizeof(Note) ? static_cast<const std::byte*>(header) + sizeof(Note) : static_cast<const std::byte*>(data));
  return UCS_OK;
}

/// A large message waits at the sender: fetches it to where it belongs.
ucs_status_t Worker::begin_large(const Arrival& arrival, void* descriptor) {
  const size_t length = arrival.header.length;
  auto inbound = std::make_unique<Inbound>();
  inbound->worker = this;
  inbound->arrival = arrival;
  inbound->way = &way(arrival.from);
  inbound->place = sink_->landing(cookie_of(*inbound->way), inbound->arrival.header);
  if (!inbound->place) {
    inbound->own.reset(new std::byte[length]);
    inbound->place = inbound->own.get();
  }
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE;
  param.datatype = ucp_dt_make_contig(1);
  param.cb.recv_am = received;
  param.user_data = inbound.get();
  ++inbound_;
  const ucs_status_ptr_t going = ucp_am_recv_data_nbx(worker_, descriptor, inbound->place, length, &param);
  Inbound* begun = inbound.release();
  if (!going || UCS_PTR_IS_ERR(going)) end_large(begun, going ? UCS_PTR_STATUS(going) : UCS_OK);
  return UCS_INPROGRESS;
}

void Worker::received(void* request, ucs_status_t status, size_t, void* at) {
  auto* inbound = static_cast<Inbound*>(at);
  ucp_request_free(request);
  inbound->worker->end_large(inbound, status);
}

void Worker::end_large(Inbound* ended, ucs_status_t status) {
  const std::unique_ptr<Inbound> inbound(ended);
  --inbound_;
  ++events_;
  if (!sink_ || inbound->way->over_) return;
  if (status != UCS_OK) return Way::failed(inbound->way, nullptr, status);
  arrived(inbound->arrival, inbound->place);
}

/// Hellos and farewells. They are seen to later: no endpoint is made inside of UCX.
template <Say what>
ucs_status_t Worker::on_news(void* at, const void* header, size_t header_length, void* data, size_t length, const ucp_am_recv_param_t*) {
  auto& self = *static_cast<Worker*>(at);
  const std::optional<Arrival> note = self.token_.read(header, header_length, length);
  if (!note) return self.stranger(), UCS_OK;
  const auto* told = static_cast<const std::byte*>(data);
  self.news_.push_back({&self.way(note->from), what, boot::Blob(told, told + length)});
  ++self.events_;
  return UCS_OK;
}

/// A peer that has said hello gets an endpoint even where nothing is sent to it: UCX tells of the loss of those alone, and destroys others
/// with their connection.
void Worker::take_news() {
  for (const News& news : std::exchange(news_, {})) {
    Way& from = *news.from;
    if (news.what == Say::hello) {
      if (from.ep_ || from.over_) continue;
      if (auto met = meet(from, news.address); !met) core_.log(Level::warning, ("ucx: no way back: " + met.failure().text).c_str());
      continue;
    }
    if (news.what == Say::farewell && !from.told_) from.say(Say::farewell_heard);
    from.heard_ = true;
    if (news.what == Say::farewell) from.left_ = from.over_ = true;
  }
}

// ---- progress

int Worker::poll(Sink& sink) {
  sink_ = &sink;
  events_ = 0;
  // no further look once there is something for the pml to do: with sockets each look is a system call
  for (int i = 0; i < kStepsPerPoll && ucp_worker_progress(worker_) && !events_; ++i) {
  }
  if (!news_.empty()) [[unlikely]]
    take_news();
  if (!mourned_.empty()) [[unlikely]]
    report(sink);
  sink_ = nullptr;
  return events_;
}

void Worker::report(Sink& sink) {
  while (!mourned_.empty()) {
    Way& way = *mourned_.back();
    mourned_.pop_back();
    ++events_;
    way.lend_back(Status::peer_failed);
    if (way.met_) sink.lost(way.cookie_, way.why_);
  }
}

bool Worker::arm() { return news_.empty() && mourned_.empty() && ucp_worker_arm(worker_) == UCS_OK; }

// ---- leaving

/// Has UCX sent everything? Begins a flush where there is something new. Not asked of ways that are over: UCX complains of those loudly.
/// Nor while the greeting is under way: over several interfaces the flush would not wait for it, and the sockets of UCX 1.13 crash where a
/// flush arrives together with the request to connect.
bool Way::flushed() {
  if (!flush_) {
    if (!ep_ || over_ || !unflushed_) return true;
    if (greeting_) return false;
    unflushed_ = false;
    ucp_request_param_t param{};
    flush_ = ucp_ep_flush_nbx(ep_, &param);
    if (!flush_ || UCS_PTR_IS_ERR(flush_)) {
      flush_ = nullptr;
      return true;
    }
  }
  if (ucp_request_check_status(flush_) == UCS_INPROGRESS) return false;
  ucp_request_free(flush_);
  flush_ = nullptr;
  return !unflushed_;
}

/// Everything is sent, then each peer is told, then each has answered: who closes a connection sooner may destroy what is on it.
bool Worker::drain() {
  if (leaving_ == Leaving::done) return true;
  bool all = true;
  if (leaving_ == Leaving::no) {
    for (auto& [rank, way] : ways_) all &= way->flushed();
    if (!all || loans_ || inbound_) return false;
    leaving_ = Leaving::telling;
    for (auto& [rank, way] : ways_) {
      if (way->over_ || !way->ep_) continue;
      way->say(Say::farewell);
      way->told_ = true;
      way->flushed();  // at once: once it has heard us, the peer may close
    }
  }
  for (auto& [rank, way] : ways_) all &= (way->over_ || way->heard_ || !way->told_) && (!way->flush_ || way->flushed());
  if (all) leaving_ = Leaving::done;
  return all;
}

Worker::~Worker() {
  sink_ = nullptr;
  if (worker_) {
    std::vector<void*> closing;
    for (auto& [rank, way] : ways_) {
      if (!way->ep_ || !way->watched_) continue;  // the others go with the worker: UCX knows no forced close for them
      ucp_request_param_t param{};
      param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      param.flags = UCP_EP_CLOSE_FLAG_FORCE;  // all that matters has been flushed and answered
      void* request = ucp_ep_close_nbx(way->ep_, &param);
      if (request && !UCS_PTR_IS_ERR(request)) closing.push_back(request);
    }
    const uint64_t limit = now_ns() + kCloseLimit_ns;
    for (void* request : closing) {
      while (ucp_request_check_status(request) == UCS_INPROGRESS && now_ns() < limit) ucp_worker_progress(worker_);
      ucp_request_free(request);
    }
    for (auto& [rank, way] : ways_)
      if (way->flush_) ucp_request_free(way->flush_);
    ucp_worker_destroy(worker_);
  }
  if (context_) ucp_cleanup(context_);
  while (Parcel* parcel = parcels_) {
    parcels_ = parcel->next;
    delete parcel;
  }
}

}  // namespace weft::btl::ucx

extern "C" [[gnu::visibility("default")]] const weft::btl::Plugin weft_transport;
extern "C" const weft::btl::Plugin weft_transport{PACKAGE_VERSION, weft::btl::kPluginShape, weft::btl::ucx::Worker::open};
