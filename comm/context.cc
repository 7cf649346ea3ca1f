#include "comm/context.h"

#include "comm/mailbox.h"

namespace weft::comm {
namespace {

/// Letters to and from members of a group, over a team that holds them all.
struct Courier {
  Mailbox& mailbox;
  pml::Team& carrier;
  const pml::Members& group;
  std::string_view name;

  int rank_of(uint32_t member) const { return static_cast<int>(carrier.members().find(group.at(member))); }
  Status receive(uint32_t member, void* news, size_t bytes) const { return mailbox.receive(carrier, rank_of(member), name, news, bytes); }
  Status send(uint32_t member, const Letter& letter) const {
    return carrier.lane().send(carrier, rank_of(member), kLetterTag, pml::Traffic::agreement, sealed(letter));
  }
};

}  // namespace

Status agree_on_context(Mailbox& mailbox, pml::Team& carrier, const pml::Members& group, uint32_t rank, std::string_view name,
                        pml::Context& context, std::optional<uint32_t> lane) {
  const uint32_t size = group.size();
  const Courier courier{mailbox, carrier, group, name};
  if (rank == 0) context = carrier.lane().new_context(carrier.context(), lane);

  uint32_t reach = 1;  // distance to the parent, then to the children
  for (; reach < size; reach <<= 1) {
    if (!(rank & reach)) continue;
    const Status status = courier.receive(rank - reach, &context, sizeof context);
    if (status != Status::ok) return status;
    break;
  }
  const Letter letter = write_letter(name, &context, sizeof context);
  for (reach >>= 1; reach > 0; reach >>= 1) {
    if (rank + reach >= size) continue;
    if (const Status status = courier.send(rank + reach, letter); status != Status::ok) return status;
  }
  return Status::ok;
}

namespace {

/// Waits until all of a group have come, by the tree of agree_on_context towards its root. Nothing is sent within a session before its
/// receiver is known to have sessions.
Status gather(Instance& instance, const pml::Members& group, uint32_t rank, std::string_view name) {
  const Courier courier{instance.mailbox(), instance.session_carrier(), group, name};
  uint32_t reach = 1;
  for (; reach < group.size() && !(rank & reach); reach <<= 1) {
    uint8_t here = 0;
    if (rank + reach >= group.size()) continue;
    if (const Status status = courier.receive(rank + reach, &here, sizeof here); status != Status::ok) return status;
  }
  if (rank == 0) return Status::ok;
  if (const Status status = instance.await_sessions(group.at(rank - reach)); status != Status::ok) return status;
  const uint8_t here = 1;
  return courier.send(rank - reach, write_letter(name, &here, sizeof here));
}

}  // namespace

Status agree_without(const Group& group, std::string_view name, pml::Context& context, std::optional<uint32_t> lane) {
  Instance& instance = *group.instance;
  const auto rank = static_cast<uint32_t>(group.rank);
  if (group.session)
    if (const Status came = gather(instance, *group.members, rank, name); came != Status::ok) return came;
  pml::Team& carrier = group.session ? instance.session_carrier() : instance.carrier();
  return agree_on_context(instance.mailbox(), carrier, *group.members, rank, name, context, lane);
}

}  // namespace weft::comm
