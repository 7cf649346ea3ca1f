#include "launcher/pmix/values.h"

#include <string.h>

#include <cstdlib>

namespace weft::launcher::pmix {

std::string text(const char* what, pmix_status_t status) {
  return std::string(what) + ": " + PMIx_Error_string(status) + " (PMIx " + std::to_string(status) + ")";
}

void InfoList::add(const char* key, const InfoList& inner) {
  pmix_data_array_t array = inner.convert();
  add_raw(key, &array, PMIX_DATA_ARRAY);
  PMIX_DATA_ARRAY_DESTRUCT(&array);
}

pmix_data_array_t InfoList::convert() const {
  pmix_data_array_t array{};
  PMIx_Info_list_convert(list_, &array);
  return array;
}

void answer(pmix_info_cbfunc_t done, void* token, const InfoList& answers) {
  answer(done, token, new pmix_data_array_t(answers.convert()));
}

void answer(pmix_info_cbfunc_t done, void* token, pmix_data_array_t* array) {
  auto release = [](void* what) {
    auto* given = static_cast<pmix_data_array_t*>(what);
    PMIX_DATA_ARRAY_DESTRUCT(given);
    delete given;
  };
  done(PMIX_SUCCESS, static_cast<pmix_info_t*>(array->array), array->size, token, release, array);
}

namespace {

/// A buffer of PMIx's that frees what it holds.
struct Buffer {
  pmix_data_buffer_t bytes;
  Buffer() { PMIX_DATA_BUFFER_CONSTRUCT(&bytes); }
  explicit Buffer(const std::string& packed) : Buffer() {
    char* copy = static_cast<char*>(malloc(packed.size() + 1));
    if (!copy) return;
    memcpy(copy, packed.data(), packed.size());
    PMIX_DATA_BUFFER_LOAD(&bytes, copy, packed.size());
  }
  ~Buffer() { PMIX_DATA_BUFFER_DESTRUCT(&bytes); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::string take() const { return std::string(bytes.base_ptr ? bytes.base_ptr : "", bytes.base_ptr ? bytes.bytes_used : 0); }
};

}  // namespace

std::string pack(const pmix_value_t& value) {
  Buffer buffer;
  if (PMIx_Data_pack(nullptr, &buffer.bytes, const_cast<pmix_value_t*>(&value), 1, PMIX_VALUE) != PMIX_SUCCESS) return {};
  return buffer.take();
}

std::string pack(const pmix_info_t info[], size_t count) {
  Buffer buffer;
  if (PMIx_Data_pack(nullptr, &buffer.bytes, &count, 1, PMIX_SIZE) != PMIX_SUCCESS) return {};
  if (count && PMIx_Data_pack(nullptr, &buffer.bytes, const_cast<pmix_info_t*>(info), int32_t(count), PMIX_INFO) != PMIX_SUCCESS) return {};
  return buffer.take();
}

Infos::Infos(const std::string& packed) {
  good_ = packed.empty();
  if (good_) return;
  Buffer buffer(packed);
  size_t count = 0;
  int32_t one = 1;
  if (PMIx_Data_unpack(nullptr, &buffer.bytes, &count, &one, PMIX_SIZE) != PMIX_SUCCESS || count > packed.size()) return;
  info_.resize(count);
  for (pmix_info_t& info : info_) PMIX_INFO_CONSTRUCT(&info);
  int32_t all = int32_t(count);
  good_ = !count || (PMIx_Data_unpack(nullptr, &buffer.bytes, info_.data(), &all, PMIX_INFO) == PMIX_SUCCESS && size_t(all) == count);
}

Infos::~Infos() {
  for (pmix_info_t& info : info_) PMIX_INFO_DESTRUCT(&info);
}

bool unpack(const std::string& packed, pmix_value_t& value) {
  memset(&value, 0, sizeof value);
  Buffer buffer(packed);
  int32_t one = 1;
  return PMIx_Data_unpack(nullptr, &buffer.bytes, &value, &one, PMIX_VALUE) == PMIX_SUCCESS && one == 1;
}

uint64_t number(const pmix_value_t& value, uint64_t otherwise) {
  switch (value.type) {
    case PMIX_UINT32: return value.data.uint32;
    case PMIX_INT: return uint64_t(int64_t{value.data.integer});
    case PMIX_INT32: return uint64_t(int64_t{value.data.int32});
    case PMIX_UINT8:
    case PMIX_DATA_RANGE:
    case PMIX_PERSIST: return value.data.uint8;
    case PMIX_UINT16: return value.data.uint16;
    case PMIX_UINT64: return value.data.uint64;
    case PMIX_INT64: return uint64_t(value.data.int64);
    case PMIX_SIZE: return value.data.size;
    case PMIX_UINT: return value.data.uint;
    case PMIX_PROC_RANK: return value.data.rank;
    default: return otherwise;
  }
}

std::string words(const pmix_value_t& value) { return value.type == PMIX_STRING && value.data.string ? value.data.string : ""; }

bool truth(const pmix_value_t& value) { return value.type == PMIX_UNDEF || (value.type == PMIX_BOOL && value.data.flag); }

}  // namespace weft::launcher::pmix
