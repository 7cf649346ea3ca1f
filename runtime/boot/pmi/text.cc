#include "runtime/boot/pmi/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

namespace weft::boot::pmi {
namespace {

constexpr size_t kMostBytes = 1 << 20;   // of a value
constexpr size_t kMostText = 700;        // of a piece: old servers read lines of 1,024 characters
constexpr size_t kMostBlocks = 1 << 16;  // of a mapping
constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Each three bytes as four digits of 64; at the end one byte as two, two as three.
std::string encode(std::span<const std::byte> bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t b = 0; b < 3; ++b) word = word << 8 | (b < count ? std::to_integer<uint32_t>(bytes[i + b]) : 0);
    for (size_t d = 0; d <= count; ++d) text += kDigits[word >> (18 - 6 * d) & 63];
  }
  return text;
}

bool decode(std::string_view text, Blob& bytes) {
  for (size_t i = 0; i < text.size(); i += 4) {
    const size_t count = std::min<size_t>(4, text.size() - i);
    if (count == 1) return false;
    uint32_t word = 0;
    for (size_t d = 0; d < 4; ++d) {
      const char* found = d < count ? std::find(kDigits, kDigits + 64, text[i + d]) : kDigits;
      if (found == kDigits + 64) return false;
      word = word << 6 | static_cast<uint32_t>(found - kDigits);
    }
    for (size_t b = 0; b + 1 < count; ++b) bytes.push_back(static_cast<std::byte>(word >> (16 - 8 * b)));
  }
  return true;
}

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

/// Takes "(a,b,c)" off the front.
bool take_block(std::string_view& text, uint32_t (&block)[3]) {
  if (!text.starts_with('(')) return false;
  const size_t end = text.find(')');
  if (end == text.npos) return false;
  std::string_view inside = text.substr(1, end - 1);
  for (int i = 0; i < 3; ++i) {
    const size_t comma = i < 2 ? inside.find(',') : inside.size();
    if (comma == inside.npos || !read_number(inside.substr(0, comma), block[i])) return false;
    inside.remove_prefix(std::min(inside.size(), comma + 1));
  }
  text.remove_prefix(end + 1);
  return true;
}

}  // namespace

const std::string& Fields::operator[](std::string_view name) const {
  static const std::string none;
  for (const auto& [key, value] : list_)
    if (key == name) return value;
  return none;
}

bool Fields::has(std::string_view name) const {
  return std::ranges::any_of(list_, [&](const auto& field) { return field.first == name; });
}

int64_t Fields::number(std::string_view name, int64_t otherwise) const {
  int64_t value;
  return read_number((*this)[name], value) ? value : otherwise;
}

std::optional<Fields> parse_line(std::string_view line) {
  Fields::List list;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(line.size(), end + 1));
    const size_t equals = word.find('=');
    if (equals == word.npos || equals == 0) continue;  // a word of a message to people
    list.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  if (list.empty() || list[0].first != "cmd") return {};
  return Fields(std::move(list));
}

std::string write_line(const Fields& fields) {
  std::string line;
  for (const auto& [key, value] : fields.list()) line += (line.empty() ? "" : " ") + key + "=" + value;
  return line + "\n";
}

std::optional<Fields> parse_record(std::string_view record) {
  Fields::List list;
  while (!record.empty()) {
    const size_t equals = record.find('=');
    if (equals == record.npos || equals == 0) return {};
    std::string key(record.substr(0, equals)), value;
    record.remove_prefix(equals + 1);
    for (;; record.remove_prefix(1)) {
      if (record.empty()) return {};
      if (record.front() == ';') {
        const bool one_more = record.size() > 1 && record[1] == ';';
        record.remove_prefix(1);
        if (!one_more) break;
      }
      value += record.front();
    }
    list.emplace_back(std::move(key), std::move(value));
  }
  if (list.empty() || list[0].first != "cmd") return {};
  return Fields(std::move(list));
}

std::string write_record(const Fields& fields) {
  std::string record;
  for (const auto& [key, value] : fields.list()) {
    record += key + "=";
    for (const char c : value) record += c == ';' ? std::string(";;") : std::string(1, c);
    record += ";";
  }
  std::string size = std::to_string(record.size());
  size.insert(0, size.size() < 6 ? 6 - size.size() : 0, ' ');
  return size + record;
}

std::optional<size_t> record_size(std::string_view head) {
  if (head.size() != 6) return {};
  const size_t from = std::min(head.find_first_not_of(' '), head.size());
  head.remove_prefix(from);
  head = head.substr(0, head.find(' '));  // some write it from the left
  size_t size;
  if (!read_number(head, size)) return {};
  return size;
}

std::string piece_key(uint32_t rank, std::string_view name, size_t piece, const Limits& limits) {
  constexpr size_t numbers = 24;  // the rank's, the piece's, and what stands between
  const bool plain = std::ranges::all_of(name, [](char c) { return isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_'; });
  std::string middle(name);
  if (!plain || name.size() + numbers >= limits.key) {
    uint64_t hash = 14695981039346656037u;  // FNV-1a
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    middle = std::to_string(hash);
  }
  return "weft-" + std::to_string(rank) + "-" + middle + (piece ? "-" + std::to_string(piece) : "");
}

Result<Pieces> cut(uint32_t rank, std::string_view name, std::span<const std::byte> value, const Limits& limits) {
  if (value.size() > kMostBytes)
    return Failure{"\"" + std::string(name) + "\" is too large for PMI: " + std::to_string(value.size()) + " bytes"};
  if (limits.value < 32 || limits.key < 56) return Failure{"the PMI server takes keys and values that are too short to be of use"};
  const size_t most = std::min(kMostText, limits.value - 1) / 4 * 4;
  std::string head = std::to_string(value.size()) + ".";
  head.insert(0, (4 - head.size() % 4) % 4, '0');  // pieces end where groups of digits do
  const std::string text = encode(value);
  Pieces pieces;
  for (size_t at = 0; pieces.empty() || at < text.size();) {
    const std::string start = pieces.empty() ? head : "";
    const std::string part = text.substr(at, most - start.size());
    at += part.size();
    pieces.emplace_back(piece_key(rank, name, pieces.size(), limits), start + part);
  }
  return pieces;
}

Result<void> Joiner::add(std::string_view text) {
  const Failure wrong{"no value that Weft has published: \"" + std::string(text.substr(0, 40)) + "\""};
  if (!started_) {
    const size_t dot = text.find('.');
    if (dot == text.npos || !read_number(text.substr(0, dot), size_) || size_ > kMostBytes) return wrong;
    text.remove_prefix(dot + 1);
    started_ = true;
  } else if (text.empty()) {
    return wrong;
  }
  if (!decode(text, bytes_) || bytes_.size() > size_) return wrong;
  return {};
}

std::optional<Place> parse_mapping(std::string_view text, uint32_t rank, uint32_t size) {
  constexpr std::string_view start = "(vector,";
  if (!text.starts_with(start) || !text.ends_with("))") || rank >= size) return {};
  text.remove_prefix(start.size());
  text.remove_suffix(1);
  std::vector<std::array<uint32_t, 3>> blocks;
  while (!text.empty()) {
    uint32_t block[3];
    if (!take_block(text, block) || !block[1] || !block[2] || uint64_t{block[0]} + block[1] > UINT32_MAX || blocks.size() >= kMostBlocks)
      return {};
    blocks.push_back({block[0], block[1], block[2]});
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  if (blocks.empty()) return {};
  // Ranks one after another; first the own node, then who else is there.
  const auto walk = [&](auto&& visit) {
    for (uint32_t r = 0;;)
      for (const auto& [first, nodes, each] : blocks)
        for (uint32_t node = first; node < first + nodes; ++node)
          for (uint32_t i = 0; i < each; ++i, ++r) {
            if (r == size) return;
            visit(r, node);
          }
  };
  Place place;
  uint32_t own = 0;
  std::set<uint32_t> nodes;
  walk([&](uint32_t r, uint32_t node) {
    if (r == rank) own = node;
    nodes.insert(node);
  });
  walk([&](uint32_t r, uint32_t node) {
    if (node == own) place.node_ranks.push_back(r);
  });
  place.node_count = static_cast<uint32_t>(nodes.size());
  place.node = static_cast<uint32_t>(std::distance(nodes.begin(), nodes.find(own)));
  return place;
}

}  // namespace weft::boot::pmi
