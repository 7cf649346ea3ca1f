#include "comm/context.h"

#include "comm/mailbox.h"

namespace weft::comm {

Status agree_on_context(Mailbox& mailbox, pml::Team& carrier, const pml::Members& group, uint32_t rank, std::string_view name,
                        pml::Context& context, std::optional<uint32_t> lane) {
  const uint32_t size = group.size();
  const auto carrier_rank = [&](uint32_t member) { return static_cast<int>(carrier.members().find(group.at(member))); };
  if (rank == 0) context = carrier.lane().new_context(lane);

  uint32_t reach = 1;  // distance to the parent, then to the children
  for (; reach < size; reach <<= 1) {
    if (!(rank & reach)) continue;
    const Status status = mailbox.receive(carrier, carrier_rank(rank - reach), name, &context, sizeof context);
    if (status != Status::ok) return status;
    break;
  }
  const Letter letter = write_letter(name, &context, sizeof context);
  for (reach >>= 1; reach > 0; reach >>= 1) {
    if (rank + reach >= size) continue;
    const Status status = carrier.lane().send(carrier, carrier_rank(rank + reach), kLetterTag, pml::Traffic::agreement, sealed(letter));
    if (status != Status::ok) return status;
  }
  return Status::ok;
}

}  // namespace weft::comm
