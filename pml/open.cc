// Which transports a lane is opened with: WEFT_NET and WEFT_WRAP.
#include <algorithm>
#include <array>
#include <string_view>

#include "pml/lane.h"
#include "runtime/base/log.h"
#include "runtime/config/config.h"

namespace weft::pml {
namespace {

config::Text net_variable("", "net", "auto", "Transports to use, the preferred one first: auto, or a list of self, shm, verbs, ucx, tcp.");
config::Text wrap_variable("", "wrap", "", "Faults to inject into all transports but self, for tests: see btl/wrap/README.md.");

using Transports = std::vector<std::unique_ptr<btl::Transport>>;

Result<Transports> one(Result<std::unique_ptr<btl::Transport>> opened) {
  if (!opened) return opened.failure();
  Transports list;
  list.push_back(std::move(*opened));
  return list;
}

/// The list of transports: a new one is one line here.
struct Known {
  std::string_view name;
  Result<Transports> (*open)(const btl::Site&);
};
constexpr std::array known{
    Known{"self", [](const btl::Site& site) { return one(btl::open_self(site)); }},
    Known{"shm", [](const btl::Site& site) { return one(btl::open_shm(site)); }},
    Known{"verbs", [](const btl::Site& site) { return btl::open_verbs(site); }},
    Known{"ucx", [](const btl::Site& site) { return one(btl::open_ucx(site)); }},
    Known{"tcp", [](const btl::Site& site) { return btl::open_tcp(site); }},
};

/// Why a transport is not even tried on its own; empty: it is. Loading the libraries of verbs and ucx takes time (UCX: up to half a
/// second): they are tried, in this order, only where they may reach a device that tcp does not.
std::string not_worthwhile(std::string_view name, const boot::Job& job, const Transports& opened) {
  if (name == "tcp" && job.size == 1) return "one rank has nobody to talk to";
  if (name != "verbs" && name != "ucx") return "";
  if (job.node_count == 1) return "all ranks are on one host";
  if (!btl::rdma_device_is_active()) return "no InfiniBand or RoCE port is up";
  const bool has_verbs = std::ranges::any_of(opened, [](const auto& t) { return std::string_view(t->caps().name) == "verbs"; });
  return has_verbs ? "verbs reaches the same devices" : "";
}

std::string names() {
  std::string text;
  for (const Known& k : known) text += (text.empty() ? "" : ", ") + std::string(k.name);
  return text;
}

Result<std::vector<std::string>> wished(std::string_view rest) {
  std::vector<std::string> list;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string name(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (name.empty()) continue;
    if (name != "auto" && std::ranges::find(known, name, &Known::name) == known.end())
      return Failure{"WEFT_NET names a transport \"" + name + "\" that does not exist; there are: auto, " + names()};
    list.push_back(std::move(name));
  }
  return list;
}

}  // namespace

Result<std::unique_ptr<Lane>> Lane::open(boot::Bootstrap& boot, bool threads) { return open_named(boot, threads, net_variable.get()); }

Result<std::unique_ptr<Lane>> Lane::open_named(boot::Bootstrap& boot, bool threads, std::string_view names_wished) {
  auto wish = wished(names_wished);
  if (!wish) return wish.failure();
  const bool automatic = wish->empty() || std::ranges::find(*wish, "auto") != wish->end();
  if (automatic) {
    wish->clear();
    for (const Known& k : known) wish->emplace_back(k.name);
  } else if (std::ranges::find(*wish, "self") == wish->end()) {
    wish->insert(wish->begin(), "self");  // a process can always send to itself
  }
  const btl::Site site{boot};
  Transports transports;
  std::vector<Unused> unused;
  for (const Known& k : known)
    if (std::ranges::find(*wish, k.name) == wish->end()) unused.push_back({std::string(k.name), "WEFT_NET does not name it"});
  for (const std::string& name : *wish) {
    if (automatic)
      if (std::string why = not_worthwhile(name, boot.job(), transports); !why.empty()) {
        unused.push_back({name, std::move(why)});
        continue;
      }
    auto opened = std::ranges::find(known, name, &Known::name)->open(site);
    if (!opened) {
      if (!automatic) return Failure{"the transport " + name + ", which WEFT_NET asks for, cannot be used: " + opened.failure().text};
      log(Level::info, "the transport %s cannot be used: %s", name.c_str(), opened.failure().text.c_str());
      unused.push_back({name, opened.failure().text});
      continue;
    }
    for (auto& transport : *opened) {
      if (!wrap_variable.get().empty() && name != "self") {
        auto wrapped = btl::wrap(std::move(transport), wrap_variable.get());
        if (!wrapped) return Failure{"WEFT_WRAP: " + wrapped.failure().text};
        transport = std::move(*wrapped);
      }
      transports.push_back(std::move(transport));
    }
  }
  auto lane = open_over(boot, threads, std::move(transports));
  if (lane) (*lane)->unused_ = std::move(unused);
  return lane;
}

}  // namespace weft::pml
