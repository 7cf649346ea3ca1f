// All lanes of a process. Communicators are spread over them, so that threads on different communicators meet no common lock, ring or
// socket.
#pragma once

#include <memory>
#include <vector>

#include "pml/helper.h"
#include "pml/lane.h"
#include "pml/seat.h"

namespace weft::pml {

class Lanes {
 public:
  /// Opens as many lanes as WEFT_PML_LANES says and publishes their addresses; the caller fences afterwards. `again`: this process has had
  /// lanes before, and closed them.
  static Result<std::unique_ptr<Lanes>> open(boot::Bootstrap&, bool threads, bool again = false);
  /// The same with a given number of lanes, 1 to kMostLanes; 0: what suits the process.
  static Result<std::unique_ptr<Lanes>> open_many(boot::Bootstrap&, bool threads, uint32_t count, bool again = false);
  ~Lanes();
  Lanes(const Lanes&) = delete;

  /// The lane that matches a context here. Others may have other numbers of lanes; see Lane::peer_of.
  Lane& at(Context context) { return *lanes_[ticket_of(context) % lanes_.size()]; }
  Lane& first() { return *lanes_.front(); }
  Openings& openings() { return *openings_; }
  const std::vector<std::unique_ptr<Lane>>& all() const { return lanes_; }

  /// As Lane::settle, on all.
  void settle();
  /// Completes all outstanding traffic and closes the transports.
  Status close();

 private:
  Lanes() = default;
  void watch_failures(boot::Bootstrap&);

  std::vector<std::unique_ptr<SeatBootstrap>> seats_;  // outlive the lanes
  std::unique_ptr<Helper> helper_;                     // as does this
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::shared_ptr<Openings> openings_;
  boot::Bootstrap* boot_ = nullptr;
};

}  // namespace weft::pml
