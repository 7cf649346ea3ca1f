#include "runtime/net/rdma.h"

#include <config.h>
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "runtime/config/config.h"
#include "runtime/net/interfaces.h"
#ifdef HAVE_VERBS
#include "runtime/net/verbs_library.h"
#endif

namespace weft::net {
namespace {

const config::Text setting_devices("verbs", "devices", "",
                                   "RDMA devices to use: names, globs and NAME:PORT, comma-separated; ^ in front of one excludes it "
                                   "(mlx5_0,mlx5_2:1 or *,^mlx5_bond_0). Empty: every active port");
const config::Integer setting_gid("verbs", "gid", "-1",
                                  "Index of the port's address (GID) to use with verbs; -1: RoCE v2 in a subnet that the peer shares");

constexpr size_t kMostGids = 4;  // of one port that are offered to peers

/// Order of preference; 9: not usable.
int rank_of(const Gid& gid, bool ethernet) {
  if (std::ranges::all_of(gid.bytes, [](uint8_t b) { return b == 0; })) return 9;
  if (!ethernet) return gid.type == Gid::Type::infiniband ? 0 : 9;
  if (gid.type == Gid::Type::infiniband) return 9;
  const Address address = gid.address();
  return (gid.type == Gid::Type::roce_v1 ? 4 : 0) + (address.link_local() ? 2 : address.v6 ? 1 : 0);
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool matches(const RdmaPort& port, std::string_view item) {
  const std::string glob(item);
  return fnmatch(glob.c_str(), port.device.c_str(), 0) == 0 || fnmatch(glob.c_str(), port.name().c_str(), 0) == 0;
}

/// By the rules of a list: the last item that matches decides; without items that include, all are included.
bool wanted(const RdmaPort& port, std::string_view setting) {
  bool including = false, in = false, out = false;
  while (!setting.empty()) {
    const size_t comma = std::min(setting.find(','), setting.size());
    std::string_view item = trim(setting.substr(0, comma));
    setting.remove_prefix(std::min(comma + 1, setting.size()));
    if (item.empty()) continue;
    const bool excludes = item.front() == '^';
    if (excludes) item = trim(item.substr(1));
    including |= !excludes;
    (excludes ? out : in) |= matches(port, item);
  }
  return !out && (in || !including);
}

std::string describe(std::span<const RdmaPort> all) {
  std::string text;
  for (const RdmaPort& p : all) text += (text.empty() ? "" : ", ") + p.name() + " (" + p.state + ")";
  return text.empty() ? "none" : text;
}

#ifdef HAVE_VERBS

uint32_t mbit_of(const ibv_port_attr& a) {
  const uint32_t lanes = a.active_width == 1    ? 1
                         : a.active_width == 2  ? 4
                         : a.active_width == 4  ? 8
                         : a.active_width == 8  ? 12
                         : a.active_width == 16 ? 2
                                                : 0;
  switch (a.active_speed) {
    case 1: return lanes * 2'500;
    case 2: return lanes * 5'000;
    case 4:
    case 8: return lanes * 10'000;
    case 16: return lanes * 14'000;
    case 32: return lanes * 25'000;
    case 64: return lanes * 50'000;
    case 128: return lanes * 100'000;
    default: return 0;
  }
}

/// Older libraries do not tell the type of an entry; the kernel does.
Gid::Type type_by_kernel(const std::string& device, int port, int index) {
  char kind[32] = "";
  const std::string path =
      "/sys/class/infiniband/" + device + "/ports/" + std::to_string(port) + "/gid_attrs/types/" + std::to_string(index);
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "re"), [](FILE* f) { return f ? fclose(f) : 0; });
  if (file && fgets(kind, sizeof kind, file.get()) && strstr(kind, "v2")) return Gid::Type::roce_v2;
  return Gid::Type::roce_v1;
}

bool read_gid(const VerbsLibrary& verbs, ibv_context* context, const RdmaPort& port, int index, Gid& out) {
  out.index = uint8_t(index);
  if (verbs.query_gid_ex) {
    ibv_gid_entry entry{};
    if (verbs.query_gid_ex(context, port.port, uint32_t(index), &entry, 0, sizeof entry) != 0) return false;
    memcpy(out.bytes.data(), entry.gid.raw, 16);
    out.type = entry.gid_type == IBV_GID_TYPE_ROCE_V2   ? Gid::Type::roce_v2
               : entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? Gid::Type::roce_v1
                                                        : Gid::Type::infiniband;
    return true;
  }
  ibv_gid gid{};
  if (verbs.query_gid(context, port.port, index, &gid) != 0) return false;
  memcpy(out.bytes.data(), gid.raw, 16);
  out.type = port.ethernet ? type_by_kernel(port.device, port.port, index) : Gid::Type::infiniband;
  return true;
}

void read_gids(const VerbsLibrary& verbs, ibv_context* context, int table, std::span<const Interface> interfaces, RdmaPort& port) {
  for (int i = 0; i < std::min(table, 255); ++i) {
    Gid gid;
    if (!read_gid(verbs, context, port, i, gid) || rank_of(gid, port.ethernet) == 9) continue;
    if (port.ethernet) {
      const Address address = gid.address();
      gid.prefix = address.v6 ? 64 : 24;
      for (const Interface& interface : interfaces)
        for (const Address& a : interface.addresses)
          if (a.same_host(address)) gid.prefix = a.prefix;
    }
    port.gids.push_back(gid);
  }
}

void read_device(const VerbsLibrary& verbs, ibv_device* device, std::span<const Interface> interfaces, std::vector<RdmaPort>& out,
                 std::string& why) {
  const std::string name = verbs.get_device_name(device);
  ibv_context* context = verbs.open_device(device);
  if (!context) {
    why = "cannot open the device " + name + ": " + strerror(errno) + "; may this user open /dev/infiniband/uverbs*?";
    return;
  }
  ibv_device_attr about{};
  if (verbs.query_device(context, &about) == 0) {
    for (int p = 1; p <= about.phys_port_cnt; ++p) {
      ibv_port_attr attributes{};
      if (verbs.query_port(context, uint8_t(p), &attributes) != 0) continue;
      RdmaPort port;
      port.device = name;
      port.port = uint8_t(p);
      port.active = attributes.state == IBV_PORT_ACTIVE;
      port.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
      port.state = verbs.port_state_str(attributes.state);
      port.lid = attributes.lid;
      port.mtu = 128u << attributes.active_mtu;
      port.mbit = mbit_of(attributes);
      read_gids(verbs, context, attributes.gid_tbl_len, interfaces, port);
      out.push_back(std::move(port));
    }
  }
  verbs.close_device(context);
}

#endif

/// Spares those that have no devices the loading of libraries.
bool device_files_exist() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/dev/infiniband"), [](DIR* d) { return d ? closedir(d) : 0; });
  while (const dirent* entry = folder ? readdir(folder.get()) : nullptr)
    if (strncmp(entry->d_name, "uverbs", 6) == 0) return true;
  return false;
}

/// The names in a folder, without those that begin with a dot.
std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder.c_str()), closedir);
  while (const dirent* entry = open ? readdir(open.get()) : nullptr)
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  return names;
}

bool begins_with(const std::string& path, char wanted) {
  char first = 0;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool got = read(fd, &first, 1) == 1 && first == wanted;
  close(fd);
  return got;
}

}  // namespace

bool rdma_port_is_active() {
  const std::string devices = "/sys/class/infiniband";
  for (const std::string& device : entries(devices)) {
    const std::string ports = devices + "/" + device + "/ports";
    for (const std::string& port : entries(ports))
      if (begins_with(ports + "/" + port + "/state", '4')) return true;  // "4: ACTIVE"
  }
  return false;
}

Address Gid::address() const {
  Address out;
  if (type == Type::infiniband) return out;
  static constexpr uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  out.v6 = memcmp(bytes.data(), mapped, sizeof mapped) != 0;
  if (out.v6)
    out.bytes = bytes;
  else
    std::copy(bytes.begin() + 12, bytes.end(), out.bytes.begin());
  out.prefix = std::min<uint8_t>(prefix, out.v6 ? 128 : 32);
  return out;
}

std::string Gid::text() const {
  if (type != Type::infiniband) return address().text();
  Address plain;
  plain.v6 = true;
  plain.bytes = bytes;
  return plain.text();
}

Result<std::vector<RdmaPort>> list_rdma_ports() {
  if (!device_files_exist()) return Failure{"there is no RDMA device on this host (no /dev/infiniband/uverbs*)"};
#ifdef HAVE_VERBS
  const auto library = verbs_library();
  if (!library) return library.failure();
  const VerbsLibrary& verbs = **library;
  int count = 0;
  ibv_device** devices = verbs.get_device_list(&count);
  if (!devices) return Failure{std::string("libibverbs cannot list the devices: ") + strerror(errno)};
  std::vector<RdmaPort> ports;
  std::string why = "libibverbs knows none of this host's RDMA devices (Debian: apt install ibverbs-providers)";
  const auto interfaces = list_interfaces();
  for (int i = 0; i < count; ++i) read_device(verbs, devices[i], interfaces, ports, why);
  verbs.free_device_list(devices);
  if (ports.empty()) return Failure{why};
  return ports;
#else
  return Failure{"this Weft was built without rdma-core (Debian: apt install libibverbs-dev, then configure again)"};
#endif
}

Result<std::vector<RdmaPort>> choose(std::span<const RdmaPort> all, std::string_view setting, int gid_index) {
  std::vector<RdmaPort> list;
  std::string why;
  for (const RdmaPort& each : all) {
    if (!wanted(each, setting) || !each.active) continue;
    RdmaPort port = each;
    std::erase_if(port.gids, [&](const Gid& g) { return rank_of(g, port.ethernet) == 9 || (gid_index >= 0 && g.index != gid_index); });
    std::ranges::stable_sort(port.gids, {}, [&](const Gid& g) { return rank_of(g, port.ethernet); });
    if (port.gids.size() > kMostGids) port.gids.resize(kMostGids);
    if (port.gids.empty()) {
      why = "; " + port.name() + " has no address" + (gid_index >= 0 ? " of the index that WEFT_VERBS_GID names" : "");
      continue;
    }
    list.push_back(std::move(port));
  }
  if (list.empty())
    return Failure{(setting.empty() ? std::string("no RDMA port can be used")
                                    : "WEFT_VERBS_DEVICES=" + std::string(setting) + " leaves no RDMA port") +
                   "; there are: " + describe(all) + why};
  return list;
}

Result<std::vector<RdmaPort>> usable_rdma_ports() {
  auto all = list_rdma_ports();
  if (!all) return all.failure();
  return choose(*all, setting_devices.get(), int(setting_gid.get()));
}

int judge(const Gid& here, const Gid& there, bool same_host) {
  if (here.type != there.type) return 0;
  if (here.type == Gid::Type::infiniband) return std::equal(here.bytes.begin(), here.bytes.begin() + 8, there.bytes.begin()) ? 40 : 20;
  const Address a = here.address(), b = there.address();
  const int handicap = here.type == Gid::Type::roce_v1 ? 5 : 0;
  if (a.link_local() != b.link_local()) return 0;
  if (a.link_local()) return a.same_host(b) && !same_host ? 0 : (same_host ? 16 : 10) - handicap;
  switch (judge(a, b, same_host)) {
    case Reach::host: return 50 - handicap - int(a.v6);
    case Reach::subnet: return 40 - handicap - int(a.v6);
    case Reach::routed: return handicap ? 0 : 20 - int(a.v6);  // RoCE v1 knows no routers
    case Reach::none: break;
  }
  return 0;
}

}  // namespace weft::net
