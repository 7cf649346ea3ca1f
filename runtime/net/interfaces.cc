#include "runtime/net/interfaces.h"

#include <fnmatch.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <memory>

#include "runtime/config/config.h"

namespace weft::net {
namespace {

const config::Text setting_interfaces(
    "net", "interfaces", "",
    "Network interfaces for launcher and data: names, globs and CIDRs, comma-separated; ^ in front of one excludes it, in front of "
    "the whole list everything in it (eth0,10.1.0.0/16 or ^docker0,wlan*). Empty: all that look useful");

/// Bridges and pipes of containers and virtual machines: they lead to this host only, and their addresses repeat on every host.
constexpr const char* kHostOnly[] = {"docker*", "virbr*", "veth*",  "br-*",    "cni*",   "flannel*",
                                     "cali*",   "lxcbr*", "lxdbr*", "podman*", "vmnet*", "vboxnet*"};

bool host_only(const Interface& i) {
  return std::ranges::any_of(kHostOnly, [&](const char* glob) { return fnmatch(glob, i.name.c_str(), 0) == 0; });
}

uint32_t speed_of(const std::string& name) {
  std::ifstream file("/sys/class/net/" + name + "/speed");
  long mbit = 0;
  return file >> mbit && mbit > 0 ? uint32_t(mbit) : 0;
}

uint8_t prefix_of(const ifaddrs& entry, const Address& address) {
  const auto mask = from_socket(entry.ifa_netmask);
  if (!mask) return address.prefix;
  int bits = 0;
  for (const uint8_t byte : mask->bytes) bits += std::popcount(byte);
  return uint8_t(bits);
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// One item of the setting.
struct Rule {
  bool exclude;
  std::string glob;  ///< empty if it is a subnet
  std::optional<Address> subnet;

  bool matches(const Interface& i) const { return !subnet && fnmatch(glob.c_str(), i.name.c_str(), 0) == 0; }
  bool matches(const Address& a) const { return subnet && subnet->covers(a); }
};

std::vector<Rule> parse(std::string_view setting) {
  std::vector<Rule> rules;
  const bool all_excluded = trim(setting).starts_with('^');
  while (!setting.empty()) {
    const size_t comma = setting.find(',');
    std::string_view item = trim(setting.substr(0, comma));
    setting.remove_prefix(comma == std::string_view::npos ? setting.size() : comma + 1);
    const bool caret = item.starts_with('^');
    if (caret) item = trim(item.substr(1));
    if (item.empty()) continue;
    Rule rule{caret || all_excluded, std::string(item), parse_address(item)};
    if (rule.subnet) rule.glob.clear();
    rules.push_back(std::move(rule));
  }
  return rules;
}

template <class T>
bool any(const std::vector<Rule>& rules, bool exclude, const T& what) {
  return std::ranges::any_of(rules, [&](const Rule& r) { return r.exclude == exclude && r.matches(what); });
}

/// The part of an interface that the rules leave.
Interface filtered(const Interface& i, const std::vector<Rule>& rules, bool including) {
  Interface out = i;
  out.addresses.clear();
  if (any(rules, true, i)) return out;
  for (const Address& a : i.addresses) {
    const bool by_subnet = any(rules, false, a);
    if (any(rules, true, a) || (a.link_local() && !by_subnet)) continue;
    if (!including || by_subnet || any(rules, false, i)) out.addresses.push_back(a);
  }
  return out;
}

std::string describe(std::span<const Interface> all) {
  std::string text;
  for (const Interface& i : all) {
    text += (text.empty() ? "" : ", ") + i.name + " (";
    for (const Address& a : i.addresses) text += a.text() + "/" + std::to_string(a.prefix) + (&a == &i.addresses.back() ? "" : " ");
    text += i.up ? ")" : "; down)";
  }
  return text.empty() ? "none with an address" : text;
}

/// Keeps those that the predicate accepts, unless that were none.
template <class P>
void prefer(std::vector<Interface>& list, P wanted) {
  if (std::ranges::any_of(list, wanted)) std::erase_if(list, [&](const Interface& i) { return !wanted(i); });
}

}  // namespace

std::vector<Interface> list_interfaces() {
  std::vector<Interface> list;
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0) return list;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> hold(head, freeifaddrs);
  for (const ifaddrs* entry = head; entry; entry = entry->ifa_next) {
    auto address = from_socket(entry->ifa_addr);
    if (!address) continue;
    address->prefix = prefix_of(*entry, *address);
    auto at = std::ranges::find(list, entry->ifa_name, &Interface::name);
    if (at == list.end()) {
      const unsigned flags = entry->ifa_flags;
      list.push_back({entry->ifa_name,
                      if_nametoindex(entry->ifa_name),
                      (flags & IFF_UP) && (flags & IFF_RUNNING),
                      (flags & IFF_LOOPBACK) != 0,
                      speed_of(entry->ifa_name),
                      {}});
      at = list.end() - 1;
    }
    at->addresses.push_back(*address);
  }
  std::ranges::sort(list, {}, &Interface::index);
  for (Interface& i : list) std::ranges::stable_sort(i.addresses, {}, &Address::v6);
  return list;
}

Result<std::vector<Interface>> choose(std::span<const Interface> all, std::string_view setting, Extent extent) {
  const std::vector<Rule> rules = parse(setting);
  const bool including = std::ranges::any_of(rules, [](const Rule& r) { return !r.exclude; });
  std::vector<Interface> list;
  for (const Interface& i : all)
    if (Interface part = filtered(i, rules, including); part.up && !part.addresses.empty()) list.push_back(std::move(part));
  if (list.empty()) {
    if (rules.empty()) return Failure{"no network interface is up with an address; there are: " + describe(all)};
    return Failure{setting_interfaces.environment_name() + "=" + std::string(setting) +
                   " leaves no network interface that is up; there are: " + describe(all)};
  }
  if (including) return list;
  if (extent == Extent::host) {
    prefer(list, [](const Interface& i) { return i.loopback; });
  } else {
    prefer(list, [](const Interface& i) { return !i.loopback; });
    prefer(list, [](const Interface& i) { return !host_only(i); });
  }
  return list;
}

Result<std::vector<Interface>> usable_interfaces(Extent extent) { return choose(list_interfaces(), setting_interfaces.get(), extent); }

std::string network_host_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  struct stat space {};
  if (stat("/proc/self/ns/net", &space) == 0) id += "." + std::to_string(space.st_ino);
  return id;
}

}  // namespace weft::net
