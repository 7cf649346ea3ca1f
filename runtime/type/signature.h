// The type signature: which basic elements follow each other in the packed stream of a datatype.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/type/datatype.h"

namespace weft::type {

using SignaturePtr = std::shared_ptr<const Signature>;

/// One basic element: its kind, its bytes in memory and in the external32 representation.
struct Element {
  Basic basic = Basic::none;
  uint8_t size = 0;
  uint8_t external = 0;
  friend bool operator==(const Element&, const Element&) = default;
};

/// Run-length coded sequence of basic elements; a tree of runs, repetitions and sequences, normalised when made. Immutable.
class Signature {
 public:
  enum class Shape : uint8_t { run, repeat, sequence };
  Shape shape = Shape::run;
  uint32_t depth = 0;
  Element element;                     // run
  uint64_t count = 0;                  // run: elements; repeat: rounds
  SignaturePtr child;                  // repeat
  std::vector<SignaturePtr> children;  // sequence
  std::vector<uint64_t> starts;        // sequence: bytes before each child
  uint64_t size = 0;                   ///< bytes in memory
  uint64_t external_size = 0;          ///< bytes in external32
  uint64_t elements = 0;               ///< basic elements

  /// Null for no elements, for all three.
  static SignaturePtr run(Element element, uint64_t count);
  static SignaturePtr repeat(uint64_t count, const SignaturePtr& child);
  static SignaturePtr sequence(const std::vector<std::pair<uint64_t, SignaturePtr>>& parts);

  /// Whole basic elements in the first `bytes` (<= size) of the stream; sets `rest` to the bytes of a partial last one.
  uint64_t elements_in(uint64_t bytes, uint64_t& rest) const;
  /// The reverse: bytes of the first n (<= elements) basic elements.
  uint64_t bytes_of(uint64_t n) const;

  /// Calls visit(Element, n) for the elements in order, in runs; visit returns false to stop.
  template <class Visit>
  bool each(Visit& visit) const {
    if (shape == Shape::run) return visit(element, count);
    if (shape == Shape::repeat) {
      for (uint64_t i = 0; i < count; ++i)
        if (!child->each(visit)) return false;
      return true;
    }
    for (const auto& part : children)
      if (!part->each(visit)) return false;
    return true;
  }
};

}  // namespace weft::type
