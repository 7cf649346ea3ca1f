#include "runtime/topo/fabric.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/base/text.h"

namespace weft::topo {
namespace {

/// What stands between the first two quotation marks; empty: there are none.
std::string_view quoted(std::string_view text) {
  const size_t open = text.find('"');
  const size_t close = open == text.npos ? open : text.find('"', open + 1);
  return close == text.npos ? std::string_view() : text.substr(open + 1, close - open - 1);
}

bool in_names(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_'; }

std::string host_in(std::string_view description) { return {description.begin(), std::ranges::find_if_not(description, in_names)}; }

struct Fabric {
  std::map<std::string, std::set<std::string>> links;     ///< between switches
  std::map<std::string, std::vector<std::string>> hosts;  ///< by switch
  std::map<std::string, int> level;                       ///< of switches: 0 where hosts hang on them
  int top = 0;

  static Result<Fabric> read(std::string_view text);
  void find_levels();
  /// The switches up to a level that reach each other over such ones, by one of them.
  std::map<std::string, std::string> groups(int most) const;
};

Result<Fabric> Fabric::read(std::string_view text) {
  Fabric fabric;
  std::set<std::string> placed;
  std::string at, host;  // the device whose ports come
  for (const std::string_view line : split(text, '\n')) {
    const size_t mark = std::min(line.find('#'), line.size());
    const std::string name(quoted(line.substr(0, mark)));
    if (line.starts_with("Switch") || line.starts_with("Ca") || line.starts_with("Rt")) {
      at = line.starts_with("Rt") ? std::string() : name;
      host = line.starts_with("Ca") ? host_in(quoted(line.substr(mark))) : std::string();
      if (line.starts_with("Ca") && host.empty()) return Failure{"the description of the adapter " + name + " begins with no host's name"};
      if (line.starts_with("Switch")) fabric.links[at];
    } else if (line.starts_with('[') && !at.empty() && name.starts_with("S-")) {
      if (host.empty()) {
        fabric.links[at].insert(name);
        fabric.links[name].insert(at);
      } else if (placed.insert(host).second) {
        fabric.hosts[name].push_back(host);
        fabric.links[name];
      }
    }
  }
  fabric.find_levels();
  return fabric;
}

void Fabric::find_levels() {
  std::vector<std::string> found;
  for (const auto& [name, unused] : hosts) level[name] = 0, found.push_back(name);
  for (size_t i = 0; i < found.size(); ++i) {
    const int next = level[found[i]] + 1;
    for (const std::string& other : links[found[i]])
      if (level.try_emplace(other, next).second) found.push_back(other), top = next;
  }
}

std::map<std::string, std::string> Fabric::groups(int most) const {
  std::map<std::string, std::string> group;
  for (const auto& [first, its] : level) {
    if (its > most || group.contains(first)) continue;
    std::vector<std::string> members{first};
    group[first] = first;
    for (size_t i = 0; i < members.size(); ++i)
      for (const std::string& other : links.at(members[i]))
        if (level.at(other) <= most && group.try_emplace(other, first).second) members.push_back(other);
  }
  return group;
}

template <class Names>
std::string joined(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

struct Sight {
  std::string host, neighbour;
};

/// "HOST: lldp.INTERFACE.chassis.name=NEIGHBOUR"; nothing: another line.
std::optional<Sight> sight_in(std::string_view line) {
  constexpr std::string_view begin = ": lldp.", name = ".chassis.name=";
  const size_t host = line.find(begin);
  const size_t key = host == line.npos ? host : line.find(name, host);
  if (key == line.npos || line.find('=') < key) return {};
  Sight sight{std::string(line.substr(0, host)), std::string(line.substr(key + name.size()))};
  while (sight.neighbour.ends_with('\r') || sight.neighbour.ends_with(' ')) sight.neighbour.pop_back();
  std::ranges::replace_if(sight.neighbour, std::not_fn(in_names), '_');  // they are any text
  if (sight.host.empty() || sight.neighbour.empty() || host_in(sight.host) != sight.host) return {};
  return sight;
}

}  // namespace

bool is_neighbours(std::string_view text) {
  return std::ranges::any_of(split(text, '\n'), [](std::string_view line) { return sight_in(line).has_value(); });
}

Result<std::string> tree_of_neighbours(std::string_view text) {
  std::map<std::string, std::vector<std::string>> hosts;  // by switch
  std::set<std::string> seeing;
  for (const std::string_view line : split(text, '\n')) {
    const auto sight = sight_in(line);
    if (!sight) continue;
    auto& its = hosts[sight->neighbour];
    if (seeing.insert(sight->host).second) its.push_back(sight->host);
  }
  std::string lines;
  for (const auto& [name, list] : hosts) {
    if (seeing.contains(name)) return Failure{"what " + name + " sees is there, too, but others see it as a switch; take what hosts see"};
    if (!list.empty()) lines += "SwitchName=" + name + " Nodes=" + joined(list) + "\n";
  }
  return lines;
}

bool is_fabric(std::string_view text) { return text.starts_with("switchguid=") || text.find("\nswitchguid=") != text.npos; }

Result<std::string> tree_of_fabric(std::string_view text) {
  const auto fabric = Fabric::read(text);
  if (!fabric) return fabric.failure();
  std::string lines;
  std::map<std::string, std::string> below;  // by switch that hosts hang on: what it is part of
  for (const auto& [name, hosts] : fabric->hosts) {
    lines += "SwitchName=" + name + " Nodes=" + joined(hosts) + "\n";
    below[name] = name;
  }
  for (int most = 1; most <= fabric->top; ++most) {
    const auto groups = fabric->groups(most);
    std::map<std::string, std::set<std::string>> parts;
    for (const auto& [leaf, part] : below) parts[groups.at(leaf)].insert(part);
    std::map<std::string, std::string> names;
    for (const auto& [group, list] : parts) {
      std::string& name = names[group];
      name = *list.begin();
      if (list.size() < 2) continue;
      name = "above" + std::to_string(most) + "-" + std::to_string(names.size());
      lines += "SwitchName=" + name + " Switches=" + joined(list) + "\n";
    }
    for (auto& [leaf, part] : below) part = names.at(groups.at(leaf));
  }
  return lines;
}

}  // namespace weft::topo
