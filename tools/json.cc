// The one place of the tools that compiles the JSON library.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/explain.h"
#include "tools/report.h"

namespace weft::tools {

using Json = nlohmann::ordered_json;

Result<Description> parse_description(const char* text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return Failure{"the library's description is not JSON"};
  Description out;
  try {
    out.version = json.at("version").get<std::string>();
    out.abi = json.at("abi").get<std::string>();
    out.transports = json.at("transports").get<std::vector<std::string>>();
    for (const auto& [name, version] : json.at("built_with").items()) out.built_with.emplace_back(name, version.get<std::string>());
    for (const Json& v : json.at("variables")) {
      auto get = [&](const char* key) { return v.at(key).get<std::string>(); };
      out.settings.push_back({get("name"), get("module"), get("type"), get("value"), get("default"), get("origin"), get("help")});
    }
    out.complaints = json.at("complaints").get<std::vector<std::string>>();
  } catch (const Json::exception& wrong) {
    return Failure{std::string("the library's description is of another version: ") + wrong.what()};
  }
  std::ranges::sort(out.settings, {}, &Setting::name);
  return out;
}

std::string to_json(const Description& d, const std::vector<Part>& parts) {
  Json built = Json::object(), found = Json::array(), variables = Json::array();
  for (const auto& [name, version] : d.built_with) built[name] = version;
  for (const Part& p : parts)
    found.push_back({{"name", p.name}, {"found", !p.version.empty()}, {"version", p.version}, {"detail", p.detail}});
  for (const Setting& s : d.settings)
    variables.push_back({{"name", s.name},
                         {"module", s.module},
                         {"type", s.type},
                         {"value", s.value},
                         {"default", s.default_value},
                         {"origin", s.origin},
                         {"help", s.help}});
  const Json all = {{"version", d.version}, {"abi", d.abi},   {"library", d.file},      {"transports", d.transports},
                    {"built_with", built},  {"parts", found}, {"variables", variables}, {"complaints", d.complaints}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  bool healthy = true;
  for (const Finding& f : findings) {
    healthy = healthy && f.level != Level::problem;
    list.push_back({{"subject", f.subject}, {"level", to_string(f.level)}, {"text", f.text}, {"remedy", f.remedy}});
  }
  return Json{{"healthy", healthy}, {"findings", list}}.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(const std::vector<boot::JobRecord>& jobs) {
  Json list = Json::array();
  for (const auto& j : jobs) {
    list.push_back({{"job", j.job},
                    {"pid", j.launcher.pid},
                    {"ranks", j.ranks},
                    {"since", j.since},
                    {"state", to_string(j.life)},
                    {"host", j.host},
                    {"directory", j.directory},
                    {"command", j.command},
                    {"folder", j.folder}});
    if (!j.origin.empty()) list.back().update({{"origin", j.origin}, {"origin-pid", j.origin_pid}});
  }
  return list.dump(2, ' ', false, Json::error_handler_t::replace);
}

namespace {

Json priced(const coll::Candidate& c) {
  Json out = {{"algorithm", c.algorithm->name}, {"segments", c.segments}};
  if (!c.unpriced.empty()) {
    out["unpriced"] = c.unpriced;
    return out;
  }
  const coll::Clock& t = c.price.time;
  const coll::Traffic& traffic = c.price.traffic;
  out.update({{"ns", t.at},
              {"latency_ns", t.latency},
              {"transfer_ns", t.transfer},
              {"waiting_ns", t.waiting},
              {"work_ns", t.work},
              {"hops", t.hops},
              {"shortened", c.price.shortened},
              {"messages", traffic.messages},
              {"bytes", traffic.bytes},
              {"between_hosts", traffic.between_hosts},
              {"bytes_between_hosts", traffic.bytes_between_hosts},
              {"between_switches", traffic.between_switches},
              {"bytes_between_switches", traffic.bytes_between_switches},
              {"busiest_host_link", traffic.busiest_host_link},
              {"busiest_uplink", traffic.busiest_uplink}});
  return out;
}

}  // namespace

std::string to_json(const Explanation& e) {
  Json list = Json::array(), machine = Json::object();
  for (const coll::Candidate& c : e.candidates) list.push_back(priced(c));
  coll::Machine numbers = e.machine;
  for (const coll::MachineField& field : coll::machine_fields()) machine[field.name] = field.of(numbers);
  const coll::Decision& d = e.decision;
  const Json runs = {{"algorithm", d.node ? "node" : d.choice.algorithm->name},
                     {"segments", d.choice.segments},
                     {"by", coll::to_string(d.by)},
                     {"entry", d.wish},
                     {"table_entry", d.table},
                     {"entry_unusable", d.unusable}};
  Json measured = Json::object();
  for (const auto& [name, ns] : e.measured) measured[name] = ns;
  const Json all = {{"collective", e.question.collective},
                    {"ranks", e.agreed.size},
                    {"bytes", e.agreed.bytes},
                    {"hosts", e.hosts},
                    {"switches", e.switches},
                    {"candidates", list},
                    {"unfit", e.unfit},
                    {"runs", runs},
                    {"reason", e.reason},
                    {"verdict", e.verdict},
                    {"machine", machine},
                    {"table", e.table_file},
                    {"measured_bytes", e.measured_bytes},
                    {"measured", measured}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace weft::tools
