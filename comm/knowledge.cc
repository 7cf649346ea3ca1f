#include "comm/knowledge.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "comm/topology/placement.h"
#include "runtime/base/log.h"
#include "runtime/base/own_folder.h"
#include "runtime/config/coll_table.h"
#include "runtime/config/config.h"
#include "runtime/topo/network.h"

namespace weft::comm {
namespace {

constexpr char kKey[] = "knowledge";
/// The settings that say it.
constexpr const char* kNames[] = {"WEFT_COLL_NETWORK", "WEFT_COLL_TUNED", "WEFT_COLL_MACHINE"};
enum Name : size_t { network, tuned, machine, names };
static_assert(std::size(kNames) == names);
using Words = std::array<std::string, names>;

/// Does nobody else tell the ranks?
bool tell_each_other(const boot::Job& job) { return job.size > 1 && job.launcher != boot::own_launcher; }

std::string setting(const char* name) {
  const config::Variable* const variable = config::find(name);
  return variable ? variable->text() : std::string();
}

std::string read_network() {
  const std::string file = network_file();
  if (file.empty()) return {};
  const auto lines = topo::Network::lines_for_all(file);
  if (!lines) log(Level::warning, "collectives go by no network: %s", lines.failure().text.c_str());
  return lines ? *lines : std::string();
}

/// The library lies in lib or lib/TRIPLET of an installation.
std::string table_file() {
  const std::string wanted = setting("WEFT_COLL_TABLE"), file = config::find_coll_table(wanted, own_folder());
  return file.empty() ? config::find_coll_table(wanted, own_folder() + "/..") : file;
}

void read_table(Words& words, uint32_t ranks) {
  const std::string file = table_file();
  if (file.empty()) return;
  auto told = config::CollTable::told_by(file, static_cast<int32_t>(std::min<uint32_t>(ranks, INT32_MAX)));
  if (!told) return log(Level::warning, "%s", told.failure().text.c_str());
  words[tuned] = std::move(told->words);
  if (words[machine].empty()) words[machine] = std::move(told->machine);
}

/// What this rank would go by alone.
Words own_words(uint32_t ranks) {
  Words words;
  std::ranges::transform(kNames, words.begin(), setting);
  if (words[network].empty()) words[network] = read_network();
  if (words[tuned].empty()) read_table(words, ranks);
  return words;
}

void go_by(const char* name, std::string_view words) {
  config::Variable* const variable = config::find(name);
  if (variable && !words.empty() && variable->text() != words) (void)variable->set(words, config::Origin::program);  // any text is one
}

}  // namespace

Result<void> offer_knowledge(boot::Bootstrap& boot) {
  if (!tell_each_other(boot.job()) || boot.job().rank != 0) return {};
  std::string all;
  for (const std::string& words : own_words(boot.job().size)) all.append(words.c_str(), words.size() + 1);
  return boot.put(kKey, std::as_bytes(std::span(all)));
}

Result<void> take_knowledge(boot::Bootstrap& boot) {
  if (!tell_each_other(boot.job())) return {};
  const auto told = boot.get({0, 0}, kKey);
  if (!told) return told.failure();
  std::string_view rest(reinterpret_cast<const char*>(told->data()), told->size());
  for (const char* name : kNames) {
    const size_t end = std::min(rest.find('\0'), rest.size());
    go_by(name, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

}  // namespace weft::comm
