// Sending.
#include <algorithm>
#include <cstring>

#include "btl/ucx/worker.h"
#include "include/mpi.h"
#include "runtime/base/copy.h"
#include "runtime/net/link_state.h"

namespace weft::btl::ucx {
namespace {

constexpr uint32_t kMostParcels = 32;  // of one way in flight: more waits in the pml
constexpr size_t kMostLoans = 8;
constexpr uint32_t kShort = 64;                 // a payload of so much is better copied behind its note than given to UCX as a second piece
constexpr uint32_t kRendezvousFrom = 32 << 10;  // a loan of less goes at once, and is copied on arrival

constexpr ucp_request_param_t kNoRequest = [] {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
  return param;
}();

}  // namespace

inline Note Way::note_of(Header header) const {
  header.length = worker_.job_.rank ^ worker_.token_.whole;
  return {header};
}

/// Room for one more buffered message; null: none.
inline Parcel* Way::admit() {
  if (over_ || !ep_ || parcels_ >= kMostParcels) [[unlikely]]
    return nullptr;
  Parcel* parcel = worker_.take_parcel();
  parcel->way = this;
  return parcel;
}

/// Why there was no room. What is sent to a peer that has taken leave goes nowhere, as it would have a moment later.
Status Way::admit_failed() {
  if (left_) return Status::ok;
  if (!over_) return Status::again;
  worker_.core_.fail(MPI_ERR_OTHER, why_.c_str());
  return Status::peer_failed;
}

Status Way::try_inline(const Header& h, const void* payload) {
  const bool attempt = h.length < at_once_below_ && !parcels_ && ShortNote::fits(h, worker_.job_.rank);
  if (attempt) [[likely]]
    if (send_at_once(h, payload)) [[likely]]
      return Status::ok;
  Parcel* parcel = admit();
  if (!parcel) [[unlikely]]
    return admit_failed();
  if (h.length) memcpy(parcel->payload, payload, h.length);
  const Status status = dispatch(parcel, h);
  if (attempt && status == Status::ok && !parcels_) at_once_below_ = std::max(h.length, kShort + 1);  // UCX had room: it was the size
  return status;
}

/// Sends a message that UCX can take whole, without a buffer that it might have to look at later; false: it cannot just now.
bool Way::send_at_once(const Header& h, const void* payload) {
  if (!ep_ || over_) return false;
  struct {
    ShortNote note;
    std::byte payload[kShort];
  } message;
  message.note = ShortNote(h, worker_.job_.rank ^ worker_.token_.part());
  unflushed_ = true;
  if (h.length > kShort)
    return !ucp_am_send_nbx(ep_, unsigned(Say::short_message), &message.note, sizeof message.note, payload, h.length, &kNoRequest);
  copy_few(message.payload, payload, h.length);
  return !ucp_am_send_nbx(ep_, unsigned(Say::short_message), nullptr, 0, &message, sizeof message.note + h.length, &kNoRequest);
}

Status Way::send(const Header& h, type::Cursor& cursor) {
  Parcel* parcel = admit();
  if (!parcel) [[unlikely]]
    return admit_failed();
  const uint64_t start = cursor.position();
  if (cursor.contiguous()) {
    if (h.length) memcpy(parcel->payload, cursor.data(), h.length);
    cursor.seek(start + h.length);
  } else {
    worker_.core_.pack(cursor, parcel->payload, h.length);
  }
  const Status status = dispatch(parcel, h);
  if (status != Status::ok) cursor.seek(start);
  return status;
}

/// Hands a parcel to UCX. Short ones go as one piece of memory, which UCX's fastest path wants.
Status Way::dispatch(Parcel* parcel, const Header& h) {
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = parcel_sent;
  param.user_data = parcel;
  unflushed_ = true;
  ucs_status_ptr_t sent;
  if (h.length + sizeof(Note) > worker_.joined_limit_) {
    parcel->note = note_of(h);
    sent = ucp_am_send_nbx(ep_, unsigned(Say::message), &parcel->note, sizeof(Note), parcel->payload, h.length, &param);
  } else if (ShortNote::fits(h, worker_.job_.rank)) [[likely]] {
    const ShortNote note(h, worker_.job_.rank ^ worker_.token_.part());
    std::byte* begin = reinterpret_cast<std::byte*>(&parcel->note) + sizeof(Note) - sizeof note;
    memcpy(begin, &note, sizeof note);
    sent = ucp_am_send_nbx(ep_, unsigned(Say::short_message), begin, sizeof note + h.length, nullptr, 0, &param);
  } else {
    parcel->note = note_of(h);
    sent = ucp_am_send_nbx(ep_, unsigned(Say::message), &parcel->note, sizeof(Note) + h.length, nullptr, 0, &param);
  }
  if (!sent) [[likely]] {
    worker_.give_back(parcel);
    return Status::ok;
  }
  if (UCS_PTR_IS_ERR(sent)) {
    worker_.give_back(parcel);
    return refused(UCS_PTR_STATUS(sent));
  }
  ++parcels_;
  return Status::ok;
}

Status Way::refused(ucs_status_t status) {
  if (status == UCS_ERR_NO_RESOURCE || status == UCS_ERR_NO_MEMORY) return Status::again;
  if (!over_) failed(this, ep_, status);
  return admit_failed();
}

void Way::parcel_sent(void* request, ucs_status_t, void* at) {  // errors come through failed()
  auto* parcel = static_cast<Parcel*>(at);
  --parcel->way->parcels_;
  ++parcel->way->worker_.events_;
  parcel->way->worker_.give_back(parcel);
  ucp_request_free(request);
}

Status Way::send_zcopy(const Header& h, std::span<const iovec> runs, Operation& operation) {
  if (over_ || !ep_) {
    worker_.core_.fail(MPI_ERR_OTHER, why_.c_str());
    return Status::peer_failed;
  }
  if (loans_.size() >= kMostLoans) return Status::again;
  auto loan = std::make_unique<Loan>();
  loan->way = this;
  loan->operation = &operation;
  loan->note = note_of(h);
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
  param.flags = h.length >= kRendezvousFrom ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = loan_ended;
  param.user_data = loan.get();
  const void* data = runs.empty() ? nullptr : runs[0].iov_base;
  size_t count = h.length;
  param.datatype = ucp_dt_make_contig(1);
  if (runs.size() > 1) {
    for (const iovec& run : runs) loan->pieces.push_back({run.iov_base, run.iov_len});
    data = loan->pieces.data();
    count = loan->pieces.size();
    param.datatype = ucp_dt_make_iov();
  }
  unflushed_ = true;
  const ucs_status_ptr_t sent = ucp_am_send_nbx(ep_, unsigned(Say::message), &loan->note, sizeof(Note), data, count, &param);
  if (UCS_PTR_IS_ERR(sent)) return refused(UCS_PTR_STATUS(sent));
  if (!sent) {
    operation.done(operation, Status::ok);
    return Status::ok;
  }
  loans_.push_back(loan.release());
  ++worker_.loans_;
  return Status::ok;
}

void Way::loan_ended(void* request, ucs_status_t status, void* at) {
  std::unique_ptr<Loan> loan(static_cast<Loan*>(at));
  Way& way = *loan->way;
  std::erase(way.loans_, loan.get());
  --way.worker_.loans_;
  ++way.worker_.events_;
  ucp_request_free(request);
  if (loan->operation) loan->operation->done(*loan->operation, status == UCS_OK ? Status::ok : Status::peer_failed);
}

/// Ends the operations of a way that is lost. UCX may look at the notes for a while.
void Way::lend_back(Status status) {
  for (Loan* loan : loans_)
    if (Operation* operation = std::exchange(loan->operation, nullptr)) operation->done(*operation, status);
}

/// Sends a note of the transport's own.
void Way::say(Say what) {
  if (!ep_ || over_) return;
  auto word = std::make_unique<Word>(Word{this, what, note_of({})});
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = said;
  param.user_data = word.get();
  const boot::Blob& address = worker_.address_;
  const size_t length = what == Say::hello ? address.size() : 0;
  unflushed_ = true;
  const ucs_status_ptr_t sent = ucp_am_send_nbx(ep_, unsigned(what), &word->note, sizeof(Note), address.data(), length, &param);
  if (!sent && what == Say::hello) greeted();
  if (!sent || UCS_PTR_IS_ERR(sent)) return;
  if (what == Say::hello) greeting_ = true;
  word.release();
}

void Way::said(void* request, ucs_status_t status, void* at) {
  const std::unique_ptr<Word> word(static_cast<Word*>(at));
  if (word->what == Say::hello) {
    word->way->greeting_ = false;
    if (status == UCS_OK) word->way->greeted();
  }
  ucp_request_free(request);
}

/// Remembers what UCX has chosen: once the way is lost, it does not say any more.
void Way::greeted() {
  if (watched_) wires_ = wires_in(printed_by([&](FILE* file) { ucp_ep_print_info(ep_, file); }));
}

/// UCX has given an endpoint up.
void Way::failed(void* at, ucp_ep_h, ucs_status_t status) {
  Way& way = *static_cast<Way*>(at);
  if (way.over_ && !way.left_) return;
  const bool expected = way.left_ || (way.told_ && way.heard_);
  way.over_ = true;
  if (expected) return;
  way.why_ = way.worker_.name_of(way) + " is lost over " + way.wires_text() + ": " + ucs_status_string(status) +
             "; the process has ended, its host is gone, or the network between (UCX_LOG_LEVEL=info says more)";
  for (const Wire& wire : way.wires_) way.why_ += net::advice_on_link(wire.device, net::link_state(wire.device));
  way.worker_.mourned_.push_back(&way);
}

/// "ucx (tcp/eth0, link up)": UCX numbers no rails.
std::string Way::wires_text() const {
  std::string text;
  for (const Wire& wire : wires_) text += (text.empty() ? " (" : "; ") + wire.text() + ", link " + net::link_state(wire.device);
  return "ucx" + text + (text.empty() ? "" : ")");
}

std::string Way::describe() const { return "ucx to " + worker_.name_of(*this); }

}  // namespace weft::btl::ucx
