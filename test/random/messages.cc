// Messages between any ranks of a communicator, sent and received in all of MPI's ways.
//
// The receives of one destination are divided into streams: by source and tag, by tag (any source), by source (any tag), or one for all.
// Within a stream the messages of one source arrive in the order in which they were sent; which source comes when is not determined, so
// statuses are looked at only when all receives are complete. A stream is either posted before anything is sent, or received after all
// sends have been started: sends that may block go to posted streams only.
#include <sched.h>

#include <algorithm>
#include <array>
#include <map>

#include "buffers.h"
#include "part.h"

namespace random_test {

namespace {

enum class Kind { standard, synchronous, buffered, ready };

struct Message {
  int side;  ///< the source's
  int source, dest, tag;
  int64_t units;
  Kind kind;
  Mode mode;
};

struct Stream {
  int side;  ///< the destination's
  int dest, source, tag;
  bool posted;
  std::vector<size_t> messages;
};

struct Out {
  size_t message;
  Layout layout;
  Area area;
  MPI_Request persistent = MPI_REQUEST_NULL;
};

enum class How { immediate, persistent, blocking, probe, iprobe, mprobe, improbe };

struct In {
  size_t stream;
  How how;
  Layout layout;
  int64_t capacity;  ///< units
  Area area;
  MPI_Request persistent = MPI_REQUEST_NULL;
  MPI_Status status{};
};

class Messages : public Part {
 public:
  explicit Messages(const Draw& draw);
  ~Messages() override;
  std::string text() const override;
  void begin(int round) override;
  void post(Pending& pending) override;
  void send(Pending& pending) override;
  void take(Pending& pending) override;
  void check() override;
  bool fence() const override { return wild_; }

 private:
  void draw_all(Rng& rng);
  void sort_into_streams(Rng& rng);
  void sort_into_streams(int side, int dest, Rng& rng);
  void draw_kind(Message& message, bool posted, Rng& rng);
  void add_out(size_t message, Rng& rng);
  void add_in(size_t stream, size_t message, Rng& rng);
  void start(Out& out, Pending& pending);
  void start_posted(In& in, Pending& pending);
  void take_one(In& in, Pending& pending);
  void attach();
  void check_in(In& in, std::map<int, size_t>& taken);
  uint64_t key(size_t message) const { return mix(mix(draw_.seed, uint64_t(round_)), 50 + message); }
  int64_t elements(const Layout& layout, int64_t units) const { return units * unit_ / layout.patterns; }

  Draw draw_;
  Rng calls_;
  Pattern pattern_;
  int64_t unit_ = 1;
  std::vector<Message> messages_;
  std::vector<Stream> streams_;
  std::vector<Out> outs_;
  std::vector<In> ins_;
  bool wild_ = false, ready_ = false, cancels_ = false;
  std::unique_ptr<SendBuffer> buffer_;
  MPI_Request cancelled_ = MPI_REQUEST_NULL;
  int unused_ = 0;
  int round_ = 0;
};

Messages::Messages(const Draw& draw) : draw_(draw), calls_(draw.calls()) {
  Rng rng = draw.shared();
  pattern_ = draw_pattern(rng);
  unit_ = draw_unit(rng);
  draw_all(rng);
  sort_into_streams(rng);
  for (const Message& m : messages_) ready_ |= m.kind == Kind::ready;
  Rng local = draw.local();
  buffer_ = std::make_unique<SendBuffer>(draw.comm, draw.alone, local);
  cancels_ = local.chance(15) && !draw.comm.exact;
  for (size_t i = 0; i < messages_.size(); ++i) {
    if (messages_[i].side == draw.comm.side && messages_[i].source == draw.comm.rank) add_out(i, local);
  }
  for (size_t s = 0; s < streams_.size(); ++s) {
    if (streams_[s].side == draw.comm.side && streams_[s].dest == draw.comm.rank) {
      for (size_t i : streams_[s].messages) add_in(s, i, local);
    }
  }
}

Messages::~Messages() {
  for (Out& out : outs_) {
    if (out.persistent != MPI_REQUEST_NULL) MPI_Request_free(&out.persistent);
  }
  for (In& in : ins_) {
    if (in.persistent != MPI_REQUEST_NULL) MPI_Request_free(&in.persistent);
  }
}

std::string Messages::text() const {
  std::string all = std::to_string(messages_.size()) + " messages of " + pattern_.text() + " x" + std::to_string(unit_);
  static const char* const kinds[] = {"", " synchronous", " buffered", " ready"};
  for (const Stream& s : streams_) {
    all += "; to " + std::string(s.side ? "side 1's " : "") + std::to_string(s.dest) + (s.posted ? " posted" : " late");
    if (s.source == MPI_ANY_SOURCE) all += " any source";
    if (s.tag == MPI_ANY_TAG) all += " any tag";
    for (size_t i : s.messages) {
      const Message& m = messages_[i];
      all += ", " + std::to_string(m.units) + " from " + std::to_string(m.source) + kinds[int(m.kind)] + " " + mode_text(m.mode);
    }
  }
  return all;
}

void Messages::draw_all(Rng& rng) {
  const Comm& comm = draw_.comm;
  const int64_t count = rng.between(1, 3 * (comm.size() + int(comm.remote.size())));
  const int64_t tags = rng.between(1, 3);
  const bool hot = rng.chance(30);  // most go to one
  for (int64_t i = 0; i < count; ++i) {
    Message m{};
    m.side = int(rng.below(comm.sides()));
    m.source = int(rng.below(comm.size_of(m.side)));
    m.dest = hot && rng.chance(70) ? 0 : int(rng.below(comm.size_of(comm.other(m.side))));
    m.tag = draw_.tag + int(rng.below(tags));
    m.units = draw_units(rng, pattern_.bytes() * unit_, 400000);
    messages_.push_back(m);
  }
}

void Messages::sort_into_streams(Rng& rng) {
  for (int side = 0; side < draw_.comm.sides(); ++side) {
    for (int dest = 0; dest < draw_.comm.size_of(side); ++dest) sort_into_streams(side, dest, rng);
  }
}

/// The messages to one rank of a side.
void Messages::sort_into_streams(int side, int dest, Rng& rng) {
  const int64_t style = rng.below(draw_.comm.exact ? 50 : 100);
  const bool any_source = style >= 50 && style < 85, any_tag = style >= 70;
  std::map<std::pair<int, int>, size_t> found;
  for (size_t i = 0; i < messages_.size(); ++i) {
    Message& m = messages_[i];
    if (m.dest != dest || draw_.comm.other(m.side) != side) continue;
    wild_ |= any_source || any_tag;
    const std::pair<int, int> which{any_source ? MPI_ANY_SOURCE : m.source, any_tag ? MPI_ANY_TAG : m.tag};
    if (!found.contains(which)) {
      found[which] = streams_.size();
      streams_.push_back({side, dest, which.first, which.second, rng.chance(60), {}});
    }
    Stream& stream = streams_[found[which]];
    stream.messages.push_back(i);
    draw_kind(m, stream.posted, rng);
  }
}

void Messages::draw_kind(Message& message, bool posted, Rng& rng) {
  const int64_t kind = rng.below(100);
  message.kind = kind < 50 ? Kind::standard : kind < 75 ? Kind::synchronous : kind < 90 ? Kind::buffered : Kind::ready;
  if (message.kind == Kind::ready && !posted) message.kind = Kind::standard;
  if (message.kind == Kind::buffered && !SendBuffer::possible(draw_.alone)) message.kind = Kind::standard;
  message.mode = Mode(rng.below(3));
  if (message.mode == Mode::blocking && message.kind != Kind::buffered && !posted) message.mode = Mode::nonblocking;
}

void Messages::add_out(size_t message, Rng& rng) {
  Out out{message, draw_layout(rng, pattern_, unit_), {}};
  const Message& m = messages_[message];
  const int64_t count = elements(out.layout, m.units);
  out.area.reserve(out.layout, 0, count);
  out.area.open(0);
  if (m.mode == Mode::persistent) {
    const std::array init{BOTH(MPI_Send_init), BOTH(MPI_Ssend_init), BOTH(MPI_Bsend_init), BOTH(MPI_Rsend_init)};
    ok(init[size_t(m.kind)](calls_, out.area.base(), count, out.layout.type, m.dest, m.tag, draw_.comm.handle, &out.persistent));
  }
  outs_.push_back(std::move(out));
}

/// A receive of a stream; `message`: the one that it gets if there are no wildcards.
void Messages::add_in(size_t stream, size_t message, Rng& rng) {
  const Stream& s = streams_[stream];
  int64_t most = messages_[message].units;
  for (size_t i : s.messages) most = draw_.comm.exact ? most : std::max(most, messages_[i].units);
  if (s.messages.size() == 1 && rng.chance(30) && !draw_.comm.exact) most += rng.below(5);
  const How how = How(s.posted ? rng.below(2) : rng.below(7));
  In in{stream, how, draw_layout(rng, pattern_, unit_), most, {}};
  const int64_t count = elements(in.layout, most);
  in.area.reserve(in.layout, 0, count);
  in.area.open(0);
  if (how == How::persistent)
    ok(BOTH(MPI_Recv_init)(calls_, in.area.base(), count, in.layout.type, s.source, s.tag, draw_.comm.handle, &in.persistent));
  ins_.push_back(std::move(in));
}

void Messages::begin(int round) {
  round_ = round;
  for (Out& out : outs_) {
    out.area.open(key(out.message));
    out.area.fill(out.layout, 0, elements(out.layout, messages_[out.message].units), Content{key(out.message)});
  }
  for (In& in : ins_) in.area.open(mix(draw_.seed, uint64_t(round)));
}

void Messages::start_posted(In& in, Pending& pending) {
  const Stream& s = streams_[in.stream];
  MPI_Request request = in.persistent;
  if (in.how == How::persistent)
    ok(MPI_Start(&in.persistent));
  else
    ok(BOTH(MPI_Irecv)(calls_, in.area.base(), elements(in.layout, in.capacity), in.layout.type, s.source, s.tag, draw_.comm.handle,
                       &request));
  pending.add(request, [&in](const MPI_Status& status) { in.status = status; });
}

void Messages::post(Pending& pending) {
  if (cancels_) {
    ok(MPI_Irecv(&unused_, 1, MPI_INT, MPI_ANY_SOURCE, draw_.tag + Draw::tags - 1, draw_.comm.handle, &cancelled_));
    pending.add(cancelled_, [](const MPI_Status& status) {
      int flag = 0;
      ok(MPI_Test_cancelled(&status, &flag));
      same(flag, 1, "whether the receive was cancelled");
    });
  }
  for (In& in : ins_) {
    if (streams_[in.stream].posted) start_posted(in, pending);
  }
}

void Messages::attach() {
  int64_t room = 0;
  for (const Out& out : outs_) {
    if (messages_[out.message].kind != Kind::buffered) continue;
    Answer packed;
    ok(BOTH(MPI_Pack_size)(calls_, elements(out.layout, messages_[out.message].units), out.layout.type, draw_.comm.handle, packed));
    room += packed + MPI_BSEND_OVERHEAD;
  }
  buffer_->attach(room, calls_);
}

void Messages::start(Out& out, Pending& pending) {
  const std::array blocking{BOTH(MPI_Send), BOTH(MPI_Ssend), BOTH(MPI_Bsend), BOTH(MPI_Rsend)};
  const std::array immediate{BOTH(MPI_Isend), BOTH(MPI_Issend), BOTH(MPI_Ibsend), BOTH(MPI_Irsend)};
  const Message& m = messages_[out.message];
  const int64_t count = elements(out.layout, m.units);
  MPI_Request request = out.persistent;
  if (m.mode == Mode::blocking)
    return ok(blocking[size_t(m.kind)](calls_, out.area.base(), count, out.layout.type, m.dest, m.tag, draw_.comm.handle));
  if (m.mode == Mode::persistent)
    ok(MPI_Startall(1, &out.persistent));
  else
    ok(immediate[size_t(m.kind)](calls_, out.area.base(), count, out.layout.type, m.dest, m.tag, draw_.comm.handle, &request));
  pending.add(request);
}

void Messages::send(Pending& pending) {
  attach();
  if (ready_) ok(MPI_Barrier(draw_.comm.handle));
  for (Out& out : outs_) start(out, pending);
  if (cancels_) ok(MPI_Cancel(&cancelled_));
}

void Messages::take_one(In& in, Pending& pending) {
  const Stream& s = streams_[in.stream];
  const MPI_Comm comm = draw_.comm.handle;
  const int64_t count = elements(in.layout, in.capacity);
  if (in.how == How::immediate || in.how == How::persistent) return start_posted(in, pending);
  if (in.how == How::blocking) return ok(BOTH(MPI_Recv)(calls_, in.area.base(), count, in.layout.type, s.source, s.tag, comm, &in.status));
  MPI_Status seen{};
  MPI_Message message = MPI_MESSAGE_NULL;
  if (in.how == How::probe) ok(MPI_Probe(s.source, s.tag, comm, &seen));
  if (in.how == How::mprobe) ok(MPI_Mprobe(s.source, s.tag, comm, &message, &seen));
  for (int flag = 0; in.how == How::iprobe && !flag; sched_yield()) ok(MPI_Iprobe(s.source, s.tag, comm, &flag, &seen));
  for (int flag = 0; in.how == How::improbe && !flag; sched_yield()) ok(MPI_Improbe(s.source, s.tag, comm, &flag, &message, &seen));
  if (in.how == How::probe || in.how == How::iprobe) {
    ok(BOTH(MPI_Recv)(calls_, in.area.base(), count, in.layout.type, seen.MPI_SOURCE, seen.MPI_TAG, comm, &in.status));
  } else if (in.how == How::mprobe) {
    ok(BOTH(MPI_Mrecv)(calls_, in.area.base(), count, in.layout.type, &message, &in.status));
  } else {
    MPI_Request request;
    ok(BOTH(MPI_Imrecv)(calls_, in.area.base(), count, in.layout.type, &message, &request));
    ok(MPI_Wait(&request, &in.status));
  }
  same(in.status.MPI_SOURCE, seen.MPI_SOURCE, "source of the message that was probed");
  same(in.status.MPI_TAG, seen.MPI_TAG, "tag of the message that was probed");
  same(count_of(calls_, in.status, in.layout.type), count_of(calls_, seen, in.layout.type), "count of the message that was probed");
}

void Messages::take(Pending& pending) {
  for (In& in : ins_) {
    if (!streams_[in.stream].posted) take_one(in, pending);
  }
}

void Messages::check_in(In& in, std::map<int, size_t>& taken) {
  const Stream& s = streams_[in.stream];
  const int source = in.status.MPI_SOURCE;
  size_t& at = taken[source];
  while (at < s.messages.size() && messages_[s.messages[at]].source != source) ++at;
  if (at == s.messages.size()) throw Failure("more messages from rank " + std::to_string(source) + " than it sent");
  const size_t message = s.messages[at++];
  const Message& m = messages_[message];
  const std::string what = "message from " + std::to_string(source) + " received as " + in.layout.text;
  same(in.status.MPI_TAG, m.tag, "tag of the " + what);
  const int64_t count = count_of(calls_, in.status, in.layout.type);
  Answer pieces;
  ok(BOTH(MPI_Get_elements)(calls_, &in.status, in.layout.type, pieces));
  same(count, elements(in.layout, m.units), "count of the " + what);
  same(pieces, m.units * unit_ * int64_t(pattern_.basics.size()), "number of basic elements of the " + what);
  in.area.expect(in.layout, 0, count, Content{key(message)});
  in.area.check(what);
}

void Messages::check() {
  buffer_->detach(calls_);
  std::map<size_t, std::map<int, size_t>> taken;
  for (In& in : ins_) check_in(in, taken[in.stream]);
  for (const Out& out : outs_) out.area.check("send buffer");
}

}  // namespace

std::unique_ptr<Part> draw_messages(const Draw& draw) { return std::make_unique<Messages>(draw); }

}  // namespace random_test
