// PMI-1 and PMI-2 as text: messages, values in pieces, the mapping of ranks to nodes. Bytes in, records out; no descriptors in here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/boot/boot.h"

namespace weft::boot::pmi {

/// The fields of a message, in its order; the first is "cmd".
class Fields {
 public:
  using List = std::vector<std::pair<std::string, std::string>>;
  Fields() = default;
  explicit Fields(List list) : list_(std::move(list)) {}
  /// The first of that name; empty text if there is none.
  const std::string& operator[](std::string_view name) const;
  bool has(std::string_view name) const;
  /// The number that a field is and nothing else; `otherwise` where it is none.
  int64_t number(std::string_view name, int64_t otherwise) const;
  const List& list() const { return list_; }

 private:
  List list_;
};

/// PMI-1: "cmd=get_result rc=0 value=x", without its line's end. Values run to the next blank. Nothing if it does not begin with cmd.
std::optional<Fields> parse_line(std::string_view line);
std::string write_line(const Fields& fields);

/// PMI-2: "cmd=kvs-get-response;found=TRUE;value=a;;b;rc=0;" (";;" is one in a value), without the six characters of length in front.
std::optional<Fields> parse_record(std::string_view record);
/// With the length in front.
std::string write_record(const Fields& fields);
/// The length that six characters tell; nothing if they do not.
std::optional<size_t> record_size(std::string_view head);

/// What a server admits of keys and values, including an end of 0.
struct Limits {
  size_t key = 64, value = 1024;
};

/// A value as pairs of keys and texts that servers of both kinds take: letters, digits, '-' and '_', cut to the limits. Fails if it is too
/// large.
using Pieces = std::vector<std::pair<std::string, std::string>>;
Result<Pieces> cut(uint32_t rank, std::string_view name, std::span<const std::byte> value, const Limits& limits);
/// The key of one piece.
std::string piece_key(uint32_t rank, std::string_view name, size_t piece, const Limits& limits);

/// Puts a value together again.
class Joiner {
 public:
  /// Takes the next piece; a complaint if it cannot be one.
  Result<void> add(std::string_view text);
  bool complete() const { return started_ && bytes_.size() == size_; }
  Blob take() { return std::move(bytes_); }

 private:
  Blob bytes_;
  size_t size_ = 0;
  bool started_ = false;
};

/// Where a rank is among the nodes of its job.
struct Place {
  uint32_t node = 0, node_count = 1;
  std::vector<uint32_t> node_ranks;
};
/// PMI_process_mapping, "(vector,(first node,nodes,ranks on each),...)", which begins again when it is used up.
std::optional<Place> parse_mapping(std::string_view text, uint32_t rank, uint32_t size);

}  // namespace weft::boot::pmi
