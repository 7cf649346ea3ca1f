// A naive model of datatypes for tests: every data byte's displacement in order, and bounds folded copy by copy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "include/mpi.h"
#include "runtime/type/construct.h"
#include "runtime/type/datatype.h"
#include "runtime/type/predefined.h"

namespace weft::test {

using type::Datatype;
using type::Form;

/// Owns one reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(Datatype* type) : type_(type) {}
  Ref(Ref&& other) noexcept : type_(std::exchange(other.type_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept { return std::swap(type_, other.type_), *this; }
  ~Ref() { release(type_); }
  Datatype& operator*() const { return *type_; }
  Datatype* operator->() const { return type_; }

 private:
  Datatype* type_ = nullptr;
};

struct Model {
  std::vector<int64_t> bytes;     // displacement of each data byte
  std::vector<uint8_t> elements;  // sizes of the basic elements
  int64_t lower = 0, upper = 0, alignment = 1;
  bool lower_marked = false, upper_marked = false, present = false;

  int64_t extent() const { return upper - lower; }

  void add(const Model& other, int64_t by) {
    if (!other.present) return;
    for (int64_t at : other.bytes) bytes.push_back(at + by);
    elements.insert(elements.end(), other.elements.begin(), other.elements.end());
    fold(lower, lower_marked, other.lower + by, other.lower_marked, true);
    fold(upper, upper_marked, other.upper + by, other.upper_marked, false);
    alignment = std::max(alignment, other.alignment);
    present = true;
  }
  void pad() {
    if (present && !upper_marked)
      while ((upper - lower) % alignment) ++upper;
  }
  void bound(int64_t low, int64_t high) {
    lower = low, upper = high;
    lower_marked = upper_marked = present = true;
  }

 private:
  void fold(int64_t& best, bool& marked, int64_t value, bool value_marked, bool least) {
    if (!present || (value_marked && !marked))
      best = value;
    else if (value_marked == marked)
      best = least ? std::min(best, value) : std::max(best, value);
    marked = marked || value_marked;
  }
};

struct Sample {
  Ref type;
  Model model;
};

/// Draws nested derived types of at most `kMostBytes` data bytes, together with their models.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  Sample any(int depth) {
    if (depth == 0) return basic();
    for (;;) {
      Sample old = any(static_cast<int>(pick(0, depth - 1)));
      Sample made = derive(old, depth);
      if (made.model.bytes.size() <= kMostBytes && std::abs(made.model.extent()) < (1 << 20)) return made;
    }
  }

 private:
  static constexpr size_t kMostBytes = 3000;

  Sample basic() {
    static constexpr uint32_t kHandles[] = {583, 579, 520, 521, 600, 528, 532, 544, 530, 534, 548, 568, 552, 553, 554, 555, 556, 557, 738};
    const uint32_t handle = kHandles[pick(0, std::size(kHandles) - 1)];
    Datatype& type = *type::predefined(handle);
    Sample s;
    s.type = Ref(retain(&type));
    s.model.present = true;
    s.model.upper = type.extent;
    s.model.alignment = type.alignment;
    if (!type.pair()) {
      for (int64_t i = 0; i < type.extent; ++i) s.model.bytes.push_back(i);
      s.model.elements.push_back(static_cast<uint8_t>(type.size));
      return s;
    }
    const int64_t value = handle == 556 ? 2 : handle == 552 || handle == 555 ? 4 : handle == 557 ? 16 : 8;
    const int64_t index = std::max<int64_t>(value, 4);
    for (int64_t i = 0; i < value; ++i) s.model.bytes.push_back(i);
    for (int64_t i = 0; i < 4; ++i) s.model.bytes.push_back(index + i);
    s.model.elements = {static_cast<uint8_t>(value), 4};
    return s;
  }

  static Model row(const Model& old, int64_t length) {
    Model block;
    for (int64_t i = 0; i < length; ++i) block.add(old, i * old.extent());
    return block;
  }

  Form form() { return pick(0, 1) ? Form::large : Form::small; }

  Sample derive(const Sample& old, int depth) {
    switch (pick(0, 11)) {
      case 0: return contiguous(old);
      case 1: return vector(old, false);
      case 2: return vector(old, true);
      case 3: return indexed(old, false, false);
      case 4: return indexed(old, true, false);
      case 5: return indexed(old, false, true);
      case 6: return indexed(old, true, true);
      case 7: return structure(depth);
      case 8: return resized(old);
      case 9: return subarray(old);
      case 10: return darray(old);
      default: return duplicate(old);
    }
  }

  static Sample finish(int error, Datatype* made, Model model) {
    if (error) throw std::runtime_error("constructor failed");
    return {Ref(made), std::move(model)};
  }

  Sample contiguous(const Sample& old) {
    const int64_t n = pick(0, 5);
    Datatype* made = nullptr;
    const int error = type::contiguous(n, *old.type, form(), made);
    return finish(error, made, row(old.model, n));
  }

  Sample vector(const Sample& old, bool h) {
    const int64_t n = pick(0, 5), length = pick(0, 4), stride = h ? pick(-100, 100) : pick(-6, 6);
    Datatype* made = nullptr;
    const int error =
        h ? type::hvector(n, length, stride, *old.type, form(), made) : type::vector(n, length, stride, *old.type, form(), made);
    Model model;
    for (int64_t i = 0; i < n; ++i) model.add(row(old.model, length), i * stride * (h ? 1 : old.model.extent()));
    return finish(error, made, std::move(model));
  }

  Sample indexed(const Sample& old, bool h, bool block) {
    const int64_t n = pick(0, pick(0, 3) ? 6 : 90), fixed = pick(0, 3), regular = pick(0, 3) ? 0 : pick(1, 20);
    std::vector<int64_t> lengths, displacements;
    Model model;
    for (int64_t i = 0; i < n; ++i) {
      lengths.push_back(block ? fixed : pick(0, 3));
      displacements.push_back(regular ? i * regular : h ? pick(-200, 200) : pick(-12, 12));
      model.add(row(old.model, lengths.back()), displacements.back() * (h ? 1 : old.model.extent()));
    }
    Datatype* made = nullptr;
    int error;
    if (block)
      error = h ? type::hindexed_block(fixed, displacements, *old.type, form(), made)
                : type::indexed_block(fixed, displacements, *old.type, form(), made);
    else
      error = h ? type::hindexed(lengths, displacements, *old.type, form(), made)
                : type::indexed(lengths, displacements, *old.type, form(), made);
    return finish(error, made, std::move(model));
  }

  Sample structure(int depth) {
    const int64_t n = pick(0, 4);
    std::vector<Sample> parts;
    std::vector<Datatype*> types;
    std::vector<int64_t> lengths, displacements;
    Model model;
    for (int64_t i = 0; i < n; ++i) {
      parts.push_back(any(static_cast<int>(pick(0, depth - 1))));
      types.push_back(&*parts.back().type);
      lengths.push_back(pick(0, 3));
      displacements.push_back(pick(-150, 150));
      model.add(row(parts.back().model, lengths.back()), displacements.back());
    }
    model.pad();
    Datatype* made = nullptr;
    const int error = type::structure(lengths, displacements, types, form(), made);
    return finish(error, made, std::move(model));
  }

  Sample resized(const Sample& old) {
    const int64_t lower = pick(-40, 40), extent = pick(0, 3) ? pick(0, 120) : old.model.extent();
    Datatype* made = nullptr;
    const int error = type::resized(*old.type, lower, extent, form(), made);
    Model model = old.model;
    model.bound(lower, lower + extent);
    return finish(error, made, std::move(model));
  }

  /// Visits indices of `sizes` with the given fastest dimension order.
  template <class Visit>
  static void indices(const std::vector<int64_t>& sizes, int order, Visit visit) {
    const size_t n = sizes.size();
    int64_t all = 1;
    for (int64_t s : sizes) all *= s;
    for (int64_t linear = 0; linear < all; ++linear) {
      std::vector<int64_t> at(n);
      int64_t rest = linear;
      for (size_t k = 0; k < n; ++k) {
        const size_t d = order == MPI_ORDER_FORTRAN ? k : n - 1 - k;
        at[d] = rest % sizes[d];
        rest /= sizes[d];
      }
      visit(at, linear);
    }
  }

  Sample subarray(const Sample& old) {
    const size_t n = static_cast<size_t>(pick(1, 4));
    const int order = pick(0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    std::vector<int64_t> sizes, subsizes, starts;
    int64_t all = 1;
    for (size_t d = 0; d < n; ++d) {
      sizes.push_back(pick(1, 4));
      subsizes.push_back(pick(1, sizes[d]));
      starts.push_back(pick(0, sizes[d] - subsizes[d]));
      all *= sizes[d];
    }
    Model model;
    indices(sizes, order, [&](const std::vector<int64_t>& at, int64_t linear) {
      for (size_t d = 0; d < n; ++d)
        if (at[d] < starts[d] || at[d] >= starts[d] + subsizes[d]) return;
      model.add(old.model, linear * old.model.extent());
    });
    model.bound(0, all * old.model.extent());
    Datatype* made = nullptr;
    const int error = type::subarray(sizes, subsizes, starts, order, *old.type, form(), made);
    return finish(error, made, std::move(model));
  }

  Sample darray(const Sample& old) {
    const size_t n = static_cast<size_t>(pick(1, 3));
    const int order = pick(0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    std::vector<int64_t> sizes;
    std::vector<int> kinds, arguments, grid;
    int processes = 1;
    int64_t all = 1;
    for (size_t d = 0; d < n; ++d) {
      sizes.push_back(pick(1, 7));
      all *= sizes[d];
      kinds.push_back(static_cast<int>(pick(MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC)));
      grid.push_back(kinds[d] == MPI_DISTRIBUTE_NONE ? 1 : static_cast<int>(pick(1, 3)));
      processes *= grid[d];
      const int least = static_cast<int>((sizes[d] + grid[d] - 1) / grid[d]);
      arguments.push_back(pick(0, 1) ? MPI_DISTRIBUTE_DFLT_DARG
                                     : static_cast<int>(kinds[d] == MPI_DISTRIBUTE_BLOCK ? pick(least, least + 2) : pick(1, 3)));
    }
    const int rank = static_cast<int>(pick(0, processes - 1));
    std::vector<int> at_grid(n);
    for (size_t d = n, rest = static_cast<size_t>(rank); d-- > 0; rest /= grid[d]) at_grid[d] = static_cast<int>(rest % grid[d]);
    Model model;
    indices(sizes, order, [&](const std::vector<int64_t>& at, int64_t linear) {
      for (size_t d = 0; d < n; ++d) {
        int64_t owner = 0;
        const bool given = arguments[d] != MPI_DISTRIBUTE_DFLT_DARG;
        if (kinds[d] == MPI_DISTRIBUTE_BLOCK) owner = at[d] / (given ? arguments[d] : (sizes[d] + grid[d] - 1) / grid[d]);
        if (kinds[d] == MPI_DISTRIBUTE_CYCLIC) owner = at[d] / (given ? arguments[d] : 1) % grid[d];
        if (owner != at_grid[d]) return;
      }
      model.add(old.model, linear * old.model.extent());
    });
    model.bound(0, all * old.model.extent());
    Datatype* made = nullptr;
    const int error = type::darray({processes, rank, sizes, kinds, arguments, grid, order}, *old.type, form(), made);
    return finish(error, made, std::move(model));
  }

  Sample duplicate(const Sample& old) {
    Datatype* made = nullptr;
    const int error = type::duplicate(*old.type, made);
    return finish(error, made, old.model);
  }

  std::mt19937_64 random_;
};

}  // namespace weft::test
