#include "comm/network.h"

#include <span>
#include <string>

#include "coll/network.h"
#include "comm/topology/placement.h"
#include "runtime/base/log.h"
#include "runtime/topo/network.h"

namespace weft::comm {
namespace {

constexpr char kKey[] = "network";

/// Does nobody else tell the ranks?
bool tell_each_other(const boot::Job& job) { return job.size > 1 && job.launcher != boot::own_launcher; }

/// What this rank would go by alone.
std::string own_lines() {
  if (const std::string told = coll::told_network(); !told.empty()) return told;
  const std::string file = network_file();
  if (file.empty()) return {};
  const auto lines = topo::Network::lines_for_all(file);
  if (!lines) log(Level::warning, "collectives go by no network: %s", lines.failure().text.c_str());
  return lines ? *lines : std::string();
}

}  // namespace

Result<void> offer_network(boot::Bootstrap& boot) {
  if (!tell_each_other(boot.job()) || boot.job().rank != 0) return {};
  const std::string lines = own_lines();
  return boot.put(kKey, std::as_bytes(std::span(lines)));
}

Result<void> take_network(boot::Bootstrap& boot) {
  if (!tell_each_other(boot.job())) return {};
  const auto lines = boot.get({0, 0}, kKey);
  if (!lines) return lines.failure();
  coll::tell_network(std::string(reinterpret_cast<const char*>(lines->data()), lines->size()));
  return {};
}

}  // namespace weft::comm
