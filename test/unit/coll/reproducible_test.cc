// Reproducible reductions: which bits come out, over messages and in shared memory, on one host and on several, by each algorithm.
#include <algorithm>
#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "include/mpi.h"
#include "runtime/base/error.h"
#include "runtime/config/config.h"
#include "runtime/type/predefined.h"
#include "test/unit/coll/world.h"
#include "test/unit/op/sum_oracle.h"
#include "test/unit/setting.h"

using namespace weft;
using namespace weft::coll;

namespace {

const op::Op& operation(MPI_Op op) { return *op::predefined(reinterpret_cast<uintptr_t>(op)); }

/// What is added last is lost or not by what came before. Rank r's number at place i.
double datum(uint64_t kind, int rank, uint64_t i) {
  uint64_t state = kind * 1000003 + static_cast<uint64_t>(rank) * 0xd1342543de82ef95U + i;  // SplitMix64
  const auto random = [&state] {
    uint64_t z = state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
  };
  const auto mantissa = static_cast<double>(static_cast<int64_t>(random()));
  return std::ldexp(mantissa, static_cast<int>(random() % 80) - 63);
}

using Doubles = std::vector<double>;

/// All that decides bits, in one number.
uint64_t bits_of(const Doubles& numbers) {
  uint64_t hash = 14695981039346656037U;
  for (const double x : numbers) hash = (hash ^ std::bit_cast<uint64_t>(x)) * 1099511628211U;
  return hash;
}

enum class Mode { blocking, nonblocking, persistent };

/// One reduction of doubles by one rank.
struct Reduction {
  Collective what = Collective::allreduce;
  uint64_t count = 1;
  Mode mode = Mode::blocking;
  bool in_place = false;
  MPI_Op op = MPI_SUM;
  int root = 0;

  bool scatters() const { return what == Collective::reduce_scatter_block; }
  /// What the rank gets, nothing where it gets nothing. `in`: `count` numbers, of reduce_scatter for each rank.
  Doubles of(RankWorld& w, Doubles in) const {
    Doubles out(in.size(), 4711);
    const bool here = in_place && (what != Collective::reduce || w.rank == root);
    Call c;
    c.what = what;
    c.in = in.data();
    c.out = here ? in.data() : out.data();
    c.in_place = here;
    c.out_count = count;
    c.root = root;
    c.out_type = &type::of(type::Basic::float64);
    c.op = &operation(op);
    int error = MPI_SUCCESS;
    if (mode == Mode::blocking) {
      error = run(w.state, c);
    } else {
      pml::Request* request = nullptr;
      error = mode == Mode::nonblocking ? start(w.state, c, &request) : init(w.state, c, &request);
      if (!error && mode == Mode::persistent) request->ops->start(*request);
      if (!error) w.lane.wait(*request), error = request->outcome.error;
      if (request) release(request);
    }
    if (error) throw std::runtime_error(std::string(last_failure()));
    if (here) out = in;
    if (scatters()) out.resize(count);
    const bool nothing = (what == Collective::reduce && w.rank != root) || (what == Collective::exscan && w.rank == 0);
    return nothing ? Doubles() : out;
  }
};

Doubles data_of(const Reduction& r, const RankWorld& w, uint64_t kind) {
  Doubles in(r.count * (r.scatters() ? static_cast<uint64_t>(w.size) : 1));
  for (uint64_t i = 0; i < in.size(); ++i) in[i] = datum(kind, w.rank, i);
  if (r.op != MPI_SUM)  // of either zero and NaN the first or the last one wins
    for (uint64_t i = 0; i < in.size(); ++i)
      in[i] = i % 3 == 0 && w.rank % 2 ? std::nan("") : i % 3 == 1 ? (w.rank % 3 ? -0.0 : 0.0) : in[i];
  return in;
}

constexpr Collective kAll[] = {Collective::allreduce, Collective::reduce, Collective::reduce_scatter_block, Collective::scan,
                               Collective::exscan};

/// The bits that ranks get, by what they ask for. Empty: ranks were told something else by another way.
using Bits = std::map<std::string, uint64_t>;

/// Runs all kinds of reductions in all ways and says which bits come out of each kind; those of one kind must be the same.
Bits bits_of_all(uint32_t size, uint32_t nodes, bool& all_ways_agree) {
  std::mutex lock;
  Bits found;
  const std::string wrong = on_ranks(
      size,
      [&](RankWorld& w) {
        for (const MPI_Op op : {MPI_SUM, MPI_MIN})
          for (const Collective what : kAll)
            for (const uint64_t count : {1, 7, 700, 5000, 40000}) {
              if (op != MPI_SUM && count > 700) continue;
              if (count > 10000 && (what == Collective::reduce_scatter_block || size > 5)) continue;
              for (int way = 0; way < 10; ++way) {  // the first calls are made by messages
                Reduction r{.what = what, .count = count, .in_place = way % 2 == 1, .op = op, .root = w.size / 2};
                r.mode = way < 6 ? Mode::blocking : way < 8 ? Mode::nonblocking : Mode::persistent;
                const uint64_t bits = bits_of(r.of(w, data_of(r, w, count)));
                const std::string name = std::to_string(int(what)) + (op == MPI_SUM ? " sum " : " min ") + std::to_string(count) +
                                         " rank " + std::to_string(w.rank);
                const std::lock_guard hold(lock);
                if (found.try_emplace(name, bits).first->second != bits) all_ways_agree = false;
              }
            }
        return std::string();
      },
      nodes);
  CHECK(wrong == "");
  return found;
}

/// In the mode for runs.
void run_runs(std::initializer_list<uint32_t> sizes) {
  for (const uint32_t size : sizes) {
    INFO(size << " ranks");
    const Setting setting("WEFT_COLL_REPRODUCIBLE", "runs");
    bool agree = true;
    const Bits first = bits_of_all(size, 1, agree);
    for (const uint32_t nodes : {2U, 3U}) CHECK(bits_of_all(size, std::min(nodes, size), agree) == first);
    {
      const Setting table("WEFT_COLL_TUNED", "allreduce=ring;reduce=two_level;scan=chain;reduce_scatter=recursive_halving");
      CHECK(bits_of_all(size, 1, agree) == first);
    }
    {
      const Roomy each_has_a_cpu;
      CHECK(bits_of_all(size, 1, agree) == first);
    }
    CHECK(agree);
  }
}

}  // namespace

TEST_CASE("in the mode for runs bits do not depend on hosts, shared memory and forms of calls") { run_runs({3}); }
TEST_CASE("in the mode for runs bits do not depend on hosts, shared memory and forms of calls, on more ranks", "[more]") {
  run_runs({2, 5, 8, 9});
}

TEST_CASE("in any mode all ranks get the same bits of an allreduce, by each algorithm") {
  for (const Algorithm& a : algorithms()) {
    if (a.pattern != Pattern::allreduce) continue;
    const Setting coll("WEFT_COLL", std::string("allreduce=") + a.name);
    for (const uint32_t size : {6, 8}) {
      INFO(a.name << " on " << size << " ranks");
      std::mutex lock;
      std::set<uint64_t> found;
      const auto wrong = on_ranks(
          size,
          [&](RankWorld& w) {
            const Reduction r{.count = 700};
            const uint64_t bits = bits_of(r.of(w, data_of(r, w, 1)));
            const std::lock_guard hold(lock);
            found.insert(bits);
            return std::string();
          },
          a.spans ? 2 : 1);
      CHECK(wrong == "");
      CHECK(found.size() == 1);
    }
  }
}

TEST_CASE("in the usual mode they do", "[more]") {
  bool agree = true;
  const Bits one = bits_of_all(5, 1, agree);
  CHECK(!agree);
  CHECK(bits_of_all(5, 2, agree) != one);
}

namespace {

/// As WEFT_COLL names it.
const char* name_of(Collective what) {
  switch (what) {
    case Collective::reduce: return "reduce=";
    case Collective::allreduce: return "allreduce=";
    case Collective::scan: return "scan=";
    case Collective::exscan: return "exscan=";
    default: return "reduce_scatter=";
  }
}

constexpr int kTerms = 3;  // of the exact sums: the ranks beyond bring 0

double term(int t, uint64_t place) { return datum(99, t, place); }

/// The bits of the exact sums of some of the terms (a bit each) at all places: reckoned once, as the model is slow. Only the sums of all
/// are scattered.
const std::vector<uint64_t>& exact_sums(unsigned terms) {
  static const auto all = [] {
    std::vector<std::vector<uint64_t>> sums(1U << kTerms);
    for (unsigned some = 0; some < sums.size(); ++some)
      for (uint64_t i = 0; i < (some + 1 == sums.size() ? 9000 : 1000); ++i) {
        test::Expansion sum;
        for (int t = 0; t < kTerms; ++t)
          if (some >> t & 1) sum.add(term(t, i));
        sums[some].push_back(test::nearest_double(sum));
      }
    return sums;
  }();
  return all[terms];
}

/// One exact sum of which each rank brings a term or 0, where `turn` says who brings what; is it the model's?
bool is_exact(RankWorld& w, const Reduction& r, int turn) {
  const auto brought_by = [&](int rank) { return (rank + turn) % w.size; };
  Doubles in(r.count * (r.scatters() ? static_cast<uint64_t>(w.size) : 1));
  for (uint64_t i = 0; i < in.size() && brought_by(w.rank) < kTerms; ++i) in[i] = term(brought_by(w.rank), i);
  const Doubles out = r.of(w, in);
  const int before = r.what == Collective::scan ? w.rank + 1 : r.what == Collective::exscan ? w.rank : w.size;
  unsigned terms = 0;
  for (int rank = 0; rank < before; ++rank)
    if (brought_by(rank) < kTerms) terms |= 1U << brought_by(rank);
  const auto& sums = exact_sums(terms);
  const uint64_t first = r.scatters() ? r.count * static_cast<uint64_t>(w.rank) : 0;
  return first + out.size() <= sums.size() && std::equal(out.begin(), out.end(), sums.begin() + static_cast<std::ptrdiff_t>(first),
                                                         [](double x, uint64_t bits) { return std::bit_cast<uint64_t>(x) == bits; });
}

/// By one word of WEFT_COLL; `every`: all collectives, else that which the word begins with.
std::string exact_by(RankWorld& w, const std::string& word, bool every) {
  for (const Collective what : kAll)
    for (const uint64_t count : {1, 40, 1000})
      for (int way = 0; way < 6 && (every || word.starts_with(name_of(what))); ++way) {
        Reduction r{.what = what, .count = count, .in_place = way % 2 == 1, .root = 1};
        r.mode = static_cast<Mode>(way / 2);
        if (!is_exact(w, r, way))
          return "collective " + std::to_string(int(what)) + " count " + std::to_string(count) + " way " + std::to_string(way);
      }
  return {};
}

void run_exact(std::initializer_list<uint32_t> sizes) {
  const Setting setting("WEFT_COLL_REPRODUCIBLE", "exact");
  std::vector<std::string> words = {"", "allreduce=node;reduce=node"};
  for (const Algorithm& a : algorithms())
    if (reduces(a.pattern)) words.push_back(std::string(to_string(a.pattern)) + "=" + a.name);
  for (const std::string& word : words) {
    const Setting coll("WEFT_COLL", word);
    for (const uint32_t size : sizes) {
      INFO(word << " on " << size << " ranks");
      const bool every = word.empty() || word.ends_with("node");
      const uint32_t nodes = word.ends_with("l") || word.ends_with("leaders") ? 3 : 1;
      CHECK(on_ranks(
                size, [&](RankWorld& w) { return exact_by(w, word, every); }, nodes) == "");
    }
  }
}

}  // namespace

TEST_CASE("exact sums are those of the model by each algorithm, on any hosts, with any numbers of ranks") { run_exact({4}); }
TEST_CASE("exact sums are those of the model by each algorithm, on more ranks", "[more]") { run_exact({3, 6, 9}); }

TEST_CASE("exact sums of blocks of different sizes go in pieces") {
  const Setting setting("WEFT_COLL_REPRODUCIBLE", "exact");
  for (const uint32_t size : {3, 5})
    for (int turn = 0; turn < 3; ++turn)
      for (const bool in_place : {false, true}) {
        INFO(size << " ranks, turn " << turn << ", in place " << in_place);
        const auto sums_of = [&](RankWorld& w) {
          std::vector<int> counts;
          for (int r = 0; r < w.size; ++r) counts.push_back(300 * ((r + turn) % w.size));
          const auto before = static_cast<size_t>(std::accumulate(counts.begin(), counts.begin() + w.rank, 0));
          Doubles in(static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), 0))), out(in.size(), 4711);
          for (uint64_t i = 0; i < in.size() && w.rank < kTerms; ++i) in[i] = term(w.rank, i);
          if (in_place) out = in;
          Call c;
          c.what = Collective::reduce_scatter;
          c.in = in.data();
          c.out = out.data();
          c.in_place = in_place;
          c.out_counts = Counts(counts.data());
          c.out_type = &type::of(type::Basic::float64);
          c.op = &operation(MPI_SUM);
          if (run(w.state, c)) return std::string(last_failure());
          const auto& sums = exact_sums((1U << kTerms) - 1);
          const auto mine = static_cast<size_t>(counts[static_cast<size_t>(w.rank)]);
          for (size_t i = 0; i < mine; ++i)
            if (std::bit_cast<uint64_t>(out[i]) != sums[before + i]) return "element " + std::to_string(i);
          if (!in_place && mine < out.size() && out[mine] != 4711) return std::string("more than the block is written");
          return std::string();
        };
        CHECK(on_ranks(size, sums_of) == "");
      }
}

TEST_CASE("a communicator may have a word of its own") {
  const std::string wrong = on_ranks(3, [](RankWorld& w) {
    const Reduction r{.what = Collective::allreduce};
    const Doubles in{w.rank == 0 ? 1e100 : w.rank == 1 ? 1.0 : -1e100};
    if (r.of(w, in)[0] == 1) return std::string("exact without a word");
    if (!make_reproducible(w.state, "exact")) return std::string("a word is refused");
    if (r.of(w, in)[0] != 1) return std::string("not exact");
    if (make_reproducible(w.state, "Exact")) return std::string("another word is taken");
    if (r.of(w, in)[0] != 1) return std::string("changed by a wrong word");
    if (!make_reproducible(w.state, "")) return std::string("no word is refused");
    return std::string(r.of(w, in)[0] == 1 ? "still exact" : "");
  });
  CHECK(wrong == "");
}

TEST_CASE("a word that is none is refused") {
  CHECK_FALSE(config::find("WEFT_COLL_REPRODUCIBLE")->set("always", config::Origin::program));
  CHECK(reproducible_setting() == Reproducible::no);
}

TEST_CASE("trees over ranks") {
  const auto tree = [](Order order, int32_t size) {
    const auto walk = [&](auto& self, int32_t first, int32_t last) -> std::string {
      if (last - first == 1) return std::to_string(first);
      const int32_t middle = parting(order, size, first, last);
      return "(" + self(self, first, middle) + self(self, middle, last) + ")";
    };
    return walk(walk, 0, size);
  };
  CHECK(tree(Order::chain, 5) == "(0(1(2(34))))");
  CHECK(tree(Order::binomial, 5) == "(((01)(23))4)");
  CHECK(tree(Order::binomial, 7) == "(((01)(23))((45)6))");
  CHECK(tree(Order::folded, 5) == "(((01)2)(34))");
  CHECK(tree(Order::folded, 7) == "(((01)(23))((45)6))");
  CHECK(tree(Order::folded, 6) == "(((01)(23))(45))");
  CHECK(tree(Order::folded, 8) == "(((01)(23))((45)(67)))");
}
