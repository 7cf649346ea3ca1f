#include "comm/context.h"

#include "runtime/type/predefined.h"

namespace weft::comm {

Status broadcast(pml::Team& carrier, const pml::Members& group, uint32_t rank, uint32_t root, int tag, const pml::Buffer& buffer) {
  pml::Lane& lane = carrier.lane();
  const uint32_t size = group.size(), self = (rank + size - root) % size;
  const auto carrier_rank = [&](uint32_t distance) { return static_cast<int>(carrier.members().find(group.at((root + distance) % size))); };

  uint32_t reach = 1;  // distance to the parent, then to the children
  for (; reach < size; reach <<= 1) {
    if (!(self & reach)) continue;
    pml::Outcome outcome;
    const Status status = lane.receive(carrier, carrier_rank(self - reach), tag, pml::Traffic::collective, buffer, outcome);
    if (status != Status::ok) return status;
    break;
  }
  for (reach >>= 1; reach > 0; reach >>= 1) {
    if (self + reach >= size) continue;
    const Status status = lane.send(carrier, carrier_rank(self + reach), tag, pml::Traffic::collective, buffer);
    if (status != Status::ok) return status;
  }
  return Status::ok;
}

Status agree_on_context(pml::Team& carrier, const pml::Members& group, uint32_t rank, int tag, pml::Context& context) {
  if (rank == 0) context = carrier.lane().new_context();
  return broadcast(carrier, group, rank, 0, tag, {&context, sizeof context, &type::of(type::Basic::byte)});
}

}  // namespace weft::comm
