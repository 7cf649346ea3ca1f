// Messages that are longer than their receive buffers, and arguments that make no sense: errors are returned, and nothing else suffers.
#include "part.h"

namespace random_test {

namespace {

enum class How { blocking, immediate, all, matched, exchange };

/// A ring: each rank sends to the next one and receives from the one before it.
class Truncated : public Part {
 public:
  explicit Truncated(const Draw& draw);
  std::string text() const override;
  void begin(int round) override;
  void send(Pending& pending) override;
  void take(Pending& pending) override;
  void check() override;

 private:
  int next() const { return (draw_.comm.rank + 1) % draw_.comm.size(); }
  int previous() const { return (draw_.comm.rank + draw_.comm.size() - 1) % draw_.comm.size(); }
  int receive();
  int receive_all();
  void call_wrongly() const;

  Draw draw_;
  mutable Rng calls_;
  Pattern pattern_;
  int64_t units_ = 1;
  How how_ = How::blocking;
  Layout layout_;
  Area out_, in_;
  int room_ = 0;
  int round_ = 0;
};

Truncated::Truncated(const Draw& draw) : draw_(draw), calls_(draw.calls()) {
  Rng rng = draw.shared(), local = draw.local();
  pattern_ = draw_pattern(rng);
  units_ = 1 + draw_units(rng, pattern_.bytes(), 300000);
  how_ = How(local.below(5));
  layout_ = draw_layout(local, pattern_, 1);
  room_ = int(local.below(units_));
  out_.reserve(layout_, 0, units_);
  in_.reserve(layout_, 0, room_);
}

std::string Truncated::text() const {
  return "truncated message of " + std::to_string(units_) + " " + pattern_.text() + " for " + std::to_string(room_);
}

void Truncated::begin(int round) {
  round_ = round;
  out_.open(mix(draw_.seed, 1));
  out_.fill(layout_, 0, units_, Content{mix(draw_.seed, uint64_t(draw_.comm.rank))});
  in_.open(mix(draw_.seed, 2));
}

void Truncated::send(Pending& pending) {
  if (draw_.comm.inter()) return;
  call_wrongly();
  MPI_Request request;
  ok(BOTH(MPI_Isend)(calls_, out_.base(), int(units_), layout_.type, next(), draw_.tag, draw_.comm.handle, &request));
  pending.add(request);
}

void Truncated::take(Pending&) {
  if (draw_.comm.inter()) return;
  same(error_class(receive()), MPI_ERR_TRUNCATE, "class of the error of a message that is longer than its buffer");
}

int Truncated::receive() {
  const MPI_Comm comm = draw_.comm.handle;
  MPI_Request request;
  MPI_Message message;
  switch (how_) {
    case How::blocking: return BOTH(MPI_Recv)(calls_, in_.base(), room_, layout_.type, previous(), draw_.tag, comm, MPI_STATUS_IGNORE);
    case How::immediate:
      ok(BOTH(MPI_Irecv)(calls_, in_.base(), room_, layout_.type, previous(), draw_.tag, comm, &request));
      return MPI_Wait(&request, MPI_STATUS_IGNORE);
    case How::all: return receive_all();
    case How::matched:
      ok(MPI_Mprobe(previous(), draw_.tag, comm, &message, MPI_STATUS_IGNORE));
      return BOTH(MPI_Mrecv)(calls_, in_.base(), room_, layout_.type, &message, MPI_STATUS_IGNORE);
    case How::exchange:
      return BOTH(MPI_Sendrecv)(calls_, nullptr, 0, MPI_INT, MPI_PROC_NULL, 0, in_.base(), room_, layout_.type, previous(), draw_.tag, comm,
                                MPI_STATUS_IGNORE);
  }
  return MPI_SUCCESS;
}

/// Among others: a receive that ends well, and one from nobody.
int Truncated::receive_all() {
  const MPI_Comm comm = draw_.comm.handle;
  MPI_Request requests[3];
  MPI_Status statuses[3];
  const int sent = draw_.comm.rank;
  int received = -1;
  ok(BOTH(MPI_Irecv)(calls_, in_.base(), room_, layout_.type, previous(), draw_.tag, comm, &requests[0]));
  ok(MPI_Irecv(&received, 1, MPI_INT, draw_.comm.rank, draw_.tag + 1, comm, &requests[1]));
  ok(MPI_Irecv(nullptr, 0, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[2]));
  ok(MPI_Send(&sent, 1, MPI_INT, draw_.comm.rank, draw_.tag + 1, comm));
  same(MPI_Waitall(3, requests, statuses), MPI_ERR_IN_STATUS, "error of MPI_Waitall with a truncated message");
  same(statuses[1].MPI_ERROR, MPI_SUCCESS, "error of a request beside the truncated one");
  same(statuses[2].MPI_ERROR, MPI_SUCCESS, "error of a receive from nobody beside the truncated one");
  same(received, sent, "what was received beside the truncated message");
  return statuses[0].MPI_ERROR;
}

void Truncated::call_wrongly() const {
  const MPI_Comm comm = draw_.comm.handle;
  int word = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  same(error_class(BOTH(MPI_Send)(calls_, &word, 1, MPI_INT, draw_.comm.size(), draw_.tag, comm)), MPI_ERR_RANK,
       "class of the error of a rank beyond the last");
  same(error_class(BOTH(MPI_Isend)(calls_, &word, -1, MPI_INT, next(), draw_.tag, comm, &request)), MPI_ERR_COUNT,
       "class of the error of a negative count");
  same(error_class(BOTH(MPI_Recv)(calls_, &word, 1, MPI_INT, previous(), -77, comm, MPI_STATUS_IGNORE)), MPI_ERR_TAG,
       "class of the error of a negative tag");
  same(error_class(BOTH(MPI_Bcast)(calls_, &word, 1, MPI_INT, draw_.comm.size(), comm)), MPI_ERR_ROOT,
       "class of the error of a root beyond the last");
}

void Truncated::check() {
  for (int64_t i = 0; i < room_; ++i) {  // how much of the message is there, the standard does not say
    for (const Place& place : layout_.map) in_.ignore(i * layout_.extent + place.offset, place.size);
  }
  in_.check("buffer of a truncated message, layout " + layout_.text);
  out_.check("send buffer");
}

}  // namespace

std::unique_ptr<Part> draw_truncated(const Draw& draw) { return std::make_unique<Truncated>(draw); }

}  // namespace random_test
