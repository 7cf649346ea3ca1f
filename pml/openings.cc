#include "pml/openings.h"

#include <cstring>

namespace weft::pml {
namespace {

constexpr const char* kName = "sessions";

}  // namespace

Result<void> Openings::publish() { return boot_.put(kName, std::as_bytes(std::span(&own_, 1))); }

std::optional<uint32_t> Openings::known(ProcessId who) const {
  if (who == process_of({0, boot_.job().rank})) return own_;
  std::lock_guard hold(lock_);
  const auto at = known_.find(who);
  return at == known_.end() ? std::nullopt : std::optional(at->second);
}

Result<uint32_t> Openings::keep(ProcessId who, const boot::Blob& told) {
  uint32_t first;
  if (told.size() != sizeof first) return Failure{"what " + text_of(who) + " published about its sessions is damaged"};
  memcpy(&first, told.data(), sizeof first);
  if (first != 0 && first != kMostLanes) return Failure{text_of(who) + " has its sessions where there are no seats"};
  std::lock_guard hold(lock_);
  known_.emplace(who, first);
  return first;
}

Result<std::optional<uint32_t>> Openings::look(ProcessId who) {
  if (const auto first = known(who)) return first;
  auto told = boot_.look(who, kName);
  if (!told) return told.failure();
  if (!*told) return std::optional<uint32_t>();
  auto first = keep(who, **told);
  if (!first) return first.failure();
  return std::optional(*first);
}

Result<uint32_t> Openings::ask(ProcessId who) {
  if (const auto first = known(who)) return *first;
  auto told = boot_.get(who, kName);
  if (!told) return told.failure();
  return keep(who, *told);
}

}  // namespace weft::pml
