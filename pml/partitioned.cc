#include "pml/partitioned.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "include/mpi.h"
#include "pml/lane.h"
#include "runtime/base/error.h"
#include "runtime/config/config.h"
#include "runtime/type/predefined.h"

namespace weft::pml {
namespace {

config::Bytes partition_variable("pml", "partition", "0",
                                 "Partitions below this size are sent several at a time, once all of them are ready; 0: each on its own.");

/// What the sender tells when it is made.
struct Offer {
  uint64_t bytes = 0;      ///< of all partitions
  int32_t partitions = 0;  ///< the sender's
  int32_t group = 1;       ///< how many of them go into one message
  int32_t answer_tag = 0;
};
/// What the receiver answers.
struct Answer {
  int32_t first_tag = 0;  ///< of as many as there are messages
  int32_t error = 0;
};

template <class T>
Buffer bytes_of(T& value) {
  return {&value, sizeof value, &type::of(type::Basic::byte)};
}

/// What both sides have: the meeting, and messages under way. All is guarded by the lane's lock but for what is said to be otherwise.
class Partitioned : public Request {
 public:
  Partitioned(RequestKind which, const Ops* how, Team& team, int peer, int tag, int32_t partitions, const Buffer& partition)
      : Request(which, how, &team.lane()), team_(team), peer_(peer), tag_(tag), partitions_(partitions), part_(partition) {
    persistent = true;
    active = false;
    complete.store(true, std::memory_order_relaxed);
    retain(const_cast<type::Datatype*>(part_.type));
    work_.owner = this;
  }
  ~Partitioned() { release(const_cast<type::Datatype*>(part_.type)); }

  bool nowhere() const { return peer_ == proc_null; }
  int32_t partitions() const { return partitions_; }

 protected:
  struct Work : Deferred {
    Partitioned* owner = nullptr;
  };

  int32_t messages() const { return offer_.partitions == 0 ? 0 : (offer_.partitions - 1) / offer_.group + 1; }
  uint64_t partition_bytes() const { return part_.count * part_.type->size; }

  /// Has the side's work() done once callbacks have returned. Deferred once at a time, and holds a reference until it has run.
  void soon() {
    if (std::exchange(deferred_, true)) return;
    retain<Request>(this);
    lane->defer(work_);
  }

  /// Has `then` called when the message is complete; false if it is already. Completed messages may be shared: they are left alone.
  static bool follow(Request& message, void (*then)(Request&), void* context) {
    if (message.complete.load(std::memory_order_acquire)) return false;
    message.context = context;
    message.on_done = then;
    return true;
  }
  static bool is_complete(const Request* message) { return message && message->complete.load(std::memory_order_acquire); }
  void note_error(const Request& message) {
    if (message.outcome.error && !outcome.error) outcome.error = message.outcome.error;
  }

  /// Ends a round.
  void finish() {
    for (Request* message : std::exchange(under_way_, {})) release(message);
    lane->complete(*this);
    release<Request>(this);
  }
  /// Begins one: the request keeps itself until it ends.
  void begin() {
    retain<Request>(this);
    active = true;
    complete.store(false, std::memory_order_relaxed);
    outcome = {};
    outcome.error = refused_;
  }

  Team& team_;
  const int peer_, tag_;
  const int32_t partitions_;
  const Buffer part_;
  Offer offer_;
  Answer answer_;
  Request *offer_message_ = nullptr, *answer_message_ = nullptr;
  bool met_ = false;     ///< both sides know of each other
  int32_t refused_ = 0;  ///< the error class of a meeting that failed
  int32_t pending_ = 0;  ///< messages of this round that have not been sent or received
  bool deferred_ = false;
  std::vector<Request*> under_way_;
  Work work_;
};

// --- the sender ---

class Sender final : public Partitioned {
 public:
  Sender(Team& team, int dest, int tag, int32_t partitions, const Buffer& partition);
  void meet();
  void start();
  int ready(int32_t first, int32_t last);

 private:
  void work();
  void send(int32_t message);
  void left(const Request& message);
  int32_t first_of(int32_t message) const { return message * offer_.group; }
  int32_t size_of(int32_t message) const { return std::min(offer_.group, partitions_ - first_of(message)); }

  std::vector<bool> ready_;
  std::vector<int32_t> missing_;     ///< by message: partitions that are not ready
  std::vector<int32_t> to_be_sent_;  ///< until both sides have met
};

Pool<Sender>& senders() {
  static auto* const pool = new Pool<Sender>;  // never destroyed: handles may outlive main()
  return *pool;
}

constexpr Request::Ops kSender{[](Request& r) { static_cast<Sender&>(r).start(); }, nullptr, nullptr,
                               [](Request& r) { senders().destroy(static_cast<Sender*>(&r)); }};

Sender::Sender(Team& team, int dest, int tag, int32_t partitions, const Buffer& partition)
    : Partitioned(RequestKind::partitioned_send, &kSender, team, dest, tag, partitions, partition) {
  work_.run = [](Deferred& work) { static_cast<Sender*>(static_cast<Work&>(work).owner)->work(); };
  const uint64_t each = partition_bytes(), wanted = partition_variable.get();
  offer_.partitions = partitions;
  offer_.bytes = each * static_cast<uint64_t>(partitions);
  if (each > 0 && each < wanted)
    offer_.group =
        static_cast<int32_t>(std::min<uint64_t>((wanted - 1) / each + 1, std::max<uint64_t>(1, static_cast<uint64_t>(partitions))));
}

/// Offers; the answer is waited for by the side.
void Sender::meet() {
  lane->locked([this] {
    offer_.answer_tag = team_.take_tags(1);
    if (offer_.answer_tag == any_tag) {
      refused_ = MPI_ERR_OTHER;
      met_ = true;
      return;
    }
    retain<Request>(this);  // until the answer has come
    answer_message_ = lane->ireceive(team_, peer_, offer_.answer_tag, Traffic::partitioned, bytes_of(answer_));
    if (!follow(
            *answer_message_, [](Request& r) { static_cast<Sender*>(r.context)->soon(); }, this))
      soon();
    offer_message_ = lane->isend(team_, peer_, tag_, Traffic::partitioned, bytes_of(offer_));
  });
}

void Sender::start() {
  lane->locked([this] {
    begin();
    ready_.assign(static_cast<size_t>(partitions_), false);
    missing_.resize(static_cast<size_t>(messages()));
    for (int32_t m = 0; m < messages(); ++m) missing_[static_cast<size_t>(m)] = size_of(m);
    to_be_sent_.clear();
    pending_ = nowhere() || refused_ ? 0 : messages();
    if (pending_ == 0) finish();
  });
}

int Sender::ready(int32_t first, int32_t last) {
  int error = MPI_SUCCESS;
  lane->locked([&] {
    if (!active) {
      error = fail(MPI_ERR_REQUEST, "the partitioned send has not been started");
      return;
    }
    for (int32_t p = first; p <= last && !error; ++p) {
      if (ready_[static_cast<size_t>(p)]) {
        error = fail(MPI_ERR_ARG, "partition %d has been marked as ready before since the request was started", p);
      } else {
        ready_[static_cast<size_t>(p)] = true;
        if (const int32_t m = p / offer_.group; --missing_[static_cast<size_t>(m)] == 0 && pending_ > 0) send(m);
      }
    }
  });
  return error;
}

void Sender::send(int32_t message) {
  if (!met_) {
    to_be_sent_.push_back(message);
    return;
  }
  const uint64_t first = static_cast<uint64_t>(first_of(message)) * part_.count;
  const Buffer data{static_cast<std::byte*>(part_.address) + static_cast<int64_t>(first) * part_.type->extent,
                    static_cast<uint64_t>(size_of(message)) * part_.count, part_.type, part_.memory};
  Request* const sent = lane->isend(team_, peer_, answer_.first_tag + message, Traffic::partitioned, data);
  under_way_.push_back(sent);
  const auto left = [](Request& r) { static_cast<Sender*>(r.context)->left(r); };
  if (!follow(*sent, left, this)) this->left(*sent);
}

void Sender::left(const Request& message) {
  note_error(message);
  if (--pending_ == 0) soon();
}

void Sender::work() {
  deferred_ = false;
  if (!met_ && is_complete(answer_message_)) {
    met_ = true;
    refused_ = answer_message_->outcome.error ? answer_message_->outcome.error : answer_.error;
    // The other side has it, or will never: nothing is left to wait for.
    release(std::exchange(answer_message_, nullptr));
    release(std::exchange(offer_message_, nullptr));
    if (refused_ && pending_ > 0) {
      outcome.error = refused_;
      pending_ = 0;
    }
    if (!refused_)
      for (const int32_t m : std::exchange(to_be_sent_, {})) send(m);
    release<Request>(this);
  }
  if (pending_ == 0 && !complete.load(std::memory_order_relaxed)) finish();
  release<Request>(this);
}

// --- the receiver ---

class Receiver final : public Partitioned {
 public:
  Receiver(Team& team, int source, int tag, int32_t partitions, const Buffer& partition);
  void meet();
  void start();
  /// Any thread, without the lock.
  bool arrived(int32_t partition) const { return arrived_[static_cast<size_t>(partition)].load(std::memory_order_acquire); }

 private:
  struct Slot {
    Receiver* receiver;
    int32_t message;
  };

  void work();
  void answer();
  void prepare();
  void post();
  Buffer place_of(int32_t message);
  void came(const Request&, int32_t message);
  void unpack(int32_t partition);
  template <class Visit>
  void each_partition_of(int32_t message, Visit visit) const;

  std::unique_ptr<std::atomic<bool>[]> arrived_;  ///< by partition
  std::vector<int32_t> needed_, missing_;         ///< by partition: messages that bring a part of it, and those that have not come
  std::vector<Slot> slots_;                       ///< by message
  std::vector<std::byte> staging_;                ///< where messages end within elements of a type with gaps
  bool waiting_ = false;                          ///< started before both sides have met
};

Pool<Receiver>& receivers() {
  static auto* const pool = new Pool<Receiver>;
  return *pool;
}

constexpr Request::Ops kReceiver{[](Request& r) { static_cast<Receiver&>(r).start(); }, nullptr, nullptr,
                                 [](Request& r) { receivers().destroy(static_cast<Receiver*>(&r)); }};

Receiver::Receiver(Team& team, int source, int tag, int32_t partitions, const Buffer& partition)
    : Partitioned(RequestKind::partitioned_receive, &kReceiver, team, source, tag, partitions, partition),
      arrived_(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(partitions))) {
  work_.run = [](Deferred& work) { static_cast<Receiver*>(static_cast<Work&>(work).owner)->work(); };
  // An inactive request counts as having all, as for MPI_Test.
  for (int32_t p = 0; p < partitions; ++p) arrived_[static_cast<size_t>(p)].store(true, std::memory_order_relaxed);
}

void Receiver::meet() {
  lane->locked([this] {
    retain<Request>(this);  // until the offer has come and the answer has gone
    offer_message_ = lane->ireceive(team_, peer_, tag_, Traffic::partitioned, bytes_of(offer_));
    if (!follow(
            *offer_message_, [](Request& r) { static_cast<Receiver*>(r.context)->soon(); }, this))
      soon();
  });
}

void Receiver::start() {
  lane->locked([this] {
    begin();
    for (int32_t p = 0; p < partitions_; ++p) arrived_[static_cast<size_t>(p)].store(nowhere(), std::memory_order_relaxed);
    waiting_ = !nowhere() && !met_;
    pending_ = 0;
    outcome.source = peer_;
    outcome.tag = nowhere() ? any_tag : tag_;
    if (waiting_) return;
    if (nowhere() || refused_) return finish();
    post();
  });
}

/// Which of the own partitions a message brings something of, by position in the whole: sizes play no part, so that partitions without
/// data arrive as others do.
template <class Visit>
void Receiver::each_partition_of(int32_t message, Visit visit) const {
  const int64_t theirs = offer_.partitions, begin = int64_t{message} * offer_.group, end = std::min(begin + offer_.group, theirs);
  const int64_t last = (end * partitions_ + theirs - 1) / theirs;
  for (int64_t p = begin * partitions_ / theirs; p < last; ++p) visit(static_cast<size_t>(p));
}

/// The offer has come.
void Receiver::answer() {
  met_ = true;
  refused_ = offer_message_->outcome.error;
  const bool failed = refused_ != 0;
  if (!failed && offer_.bytes != partition_bytes() * static_cast<uint64_t>(partitions_)) refused_ = MPI_ERR_TRUNCATE;
  if (!refused_) {
    answer_.first_tag = team_.take_tags(messages());
    if (answer_.first_tag == any_tag) refused_ = MPI_ERR_OTHER;
  }
  answer_.error = refused_;
  release(std::exchange(offer_message_, nullptr));
  if (!refused_) prepare();
  if (failed) return;
  answer_message_ = lane->isend(team_, peer_, offer_.answer_tag, Traffic::partitioned, bytes_of(answer_));
  retain<Request>(this);  // until the answer has gone
  if (!follow(
          *answer_message_, [](Request& r) { static_cast<Receiver*>(r.context)->soon(); }, this))
    soon();
}

void Receiver::prepare() {
  needed_.assign(static_cast<size_t>(partitions_), 0);
  for (int32_t m = 0; m < messages(); ++m) {
    slots_.push_back({this, m});
    each_partition_of(m, [this](size_t p) { ++needed_[p]; });
  }
  const uint64_t message_bytes =
      messages() ? offer_.bytes / static_cast<uint64_t>(offer_.partitions) * static_cast<uint64_t>(offer_.group) : 0;
  const type::Datatype& type = *part_.type;
  if (!type.contiguous && type.size > 0 && message_bytes % type.size) staging_.resize(offer_.bytes);
}

Buffer Receiver::place_of(int32_t message) {
  const uint64_t each = offer_.bytes / static_cast<uint64_t>(offer_.partitions), group = static_cast<uint64_t>(offer_.group);
  const uint64_t begin = static_cast<uint64_t>(message) * group * each, end = std::min(begin + group * each, offer_.bytes);
  const type::Datatype& type = *part_.type;
  auto* const base = static_cast<std::byte*>(part_.address);
  const type::Datatype* const byte = &type::of(type::Basic::byte);
  if (!staging_.empty()) return {staging_.data() + begin, end - begin, byte};
  if (type.contiguous) return {base + type.origin + begin, end - begin, byte, part_.memory};
  if (type.size == 0) return {base, 0, byte};
  return {base + static_cast<int64_t>(begin / type.size) * type.extent, (end - begin) / type.size, &type, part_.memory};
}

void Receiver::post() {
  outcome.bytes = offer_.bytes;
  missing_ = needed_;
  pending_ = messages();
  for (int32_t p = 0; p < partitions_; ++p)
    if (needed_[static_cast<size_t>(p)] == 0) arrived_[static_cast<size_t>(p)].store(true, std::memory_order_release);
  for (Slot& slot : slots_) {
    Request* const message = lane->ireceive(team_, peer_, answer_.first_tag + slot.message, Traffic::partitioned, place_of(slot.message));
    under_way_.push_back(message);
    const auto then = [](Request& r) {
      const Slot& own = *static_cast<Slot*>(r.context);
      own.receiver->came(r, own.message);
    };
    if (!follow(*message, then, &slot)) came(*message, slot.message);
  }
  if (slots_.empty()) soon();
}

void Receiver::came(const Request& request, int32_t message) {
  note_error(request);
  each_partition_of(message, [this](size_t p) {
    if (--missing_[p] > 0) return;
    if (!staging_.empty()) unpack(static_cast<int32_t>(p));
    arrived_[p].store(true, std::memory_order_release);
  });
  if (--pending_ == 0) soon();
}

void Receiver::unpack(int32_t partition) {
  const uint64_t first = static_cast<uint64_t>(partition) * part_.count;
  type::unpack(*part_.type, part_.count, staging_.data() + first * part_.type->size, partition_bytes(),
               static_cast<std::byte*>(part_.address) + static_cast<int64_t>(first) * part_.type->extent);
}

void Receiver::work() {
  deferred_ = false;
  if (!met_ && is_complete(offer_message_)) {
    answer();
    outcome.error = refused_;
    if (std::exchange(waiting_, false) && !refused_) post();
    release<Request>(this);
  } else if (is_complete(answer_message_)) {
    release(std::exchange(answer_message_, nullptr));
    release<Request>(this);
  }
  if (pending_ == 0 && !waiting_ && !complete.load(std::memory_order_relaxed)) finish();
  release<Request>(this);
}

template <class Side>
Request* make(Pool<Side>& pool, Team& team, int peer, int tag, int32_t partitions, const Buffer& partition) {
  Side* const side = pool.make(team, peer, tag, partitions, partition);
  if (!side->nowhere()) side->meet();
  return side;
}

}  // namespace

Request* partitioned_send(Team& team, int dest, int tag, int32_t partitions, const Buffer& partition) {
  return make(senders(), team, dest, tag, partitions, partition);
}

Request* partitioned_receive(Team& team, int source, int tag, int32_t partitions, const Buffer& partition) {
  return make(receivers(), team, source, tag, partitions, partition);
}

int32_t partitions_of(const Request& request) {
  return request.request_kind == RequestKind::partitioned_send ? static_cast<const Sender&>(request).partitions()
                                                               : static_cast<const Receiver&>(request).partitions();
}

int partitions_ready(Request& request, int32_t first, int32_t last) { return static_cast<Sender&>(request).ready(first, last); }

int partition_arrived(Request& request, int32_t partition, bool& arrived) {
  const auto& receiver = static_cast<const Receiver&>(request);
  arrived = receiver.arrived(partition);
  if (arrived) return MPI_SUCCESS;
  // Programs ask in a loop: where nothing happens, whoever is to hand the partition over may need this CPU.
  if (request.lane->progress() == 0) sched_yield();
  arrived = receiver.arrived(partition);
  return MPI_SUCCESS;
}

}  // namespace weft::pml
