// Which algorithm runs: one function of what all ranks agree on.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "coll/algorithms/algorithms.h"
#include "coll/coll.h"
#include "coll/wish.h"

namespace weft::coll {

/// What decides the messages: equal on all ranks of a collective call.
struct Agreed {
  Pattern pattern = Pattern::barrier;
  int32_t size = 1;
  int32_t hosts = 0;  ///< that the ranks are on; 0: not known, or of no interest
  int32_t front = 0;  ///< between groups: how many of the `size` ranks are the front group's; 0: there is one group
  Rank root = 0;
  uint64_t bytes = 0;  ///< packed: of the whole vector (bcast, reductions), of one block (gather, scatter, all-to-all forms)
  bool commutative = true;
  bool uneven = false;  ///< blocks of different sizes; `bytes` is an average, or 0 if not known to all
  /// A reduction whose bits depend on the order of operands, where they must not depend on hosts, tables and ways of messages.
  bool ordered = false;

  /// May operands change places?
  bool may_swap() const { return commutative && !ordered; }
};

/// An all-to-all of so few ranks and bytes that, on one host, each had better send to all at once: in rounds it would wait for
/// who is late in one (4 ranks on 2 CPUs, blocks of 256 KiB: 233 us, in rounds 251; 8 ranks and 1 MiB 7.1 ms, in rounds 6.4).
constexpr bool exchanges_at_once(const Agreed& a) {
  return a.pattern == Pattern::alltoall && a.size > 2 && a.size <= 8 && a.bytes * static_cast<uint64_t>(a.size) <= 4 << 20;
}

/// Whose word decides, the first one first: see choose().
enum class By : uint8_t { user, refined, table, model, thresholds };
/// "WEFT_COLL", "refined", "table", "model", "thresholds".
const char* to_string(By);

/// An algorithm and its parameters.
struct Choice {
  const Algorithm* algorithm = nullptr;
  int32_t segments = 1;
  By by = By::thresholds;
};

/// What WEFT_COLL, or the table of `weft tune`, or Refinement says of a call.
struct Word {
  const Algorithm* algorithm = nullptr;
  int32_t segments = 0;   ///< 0: as usual
  bool node = false;      ///< "node": the kernels in shared memory, whatever the size
  bool anything = false;  ///< there is one
  uint32_t number = 0;    ///< of the entry, from 1; 0: none
};
/// The word that says which reductions give the same bits again; nothing: it is none of these.
std::optional<Reproducible> reproducible_named(std::string_view word);
/// What WEFT_COLL_REPRODUCIBLE says.
Reproducible reproducible_setting();

/// Is there a WEFT_COLL?
bool user_speaks();
/// Reads WEFT_COLL. Entries that cannot be understood count for nothing.
Word word_of_user(const Agreed&);
/// What some entries say.
Word find_word(const Wishes&, const Agreed&);
/// WEFT_COLL, before other entries, of which the last one counts.
std::string with_setting(std::string_view entries);
/// What to say of these, in one line; empty: there are none.
std::string complaint();

/// Sizes are agreed on by class: all sizes of a class get the same plan.
constexpr int size_class(uint64_t bytes) { return 64 - __builtin_clzll(bytes | 1) - (bytes == 0); }
/// The smallest size of a class, which stands for it.
constexpr uint64_t class_bytes(int size_class) { return size_class == 0 ? 0 : uint64_t{1} << (size_class - 1); }

/// What a plan is made for: the smallest size of its class.
inline Agreed of_class(Agreed a) {
  a.bytes = class_bytes(size_class(a.bytes));
  return a;
}

/// What the table says, which mpirun has handed to all ranks alike. Sizes count by their class, so that nothing has to be looked up at
/// each call. It knows nothing of blocks of different sizes, of two groups, and of ranks whose hosts are not known.
Word word_of_table(const Agreed&);
/// Is there one?
bool table_speaks();

/// The plan for a call, by the first one in the order of By that names what can be used. Between groups, phases have sizes of their own,
/// and all sizes of a class have the same plan.
Choice choose(const Agreed&, const Topology&, const Word& user);
inline Choice choose(const Agreed& a, const Topology& topology) { return choose(a, topology, word_of_user(a)); }

/// How many segments an algorithm that cuts the data is given, but by the model.
int32_t usual_segments(uint64_t bytes);

/// What the algorithm that has been chosen is built with.
Parameters parameters(const Agreed&, const Choice&, bool in_place);

/// The order in which kernels in shared memory combine operands: of ordered calls that of the algorithm which runs without shared memory;
/// Order::own: none of theirs.
Order node_order(const Agreed&);

/// Bytes of what a rank gives: where it has a block for each, of all of them.
uint64_t given_bytes(const Agreed&);
/// True if the kernel in shared memory should run for ranks on one node, which there is. `roomy`: each is known to have a CPU of its own.
bool wants_node(const Agreed&, const Word& user, const Word& table, bool roomy);
/// Can the kernels in shared memory do it at all, as far as all ranks know of the call?
bool node_takes(const Agreed&);

/// What the table says of the kernels in shared memory: kept by size, as the table is too long to be searched at each call.
class NodeWords {
 public:
  /// Of ranks on one host.
  explicit NodeWords(int32_t ranks);
  Word of(Pattern p, uint64_t bytes) const { return words_[static_cast<size_t>(p)][static_cast<size_t>(size_class(bytes))]; }

 private:
  std::array<std::array<Word, 65>, kPatterns> words_;
};

/// node_order() of ordered calls, kept by size.
class NodeOrders {
 public:
  /// `like`: such a call.
  explicit NodeOrders(Agreed like);
  Order of(const Agreed& a) const {
    return (a.pattern == Pattern::reduce ? reduce_ : allreduce_)[static_cast<size_t>(size_class(a.bytes))];
  }

 private:
  std::array<Order, 65> reduce_, allreduce_;
};

/// The same in one: what ranks run, for people to read.
struct Decision {
  bool node = false;  ///< the kernel in shared memory; the first calls of a communicator, and types that it does not know, run `choice`
  Choice choice;      ///< by messages
  By by = By::thresholds;  ///< of `node` or `choice`, whichever runs
  bool unusable = false;   ///< WEFT_COLL names what these ranks cannot use
  std::string wish;        ///< its entry
  std::string table;       ///< the entry of the table that fits; empty: there is none
};
/// `one_node`: all ranks are on one; `roomy`: with a CPU each.
Decision decide(const Agreed&, const Topology&, bool one_node, bool roomy = true);
/// The same with the words of others than WEFT_COLL; says nothing of an entry.
Decision decide(const Agreed&, const Topology&, bool one_node, bool roomy, const Word& user);

}  // namespace weft::coll
