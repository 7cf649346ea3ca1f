// Info objects (MPI 5.0, chapter 10).
#include <cstring>
#include <string>

#include "api/generated/bodies.h"
#include "api/handles.h"
#include "runtime/base/error.h"

namespace weft::body {

using namespace api;

namespace {

int check_key(const char* key) {
  const size_t length = strnlen(key, MPI_MAX_INFO_KEY);
  if (length == 0) return fail(MPI_ERR_INFO_KEY, "key is empty");
  if (length >= MPI_MAX_INFO_KEY)
    return fail(MPI_ERR_INFO_KEY, "key is longer than %d characters (MPI_MAX_INFO_KEY - 1)", MPI_MAX_INFO_KEY - 1);
  return MPI_SUCCESS;
}

int check_writable(const comm::Info& info) {
  return info.predefined ? fail(MPI_ERR_INFO, "info is MPI_INFO_ENV, which cannot be changed; copy it with MPI_Info_dup") : MPI_SUCCESS;
}

void copy_out(const std::string& text, char* to, size_t room) {
  const size_t length = std::min(text.size(), room);
  std::memcpy(to, text.data(), length);
  to[length] = 0;
}

}  // namespace

int Info_create(MPI_Info* info) {
  *info = encode(comm::Info::make());
  return MPI_SUCCESS;
}

int Info_create_env(int argc, char* argv[], MPI_Info* info) {
  comm::Info* made = comm::Info::make();
  made->entries = comm::environment_info().entries;
  if (argc > 0 && argv && argv[0]) made->set("command", argv[0]);
  std::string words;
  for (int i = 1; argv && i < argc && argv[i]; ++i) words.append(i > 1 ? " " : "").append(argv[i]);
  if (!words.empty()) made->set("argv", words.substr(0, MPI_MAX_INFO_VAL - 1));
  *info = encode(made);
  return MPI_SUCCESS;
}

int Info_dup(comm::Info& info, MPI_Info* newinfo) {
  comm::Info* copy = comm::Info::make();
  copy->entries = info.entries;
  *newinfo = encode(copy);
  return MPI_SUCCESS;
}

int Info_free(MPI_Info* info) {
  comm::Info* freed = decode(*info);
  if (const int error = check_writable(*freed)) return error;
  freed->user_freed = true;
  release(freed);
  *info = MPI_INFO_NULL;
  return MPI_SUCCESS;
}

int Info_set(comm::Info& info, const char* key, const char* value) {
  if (const int error = check_key(key)) return error;
  if (const int error = check_writable(info)) return error;
  if (strnlen(value, MPI_MAX_INFO_VAL) >= MPI_MAX_INFO_VAL)
    return fail(MPI_ERR_INFO_VALUE, "value is longer than %d characters (MPI_MAX_INFO_VAL - 1)", MPI_MAX_INFO_VAL - 1);
  info.set(key, value);
  return MPI_SUCCESS;
}

int Info_delete(comm::Info& info, const char* key) {
  if (const int error = check_key(key)) return error;
  if (const int error = check_writable(info)) return error;
  return info.erase(key) ? MPI_SUCCESS : fail(MPI_ERR_INFO_NOKEY, "info has no key \"%s\"", key);
}

int Info_get(comm::Info& info, const char* key, int valuelen, char* value, int* flag) {
  if (const int error = check_key(key)) return error;
  if (valuelen < 0) return fail(MPI_ERR_ARG, "valuelen = %d is negative", valuelen);
  const std::string* found = info.find(key);
  *flag = found != nullptr;
  if (found) copy_out(*found, value, static_cast<size_t>(valuelen));
  return MPI_SUCCESS;
}

int Info_get_string(comm::Info& info, const char* key, int* buflen, char* value, int* flag) {
  if (const int error = check_key(key)) return error;
  const std::string* found = info.find(key);
  *flag = found != nullptr;
  if (!found) return MPI_SUCCESS;
  if (*buflen > 0) copy_out(*found, value, static_cast<size_t>(*buflen) - 1);
  *buflen = static_cast<int>(found->size()) + 1;
  return MPI_SUCCESS;
}

int Info_get_valuelen(comm::Info& info, const char* key, int* valuelen, int* flag) {
  if (const int error = check_key(key)) return error;
  const std::string* found = info.find(key);
  *flag = found != nullptr;
  if (found) *valuelen = static_cast<int>(found->size());
  return MPI_SUCCESS;
}

int Info_get_nkeys(comm::Info& info, int* nkeys) {
  *nkeys = static_cast<int>(info.entries.size());
  return MPI_SUCCESS;
}

int Info_get_nthkey(comm::Info& info, int n, char* key) {
  if (n < 0 || static_cast<size_t>(n) >= info.entries.size())
    return fail(MPI_ERR_ARG, "n = %d: info has %zu keys, numbered from 0", n, info.entries.size());
  copy_out(info.entries[static_cast<size_t>(n)].first, key, MPI_MAX_INFO_KEY - 1);
  return MPI_SUCCESS;
}

}  // namespace weft::body
