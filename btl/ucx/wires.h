// Which wires UCX has chosen for an endpoint, from what it prints about it: no version has an interface for it that all of them have.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace weft::btl::ucx {

/// What a call writes to a file.
template <class Write>
std::string printed_by(Write write) {
  char* text = nullptr;
  size_t length = 0;
  FILE* file = open_memstream(&text, &length);
  if (!file) return "";
  write(file);
  std::string printed = fclose(file) == 0 ? std::string(text, length) : std::string();
  free(text);
  return printed;
}

/// One of them.
struct Wire {
  std::string transport, device;  ///< "rc_mlx5", "mlx5_0:1"
  bool operator==(const Wire&) const = default;
  std::string text() const { return transport + "/" + device; }
};

/// From the text of ucp_ep_print_info(): lines with "lane[0]:  3:tcp/eth0.0 md[1] ..."; of each wire once.
inline std::vector<Wire> wires_in(std::string_view info) {
  std::vector<Wire> wires;
  for (size_t at = info.find("lane["); at != info.npos; at = info.find("lane[", at + 1)) {
    std::string_view line = info.substr(at, info.find('\n', at) - at);
    line.remove_prefix(std::min(line.find("]:"), line.size()));
    line.remove_prefix(std::min(line.find_first_of("0123456789"), line.size()));
    const size_t colon = line.find(':'), slash = line.find('/', colon);
    const std::string_view word = line.substr(0, line.find(' '));
    if (colon == line.npos || slash == line.npos || slash >= word.size()) continue;
    std::string_view device = word.substr(slash + 1);
    const size_t dot = device.rfind('.');  // in front of the number of the path; interfaces of VLANs have dots themselves
    if (dot != device.npos && dot + 1 < device.size() && device.find_first_not_of("0123456789", dot + 1) == device.npos)
      device = device.substr(0, dot);
    const Wire wire{std::string(word.substr(colon + 1, slash - colon - 1)), std::string(device)};
    if (!wire.transport.empty() && std::ranges::find(wires, wire) == wires.end()) wires.push_back(wire);
  }
  return wires;
}

}  // namespace weft::btl::ucx
