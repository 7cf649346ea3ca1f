// How a rail with a door takes in processes of its job: tells them by their introduction, finds their links, lets the rail decide.
#pragma once

#include <utility>

#include "btl/btl.h"
#include "btl/introduction.h"
#include "runtime/net/doorman.h"

namespace weft::btl {

/// For one round at the door. `Rail` has boot_, index_, links_, link_to(), judge(they, link) and caps(); its links adopt(socket).
template <class Rail>
class Porter final : public net::Doorman::Host {
 public:
  Porter(Rail& rail, Sink& sink) : rail_(rail), sink_(sink) {}

  net::Doorman::Ruling judge(const net::Claim& claim) override {
    const auto they = Introduction::from(claim);
    if (!they || !they->meant_for(rail_.caps().name, rail_.boot_.job(), rail_.index_))
      return {net::Verdict::refused, "it belongs to another job, or wants another process"};
    auto& link = meet({0, they->rank});
    if (link.host_.empty()) link.host_ = they->host;
    return {rail_.judge(*they, link), "communication with it has ended"};
  }

  void admit(const net::Claim& claim, net::Fd socket) override {
    rail_.link_to({0, Introduction::from(claim)->rank}).adopt(std::move(socket));
  }

 private:
  /// The link to a process that has connected, perhaps before this side thought of it.
  auto& meet(ProcessId who) {
    if (rail_.links_.contains(who)) return rail_.link_to(who);
    void* cookie = sink_.meet(who);  // may call connect()
    const bool connected = rail_.links_.contains(who);
    auto& link = rail_.link_to(who);
    if (!connected) link.cookie_ = cookie;
    return link;
  }

  Rail& rail_;
  Sink& sink_;
};

}  // namespace weft::btl
