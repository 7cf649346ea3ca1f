// Performance variables (MPI 5.0, 15.3.7): the figures of runtime/obs. All run from the start of MPI on; resetting or writing one moves the
// base of that handle alone, so that sessions do not disturb each other.
#include <string>

#include "api/generated/bodies.h"
#include "api/raise.h"
#include "api/tool/tool.h"

namespace weft::api::tool {
namespace {

struct Session {};
struct Reading {
  const Session* session;
  size_t place;       ///< of the figure
  uint64_t base = 0;  ///< a counter's value shows what came since
};
Registry<Session> sessions;
Registry<Reading> handles;
obs::Tally past;  // of instances that have ended; guarded by state.lock

std::string name_of(const obs::Figure& figure) { return std::string(figure.module) + "_" + figure.name; }

int class_of(const obs::Figure& figure) {
  switch (figure.gauge) {
    case obs::Gauge::counter: return MPI_T_PVAR_CLASS_COUNTER;
    case obs::Gauge::level: return MPI_T_PVAR_CLASS_LEVEL;
    case obs::Gauge::peak: break;
  }
  return MPI_T_PVAR_CLASS_HIGHWATERMARK;
}

bool resettable(const Reading& reading) { return figures()[reading.place].gauge == obs::Gauge::counter; }

void report(obs::Tally& into) {
  if (state.instance)
    for (const auto& lane : state.instance->lanes().all()) lane->report(into);
}

/// The figures, as they have come to be since the start of the process.
std::vector<uint64_t> tally() {
  obs::Tally now;
  const std::lock_guard hold(state.lock);  // keeps the instance
  report(now);
  std::vector<uint64_t> values;
  for (size_t place = 0; place < figures().size(); ++place) {
    const obs::Gauge gauge = figures()[place].gauge;
    const uint64_t before = gauge == obs::Gauge::level ? 0 : past.at(place);
    values.push_back(gauge == obs::Gauge::peak ? std::max(before, now.at(place)) : before + now.at(place));
  }
  return values;
}

uint64_t value_of(const Reading& reading, const std::vector<uint64_t>& now) {
  return resettable(reading) ? now[reading.place] - reading.base : now[reading.place];
}

/// Runs `act` on one handle of a session, or on all of them.
template <class Act>
int on_handles(MPI_T_pvar_session session, MPI_T_pvar_handle handle, bool all_allowed, Act act) {
  const Session* const in = sessions.find(session);
  if (!in) return MPI_T_ERR_INVALID_SESSION;
  if (all_allowed && handle == MPI_T_PVAR_ALL_HANDLES) {
    for (const auto& reading : handles.all())
      if (reading->session == in) act(*reading);
    return MPI_SUCCESS;
  }
  Reading* const reading = handles.find(handle);
  return reading && reading->session == in ? act(*reading) : MPI_T_ERR_INVALID_HANDLE;
}

int reset(Reading& reading, const std::vector<uint64_t>& now) {
  if (!resettable(reading)) return MPI_T_ERR_PVAR_NO_WRITE;
  reading.base = now[reading.place];
  return MPI_SUCCESS;
}

}  // namespace

const std::vector<obs::Figure>& figures() {
  static const std::vector<obs::Figure> all = obs::all_figures();
  return all;
}

void keep_figures() { report(past); }

void drop_figures() {
  handles.clear();
  sessions.clear();
}

}  // namespace weft::api::tool

namespace weft::body {

using namespace api::tool;

int T_pvar_get_num(int* num_pvar) {
  *num_pvar = static_cast<int>(figures().size());
  return MPI_SUCCESS;
}

int T_pvar_get_info(int pvar_index, char* name, int* name_len, int* verbosity, int* var_class, MPI_Datatype* datatype, MPI_T_enum* enumtype,
                    char* desc, int* desc_len, int* bind, int* readonly, int* continuous, int* atomic) {
  if (!within(pvar_index, figures())) return MPI_T_ERR_INVALID_INDEX;
  const obs::Figure& figure = figures()[static_cast<size_t>(pvar_index)];
  give(name, name_len, name_of(figure));
  give(desc, desc_len, figure.help);
  give(verbosity, MPI_T_VERBOSITY_USER_DETAIL);
  give(var_class, class_of(figure));
  give(datatype, MPI_UNSIGNED_LONG_LONG);
  give(enumtype, MPI_T_ENUM_NULL);
  give(bind, MPI_T_BIND_NO_OBJECT);
  give(readonly, figure.gauge != obs::Gauge::counter);
  give(continuous, 1);
  give(atomic, figure.gauge == obs::Gauge::counter);
  return MPI_SUCCESS;
}

int T_pvar_get_index(const char* name, int var_class, int* pvar_index) {
  const auto found = std::ranges::find_if(figures(), [&](const obs::Figure& f) { return name_of(f) == name && class_of(f) == var_class; });
  if (found == figures().end()) return MPI_T_ERR_INVALID_NAME;
  *pvar_index = static_cast<int>(found - figures().begin());
  return MPI_SUCCESS;
}

int T_pvar_session_create(MPI_T_pvar_session* pe_session) {
  *pe_session = reinterpret_cast<MPI_T_pvar_session>(sessions.add(std::make_unique<Session>()));
  return MPI_SUCCESS;
}

int T_pvar_session_free(MPI_T_pvar_session* pe_session) {
  const Session* const session = sessions.find(*pe_session);
  if (!session) return MPI_T_ERR_INVALID_SESSION;
  std::vector<const Reading*> gone;
  for (const auto& reading : handles.all())
    if (reading->session == session) gone.push_back(reading.get());
  for (const Reading* reading : gone) handles.erase(reading);
  sessions.erase(session);
  *pe_session = MPI_T_PVAR_SESSION_NULL;
  return MPI_SUCCESS;
}

int T_pvar_handle_alloc(MPI_T_pvar_session pe_session, int pvar_index, void*, MPI_T_pvar_handle* handle, int* count) {
  if (!within(pvar_index, figures())) return MPI_T_ERR_INVALID_INDEX;
  const Session* const session = sessions.find(pe_session);
  if (!session) return MPI_T_ERR_INVALID_SESSION;
  *handle = reinterpret_cast<MPI_T_pvar_handle>(handles.add(std::make_unique<Reading>(Reading{session, static_cast<size_t>(pvar_index)})));
  *count = 1;
  return MPI_SUCCESS;
}

int T_pvar_handle_free(MPI_T_pvar_session pe_session, MPI_T_pvar_handle* handle) {
  return on_handles(pe_session, *handle, false, [&](Reading& reading) {
    handles.erase(&reading);
    *handle = MPI_T_PVAR_HANDLE_NULL;
    return MPI_SUCCESS;
  });
}

/// All figures run all the time. For all handles at once those that cannot are left out (15.3.7).
int T_pvar_start(MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle) {
  return on_handles(pe_session, handle, true, [](Reading&) { return MPI_T_ERR_PVAR_NO_STARTSTOP; });
}

int T_pvar_stop(MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle) { return T_pvar_start(pe_session, handle); }

int T_pvar_read(MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle, void* buf) {
  return on_handles(pe_session, handle, false, [&](Reading& reading) {
    *static_cast<unsigned long long*>(buf) = value_of(reading, tally());
    return MPI_SUCCESS;
  });
}

int T_pvar_write(MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle, const void* buf) {
  return on_handles(pe_session, handle, false, [&](Reading& reading) {
    if (!resettable(reading)) return MPI_T_ERR_PVAR_NO_WRITE;
    reading.base = tally()[reading.place] - *static_cast<const unsigned long long*>(buf);
    return MPI_SUCCESS;
  });
}

int T_pvar_reset(MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle) {
  const std::vector<uint64_t> now = tally();
  return on_handles(pe_session, handle, true, [&](Reading& reading) { return reset(reading, now); });
}

int T_pvar_readreset(MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle, void* buf) {
  const std::vector<uint64_t> now = tally();
  return on_handles(pe_session, handle, false, [&](Reading& reading) {
    if (!resettable(reading)) return MPI_T_ERR_PVAR_NO_ATOMIC;
    *static_cast<unsigned long long*>(buf) = value_of(reading, now);
    return reset(reading, now);
  });
}

}  // namespace weft::body
