// Small things that writers and readers of texts need.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// As printf, up to 511 bytes.
[[gnu::format(printf, 1, 2)]] inline std::string printed(const char* format, ...) {
  char line[512];
  va_list list;
  va_start(list, format);
  vsnprintf(line, sizeof line, format, list);
  va_end(list);
  return line;
}

/// The parts between marks, empty ones too; one part for an empty text.
inline std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(mark, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// A decimal number and nothing else; false if the text is anything else.
template <class Number>
bool read_number(std::string_view text, Number& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size();
}

/// Equal but for the case of ASCII letters.
inline bool same_word(std::string_view a, std::string_view b) {
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  return std::ranges::equal(a, b, [&](char x, char y) { return small(x) == small(y); });
}

}  // namespace weft
