#include "launcher/central.h"

#include <pmix_common.h>

#include <algorithm>

#include "runtime/base/clock.h"

namespace weft::launcher {
namespace {

int32_t status_of(NameService::Outcome outcome) {
  switch (outcome) {
    case NameService::Outcome::good: return PMIX_SUCCESS;
    case NameService::Outcome::partial: return PMIX_ERR_PARTIAL_SUCCESS;
    case NameService::Outcome::not_found: return PMIX_ERR_NOT_FOUND;
    case NameService::Outcome::duplicate: return PMIX_ERR_DUPLICATE_KEY;
    case NameService::Outcome::full: return PMIX_ERR_OUT_OF_RESOURCE;
    case NameService::Outcome::late: return PMIX_ERR_TIMEOUT;
  }
  return PMIX_ERROR;
}

}  // namespace

bool Central::lives_on(const Proc& who, uint32_t host) const {
  const auto rank = roster_.rank(who);
  return rank && layout_.host_of[*rank] == host;
}

void Central::ask(uint32_t host, Service what, const std::string& body, Done done) {
  switch (what) {
    case Service::publish:
      if (auto record = decode_publish(body); record && lives_on(record->who, host)) return publish(host, *record, done);
      break;
    case Service::lookup:
      if (auto record = decode_lookup(body); record && lives_on(record->who, host))
        return lookup(host, std::move(*record), std::move(done));
      break;
    case Service::unpublish:
      if (auto record = decode_unpublish(body); record && lives_on(record->who, host)) {
        names_.unpublish(record->who, record->names);
        return done(PMIX_SUCCESS, {});
      }
      break;
    case Service::gather:
      if (auto record = decode_gather(body)) return gather(host, std::move(*record), std::move(done));
      break;
    case Service::notify:
      if (auto record = decode_notice(body); record && lives_on(record->source, host)) {
        upcalls_.spread(host, body);
        return done(PMIX_SUCCESS, {});
      }
      break;
    case Service::spawn:
      if (auto record = decode_spawn_wish(body); record && lives_on(record->who, host))
        return upcalls_.spawn(std::move(*record), std::move(done));
      break;
  }
  done(PMIX_ERR_BAD_PARAM, {});
}

void Central::publish(uint32_t host, const Publish& publish, const Done& done) {
  done(status_of(names_.publish({publish.who, host}, publish.items, publish.audience, publish.lasting)), {});
}

void Central::lookup(uint32_t host, Lookup lookup, Done done) {
  NameService::Wish wish{{std::move(lookup.who), host}, std::move(lookup.names), lookup.wait, 0, {}};
  if (lookup.timeout_s) wish.give_up_ns = now_ns() + uint64_t{lookup.timeout_s} * 1'000'000'000;
  wish.answer = [done = std::move(done)](NameService::Outcome outcome, const Found& found) { done(status_of(outcome), encode(found)); };
  names_.lookup(std::move(wish));
}

/// Hopeless: all members of a host have ended, and have not come.
Central::Outlook Central::outlook(const Gathering& gathering) const {
  std::map<uint32_t, bool> awaited;  // hosts that have not come; is there anybody to come?
  for (uint32_t rank : gathering.members)
    if (const uint32_t host = layout_.host_of[rank]; !gathering.parts.count(host)) awaited[host] |= !gone_.count(rank);
  if (awaited.empty()) return Outlook::complete;
  for (const auto& [host, anybody] : awaited)
    if (!anybody) return Outlook::hopeless;
  return Outlook::open;
}

void Central::gather(uint32_t host, Gather gather, Done done) {
  auto members = roster_.numbers(gather.members);
  if (!members) return done(PMIX_ERR_NOT_FOUND, {});
  const bool takes_part = std::any_of(members->begin(), members->end(), [&](uint32_t rank) { return layout_.host_of[rank] == host; });
  if (!takes_part) return done(PMIX_ERR_BAD_PARAM, {});

  Gather key{gather.what, gather.id, {}, {}};
  for (uint32_t rank : *members) key.members.push_back({{}, rank});
  const std::string name = encode(key);
  Gathering& gathering = gathering_[name];
  gathering.members = std::move(*members);
  if (!gathering.parts.emplace(host, Part{std::move(gather.data), done}).second) return done(PMIX_ERR_BAD_PARAM, {});
  const Outlook outlook = this->outlook(gathering);
  if (outlook == Outlook::open) return;
  const Gathering whole = std::move(gathering);
  gathering_.erase(name);
  if (outlook == Outlook::hopeless) return refuse(whole);
  Gathered result;
  if (gather.what == Gather::What::group) result.context = next_context_++;
  if (whole.parts.size() > 1)  // a single host has what it has brought
    for (const auto& [from, part] : whole.parts) result.data += part.data;
  const std::string body = encode(result);
  for (const auto& [to, part] : whole.parts) part.done(PMIX_SUCCESS, body);
}

void Central::refuse(const Gathering& gathering) {
  for (const auto& [to, part] : gathering.parts) part.done(PMIX_ERR_PROC_TERM_WO_SYNC, {});
}

void Central::gone(uint32_t rank, bool whole_space) {
  names_.gone(roster_.proc(rank), whole_space);
  gone_.insert(rank);
  std::vector<Gathering> refused;
  for (auto at = gathering_.begin(); at != gathering_.end();) {
    const std::vector<uint32_t>& members = at->second.members;
    const bool concerned = std::binary_search(members.begin(), members.end(), rank) && outlook(at->second) == Outlook::hopeless;
    if (concerned) refused.push_back(std::move(at->second));
    at = concerned ? gathering_.erase(at) : std::next(at);
  }
  for (const Gathering& gathering : refused) refuse(gathering);
}

}  // namespace weft::launcher
