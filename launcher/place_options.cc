#include "launcher/place_options.h"

#include <algorithm>

#include "launcher/place/hosts.h"
#include "launcher/place/policy.h"
#include "launcher/place/rankfile.h"
#include "launcher/place/words.h"

namespace weft::launcher {
namespace {

Result<void> read_policies(const PlaceWords& words, placement::Request& request) {
  for (const std::string& text : words.map)
    if (auto ok = placement::read_map_by(text, request); !ok) return ok;
  for (const std::string& text : words.rank_by)
    if (auto ok = placement::read_rank_by(text, request); !ok) return ok;
  for (const std::string& text : words.bind)
    if (auto ok = placement::read_bind_to(text, request); !ok) return ok;
  if (!words.cpu_set.empty())
    if (auto ok = placement::read_cpu_set(words.cpu_set, request); !ok) return ok;
  if (words.cores_each) request.cores_each = static_cast<uint32_t>(words.cores_each);
  if (words.gpus_each) request.gpus_each = static_cast<uint32_t>(words.gpus_each);
  request.oversubscribe |= words.oversubscribe;
  request.never_oversubscribe |= words.never_oversubscribe;
  request.threads_are_cores |= words.threads_are_cores;
  return {};
}

/// What --map-by seq needs of a hostfile.
Result<void> read_sequence(const std::string& file, placement::Request& request) {
  if (!request.in_sequence) return {};
  auto text = placement::read_text(file);
  if (!text) return text.failure();
  auto names = placement::parse_sequence(*text, file);
  if (!names) return names.failure();
  request.sequence = std::move(*names);
  return {};
}

/// -H names hosts; beside a hostfile it chooses among the file's.
Result<void> read_hosts(const PlaceWords& words, Options& options, App& app) {
  std::vector<placement::Host>& hosts = options.request.hosts;
  if (!words.hostfile.empty()) {
    auto file = placement::read_hostfile(words.hostfile);
    if (!file) return file.failure();
    if (!options.hosts_by_file) hosts.clear();  // what earlier parts named by -H alone is chosen from the file now
    options.hosts_by_file = true;
    placement::add_hosts(hosts, *file);
    if (auto ok = read_sequence(words.hostfile, options.request); !ok) return ok;
  }
  if (words.hosts.empty()) return {};
  auto named = placement::parse_hosts(words.hosts);
  if (!named) return named.failure();
  if (words.hostfile.empty() && !options.hosts_by_file)  // -H beside a hostfile only chooses
    for (const std::string& word : placement::split_outside_brackets(words.hosts, ','))
      if (auto names = placement::expand(word.substr(0, word.find(':'))))
        options.request.sequence.insert(options.request.sequence.end(), names->begin(), names->end());
  for (const placement::Host& host : *named) {
    app.hosts.push_back(host.name);
    const auto known = std::ranges::find(hosts, host.name, &placement::Host::name);
    if (known == hosts.end() && options.hosts_by_file) return Failure{"-H " + words.hosts + ": " + host.name + " is not in the hostfile"};
    if (known == hosts.end())
      hosts.push_back(host);
    else if (!host.bare)
      known->slots = host.slots;
  }
  return {};
}

Result<void> read_display(const std::string& text, Options& options) {
  if (text.empty()) return {};
  for (const std::string& word : placement::split(placement::lower(text), ',')) {
    if (word == "map" || word == "map-devel" || word == "allocation")
      options.display_map = true;
    else if (word == "bind" || word == "bindings")
      options.report_bindings = true;
    else
      return Failure{"--display " + word + " is not known" + placement::did_you_mean(word, {"map", "bind"}) + " (there are: map, bind)"};
  }
  return {};
}

}  // namespace

Result<void> read_places(const PlaceWords& words, Options& options, App& app) {
  if (auto ok = read_policies(words, options.request); !ok) return ok;
  if (auto ok = read_hosts(words, options, app); !ok) return ok;
  if (auto ok = read_display(words.display, options); !ok) return ok;
  if (!words.rankfile.empty()) {
    auto lines = placement::read_rankfile(words.rankfile);
    if (!lines) return lines.failure();
    options.request.rankfile = std::move(*lines);
  }
  app.per_host = static_cast<uint32_t>(words.per_host);
  options.report_bindings |= words.report_bindings;
  options.display_map |= words.display_map;
  options.dry_run |= words.dry_run;
  return {};
}

}  // namespace weft::launcher
