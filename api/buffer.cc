// Bodies of buffer attachment: for the process, a communicator, a session.
#include <map>
#include <memory>
#include <mutex>

#include "api/buffers.h"
#include "api/generated/bodies.h"
#include "api/requests.h"
#include "pml/buffered.h"

namespace weft::api {
namespace {

/// Whose buffer it is: a communicator's, by its context; a session's, by its number; or the world model's, 0.
struct Key {
  enum class Of : uint8_t { session, communicator } of;
  uint64_t number;
  auto operator<=>(const Key&) const = default;
};

struct Buffers {
  std::mutex lock;
  std::map<Key, std::shared_ptr<pml::SendBuffer>> by_owner;
};
Buffers& buffers() {
  static auto* all = new Buffers;
  return *all;
}

constexpr Key process{Key::Of::session, 0};
Key key_of(const comm::Communicator& comm) { return {Key::Of::communicator, comm.team->context()}; }
Key key_of(const comm::Session& session) { return {Key::Of::session, session.number}; }

std::shared_ptr<pml::SendBuffer> find(Key key) {
  std::lock_guard hold(buffers().lock);
  const auto entry = buffers().by_owner.find(key);
  return entry == buffers().by_owner.end() ? nullptr : entry->second;
}

int none() {
  return fail(MPI_ERR_BUFFER,
              "no buffer is attached for this communicator or the session that it comes from; attach one, or MPI_BUFFER_AUTOMATIC");
}

int attach(Key key, void* memory, MPI_Count size) {
  const bool automatic = memory == MPI_BUFFER_AUTOMATIC;
  std::lock_guard hold(buffers().lock);
  auto& slot = buffers().by_owner[key];
  if (slot) return fail(MPI_ERR_BUFFER, "a buffer is attached already; detach it first");
  slot = std::make_shared<pml::SendBuffer>(lane(), automatic ? nullptr : memory, automatic ? 0 : static_cast<uint64_t>(size), automatic);
  return MPI_SUCCESS;
}

int flush(Key key) {
  auto buffer = find(key);
  if (!buffer) return none();
  const Status status = buffer->flush();
  return status == Status::ok ? MPI_SUCCESS : fail(status);
}

int iflush(Key key, MPI_Request* request) {
  auto buffer = find(key);
  if (!buffer) return none();
  pml::Request* done = make_plain_request();
  buffer->notify(*done);
  *request = encode(done);
  return MPI_SUCCESS;
}

/// Waits until all has left the buffer, if there is one, and forgets it.
void drop(Key key) {
  std::shared_ptr<pml::SendBuffer> last;
  std::lock_guard hold(buffers().lock);
  if (auto entry = buffers().by_owner.extract(key)) last = std::move(entry.mapped());
}

int detach(Key key, void* address, MPI_Count* size) {
  auto buffer = find(key);
  if (!buffer) return none();
  if (const int error = flush(key)) return error;
  drop(key);
  *static_cast<void**>(address) = buffer->automatic() ? MPI_BUFFER_AUTOMATIC : buffer->memory();
  *size = static_cast<MPI_Count>(buffer->size());
  return MPI_SUCCESS;
}

/// A persistent buffered send.
struct BufferedRequest final : pml::Request {
  comm::Communicator& comm;
  int dest, tag;
  pml::Buffer buffer;

  BufferedRequest(comm::Communicator& c, int d, int t, const pml::Buffer& b);
  static void start(pml::Request& request) {
    auto& r = static_cast<BufferedRequest&>(request);
    r.outcome = {};
    r.active = true;
    if (r.dest != MPI_PROC_NULL) r.outcome.error = send_buffered(r.comm, r.dest, r.tag, r.buffer);
    r.complete.store(true, std::memory_order_release);
  }
  static void destroy(pml::Request& request);
};
constexpr pml::Request::Ops buffered_ops{BufferedRequest::start, nullptr, nullptr, BufferedRequest::destroy};

Pool<BufferedRequest>& pool() {
  static auto* requests = new Pool<BufferedRequest>;
  return *requests;
}

BufferedRequest::BufferedRequest(comm::Communicator& c, int d, int t, const pml::Buffer& b)
    : Request(pml::RequestKind::generalized, &buffered_ops, &c.lane()), comm(c), dest(d), tag(t), buffer(b) {
  persistent = true;
  active = false;
  retain(const_cast<type::Datatype*>(b.type));
}
void BufferedRequest::destroy(pml::Request& request) {
  auto& r = static_cast<BufferedRequest&>(request);
  release(const_cast<type::Datatype*>(r.buffer.type));
  pool().destroy(&r);
}

}  // namespace

int send_buffered(comm::Communicator& comm, int dest, int tag, const pml::Buffer& buffer) {
  std::shared_ptr<pml::SendBuffer> through;
  {
    std::lock_guard hold(buffers().lock);
    auto& all = buffers().by_owner;
    auto entry = all.find(key_of(comm));
    if (entry == all.end()) entry = all.find({Key::Of::session, comm.session});
    if (entry != all.end()) through = entry->second;
  }
  return through ? through->send(*comm.team, dest, tag, buffer) : none();
}

pml::Request* make_buffered(comm::Communicator& comm, int dest, int tag, const pml::Buffer& buffer) {
  return pool().make(comm, dest, tag, buffer);
}

void drop_comm_buffer(pml::Context context) { drop({Key::Of::communicator, context}); }
void drop_session_buffer(uint64_t number) { drop({Key::Of::session, number}); }

void drop_buffers() {
  std::map<Key, std::shared_ptr<pml::SendBuffer>> all;
  {
    std::lock_guard hold(buffers().lock);
    all.swap(buffers().by_owner);
  }
}

}  // namespace weft::api

namespace weft::body {

using namespace api;

int Buffer_attach(void* buffer, MPI_Count size) { return attach(process, buffer, size); }
int Buffer_detach(void* buffer_addr, MPI_Count* size) { return detach(process, buffer_addr, size); }
int Buffer_flush() { return flush(process); }
int Buffer_iflush(MPI_Request* request) { return iflush(process, request); }

int Comm_attach_buffer(comm::Communicator& comm, void* buffer, MPI_Count size) { return attach(key_of(comm), buffer, size); }
int Comm_detach_buffer(comm::Communicator& comm, void* buffer_addr, MPI_Count* size) { return detach(key_of(comm), buffer_addr, size); }
int Comm_flush_buffer(comm::Communicator& comm) { return flush(key_of(comm)); }
int Comm_iflush_buffer(comm::Communicator& comm, MPI_Request* request) { return iflush(key_of(comm), request); }

int Session_attach_buffer(comm::Session& session, void* buffer, MPI_Count size) { return attach(key_of(session), buffer, size); }
int Session_detach_buffer(comm::Session& session, void* buffer_addr, MPI_Count* size) { return detach(key_of(session), buffer_addr, size); }
int Session_flush_buffer(comm::Session& session) { return flush(key_of(session)); }
int Session_iflush_buffer(comm::Session& session, MPI_Request* request) { return iflush(key_of(session), request); }

}  // namespace weft::body
