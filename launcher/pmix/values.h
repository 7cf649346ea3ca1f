// Small helpers around PMIx's C structures. Only what talks to PMIx includes this.
#pragma once

#include <pmix.h>
#include <pmix_server.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft::launcher::pmix {

/// "what: PMIX-ERROR (PMIx -1)".
std::string text(const char* what, pmix_status_t status);

/// A growing list of pmix_info_t; PMIx copies what is added.
class InfoList {
 public:
  InfoList() : list_(PMIx_Info_list_start()) {}
  ~InfoList() { PMIx_Info_list_release(list_); }
  InfoList(const InfoList&) = delete;
  InfoList& operator=(const InfoList&) = delete;

  void add(const char* key, const std::string& value) { PMIx_Info_list_add(list_, key, value.c_str(), PMIX_STRING); }
  void add(const char* key, uint32_t value) { PMIx_Info_list_add(list_, key, &value, PMIX_UINT32); }
  void add_raw(const char* key, const void* value, pmix_data_type_t type) { PMIx_Info_list_add(list_, key, value, type); }
  void add(const char* key, const InfoList& inner);
  pmix_data_array_t convert() const;

 private:
  void* list_;
};

/// Answers an upcall that wants a list; PMIx releases it.
void answer(pmix_info_cbfunc_t done, void* token, const InfoList& answers);
/// The same with a list of operator new, which PMIx releases.
void answer(pmix_info_cbfunc_t done, void* token, pmix_data_array_t* answers);

/// Values in PMIx's own encoding, for servers of other hosts. Empty if PMIx cannot encode them.
std::string pack(const pmix_value_t& value);
std::string pack(const pmix_info_t info[], size_t count);

/// What pack() has made, or nothing; owns what PMIx allocates.
class Infos {
 public:
  explicit Infos(const std::string& packed);
  ~Infos();
  Infos(const Infos&) = delete;
  Infos& operator=(const Infos&) = delete;
  bool good() const { return good_; }
  pmix_info_t* data() { return info_.data(); }
  size_t size() const { return info_.size(); }

 private:
  std::vector<pmix_info_t> info_;
  bool good_ = false;
};
/// Into `value`, which the caller destructs; false (and an undefined type) if these are no bytes of pack().
bool unpack(const std::string& packed, pmix_value_t& value);

/// A number of any of PMIx's integer types.
uint64_t number(const pmix_value_t& value, uint64_t otherwise);
/// Text, or nothing.
std::string words(const pmix_value_t& value);
/// A flag: as PMIx takes it, an entry without a value is true.
bool truth(const pmix_value_t& value);

}  // namespace weft::launcher::pmix
