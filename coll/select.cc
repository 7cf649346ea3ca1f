#include "coll/select.h"

#include <algorithm>
#include <string>
#include <utility>

#include "coll/hosts.h"
#include "coll/model.h"
#include "coll/network.h"
#include "coll/node/node.h"
#include "coll/wish.h"
#include "runtime/config/config.h"

namespace weft::coll {

namespace {

config::Text coll_setting(
    "", "COLL", "",
    "collective algorithms by name, where wanted by size, such as \"allreduce:64K-1M=ring;bcast=binomial\" (64K included, 1M "
    "not; the last entry that fits counts); \"node\" names the kernels in shared memory. Empty: chosen by size. weft explain "
    "shows what there is");

config::Text table_setting(
    "coll", "tuned", "",
    "what weft tune has found, in the words of WEFT_COLL, which goes before it: mpirun sets it for all ranks, from the file that "
    "WEFT_COLL_TABLE names, and rank 0 where others start them");

config::Text table_file(
    "coll", "table", "",
    "the file of weft tune that mpirun reads, or rank 0 where others start the ranks. Empty: collectives.json in ~/.config/weft, "
    "else in etc/weft where Weft is installed, if there is one; \"none\": no file");

config::Choice reproducible_wanted(
    "coll", "reproducible", "no", "no, runs, exact",
    "which reductions give the same bits again: no; runs (those on as many ranks, whatever hosts and transports); exact (sums "
    "of floating-point numbers on any ranks, too). The same on all ranks, read when communicators are made; docs/collectives.md "
    "says what it costs");

constexpr uint64_t kKiB = 1024;

const char* bcast_name(const Agreed& a) {
  if (a.size <= 2 || a.bytes < 32 * kKiB) return "binomial";
  if (a.bytes < 256 * kKiB && a.size >= 16) return "binary_tree";
  return "scatter_allgather";
}

const char* allgather_name(const Agreed& a) {
  const uint64_t total = a.bytes * static_cast<uint64_t>(a.size);
  if (a.uneven) return total < 32 * kKiB ? "bruck" : "ring";
  if (is_power_of_two(a.size) && total <= 512 * kKiB) return "recursive_doubling";
  if (total <= 64 * kKiB) return "bruck";
  return a.size % 2 == 0 && total <= 1024 * kKiB ? "neighbor_exchange" : "ring";
}

const char* alltoall_name(const Agreed& a) {
  if (a.uneven) return a.size <= 128 ? "linear" : "pairwise";
  if (a.bytes <= 256 && a.size >= 8) return "bruck";
  return (a.hosts == 1 && exchanges_at_once(a)) || (a.bytes <= 32 * kKiB && a.size <= 128) ? "linear" : "pairwise";
}

const char* allreduce_name(const Agreed& a) {
  if (a.bytes < 8 * kKiB) return "recursive_doubling";
  if (a.commutative && a.bytes >= 512 * kKiB && !is_power_of_two(a.size)) return "ring";
  return "rabenseifner";
}

const char* name_of(const Agreed& a) {
  switch (a.pattern) {
    case Pattern::barrier: return "dissemination";
    case Pattern::bcast: return bcast_name(a);
    case Pattern::gather:
    case Pattern::scatter: return a.uneven || a.size <= 4 || a.bytes > 4 * kKiB ? "linear" : "binomial";
    case Pattern::allgather: return allgather_name(a);
    case Pattern::alltoall: return alltoall_name(a);
    case Pattern::reduce: return a.bytes < 16 * kKiB || a.size < 4 ? "binomial" : "rabenseifner";
    case Pattern::allreduce: return allreduce_name(a);
    case Pattern::reduce_scatter: return a.commutative && a.bytes <= 256 * kKiB ? "recursive_halving" : "pairwise";
    case Pattern::exscan:
      if (a.size == 2) return "doubling";  // one message: there is nothing to overlap it with
      [[fallthrough]];
    case Pattern::scan: return a.bytes < 64 * kKiB ? "doubling" : "chain";
    case Pattern::neighbor_allgather:
    case Pattern::neighbor_alltoall: return "linear";
  }
  return "";
}

/// Where ranks share hosts: those that send little between hosts, while that is what costs. Null: as if there were one level.
const char* name_by_hosts(const Agreed& a, const Hosts& hosts) {
  switch (a.pattern) {
    case Pattern::barrier: return "two_level";
    case Pattern::bcast: return a.bytes < 32 * kKiB ? "two_level" : "two_level_pipeline";
    // Blocks that travel together cost one message; long ones would only be copied once more.
    case Pattern::gather:
    case Pattern::scatter: return a.bytes <= 4 * kKiB ? "two_level" : nullptr;
    case Pattern::alltoall: return a.bytes <= 8 * kKiB ? "many_leaders" : nullptr;
    case Pattern::reduce: return a.bytes < 128 * kKiB ? "two_level" : "many_leaders";
    case Pattern::reduce_scatter:
      return "many_leaders";  // of a host's sum, not of each of its ranks' data, is sent what others need
    // Among four leaders, recursive doubling sends little more than what shares out the work, in half the messages: unless they are behind
    // several switches, whose links all of it has to pass.
    case Pattern::allreduce: return a.bytes < (hosts.count() <= 4 && !hosts.switches() ? 256 : 32) * kKiB ? "two_level" : "many_leaders";
    // Beyond, a ring of all ranks copies less within hosts.
    case Pattern::allgather: return a.bytes * static_cast<uint64_t>(a.size) <= 1024 * kKiB ? "two_level" : nullptr;
    default: return nullptr;
  }
}

/// Where each rank has a host of its own and hosts are behind several switches, whose links long data should pass once. Short data takes as
/// long through them as around.
const char* name_by_switches(const Agreed& a) {
  switch (a.pattern) {
    case Pattern::bcast: return a.bytes < 32 * kKiB ? "two_level" : "two_level_pipeline";
    case Pattern::reduce: return a.bytes < 128 * kKiB ? "two_level" : "many_leaders";
    case Pattern::allreduce: return a.bytes < 32 * kKiB ? nullptr : "many_leaders";
    case Pattern::reduce_scatter: return a.bytes < 64 * kKiB ? nullptr : "many_leaders";
    case Pattern::allgather: return a.bytes * static_cast<uint64_t>(a.size) < 256 * kKiB ? nullptr : "ring";
    default: return nullptr;
  }
}

/// The algorithm that thresholds name for several levels; null: none.
const char* name_by_levels(const Agreed& a, const Hosts* hosts) {
  if (!hosts) return nullptr;
  return hosts->in_memory() ? name_by_hosts(a, *hosts) : name_by_switches(a);
}

/// The algorithm of a name, where these ranks can use it.
const Algorithm* usable(const char* name, const Agreed& a, const Topology& topology) {
  const Algorithm* found = name ? find_algorithm(a.pattern, name) : nullptr;
  return found && found->usable(topology, a.size, {.root = a.root, .commutative = a.commutative}, a.uneven) ? found : nullptr;
}

/// True if the thresholds say so.
bool node_kernel_pays(const Agreed& a, bool roomy) {
  const uint64_t bytes = a.bytes;
  const bool meet_at_will = roomy && a.size == 2;  // meetings cost next to nothing
  // Messages cost more switches than meetings, between which each rank works for as long as it has something to do.
  const bool few = node::Segment::few(static_cast<uint64_t>(a.size)), meet_rather = !roomy && few;
  const bool meet_once = given_bytes(a) <= node::Segment::most_exchanged;
  switch (a.pattern) {
    case Pattern::barrier: return true;
    // Through pieces that stay in cache, or read where it lies, by all of a node.
    case Pattern::bcast: return meet_at_will || few || bytes <= 64 * kKiB;
    // Shared out, which is what algorithms by messages do as well, with more copies and more steps.
    case Pattern::reduce:
    case Pattern::allreduce: return few || bytes <= 4 * kKiB;
    // One meeting instead of several rounds. Few have no less to copy by messages, which need not be cut.
    case Pattern::allgather: return meet_at_will || (few && (meet_rather || a.size >= 8 || meet_once));
    case Pattern::alltoall: return meet_at_will || (few && (meet_once || bytes <= 512 * kKiB));
    case Pattern::gather: return few && bytes <= node::Segment::most_gathered(static_cast<uint64_t>(a.size), roomy);
    // Longer ones go as fast by messages that its kernel has sent.
    case Pattern::scatter: return few && (bytes <= (roomy ? 16 : 64) * kKiB || (roomy && a.size > 2));
    // From rank to rank; between two, one message, which is read where it lies.
    case Pattern::exscan:
      if (meet_at_will && bytes > 16 * kKiB) return false;
      [[fallthrough]];
    case Pattern::scan: return meet_rather || a.size <= 8;
    case Pattern::reduce_scatter: return meet_at_will || meet_rather || a.size <= 16 || (few && bytes <= node::Segment::most_exchanged);
    default: return false;
  }
}

/// Entries, read when their text has changed.
struct Reading {
  std::string text;
  Wishes read;
  const Wishes& of(const std::string& now, size_t most) {
    if (text != now) {
      text = now;
      read = Wishes::read(text, most);
    }
    return read;
  }
};

const Wishes& wishes() {
  thread_local Reading reading;
  return reading.of(coll_setting.get(), Wishes::kMost);
}

const Wishes& tuned() {
  constexpr size_t kMost = 65536;
  thread_local Reading reading;
  return reading.of(table_setting.get(), kMost);
}

}  // namespace

const char* to_string(By by) {
  static constexpr const char* names[] = {"WEFT_COLL", "refined", "table", "model", "thresholds"};
  return names[static_cast<int>(by)];
}

int32_t usual_segments(uint64_t bytes) { return static_cast<int32_t>(std::clamp<uint64_t>(bytes / (16 * kKiB), 1, 256)); }

Word find_word(const Wishes& wishes, const Agreed& a) {
  const std::vector<Wish>& all = wishes.all;
  for (size_t i = all.size(); i-- > 0;)
    if (all[i].fits(a.pattern, a.bytes, a.size, a.hosts))
      return {.algorithm = all[i].algorithm, .node = all[i].node, .anything = true, .number = static_cast<uint32_t>(i + 1)};
  return {};
}

std::string with_setting(std::string_view entries) { return coll_setting.get() + ";" + std::string(entries); }

std::optional<Reproducible> reproducible_named(std::string_view word) {
  constexpr std::string_view kWords[] = {"no", "runs", "exact"};
  const auto found = std::ranges::find(kWords, word);
  if (found == std::end(kWords)) return {};
  return static_cast<Reproducible>(found - std::begin(kWords));
}

Reproducible reproducible_setting() { return *reproducible_named(reproducible_wanted.get()); }

bool user_speaks() { return !coll_setting.get().empty(); }

std::string complaint() {
  constexpr size_t kMostText = 300;  // of a table of another version
  std::string wrong = wishes().wrong.empty() ? std::string() : "WEFT_COLL, ignored in part: " + wishes().wrong;
  if (table_speaks() && !tuned().wrong.empty())
    wrong += (wrong.empty() ? "" : "; ") + std::string("the table of weft tune, ignored in part: ") + tuned().wrong.substr(0, kMostText);
  if (const std::string flaw = complaint_of_network(); !flaw.empty())
    wrong += (wrong.empty() ? "" : "; ") + ("WEFT_COLL_NETWORK, ignored: " + flaw);
  return wrong;
}

Word word_of_user(const Agreed& a) { return user_speaks() ? find_word(wishes(), a) : Word{}; }

bool table_speaks() { return !table_setting.get().empty(); }

Word word_of_table(const Agreed& a) {
  if (!table_speaks() || a.hosts == 0 || a.uneven || a.front > 0 || a.ordered) return {};
  return find_word(tuned(), of_class(a));
}

NodeWords::NodeWords(int32_t ranks) : words_{} {
  for (int p = 0; p < kPatterns; ++p)
    for (size_t c = 0; c < words_[0].size(); ++c)
      words_[static_cast<size_t>(p)][c] =
          word_of_table({.pattern = static_cast<Pattern>(p), .size = ranks, .hosts = 1, .bytes = class_bytes(static_cast<int>(c))});
}

NodeOrders::NodeOrders(Agreed like) {
  for (const auto& [pattern, orders] : {std::pair(Pattern::reduce, &reduce_), std::pair(Pattern::allreduce, &allreduce_)})
    for (size_t c = 0; c < orders->size(); ++c) {
      like.pattern = pattern;
      like.bytes = class_bytes(static_cast<int>(c));
      (*orders)[c] = node_order(like);
    }
}

// The next two are all that orders whose word counts.

Choice choose(const Agreed& a, const Topology& topology, const Word& user) {
  const auto as_usual = [&](const Algorithm* found, By by, int32_t segments = 0) {
    return Choice{found, !found->segmented ? 1 : segments ? segments : usual_segments(a.bytes), by};
  };
  const Word table = word_of_table(a);
  for (const auto& [by, word] : {std::pair(By::user, &user), std::pair(By::table, &table)})
    if (const Algorithm* const found = usable(word->algorithm ? word->algorithm->name : nullptr, a, topology))
      return as_usual(found, by, word->segments);
  if (a.ordered) {  // neither hosts nor measurements decide
    Agreed in_order = a;
    in_order.commutative = false;
    return as_usual(find_algorithm(a.pattern, name_of(in_order)), By::thresholds);
  }
  if (const Choice found = cheapest(a, topology); found.algorithm) return found;
  const Algorithm* const by_hosts = usable(name_by_levels(a, topology.hosts), a, topology);
  return as_usual(by_hosts ? by_hosts : find_algorithm(a.pattern, name_of(a)), By::thresholds);
}

Parameters parameters(const Agreed& a, const Choice& choice, bool in_place) {
  // Only the user's word has others run in such calls than keep ranks in order.
  const bool anyhow = choice.algorithm->commutative || choice.algorithm->spans;
  return {.root = a.root, .commutative = anyhow ? a.commutative : a.may_swap(), .in_place = in_place, .segments = choice.segments};
}

Order node_order(const Agreed& a) { return a.ordered ? choose(of_class(a), {}, {}).algorithm->order : Order::chain; }

uint64_t given_bytes(const Agreed& a) {
  const bool blocks = a.pattern == Pattern::scatter || a.pattern == Pattern::alltoall;
  return blocks ? a.bytes * static_cast<uint64_t>(a.size) : a.bytes;
}

bool node_takes(const Agreed& a) {
  switch (a.pattern) {
    case Pattern::reduce_scatter:
    case Pattern::scan:
    case Pattern::exscan: return !a.ordered;  // their algorithms have orders that the kernels have not
    case Pattern::scatter: return !a.uneven || a.size <= static_cast<int32_t>(node::Segment::most_scattered);
    default: return has_node_kernel(a.pattern);
  }
}

bool wants_node(const Agreed& a, const Word& user, const Word& table, bool roomy) {
  for (const Word* word : {&user, &table})
    if (word->anything) return word->node;
  return node_kernel_pays(a, roomy);
}

Decision decide(const Agreed& a, const Topology& topology, bool one_node, bool roomy, const Word& user) {
  const Word table = word_of_table(a);
  Decision d;
  d.node = one_node && a.size > 1 && node_takes(a) && wants_node(a, user, table, roomy) && node_order(a) != Order::own;
  d.choice = choose(of_class(a), topology, user);
  d.by = !d.node ? d.choice.by : user.node ? By::user : table.node ? By::table : By::thresholds;
  d.unusable = user.anything && d.by != By::user;
  if (table.anything) d.table = tuned().all[table.number - 1].text;
  return d;
}

Decision decide(const Agreed& a, const Topology& topology, bool one_node, bool roomy) {
  const Word user = word_of_user(a);
  Decision d = decide(a, topology, one_node, roomy, user);
  if (user.anything) d.wish = wishes().all[user.number - 1].text;
  return d;
}

}  // namespace weft::coll
