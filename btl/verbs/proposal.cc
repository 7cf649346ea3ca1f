#include "btl/verbs/proposal.h"

namespace weft::btl::verbs {

std::string objection(const Proposal& theirs, uint32_t my_slot_bytes) {
  if (theirs.slot_bytes != my_slot_bytes) return "its messages have another size; use the same Weft on all hosts";
  if (theirs.queues < 1 || theirs.queues > 1 + kMaxFlows || theirs.mtu < 1 || theirs.mtu > 5 || theirs.credits == 0)
    return "what it proposes makes no sense; use the same Weft on all hosts";
  return {};
}

}  // namespace weft::btl::verbs
