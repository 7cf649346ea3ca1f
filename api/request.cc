// Bodies of completion: wait and test in all forms, start, cancel, free; generalized requests.
#include <utility>

#include "api/generated/bodies.h"
#include "api/requests.h"
#include "api/status.h"

namespace weft::api {
namespace {

using pml::Outcome;
using pml::Request;
using pml::RequestKind;

thread_local int free_error;  // what the last free function of a generalized request returned

// Requests that are no single message

/// MPI_Grequest_start. Who comes last frees it: whoever waits for it, or MPI_Grequest_complete if the user has freed it before.
struct GeneralRequest final : Request {
  MPI_Grequest_query_function* query_function;
  MPI_Grequest_free_function* free_function;
  MPI_Grequest_cancel_function* cancel_function;
  void* extra;
  bool abandoned = false;  ///< freed before it was complete; guarded by the lane's lock

  GeneralRequest(MPI_Grequest_query_function* q, MPI_Grequest_free_function* f, MPI_Grequest_cancel_function* c, void* e);
  static int query(Request& request, Outcome& outcome) {
    auto& r = static_cast<GeneralRequest&>(request);
    MPI_Status status;
    set_empty(&status);
    const int error = r.query_function ? r.query_function(r.extra, &status) : MPI_SUCCESS;
    outcome.source = status.MPI_SOURCE;
    outcome.tag = status.MPI_TAG;
    outcome.bytes = status_bytes(status);
    outcome.cancelled = status_cancelled(status);
    outcome.error = error;
    return error;
  }
  void end();
  static void destroy(Request& request);
};
constexpr Request::Ops general_ops{nullptr, nullptr, GeneralRequest::query, GeneralRequest::destroy};

Pool<GeneralRequest>& general_pool() {
  static auto* pool = new Pool<GeneralRequest>;
  return *pool;
}
GeneralRequest::GeneralRequest(MPI_Grequest_query_function* q, MPI_Grequest_free_function* f, MPI_Grequest_cancel_function* c, void* e)
    : Request(RequestKind::generalized, &general_ops, &api::lane()), query_function(q), free_function(f), cancel_function(c), extra(e) {}
void GeneralRequest::end() {
  free_error = free_function ? free_function(extra) : MPI_SUCCESS;
  general_pool().destroy(this);
}
void GeneralRequest::destroy(Request& request) {
  auto& r = static_cast<GeneralRequest&>(request);
  bool done = false;
  r.lane->locked([&] {
    done = r.complete.load(std::memory_order_relaxed);
    r.abandoned = !done;
  });
  if (done) r.end();
}

/// MPI_Isendrecv. Its parts end under the lane's lock; the last one completes it.
struct PairRequest final : Request {
  std::unique_ptr<std::byte[]> copy;
  int left = 2;
  void (*check)(Request&) = nullptr;  ///< what the receive's own end has to look at
  PairRequest(pml::Lane& where, std::unique_ptr<std::byte[]> c);

  void part_done(const Request& part, bool receive) {
    if (receive) {
      const int error = outcome.error;
      outcome = part.outcome;
      if (!outcome.error) outcome.error = error;
    } else if (part.outcome.error) {
      outcome.error = part.outcome.error;
    }
    if (--left > 0) return;
    lane->complete(*this);
    release<Request>(this);
  }
  static void receive_done(Request& part) {
    auto& pair = *static_cast<PairRequest*>(part.context);
    if (pair.check) pair.check(part);
    pair.part_done(part, true);
  }
  static void send_done(Request& part) { static_cast<PairRequest*>(part.context)->part_done(part, false); }
  void follow(Request* part, bool receive) {
    if (part->complete.load(std::memory_order_relaxed)) {
      part_done(*part, receive);
    } else {
      part->context = this;
      if (receive) check = part->on_done;
      part->on_done = receive ? receive_done : send_done;
    }
    release(part);
  }
  static void destroy(Request& request);
};
constexpr Request::Ops pair_ops{nullptr, nullptr, nullptr, PairRequest::destroy};

Pool<PairRequest>& pair_pool() {
  static auto* pool = new Pool<PairRequest>;
  return *pool;
}
PairRequest::PairRequest(pml::Lane& where, std::unique_ptr<std::byte[]> c)
    : Request(RequestKind::generalized, &pair_ops, &where), copy(std::move(c)) {}
void PairRequest::destroy(Request& request) { pair_pool().destroy(static_cast<PairRequest*>(&request)); }

struct PlainRequest final : Request {
  PlainRequest();
  static void destroy(Request& request);
};
constexpr Request::Ops plain_ops{nullptr, nullptr, nullptr, PlainRequest::destroy};
Pool<PlainRequest>& plain_pool() {
  static auto* pool = new Pool<PlainRequest>;
  return *pool;
}
PlainRequest::PlainRequest() : Request(RequestKind::generalized, &plain_ops, &api::lane()) {}
void PlainRequest::destroy(Request& request) { plain_pool().destroy(static_cast<PlainRequest*>(&request)); }

// Completion

bool is_complete(const Request& r) { return r.complete.load(std::memory_order_acquire); }
/// The request of a handle, null of MPI_REQUEST_NULL. The entry has found the handle to be good.
Request* request_of(MPI_Request handle) {
  return handle == MPI_REQUEST_NULL ? nullptr : &static_cast<Request&>(*reinterpret_cast<Object*>(handle));
}
/// Null handles and inactive requests count as complete, with an empty status.
bool counts(const Request* r) { return r && (r->active || !r->persistent); }
bool counts(MPI_Request handle) { return counts(request_of(handle)); }

/// Drops the user's reference. The only holder needs no atomic operation to know that it is the last.
void drop(Request* r) {
  if (r->predefined) return;
  if (r->references.load(std::memory_order_acquire) == 1)
    Request::destroy(r);
  else
    release(r);
}

/// Drops the user's reference; returns what the free function says, if this calls one. Only generalized requests have one.
int drop_user(Request& r) {
  if (r.request_kind != RequestKind::generalized) [[likely]] {
    drop(&r);
    return MPI_SUCCESS;
  }
  free_error = MPI_SUCCESS;
  drop(&r);
  return std::exchange(free_error, MPI_SUCCESS);
}

/// conclude() where there is more to it.
[[gnu::noinline]] int conclude_at_length(MPI_Request* handle, MPI_Status* status, bool consume) {
  Request& r = *request_of(*handle);
  int error;
  if (r.ops->query) {
    Outcome outcome = r.outcome;
    error = r.ops->query(r, outcome);
    set_status(status, outcome);
  } else {
    set_status(status, r.outcome);
    error = r.outcome.error;
  }
  if (error) [[unlikely]] {
    pml::Lane::explain(r);
    blame(static_cast<comm::Communicator*>(r.team_owner));
  }
  if (!consume) return error;
  if (r.persistent) {
    r.active = false;
    return error;
  }
  *handle = MPI_REQUEST_NULL;
  const int end = drop_user(r);
  return error ? error : end;
}

/// Reports a completed request and ends it, if there is nothing more to it, as to most; false: nothing has happened.
[[gnu::always_inline]] inline bool conclude_quickly(Request& r, MPI_Request* handle, MPI_Status* status) {
  if (r.kind != Kind::request || r.request_kind > RequestKind::collective || r.outcome.error) [[unlikely]]
    return false;
  set_status(status, r.outcome);
  *handle = MPI_REQUEST_NULL;
  if (r.predefined) return true;
  if (pml::Lane::disposable(r)) [[likely]]
    pml::Lane::dispose(r);
  else
    drop(&r);
  return true;
}

/// Reports a completed request; `consume` ends it as wait and test do. Returns its error.
int conclude(MPI_Request* handle, MPI_Status* status, bool consume) {
  if (consume && conclude_quickly(*request_of(*handle), handle, status)) [[likely]]
    return MPI_SUCCESS;
  if (request_of(*handle)->kind == Kind::freed) [[unlikely]]
    return fail(MPI_ERR_REQUEST, "a request stands twice among those to be completed");
  return conclude_at_length(handle, status, consume);
}

int failed_wait(Status status) {
  fail(MPI_ERR_OTHER, "the job is being torn down: %s", to_string(status));
  return MPI_ERR_OTHER;
}

/// Several requests and where their statuses go.
struct Set {
  int count;
  MPI_Request* requests;
  MPI_Status* statuses;

  MPI_Status* status(int i) const { return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + i; }
  bool done(int i) const {
    const Request* r = request_of(requests[i]);
    return !r || is_complete(*r) || !counts(r);
  }
  /// The first request that counts and is complete, -1 if there is none; `any` tells whether any counts.
  int first_complete(bool& any) const {
    any = false;
    for (int i = 0; i < count; ++i) {
      const Request* r = request_of(requests[i]);
      if (!counts(r)) continue;
      any = true;
      if (is_complete(*r)) return i;
    }
    return -1;
  }
};

/// For waiting until all of a set are complete: remembers how far it has come.
struct AllDone {
  const Set& set;
  int at = 0;
  static bool test(void* argument) {
    auto& self = *static_cast<AllDone*>(argument);
    const Set set = self.set;
    int at = self.at;
    while (at < set.count && set.done(at)) ++at;
    self.at = at;
    return at == set.count;
  }
};

/// For waiting until all of a set are complete, too. Concludes them meanwhile, one after the other, up to the first one that there is more
/// to than a message's end: most come to be complete in the order in which they stand.
struct AllConcluded {
  const Set& set;
  int concluded = 0;
  AllDone rest{set};
  static bool test(void* argument) {
    auto& self = *static_cast<AllConcluded*>(argument);
    const Set set = self.set;
    int at = self.concluded;
    if (self.rest.at > at) return AllDone::test(&self.rest);
    at = set.statuses == MPI_STATUSES_IGNORE ? conclude_from<false>(set, at) : conclude_from<true>(set, at);
    self.concluded = self.rest.at = at;
    return at == set.count || AllDone::test(&self.rest);
  }
  template <bool kStatuses>
  static int conclude_from(const Set set, int at) {
    for (; at < set.count; ++at) {
      MPI_Request* const handle = &set.requests[at];
      if (*handle == MPI_REQUEST_NULL) return at;
      Request& r = *request_of(*handle);
      if (!is_complete(r) || r.request_kind > RequestKind::receive) return at;
      if (!conclude_quickly(r, handle, kStatuses ? set.statuses + at : MPI_STATUS_IGNORE)) return at;
    }
    return at;
  }
};

/// Reports all requests of a set, which are complete, from one on. Errors stand in the statuses.
int conclude_all(const Set& set, bool consume, int from = 0) {
  bool failed = false;
  for (int i = from; i < set.count; ++i) {
    MPI_Status* status = set.status(i);
    int error = MPI_SUCCESS;
    if (!counts(set.requests[i]))
      set_empty(status);
    else
      error = conclude(&set.requests[i], status, consume);
    if (error == MPI_SUCCESS && !failed) continue;
    if (status != MPI_STATUS_IGNORE) {
      if (!failed)  // the fields of those before this one count now as well
        for (int j = 0; j < i; ++j) set.statuses[j].MPI_ERROR = MPI_SUCCESS;
      status->MPI_ERROR = error;
    }
    failed = true;
  }
  return failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

/// Reports those of a set that are complete.
int conclude_some(const Set& set, int* outcount, int* indices, bool consume) {
  int found = 0;
  bool failed = false;
  for (int i = 0; i < set.count; ++i) {
    const Request* r = request_of(set.requests[i]);
    if (!counts(r) || !is_complete(*r)) continue;
    MPI_Status* status = set.status(found);
    const int error = conclude(&set.requests[i], status, consume);
    if (error && !failed && set.statuses != MPI_STATUSES_IGNORE)
      for (int j = 0; j < found; ++j) set.statuses[j].MPI_ERROR = MPI_SUCCESS;
    failed |= error != MPI_SUCCESS;
    if (failed && status != MPI_STATUS_IGNORE) status->MPI_ERROR = error;
    indices[found++] = i;
  }
  *outcount = found;
  return failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

bool any_counts(const Set& set) {
  for (int i = 0; i < set.count; ++i)
    if (counts(set.requests[i])) return true;
  return false;
}

bool one_done(void* argument) {
  bool any;
  return static_cast<const Set*>(argument)->first_complete(any) >= 0 || !any;
}

/// Progresses once if the answer would be no.
template <class Ready>
bool try_once(pml::Lane& where, Ready ready) {
  if (ready()) return true;
  where.progress();
  return ready();
}

/// Where a set's first request that is not complete waits.
pml::Lane& lane_of(const Set& set) {
  for (int i = 0; i < set.count; ++i)
    if (!set.done(i))
      if (pml::Lane* of = request_of(set.requests[i])->lane) return *of;
  return lane();
}

}  // namespace

int start_pair(comm::Communicator& comm, const pml::Buffer& out, int dest, int sendtag, const pml::Buffer& in, int source, int recvtag,
               std::unique_ptr<std::byte[]> copy, MPI_Request* request) {
  PairRequest* pair = pair_pool().make(comm.lane(), std::move(copy));
  retain(pair);  // the parts'
  pml::Lane& lane = comm.lane();
  lane.locked([&] {
    Request* receive = lane.ireceive(*comm.team, source, recvtag, pml::Traffic::user, in);
    Request* send = lane.isend(*comm.team, dest, sendtag, pml::Traffic::user, out);
    pair->follow(receive, true);
    pair->follow(send, false);
  });
  return hand_out(comm, pair, request);
}

pml::Request* make_plain_request() { return plain_pool().make(); }

}  // namespace weft::api

namespace weft::body {

using namespace api;

int Wait(MPI_Request* request, MPI_Status* status) {
  if (!counts(*request)) {
    set_empty(status);
    return MPI_SUCCESS;
  }
  Request& r = *request_of(*request);
  if (const Status ended = r.lane->wait(r); ended != Status::ok) [[unlikely]]
    return failed_wait(ended);
  return conclude(request, status, true);
}

int Test(MPI_Request* request, int* flag, MPI_Status* status) {
  if (!counts(*request)) {
    *flag = 1;
    set_empty(status);
    return MPI_SUCCESS;
  }
  Request& r = *request_of(*request);
  *flag = try_once(*r.lane, [&] { return is_complete(r); });
  return *flag ? conclude(request, status, true) : MPI_SUCCESS;
}

int Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  const Set set{count, requests, statuses};
  AllConcluded all{set};
  if (!AllConcluded::test(&all)) {
    if (const Status ended = lane_of(set).wait_until(AllConcluded::test, &all); ended != Status::ok) [[unlikely]] {
      if (statuses != MPI_STATUSES_IGNORE)
        for (int i = 0; i < count; ++i) statuses[i].MPI_ERROR = set.done(i) ? MPI_SUCCESS : MPI_ERR_PENDING;
      return failed_wait(ended);
    }
  }
  return conclude_all(set, true, all.concluded);
}

int Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  const Set set{count, requests, statuses};
  AllDone all{set};
  *flag = try_once(lane_of(set), [&] { return AllDone::test(&all); });
  return *flag ? conclude_all(set, true) : MPI_SUCCESS;
}

int Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  Set set{count, requests, MPI_STATUSES_IGNORE};
  bool any;
  int found = set.first_complete(any);
  if (found < 0 && any) {
    if (const Status ended = lane_of(set).wait_until(one_done, &set); ended != Status::ok) [[unlikely]]
      return failed_wait(ended);
    found = set.first_complete(any);
  }
  *index = found < 0 ? MPI_UNDEFINED : found;
  if (found >= 0) return conclude(&requests[found], status, true);
  set_empty(status);
  return MPI_SUCCESS;
}

int Testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  const Set set{count, requests, MPI_STATUSES_IGNORE};
  bool any;
  int found = -1;
  *flag = try_once(lane_of(set), [&] { return (found = set.first_complete(any)) >= 0 || !any; });
  *index = found < 0 ? MPI_UNDEFINED : found;
  if (found >= 0) return conclude(&requests[found], status, true);
  if (*flag) set_empty(status);
  return MPI_SUCCESS;
}

int Waitsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
  Set set{incount, requests, statuses};
  *outcount = MPI_UNDEFINED;
  if (!any_counts(set)) return MPI_SUCCESS;
  if (const Status ended = lane_of(set).wait_until(one_done, &set); ended != Status::ok) [[unlikely]]
    return failed_wait(ended);
  return conclude_some(set, outcount, indices, true);
}

int Testsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
  Set set{incount, requests, statuses};
  *outcount = MPI_UNDEFINED;
  if (!any_counts(set)) return MPI_SUCCESS;
  try_once(lane_of(set), [&] { return one_done(&set); });
  return conclude_some(set, outcount, indices, true);
}

int Request_get_status(pml::Request* request, int* flag, MPI_Status* status) {
  MPI_Request handle = encode(request);
  if (!counts(handle)) {
    *flag = 1;
    set_empty(status);
    return MPI_SUCCESS;
  }
  *flag = try_once(*request->lane, [&] { return is_complete(*request); });
  return *flag ? conclude(&handle, status, false) : MPI_SUCCESS;
}

int Request_get_status_all(int count, const MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  const Set set{count, const_cast<MPI_Request*>(requests), statuses};
  AllDone all{set};
  *flag = try_once(lane_of(set), [&] { return AllDone::test(&all); });
  return *flag ? conclude_all(set, false) : MPI_SUCCESS;
}

int Request_get_status_any(int count, const MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  const Set set{count, const_cast<MPI_Request*>(requests), MPI_STATUSES_IGNORE};
  bool any;
  int found = -1;
  *flag = try_once(lane_of(set), [&] { return (found = set.first_complete(any)) >= 0 || !any; });
  *index = found < 0 ? MPI_UNDEFINED : found;
  if (found >= 0) return conclude(&set.requests[found], status, false);
  if (*flag) set_empty(status);
  return MPI_SUCCESS;
}

int Request_get_status_some(int incount, const MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
  Set set{incount, const_cast<MPI_Request*>(requests), statuses};
  *outcount = MPI_UNDEFINED;
  if (!any_counts(set)) return MPI_SUCCESS;
  try_once(lane_of(set), [&] { return one_done(&set); });
  return conclude_some(set, outcount, indices, false);
}

int Request_free(MPI_Request* request) {
  Request* r = decode(*request);
  *request = MPI_REQUEST_NULL;
  return drop_user(*r);
}

int Cancel(MPI_Request* request) {
  Request& r = *decode(*request);
  if (r.ops == &general_ops) {
    auto& general = static_cast<GeneralRequest&>(r);
    return general.cancel_function ? general.cancel_function(general.extra, is_complete(r)) : MPI_SUCCESS;
  }
  switch (r.request_kind) {
    case RequestKind::send:
    case RequestKind::receive:
    case RequestKind::persistent_send:
    case RequestKind::persistent_receive:
      if (r.persistent && !r.active) return fail(MPI_ERR_REQUEST, "the persistent request is not active; start it before cancelling it");
      r.lane->cancel(r);
      return MPI_SUCCESS;
    case RequestKind::collective:
    case RequestKind::persistent_collective: return fail(MPI_ERR_REQUEST, "a collective operation cannot be cancelled");
    default: return MPI_SUCCESS;  // it completes as if nothing had been asked
  }
}

namespace {
int start(Request& r, const char* name) {
  if (!r.persistent || !r.ops->start) return fail(MPI_ERR_REQUEST, "%s: the request is not persistent", name);
  if (r.active) return fail(MPI_ERR_REQUEST, "%s: the persistent request is active already; wait for it before starting it again", name);
  r.ops->start(r);
  r.lane->look_after(r);
  return MPI_SUCCESS;
}
}  // namespace

int Start(MPI_Request* request) { return start(*decode(*request), "request"); }

int Startall(int count, MPI_Request requests[]) {
  for (int i = 0; i < count; ++i)
    if (const int error = start(*decode(requests[i]), "array_of_requests")) return error;
  return MPI_SUCCESS;
}

int Grequest_start(MPI_Grequest_query_function* query, MPI_Grequest_free_function* free, MPI_Grequest_cancel_function* cancel, void* extra,
                   MPI_Request* request) {
  *request = encode(general_pool().make(query, free, cancel, extra));
  return MPI_SUCCESS;
}

int Grequest_complete(pml::Request& request) {
  if (request.ops != &general_ops) return fail(MPI_ERR_REQUEST, "the request was not made by MPI_Grequest_start");
  if (is_complete(request)) return fail(MPI_ERR_REQUEST, "the generalized request is complete already");
  auto& r = static_cast<GeneralRequest&>(request);
  bool abandoned = false;
  r.lane->locked([&] {
    abandoned = r.abandoned;
    if (!abandoned) r.lane->complete(r);
  });
  if (abandoned) r.end();
  return MPI_SUCCESS;
}

}  // namespace weft::body
