#include "comm/context.h"

#include "runtime/type/predefined.h"

namespace weft::comm {

Status agree_on_context(pml::Team& carrier, const pml::Members& group, uint32_t rank, int tag, pml::Context& context) {
  pml::Lane& lane = carrier.lane();
  if (rank == 0) context = lane.new_context();
  const pml::Buffer buffer{&context, sizeof context, &type::of(type::Basic::byte)};
  const auto carrier_rank = [&](uint32_t member) { return static_cast<int>(carrier.members().find(group.at(member))); };

  uint32_t reach = 1;  // distance to the parent, then to the children
  for (; reach < group.size(); reach <<= 1) {
    if (!(rank & reach)) continue;
    pml::Outcome outcome;
    const Status status = lane.receive(carrier, carrier_rank(rank - reach), tag, pml::Traffic::collective, buffer, outcome);
    if (status != Status::ok) return status;
    break;
  }
  for (reach >>= 1; reach > 0; reach >>= 1) {
    if (rank + reach >= group.size()) continue;
    const Status status = lane.send(carrier, carrier_rank(rank + reach), tag, pml::Traffic::collective, buffer);
    if (status != Status::ok) return status;
  }
  return Status::ok;
}

}  // namespace weft::comm
