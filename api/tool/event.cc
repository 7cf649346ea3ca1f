// Events (MPI 5.0, 15.3.8): the records of the lane's ring, told to callbacks at the end of the MPI call in which they were made. The ring
// is bounded: what a call overwrote before it came to its end counts as dropped.
#include "api/tool/event.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "api/generated/bodies.h"
#include "api/handles.h"
#include "api/tool/tool.h"
#include "pml/lanes.h"

namespace weft::api::tool {
namespace {

constexpr int kRingSource = 0;

/// What an event carries; see `elements`.
struct Data {
  unsigned long long context;
  unsigned long long bytes;
  int peer;
  int tag;
};
const std::array<EventElement, 4> elements{{
    {MPI_UNSIGNED_LONG_LONG, offsetof(Data, context), sizeof(Data::context)},
    {MPI_UNSIGNED_LONG_LONG, offsetof(Data, bytes), sizeof(Data::bytes)},
    {MPI_INT, offsetof(Data, peer), sizeof(Data::peer)},
    {MPI_INT, offsetof(Data, tag), sizeof(Data::tag)},
}};

/// Levels of what a callback may do, the least demanding first.
constexpr std::array levels{MPI_T_CB_REQUIRE_NONE, MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_T_CB_REQUIRE_THREAD_SAFE,
                            MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE};

struct Callback {
  MPI_T_event_cb_function* function = nullptr;
  void* user_data = nullptr;
};

struct Registration {
  obs::What what;
  std::array<Callback, levels.size()> callbacks{};  ///< by place in `levels`
  MPI_T_event_dropped_cb_function* dropped = nullptr;
  // freed while events were being told; what comes at the end of that
  bool gone = false;
  MPI_T_event_free_cb_function* freed = nullptr;
  void* freed_data = nullptr;
};

struct Instance {
  obs::What what;
  uint64_t time;
  Data data;
};

using Kinds = std::array<uint64_t, obs::kinds>;

/// How far the records of a lane have been told.
struct Seen {
  uint64_t records = 0;
  Kinds counts{};
};

struct News {
  std::vector<Instance> instances;
  Kinds dropped{};
};

// Guarded by lock(), which nobody holds while callbacks run: they may wait for other threads.
Registry<Registration> registrations;
std::vector<Seen> seen;                          // by lane
bool delivering = false;                         // registrations then stay where they are
std::condition_variable_any ended;               // a delivery
thread_local const Instance* current = nullptr;  // the one whose callback runs

MPI_T_event_registration handle_of(const Registration& registration) {
  return reinterpret_cast<MPI_T_event_registration>(const_cast<Registration*>(&registration));
}

/// Place of a level; -1: there is none such.
int place_of(MPI_T_cb_safety level) {
  const auto found = std::ranges::find(levels, level);
  return found == levels.end() ? -1 : static_cast<int>(found - levels.begin());
}

/// All lanes of this process; none before initialisation and after finalisation. state.lock is held.
std::span<const std::unique_ptr<pml::Lane>> lanes() {
  if (!state.instance) return {};
  return state.instance->lanes().all();
}

Registration* find(MPI_T_event_registration handle) {
  Registration* const found = registrations.find(handle);
  return found && !found->gone ? found : nullptr;
}

Seen now_in(const obs::Ring& ring) {
  Seen now{ring.count()};
  for (size_t kind = 0; kind < obs::kinds; ++kind) now.counts[kind] = ring.count(static_cast<obs::What>(kind));
  return now;
}

/// From now on; what was before is nobody's.
void begin_to_watch() {
  const std::lock_guard hold(state.lock);
  seen.clear();
  for (const auto& lane : lanes())
    lane->locked([&] {
      lane->ring().keep_times();
      seen.push_back(now_in(lane->ring()));
    });
  state.watched = true;
}

/// One lane's records from before `end`, the oldest first.
void take_news(pml::Lane& lane, Seen& from, uint64_t end, News& news) {
  lane.locked([&] {
    obs::Ring& ring = lane.ring();
    ring.keep_times();
    const Seen now = now_in(ring);
    if (now.records < from.records) from = {};  // of an instance that is gone
    const uint64_t fresh = std::min<uint64_t>(now.records - from.records, obs::Ring::capacity);
    Kinds left{};
    from.records = now.records;
    for (uint64_t age = fresh; age-- > 0;) {
      const obs::Record& r = *ring.latest(age);
      ++left[static_cast<size_t>(r.what)];
      if (from.records < now.records || ring.time(age) >= end) {
        if (from.records == now.records) from.records = now.records - age - 1;
        continue;
      }
      news.instances.push_back({r.what, ring.time(age), {r.context, r.bytes, r.peer, r.tag}});
      ++from.counts[static_cast<size_t>(r.what)];
      --left[static_cast<size_t>(r.what)];
    }
    for (size_t kind = 0; kind < obs::kinds; ++kind) {
      const uint64_t lost = now.counts[kind] - from.counts[kind] - left[kind];
      news.dropped[kind] += lost;
      from.counts[kind] += lost;
    }
  });
}

/// What all lanes have recorded until now, in the order of time: what comes later on a lane that was looked at before must not be missing.
News take_news() {
  const std::lock_guard hold(state.lock);
  const auto all = lanes();
  seen.resize(all.size());
  News news;
  const uint64_t end = now_ns();
  for (size_t i = 0; i < all.size(); ++i) take_news(*all[i], seen[i], end, news);
  if (all.size() > 1) std::ranges::stable_sort(news.instances, {}, &Instance::time);
  return news;
}

/// The one that demands the least: at the end of a call everything is allowed.
Callback first_callback(const Registration& registration) {
  const auto first = std::ranges::find_if(registration.callbacks, [](const Callback& c) { return c.function != nullptr; });
  return first == registration.callbacks.end() ? Callback{} : *first;
}

using Hold = std::unique_lock<std::recursive_mutex>;

void tell(Hold& hold, const Registration& registration, const Instance& instance) {
  const Callback wants = first_callback(registration);
  if (!wants.function) return;
  hold.unlock();
  current = &instance;
  wants.function(reinterpret_cast<MPI_T_event_instance>(const_cast<Instance*>(&instance)), handle_of(registration), MPI_T_CB_REQUIRE_NONE,
                 wants.user_data);
  current = nullptr;
  hold.lock();
}

/// What was overwritten, and what no callback waits for.
void tell_dropped(Hold& hold, const Registration& registration, const News& news) {
  uint64_t dropped = news.dropped[static_cast<size_t>(registration.what)];
  const Callback wants = first_callback(registration);
  if (!wants.function) dropped += static_cast<uint64_t>(std::ranges::count(news.instances, registration.what, &Instance::what));
  const auto handler = registration.dropped;
  if (!dropped || !handler) return;
  hold.unlock();
  handler(static_cast<MPI_Count>(dropped), handle_of(registration), kRingSource, MPI_T_CB_REQUIRE_NONE, wants.user_data);
  hold.lock();
}

/// Callbacks may add and free registrations.
template <class Act>
void on_registrations(Act act) {
  std::vector<const Registration*> all;
  for (const auto& registration : registrations.all()) all.push_back(registration.get());
  for (const Registration* registration : all)
    if (!registration->gone) act(*registration);
}

/// Those that were freed meanwhile.
void end_delivery(Hold& hold) {
  std::vector<std::pair<MPI_T_event_registration, Registration>> freed;
  for (const auto& registration : registrations.all())
    if (registration->gone) freed.emplace_back(handle_of(*registration), *registration);
  for (const auto& [handle, gone] : freed) registrations.erase(registrations.find(handle));
  if (registrations.all().empty()) state.watched = false;
  delivering = false;
  hold.unlock();
  ended.notify_one();
  for (const auto& [handle, gone] : freed)
    if (gone.freed) gone.freed(handle, MPI_T_CB_REQUIRE_NONE, gone.freed_data);
}

const Instance* instance_of(MPI_T_event_instance handle) {
  return current && reinterpret_cast<MPI_T_event_instance>(const_cast<Instance*>(current)) == handle ? current : nullptr;
}

int new_info(MPI_Info* info) {
  comm::Info* const made = comm::Info::make();
  if (!made) return MPI_T_ERR_MEMORY;
  *info = encode(made);
  return MPI_SUCCESS;
}

}  // namespace

const std::vector<EventKind>& event_kinds() {
  using enum obs::What;
  static const std::vector<EventKind> all{
      {"pml_send", "pml", "a blocking send began", send},
      {"pml_receive", "pml", "a blocking receive began", receive},
      {"pml_isend", "pml", "a nonblocking send, or one of a collective's, began", isend},
      {"pml_ireceive", "pml", "a nonblocking receive, or one of a collective's, began", ireceive},
      {"pml_probe", "pml", "a blocking probe began", probe},
      {"coll_collective", "coll", "a collective operation began; the tag is its number", collective},
      {"pml_way_lost", "pml", "one of several ways to a peer was lost; the tag is its rail", way_lost},
      {"pml_way_back", "pml", "a lost way to a peer works again; the tag is its rail", way_back},
  };
  return all;
}

void drop_events() {
  if (delivering)
    for (const auto& registration : registrations.all()) registration->gone = true;
  else
    registrations.clear();
  state.watched = false;
}

void deliver() {
  constexpr std::chrono::milliseconds kPatience{1};  // so that rings are not overrun; for ever, and a callback could wait for this thread
  Hold hold(lock());
  if (current) return;                                                       // an MPI call of a callback
  if (!ended.wait_for(hold, kPatience, [] { return !delivering; })) return;  // whoever delivers next tells of it
  delivering = true;
  const News news = take_news();
  on_registrations([&](const Registration& r) { tell_dropped(hold, r, news); });
  for (const Instance& instance : news.instances)
    on_registrations([&](const Registration& r) {
      if (r.what == instance.what) tell(hold, r, instance);
    });
  end_delivery(hold);
}

}  // namespace weft::api::tool

namespace weft::body {

using namespace api::tool;

int T_event_get_num(int* num_events) {
  *num_events = static_cast<int>(event_kinds().size());
  return MPI_SUCCESS;
}

int T_event_get_info(int event_index, char* name, int* name_len, int* verbosity, MPI_Datatype array_of_datatypes[],
                     MPI_Aint array_of_displacements[], int* num_elements, MPI_T_enum* enumtype, MPI_Info* info, char* desc, int* desc_len,
                     int* bind) {
  if (!within(event_index, event_kinds())) return MPI_T_ERR_INVALID_INDEX;
  const EventKind& kind = event_kinds()[static_cast<size_t>(event_index)];
  give(name, name_len, kind.name);
  give(desc, desc_len, kind.description);
  give(verbosity, MPI_T_VERBOSITY_USER_DETAIL);
  for (int i = 0; num_elements && i < std::min(*num_elements, static_cast<int>(elements.size())); ++i) {
    if (array_of_datatypes) array_of_datatypes[i] = elements[static_cast<size_t>(i)].type;
    if (array_of_displacements) array_of_displacements[i] = elements[static_cast<size_t>(i)].displacement;
  }
  give(num_elements, elements.size());
  give(enumtype, MPI_T_ENUM_NULL);
  give(bind, MPI_T_BIND_NO_OBJECT);
  return info ? new_info(info) : MPI_SUCCESS;
}

int T_event_get_index(const char* name, int* event_index) {
  const auto found = std::ranges::find(event_kinds(), std::string_view(name), [](const EventKind& k) { return std::string_view(k.name); });
  if (found == event_kinds().end()) return MPI_T_ERR_INVALID_NAME;
  *event_index = static_cast<int>(found - event_kinds().begin());
  return MPI_SUCCESS;
}

int T_event_handle_alloc(int event_index, void*, comm::Info*, MPI_T_event_registration* event_registration) {
  if (!within(event_index, event_kinds())) return MPI_T_ERR_INVALID_INDEX;
  auto made = std::make_unique<Registration>();
  made->what = event_kinds()[static_cast<size_t>(event_index)].what;
  *event_registration = handle_of(*registrations.add(std::move(made)));
  if (!api::state.watched) begin_to_watch();
  return MPI_SUCCESS;
}

int T_event_handle_free(MPI_T_event_registration event_registration, void* user_data, MPI_T_event_free_cb_function free_cb_function) {
  Registration* const registration = find(event_registration);
  if (!registration) return MPI_T_ERR_INVALID_HANDLE;
  if (delivering) {  // its last callback may be under way
    registration->gone = true;
    registration->freed = free_cb_function;
    registration->freed_data = user_data;
    return MPI_SUCCESS;
  }
  registrations.erase(registration);
  if (registrations.all().empty()) api::state.watched = false;
  if (free_cb_function) free_cb_function(event_registration, MPI_T_CB_REQUIRE_NONE, user_data);
  return MPI_SUCCESS;
}

int T_event_register_callback(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety, comm::Info*, void* user_data,
                              MPI_T_event_cb_function event_cb_function) {
  Registration* const registration = find(event_registration);
  if (!registration) return MPI_T_ERR_INVALID_HANDLE;
  const int place = place_of(cb_safety);
  if (place < 0) return MPI_T_ERR_INVALID;
  registration->callbacks[static_cast<size_t>(place)] = {event_cb_function, user_data};
  return MPI_SUCCESS;
}

int T_event_set_dropped_handler(MPI_T_event_registration event_registration, MPI_T_event_dropped_cb_function dropped_cb_function) {
  Registration* const registration = find(event_registration);
  if (!registration) return MPI_T_ERR_INVALID_HANDLE;
  registration->dropped = dropped_cb_function;
  return MPI_SUCCESS;
}

// No info key is known: all of them are ignored, and what is in use is empty.

int T_event_handle_set_info(MPI_T_event_registration event_registration, comm::Info*) {
  return find(event_registration) ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}

int T_event_handle_get_info(MPI_T_event_registration event_registration, MPI_Info* info_used) {
  return find(event_registration) ? new_info(info_used) : MPI_T_ERR_INVALID_HANDLE;
}

int T_event_callback_set_info(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety, comm::Info*) {
  if (!find(event_registration)) return MPI_T_ERR_INVALID_HANDLE;
  return place_of(cb_safety) < 0 ? MPI_T_ERR_INVALID : MPI_SUCCESS;
}

int T_event_callback_get_info(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety, MPI_Info* info_used) {
  if (const int error = T_event_callback_set_info(event_registration, cb_safety, nullptr)) return error;
  return new_info(info_used);
}

int T_event_read(MPI_T_event_instance event_instance, int element_index, void* buffer) {
  const Instance* const instance = instance_of(event_instance);
  if (!instance) return MPI_T_ERR_INVALID_HANDLE;
  if (element_index < 0 || static_cast<size_t>(element_index) >= elements.size()) return MPI_T_ERR_INVALID_INDEX;
  const EventElement& element = elements[static_cast<size_t>(element_index)];
  memcpy(buffer, reinterpret_cast<const std::byte*>(&instance->data) + element.displacement, element.bytes);
  return MPI_SUCCESS;
}

int T_event_copy(MPI_T_event_instance event_instance, void* buffer) {
  const Instance* const instance = instance_of(event_instance);
  if (!instance) return MPI_T_ERR_INVALID_HANDLE;
  memcpy(buffer, &instance->data, sizeof instance->data);
  return MPI_SUCCESS;
}

int T_event_get_timestamp(MPI_T_event_instance event_instance, MPI_Count* event_timestamp) {
  const Instance* const instance = instance_of(event_instance);
  if (!instance) return MPI_T_ERR_INVALID_HANDLE;
  *event_timestamp = static_cast<MPI_Count>(instance->time);
  return MPI_SUCCESS;
}

int T_event_get_source(MPI_T_event_instance event_instance, int* source_index) {
  if (!instance_of(event_instance)) return MPI_T_ERR_INVALID_HANDLE;
  *source_index = kRingSource;
  return MPI_SUCCESS;
}

// Sources of events (15.3.8.2): one.

int T_source_get_num(int* num_sources) {
  *num_sources = 1;
  return MPI_SUCCESS;
}

int T_source_get_info(int source_index, char* name, int* name_len, char* desc, int* desc_len, MPI_T_source_order* ordering,
                      MPI_Count* ticks_per_second, MPI_Count* max_ticks, MPI_Info* info) {
  if (source_index != kRingSource) return MPI_T_ERR_INVALID_INDEX;
  give(name, name_len, "ring");
  give(desc, desc_len, "the process's latest operations; at most 256 of one MPI call");
  give(ordering, MPI_T_SOURCE_ORDERED);
  give(ticks_per_second, 1'000'000'000);
  give(max_ticks, LLONG_MAX);
  return info ? new_info(info) : MPI_SUCCESS;
}

int T_source_get_timestamp(int source_index, MPI_Count* timestamp) {
  if (source_index != kRingSource) return MPI_T_ERR_INVALID_INDEX;
  *timestamp = static_cast<MPI_Count>(now_ns());
  return MPI_SUCCESS;
}

}  // namespace weft::body
