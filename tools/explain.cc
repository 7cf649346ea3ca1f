#include "tools/explain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "coll/hosts.h"
#include "runtime/base/text.h"
#include "runtime/config/config.h"
#include "runtime/topo/network.h"
#include "tools/report.h"

namespace weft::tools {
namespace {

using coll::Candidate;
using coll::Clock;
using coll::Pattern;

constexpr int32_t kRanksPerHost = 64;
constexpr double kSame = 0.02;  // relative: differences that the model does not pretend to know

std::string show_bytes(double n) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; n >= 1024 && unit + 1 < std::size(kUnits); ++unit) n /= 1024;
  return printed("%.4g %s", n, kUnits[unit]);
}

std::string label(const Candidate& c) {
  return c.algorithm->name + (c.algorithm->segmented ? printed(" in %d segments", c.segments) : std::string());
}

const char* meaning_of_bytes(Pattern p) {
  switch (p) {
    case Pattern::barrier: return "no data";
    case Pattern::gather:
    case Pattern::scatter:
    case Pattern::allgather:
    case Pattern::alltoall: return "the block of one rank";
    default: return "the whole vector";
  }
}

struct Part {
  const char* name;
  double Clock::*of;
};
constexpr std::array<Part, 4> kParts = {{{"latencies and overheads", &Clock::latency},
                                         {"bytes on their way", &Clock::transfer},
                                         {"waiting for busy links", &Clock::waiting},
                                         {"reductions and copies", &Clock::work}}};

/// In which parts the first one saves time, and in which it takes more.
std::string differences(const Clock& a, const Clock& b) {
  std::string less, more;
  for (const Part& part : kParts) {
    const double saved = b.*part.of - a.*part.of;
    if (std::abs(saved) < 0.05 * std::abs(b.at - a.at)) continue;
    std::string& list = saved > 0 ? less : more;
    list += (list.empty() ? "" : ", ") + show_time(std::abs(saved)) + " of " + part.name;
  }
  return "less: " + (less.empty() ? "nothing" : less) + (more.empty() ? "" : "; more: " + more);
}

std::string reason_of(const std::vector<Candidate>& all) {
  const Candidate& best = all.front();
  const auto second = std::ranges::find_if(all, [&](const Candidate& c) { return c.algorithm != best.algorithm && c.unpriced.empty(); });
  const Clock& t = best.price.time;
  std::string words = label(best) + ": " + show_time(t.at) + ", of which";
  for (const Part& part : kParts)
    words += printed("%s %.0f %% %s", &part == &kParts[0] ? "" : ",", t.at > 0 ? 100 * t.*part.of / t.at : 0, part.name);
  if (second == all.end()) return words + "; there is no other algorithm";
  const double saved = second->price.time.at - t.at;
  if (saved <= kSame * t.at) return words + "; " + label(*second) + " costs the same within 2 %";
  return words + "; " + show_time(saved) + " before " + label(*second) + " (" + differences(t, second->price.time) + ")";
}

/// What the table's entry is worth.
std::string overruled(const Explanation& e) {
  if (e.usual.empty() || e.measured.empty()) return {};
  const auto time = [&](const std::string& name) {
    const auto found = std::ranges::find(e.measured, name, &config::CollTable::Time::algorithm);
    return found == e.measured.end() ? std::string("not measured") : show_time(found->ns);
  };
  const std::string runs = e.decision.node ? "node" : e.decision.choice.algorithm->name;
  if (runs == e.usual) return ", which says what the library does without it";
  return ", which overrules the library's " + e.usual + ": measured " + time(runs) + " instead of " + time(e.usual);
}

std::string by_whose_word(const Explanation& e) {
  const coll::Decision& d = e.decision;
  const std::string refused = d.unusable ? "; \"" + d.wish + "\" of WEFT_COLL cannot be used here" : std::string();
  switch (d.by) {
    case coll::By::user:
      return "by WEFT_COLL, \"" + d.wish + "\"" + (d.table.empty() ? "" : ", which overrules the table, \"" + d.table + "\"");
    case coll::By::table: return "by the table of weft tune, \"" + d.table + "\"" + overruled(e) + refused;
    case coll::By::model: return "by the model with the machine's measured numbers" + refused;
    case coll::By::refined:
    case coll::By::thresholds: break;
  }
  const char* const order = e.agreed.ordered ? ", among what combines in one order for all runs (WEFT_COLL_REPRODUCIBLE)" : "";
  return std::string("by the library's thresholds of size") + order + refused +
         (d.table.empty() ? "" : "; \"" + d.table + "\" of the table cannot be used here");
}

std::string verdict_of(const Explanation& e) {
  const Candidate& best = e.candidates.front();
  const std::string word = by_whose_word(e);
  if (!e.runs)
    return "The library runs its kernel in shared memory (node), " + word +
           ". The model has no price for it: it speaks of messages, which the first calls on a communicator are made of (" +
           e.decision.choice.algorithm->name + ").";
  const Candidate& real = e.candidates[*e.runs];
  const std::string runs = "The library runs " + label(real) + ", " + word + ". ";
  if (!real.unpriced.empty()) return runs + "The model has no price for it: " + real.unpriced + ".";
  if (&real == &best) return runs + "The model agrees.";
  const double more = real.price.time.at / best.price.time.at - 1;
  if (more <= kSame) return runs + "The model agrees, within 2 %.";
  return runs + printed("The model differs: it expects %s, %.0f %% more than of ", show_time(real.price.time.at).c_str(), 100 * more) +
         label(best) + ".";
}

std::optional<Pattern> pattern_named(const std::string& name) {
  for (int p = 0; p < coll::kPatterns; ++p)
    if (name == coll::to_string(static_cast<Pattern>(p))) return static_cast<Pattern>(p);
  return {};
}

std::string known_collectives() {
  std::string names;
  for (int p = 0; p < coll::kPatterns; ++p)
    if (!coll::among_neighbors(static_cast<Pattern>(p))) names += std::string(p ? ", " : "") + coll::to_string(static_cast<Pattern>(p));
  return names;
}

Result<coll::Shape> shape_of(const ExplainQuestion& q) {
  if (q.hosts > q.ranks) return Failure{printed("%d hosts are more than %d ranks", q.hosts, q.ranks)};
  if (q.network.empty()) {
    const int32_t hosts = q.hosts ? q.hosts : (q.ranks + kRanksPerHost - 1) / kRanksPerHost;
    return coll::Shape::blocks(q.ranks, hosts, q.hosts_per_switch, q.ranks_per_cache);
  }
  if (q.hosts_per_switch) return Failure{"--hosts-per-switch contradicts the network's file, " + q.network};
  const auto network = topo::Network::read(q.network);
  if (!network) return network.failure();
  const auto there = static_cast<int32_t>(network->hosts(static_cast<size_t>(q.ranks)).size());
  if (there == 0) return Failure{q.network + ": names no host"};
  auto shape = coll::Shape::on(*network, q.ranks, q.hosts ? q.hosts : there, q.ranks_per_cache);
  return shape ? std::move(shape) : Failure{q.network + ": " + shape.failure().text};
}

std::optional<size_t> find_runs(const Explanation& e) {
  if (e.decision.node) return {};
  const coll::Choice& choice = e.decision.choice;
  const auto found = std::ranges::find_if(
      e.candidates, [&](const Candidate& c) { return c.algorithm == choice.algorithm && c.segments == choice.segments; });
  return static_cast<size_t>(found - e.candidates.begin());  // candidates() has what is chosen
}

void print_candidates(const Explanation& e) {
  const bool racks = e.switches > 1;
  std::printf("%12s %12s %12s %12s %12s %8s %14s %14s%s  %s\n", "predicted", "latency", "transfer", "waiting", "work", "hops",
              "between hosts", "busiest link", racks ? "  busiest uplink" : "", "algorithm");
  for (const Candidate& c : e.candidates) {
    const char* const mark = e.runs && &c == &e.candidates[*e.runs] ? "  <- runs" : "";
    if (!c.unpriced.empty()) {
      std::printf("%12s %s%s: %s\n", "no price", label(c).c_str(), mark, c.unpriced.c_str());
      continue;
    }
    const Clock& t = c.price.time;
    std::printf("%12s %12s %12s %12s %12s %8.0f %14.0f %14s%s  %s%s%s\n", show_time(t.at).c_str(), show_time(t.latency).c_str(),
                show_time(t.transfer).c_str(), show_time(t.waiting).c_str(), show_time(t.work).c_str(), t.hops,
                c.price.traffic.between_hosts, show_bytes(c.price.traffic.busiest_host_link).c_str(),
                racks ? printed("%16s", show_bytes(c.price.traffic.busiest_uplink).c_str()).c_str() : "", label(c).c_str(),
                c.price.shortened ? " ~" : "", mark);
  }
}

void print_notes(const Explanation& e) {
  std::printf(
      "\nhops: messages one after another on the longest chain; between hosts: messages; busiest link, uplink: bytes one way over that of "
      "a "
      "host, of a switch.\n");
  if (std::ranges::any_of(e.candidates, [](const Candidate& c) { return c.price.shortened; }))
    std::printf("~: loops walked in part, the rest in proportion.\n");
  if (!e.unfit.empty()) {
    std::printf("Not for these ranks or this operation:");
    for (const std::string& name : e.unfit) std::printf(" %s%s", name.c_str(), &name == &e.unfit.back() ? ".\n" : ",");
  }
  if (e.agreed.ordered) std::printf("Where the order cannot matter, as for integers, WEFT_COLL_REPRODUCIBLE changes nothing.\n");
  if (e.agreed.ordered && coll::reproducible_setting() == coll::Reproducible::exact)
    std::printf(
        "Nor does it change the choice for exact sums of floating-point numbers; but they are sums of accumulators, whose bytes count: "
        "docs/collectives.md.\n");
  std::printf("\nCounted with (%s; --machine NAME=VALUE,... changes them)\n",
              e.machine_measured ? "what weft tune has measured, the rest assumptions"
                                 : "beyond one cache assumptions, not measured here; weft tune measures");
  coll::Machine machine = e.machine;
  for (const coll::MachineField& field : coll::machine_fields()) {
    const size_t number = static_cast<size_t>(&field - coll::machine_fields().data()) + 1;
    std::printf("  %-28s%s", printed("%s %g %s", field.name, field.of(machine), field.unit).c_str(), number % 4 ? "" : "\n");
  }
}

void print(const Explanation& e) {
  const std::string behind = printed(" behind %d switch%s", e.switches, e.switches == 1 ? "" : "es");
  const std::string cpus = e.question.cpus ? printed(" with %d CPU%s", e.question.cpus, e.question.cpus == 1 ? "" : "s") : std::string();
  std::printf("%s, %s (%s), %d ranks on %d host%s%s\n\n", e.question.collective.c_str(),
              show_bytes(static_cast<double>(e.agreed.bytes)).c_str(), meaning_of_bytes(e.agreed.pattern), e.agreed.size, e.hosts,
              e.hosts == 1 ? "" : "s", (e.hosts == 1 ? cpus : behind).c_str());
  print_candidates(e);
  std::printf("\nCheapest by the model: %s.\n%s\n", e.reason.c_str(), e.verdict.c_str());
  if (!e.measured.empty()) {
    std::printf("Measured with %s (%s):", show_bytes(static_cast<double>(e.measured_bytes)).c_str(), e.measured_by.c_str());
    for (const auto& [name, ns] : e.measured)
      std::printf(" %s %s%s", name.c_str(), show_time(ns).c_str(), name == e.measured.back().algorithm ? ".\n" : ",");
  }
  print_notes(e);
}

/// The table that jobs here would have, instead of what the environment may say.
Result<config::CollTable> take_table(const ExplainQuestion& q, Explanation& e) {
  e.table_file = config::find_coll_table(q.table, own_folder());
  if (e.table_file.empty()) return config::CollTable{};
  auto table = config::CollTable::read(e.table_file);
  if (!table) return table;
  if (config::Variable* const words = config::find("WEFT_COLL_TUNED")) words->set(table->words(q.ranks), config::Origin::file);
  coll::set_fields(e.machine, table->machine_words());
  if (config::Variable* const numbers = config::find("WEFT_COLL_MACHINE"); numbers && !table->machine.empty())
    numbers->set(table->machine_words(), config::Origin::file);
  e.machine_measured = !table->machine.empty();
  return table;
}

void take_measurement(const config::CollTable& table, Explanation& e) {
  const auto* const m = table.about(e.question.collective, e.agreed.size, e.agreed.hosts, e.agreed.bytes);
  if (!m || e.agreed.uneven) return;
  const auto& run = table.runs[m->run];
  e.measured = m->times;
  std::ranges::stable_sort(e.measured, {}, &config::CollTable::Time::ns);
  e.measured_bytes = m->bytes;
  e.usual = m->usual;
  e.measured_by = run.date + ", Weft " + run.weft + ", " + e.table_file;
}

}  // namespace

std::string show_time(double ns) {
  if (ns < 1e3) return printed("%.0f ns", ns);
  if (ns < 1e6) return printed("%.4g us", ns / 1e3);
  return ns < 1e9 ? printed("%.4g ms", ns / 1e6) : printed("%.4g s", ns / 1e9);
}

Result<Explanation> explain(const ExplainQuestion& q) {
  const auto pattern = pattern_named(q.collective);
  if (!pattern) return Failure{"\"" + q.collective + "\" is no collective that it knows; these are " + known_collectives()};
  if (coll::among_neighbors(*pattern)) return Failure{"what " + q.collective + " costs depends on the program's graph of neighbours"};
  if (q.bytes == 0 && *pattern != Pattern::barrier) return Failure{"--bytes is missing: without data nothing is sent"};
  if (q.root >= q.ranks) return Failure{printed("the root %d is none of %d ranks", q.root, q.ranks)};
  Explanation e;
  e.question = q;
  e.machine = coll::this_machine();
  const auto table = take_table(q, e);
  if (!table) return table.failure();
  if (const std::string wrong = coll::set_fields(e.machine, q.machine); !wrong.empty()) return Failure{"--machine: " + wrong};
  const auto shape = shape_of(q);
  if (!shape) return shape.failure();
  e.hosts = shape->hosts();
  e.switches = shape->leaves();
  if (q.cpus && e.hosts > 1)
    return Failure{printed("--cpus decides what runs in shared memory of one host, but these ranks are on %d", e.hosts)};
  e.agreed = {.pattern = *pattern,
              .size = q.ranks,
              .hosts = e.hosts,
              .root = q.root,
              .bytes = *pattern == Pattern::barrier ? 0 : q.bytes,
              .commutative = !q.ordered,
              .uneven = q.uneven,
              .ordered = coll::reduces(*pattern) && coll::reproducible_setting() != coll::Reproducible::no};
  e.candidates = coll::candidates(e.agreed, *shape, e.machine);
  if (e.candidates.empty() || !e.candidates.front().unpriced.empty())
    return Failure{"no algorithm has a price" + (e.candidates.empty() ? std::string() : ": " + e.candidates.front().unpriced)};
  const auto levels = shape->levels();
  const coll::Topology topology{.hosts = levels.get()};
  for (const coll::Algorithm& a : coll::algorithms())
    if (a.pattern == *pattern && !a.usable(topology, q.ranks, {.root = q.root, .commutative = !q.ordered}, q.uneven))
      e.unfit.emplace_back(a.name);
  e.decision = coll::decide(e.agreed, topology, e.hosts == 1, q.cpus == 0 || q.cpus >= q.ranks);
  e.runs = find_runs(e);
  take_measurement(*table, e);
  e.reason = reason_of(e.candidates);
  e.verdict = verdict_of(e);
  return e;
}

int show_explanation(const ExplainQuestion& q) {
  for (const std::string& wrong : config::load_environment())  // what is wrong with others programs say
    if (wrong.starts_with("WEFT_COLL")) std::fprintf(stderr, "weft explain: %s\n", wrong.c_str());
  if (const std::string wrong = coll::complaint(); !wrong.empty()) std::fprintf(stderr, "weft explain: %s\n", wrong.c_str());
  const auto e = explain(q);
  if (!e) {
    std::fprintf(stderr, "weft explain: %s\n", e.failure().text.c_str());
    return 1;
  }
  if (q.json)
    std::printf("%s\n", to_json(*e).c_str());
  else
    print(*e);
  return 0;
}

}  // namespace weft::tools
