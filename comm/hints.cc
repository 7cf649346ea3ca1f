#include "comm/hints.h"

#include <charconv>

#include "runtime/base/log.h"
#include "runtime/mem/alloc_kinds.h"

namespace weft::comm {
namespace {

struct Assertion {
  std::string_view key;
  bool Hints::*value;
};
constexpr Assertion assertions[] = {{"mpi_assert_no_any_tag", &Hints::no_any_tag},
                                    {"mpi_assert_no_any_source", &Hints::no_any_source},
                                    {"mpi_assert_exact_length", &Hints::exact_length},
                                    {"mpi_assert_allow_overtaking", &Hints::allow_overtaking}};
constexpr std::string_view kLane = "weft_lane", kColl = "weft_coll", kReproducible = "weft_reproducible";
constexpr std::string_view kKinds = "mpi_memory_alloc_kinds", kAssertedKinds = "mpi_assert_memory_alloc_kinds";

}  // namespace

void set_hints(Communicator& comm, const Info* info) {
  if (!info) return;
  for (const Assertion& assertion : assertions) {
    const std::string* value = info->find(assertion.key);
    if (value && (*value == "true" || *value == "false")) comm.hints.*assertion.value = *value == "true";
  }
  const std::string* kinds = info->find(kAssertedKinds);
  if (kinds && mem::covers_alloc_kinds(comm.instance->memory_kinds(comm.session), *kinds)) comm.hints.memory_kinds = *kinds;
  if (const std::string* words = info->find(kColl)) comm.hints.coll = *words;
  if (const std::string* word = info->find(kReproducible)) comm.hints.reproducible = *word;
  if (comm.team) apply_hints(comm);
}

std::optional<uint32_t> wanted_lane(const Info* info) {
  const std::string* text = info ? info->find(kLane) : nullptr;
  uint32_t number = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), number).ptr != text->data() + text->size()) return {};
  return text->empty() ? std::nullopt : std::optional(number);
}

void apply_hints(Communicator& comm) {
  comm.team->promise({comm.hints.exact_length, comm.hints.allow_overtaking});
  const char* const name = comm.name.empty() ? "a communicator" : comm.name.c_str();
  const std::string wrong = coll::prefer(*comm.coll, comm.hints.coll);
  if (!wrong.empty()) log(Level::warning, "the hint weft_coll of %s, ignored in part: %s", name, wrong.c_str());
  std::string& word = comm.hints.reproducible;
  if (!coll::make_reproducible(*comm.coll, word)) {
    log(Level::warning, "the hint weft_reproducible of %s, ignored: \"%s\" is none of no, runs, exact", name, word.c_str());
    word.clear();
  }
}

Info* hints_in_use(const Communicator& comm) {
  Info* used = Info::make();
  for (const Assertion& assertion : assertions) used->set(assertion.key, comm.hints.*assertion.value ? "true" : "false");
  used->set(kKinds, comm.instance->memory_kinds(comm.session));
  if (comm.hints.lane) used->set(kLane, std::to_string(*comm.hints.lane));
  if (!comm.hints.coll.empty()) used->set(kColl, comm.hints.coll);
  if (!comm.hints.reproducible.empty()) used->set(kReproducible, comm.hints.reproducible);
  if (comm.hints.memory_kinds) used->set(kAssertedKinds, *comm.hints.memory_kinds);
  return used;
}

}  // namespace weft::comm
