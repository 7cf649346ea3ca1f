#include "launcher/place/policy.h"

#include <algorithm>

#include "launcher/place/words.h"

namespace weft::placement {
namespace {

constexpr uint32_t kMostCores = 65536;

struct Spelling {
  const char* name;
  Unit unit;
};
constexpr Spelling kUnits[] = {
    {"slot", Unit::slot}, {"node", Unit::node},       {"host", Unit::node},         {"package", Unit::package},   {"socket", Unit::package},
    {"numa", Unit::numa}, {"l3cache", Unit::l3cache}, {"l3", Unit::l3cache},        {"l2cache", Unit::l2cache},   {"l2", Unit::l2cache},
    {"core", Unit::core}, {"l1cache", Unit::core},    {"hwthread", Unit::hwthread}, {"hw-thread", Unit::hwthread}};

std::optional<Unit> unit_of(const std::string& word) {
  for (const Spelling& known : kUnits)
    if (word == known.name) return known.unit;
  return {};
}

std::vector<std::string> unit_names(std::initializer_list<const char*> more) {
  std::vector<std::string> names(more.begin(), more.end());
  for (const Spelling& known : kUnits) names.emplace_back(known.name);
  return names;
}

Failure unknown(const std::string& option, const std::string& word, const std::vector<std::string>& known) {
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  return {option + ": \"" + word + "\" is not known" + did_you_mean(word, known) + " (there are: " + all + ")"};
}

Result<void> read_modifier(const std::string& option, const std::string& word, Request& request) {
  const std::string name = word.substr(0, word.find('='));
  const std::string value = word.size() > name.size() ? word.substr(name.size() + 1) : "";
  if (name == "pe") {
    const auto cores = parse_number(value, 1, kMostCores);
    if (!cores) return Failure{option + ": PE=n needs a number of cores of 1 or more, not \"" + value + "\""};
    request.cores_each = *cores;
  } else if (name == "gpu") {
    const auto gpus = parse_number(value, 1, kMostCores);
    if (!gpus) return Failure{option + ": GPU=n needs a number of GPUs of 1 or more, not \"" + value + "\""};
    request.gpus_each = *gpus;
  } else if (name == "pe-list") {
    return read_cpu_set(value, request);
  } else if (name == "oversubscribe") {
    request.oversubscribe = true;
  } else if (name == "nooversubscribe") {
    request.never_oversubscribe = true;
  } else if (name == "overload-allowed" || name == "overload") {
    request.overload = true;
  } else if (name == "hwtcpus") {
    request.threads_are_cores = true;
  } else if (name == "span") {
    request.rank_by = RankBy::span;
  } else if (name == "no-overload") {
    request.overload = false;
  } else if (name != "corecpus" && name != "noinherit" && name != "inherit" && name != "if-supported") {  // these are so anyway
    return unknown(option, word,
                   {"pe=N", "gpu=N", "pe-list=LIST", "oversubscribe", "nooversubscribe", "overload-allowed", "hwtcpus", "corecpus", "span",
                    "if-supported", "inherit", "noinherit"});
  }
  return {};
}

/// Modifiers stand behind colons or commas; the list of pe-list has commas of its own.
std::vector<std::string> modifiers_of(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string& part : split(text, ':'))
    for (const std::string& word : split(part, ',')) {
      const bool goes_on =
          !words.empty() && words.back().starts_with("pe-list=") && !word.empty() && isdigit(static_cast<unsigned char>(word[0]));
      if (goes_on)
        words.back() += "," + word;
      else if (!word.empty())
        words.push_back(word);
    }
  return words;
}

Result<void> read_modifiers(const std::string& option, const std::string& text, Request& request) {
  for (const std::string& word : modifiers_of(text))
    if (auto ok = read_modifier(option, word, request); !ok) return ok;
  return {};
}

/// "0+2,1,4-7": the CPUs of a host's first rank, of the next one, ...
Result<void> read_cpu_lists(const std::string& option, const std::string& text, Request& request) {
  request.cpu_lists.clear();
  for (std::string list : split(text, ',')) {
    std::ranges::replace(list, '+', ',');
    auto set = topo::CpuSet::parse(list);
    if (!set || set->empty())
      return Failure{option + ": \"" + list + "\" is no list of CPUs; write those of a host's ranks as user:0,2,4-7,8+10"};
    request.cpu_lists.push_back(std::move(*set));
  }
  return {};
}

/// Takes what comes before the first colon off the front.
std::string take(std::string& text) {
  const size_t colon = text.find(':');
  const std::string head = text.substr(0, colon);
  text.erase(0, colon == text.npos ? text.size() : colon + 1);
  return head;
}

}  // namespace

Result<void> read_map_by(const std::string& text, Request& request) {
  const std::string option = "--map-by " + text;
  std::string rest = lower(text);
  std::string word = take(rest);
  if (word == "ppr") {
    const std::string count = take(rest);
    const auto number = parse_number(count, 1, 1u << 24);
    if (!number) return Failure{option + ": ppr:N:UNIT needs a number of 1 or more, not \"" + count + "\""};
    request.per_unit = *number;
    word = take(rest);
    if (word.empty() || word == "slot") return Failure{option + ": ppr:N:UNIT needs a unit, as in ppr:2:package"};
  }
  if (word == "seq" || word == "sequential") {
    request.in_sequence = true;
    return read_modifiers(option, rest, request);
  }
  if (word == "dist" || word == "mindist")
    return Failure{option + ": ranks are not dealt by their distance to a device; -gpus-per-proc N places them near GPUs"};
  if (word == "rr") word = "core";
  if (!word.empty()) {
    const auto unit = unit_of(word);
    if (!unit) return unknown(option, word, unit_names({"ppr:N:UNIT", "seq"}));
    request.map_by = *unit;
  }
  return read_modifiers(option, rest, request);
}

Result<void> read_rank_by(const std::string& text, Request& request) {
  const std::string option = "--rank-by " + text;
  std::string rest = lower(text);
  const std::string word = take(rest);
  if (word == "slot") {
    request.rank_by = RankBy::slot;
  } else if (word == "fill") {
    request.rank_by = RankBy::fill;
  } else if (word == "span") {
    request.rank_by = RankBy::span;
  } else if (const auto unit = unit_of(word)) {
    request.rank_by = RankBy::span;
    request.rank_unit = *unit;
  } else {
    return unknown(option, word, unit_names({"fill", "span"}));
  }
  return read_modifiers(option, rest, request);
}

Result<void> read_bind_to(const std::string& text, Request& request) {
  const std::string option = "--bind-to " + text;
  std::string rest = lower(text);
  const std::string word = take(rest);
  const auto unit = unit_of(word == "rr" ? "core" : word);
  if (word == "user") return read_cpu_lists(option, rest, request);
  if (word == "none" || word == "machine" || word == "board") {
    request.bind_to = Unit::node;
  } else if (unit && *unit != Unit::slot) {
    request.bind_to = *unit;
  } else if (!word.empty()) {
    return unknown(option, word, {"none", "hwthread", "core", "l2cache", "l3cache", "numa", "package", "socket"});
  }
  if (const auto cores = parse_number(rest, 1, kMostCores)) {
    request.cores_each = *cores;
    return {};
  }
  return read_modifiers(option, rest, request);
}

Result<void> read_cpu_set(const std::string& text, Request& request) {
  auto set = topo::CpuSet::parse(text);
  if (!set || set->empty()) return Failure{"--cpu-set: \"" + text + "\" is no list of CPUs; write it as 0-3,8"};
  request.cpu_set = std::move(*set);
  return {};
}

uint32_t threads_of(const std::string& text) {
  const std::string first = text.substr(0, text.find(','));
  const std::vector<std::string> words = split_words(first);
  return words.size() == 1 ? parse_number(words[0], 1, kMostCores).value_or(1) : 1;
}

}  // namespace weft::placement
