#include "coll/ledger.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include "coll/model.h"
#include "runtime/base/text.h"

namespace weft::coll {

namespace {

constexpr uint32_t kPerPower = 16;

/// The class of a time, and the time in its middle.
uint32_t class_of(uint64_t ns) {
  if (ns < kPerPower) return static_cast<uint32_t>(ns);
  const auto power = static_cast<uint32_t>(std::bit_width(ns)) - 1;
  return (power - 3) * kPerPower + static_cast<uint32_t>(ns >> (power - 4) & (kPerPower - 1));
}
double middle_of(uint32_t time_class) {
  if (time_class < kPerPower) return time_class;
  const uint32_t power = time_class / kPerPower + 3;
  return std::ldexp(kPerPower + time_class % kPerPower + 0.5, static_cast<int>(power) - 4);
}

std::string time_text(double ns) {
  if (ns < 1e3) return printed("%.0f ns", ns);
  if (ns < 1e6) return printed("%.3g us", ns / 1e3);
  return ns < 1e9 ? printed("%.3g ms", ns / 1e6) : printed("%.3g s", ns / 1e9);
}

std::string bytes_text(double n) {
  constexpr const char* kUnits[] = {"", "K", "M", "G", "T"};
  size_t unit = 0;
  for (; n >= 1024 && unit + 1 < std::size(kUnits); ++unit) n /= 1024;
  return printed("%.4g%s", n, kUnits[unit]);
}

/// The sizes of a class, as WEFT_COLL would write them.
std::string range_text(int32_t size_class) {
  const auto first = static_cast<double>(class_bytes(size_class));
  return bytes_text(first) + "-" + bytes_text(2 * first);
}

std::string sizes_text(const Ledger::Key& key) {
  if (key.size_class == 0) return key.uneven ? "?" : "0";
  return key.size_class == 1 ? "1" : range_text(key.size_class);
}

std::string algorithm_text(const Ledger::Key& key) {
  if (key.algorithm.empty()) return "(two groups)";
  return key.segments > 1 ? key.algorithm + " x" + std::to_string(key.segments) : key.algorithm;
}

const char* choice_text(const Ledger::Key& key) {
  if (key.algorithm.empty()) return "inter-communicator";
  if (key.by == By::refined) return key.early ? "tried on the way" : "found faster on the way";
  if (key.early) return "size; first calls, no shared memory yet";
  switch (key.by) {
    case By::user: return "WEFT_COLL";
    case By::table: return "the tuned table";
    case By::model: return "the model, as measured";
    case By::refined:
    case By::thresholds: break;
  }
  if (key.algorithm == "node") return "size, one host";
  const Algorithm* const found = find_algorithm(key.pattern, key.algorithm);
  return found && found->spans ? "size, hosts of several ranks" : "size";
}

std::string reason_text(const Ledger::Key& key) {
  static constexpr const char* kSums[] = {"", "; one order for all runs", "; exact sums, bytes of accumulators"};
  return std::string(choice_text(key)) + kSums[static_cast<int>(key.sums)];
}

std::string name_of(const Ledger::Key& key) {
  static constexpr const char* kBegin[] = {"", "i", "persistent "};
  return std::string(kBegin[static_cast<int>(key.form)]) + to_string(key.pattern) +
         (key.uneven && !among_neighbors(key.pattern) ? " (v)" : "");
}

/// By how much it weighs: the time of all its calls.
double weight(const Ledger::Row& row) { return row.reporters > 0 ? row.calls * row.medians / row.reporters : 0; }

constexpr size_t kNumbers = 10, kWords = kNumbers + 5;

/// The numbers and the name of a line, tabs between them.
bool read_line(std::string_view line, Ledger::Key& key, Ledger::Row& row) {
  const auto words = split(line, '\t');
  if (words.size() != kWords) return false;
  int numbers[kNumbers] = {};
  for (size_t i = 0; i < kNumbers; ++i)
    if (!read_number(words[i], numbers[i]) || numbers[i] < 0) return false;
  if (numbers[0] >= kPatterns || numbers[1] > 2 || numbers[2] > static_cast<int>(By::thresholds) || numbers[5] > 64 || numbers[6] < 1 ||
      numbers[8] > 4096 || numbers[9] > 2)
    return false;
  key = {.pattern = static_cast<Pattern>(numbers[0]),
         .form = static_cast<Ledger::Form>(numbers[1]),
         .by = static_cast<By>(numbers[2]),
         .uneven = numbers[3] != 0,
         .sums = static_cast<Reproducible>(numbers[9]),
         .early = numbers[4] != 0,
         .size_class = numbers[5],
         .ranks = numbers[6],
         .hosts = numbers[7],
         .segments = numbers[8],
         .algorithm = std::string(words[kNumbers])};
  size_t word = kNumbers + 1;
  for (double* number : {&row.calls, &row.bytes, &row.medians, &row.reporters})
    if (!read_number(words[word++], *number) || !(*number >= 0 && *number < 1e18)) return false;
  return row.calls > 0;
}

std::string line_of(const Ledger::Key& k, const Ledger::Row& r) {
  return printed("%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t", int(k.pattern), int(k.form), int(k.by), int(k.uneven), int(k.early),
                 k.size_class, k.ranks, k.hosts, k.segments, int(k.sums)) +
         k.algorithm + printed("\t%.17g\t%.17g\t%.17g\t%.17g\n", r.calls, r.bytes, r.medians, r.reporters);
}

std::vector<std::pair<Ledger::Key, Ledger::Row>> heaviest_first(const Ledger::Rows& rows) {
  std::vector<std::pair<Ledger::Key, Ledger::Row>> list(rows.begin(), rows.end());
  std::ranges::stable_sort(list, std::greater<>(), [](const auto& entry) { return weight(entry.second); });
  return list;
}

}  // namespace

void Times::add(uint64_t ns) { ++counts_[class_of(ns)]; }

double Times::median() const {
  uint64_t all = 0;
  for (const auto& [time, count] : counts_) all += count;
  uint64_t passed = 0;
  for (const auto& [time, count] : counts_)
    if ((passed += count) * 2 > all) return middle_of(time);
  return 0;
}

void Ledger::note(const Key& key, uint64_t bytes, std::optional<uint64_t> ns) {
  const std::lock_guard hold(mutex_);
  Own& own = own_[key];
  ++own.calls;
  own.bytes += static_cast<double>(bytes);
  if (ns) own.times.add(*ns);
}

Ledger::Rows Ledger::rows() const {
  const std::lock_guard hold(mutex_);
  Rows rows;
  for (const auto& [key, own] : own_) {
    const auto ranks = static_cast<double>(key.ranks);
    rows[key] = {static_cast<double>(own.calls) / ranks, own.bytes / ranks, own.times.median(), 1};
  }
  return rows;
}

std::string Ledger::to_text(const Rows& rows, size_t most) {
  std::string lines;
  for (const auto& [key, row] : heaviest_first(rows)) {
    const std::string line = line_of(key, row);
    if (lines.size() + line.size() <= most) lines += line;
  }
  return lines;
}

void Ledger::add(Rows& rows, std::string_view lines) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    Key key;
    Row more;
    if (read_line(lines.substr(0, end), key, more)) {
      Row& row = rows[key];
      row.calls += more.calls;
      row.bytes += more.bytes;
      row.medians += more.medians;
      row.reporters += more.reporters;
    }
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

std::optional<double> expected(const Ledger::Key& key, const Ledger::Row& row, const Machine& machine) {
  constexpr int32_t kMostRanks = 4096;
  constexpr int64_t kMostWalked = 1 << 16;
  const Algorithm* const algorithm = find_algorithm(key.pattern, key.algorithm);
  if (!algorithm || key.uneven || key.hosts < 1 || key.hosts > key.ranks || key.ranks > kMostRanks || key.form != Ledger::Form::blocking)
    return {};
  if (key.ranks == 1) return {};
  const Agreed a{
      .pattern = key.pattern, .size = key.ranks, .hosts = key.hosts, .bytes = static_cast<uint64_t>(std::min(row.bytes / row.calls, 1e15))};
  const auto priced = price(*algorithm, a, key.segments, Shape::blocks(key.ranks, key.hosts), machine, kMostWalked);
  if (!priced) return {};
  return priced->time.at;
}

namespace {

/// What refinement has found, in the words of WEFT_COLL.
std::string found_words(const Ledger::Rows& rows) {
  std::string words;
  for (const auto& [key, row] : rows) {
    if (key.by != By::refined || key.early) continue;
    words += (words.empty() ? "" : ";") + std::string(to_string(key.pattern)) + "@" + std::to_string(key.ranks) + "/" +
             std::to_string(key.hosts);
    if (key.size_class > 0) words += ":" + range_text(key.size_class);
    words += "=" + key.algorithm;
  }
  return words;
}

}  // namespace

std::string describe(const Ledger::Rows& rows, const Machine& machine, std::string_view head) {
  if (rows.empty()) return std::string(head) + "  none\n";
  std::string lines = std::string(head) + printed("  %-22s %6s %5s %12s %10s %10s %10s  %-26s %s\n", "collective", "ranks", "hosts",
                                                  "bytes", "calls", "measured", "model", "algorithm", "chosen by");
  for (const auto& [key, row] : heaviest_first(rows)) {
    const auto model = expected(key, row, machine);
    const double measured = row.reporters > 0 ? row.medians / row.reporters : 0;
    lines += std::string(head) + printed("  %-22s %6d %5s %12s %10.0f %10s %10s  %-26s %s\n", name_of(key).c_str(), key.ranks,
                                         key.hosts ? std::to_string(key.hosts).c_str() : "?", sizes_text(key).c_str(), row.calls,
                                         measured > 0 ? time_text(measured).c_str() : "-", model ? time_text(*model).c_str() : "-",
                                         algorithm_text(key).c_str(), reason_text(key).c_str());
  }
  const auto note = [&](const std::string& words) { lines += std::string(head) + "  " + words + "\n"; };
  if (const std::string words = found_words(rows); !words.empty()) note("Found on the way, as WEFT_COLL would say it: " + words);
  note(
      "Those first that took most time. bytes: as WEFT_COLL counts them. measured: the middle one of a rank's calls, with what it waited "
      "for");
  note(
      "late ranks, averaged over the ranks. model: what weft explain expects; it knows no shared memory. weft tune measures which "
      "algorithm is best.");
  return lines;
}

}  // namespace weft::coll
