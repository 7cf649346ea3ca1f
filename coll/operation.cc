// Nonblocking and persistent collectives: a request that walks its schedule as messages complete.
#include "coll/team_state.h"
#include "include/mpi.h"
#include "runtime/base/error.h"

namespace weft::coll {

namespace {

class Operation final : public pml::Request {
 public:
  Operation(TeamState& s, const Call&, int tag, bool persistent);

  int bind(const Call&, Rank root, SchedulePtr);
  void begin();
  void free_handles();

 private:
  struct Work : pml::Deferred {
    Operation* operation = nullptr;
  };

  static void message_done(pml::Request&);
  static void resume(pml::Deferred&);
  void settle();
  void step();
  void end();

  pml::Team& team_;
  const int32_t length_;  // of arrays
  Frame frame_;
  SchedulePtr schedule_;
  Call call_;
  Position position_;
  const int tag_;
  int pending_ = 0;  // messages of the round under way
  std::vector<pml::Request*> messages_;
  Work work_;
  // Guards all of the above once begun: the lane's lock.
};

Pool<Operation>& pool() {
  static Pool<Operation>* const p = new Pool<Operation>;  // never destroyed: handles may outlive main()
  return *p;
}

Operation& self(pml::Request& r) { return static_cast<Operation&>(r); }

void start_operation(pml::Request& r) { self(r).begin(); }
void destroy_operation(pml::Request& r) {
  self(r).free_handles();
  pool().destroy(&self(r));
}

constexpr pml::Request::Ops kOnce{start_operation, nullptr, nullptr, destroy_operation};
constexpr pml::Request::Ops kPersistent{start_operation, nullptr, nullptr, destroy_operation};

/// The datatypes and the operation of a call live as long as it does.
template <class Visit>
void each_type(const Call& c, int32_t length, Visit visit) {
  if (c.in_type) visit(c.in_type);
  if (c.out_type) visit(c.out_type);
  for (int32_t i = 0; c.in_types && !c.in_place && i < in_blocks(c, length); ++i) visit(c.in_types[i]);
  for (int32_t i = 0; c.out_types && i < out_blocks(c, length); ++i) visit(c.out_types[i]);
}

Operation::Operation(TeamState& s, const Call& c, int tag, bool is_persistent)
    : Request(is_persistent ? pml::RequestKind::persistent_collective : pml::RequestKind::collective, is_persistent ? &kPersistent : &kOnce,
              &s.team().lane()),
      team_(s.team()),
      length_(array_length(s, c)),
      tag_(tag) {
  persistent = is_persistent;
  active = !is_persistent;
  complete.store(is_persistent, std::memory_order_relaxed);
  work_.run = resume;
  work_.operation = this;
}

int Operation::bind(const Call& call, Rank root, SchedulePtr schedule) {
  call_ = call;
  work_.users = call.op && !call.op->predefined;
  schedule_ = std::move(schedule);
  frame_.keep_arrays(call_, length_);
  each_type(call_, length_, [](const type::Datatype* t) { retain(const_cast<type::Datatype*>(t)); });
  if (call_.op) retain(const_cast<op::Op*>(call_.op));
  return frame_.bind(*schedule_, call_, root, static_cast<Rank>(team_.rank()), static_cast<int32_t>(team_.size())) ? MPI_SUCCESS
                                                                                                                   : MPI_ERR_NO_MEM;
}

void Operation::free_handles() {
  each_type(call_, length_, [](const type::Datatype* t) { release(const_cast<type::Datatype*>(t)); });
  if (call_.op) release(const_cast<op::Op*>(call_.op));
}

/// Posts the first round. The operation holds a reference of its own until it is done.
void Operation::begin() {
  retain(this);
  active = true;
  complete.store(false, std::memory_order_relaxed);
  outcome = {};
  position_ = {};
  lane->locked([this] {
    frame_.prologue();
    step();
  });
}

void Operation::message_done(pml::Request& r) {
  Operation& o = *static_cast<Operation*>(r.context);
  if (--o.pending_ == 0) o.lane->defer(o.work_);
}

void Operation::resume(pml::Deferred& work) {
  Operation& o = *static_cast<Work&>(work).operation;
  o.settle();
  o.step();
}

/// Gives the messages of the round back.
void Operation::settle() {
  for (pml::Request* r : messages_) {
    if (r->outcome.error && !outcome.error) outcome.error = r->outcome.error;
    release(r);
  }
  messages_.clear();
}

/// Posts rounds until one has messages under way. Under the lane's lock.
void Operation::step() {
  const Schedule& s = *schedule_;
  while (!position_.end(s) && !outcome.error) {
    const Round& round = position_.of(s);
    const int32_t iteration = position_.iteration;
    position_.advance(s);
    post_round(team_, tag_, frame_, round, iteration, messages_, false);
    for (pml::Request* r : messages_) {
      if (r->complete.load(std::memory_order_acquire)) continue;
      r->context = this;
      r->on_done = message_done;
      ++pending_;
    }
    if (pending_ > 0) return;
    settle();
  }
  end();
}

void Operation::end() {
  if (!outcome.error) frame_.epilogue();
  lane->complete(*this);
  release<pml::Request>(this);
}

}  // namespace

int make_operation(TeamState& s, const Call& call, const Agreed& agreed, int tag, bool persistent, pml::Request** request) {
  SchedulePtr schedule = s.schedule_for(call, agreed);
  Operation* const o = pool().make(s, call, tag, persistent);
  if (const int error = o->bind(call, agreed.root, std::move(schedule))) {
    release(static_cast<pml::Request*>(o));
    return error;
  }
  *request = o;
  return MPI_SUCCESS;
}

}  // namespace weft::coll
