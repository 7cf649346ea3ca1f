#include <algorithm>
#include <cerrno>
#include <cstring>

#include "btl/list.h"
#include "btl/tcp/rail.h"
#include "runtime/config/config.h"

namespace weft::btl {
namespace tcp {
namespace {

const config::Bytes setting_queue("tcp", "queue", "256K", "Bytes of small messages that may wait per peer before its senders wait");
const config::Bytes setting_socket("tcp", "socket_buffer", "0", "Send and receive buffer of each tcp connection; 0: the kernel tunes them");
const config::Integer setting_silence("tcp", "silence", "60", "Seconds after which a peer host that does not answer any more is lost");
const config::Text setting_congestion("tcp", "congestion", "",
                                      "Congestion control of tcp between hosts, such as cubic or dctcp; empty: the system's, but reno "
                                      "instead of BBR. Within a host always reno");
const config::Integer setting_connect("tcp", "connect_timeout", "10", "Seconds that one attempt to connect over tcp may take");

}  // namespace

Options options_from_settings() {
  auto seconds = [](const config::Integer& v) { return uint32_t(std::clamp<int64_t>(v.get(), 1, 86400)); };
  Options options;
  options.queue_bytes = uint32_t(std::min<uint64_t>(setting_queue.get(), 1u << 30));
  options.socket_bytes = int(std::min<uint64_t>(setting_socket.get(), 1u << 30));
  options.silence_s = seconds(setting_silence);
  options.congestion = setting_congestion.get();
  options.connect_s = seconds(setting_connect);
  return options;
}

Result<std::vector<std::unique_ptr<Rail>>> open_rails(const Site& site, const Options& options) {
  auto interfaces = interfaces_for(site.boot.job(), options.interfaces);
  if (!interfaces) return interfaces.failure();
  auto card = std::make_shared<Card>(Card::of(site.boot.job()));
  std::vector<std::vector<net::Fd>> listeners;
  std::string why;
  for (const net::Interface& interface : *interfaces) {
    if (card->rails.size() == Card::kRails) break;
    Card::Rail rail{interface.name, {}, {}, interface.mbit};
    std::vector<net::Fd> fds;
    rail.listen(interface, fds, why);
    if (fds.empty()) continue;
    if (options.socket_bytes > 0)
      for (const net::Fd& fd : fds) net::size_buffers(fd.get(), options.socket_bytes);
    listeners.push_back(std::move(fds));
    card->rails.push_back(std::move(rail));
  }
  if (card->rails.empty()) return Failure{"tcp cannot listen on any interface: " + why};
  if (!options.congestion.empty() && !net::use_congestion_control(listeners.front().front().get(), options.congestion))
    return Failure{"tcp cannot use the congestion control \"" + options.congestion + "\" (" + strerror(errno) +
                   "); WEFT_TCP_CONGESTION takes one that /proc/sys/net/ipv4/tcp_allowed_congestion_control lists"};
  std::vector<std::unique_ptr<Rail>> rails;
  for (size_t i = 0; i < listeners.size(); ++i) rails.push_back(std::make_unique<Rail>(site, options, card, i, std::move(listeners[i])));
  return rails;
}

}  // namespace tcp

Result<std::vector<std::unique_ptr<Transport>>> open_tcp(const Site& site) {
  auto rails = tcp::open_rails(site, tcp::options_from_settings());
  if (!rails) return rails.failure();
  std::vector<std::unique_ptr<Transport>> out;
  for (auto& rail : *rails) out.push_back(std::move(rail));
  return out;
}

}  // namespace weft::btl
