// Datatypes drawn at random together with a model of them, and buffers that know what they must contain.
#pragma once

#include <cstring>
#include <utility>

#include "base.h"

namespace random_test {

struct Basic {
  const char* name;
  MPI_Datatype type;
  int size;
  int alignment;
};

/// A short sequence of basic types; what is sent is a number of patterns, whatever datatypes describe it on either side.
struct Pattern {
  std::vector<Basic> basics;
  int alignment() const;
  int64_t bytes() const;
  std::string text() const;
};

Pattern draw_pattern(Rng& rng);

struct Place {
  int64_t offset;
  int size;
};

/// A committed datatype and its type map, in the order of the signature.
class Layout {
 public:
  Layout() = default;
  Layout(Layout&& o) noexcept { *this = std::move(o); }
  Layout& operator=(Layout&& o) noexcept;
  ~Layout();

  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::vector<Place> map;
  int64_t lb = 0, extent = 0;
  int64_t patterns = 1;  ///< in one element
  bool owned = false;    ///< not predefined
  std::string text;

  int64_t least() const;  ///< lowest offset of a byte
  int64_t most() const;   ///< one past the highest
};

/// A layout whose element holds a number of patterns that divides `unit`.
Layout draw_layout(Rng& rng, const Pattern& pattern, int64_t unit);
/// One element is one basic type.
Layout plain_layout(const Basic& basic);

/// The bytes of the piece `index` of a message, a pure function of its key.
struct Content {
  uint64_t key;
  void operator()(int64_t index, int size, char* to) const {
    for (int at = 0; at < size; at += 8) {
      const uint64_t value = mix(key + uint64_t(at), uint64_t(index));
      std::memcpy(to + at, &value, size_t(size - at < 8 ? size - at : 8));
    }
  }
};

/// Memory with guards around it, and what it must contain. Filled with noise first: a byte that nobody may write must keep it.
class Area {
 public:
  /// Makes room for `count` elements from `displacement` (bytes) on; before open().
  void reserve(const Layout& layout, int64_t displacement, int64_t count);
  void open(uint64_t noise);
  char* base() { return actual_.data() + guard - least_; }
  /// Writes data, which must stay as they are.
  template <class Source>
  void fill(const Layout& layout, int64_t displacement, int64_t count, const Source& source) {
    put(layout, displacement, count, source, true);
  }
  /// Says which data must be there later.
  template <class Source>
  void expect(const Layout& layout, int64_t displacement, int64_t count, const Source& source) {
    put(layout, displacement, count, source, false);
  }
  /// Whatever is in these bytes is right.
  void ignore(int64_t offset, int64_t size);
  void check(const std::string& what) const;

 private:
  static constexpr int64_t guard = 64;
  template <class Source>
  void put(const Layout& layout, int64_t displacement, int64_t count, const Source& source, bool both) {
    int64_t index = 0;
    for (int64_t i = 0; i < count; ++i) {
      for (const Place& place : layout.map) {
        const int64_t at = guard - least_ + displacement + i * layout.extent + place.offset;
        source(index++, place.size, &expected_[size_t(at)]);
        if (both) std::memcpy(&actual_[size_t(at)], &expected_[size_t(at)], size_t(place.size));
      }
    }
  }

  int64_t least_ = 0, most_ = 0;
  std::vector<char> actual_, expected_;
  std::vector<Place> ignored_;
};

}  // namespace random_test
