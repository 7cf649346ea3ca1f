#include "runtime/mem/registration.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

namespace weft::mem {
namespace {

using obs::Gauge;
using Counters = RegistrationCache::Counters;
const obs::Figures<Counters> figures(
    "mem",
    {
        {"registrations_found", Gauge::counter, &Counters::hits, "memory that a device knew already"},
        {"registrations_made", Gauge::counter, &Counters::misses, "memory that had to be registered with a device"},
        {"registrations_unkept", Gauge::counter, &Counters::unkept, "of those, memory that cannot be watched and so is not kept"},
        {"registrations_changed", Gauge::counter, &Counters::changed, "registrations dropped because memory had been freed or mapped anew"},
        {"registrations_evicted", Gauge::counter, &Counters::evicted, "registrations dropped for others"},
    });

Range whole_pages(Range range) {
  static const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return {range.begin & ~(page - 1), std::max(range.end + page - 1, range.begin + 1) & ~(page - 1)};
}

}  // namespace

RegistrationCache::RegistrationCache(std::unique_ptr<Watcher> watcher, Limits limits) : watcher_(std::move(watcher)), limits_(limits) {}

RegistrationCache::~RegistrationCache() { clear(); }

void RegistrationCache::report(obs::Tally& tally) const { tally.add(figures, counters_); }

Result<size_t> RegistrationCache::add(Registrar& registrar) {
  if (devices_.size() == kMaxDevices) return Failure{"memory can be registered with " + std::to_string(kMaxDevices) + " devices at most"};
  devices_.push_back(&registrar);
  return devices_.size() - 1;
}

Result<Registration*> RegistrationCache::acquire(Range range, size_t device, bool writable, const DmaBuf* dmabuf) {
  tidy();
  const Range pages = dmabuf ? range : whole_pages(range);
  if (Registration* known = find(pages, writable)) {
    if (known->users++ == 0) unlink(known);
    known->handles.resize(devices_.size());  // one may have come since
    if (!known->handles[device]) {
      bool as_known = known->writable;
      auto handle = enroll(device, known->range, as_known, dmabuf);
      if (!handle) return release(known), handle.failure();
      known->handles[device] = *handle;
    }
    ++counters_.hits;
    return known;
  }
  ++counters_.misses;
  return enter(pages, device, writable, dmabuf);
}

void RegistrationCache::release(Registration* registration) {
  if (--registration->users > 0) return;
  if (!registration->kept) return destroy(registration);
  link(registration);
  evict(limits_.bytes, limits_.count);
}

/// The first one that may overlap.
RegistrationCache::Map::iterator RegistrationCache::first_overlap(Range range) {
  auto at = kept_.upper_bound(range.begin);
  if (at != kept_.begin() && std::prev(at)->second->range.end > range.begin) --at;
  return at;
}

Registration* RegistrationCache::find(Range range, bool writable) {
  const auto at = first_overlap(range);
  if (at == kept_.end()) return nullptr;
  Registration* r = at->second;
  return r->range.covers(range) && (r->writable || !writable) ? r : nullptr;
}

/// Takes the place of those that overlap: one registration for all of their memory, so that neighbours do not pile up.
Range RegistrationCache::absorb(Range range, bool writable) {
  Range all = range;
  for (auto at = first_overlap(range); at != kept_.end() && at->second->range.begin < range.end;) {
    if (at->second->writable || !writable) all = {std::min(all.begin, at->second->range.begin), std::max(all.end, at->second->range.end)};
    drop(at++);
  }
  return all;
}

Result<Registration*> RegistrationCache::enter(Range range, size_t device, bool writable, const DmaBuf* dmabuf) {
  Range all = dmabuf ? range : absorb(range, writable);
  if (dmabuf) forget(range);
  // watched first: what changes while the device looks at it must be noticed as well
  bool kept = dmabuf || (watcher_ && watcher_->watch(all));
  if (!kept && all != range) {
    all = range;
    kept = watcher_ && watcher_->watch(all);
  }
  bool granted = writable;
  auto handle = enroll(device, all, granted, dmabuf);
  if (!handle && all != range) {
    all = range;
    granted = writable;
    handle = enroll(device, all, granted, dmabuf);
  }
  if (!handle) return handle.failure();
  auto* made = new Registration;
  made->range = all;
  made->writable = granted;
  made->handles.resize(devices_.size());
  made->handles[device] = *handle;
  made->users = 1;
  made->kept = kept;
  if (kept) {
    kept_.emplace(all.begin, made);
    bytes_ += all.size();
    evict(limits_.bytes, limits_.count);
  } else {
    ++counters_.unkept;
  }
  return made;
}

/// Tries for writing first, whatever is asked: memory that is sent is often received into later. `writable` tells what it became.
Result<void*> RegistrationCache::enroll(size_t device, Range range, bool& writable, const DmaBuf* dmabuf) {
  const bool must_write = writable;
  for (const bool write : {true, false}) {
    if (!write && must_write) break;
    if (auto handle = devices_[device]->enroll(range, write, dmabuf)) return writable = write, handle;
  }
  clear();  // the limit of locked memory may be reached
  writable = must_write;
  return devices_[device]->enroll(range, must_write, dmabuf);
}

void RegistrationCache::forget(Range range) {
  for (auto at = first_overlap(range); at != kept_.end() && at->second->range.begin < range.end;) {
    if (at->second->range.overlaps(range)) {
      ++counters_.changed;
      drop(at++);
    } else {
      ++at;
    }
  }
}

void RegistrationCache::drop_changed() {
  changes_.clear();
  if (!watcher_->collect(changes_)) {
    changes_.clear();
    counters_.changed += kept_.size();
    while (!kept_.empty()) drop(kept_.begin());
  }
  for (const Range& range : changes_) forget(range);
}

/// Out of the map. It lives on while it is in use.
void RegistrationCache::drop(Map::iterator at) {
  Registration* gone = at->second;
  kept_.erase(at);
  bytes_ -= gone->range.size();
  gone->kept = false;
  if (gone->users > 0) return;
  unlink(gone);
  destroy(gone);
}

void RegistrationCache::destroy(Registration* gone) {
  for (size_t device = 0; device < gone->handles.size(); ++device)
    if (gone->handles[device]) devices_[device]->dismiss(gone->handles[device]);
  delete gone;
}

void RegistrationCache::evict(uint64_t bytes, size_t count) {
  while (oldest_ && (bytes_ > bytes || kept_.size() > count)) {
    const Range range = oldest_->range;
    ++counters_.evicted;
    drop(kept_.find(range.begin));
    if (watcher_) watcher_->unwatch(range);
  }
}

void RegistrationCache::clear() { evict(0, 0); }

void RegistrationCache::link(Registration* r) {
  r->next = nullptr;
  r->prev = newest_;
  (newest_ ? newest_->next : oldest_) = r;
  newest_ = r;
}

void RegistrationCache::unlink(Registration* r) {
  (r->prev ? r->prev->next : oldest_) = r->next;
  (r->next ? r->next->prev : newest_) = r->prev;
  r->next = r->prev = nullptr;
}

}  // namespace weft::mem
