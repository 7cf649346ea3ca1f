// Which transports a lane is opened with: WEFT_NET and WEFT_WRAP.
#include <algorithm>
#include <string_view>

#include "btl/list.h"
#include "pml/lane.h"
#include "runtime/base/log.h"
#include "runtime/config/config.h"

namespace weft::pml {
namespace {

config::Text net_variable(
    "", "net", "auto",
    "Transports to use: auto, or a list of those that weft info names. Of those that reach a process the cheapest is taken.");
config::Text wrap_variable("", "wrap", "", "Faults to inject into all transports but self, for tests: see btl/wrap/README.md.");

const btl::Kind* kind_called(std::string_view name) {
  const auto at = std::ranges::find(btl::kinds(), name, &btl::Kind::name);
  return at == btl::kinds().end() ? nullptr : &*at;
}

std::string names() {
  std::string text;
  for (const btl::Kind& k : btl::kinds()) text += (text.empty() ? "" : ", ") + std::string(k.name);
  return text;
}

/// `first`: of several processes that read the same, the one that speaks.
Result<std::vector<std::string>> wished(std::string_view rest, bool first) {
  std::vector<std::string> list;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string name(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (name.empty()) continue;
    if (name != "auto" && !kind_called(name))
      return Failure{"WEFT_NET names a transport \"" + name + "\" that does not exist; there are: auto, " + names()};
    if (std::ranges::find(list, name) == list.end())
      list.push_back(std::move(name));
    else if (first)
      log(Level::warning, "WEFT_NET names %s twice; it is used once", name.c_str());
  }
  return list;
}

}  // namespace

Result<std::unique_ptr<Lane>> Lane::open(boot::Bootstrap& boot, bool threads) { return open_named(boot, threads, net_variable.get()); }

Result<std::unique_ptr<Lane>> Lane::open_named(boot::Bootstrap& boot, bool threads, std::string_view names) {
  auto lane = assemble_named(boot, threads, names);
  return lane ? set_off(std::move(*lane)) : std::move(lane);
}

Result<std::unique_ptr<Lane>> Lane::assemble(boot::Bootstrap& boot, bool threads) {
  return assemble_named(boot, threads, net_variable.get());
}

Result<std::unique_ptr<Lane>> Lane::assemble_named(boot::Bootstrap& boot, bool threads, std::string_view names_wished) {
  auto wish = wished(names_wished, boot.job().rank == 0);
  if (!wish) return wish.failure();
  const bool automatic = wish->empty() || std::ranges::find(*wish, "auto") != wish->end();
  if (automatic) {
    wish->clear();
    for (const btl::Kind& k : btl::kinds()) wish->emplace_back(k.name);
  } else if (std::ranges::find(*wish, "self") == wish->end()) {
    wish->insert(wish->begin(), "self");  // a process can always send to itself
  }
  const btl::Site site{boot};
  btl::Transports transports;
  std::vector<std::string_view> there;
  std::vector<Unused> unused;
  for (const btl::Kind& k : btl::kinds())
    if (std::ranges::find(*wish, k.name) == wish->end()) unused.push_back({std::string(k.name), "WEFT_NET does not name it"});
  for (const std::string& name : *wish) {
    const btl::Kind& kind = *kind_called(name);
    if (automatic && kind.spared)
      if (std::string why = kind.spared(boot.job(), there); !why.empty()) {
        unused.push_back({name, std::move(why)});
        continue;
      }
    auto opened = kind.open(site);
    if (!opened) {
      if (!automatic) return Failure{"the transport " + name + ", which WEFT_NET asks for, cannot be used: " + opened.failure().text};
      log(Level::info, "the transport %s cannot be used: %s", name.c_str(), opened.failure().text.c_str());
      unused.push_back({name, opened.failure().text});
      continue;
    }
    there.push_back(kind.name);
    for (auto& transport : *opened) {
      if (!wrap_variable.get().empty() && name != "self") {
        auto wrapped = btl::wrap(std::move(transport), wrap_variable.get());
        if (!wrapped) return Failure{"WEFT_WRAP: " + wrapped.failure().text};
        transport = std::move(*wrapped);
      }
      transports.push_back(std::move(transport));
    }
  }
  std::unique_ptr<Lane> lane(new Lane(boot, threads, std::move(transports)));
  lane->unused_ = std::move(unused);
  return lane;
}

}  // namespace weft::pml
