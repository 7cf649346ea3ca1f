// Small things that all readers of users' text need.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace weft::placement {

/// Parts between separators, empty ones too; one part for an empty text.
std::vector<std::string> split(std::string_view text, char separator);
/// The same, but separators in [brackets] do not count.
std::vector<std::string> split_outside_brackets(std::string_view text, char separator);
/// Words between white space.
std::vector<std::string> split_words(std::string_view text);
/// A decimal number and nothing else, in `least`..`most`.
std::optional<uint32_t> parse_number(std::string_view text, uint32_t least, uint32_t most);
/// "2 cores", "1 core".
std::string counted(uint64_t count, const std::string& what);
std::string lower(std::string_view text);

/// Letters to insert, remove, replace, or to swap with their neighbour, to make one word of the other.
size_t distance(std::string_view a, std::string_view b);
/// "; did you mean NAME?" with the nearest of `known`; empty if none is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

/// A whole file of at most 64 MiB; the failure names it.
Result<std::string> read_text(const std::string& file);

}  // namespace weft::placement
