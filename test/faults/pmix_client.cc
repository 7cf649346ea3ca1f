// A rank that calls PMIx itself, for what a job's servers offer beyond runtime/boot. Run under mpirun; rank 0 says "passed".
//   pmix_client names     publish, look up (waiting or not), ranges, persistence, unpublish
//   pmix_client groups    groups over all and over some ranks at once: context ids, data of the members; connect and disconnect
//   pmix_client events    one rank tells the others
#include <pmix.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

pmix_proc_t self;
uint32_t size;

[[noreturn]] void wrong(const std::string& what, pmix_status_t status = PMIX_SUCCESS) {
  fprintf(stderr, "rank %u: %s: %s\n", self.rank, what.c_str(), PMIx_Error_string(status));
  exit(99);
}

void want(const char* what, pmix_status_t status, pmix_status_t wanted = PMIX_SUCCESS) {
  if (status != wanted) wrong(std::string(what) + " is not " + PMIx_Error_string(wanted) + " but", status);
}

pmix_proc_t peer(uint32_t rank) {
  pmix_proc_t proc = self;
  proc.rank = rank;
  return proc;
}

class Infos {
 public:
  ~Infos() {
    for (pmix_info_t& info : list_) PMIX_INFO_DESTRUCT(&info);
  }
  Infos& add(const char* key, const void* value, pmix_data_type_t type) {
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, key, value, type);
    list_.push_back(info);
    return *this;
  }
  Infos& flag(const char* key) {
    const bool yes = true;
    return add(key, &yes, PMIX_BOOL);
  }
  Infos& number(const char* key, int value) { return add(key, &value, PMIX_INT); }
  pmix_info_t* data() { return list_.data(); }
  size_t count() const { return list_.size(); }

 private:
  std::vector<pmix_info_t> list_;
};

void fence() {
  const pmix_proc_t all = peer(PMIX_RANK_WILDCARD);
  want("fence", PMIx_Fence(&all, 1, nullptr, 0));
}

void put(const std::string& key, const std::string& text) {
  pmix_value_t value{};
  value.type = PMIX_STRING;
  value.data.string = const_cast<char*>(text.c_str());
  want("put", PMIx_Put(PMIX_GLOBAL, key.c_str(), &value));
  want("commit", PMIx_Commit());
}

std::string get(uint32_t rank, const std::string& key, bool local_only = false) {
  const pmix_proc_t who = peer(rank);
  pmix_value_t* value = nullptr;
  Infos infos;
  if (local_only) infos.flag(PMIX_OPTIONAL);
  want(("get of " + key).c_str(), PMIx_Get(&who, key.c_str(), infos.data(), infos.count(), &value));
  const std::string text = value->type == PMIX_STRING ? value->data.string : "?";
  PMIX_VALUE_RELEASE(value);
  return text;
}

pmix_status_t publish(const std::string& key, const std::string& text, pmix_data_range_t range = PMIX_RANGE_SESSION,
                      pmix_persistence_t lasting = PMIX_PERSIST_SESSION) {
  Infos infos;
  infos.add(key.c_str(), text.c_str(), PMIX_STRING).add(PMIX_RANGE, &range, PMIX_DATA_RANGE).add(PMIX_PERSISTENCE, &lasting, PMIX_PERSIST);
  return PMIx_Publish(infos.data(), infos.count());
}

pmix_status_t lookup(const std::string& key, std::string& text, bool wait = false, int timeout = 0) {
  pmix_pdata_t data;
  PMIX_PDATA_CONSTRUCT(&data);
  PMIX_LOAD_KEY(data.key, key.c_str());
  Infos infos;
  if (wait) infos.number(PMIX_WAIT, 0);
  if (timeout) infos.number(PMIX_TIMEOUT, timeout);
  const pmix_status_t status = PMIx_Lookup(&data, 1, infos.data(), infos.count());
  text = data.value.type == PMIX_STRING ? data.value.data.string : "";
  PMIX_PDATA_DESTRUCT(&data);
  return status;
}

void unpublish(const std::string& key) {
  char* keys[] = {const_cast<char*>(key.c_str()), nullptr};
  want("unpublish", PMIx_Unpublish(keys, nullptr, 0));
}

void names() {
  std::string text;
  const uint32_t last = size - 1;
  if (self.rank == last) {
    usleep(200'000);  // the others wait already, mostly
    want("publish", publish("here", "port of the last"));
    want("publish again", publish("here", "another"), PMIX_ERR_DUPLICATE_KEY);
  }
  want("lookup with wait", lookup("here", text, true));
  if (text != "port of the last") wrong("looked up \"" + text + "\"");
  want("lookup of nothing", lookup("nowhere", text), PMIX_ERR_NOT_FOUND);
  if (self.rank == 0) want("lookup that waits in vain", lookup("nowhere", text, true, 1), PMIX_ERR_TIMEOUT);
  // each rank its own, for different circles
  const std::string mine = std::to_string(self.rank);
  want("publish for the namespace", publish("space" + mine, mine, PMIX_RANGE_NAMESPACE));
  want("publish for itself", publish("self", mine, PMIX_RANGE_PROC_LOCAL));
  want("publish for one reader", publish("once" + mine, mine, PMIX_RANGE_SESSION, PMIX_PERSIST_FIRST_READ));
  fence();
  for (uint32_t r = 0; r < size; r++) {
    want("lookup in the namespace", lookup("space" + std::to_string(r), text));
    if (text != std::to_string(r)) wrong("wrong value of rank " + std::to_string(r));
  }
  want("lookup of its own", lookup("self", text));
  if (text != mine) wrong("another's private value");
  const std::string next = std::to_string((self.rank + 1) % size);
  want("first reading", lookup("once" + next, text));
  want("second reading", lookup("once" + next, text), PMIX_ERR_NOT_FOUND);
  const std::string big(100'000, char('a' + self.rank % 26));
  want("publish much", publish("big" + mine, big));
  want("lookup much", lookup("big" + next, text, true));
  if (text.size() != big.size()) wrong("much has become " + std::to_string(text.size()));
  fence();
  if (self.rank == last) unpublish("here");
  fence();
  want("lookup after unpublish", lookup("here", text), PMIX_ERR_NOT_FOUND);
  fence();
  want("publish after unpublish", self.rank ? PMIX_SUCCESS : publish("here", "new"));
}

size_t construct(const std::string& name, const std::vector<pmix_proc_t>& members) {
  Infos infos;
  infos.flag(PMIX_GROUP_ASSIGN_CONTEXT_ID);
  pmix_info_t* results = nullptr;
  size_t count = 0, context = 0;
  want(("construct " + name).c_str(),
       PMIx_Group_construct(name.c_str(), members.data(), members.size(), infos.data(), infos.count(), &results, &count));
  for (size_t i = 0; i < count; i++)
    if (!strcmp(results[i].key, PMIX_GROUP_CONTEXT_ID)) context = results[i].value.data.size;
  if (results) PMIX_INFO_FREE(results, count);
  if (!context) wrong(name + " has no context id");
  return context;
}

void groups() {
  std::vector<pmix_proc_t> all, like;
  for (uint32_t r = 0; r < size; r++) {
    all.push_back(peer(r));
    if (r % 2 == self.rank % 2) like.push_back(peer(r));
  }
  std::vector<size_t> contexts;
  put("before", "told by " + std::to_string(self.rank));
  contexts.push_back(construct("whole", all));
  for (uint32_t r = 0; r < size; r++)  // came with the group: no fence, no question
    if (get(r, "before", true) != "told by " + std::to_string(r)) wrong("wrong data of rank " + std::to_string(r));
  contexts.push_back(construct(self.rank % 2 ? "odd" : "even", like));  // both at once
  want("destruct", PMIx_Group_destruct("whole", nullptr, 0));
  contexts.push_back(construct("again", all));
  std::string text;
  for (size_t context : contexts) text += std::to_string(context) + " ";
  put("contexts", text);
  fence();
  for (uint32_t r = 0; r < size; r++) {
    const std::string theirs = get(r, "contexts");
    size_t whole = 0, half = 0, again = 0;
    if (sscanf(theirs.c_str(), "%zu %zu %zu", &whole, &half, &again) != 3) wrong("unreadable contexts");
    const bool alike = r % 2 == self.rank % 2;
    if (whole != contexts[0] || again != contexts[2] || (half == contexts[1]) != alike) wrong("contexts differ: " + theirs + "/ " + text);
    if (std::set<size_t>{whole, half, again}.size() != 3) wrong("a context id was given twice: " + theirs);
  }
  const pmix_proc_t job = peer(PMIX_RANK_WILDCARD);
  for (int round = 0; round < 3; round++) {
    want("connect", PMIx_Connect(&job, 1, nullptr, 0));
    want("disconnect", PMIx_Disconnect(&job, 1, nullptr, 0));
  }
  want("connect of some", PMIx_Connect(like.data(), like.size(), nullptr, 0));
  fence();
}

std::atomic<int> heard{0}, strange{0};
constexpr pmix_status_t near_news = PMIX_EXTERNAL_ERR_BASE - 7, far_news = near_news - 1;

void hear(size_t, pmix_status_t code, const pmix_proc_t* source, pmix_info_t info[], size_t count, pmix_info_t[], size_t,
          pmix_event_notification_cbfunc_fn_t done, void* token) {
  bool word = false;
  for (size_t i = 0; i < count; i++)
    word |= !strcmp(info[i].key, "test.word") && info[i].value.type == PMIX_STRING && !strcmp(info[i].value.data.string, "hello");
  if (code == far_news && source && source->rank == size - 1 && word)
    heard++;
  else
    strange++;
  if (done) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, token);
}

void events() {
  pmix_status_t code = far_news;
  want("register", PMIx_Register_event_handler(&code, 1, nullptr, 0, hear, nullptr, nullptr) < 0 ? PMIX_ERROR : PMIX_SUCCESS);
  fence();
  if (self.rank == size - 1) {
    Infos infos;
    infos.add("test.word", "hello", PMIX_STRING);
    for (pmix_data_range_t range : {PMIX_RANGE_NAMESPACE, PMIX_RANGE_SESSION})
      want("notify", PMIx_Notify_event(far_news, &self, range, infos.data(), infos.count(), nullptr, nullptr));
    want("notify what nobody listens to", PMIx_Notify_event(near_news, &self, PMIX_RANGE_SESSION, nullptr, 0, nullptr, nullptr));
  } else {
    for (int i = 0; i < 3000 && heard < 2; i++) usleep(10'000);
    if (heard != 2) wrong("heard " + std::to_string(heard) + " of 2 events");
  }
  fence();
  if (heard > 2 || strange) wrong("heard too much: " + std::to_string(heard) + " and " + std::to_string(strange));
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void()>> tests{{"names", names}, {"groups", groups}, {"events", events}};
  const auto test = tests.find(argc > 1 ? argv[1] : "");
  if (test == tests.end()) return 2;
  if (const pmix_status_t status = PMIx_Init(&self, nullptr, 0); status != PMIX_SUCCESS) wrong("init", status);
  const pmix_proc_t job = peer(PMIX_RANK_WILDCARD);
  pmix_value_t* value = nullptr;
  want("size", PMIx_Get(&job, PMIX_JOB_SIZE, nullptr, 0, &value));
  size = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  test->second();
  PMIx_Finalize(nullptr, 0);
  if (self.rank == 0) printf("%s of %u ranks passed\n", argv[1], size);
  return 0;
}
