// Collectives on real lanes against a sequential model: each algorithm, all modes, sizes, layouts, in place or not.
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>

#include "coll/node/groups.h"
#include "include/mpi.h"
#include "runtime/base/error.h"
#include "runtime/config/config.h"
#include "runtime/topo/cpu_set.h"
#include "runtime/type/construct.h"
#include "runtime/type/predefined.h"
#include "test/unit/coll/world.h"

using namespace weft;
using namespace weft::coll;

namespace {

/// x -> a x + b, modulo 2^32. Composition is associative and does not commute.
struct Affine {
  uint32_t a = 1, b = 0;
  bool operator==(const Affine&) const = default;
};
Affine then(Affine left, Affine right) { return {left.a * right.a, left.a * right.b + left.b}; }
Affine plus(Affine left, Affine right) { return {left.a + right.a, left.b + right.b}; }

constexpr std::byte kGap{0xEE};

/// Two types of the same signature: dense, and with gaps between elements.
struct Types {
  type::Datatype* dense = nullptr;
  type::Datatype* gappy = nullptr;
  Types() {
    type::Datatype& word = type::of(type::Basic::uint32);
    type::contiguous(2, word, type::Form::small, dense);
    type::Datatype* pair = nullptr;
    type::vector(2, 1, 2, word, type::Form::small, pair);
    type::resized(*pair, 0, 20, type::Form::small, gappy);
    dense->committed = gappy->committed = true;
  }
};
const Types& types() {
  static const Types all;
  return all;
}

/// An array of elements in user memory of one of the two types.
class Memory {
 public:
  Memory(bool gappy, size_t elements) : gappy_(gappy), bytes_((elements + 1) * stride(), kGap), elements_(elements) {}
  const type::Datatype* type() const { return gappy_ ? types().gappy : types().dense; }
  void* at(size_t i = 0) { return bytes_.data() + i * stride(); }
  void set(size_t i, Affine v) {
    std::memcpy(at(i), &v.a, 4);
    std::memcpy(static_cast<std::byte*>(at(i)) + second(), &v.b, 4);
  }
  Affine get(size_t i) {
    Affine v;
    std::memcpy(&v.a, at(i), 4);
    std::memcpy(&v.b, static_cast<std::byte*>(at(i)) + second(), 4);
    return v;
  }
  bool untouched(size_t i) {
    for (size_t k = 0; k < stride(); ++k) {
      if (bytes_[i * stride() + k] != kGap) return false;
    }
    return true;
  }
  bool gaps_intact() {
    for (size_t i = 0; gappy_ && i < elements_; ++i) {
      for (size_t k : {4, 5, 6, 7, 12, 13, 19}) {
        if (bytes_[i * 20 + k] != kGap) return false;
      }
    }
    return true;
  }

 private:
  size_t stride() const { return gappy_ ? 20 : 8; }
  size_t second() const { return gappy_ ? 8 : 4; }
  bool gappy_;
  std::vector<std::byte> bytes_;
  size_t elements_;
};

template <Affine (*Combine)(Affine, Affine)>
void user_function(void* in, void* inout, int* len, MPI_Datatype* type) {
  // The handle tells the layout: the only types here are the two above.
  const bool gappy = *type == reinterpret_cast<MPI_Datatype>(static_cast<Object*>(types().gappy));
  const size_t stride = gappy ? 20 : 8, second = gappy ? 8 : 4;
  for (int i = 0; i < *len; ++i) {
    auto* l = static_cast<std::byte*>(in) + static_cast<size_t>(i) * stride;
    auto* r = static_cast<std::byte*>(inout) + static_cast<size_t>(i) * stride;
    Affine left, right;
    std::memcpy(&left.a, l, 4), std::memcpy(&left.b, l + second, 4);
    std::memcpy(&right.a, r, 4), std::memcpy(&right.b, r + second, 4);
    right = Combine(left, right);
    std::memcpy(r, &right.a, 4), std::memcpy(r + second, &right.b, 4);
  }
}

const op::Op& composition() {
  static const op::Op* const op = op::create(reinterpret_cast<void*>(user_function<then>), false, false);
  return *op;
}
const op::Op& sum() {
  static const op::Op* const op = op::create(reinterpret_cast<void*>(user_function<plus>), true, false);
  return *op;
}

enum class Mode { blocking, nonblocking, persistent };

struct Case {
  Collective what;
  uint64_t count;
  int root;
  bool in_place;
  bool commutative;
  bool gappy_in, gappy_out;
  Mode mode;
  uint32_t seed;
};

std::string describe(const Case& c) {
  std::ostringstream s;
  s << "collective " << static_cast<int>(c.what) << " count " << c.count << " root " << c.root << " in place " << c.in_place
    << " commutative " << c.commutative << " gappy " << c.gappy_in << c.gappy_out << " mode " << static_cast<int>(c.mode) << " seed "
    << c.seed << ": ";
  return s.str();
}

uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ x >> 16;
}
/// What rank `r` contributes at index `i`.
Affine datum(uint32_t seed, int r, uint64_t i) {
  const uint32_t h = mix(seed * 1000003u + static_cast<uint32_t>(r) * 7919u + static_cast<uint32_t>(i));
  return {h | 1, mix(h)};
}

/// One collective of one rank: memory, the call, and what should come out.
class Trial {
 public:
  Trial(const Case& c, int rank, int size);
  const Call& call() const { return call_; }
  std::string verdict();
  void refill();

 private:
  uint64_t chunk(int from, int to) const {  // elements from one rank to another in the v forms
    if (!uneven()) return c_.count;
    const auto key = static_cast<uint64_t>(pairwise()                                                                    ? from * 31 + to
                                           : pattern_of(c_.what) == Pattern::gather || c_.what == Collective::allgatherv ? from
                                                                                                                         : to);
    return c_.count == 0 ? 0 : key * 5 % (c_.count + 2);
  }
  bool uneven() const {
    return c_.what == Collective::gatherv || c_.what == Collective::scatterv || c_.what == Collective::allgatherv ||
           c_.what == Collective::alltoallv || c_.what == Collective::alltoallw || c_.what == Collective::reduce_scatter;
  }
  bool pairwise() const { return pattern_of(c_.what) == Pattern::alltoall; }
  /// Contribution of `from` for `to`, element i.
  Affine sent(int from, int to, uint64_t i) const {
    return datum(c_.seed, from, pairwise() || scatters() ? static_cast<uint64_t>(to) * 5000 + i : i);
  }
  bool scatters() const { return pattern_of(c_.what) == Pattern::scatter; }
  Affine reduced(int ranks, uint64_t i) const {
    Affine all = datum(c_.seed, 0, i);
    for (int r = 1; r < ranks; ++r) all = c_.commutative ? plus(all, datum(c_.seed, r, i)) : then(all, datum(c_.seed, r, i));
    return all;
  }
  /// Lays blocks out backwards with gaps; returns the elements that they span.
  size_t lay(std::vector<int64_t>& places, const std::vector<int64_t>& counts) const {
    int64_t at = 1;
    places.assign(counts.size(), 0);
    for (size_t i = counts.size(); i-- > 0;) {
      places[i] = at;
      at += counts[i] + 1;
    }
    return static_cast<size_t>(at);
  }
  void want(uint64_t index, Affine v) { wanted_.emplace_back(index, v); }
  void build_reduction();
  void build_exchange();
  void fill_exchange(Pattern, bool many_in, bool in_place);
  void tell_counts(bool many_in, bool many_out);

  Case c_;
  int rank_, size_;
  Call call_;
  std::optional<Memory> in_, out_;
  std::deque<std::pair<uint64_t, Affine>> given_in_, given_out_, wanted_;  // grow without large pieces of new memory
  std::vector<int64_t> in_counts_, in_places_, out_counts_, out_places_;
  std::vector<int> narrow_[4];
  std::vector<const type::Datatype*> in_types_, out_types_;
};

Trial::Trial(const Case& c, int rank, int size) : c_(c), rank_(rank), size_(size) {
  call_.what = c.what;
  call_.root = c.root;
  pattern_of(c.what) >= Pattern::reduce ? build_reduction() : build_exchange();
  refill();
}

void Trial::build_reduction() {
  const bool root = rank_ == c_.root;
  const bool rooted = c_.what == Collective::reduce;
  const bool in_place = c_.in_place && (!rooted || root);
  const bool scattered = pattern_of(c_.what) == Pattern::reduce_scatter;
  uint64_t total = c_.count, before = 0;
  if (scattered) {
    total = 0;
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) before = total;
      out_counts_.push_back(static_cast<int64_t>(chunk(0, r)));
      total += chunk(0, r);
    }
  }
  in_.emplace(c_.gappy_in, total);
  out_.emplace(c_.gappy_in, total);
  for (uint64_t i = 0; i < total; ++i) (in_place ? given_out_ : given_in_).emplace_back(i, datum(c_.seed, rank_, i));
  call_.in = in_->at();
  call_.out = rooted && !root ? nullptr : out_->at();
  call_.in_place = in_place;
  call_.out_count = c_.count;
  call_.out_type = in_->type();
  call_.op = c_.commutative ? &sum() : &composition();
  if (c_.what == Collective::reduce_scatter) call_.out_counts = Counts(out_counts_.data());
  if (scattered) {
    for (uint64_t i = 0; i < chunk(0, rank_); ++i) want(i, reduced(size_, before + i));
  } else if (!rooted || root) {
    const int ranks = c_.what == Collective::scan ? rank_ + 1 : c_.what == Collective::exscan ? rank_ : size_;
    for (uint64_t i = 0; i < total && ranks > 0; ++i) want(i, reduced(ranks, i));
  }
}

void Trial::build_exchange() {
  const bool root = rank_ == c_.root;
  const Pattern p = pattern_of(c_.what);
  const bool many_in = p == Pattern::alltoall || (p == Pattern::scatter && root);
  const bool many_out = p == Pattern::alltoall || p == Pattern::allgather || (p == Pattern::gather && root);
  const bool in_place = c_.in_place && p != Pattern::bcast && (p == Pattern::allgather || p == Pattern::alltoall || root);
  for (int r = 0; r < size_; ++r) {
    in_counts_.push_back(static_cast<int64_t>(chunk(rank_, r)));
    // In place, an all-to-all has the same counts both ways.
    out_counts_.push_back(
        static_cast<int64_t>(p == Pattern::alltoall && in_place ? chunk(std::min(r, rank_), std::max(r, rank_)) : chunk(r, rank_)));
  }
  auto plain = [&](std::vector<int64_t>& places, const std::vector<int64_t>& counts) {
    places.assign(counts.size(), 0);
    int64_t at = 0;
    for (size_t i = 0; i < counts.size(); ++i) places[i] = at, at += counts[i];
    return static_cast<size_t>(at);
  };
  const size_t in_span = many_in ? (uneven() ? lay(in_places_, in_counts_) : plain(in_places_, in_counts_)) : chunk(rank_, c_.root);
  const size_t out_span = many_out ? (uneven() ? lay(out_places_, out_counts_) : plain(out_places_, out_counts_)) : chunk(c_.root, rank_);
  in_.emplace(c_.gappy_in, in_span);
  out_.emplace(c_.gappy_out, out_span);
  call_.in = in_->at();
  call_.out = out_->at();
  call_.in_place = in_place;
  call_.in_count = uneven() && many_in ? 0 : chunk(rank_, c_.root);
  call_.out_count = uneven() && many_out ? 0 : chunk(c_.root, rank_);
  call_.in_type = in_->type();
  call_.out_type = out_->type();
  if (p == Pattern::bcast) {
    call_.out_count = c_.count;
    for (uint64_t i = 0; i < c_.count; ++i) {
      if (root) given_out_.emplace_back(i, datum(c_.seed, c_.root, i));
      want(i, datum(c_.seed, c_.root, i));
    }
    return;
  }
  if (p == Pattern::barrier) return;
  fill_exchange(p, many_in, in_place);
  if (many_out) {
    for (size_t r = 0; r < static_cast<size_t>(size_); ++r) {
      for (int64_t i = 0; i < out_counts_[r]; ++i)
        want(static_cast<uint64_t>(out_places_[r] + i), sent(static_cast<int>(r), rank_, static_cast<uint64_t>(i)));
    }
  } else if (p == Pattern::scatter && !in_place) {
    for (uint64_t i = 0; i < call_.out_count; ++i) want(i, sent(c_.root, rank_, i));
  }
  if (uneven()) tell_counts(many_in, many_out);
}

/// What the rank sends, in its places.
void Trial::fill_exchange(Pattern p, bool many_in, bool in_place) {
  const auto me = static_cast<size_t>(rank_);
  if (many_in && !(in_place && p == Pattern::alltoall)) {
    for (size_t r = 0; r < static_cast<size_t>(size_); ++r) {
      for (int64_t i = 0; i < in_counts_[r]; ++i)
        given_in_.emplace_back(in_places_[r] + i, sent(rank_, static_cast<int>(r), static_cast<uint64_t>(i)));
    }
  } else if (in_place && p == Pattern::alltoall) {
    for (size_t r = 0; r < static_cast<size_t>(size_); ++r) {
      for (int64_t i = 0; i < out_counts_[r]; ++i)
        given_out_.emplace_back(out_places_[r] + i, sent(rank_, static_cast<int>(r), static_cast<uint64_t>(i)));
    }
  } else if (in_place) {
    for (int64_t i = 0; i < out_counts_[me]; ++i)
      given_out_.emplace_back(out_places_[me] + i, sent(rank_, rank_, static_cast<uint64_t>(i)));
  } else {
    for (uint64_t i = 0; i < call_.in_count; ++i) given_in_.emplace_back(i, sent(rank_, rank_, i));
  }
}

/// Narrow and wide counts by turns.
void Trial::tell_counts(bool many_in, bool many_out) {
  auto counts = [&](std::vector<int64_t>& v, int slot) {
    if (c_.seed % 2) return Counts(v.data());
    narrow_[slot].assign(v.begin(), v.end());
    return Counts(narrow_[slot].data());
  };
  if (c_.what == Collective::alltoallw) {
    in_types_.assign(static_cast<size_t>(size_), in_->type());
    out_types_.assign(static_cast<size_t>(size_), out_->type());
    call_.in_types = in_types_.data();
    call_.out_types = out_types_.data();
    call_.in_type = call_.out_type = nullptr;
    for (int64_t& d : in_places_) d *= in_->type()->extent;
    for (int64_t& d : out_places_) d *= out_->type()->extent;
  }
  if (many_in) call_.in_counts = counts(in_counts_, 0), call_.in_displs = counts(in_places_, 1);
  if (many_out) call_.out_counts = counts(out_counts_, 2), call_.out_displs = counts(out_places_, 3);
}

void Trial::refill() {
  for (auto& [i, v] : given_in_) in_->set(i, v);
  for (auto& [i, v] : given_out_) out_->set(i, v);
}

std::string Trial::verdict() {
  for (auto& [i, v] : wanted_) {
    const Affine has = out_->get(i);
    if (!(has == v)) {
      std::ostringstream s;
      s << describe(c_) << "element " << i << " is " << has.a << ',' << has.b << ", not " << v.a << ',' << v.b;
      return s.str();
    }
  }
  for (auto& [i, v] : given_in_) {
    if (!(in_->get(i) == v)) return describe(c_) + "the input was changed";
  }
  if (!in_->gaps_intact() || !out_->gaps_intact()) return describe(c_) + "a gap was written to";
  if (c_.what == Collective::exscan && rank_ == 0 && !c_.in_place && c_.count > 0 && !out_->untouched(0)) {
    return describe(c_) + "rank 0 got a result";
  }
  return {};
}

std::string failed(const Case& c, int error) {
  return describe(c) + "error class " + std::to_string(error) + ": " + std::string(last_failure());
}

std::string finish(RankWorld& w, const Case& c, pml::Request* r) {
  w.lane.wait(*r);
  return r->outcome.error ? failed(c, r->outcome.error) : std::string();
}

std::string perform(RankWorld& w, const Case& c) {
  Trial trial(c, w.rank, w.size);
  std::string wrong;
  if (c.mode == Mode::blocking) {
    if (const int error = run(w.state, trial.call())) return failed(c, error);
  } else if (c.mode == Mode::nonblocking) {
    pml::Request* r = nullptr;
    if (const int error = start(w.state, trial.call(), &r)) return failed(c, error);
    wrong = finish(w, c, r);
    release(r);
  } else {
    pml::Request* r = nullptr;
    if (const int error = init(w.state, trial.call(), &r)) return failed(c, error);
    for (int round = 0; round < 2 && wrong.empty(); ++round) {
      trial.refill();
      r->ops->start(*r);
      wrong = finish(w, c, r);
      if (wrong.empty()) wrong = trial.verdict();
    }
    release(r);
  }
  return wrong.empty() ? trial.verdict() : wrong;
}

std::vector<Collective> collectives_of(Pattern p) {
  std::vector<Collective> all;
  for (int i = 0; i < static_cast<int>(Collective::neighbor_allgather); ++i) {
    if (pattern_of(static_cast<Collective>(i)) == p) all.push_back(static_cast<Collective>(i));
  }
  return all;
}

/// Every case of a pattern that this test runs on `size` ranks.
std::vector<Case> cases(Pattern p, int size, uint32_t seed) {
  std::vector<Case> all;
  const bool reduces = p >= Pattern::reduce;
  const bool rooted = p == Pattern::bcast || p == Pattern::gather || p == Pattern::scatter || p == Pattern::reduce;
  for (Collective what : collectives_of(p)) {
    for (uint64_t count : {0, 1, 7, 257}) {
      for (int variant = 0; variant < 16; ++variant) {
        const bool in_place = variant & 1, commutative = variant & 2, gappy_in = variant & 4, gappy_out = variant & 8;
        if (in_place && (p == Pattern::barrier || p == Pattern::bcast)) continue;
        if (!reduces && !commutative) continue;
        if (reduces && gappy_out) continue;
        const int root = rooted ? static_cast<int>((count + static_cast<uint64_t>(variant)) % static_cast<uint64_t>(size)) : 0;
        for (Mode mode : {Mode::blocking, Mode::nonblocking, Mode::persistent}) {
          all.push_back({what, count, root, in_place, commutative, gappy_in, gappy_out, mode, ++seed});
        }
      }
    }
  }
  return all;
}

void force(const std::string& text, const char* variable = "WEFT_COLL") {
  config::Variable* v = config::find(variable);
  REQUIRE(v);
  REQUIRE(v->set(text, config::Origin::program));
}

std::string run_all(Pattern p, uint32_t size, uint32_t nodes = 1) {
  return on_ranks(
      size,
      [p](RankWorld& w) {
        for (const Case& c : cases(p, w.size, 17)) {
          const std::string wrong = perform(w, c);
          if (!wrong.empty()) return wrong;
        }
        return std::string();
      },
      nodes);
}

void run_algorithms(std::initializer_list<uint32_t> sizes) {
  for (const Algorithm& a : algorithms()) {
    force(std::string(to_string(a.pattern)) + "=" + a.name);
    for (const uint32_t size : sizes) {
      INFO(to_string(a.pattern) << "=" << a.name);
      for (uint32_t nodes = a.spans ? 2 : 1; nodes <= (a.spans ? 3 : 1); ++nodes) CHECK(run_all(a.pattern, size, nodes) == "");
    }
  }
  force("");
}

void run_what_is_chosen(std::initializer_list<uint32_t> sizes) {
  for (int p = 0; p < static_cast<int>(Pattern::neighbor_allgather); ++p)
    for (const uint32_t size : sizes)
      for (const uint32_t nodes : {1, 2, 3}) CHECK(run_all(static_cast<Pattern>(p), size, nodes) == "");
}

/// Words that have kernels in shared memory run all collectives.
std::string all_by_kernels() {
  std::string words;
  for (int p = 0; p < static_cast<int>(Pattern::neighbor_allgather); ++p)
    words += std::string(to_string(static_cast<Pattern>(p))) + "=node;";
  return words;
}

void run_kernels(std::initializer_list<uint32_t> sizes) {
  for (int i = 0; i < static_cast<int>(Pattern::neighbor_allgather); ++i) {
    const auto p = static_cast<Pattern>(i);
    force(std::string(to_string(p)) + "=node");
    for (const uint32_t size : sizes) {
      INFO(to_string(p));
      CHECK(run_all(p, size) == "");
    }
  }
  force("");
}

/// So many; `most`: elements of the longest ones.
void run_kernels_in_turn(std::initializer_list<uint32_t> sizes, uint32_t kernels, uint64_t most = 9001) {
  force(all_by_kernels());
  for (const uint32_t size : sizes) {
    const std::string wrong = on_ranks(size, [kernels, most](RankWorld& w) {
      std::mt19937 random(4711);
      for (uint32_t i = 0; i < kernels; ++i) {
        const auto what = static_cast<Collective>(random() % static_cast<uint32_t>(Collective::neighbor_allgather));
        Case c{what, 0, 0, false, false, false, false, Mode::blocking, i};
        const uint64_t counts[] = {0, 1, 5, 6, 7, 1000, 5000, most};
        c.count = counts[random() % std::size(counts)];
        c.root = static_cast<int>(random() % static_cast<uint32_t>(w.size));
        c.in_place = random() % 2 && c.what != Collective::bcast && c.what != Collective::barrier;
        c.gappy_out = random() % 2 && c.what == Collective::bcast;
        std::string mine = perform(w, c);
        if (!mine.empty()) return mine;
      }
      return std::string();
    });
    CHECK(wrong == "");
  }
  force("");
}

void run_kernels_in_steps(std::initializer_list<uint32_t> sizes) {
  force(all_by_kernels());
  for (const uint32_t size : sizes) {
    const std::string wrong = on_ranks(size, [](RankWorld& w) {
      for (const Collective what :
           {Collective::bcast, Collective::reduce, Collective::allreduce, Collective::allgather, Collective::allgatherv,
            Collective::alltoall, Collective::alltoallv, Collective::gather, Collective::gatherv, Collective::scatter, Collective::scatterv,
            Collective::reduce_scatter_block, Collective::reduce_scatter, Collective::scan, Collective::exscan}) {
        Case c{what, 0, 0, false, false, false, false, Mode::blocking, 7};
        for (const uint64_t count : {66'000, 140'001}) {  // more than a slot holds, where ranks have a CPU each and where they have not
          c.count = count;
          const std::string mine = perform(w, c);
          if (!mine.empty()) return mine;
        }
      }
      return std::string();
    });
    CHECK(wrong == "");
  }
  force("");
}

}  // namespace

TEST_CASE("each algorithm agrees with the model on lanes") { run_algorithms({3}); }
TEST_CASE("each algorithm agrees with the model on lanes, on more ranks", "[more]") { run_algorithms({1, 2, 4, 5, 8}); }

TEST_CASE("what is chosen agrees with the model on one node, on two and on three") { run_what_is_chosen({5}); }
TEST_CASE("what is chosen agrees with the model on one node, on two and on three, on more ranks", "[more]") {
  run_what_is_chosen({2, 7, 9});
}

TEST_CASE("kernels in shared memory agree with the model") { run_kernels({2, 9}); }
TEST_CASE("kernels in shared memory agree with the model, on more ranks", "[more]") { run_kernels({3, 8, 11}); }

TEST_CASE("kernels in shared memory follow each other with changing roots and sizes") { run_kernels_in_turn({2, 5}, 400); }
TEST_CASE("kernels in shared memory follow each other with changing roots and sizes, more and on more ranks", "[more]") {
  run_kernels_in_turn({2, 5, 9}, 1200);
}

TEST_CASE("kernels in shared memory, in several steps") { run_kernels_in_steps({2, 3}); }

/// Exchanges of long blocks, of which some ranks' do not lie in one piece, so that nobody can read them there; how many have been read.
uint64_t exchange_long_blocks(uint32_t size) {
  std::atomic<uint64_t> read = 0;
  CHECK(on_ranks(size, [&](RankWorld& w) {
          for (uint32_t i = 0; i < 48; ++i) {
            const Collective what = i % 2 ? Collective::allgather : Collective::alltoall;
            const bool some = i / 4 % 3 == 1, mine = some && static_cast<uint32_t>(w.rank) == i % w.size;
            const bool gappy_out = i / 4 % 4 == 2 && w.rank % 2;
            const Case c{what, 1100 + i % 7 * 2000, 0, i % 16 == 13, false, mine, gappy_out, Mode::blocking, i};
            if (const std::string wrong = perform(w, c); !wrong.empty()) return wrong;
          }
          read += w.lane.counters().read_in_place;
          return std::string();
        }) == "");
  return read;
}

void run_while_all_is_read(std::initializer_list<uint32_t> exchanges, uint32_t in_steps) {
  force(all_by_kernels());
  force("always", "WEFT_COLL_READ");
  for (const uint32_t size : exchanges) {
    INFO(size << " ranks");
    CHECK(exchange_long_blocks(size) > 24 * size * (size - 1));
  }
  run_kernels_in_steps({in_steps});
  force("auto", "WEFT_COLL_READ");
  force("");
}

TEST_CASE("what ranks exchange is read where it lies, on more ranks", "[more]") { run_while_all_is_read({5}, 4); }
TEST_CASE("what ranks exchange is read where it lies, but for what does not lie in one piece") {
  run_while_all_is_read({2, 3}, 2);
  force(all_by_kernels());
  force("no", "WEFT_COLL_READ");
  CHECK(exchange_long_blocks(2) == 0);
  force("auto", "WEFT_COLL_READ");
  force("");
}

TEST_CASE("kernels in shared memory where each rank has a CPU") {
  const Roomy roomy;
  run_kernels_in_turn({3}, 400, 40'001);
  run_kernels_in_steps({3});
}
TEST_CASE("kernels in shared memory where each rank has a CPU, on more ranks", "[more]") {
  const Roomy roomy;
  run_kernels({3, 8});  // who waits spins, so each rank more than there are CPUs takes long
  run_kernels_in_turn({5, 9}, 400, 40'001);
  run_kernels_in_steps({4, 5});
  run_what_is_chosen({7});
}

TEST_CASE("kernels in shared memory, by groups") {
  force("barrier=node;allreduce=node;allgather=node");
  for (const auto& [size, group] : std::vector<std::pair<uint32_t, const char*>>{{3, "2"}, {5, "2"}, {9, "4"}, {11, "3"}}) {
    force(group, "WEFT_COLL_GROUP");
    for (Pattern p : {Pattern::barrier, Pattern::allreduce, Pattern::allgather}) {
      INFO(to_string(p) << " of " << size << " in groups of " << group);
      CHECK(run_all(p, size) == "");
    }
  }
  force("0", "WEFT_COLL_GROUP");
  force("");
}

TEST_CASE("kernels in shared memory, by groups of ranks that share a cache") {
  const std::vector<uint32_t> cpus = topo::CpuSet::of_this_thread().cpus();
  const uint32_t first = cpus.front(), last = cpus.back();
  const std::string topology = "L3Cache " + std::to_string(first) + " " + std::to_string(last) + "\n";
  force("barrier=node;allreduce=node;allgather=node");
  force("4", "WEFT_COLL_GROUP");
  for (Pattern p : {Pattern::barrier, Pattern::allreduce, Pattern::allgather}) {
    INFO(to_string(p));
    const auto body = [&](RankWorld& w) {
      cpu_set_t mine;
      CPU_ZERO(&mine);
      CPU_SET(w.rank % 2 ? last : first, &mine);
      if (sched_setaffinity(0, sizeof mine, &mine)) return std::string("not bound");
      if (node::own_spot(w.lane.boot().job()).cache != (first == last ? 0 : w.rank % 2)) return std::string("in the wrong cache");
      for (const Case& c : cases(p, w.size, 17)) {
        const std::string wrong = perform(w, c);
        if (!wrong.empty()) return wrong;
      }
      return std::string();
    };
    CHECK(on_ranks(7, body, 1, false, topology) == "");
  }
  force("0", "WEFT_COLL_GROUP");
  force("");
}

TEST_CASE("ranks are grouped by what they are bound to") {
  using node::Spot;
  const auto groups = [](const std::vector<Spot>& spots, uint32_t most) {
    std::string text;
    for (const int32_t g : node::group_ranks(spots, most)) text += (text.empty() ? "" : " ") + std::to_string(g);
    return text;
  };
  const auto times = [](size_t n, const std::function<Spot(int32_t)>& spot) {
    std::vector<Spot> all;
    for (size_t r = 0; r < n; ++r) all.push_back(spot(static_cast<int32_t>(r)));
    return all;
  };
  CHECK(groups(std::vector<Spot>(11), 4) == "0 0 0 3 3 3 3 7 7 7 7");                                     // nothing is known
  CHECK(groups(times(8, [](int32_t r) { return Spot{r % 2, r % 2, r % 2}; }), 4) == "0 1 0 1 0 1 0 1");   // dealt out to packages
  CHECK(groups(times(12, [](int32_t r) { return Spot{0, 0, r / 6}; }), 8) == "0 0 0 0 0 0 6 6 6 6 6 6");  // whole caches
  CHECK(groups(times(12, [](int32_t r) { return Spot{0, 0, r / 3}; }), 8) == "0 0 0 0 0 0 6 6 6 6 6 6");  // several caches
  CHECK(groups(times(10, [](int32_t) { return Spot{0, 0, 0}; }), 8) == "0 0 0 0 0 5 5 5 5 5");            // a large cache is cut
  CHECK(groups(times(8, [](int32_t r) { return Spot{r / 4, r / 2, r}; }), 4) == "0 0 2 2 4 4 6 6");       // NUMA nodes
  CHECK(groups(times(8, [](int32_t r) { return Spot{r / 4, r, r}; }), 4) == "0 0 0 0 4 4 4 4");           // ... with a rank each: packages
  CHECK(groups(times(8, [](int32_t r) { return Spot{r, r, r}; }), 4) == "0 0 0 0 4 4 4 4");
  CHECK(groups({{0, 0, 1}, {-1, -1, -1}, {0, 0, 1}, {0, 0, 0}}, 3) == "0 1 0 0");
}

TEST_CASE("kernels in shared memory for 64 ranks") {
  force(all_by_kernels());
  for (const char* group : {"1", "8"}) {
    force(group, "WEFT_COLL_GROUP");
    const std::string wrong = on_ranks(64, [](RankWorld& w) {
      constexpr Collective kinds[] = {Collective::allreduce,  Collective::barrier,   Collective::bcast,
                                      Collective::allgather,  Collective::allreduce, Collective::reduce_scatter_block,
                                      Collective::scatterv,   Collective::gatherv,   Collective::alltoallv,
                                      Collective::allgatherv, Collective::scan,      Collective::gather};
      for (uint32_t i = 0; i < 30; ++i) {
        Case c{kinds[i % std::size(kinds)], i % 5 * 20, static_cast<int>(i), false, false, false, false, Mode::blocking, i};
        std::string mine = perform(w, c);
        if (!mine.empty()) return mine;
      }
      return std::string();
    });
    CHECK(wrong == "");
  }
  force("0", "WEFT_COLL_GROUP");
  force("");
}

Call call_of_bytes(Collective what, const void* in, void* out) {
  Call c;
  c.what = what;
  c.in = in;
  c.out = out;
  c.in_type = c.out_type = &type::of(type::Basic::byte);
  return c;
}

/// What ranks say when rank 0 sends `sends` bytes to rank 1, which has room for `room` of them, and nothing else is on its way.
std::string exchange_of_two(Collective what, int64_t sends, int64_t room, bool& truncated) {
  return on_ranks(2, [&](RankWorld& w) -> std::string {
    for (int i = 0; i < 3; ++i) {  // the kernels have to be ready for the next one
      std::vector<char> from(static_cast<size_t>(sends) + 1), to(static_cast<size_t>(room) + 1, '-');
      for (size_t b = 0; b < from.size(); ++b) from[b] = static_cast<char>('a' + b % 23);
      const bool sender = w.rank == (what == Collective::gatherv ? 1 : 0);
      const int64_t in_counts[] = {0, sender ? sends : 0}, out_counts[] = {sender ? 0 : room, 0}, gathered[] = {0, room}, places[] = {0, 0};
      Call c = call_of_bytes(what, from.data(), to.data());
      c.in_count = static_cast<uint64_t>(sender ? sends : 0);
      c.out_count = static_cast<uint64_t>(sender ? 0 : room);
      if (what == Collective::alltoallv) c.in_counts = Counts(in_counts), c.out_counts = Counts(out_counts);
      if (what == Collective::scatterv && sender) c.in_counts = Counts(in_counts);
      if (what == Collective::gatherv && !sender) c.out_counts = Counts(gathered);
      c.in_displs = c.out_displs = Counts(places);
      const int error = run(w.state, c);
      const auto came = std::min(sends, room);
      if (sender || came < sends) {
        if (error == MPI_ERR_TRUNCATE && !sender) truncated = true;
        if (sender && error) return "the sender failed: " + std::string(last_failure());
        continue;
      }
      if (error) return "error " + std::to_string(error) + ": " + std::string(last_failure());
      if (!std::equal(from.begin(), from.begin() + came, to.begin()) || std::count(to.begin() + came, to.end(), '-') != room + 1 - came)
        return "it is not what was sent";
    }
    return {};
  });
}

TEST_CASE("blocks whose lengths only two ranks know, where these do not agree") {
  force(all_by_kernels());
  force(GENERATE("auto", "always"), "WEFT_COLL_READ");
  constexpr int64_t kSlots = 40'000, kLong = 200'000;
  for (const Collective what : {Collective::alltoallv, Collective::scatterv, Collective::gatherv})
    for (const int64_t sends : {int64_t{0}, int64_t{3}, int64_t{600}, kSlots, kLong})
      for (const int64_t room : {int64_t{0}, int64_t{3}, int64_t{600}, kSlots, kLong}) {
        INFO("collective " << static_cast<int>(what) << ": " << sends << " bytes, room for " << room);
        bool truncated = false;
        CHECK(exchange_of_two(what, sends, room, truncated) == "");
        CHECK(truncated == (sends > room));
      }
  force("auto", "WEFT_COLL_READ");
  force("");
}

/// Scatters blocks of lengths that only the root and their ranks know, each round from another root; what is wrong about it.
std::string scatter_by_turns(RankWorld& w, int size, std::span<const int64_t> lengths) {
  for (int round = 0; round < 90; ++round) {
    const int root = round % size;
    const auto block = [&](int r) { return lengths[static_cast<size_t>(round / 3 + r * r + root) % lengths.size()]; };
    const auto byte_of = [&](int r, int64_t at) { return static_cast<char>(round + 7 * r + 3 * at); };
    std::vector<int64_t> counts, places;
    std::vector<char> from;
    for (int r = 0; r < size; ++r) {
      counts.push_back(block(r));
      places.push_back(static_cast<int64_t>(from.size()));
      for (int64_t b = 0; b < block(r); ++b) from.push_back(byte_of(r, b));
    }
    std::vector<char> to(static_cast<size_t>(block(w.rank)));
    Call c = call_of_bytes(Collective::scatterv, from.data(), to.data());
    c.out_count = to.size();
    c.root = root;
    if (w.rank == root) c.in_counts = Counts(counts.data()), c.in_displs = Counts(places.data());
    if (run(w.state, c)) return std::string(last_failure());
    for (size_t b = 0; b < to.size(); ++b)
      if (to[b] != byte_of(w.rank, static_cast<int64_t>(b)))
        return "round " + std::to_string(round) + ", byte " + std::to_string(b) + " is wrong";
  }
  return {};
}

TEST_CASE("scattered blocks stand behind their lengths, in a longer piece, or come by messages") {
  force(all_by_kernels());
  constexpr int64_t few[] = {0, 3, 60, 60, 0, 61}, more[] = {600, 0, 3, 5000}, most[] = {100'000, 5, 0, 900, 70'000, 300};
  for (const int size : {2, 4, 9})
    for (const std::span<const int64_t> lengths : {std::span<const int64_t>(few), {more}, {most}}) {
      INFO(size << " ranks, the first of " << lengths[0] << " bytes");
      CHECK(on_ranks(static_cast<uint32_t>(size), [&](RankWorld& w) { return scatter_by_turns(w, size, lengths); }) == "");
    }
  force("");
}

/// Of a rank's block, that should be `byte_of(rank, at)`: which byte is not, if any.
template <class ByteOf>
std::string wrong_byte(size_t round, size_t rank, std::span<const char> got, ByteOf byte_of) {
  for (size_t at = 0; at < got.size(); ++at)
    if (got[at] != byte_of(rank, static_cast<int64_t>(at)))
      return "round " + std::to_string(round) + ", rank " + std::to_string(rank) + ", byte " + std::to_string(at) + " is wrong";
  return {};
}

/// Allgathers of a long block and of short ones of many lengths, which change ranks; what is wrong about them.
std::string gather_short_beside_long(RankWorld& w) {
  const auto size = static_cast<size_t>(w.size), own = static_cast<size_t>(w.rank);
  for (size_t round = 0; round < 36; ++round) {
    const auto block = [&](size_t r) { return (round + r) % size == 0 ? size_t{9'000} : (2 * round + 3 * r) % 72; };
    const auto byte_of = [&](size_t r, int64_t at) { return static_cast<char>(round + 7 * r + 3 * static_cast<size_t>(at % 1009)); };
    std::vector<int64_t> counts(size), places(size);
    size_t total = 0;
    for (size_t r = 0; r < size; ++r) {
      counts[r] = static_cast<int64_t>(block(r)), places[r] = static_cast<int64_t>(total);
      total += block(r);
    }
    std::vector<char> from(block(own) + 1), to(total);
    for (size_t b = 0; b < block(own); ++b) from[b] = byte_of(own, static_cast<int64_t>(b));
    Call c = call_of_bytes(Collective::allgatherv, from.data(), to.data());
    c.in_count = block(own);
    c.out_counts = Counts(counts.data()), c.out_displs = Counts(places.data());
    if (const int error = run(w.state, c)) return "error " + std::to_string(error);
    for (size_t r = 0; r < size; ++r)
      if (const std::string wrong = wrong_byte(round, r, {&to[0] + places[r], block(r)}, byte_of); !wrong.empty()) return wrong;
  }
  return {};
}

TEST_CASE("short blocks stand beside a long one, which may be read where it lies") {
  force(all_by_kernels());
  for (const char* read : {"no", "always", "auto"}) {
    force(read, "WEFT_COLL_READ");
    for (const uint32_t size : {2u, 3u, 5u, 9u}) {
      INFO(size << " ranks, read: " << read);
      CHECK(on_ranks(size, gather_short_beside_long) == "");
    }
  }
  force("");
}

/// Gathers blocks of lengths that only the root and their ranks know, each round at another root, who has `room` for each of them; what is
/// wrong about it.
std::string gather_by_turns(RankWorld& w, std::span<const int64_t> lengths, int64_t room) {
  const auto size = static_cast<size_t>(w.size);
  for (int round = 0; round < 20; ++round) {
    const int root = round / 3 % w.size;
    const auto block = [&](size_t r) { return lengths[(static_cast<size_t>(round) + r) % lengths.size()]; };
    const auto byte_of = [&](size_t r, int64_t at) { return static_cast<char>(round + 7 * static_cast<int>(r) + 3 * (at % 1009)); };
    const auto own = static_cast<size_t>(w.rank);
    std::vector<char> from(static_cast<size_t>(block(own))), to(size * static_cast<size_t>(room) + 1, '-');
    for (size_t b = 0; b < from.size(); ++b) from[b] = byte_of(own, static_cast<int64_t>(b));
    std::vector<int64_t> counts(size, room), places(size);
    for (size_t r = 0; r < size; ++r) places[r] = static_cast<int64_t>(r) * room;
    if (own == static_cast<size_t>(root)) from.resize(static_cast<size_t>(std::min(block(own), room)));
    Call c = call_of_bytes(Collective::gatherv, from.data(), to.data());
    c.in_count = from.size();
    c.root = root;
    c.out_counts = Counts(counts.data()), c.out_displs = Counts(places.data());
    const int error = run(w.state, c);
    bool longer = false;
    for (size_t r = 0; r < size; ++r) longer |= r != static_cast<size_t>(root) && block(r) > room;
    if (error != (w.rank == root && longer ? MPI_ERR_TRUNCATE : MPI_SUCCESS)) return "error " + std::to_string(error);
    if (w.rank != root) continue;
    for (size_t r = 0; r < size; ++r) {
      if (block(r) > room) continue;
      const std::span<const char> got(&to[0] + places[r], static_cast<size_t>(block(r)));
      if (const std::string wrong = wrong_byte(static_cast<size_t>(round), r, got, byte_of); !wrong.empty()) return wrong;
    }
  }
  return {};
}

TEST_CASE("gathered blocks stand behind their lengths, in longer slots, in parcels, or come by messages") {
  force(all_by_kernels());
  constexpr int64_t most[] = {100'000, 5, 0, 300'000, 70'000, 300, 500'000, 600'000, 30'000, 131'072};
  for (const uint32_t cpus : {1u, 64u})
    for (const uint32_t size : {3u, 5u})
      for (const int64_t room : {int64_t{600'000}, int64_t{80'000}}) {
        const Believed believed(cpus);
        INFO(size << " ranks on " << cpus << " CPUs with room for " << room << " bytes each");
        CHECK(on_ranks(size, [&](RankWorld& w) { return gather_by_turns(w, most, room); }) == "");
      }
  force("");
}

TEST_CASE("blocks that types say the addresses of") {
  force(all_by_kernels());
  const std::string wrong = on_ranks(3, [](RankWorld& w) -> std::string {
    int32_t given[3], taken[3] = {-1, -1, -1};
    const type::Datatype *from[3], *to[3];
    const auto at = [](const int32_t& value) {
      type::Datatype* made = nullptr;
      const int64_t address[] = {reinterpret_cast<int64_t>(&value)};
      type::hindexed_block(1, address, type::of(type::Basic::int32), type::Form::small, made);
      made->committed = true;
      return made;
    };
    for (int r = 0; r < 3; ++r) {
      given[r] = w.rank * 10 + r;
      from[r] = at(given[r]);
      to[r] = at(taken[r]);
    }
    const int64_t ones[] = {1, 1, 1}, places[] = {0, 0, 0};
    Call c;  // from and to MPI_BOTTOM
    c.what = Collective::alltoallw;
    c.in_counts = c.out_counts = Counts(ones);
    c.in_displs = c.out_displs = Counts(places);
    c.in_types = from;
    c.out_types = to;
    if (run(w.state, c)) return std::string(last_failure());
    for (int r = 0; r < 3; ++r) {
      if (taken[r] != r * 10 + w.rank) return "from rank " + std::to_string(r) + " came " + std::to_string(taken[r]);
      release(const_cast<type::Datatype*>(from[r]));
      release(const_cast<type::Datatype*>(to[r]));
    }
    return {};
  });
  CHECK(wrong == "");
  force("");
}

void run_many_at_once(std::initializer_list<std::pair<uint32_t, uint32_t>> sizes) {
  for (const auto& [size, most] : sizes) {
    const std::string wrong = on_ranks(size, [most = most](RankWorld& w) {
      std::mt19937 random(99);
      std::mt19937 own(static_cast<uint32_t>(w.rank));
      struct Flight {
        Case c;
        std::unique_ptr<Trial> trial;
        pml::Request* request;
      };
      std::vector<Flight> flights;
      std::string mine;
      auto land = [&](size_t i) {
        mine = finish(w, flights[i].c, flights[i].request);
        if (mine.empty()) mine = flights[i].trial->verdict();
        release(flights[i].request);
        flights.erase(flights.begin() + static_cast<std::ptrdiff_t>(i));
        return mine.empty();
      };
      for (uint32_t i = 0; i < 400; ++i) {
        const auto p = static_cast<Pattern>(random() % static_cast<unsigned>(Pattern::neighbor_allgather));
        const auto all = cases(p, w.size, i);
        Case c = all[random() % all.size()];
        if (c.mode == Mode::persistent) c.mode = Mode::nonblocking;
        if (random() % 8) c.mode = Mode::nonblocking;
        if (random() % 10 == 0) c.count = 1 + random() % (160'000 / static_cast<unsigned>(w.size));  // several slots' worth
        if (c.mode == Mode::blocking) {
          mine = perform(w, c);
          if (!mine.empty()) return mine;
          continue;
        }
        Flight f{c, std::make_unique<Trial>(c, w.rank, w.size), nullptr};
        if (const int error = start(w.state, f.trial->call(), &f.request)) return failed(c, error);
        flights.push_back(std::move(f));
        // Each rank waits for its own choice, in its own order.
        while (flights.size() > most || (!flights.empty() && own() % (most / 5) == 0)) {
          if (!land(own() % flights.size())) return mine;
        }
      }
      while (!flights.empty()) {
        if (!land(own() % flights.size())) return mine;
      }
      return mine;
    });
    CHECK(wrong == "");
  }
}

TEST_CASE("many nonblocking collectives under way at once, blocking ones between them") {
  run_many_at_once({{2, 20}, {3, 20}, {4, 100}});  // short ones have 32 slots
}
TEST_CASE("many nonblocking collectives under way at once, on more ranks", "[more]") { run_many_at_once({{7, 20}, {12, 40}}); }

/// Each rank starts some calls, some of which may be blocking, at times of its own, and then waits for them in an order of its own.
std::string start_at_different_times(RankWorld& w, uint32_t seed, bool blocking_too) {
  std::mt19937 random(seed), own(seed * 64 + static_cast<uint32_t>(w.rank));
  std::vector<std::pair<Case, std::unique_ptr<Trial>>> trials;
  std::vector<pml::Request*> requests;
  for (uint32_t i = 0; i < 14; ++i) {
    const auto p = static_cast<Pattern>(random() % static_cast<unsigned>(Pattern::neighbor_allgather));
    const auto all = cases(p, w.size, i);
    Case c = all[random() % all.size()];
    c.mode = blocking_too && random() % 6 == 0 ? Mode::blocking : Mode::nonblocking;
    if (own() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 500));
    if (own() % 3 == 0) w.lane.progress();
    if (c.mode == Mode::blocking) {
      if (const std::string wrong = perform(w, c); !wrong.empty()) return wrong;
      continue;
    }
    trials.emplace_back(c, std::make_unique<Trial>(c, w.rank, w.size));
    requests.push_back(nullptr);
    if (const int error = start(w.state, trials.back().second->call(), &requests.back())) return failed(c, error);
  }
  std::string wrong;
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), own);
  for (const size_t i : order) {
    if (wrong.empty()) wrong = finish(w, trials[i].first, requests[i]);
    if (wrong.empty()) wrong = trials[i].second->verdict();
    release(requests[i]);
  }
  return wrong;
}

void run_started_at_different_times(uint32_t seeds, std::initializer_list<uint32_t> sizes) {
  for (uint32_t seed = 1; seed <= seeds; ++seed)
    for (const uint32_t size : sizes) {
      CAPTURE(seed, size);
      CHECK(on_ranks(size, [seed](RankWorld& w) { return start_at_different_times(w, seed, seed % 2 == 0); }) == "");
    }
}

TEST_CASE("a team gets shared memory while nonblocking collectives are started") { run_started_at_different_times(8, {2, 3, 5}); }
TEST_CASE("a team gets shared memory while nonblocking collectives are started, often, and on more ranks", "[more]") {
  run_started_at_different_times(24, {2, 3, 5, 9});
}

/// Starts and ends so many barriers that nobody waits in that the team has shared memory then, if it can; by which way the next one goes.
TeamState::Way way_after_barriers(RankWorld& w) {
  for (int i = 0; i < 8; ++i) {
    pml::Request* request = nullptr;
    if (start(w.state, Call{}, &request)) break;
    w.lane.wait(*request);
    release(request);
  }
  return w.state.way_of(Call{}, agree(w.state, Call{}));
}

TEST_CASE("nonblocking collectives alone get a team shared memory") {
  for (const uint32_t size : {2u, 3u, 9u})
    CHECK(on_ranks(size, [](RankWorld& w) {
            return way_after_barriers(w) == TeamState::Way::board ? std::string() : std::string("no shared memory");
          }) == "");
}

TEST_CASE("a team of one host that cannot share memory goes on by messages") {
  force("tcp", "WEFT_NET");  // whose rings would not find memory either
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    const std::string wrong = on_ranks(3, [&before, seed](RankWorld& w) {
      const rlimit little{1 << 16, before.rlim_max};  // no segment is that small
      setrlimit(RLIMIT_FSIZE, &little);
      const std::string mine = start_at_different_times(w, seed, seed % 2 == 0);
      return mine.empty() && way_after_barriers(w) != TeamState::Way::messages ? std::string("shared memory after all") : mine;
    });
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(wrong == "");
  }
  signal(SIGXFSZ, SIG_DFL);
  force("", "WEFT_NET");
}

TEST_CASE("persistent collectives may be started in any order") {
  const std::string wrong = on_ranks(4, [](RankWorld& w) {
    std::vector<std::unique_ptr<Trial>> trials;
    std::vector<pml::Request*> requests;
    const auto all = cases(Pattern::allreduce, w.size, 5);
    for (size_t i = 0; i < 12; ++i) {
      trials.push_back(std::make_unique<Trial>(all[all.size() - 1 - i], w.rank, w.size));
      pml::Request* r = nullptr;
      if (init(w.state, trials.back()->call(), &r)) return std::string(last_failure());
      requests.push_back(r);
    }
    std::string mine;
    for (int round = 0; round < 5 && mine.empty(); ++round) {
      for (auto& t : trials) t->refill();
      for (size_t i = 0; i < 12; ++i) {
        pml::Request* r = requests[w.rank % 2 ? i : 11 - i];
        r->ops->start(*r);
      }
      for (size_t i = 0; i < 12; ++i) {
        w.lane.wait(*requests[i]);
        if (mine.empty()) mine = trials[i]->verdict();
      }
    }
    for (pml::Request* r : requests) release(r);
    return mine;
  });
  CHECK(wrong == "");
}

TEST_CASE("large data by predefined operations") {
  const std::string wrong = on_ranks(3, [](RankWorld& w) {
    for (uint64_t count : {uint64_t{20000}, uint64_t{1000003}}) {
      std::vector<int32_t> in(count), out(count);
      for (uint64_t i = 0; i < count; ++i) in[i] = static_cast<int32_t>(i % 1000) * (w.rank + 1);
      Call c;
      c.what = Collective::allreduce;
      c.in = in.data();
      c.out = out.data();
      c.out_count = count;
      c.out_type = &type::of(type::Basic::int32);
      c.op = op::predefined(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(MPI_SUM)));
      if (run(w.state, c)) return std::string(last_failure());
      for (uint64_t i = 0; i < count; ++i) {
        if (out[i] != static_cast<int32_t>(i % 1000) * 6) return "element " + std::to_string(i) + " of " + std::to_string(count);
      }
    }
    return std::string();
  });
  CHECK(wrong == "");
}

TEST_CASE("calls among neighbours fail loudly on a team without any") {
  const std::string wrong = on_ranks(1, [](RankWorld& w) {
    Call c;
    c.what = Collective::neighbor_alltoall;
    return run(w.state, c) == MPI_ERR_TOPOLOGY ? std::string() : std::string("no error");
  });
  CHECK(wrong == "");
}

TEST_CASE("waiting in shared memory ends when the job does") {
  force("barrier=node");
  std::atomic<bool> over{false};
  const std::string wrong = on_ranks(2, [&over](RankWorld& w) {
    if (run(w.state, Call{})) return std::string(last_failure());
    if (w.rank == 1) {  // does not come
      while (!over) std::this_thread::yield();
      w.lane.poison(Status::aborted);
      return std::string();
    }
    std::thread killer([&w] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      w.lane.poison(Status::aborted);
    });
    const int error = run(w.state, Call{});
    killer.join();
    over = true;
    return error ? std::string() : std::string("the barrier ended well with one rank missing");
  });
  force("");
  CHECK(wrong == "");
}
