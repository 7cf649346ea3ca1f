#include "launcher/coll_words.h"

#include <cstdint>
#include <cstdlib>
#include <map>

#include "launcher/environment.h"
#include "runtime/config/coll_table.h"
#include "runtime/topo/network.h"

namespace weft::launcher {
namespace {

constexpr const char *kFile = "WEFT_COLL_TABLE", *kWords = "WEFT_COLL_TUNED", *kMachine = "WEFT_COLL_MACHINE";
constexpr const char *kNetworkFile = "WEFT_NETWORK", *kNetwork = "WEFT_COLL_NETWORK";

/// What the first program to say so sets, else mpirun's own environment.
std::string value_of(const Options& options, const char* name) {
  for (const App& app : options.apps)
    for (auto variable = app.variables.rbegin(); variable != app.variables.rend(); ++variable)
      if (variable->first == name) return variable->second;
  const char* const own = getenv(name);
  return own ? own : "";
}

void set(Options& options, const char* name, const std::string& value) {
  for (App& app : options.apps) app.variables.emplace_back(name, value);
}

void hand_out_settings(Options& options, const std::map<std::string, config::CollTable::Number>& settings) {
  for (const auto& [name, number] : settings) {
    const std::string variable = variable_of(name);
    if (value_of(options, variable.c_str()).empty()) set(options, variable.c_str(), std::to_string(static_cast<uint64_t>(number.value)));
  }
}

}  // namespace

std::string hand_out_network(Options& options) {
  const std::string file = value_of(options, kNetworkFile), wish = value_of(options, kNetwork);
  if (!wish.empty()) set(options, kNetwork, wish);  // which one program may have said alone
  if (file.empty() || !wish.empty()) return {};
  const auto lines = topo::Network::lines_for_all(file);
  if (!lines) return "collectives go by no network: " + lines.failure().text;
  if (!lines->empty()) set(options, kNetwork, *lines);
  return {};
}

std::string hand_out_table(Options& options, const std::string& bin) {
  for (App& app : options.apps) std::erase_if(app.variables, [](const auto& variable) { return variable.first == kWords; });
  const std::string file = config::find_coll_table(value_of(options, kFile), bin);
  if (file.empty()) return {};
  const auto told = config::CollTable::told_by(file, options.counted ? static_cast<int32_t>(options.ranks()) : INT32_MAX);
  if (!told) return told.failure().text;
  if (!told->words.empty()) set(options, kWords, told->words);
  if (value_of(options, kMachine).empty() && !told->machine.empty()) set(options, kMachine, told->machine);
  hand_out_settings(options, told->settings);
  return {};
}

}  // namespace weft::launcher
