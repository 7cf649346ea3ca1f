// The one file of the library and the launcher that compiles the JSON library.
#include "runtime/config/coll_table.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tuple>

#include "runtime/config/config.h"

namespace weft::config {
namespace {

using Json = nlohmann::ordered_json;
using Measurement = CollTable::Measurement;

constexpr const char* kVersion = "weft-collectives";
constexpr int kNumber = 1;
constexpr double kSame = 1.05;
constexpr uint64_t kMostSize = uint64_t{1} << 50;
constexpr size_t kMostText = 4096;

auto key_of(const Measurement& m) { return std::tie(m.collective, m.ranks, m.hosts, m.bytes); }
auto place_of(const Measurement& m) { return std::tie(m.collective, m.ranks, m.hosts); }

/// What is wrong with a file, thrown to parse().
struct Wrong {
  std::string text;
};

void demand(bool right, const std::string& what) {
  if (!right) throw Wrong{what};
}

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.'; });
}

const Json& member(const Json& of, const char* name) {
  demand(of.is_object() && of.contains(name), std::string("\"") + name + "\" is missing");
  return of[name];
}

std::string text_of(const Json& of, const char* name) {
  const Json& text = member(of, name);
  demand(text.is_string() && text.get_ref<const std::string&>().size() <= kMostText, std::string("\"") + name + "\" is no short text");
  return text.get<std::string>();
}

std::string word_of(const Json& of, const char* name) {
  std::string word = text_of(of, name);
  demand(is_word(word), std::string("\"") + name + "\" is no name");
  return word;
}

uint64_t whole_number(const Json& of, const char* name, uint64_t from, uint64_t to) {
  const Json& number = member(of, name);
  demand(number.is_number_unsigned() && number.get<uint64_t>() >= from && number.get<uint64_t>() <= to,
         std::string("\"") + name + "\" is no number from " + std::to_string(from) + " to " + std::to_string(to));
  return number.get<uint64_t>();
}

double amount(const Json& number, const std::string& name) {
  demand(number.is_number() && std::isfinite(number.get<double>()) && number.get<double>() >= 0, "\"" + name + "\" is no time");
  return number.get<double>();
}

std::vector<std::string> texts_of(const Json& of, const char* name) {
  const Json& list = member(of, name);
  demand(list.is_array(), std::string("\"") + name + "\" is no list");
  std::vector<std::string> texts;
  for (const Json& text : list) {
    demand(text.is_string() && text.get_ref<const std::string&>().size() <= kMostText,
           std::string("\"") + name + "\" holds what is no short text");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

CollTable::Run read_run(const Json& json) {
  return {.date = text_of(json, "date"),
          .weft = text_of(json, "weft"),
          .cpu = text_of(json, "cpu"),
          .ranks = static_cast<int32_t>(whole_number(json, "ranks", 1, INT32_MAX)),
          .hosts = texts_of(json, "hosts"),
          .network = texts_of(json, "network")};
}

Measurement read_measurement(const Json& json, size_t runs) {
  Measurement m;
  m.collective = word_of(json, "collective");
  m.ranks = static_cast<int32_t>(whole_number(json, "ranks", 1, INT32_MAX));
  m.hosts = static_cast<int32_t>(whole_number(json, "hosts", 1, static_cast<uint64_t>(m.ranks)));
  m.bytes = whole_number(json, "bytes", 0, kMostSize);
  demand(runs > 0, "measurements without a run that they are from");
  m.run = whole_number(json, "run", 0, runs - 1);
  if (json.contains("usual")) m.usual = word_of(json, "usual");
  const Json& times = member(json, "ns");
  demand(times.is_object() && !times.empty(), "\"ns\" names no algorithm");
  for (const auto& [name, ns] : times.items()) {
    demand(is_word(name), "\"ns\" has a member that is no name");
    m.times.push_back({name, amount(ns, name)});
  }
  return m;
}

std::map<std::string, CollTable::Number> read_numbers(const Json& json, const char* what, size_t runs) {
  const std::string quoted = std::string("\"") + what + "\"";
  const Json& numbers = member(json, what);
  demand(numbers.is_object(), quoted + " is no object");
  std::map<std::string, CollTable::Number> all;
  for (const auto& [name, number] : numbers.items()) {
    demand(is_word(name), quoted + " has a member that is no name");
    demand(runs > 0, quoted + " has numbers without a run that they are from");
    all[name] = {amount(member(number, "value"), name), whole_number(number, "run", 0, runs - 1)};
  }
  return all;
}

CollTable read_all(const Json& json) {
  demand(json.is_object(), "it is no JSON object");
  demand(json.contains(kVersion), std::string("there is no \"") + kVersion + "\": it is no table of weft tune");
  demand(json[kVersion] == kNumber, "it is of another version of weft tune: this one reads version " + std::to_string(kNumber));
  CollTable table;
  for (const Json& run : member(json, "runs")) table.runs.push_back(read_run(run));
  table.machine = read_numbers(json, "machine", table.runs.size());
  if (json.contains("settings")) table.settings = read_numbers(json, "settings", table.runs.size());  // older tables have none
  for (const auto& [name, number] : table.settings) {
    demand(std::ranges::count(measured_settings(), name) > 0, name + " is no setting of those that are measured");
    demand(number.value <= static_cast<double>(kMostSize), name + " is too large");
  }
  for (const Json& one : member(json, "measurements")) table.measurements.push_back(read_measurement(one, table.runs.size()));
  return table;
}

/// Sorts; of several measurements on the same the last one counts.
void settle(std::vector<Measurement>& list) {
  std::ranges::stable_sort(list, [](const Measurement& a, const Measurement& b) { return key_of(a) < key_of(b); });
  std::vector<Measurement> kept;
  for (Measurement& m : list) {
    if (!kept.empty() && key_of(kept.back()) == key_of(m))
      kept.back() = std::move(m);
    else
      kept.push_back(std::move(m));
  }
  list = std::move(kept);
}

/// Drops runs that nothing is from any more.
void drop_runs(CollTable& table) {
  std::vector<size_t> place(table.runs.size(), SIZE_MAX);
  std::vector<CollTable::Run> kept;
  const auto keep = [&](size_t& run) {
    if (place[run] == SIZE_MAX) {
      place[run] = kept.size();
      kept.push_back(table.runs[run]);
    }
    run = place[run];
  };
  for (Measurement& m : table.measurements) keep(m.run);
  for (auto* numbers : {&table.machine, &table.settings})
    for (auto& [name, number] : *numbers) keep(number.run);
  table.runs = std::move(kept);
}

/// The power of two in the middle between two sizes.
uint64_t between(uint64_t a, uint64_t b) {
  const double middle = std::sqrt(static_cast<double>(std::max<uint64_t>(a, 1)) * static_cast<double>(b));
  return std::clamp(std::bit_floor(static_cast<uint64_t>(middle)), a + 1, b);
}

/// Up to where a size speaks for others; `last`: behind those of its collective and ranks.
uint64_t end_of(const Measurement* m, const Measurement* last) {
  return m + 1 == last ? 4 * std::max<uint64_t>(std::bit_floor(m->bytes), 1) : between(m->bytes, m[1].bytes);
}

std::string entry(const Measurement& m, uint64_t from, uint64_t to, const std::string& algorithm) {
  std::string text = m.collective + "@" + std::to_string(m.ranks) + "/" + std::to_string(m.hosts);
  if (from > 0 || to > 0) text += ":" + (from ? std::to_string(from) : "") + "-" + (to ? std::to_string(to) : "");
  return text + "=" + algorithm + ";";
}

/// What is measured of one collective on some ranks.
std::string words_of(const Measurement* first, const Measurement* last) {
  if (first->bytes == 0 && last - first == 1) return entry(*first, 0, 0, first->best().algorithm);
  std::string text;
  uint64_t from = 0;
  for (const Measurement* m = first; m != last; ++m) {
    if (m + 1 != last && m[1].best().algorithm == m->best().algorithm) continue;
    const uint64_t to = end_of(m, last);
    text += entry(*m, from, to, m->best().algorithm);
    from = to;
  }
  return text;
}

bool readable(const std::string& file) { return access(file.c_str(), R_OK) == 0; }

}  // namespace

const CollTable::Time& CollTable::Measurement::best() const {
  const auto fastest = std::ranges::min_element(times, {}, &Time::ns);
  const auto found = std::ranges::find(times, usual, &Time::algorithm);
  return found != times.end() && found->ns <= kSame * fastest->ns ? *found : *fastest;
}

Result<CollTable> CollTable::parse(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return Failure{"it is not JSON"};
  try {
    CollTable table = read_all(json);
    settle(table.measurements);
    drop_runs(table);
    return table;
  } catch (const Wrong& wrong) {
    return Failure{wrong.text};
  } catch (const Json::exception& wrong) {
    return Failure{wrong.what()};
  }
}

Result<CollTable> CollTable::read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return Failure{file + ": cannot be read"};
  std::string text(kMostBytes + 1, 0);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMostBytes) return Failure{file + ": is too long for a table of weft tune"};
  auto table = parse(text);
  return table ? std::move(table) : Failure{file + ": " + table.failure().text};
}

Result<CollTable::Told> CollTable::told_by(const std::string& file, int32_t most_ranks) {
  const std::string none = "no table of weft tune is used: ";
  auto table = read(file);
  if (!table) return Failure{none + table.failure().text};
  Told told{table->words(most_ranks), table->machine_words(), std::move(table->settings)};
  if (told.words.size() > kMostOfVariable) return Failure{none + file + " says too much for one job"};
  return told;
}

std::vector<std::string> measured_settings() { return {"shm.get_from", "shm.get_from_crowded"}; }

std::string CollTable::to_json() const {
  Json all = {{kVersion, kNumber}, {"runs", Json::array()}, {"machine", Json::object()}, {"measurements", Json::array()}};
  for (const Run& r : runs)
    all["runs"].push_back(
        {{"date", r.date}, {"weft", r.weft}, {"cpu", r.cpu}, {"ranks", r.ranks}, {"hosts", r.hosts}, {"network", r.network}});
  for (const auto& [name, number] : machine) all["machine"][name] = {{"value", number.value}, {"run", number.run}};
  for (const auto& [name, number] : settings) all["settings"][name] = {{"value", number.value}, {"run", number.run}};
  for (const Measurement& m : measurements) {
    Json one = {{"collective", m.collective}, {"ranks", m.ranks}, {"hosts", m.hosts}, {"bytes", m.bytes}, {"run", m.run}};
    if (!m.usual.empty()) one["usual"] = m.usual;
    for (const Time& t : m.times) one["ns"][t.algorithm] = t.ns;
    all["measurements"].push_back(std::move(one));
  }
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void CollTable::merge(const CollTable& newer) {
  const size_t before = runs.size();
  runs.insert(runs.end(), newer.runs.begin(), newer.runs.end());
  for (Measurement m : newer.measurements) {
    m.run += before;
    measurements.push_back(std::move(m));
  }
  for (auto [name, number] : newer.machine) machine[name] = {number.value, number.run + before};
  for (auto [name, number] : newer.settings) settings[name] = {number.value, number.run + before};
  settle(measurements);
  drop_runs(*this);
}

std::string CollTable::words(int32_t most_ranks) const {
  std::string text;
  for (size_t i = 0, end = 0; i < measurements.size(); i = end) {
    for (end = i; end < measurements.size() && place_of(measurements[end]) == place_of(measurements[i]);) ++end;
    if (measurements[i].ranks <= most_ranks) text += words_of(measurements.data() + i, measurements.data() + end);
  }
  return text;
}

const Measurement* CollTable::about(std::string_view collective, int32_t ranks, int32_t hosts, uint64_t bytes) const {
  const auto of_these = [&](const Measurement& m) { return m.collective == collective && m.ranks == ranks && m.hosts == hosts; };
  const auto first = std::ranges::find_if(measurements, of_these), last = std::find_if_not(first, measurements.end(), of_these);
  const Measurement* const end = measurements.data() + (last - measurements.begin());
  for (const Measurement* m = measurements.data() + (first - measurements.begin()); m != end; ++m)
    if (bytes < end_of(m, end)) return m;
  return nullptr;
}

std::string CollTable::machine_words() const {
  std::string text;
  for (const auto& [name, number] : machine) {
    char value[64];
    snprintf(value, sizeof value, "%.6g", number.value);
    text += (text.empty() ? "" : ",") + name + "=" + value;
  }
  return text;
}

std::string own_coll_table() {
  const char* const settings = getenv("XDG_CONFIG_HOME");
  const char* const home = getenv("HOME");
  if (settings && *settings) return std::string(settings) + "/weft/collectives.json";
  return home && *home ? std::string(home) + "/.config/weft/collectives.json" : std::string();
}

std::string find_coll_table(const std::string& wanted, const std::string& bin) {
  if (wanted == "none") return {};
  if (!wanted.empty()) return wanted;
  for (const std::string& file : {own_coll_table(), bin + "/../etc/weft/collectives.json"})
    if (!file.empty() && readable(file)) return file;
  return {};
}

}  // namespace weft::config
