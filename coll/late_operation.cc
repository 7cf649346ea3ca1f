// A nonblocking collective that is started while its team is about to get shared memory: how it goes is known when that is there, or is
// not.
#include "coll/team_state.h"

namespace weft::coll {

namespace {

class LateOperation final : public pml::Request, public node::Wiring::Follower {
 public:
  LateOperation(TeamState& s, const Call& c, const Agreed& a, pml::Request* by_messages);
  void wired(node::Segment*) override;
  void drop_inner() { release(inner_); }

 private:
  static void inner_done(pml::Request&);

  pml::Team& team_;
  const Call call_;
  const Agreed agreed_;
  const TeamState::Wants wants_;
  const bool in_place_;
  pml::Request* inner_;  // by messages, until something else is known
};

Pool<LateOperation>& pool() {
  static Pool<LateOperation>* const p = new Pool<LateOperation>;  // never destroyed: handles may outlive main()
  return *p;
}

void destroy_operation(pml::Request& r) {
  auto& operation = static_cast<LateOperation&>(r);
  operation.drop_inner();
  pool().destroy(&operation);
}

constexpr pml::Request::Ops kOps{nullptr, nullptr, nullptr, destroy_operation};

LateOperation::LateOperation(TeamState& s, const Call& c, const Agreed& a, pml::Request* by_messages)
    : Request(pml::RequestKind::collective, &kOps, &s.team().lane()),
      team_(s.team()),
      call_(c),
      agreed_(a),
      wants_(s.wants(c, a)),
      in_place_(in_place_here(s, c)),
      inner_(by_messages) {
  retain(this);  // until it is done
}

void LateOperation::wired(node::Segment* segment) {
  if (segment && wants_.board(*segment, agreed_)) {
    release(inner_);
    inner_ = make_on_board(team_, *segment, call_, agreed_, in_place_);
  }
  inner_->context = this;
  inner_->on_done = inner_done;
  begin(*inner_);
}

void LateOperation::inner_done(pml::Request& r) {
  auto& o = *static_cast<LateOperation*>(r.context);
  o.outcome = r.outcome;
  o.lane->complete(o);
  release<pml::Request>(&o);
}

}  // namespace

pml::Request* start_later(TeamState& s, const Call& c, const Agreed& a, pml::Request* by_messages) {
  LateOperation* const o = pool().make(s, c, a, by_messages);
  s.go_on_when_wired(*o);
  return o;
}

}  // namespace weft::coll
