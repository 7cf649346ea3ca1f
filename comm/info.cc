#include <algorithm>

#include "comm/comm.h"

namespace weft::comm {
namespace {

Pool<Info>& pool() {
  static auto* infos = new Pool<Info>;
  return *infos;
}

}  // namespace

Info* Info::make() { return pool().make(); }
void Info::destroy(Info* info) { pool().destroy(info); }

const std::string* Info::find(std::string_view key) const {
  const auto entry = std::ranges::find(entries, key, [](const auto& e) { return std::string_view(e.first); });
  return entry == entries.end() ? nullptr : &entry->second;
}

void Info::set(std::string_view key, std::string_view value) {
  if (const std::string* old = find(key))
    *const_cast<std::string*>(old) = value;
  else
    entries.emplace_back(key, value);
}

bool Info::erase(std::string_view key) {
  return std::erase_if(entries, [&](const auto& e) { return e.first == key; }) > 0;
}

Info& environment_info() {
  static Info* info = [] {
    Info* made = pool().make();
    made->predefined = true;
    made->abi_handle = 305;  // MPI_INFO_ENV
    return made;
  }();
  return *info;
}

}  // namespace weft::comm
