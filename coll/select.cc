#include "coll/select.h"

#include <algorithm>
#include <string>

#include "coll/hosts.h"
#include "coll/wish.h"
#include "runtime/config/config.h"

namespace weft::coll {

namespace {

config::Text coll_setting(
    "", "COLL", "",
    "collective algorithms by name, where wanted by size, such as \"allreduce:64K-1M=ring;bcast=binomial\" (64K included, 1M "
    "not; the last entry that fits counts); \"node\" names the kernels in shared memory. Empty: chosen by size. weft explain "
    "shows what there is");

constexpr uint64_t kKiB = 1024;

/// How many segments of about `target` bytes.
int32_t cut(uint64_t bytes, uint64_t target) { return static_cast<int32_t>(std::clamp<uint64_t>(bytes / target, 1, 256)); }

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
  return a.bytes <= 32 * kKiB && a.size <= 128 ? "linear" : "pairwise";
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
    case Pattern::scan:
    case Pattern::exscan: return a.bytes < 64 * kKiB ? "doubling" : "chain";
    case Pattern::neighbor_allgather:
    case Pattern::neighbor_alltoall: return "linear";
  }
  return "";
}

/// Where hosts have several ranks: those that send little between hosts, while that is what costs. Null: as if there were one level.
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
    // Among four leaders, recursive doubling sends little more than what shares out the work, in half the messages.
    case Pattern::allreduce: return a.bytes < (hosts.count() <= 4 ? 256 : 32) * kKiB ? "two_level" : "many_leaders";
    // Beyond, a ring of all ranks copies less within hosts.
    case Pattern::allgather: return a.bytes * static_cast<uint64_t>(a.size) <= 1024 * kKiB ? "two_level" : nullptr;
    default: return nullptr;
  }
}

/// The algorithm of a name, where these ranks can use it.
const Algorithm* usable(const char* name, const Agreed& a, const Topology& topology) {
  const Algorithm* found = name ? find_algorithm(a.pattern, name) : nullptr;
  return found && found->usable(topology, a.size, {.root = a.root, .commutative = a.commutative}, a.uneven) ? found : nullptr;
}

/// True if the thresholds say so.
bool node_kernel_pays(const Agreed& a, uint64_t bytes) {
  switch (a.pattern) {
    case Pattern::barrier: return true;
    // Through pieces that stay in cache, a pipelined double copy beats single copies by system call.
    case Pattern::bcast: return a.size <= 8 || bytes <= 64 * kKiB;
    // Each rank reads all operands: the more ranks, the sooner algorithms that share the work out win.
    case Pattern::reduce:
    case Pattern::allreduce: return bytes <= (a.size == 2 ? 8 * kKiB : a.size <= 4 ? 256 * kKiB : a.size <= 8 ? 16 * kKiB : 4 * kKiB);
    default: return false;
  }
}

/// WEFT_COLL, read when its text has changed.
const Wishes& wishes() {
  thread_local std::string text;
  thread_local Wishes read;
  if (text != coll_setting.get()) {
    text = coll_setting.get();
    read = Wishes::read(text);
  }
  return read;
}

}  // namespace

const char* to_string(By by) {
  static constexpr const char* names[] = {"WEFT_COLL", "table", "thresholds"};
  return names[static_cast<int>(by)];
}

Word find_word(const Wishes& wishes, const Agreed& a) {
  const std::vector<Wish>& all = wishes.all;
  for (size_t i = all.size(); i-- > 0;)
    if (all[i].fits(a.pattern, a.bytes, a.size, a.hosts)) return {all[i].algorithm, all[i].node, true, static_cast<uint32_t>(i + 1)};
  return {};
}

std::string with_setting(std::string_view entries) { return coll_setting.get() + ";" + std::string(entries); }

bool user_speaks() { return !coll_setting.get().empty(); }

std::string complaint() { return wishes().wrong.empty() ? std::string() : "WEFT_COLL, ignored in part: " + wishes().wrong; }

Word word_of_user(const Agreed& a) { return user_speaks() ? find_word(wishes(), a) : Word{}; }

Choice choose(const Agreed& a, const Topology& topology, const Word& user) {
  Choice choice;
  if (user.algorithm) choice.algorithm = usable(user.algorithm->name, a, topology);
  if (!choice.algorithm && topology.hosts) choice.algorithm = usable(name_by_hosts(a, *topology.hosts), a, topology);
  if (!choice.algorithm) choice.algorithm = find_algorithm(a.pattern, name_of(a));
  if (choice.algorithm->segmented) choice.segments = cut(a.bytes, 16 * kKiB);
  return choice;
}

bool wants_node(const Agreed& a, const Word& user) { return user.anything ? user.node : node_kernel_pays(a, a.bytes); }

Decision decide(const Agreed& a, const Topology& topology, bool one_node, const Word& user) {
  Decision d;
  d.node = one_node && a.size > 1 && has_node_kernel(a.pattern) && wants_node(a, user);
  d.choice = choose(of_class(a), topology, user);
  if (!user.anything) return d;
  d.unusable = user.node ? !d.node : user.algorithm != d.choice.algorithm;
  if (!d.unusable) d.by = By::user;
  return d;
}

Decision decide(const Agreed& a, const Topology& topology, bool one_node) {
  const Word user = word_of_user(a);
  Decision d = decide(a, topology, one_node, user);
  if (user.anything) d.wish = wishes().all[user.number - 1].text;
  return d;
}

}  // namespace weft::coll
