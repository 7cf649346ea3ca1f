// The tools interface: variables, categories and events, and that what they say is what happens.
#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "check.h"
#include "counter.h"

using namespace check;

namespace {

/// A string as MPI_T returns it, through `get(char*, int*)`.
template <class Get>
std::string text(Get get) {
  int length = 0;
  CHECK(get(nullptr, &length) == MPI_SUCCESS);
  std::vector<char> room(static_cast<size_t>(length) + 1, 'x');
  int given = length;
  CHECK(get(room.data(), &given) == MPI_SUCCESS);
  CHECK(given == length);
  CHECK(length >= 1 && room[static_cast<size_t>(length) - 1] == 0 && room[static_cast<size_t>(length)] == 'x');
  if (length > 2) {  // a buffer that is too short
    given = 2;
    std::vector<char> little(3, 'x');
    CHECK(get(little.data(), &given) == MPI_SUCCESS);
    CHECK(given == length && little[0] == room[0] && little[1] == 0 && little[2] == 'x');
  }
  return room.data();
}

std::string control_name(int i) {
  return text(
      [&](char* at, int* n) { return MPI_T_cvar_get_info(i, at, n, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr); });
}
std::string figure_name(int i) {
  return text([&](char* at, int* n) {
    return MPI_T_pvar_get_info(i, at, n, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  });
}
std::string event_name(int i) {
  return text([&](char* at, int* n) {
    return MPI_T_event_get_info(i, at, n, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  });
}

void test_controls() {
  int n = 0;
  CHECK(MPI_T_cvar_get_num(&n) == MPI_SUCCESS && n > 10);
  std::set<std::string> names;
  for (int i = 0; i < n; ++i) {
    const std::string name = control_name(i);
    CHECK(names.insert(name).second);
    int found = -1, verbosity = 0, bind = 0, scope = 0, count = 0;
    CHECK(MPI_T_cvar_get_index(name.c_str(), &found) == MPI_SUCCESS && found == i);
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum items = MPI_T_ENUM_NULL;
    CHECK(MPI_T_cvar_get_info(i, nullptr, nullptr, &verbosity, &type, &items, nullptr, nullptr, &bind, &scope) == MPI_SUCCESS);
    CHECK(verbosity >= MPI_T_VERBOSITY_USER_BASIC && verbosity <= MPI_T_VERBOSITY_MPIDEV_ALL);
    CHECK(type == MPI_INT || type == MPI_COUNT || type == MPI_CHAR);
    CHECK((items != MPI_T_ENUM_NULL) == (type == MPI_INT));
    MPI_T_cvar_handle handle;
    CHECK(MPI_T_cvar_handle_alloc(i, nullptr, &handle, &count) == MPI_SUCCESS && count >= 1);
    std::vector<char> value(static_cast<size_t>(count) * sizeof(MPI_Count));
    CHECK(MPI_T_cvar_read(handle, value.data()) == MPI_SUCCESS);
    const MPI_T_cvar_handle gone = handle;
    CHECK(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS && handle == MPI_T_CVAR_HANDLE_NULL);
    CHECK(MPI_T_cvar_read(gone, value.data()) == MPI_T_ERR_INVALID_HANDLE);
  }
  CHECK(names.count("WEFT_NET") == 1);
  int index;
  CHECK(MPI_T_cvar_get_index("WEFT_NO_SUCH", &index) == MPI_T_ERR_INVALID_NAME);
}

MPI_T_cvar_handle control(const char* name, int* count) {
  int index = -1;
  CHECK(MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS);
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  CHECK(MPI_T_cvar_handle_alloc(index, nullptr, &handle, count) == MPI_SUCCESS);
  return handle;
}

/// Before MPI_Init variables can be set; what is set then holds against the environment.
void set_controls() {
  setenv("WEFT_PML_WINDOW", "128K", 1);
  int count = 0;
  const MPI_T_cvar_handle window = control("WEFT_PML_WINDOW", &count);
  const MPI_Count bytes = 300000;
  CHECK(MPI_T_cvar_write(window, &bytes) == MPI_SUCCESS);
  const MPI_Count negative = -1;
  CHECK(MPI_T_cvar_write(window, &negative) == MPI_T_ERR_INVALID);
}

void test_set_controls() {
  int count = 0;
  const MPI_T_cvar_handle window = control("WEFT_PML_WINDOW", &count);
  MPI_Count value = 0;
  CHECK(MPI_T_cvar_read(window, &value) == MPI_SUCCESS && value == 300000);
  CHECK(MPI_T_cvar_write(window, &value) == MPI_T_ERR_CVAR_SET_NOT_NOW);
  const MPI_T_cvar_handle net = control("WEFT_NET", &count);
  std::vector<char> wires(static_cast<size_t>(count));
  CHECK(MPI_T_cvar_read(net, wires.data()) == MPI_SUCCESS && memchr(wires.data(), 0, wires.size()));
  MPI_T_enum items = MPI_T_ENUM_NULL;
  int n = 0, answer = -1;
  for (int i = 0; items == MPI_T_ENUM_NULL; ++i)
    if (MPI_T_cvar_get_info(i, nullptr, nullptr, nullptr, nullptr, &items, nullptr, nullptr, nullptr, nullptr) != MPI_SUCCESS) break;
  CHECK(MPI_T_enum_get_info(items, &n, nullptr, nullptr) == MPI_SUCCESS && n == 2);
  CHECK(text([&](char* at, int* room) { return MPI_T_enum_get_item(items, 1, &answer, at, room); }) == "yes" && answer == 1);
  CHECK(MPI_T_enum_get_item(items, 2, &answer, nullptr, nullptr) == MPI_T_ERR_INVALID_INDEX);
}

struct Watch {
  MPI_T_pvar_session session = MPI_T_PVAR_SESSION_NULL;
  std::map<std::string, MPI_T_pvar_handle> handles;
  Watch() {
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    int n = 0;
    CHECK(MPI_T_pvar_get_num(&n) == MPI_SUCCESS && n > 0);
    for (int i = 0; i < n; ++i) {
      int var_class = 0, found = -1, count = 0, readonly = -1, continuous = -1, atomic = -1;
      MPI_Datatype type = MPI_DATATYPE_NULL;
      CHECK(MPI_T_pvar_get_info(i, nullptr, nullptr, nullptr, &var_class, &type, nullptr, nullptr, nullptr, nullptr, &readonly, &continuous,
                                &atomic) == MPI_SUCCESS);
      CHECK(type == MPI_UNSIGNED_LONG_LONG && continuous == 1 && readonly >= 0 && atomic >= 0);
      const std::string name = figure_name(i);
      CHECK(MPI_T_pvar_get_index(name.c_str(), var_class, &found) == MPI_SUCCESS && found == i);
      CHECK(MPI_T_pvar_get_index(name.c_str(), MPI_T_PVAR_CLASS_TIMER, &found) == MPI_T_ERR_INVALID_NAME);
      CHECK(handles.count(name) == 0);
      CHECK(MPI_T_pvar_handle_alloc(session, i, nullptr, &handles[name], &count) == MPI_SUCCESS && count == 1);
    }
  }
  unsigned long long operator[](const char* name) {
    unsigned long long value = ~0ull;
    CHECK(handles.count(name) == 1);
    CHECK(MPI_T_pvar_read(session, handles[name], &value) == MPI_SUCCESS);
    return value;
  }
};

/// Other ranks' messages, of collectives to come, may add to a counter.
bool about(unsigned long long value, unsigned long long wanted) { return value >= wanted && value < wanted + 1000; }

void test_figures() {
  Watch one, two;
  const auto before = one["pml_unexpected_messages"];
  char data[8] = "weft";
  MPI_Request request;
  MPI_Irecv(data, 8, MPI_CHAR, rank, 3, MPI_COMM_WORLD, &request);
  CHECK(one["pml_posted_receives"] >= 1);
  MPI_Ssend("to me", 6, MPI_CHAR, rank, 3, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Send("early", 6, MPI_CHAR, rank, 4, MPI_COMM_WORLD);
  int flag = 0;
  while (!flag) MPI_Iprobe(rank, 4, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  CHECK(one["pml_waiting_messages"] >= 1 && one["pml_unexpected_bytes"] >= 6);
  MPI_Recv(data, 8, MPI_CHAR, rank, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(one["pml_unexpected_bytes_peak"] >= 6);
  CHECK(about(one["pml_unexpected_messages"], before + 1) && about(two["pml_unexpected_messages"], before + 1));

  // A session resets its own view only.
  const auto arrivals = one.handles["pml_unexpected_messages"];
  unsigned long long value = 70000;
  CHECK(MPI_T_pvar_write(one.session, arrivals, &value) == MPI_SUCCESS && about(one["pml_unexpected_messages"], 70000));
  CHECK(about(two["pml_unexpected_messages"], before + 1));
  CHECK(MPI_T_pvar_readreset(one.session, arrivals, &value) == MPI_SUCCESS && about(value, 70000));
  CHECK(about(one["pml_unexpected_messages"], 0));
  value = 80000;
  CHECK(MPI_T_pvar_write(one.session, arrivals, &value) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_write(two.session, two.handles["pml_unexpected_messages"], &value) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_reset(one.session, arrivals) == MPI_SUCCESS && about(one["pml_unexpected_messages"], 0));
  CHECK(about(two["pml_unexpected_messages"], 80000));
  CHECK(MPI_T_pvar_reset(one.session, one.handles["pml_posted_receives"]) == MPI_T_ERR_PVAR_NO_WRITE);
  CHECK(MPI_T_pvar_readreset(one.session, one.handles["pml_posted_receives"], &value) == MPI_T_ERR_PVAR_NO_ATOMIC);
  CHECK(MPI_T_pvar_reset(two.session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS && about(two["pml_unexpected_messages"], 0));
  CHECK(MPI_T_pvar_start(one.session, arrivals) == MPI_T_ERR_PVAR_NO_STARTSTOP);
  CHECK(MPI_T_pvar_start(one.session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_read(two.session, arrivals, &value) == MPI_T_ERR_INVALID_HANDLE);
  MPI_T_pvar_handle handle = arrivals;
  CHECK(MPI_T_pvar_handle_free(one.session, &handle) == MPI_SUCCESS && handle == MPI_T_PVAR_HANDLE_NULL);
  CHECK(MPI_T_pvar_read(one.session, arrivals, &value) == MPI_T_ERR_INVALID_HANDLE);
  const MPI_T_pvar_session gone = two.session;
  CHECK(MPI_T_pvar_session_free(&two.session) == MPI_SUCCESS && two.session == MPI_T_PVAR_SESSION_NULL);
  CHECK(MPI_T_pvar_read(gone, arrivals, &value) == MPI_T_ERR_INVALID_SESSION);
  CHECK(MPI_T_pvar_session_free(&one.session) == MPI_SUCCESS);
}

/// Every variable and event is in one category, and the categories hang together.
void test_categories() {
  int n = 0, stamp = -1;
  CHECK(MPI_T_category_get_num(&n) == MPI_SUCCESS && n > 1);
  CHECK(MPI_T_category_changed(&stamp) == MPI_SUCCESS);
  std::set<int> controls, figures, events, below;
  const auto collect = [](int category, int count, auto get, std::set<int>& into) {
    std::vector<int> indices(static_cast<size_t>(count) + 1, -5);
    CHECK(get(category, count, indices.data()) == MPI_SUCCESS);
    CHECK(indices[static_cast<size_t>(count)] == -5);
    for (int i = 0; i < count; ++i) CHECK(into.insert(indices[static_cast<size_t>(i)]).second);
  };
  for (int i = 0; i < n; ++i) {
    int c = 0, p = 0, k = 0, e = 0, found = -1;
    const std::string name =
        text([&](char* at, int* room) { return MPI_T_category_get_info(i, at, room, nullptr, nullptr, nullptr, nullptr, nullptr); });
    CHECK(MPI_T_category_get_index(name.c_str(), &found) == MPI_SUCCESS && found == i);
    CHECK(MPI_T_category_get_info(i, nullptr, nullptr, nullptr, nullptr, &c, &p, &k) == MPI_SUCCESS);
    CHECK(MPI_T_category_get_num_events(i, &e) == MPI_SUCCESS);
    collect(i, c, MPI_T_category_get_cvars, controls);
    collect(i, p, MPI_T_category_get_pvars, figures);
    collect(i, e, MPI_T_category_get_events, events);
    collect(i, k, MPI_T_category_get_categories, below);
  }
  int all = 0;
  CHECK(MPI_T_cvar_get_num(&all) == MPI_SUCCESS && controls.size() == static_cast<size_t>(all));
  CHECK(MPI_T_pvar_get_num(&all) == MPI_SUCCESS && figures.size() == static_cast<size_t>(all));
  CHECK(MPI_T_event_get_num(&all) == MPI_SUCCESS && events.size() == static_cast<size_t>(all));
  CHECK(below.size() == static_cast<size_t>(n) - 1 && below.count(0) == 0);
}

struct Heard {
  std::vector<int> tags;
  std::vector<MPI_Count> times;
  unsigned long long bytes = 0;
  MPI_Count dropped = 0;
  bool freed = false;
  bool again = false;  ///< calls MPI from the callback
};

void on_event(MPI_T_event_instance instance, MPI_T_event_registration, MPI_T_cb_safety level, void* user_data) {
  auto& heard = *static_cast<Heard*>(user_data);
  CHECK(level == MPI_T_CB_REQUIRE_NONE);
  unsigned long long bytes = 0;
  int tag = -1, source = -1;
  MPI_Count time = 0;
  CHECK(MPI_T_event_read(instance, 1, &bytes) == MPI_SUCCESS);
  CHECK(MPI_T_event_read(instance, 3, &tag) == MPI_SUCCESS);
  CHECK(MPI_T_event_read(instance, 4, &tag) == MPI_T_ERR_INVALID_INDEX);
  CHECK(MPI_T_event_get_timestamp(instance, &time) == MPI_SUCCESS);
  CHECK(MPI_T_event_get_source(instance, &source) == MPI_SUCCESS && source == 0);
  struct {
    unsigned long long context, bytes;
    int peer, tag;
  } copy;
  CHECK(MPI_T_event_copy(instance, &copy) == MPI_SUCCESS);
  CHECK(copy.bytes == bytes && copy.tag == tag);
  heard.tags.push_back(tag);
  heard.times.push_back(time);
  heard.bytes += bytes;
  if (heard.again) MPI_Send(nullptr, 0, MPI_INT, MPI_PROC_NULL, 99, MPI_COMM_WORLD);
}
void on_drop(MPI_Count count, MPI_T_event_registration, int, MPI_T_cb_safety, void* user_data) {
  static_cast<Heard*>(user_data)->dropped += count;
}
void on_free(MPI_T_event_registration, MPI_T_cb_safety, void* user_data) { static_cast<Heard*>(user_data)->freed = true; }

MPI_T_event_registration listen(const char* name, Heard& heard) {
  int index = -1;
  CHECK(MPI_T_event_get_index(name, &index) == MPI_SUCCESS);
  CHECK(event_name(index) == name);
  MPI_T_event_registration registration{};
  CHECK(MPI_T_event_handle_alloc(index, nullptr, MPI_INFO_NULL, &registration) == MPI_SUCCESS);
  CHECK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &heard, on_event) == MPI_SUCCESS);
  CHECK(MPI_T_event_set_dropped_handler(registration, on_drop) == MPI_SUCCESS);
  return registration;
}

void test_events() {
  int elements = 0;
  CHECK(MPI_T_event_get_info(0, nullptr, nullptr, nullptr, nullptr, nullptr, &elements, nullptr, nullptr, nullptr, nullptr, nullptr) ==
        MPI_SUCCESS);
  CHECK(elements == 4);
  MPI_Count start = 0, end = 0, ticks = 0;
  CHECK(MPI_T_source_get_info(0, nullptr, nullptr, nullptr, nullptr, nullptr, &ticks, nullptr, nullptr) == MPI_SUCCESS && ticks > 0);
  CHECK(MPI_T_source_get_timestamp(0, &start) == MPI_SUCCESS);
  Heard sends, collectives;
  const auto on_sends = listen("pml_isend", sends), on_collectives = listen("coll_collective", collectives);
  sends.again = true;
  char data[8];
  MPI_Request requests[2];
  for (int i = 0; i < 10; ++i) {
    MPI_Irecv(data, 8, MPI_CHAR, rank, 100 + i, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend("event", 6, MPI_CHAR, rank, 100 + i, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  CHECK(sends.tags.size() == 10 && sends.bytes == 60);
  CHECK(MPI_T_source_get_timestamp(0, &end) == MPI_SUCCESS);
  MPI_Count last = start;
  for (size_t i = 0; i < sends.tags.size(); ++i) {
    CHECK(sends.tags[i] == 100 + static_cast<int>(i));
    CHECK(sends.times[i] >= last && sends.times[i] <= end);
    last = sends.times[i];
  }
  const size_t had = collectives.tags.size();
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, data, 8, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD);
  CHECK(collectives.tags.size() == had + 2);
  MPI_T_cb_safety odd = static_cast<MPI_T_cb_safety>(4);
  CHECK(MPI_T_event_register_callback(on_sends, odd, MPI_INFO_NULL, nullptr, on_event) == MPI_T_ERR_INVALID);
  MPI_Info info = MPI_INFO_NULL;
  CHECK(MPI_T_event_handle_get_info(on_sends, &info) == MPI_SUCCESS && info != MPI_INFO_NULL);
  MPI_Info_free(&info);

  // More in one call than the ring keeps.
  constexpr int many = 1000;
  std::vector<MPI_Request> all(many);
  for (int i = 0; i < many; ++i) MPI_Send_init(data, 0, MPI_CHAR, MPI_PROC_NULL, 0, MPI_COMM_SELF, &all[static_cast<size_t>(i)]);
  for (int i = 0; i < many / 2; ++i) {
    MPI_Request_free(&all[static_cast<size_t>(i)]);
    MPI_Recv_init(data, 0, MPI_CHAR, 0, i, MPI_COMM_SELF, &all[static_cast<size_t>(i)]);
  }
  for (int i = many / 2; i < many; ++i) {
    MPI_Request_free(&all[static_cast<size_t>(i)]);
    MPI_Send_init(data, 0, MPI_CHAR, 0, i - many / 2, MPI_COMM_SELF, &all[static_cast<size_t>(i)]);
  }
  const size_t before = sends.tags.size();
  MPI_Startall(many, all.data());
  MPI_Waitall(many, all.data(), MPI_STATUSES_IGNORE);
  CHECK(sends.dropped > 0 && sends.tags.size() > before);
  CHECK(static_cast<MPI_Count>(sends.tags.size() - before) + sends.dropped >= many / 2);
  for (MPI_Request& r : all) MPI_Request_free(&r);

  CHECK(MPI_T_event_handle_free(on_sends, &sends, on_free) == MPI_SUCCESS && sends.freed);
  CHECK(MPI_T_event_handle_free(on_sends, nullptr, nullptr) == MPI_T_ERR_INVALID_HANDLE);
  CHECK(MPI_T_event_handle_free(on_collectives, nullptr, nullptr) == MPI_SUCCESS);
  const size_t quiet = sends.tags.size();
  MPI_Isend(data, 0, MPI_CHAR, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  CHECK(sends.tags.size() == quiet);
}

struct Meeting {
  MPI_Comm comm;
  std::atomic<bool> begun{false};
  int got[2] = {};
};

/// A callback may receive what another thread of this process sends meanwhile.
void test_waiting_callback() {
  Meeting meeting;
  MPI_Comm_dup(MPI_COMM_SELF, &meeting.comm);
  int index = 0;
  MPI_T_event_get_index("coll_collective", &index);
  MPI_T_event_registration registration;
  MPI_T_event_handle_alloc(index, nullptr, MPI_INFO_NULL, &registration);
  const auto callback = [](MPI_T_event_instance, MPI_T_event_registration, MPI_T_cb_safety, void* data) {
    auto& m = *static_cast<Meeting*>(data);
    if (m.begun.exchange(true)) return;
    for (int i = 0; i < 2; ++i) MPI_Recv(&m.got[i], 1, MPI_INT, 0, i, m.comm, MPI_STATUS_IGNORE);
  };
  MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &meeting, callback);
  std::thread sender([&] {
    while (!meeting.begun) std::this_thread::yield();
    for (int i = 0; i < 2; ++i) MPI_Send(&i, 1, MPI_INT, 0, i, meeting.comm);
  });
  MPI_Barrier(MPI_COMM_SELF);
  sender.join();
  CHECK(meeting.got[0] == 0 && meeting.got[1] == 1);
  MPI_T_event_handle_free(registration, nullptr, nullptr);
  MPI_Comm_free(&meeting.comm);
}

struct Course {
  MPI_Count last = 0, dropped = 0;
  int told = 0, back = 0;
};

/// Events of several threads come in the order that their source promises; what is not told is counted.
void test_events_of_threads() {
  constexpr int each = 500, threads = 3;
  Course course;
  int index = 0;
  MPI_T_event_get_index("pml_isend", &index);
  MPI_T_event_registration registration;
  MPI_T_event_handle_alloc(index, nullptr, MPI_INFO_NULL, &registration);
  MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &course,
                                [](MPI_T_event_instance instance, MPI_T_event_registration, MPI_T_cb_safety, void* data) {
                                  auto& c = *static_cast<Course*>(data);
                                  MPI_Count time = 0;
                                  CHECK(MPI_T_event_get_timestamp(instance, &time) == MPI_SUCCESS);
                                  c.back += time < c.last;
                                  c.last = time;
                                  ++c.told;
                                });
  MPI_T_event_set_dropped_handler(registration, [](MPI_Count count, MPI_T_event_registration, int, MPI_T_cb_safety, void* data) {
    static_cast<Course*>(data)->dropped += count;
  });
  MPI_Comm comms[threads];
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_SELF, &comm);
  std::vector<std::thread> all;
  for (const MPI_Comm comm : comms)
    all.emplace_back([comm] {
      for (int i = 0; i < each; ++i) {
        MPI_Request requests[2];
        MPI_Irecv(nullptr, 0, MPI_INT, 0, 0, comm, &requests[0]);
        MPI_Isend(nullptr, 0, MPI_INT, 0, 0, comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      }
    });
  for (std::thread& t : all) t.join();
  MPI_Barrier(MPI_COMM_SELF);  // tells what is left
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  CHECK(course.back == 0);
  CHECK(course.told + course.dropped >= each * threads);
  MPI_T_event_handle_free(registration, nullptr, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  int n = 0, provided = -1;
  CHECK(MPI_T_cvar_get_num(&n) == MPI_T_ERR_NOT_INITIALIZED);
  CHECK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS && provided == MPI_THREAD_MULTIPLE);
  CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
  test_controls();
  set_controls();
  begin(argc, argv, MPI_THREAD_MULTIPLE);
  test_set_controls();
  test_figures();
  test_categories();
  test_events();
  test_waiting_callback();
  test_events_of_threads();
  CHECK(MPI_T_finalize() == MPI_SUCCESS);
  CHECK(MPI_T_cvar_get_num(&n) == MPI_SUCCESS);
  const check::Counter counter("pml_operations");  // of receives, asked before the end of MPI and after it
  const unsigned long long had = counter.value();
  MPI_T_pvar_reset(counter.session, counter.handle);
  const int failed = end("tools");
  const unsigned long long since = counter.value();  // what end() did
  CHECK(had > 0 && since > 0 && since < had);
  CHECK(MPI_T_finalize() == MPI_SUCCESS);
  CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
  return failed || failures != 0;
}
