// Text in JSON, for those who write a little of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

/// How many bytes of `text` are one character of UTF-8; 0: they are none.
inline size_t utf8_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  const size_t n = lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
  if (n == 0 || text.size() < n) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool roundabout = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);  // there is a shorter way to write it
  const bool none = (lead == 0xed && second >= 0xa0) || (lead == 0xf4 && second >= 0x90);      // half a character of UTF-16; too large
  return roundabout || none ? 0 : n;
}

/// `text` as a JSON string, with its quotes. What is not UTF-8 becomes U+FFFD.
inline std::string json_quoted(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty()) {
    const size_t n = utf8_length(text);
    const char c = text[0];
    if (n == 0)
      out += "\\ufffd";
    else if (n == 1 && static_cast<unsigned char>(c) < 0x20)
      ((out += "\\u00") += digits[c >> 4]) += digits[c & 15];
    else if (c == '"' || c == '\\')
      (out += '\\') += c;
    else
      out += text.substr(0, n);
    text.remove_prefix(n ? n : 1);
  }
  return out += '"';
}

}  // namespace weft
