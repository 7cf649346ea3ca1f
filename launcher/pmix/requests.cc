#include "launcher/pmix/requests.h"

#include <string.h>

#include <algorithm>
#include <utility>

#include "launcher/pmix/values.h"
#include "runtime/boot/internal.h"

namespace weft::launcher::pmix {
namespace {

static_assert(all_ranks == PMIX_RANK_WILDCARD);

Proc proc_of(const pmix_proc_t& proc) { return {proc.nspace, proc.rank}; }

pmix_proc_t proc_of(const Proc& proc) {
  pmix_proc_t result{};
  proc.space.copy(result.nspace, sizeof result.nspace - 1);
  result.rank = proc.rank;
  return result;
}

std::vector<Proc> procs_of(const pmix_proc_t procs[], size_t count) {
  std::vector<Proc> result;
  for (size_t i = 0; i < count; i++) result.push_back(proc_of(procs[i]));
  return result;
}

std::vector<std::string> texts_of(char** list) {
  std::vector<std::string> result;
  for (char** item = list; item && *item; item++) result.emplace_back(*item);
  return result;
}

/// With which a server's PMIx marks what it has told its own clients.
constexpr char told_here[] = "pmix.srvr.internal.notify";

bool is(const pmix_info_t& info, const char* key) { return !strncmp(info.key, key, PMIX_MAX_KEYLEN); }

Audience audience_of(uint64_t range) {
  switch (range) {
    case PMIX_RANGE_NAMESPACE: return Audience::space;
    case PMIX_RANGE_LOCAL: return Audience::host;
    case PMIX_RANGE_PROC_LOCAL: return Audience::self;
    default: return Audience::all;
  }
}

Lasting lasting_of(uint64_t persistence) {
  switch (persistence) {
    case PMIX_PERSIST_FIRST_READ: return Lasting::first_read;
    case PMIX_PERSIST_PROC: return Lasting::process;
    case PMIX_PERSIST_APP: return Lasting::space;
    default: return Lasting::job;
  }
}

std::vector<std::string> split(const std::string& list, char at) {
  std::vector<std::string> parts;
  for (size_t from = 0; from <= list.size();) {
    const size_t end = std::min(list.find(at, from), list.size());
    if (end > from) parts.push_back(list.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

/// What an entry says of a program; false if it asks for what we do not do.
bool apply(const pmix_info_t& info, App& app, std::string& map_by) {
  if (is(info, PMIX_WDIR)) {
    app.folder = words(info.value);
  } else if (is(info, PMIX_HOST) || is(info, PMIX_ADD_HOST)) {
    app.hosts = split(words(info.value), ',');
  } else if (is(info, PMIX_MAPBY)) {
    map_by = words(info.value);
  } else if (is(info, boot::key_path)) {
    app.path = words(info.value);
  } else if (is(info, PMIX_SET_ENVAR) && info.value.type == PMIX_ENVAR) {
    app.variables.emplace_back(info.value.data.envar.envar, info.value.data.envar.value);
  } else {
    return !(info.flags & PMIX_INFO_REQD);
  }
  return true;
}

bool convert(const pmix_app_t& given, App& app, std::string& map_by) {
  if (given.cmd) app.command.emplace_back(given.cmd);
  for (char** argument = given.argv; argument && *argument; argument++)
    if (argument != given.argv || app.command.empty()) app.command.emplace_back(*argument);
  app.ranks = uint32_t(std::max(0, given.maxprocs));
  if (given.cwd && app.folder.empty()) app.folder = given.cwd;
  for (const std::string& entry : texts_of(given.env))
    if (const size_t equals = entry.find('='); equals != std::string::npos)
      app.variables.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  for (size_t i = 0; i < given.ninfo; i++)
    if (!apply(given.info[i], app, map_by)) return false;
  return !app.command.empty() && app.ranks;
}

}  // namespace

void Requests::ask(Service what, std::string body, Services::Done done) {
  mailbox_.post(Mailbox::Work([this, what, body = std::move(body), done = std::move(done)] { services_.ask(what, body, done); }));
}

pmix_status_t Requests::publish(const pmix_proc_t* proc, const pmix_info_t info[], size_t count, pmix_op_cbfunc_t done, void* token) {
  Publish publish;
  publish.who = proc_of(*proc);
  for (size_t i = 0; i < count; i++) {
    if (is(info[i], PMIX_RANGE)) {
      publish.audience = audience_of(number(info[i].value, PMIX_RANGE_SESSION));
    } else if (is(info[i], PMIX_PERSISTENCE)) {
      publish.lasting = lasting_of(number(info[i].value, PMIX_PERSIST_SESSION));
    } else if (!is(info[i], PMIX_USERID) && !is(info[i], PMIX_GRPID) && !is(info[i], PMIX_TIMEOUT)) {
      std::string value = pack(info[i].value);
      if (value.empty()) return PMIX_ERR_BAD_PARAM;
      publish.items.emplace_back(info[i].key, std::move(value));
    }
  }
  ask(Service::publish, encode(publish), [done, token](int32_t status, const std::string&) { done(status, token); });
  return PMIX_SUCCESS;
}

pmix_status_t Requests::lookup(const pmix_proc_t* proc, char** keys, const pmix_info_t info[], size_t count, pmix_lookup_cbfunc_t done,
                               void* token) {
  Lookup lookup{proc_of(*proc), texts_of(keys), false, 0};
  for (size_t i = 0; i < count; i++) {
    lookup.wait |= is(info[i], PMIX_WAIT);
    if (is(info[i], PMIX_TIMEOUT)) lookup.timeout_s = uint32_t(number(info[i].value, 0));
  }
  ask(Service::lookup, encode(lookup), [done, token](int32_t status, const std::string& body) {
    const auto found = decode_found(body);
    std::vector<pmix_pdata_t> data;
    for (size_t i = 0; found && i < found->size(); i++) {
      pmix_pdata_t one{};
      one.proc = proc_of((*found)[i].owner);
      PMIX_LOAD_KEY(one.key, (*found)[i].name.c_str());
      if (unpack((*found)[i].value, one.value)) data.push_back(one);
    }
    done(status, data.data(), data.size(), token);
    for (pmix_pdata_t& one : data) PMIx_Value_destruct(&one.value);
  });
  return PMIX_SUCCESS;
}

pmix_status_t Requests::unpublish(const pmix_proc_t* proc, char** keys, pmix_op_cbfunc_t done, void* token) {
  ask(Service::unpublish, encode(Unpublish{proc_of(*proc), texts_of(keys)}), [done, token](int32_t status, const std::string&) {
    if (done) done(status, token);
  });
  return PMIX_SUCCESS;
}

pmix_status_t Requests::connect(Gather::What what, const pmix_proc_t procs[], size_t count, pmix_op_cbfunc_t done, void* token) {
  ask(Service::gather, encode(Gather{what, {}, procs_of(procs, count), {}}),
      [done, token](int32_t status, const std::string&) { done(status, token); });
  return PMIX_SUCCESS;
}

/// Clients of PMIx 5 insist on the membership beside the context id.
pmix_status_t Requests::group(pmix_group_operation_t op, const char* id, const pmix_proc_t procs[], size_t count, const pmix_info_t info[],
                              size_t infos, pmix_info_cbfunc_t done, void* token) {
  const bool construct = op == PMIX_GROUP_CONSTRUCT;
  Gather gather{construct ? Gather::What::group : Gather::What::ungroup, id ? id : "", procs_of(procs, count), {}};
  for (size_t i = 0; i < infos; i++)
    if (is(info[i], PMIX_GROUP_ENDPT_DATA) && info[i].value.type == PMIX_BYTE_OBJECT && info[i].value.data.bo.bytes)
      gather.data.assign(info[i].value.data.bo.bytes, info[i].value.data.bo.size);
  ask(Service::gather, encode(gather),
      [construct, members = std::vector<pmix_proc_t>(procs, procs + count), done, token](int32_t status, const std::string& body) mutable {
        const auto gathered = decode_gathered(body);
        if (status != PMIX_SUCCESS || !gathered || !construct) return done(status, nullptr, 0, token, nullptr, nullptr);
        InfoList answers;
        const size_t context = gathered->context;
        answers.add_raw(PMIX_GROUP_CONTEXT_ID, &context, PMIX_SIZE);
        const pmix_data_array_t list{PMIX_PROC, members.size(), members.data()};
        answers.add_raw(PMIX_GROUP_MEMBERSHIP, &list, PMIX_DATA_ARRAY);
        const pmix_byte_object_t data{const_cast<char*>(gathered->data.data()), gathered->data.size()};
        if (data.size) answers.add_raw(PMIX_GROUP_ENDPT_DATA, &data, PMIX_BYTE_OBJECT);
        answer(done, token, answers);
      });
  return PMIX_SUCCESS;
}

/// PMIx itself has told the clients of this server. It is always answered at once: PMIx 4.2 frees what a later answer would touch.
pmix_status_t Requests::notify(pmix_status_t code, const pmix_proc_t* source, pmix_data_range_t range, const pmix_info_t info[],
                               size_t count) {
  if (range == PMIX_RANGE_LOCAL || range == PMIX_RANGE_PROC_LOCAL || range == PMIX_RANGE_RM || !source) return PMIX_OPERATION_SUCCEEDED;
  std::vector<pmix_info_t> shared;  // the server's own mark would keep the others from telling anybody
  for (size_t i = 0; i < count; i++)
    if (!is(info[i], told_here)) shared.push_back(info[i]);
  const Notice notice{code, proc_of(*source), range, pack(shared.data(), shared.size())};
  ask(Service::notify, encode(notice), [](int32_t, const std::string&) {});
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t Requests::spawn(const pmix_proc_t* proc, const pmix_info_t info[], size_t count, const pmix_app_t apps[], size_t app_count,
                              pmix_spawn_cbfunc_t done, void* token) {
  SpawnWish wish;
  wish.who = proc_of(*proc);
  App common;
  for (size_t i = 0; i < count; i++)
    if (!apply(info[i], common, wish.map_by)) return PMIX_ERR_NOT_SUPPORTED;
  for (size_t i = 0; i < app_count; i++) {
    App app = common;
    if (!convert(apps[i], app, wish.map_by)) return PMIX_ERR_BAD_PARAM;
    wish.apps.push_back(std::move(app));
  }
  if (wish.apps.empty()) return PMIX_ERR_BAD_PARAM;
  ask(Service::spawn, encode(wish), [this, who = wish.who, done, token](int32_t status, const std::string& body) {
    const auto spawned = decode_spawned(body);
    if (spawned && status != PMIX_SUCCESS && !spawned->why.empty()) return explain(who, spawned->why, status, done, token);
    pmix_nspace_t space{};
    if (spawned) spawned->space.copy(space, sizeof space - 1);
    done(spawned ? status : status == PMIX_SUCCESS ? PMIX_ERROR : status, space, token);
  });
  return PMIX_SUCCESS;
}

/// PMIx has only a number for the rank: the reason in words is published for it to look up.
void Requests::explain(const Proc& who, const std::string& why, int32_t status, pmix_spawn_cbfunc_t done, void* token) {
  pmix_value_t text{};
  text.type = PMIX_STRING;
  text.data.string = const_cast<char*>(why.c_str());
  services_.ask(Service::unpublish, encode(Unpublish{who, {boot::key_spawn_failure}}), [](int32_t, const std::string&) {});
  services_.ask(Service::publish, encode(Publish{who, Audience::self, Lasting::first_read, {{boot::key_spawn_failure, pack(text)}}}),
                [status, done, token](int32_t, const std::string&) {
                  pmix_nspace_t none{};
                  done(status, none, token);
                });
}

}  // namespace weft::launcher::pmix
