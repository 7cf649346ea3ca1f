#include "coll/machine.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/text.h"
#include "runtime/config/config.h"

namespace weft::coll {

namespace {

config::Text machine_setting(
    "coll", "machine", "",
    "numbers of the machine that the model of collectives counts with, as for weft explain --machine; mpirun sets it "
    "from the table of weft tune. With leaf.latency among them, ranks on several hosts take the cheapest algorithm where "
    "the table has nothing to say. The same on all ranks");

template <int level, double Path::*field>
double& of_path(Machine& m) {
  return m.paths[level].*field;
}

template <double Machine::*field>
double& of_machine(Machine& m) {
  return m.*field;
}

constexpr MachineField kFields[] = {
    {"cache.latency", "ns", of_path<0, &Path::latency>},
    {"cache.per_byte", "ns/B", of_path<0, &Path::per_byte>},
    {"cache.send", "ns", of_path<0, &Path::send>},
    {"cache.receive", "ns", of_path<0, &Path::receive>},
    {"host.latency", "ns", of_path<1, &Path::latency>},
    {"host.per_byte", "ns/B", of_path<1, &Path::per_byte>},
    {"host.send", "ns", of_path<1, &Path::send>},
    {"host.receive", "ns", of_path<1, &Path::receive>},
    {"leaf.latency", "ns", of_path<2, &Path::latency>},
    {"leaf.per_byte", "ns/B", of_path<2, &Path::per_byte>},
    {"leaf.send", "ns", of_path<2, &Path::send>},
    {"leaf.receive", "ns", of_path<2, &Path::receive>},
    {"far.latency", "ns", of_path<3, &Path::latency>},
    {"far.per_byte", "ns/B", of_path<3, &Path::per_byte>},
    {"far.send", "ns", of_path<3, &Path::send>},
    {"far.receive", "ns", of_path<3, &Path::receive>},
    {"host_link", "ns/B", of_machine<&Machine::host_link>},
    {"uplink", "ns/B", of_machine<&Machine::uplink>},
    {"reduce", "ns/B", of_machine<&Machine::reduce>},
    {"copy", "ns/B", of_machine<&Machine::copy>},
};

}  // namespace

const char* to_string(Level level) {
  static constexpr const char* names[kLevels] = {"cache", "host", "leaf", "far"};
  return names[static_cast<int>(level)];
}

std::span<const MachineField> machine_fields() { return kFields; }

Machine this_machine() {
  Machine machine;
  set_fields(machine, machine_setting.get());
  return machine;
}

std::string told_numbers() { return machine_setting.get(); }

bool leaf_is_measured() { return machine_setting.get().find("leaf.latency=") != std::string::npos; }

std::string set_fields(Machine& machine, std::string_view settings) {
  while (!settings.empty()) {
    const std::string_view entry = settings.substr(0, settings.find(','));
    settings.remove_prefix(std::min(entry.size() + 1, settings.size()));
    const size_t sign = std::min(entry.find('='), entry.size());
    const std::string_view name = entry.substr(0, sign), digits = entry.substr(std::min(sign + 1, entry.size()));
    const auto field = std::ranges::find_if(kFields, [&](const MachineField& f) { return name == f.name; });
    if (field == std::end(kFields)) return "\"" + std::string(name) + "\" is no number of the machine";
    double value = 0;
    if (!read_number(digits, value) || !std::isfinite(value) || value < 0)
      return "\"" + std::string(entry) + "\" does not give " + field->name + " in " + field->unit + ", such as " + field->name + "=0.08";
    field->of(machine) = value;
  }
  return {};
}

}  // namespace weft::coll
