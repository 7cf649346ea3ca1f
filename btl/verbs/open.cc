// The verbs transport's settings; from ports to rails.
#include <config.h>

#include "btl/list.h"
#ifdef HAVE_VERBS
#include <algorithm>

#include "btl/verbs/rail.h"
#include "runtime/base/log.h"
#include "runtime/config/config.h"
#endif

namespace weft::btl {
#ifdef HAVE_VERBS
namespace verbs {
namespace {

const config::Integer setting_flows("verbs", "flows", "2",
                                    "Queue pairs per peer and port for large data, so that they take several ways through a network that "
                                    "spreads by hash; 0: large data share the queue pair of the messages");
const config::Integer setting_mtu("verbs", "mtu", "0", "Bytes of a packet over verbs (256 to 4096); 0: what both ports can");
const config::Integer setting_level("verbs", "service_level", "0", "Service level (0 to 15) of verbs connections; on RoCE the priority");
const config::Integer setting_class(
    "verbs", "traffic_class", "0",
    "Traffic class (0 to 255) of verbs connections; on RoCE v2 four times the DSCP, which PFC and ECN go by");
const config::Integer setting_timeout("verbs", "timeout", "16",
                                      "How long to wait for an acknowledgement over verbs: 4.096 us * 2^timeout (1 to 31)");
const config::Integer setting_retries("verbs", "retries", "6",
                                      "How often verbs repeats what is not acknowledged (0 to 7; 7 means for ever on soft-RoCE)");
const config::Integer setting_silence("verbs", "silence", "10",
                                      "Seconds of silence after which verbs asks a peer's device whether it is still there; 0: never");
const config::Bytes setting_put_from(
    "verbs", "put_from", "0",
    "Bytes from which large messages are written by their sender over verbs instead of read by their receiver; "
    "0: by device (soft-RoCE: 64 KiB, others: never)");
const config::Bytes setting_registered("verbs", "registered", "1G",
                                       "Memory that stays registered with devices for further messages, beyond what is in use");

}  // namespace

Options options_from_settings() {
  auto number = [](const config::Integer& v, int64_t least, int64_t most) { return uint32_t(std::clamp(v.get(), least, most)); };
  Options options;
  options.flows = number(setting_flows, 0, kMaxFlows);
  options.mtu = setting_mtu.get() > 0 ? number(setting_mtu, 256, 4096) : 0;
  options.service_level = uint8_t(number(setting_level, 0, 15));
  options.traffic_class = uint8_t(number(setting_class, 0, 255));
  options.timeout = uint8_t(number(setting_timeout, 1, 31));
  options.retries = uint8_t(number(setting_retries, 0, 7));
  options.silence_s = number(setting_silence, 0, 1 << 20);
  options.registered = setting_registered.get();
  options.put_from = setting_put_from.get();
  return options;
}

Result<std::vector<std::unique_ptr<Rail>>> open_rails(const Site& site, const Options& options) {
  auto ports = net::usable_rdma_ports();
  if (!ports) return ports.failure();
  static_assert(Card::kRails <= mem::kMaxDevices);
  if (ports->size() > Card::kRails) {
    log(Level::warning, "verbs: of %zu ports only the first %zu are used; WEFT_VERBS_DEVICES chooses", ports->size(), Card::kRails);
    ports->resize(Card::kRails);
  }
  auto interfaces = interfaces_for(site.boot.job(), options.interfaces);
  if (!interfaces) return interfaces.failure();
  auto library = net::verbs_library();
  if (!library) return library.failure();

  std::string why;
  auto watcher = mem::watch_process(&why);
  if (!watcher)
    log(Level::info, "verbs: memory is registered anew for each large message, as its changes cannot be watched: %s", why.c_str());
  auto shared = std::make_shared<Shared>(std::move(watcher), mem::RegistrationCache::Limits{options.registered, 4096});
  auto card = std::make_shared<Card>(Card::of(site.boot.job()));
  std::vector<std::vector<net::Fd>> listeners;
  for (const net::RdmaPort& port : *ports) {
    auto device = Device::open(**library, port);
    if (!device) {
      why = device.failure().text;
      log(Level::info, "verbs: %s", why.c_str());
      continue;
    }
    Card::Rail rail{port.name(), {}, port.gids, port.mbit};
    std::vector<net::Fd> fds;
    for (const net::Interface& interface : *interfaces) rail.listen(interface, fds, why);
    if (fds.empty()) continue;
    listeners.push_back(std::move(fds));
    card->rails.push_back(std::move(rail));
    if (auto number = shared->cache.add(**device); !number) return number.failure();
    shared->devices.push_back(std::move(*device));
  }
  if (card->rails.empty()) return Failure{"verbs cannot use any port: " + why};
  std::vector<std::unique_ptr<Rail>> rails;
  for (size_t i = 0; i < listeners.size(); ++i) {
    auto rail = Rail::open(site, options, shared, card, i, std::move(listeners[i]));
    if (!rail) return rail.failure();
    rails.push_back(std::move(*rail));
  }
  return rails;
}

}  // namespace verbs

Result<std::vector<std::unique_ptr<Transport>>> open_verbs(const Site& site) {
  auto rails = verbs::open_rails(site, verbs::options_from_settings());
  if (!rails) return rails.failure();
  std::vector<std::unique_ptr<Transport>> out;
  for (auto& rail : *rails) out.push_back(std::move(rail));
  return out;
}

#else

Result<std::vector<std::unique_ptr<Transport>>> open_verbs(const Site&) {
  return Failure{"this Weft was built without rdma-core (Debian: apt install libibverbs-dev, then configure again)"};
}

#endif
}  // namespace weft::btl
