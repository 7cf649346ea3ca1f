// What state a network device is in, for messages. All inline, so that plugins can ask as well.
#pragma once

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

namespace weft::net {

/// Of a network interface ("eth0"), or a port of an RDMA device ("mlx5_0:1"): "up", "down" (no carrier), "switched off", "gone", or what
/// the device itself says ("INIT"); "unknown" if nothing can be found out. Asks the kernel: interfaces of the calling thread's network
/// namespace.
inline std::string link_state(const std::string& device) {
  if (const size_t colon = device.find(':'); colon != device.npos) {
    std::ifstream file("/sys/class/infiniband/" + device.substr(0, colon) + "/ports/" + device.substr(colon + 1) + "/state");
    std::string number, state;
    if (!(file >> number >> state)) return "unknown";
    return state == "ACTIVE" ? "up" : state == "DOWN" ? "down" : state;
  }
  ifreq request{};
  if (device.empty() || device.size() >= sizeof request.ifr_name) return "unknown";
  memcpy(request.ifr_name, device.data(), device.size());
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "unknown";
  const bool known = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  const bool gone = !known && errno == ENODEV;
  close(fd);
  if (!known) return gone ? "gone" : "unknown";
  if (!(request.ifr_flags & IFF_UP)) return "switched off";
  return request.ifr_flags & IFF_RUNNING ? "up" : "down";
}

/// What to do about it, to be put behind a message; empty if this side's link is not to blame.
inline std::string advice_on_link(const std::string& device, const std::string& state) {
  if (state == "up" || state == "unknown") return "";
  const bool off = state == "switched off";
  return "; this side's own link is " + state + ": look at " +
         (off ? "who has done so, and `ip link set " + device + " up`" : std::string("the cable, the switch, and what `ip link` says"));
}

}  // namespace weft::net
