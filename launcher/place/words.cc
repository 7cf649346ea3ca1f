#include "launcher/place/words.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "runtime/base/text.h"

namespace weft::placement {

std::vector<std::string> split(std::string_view text, char separator) {
  const auto parts = weft::split(text, separator);
  return {parts.begin(), parts.end()};
}

std::vector<std::string> split_outside_brackets(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[') - (c == ']');
    if (c == separator && depth <= 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  for (size_t i = 0; (i = text.find_first_not_of(" \t\r\v\f", i)) != text.npos;) {
    const size_t end = std::min(text.find_first_of(" \t\r\v\f", i), text.size());
    words.emplace_back(text.substr(i, end - i));
    i = end;
  }
  return words;
}

std::optional<uint32_t> parse_number(std::string_view text, uint32_t least, uint32_t most) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || number < least || number > most) return {};
  return number;
}

std::string counted(uint64_t count, const std::string& what) { return std::to_string(count) + " " + what + (count == 1 ? "" : "s"); }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
  return result;
}

size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); i++) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); j++) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); i++)
    for (size_t j = 1; j <= b.size(); j++) {
      d[i][j] = std::min({d[i - 1][j - 1] + (a[i - 1] != b[j - 1]), d[i - 1][j] + 1, d[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  std::string nearest;
  size_t least = std::min<size_t>(3, word.size());
  if (word.size() > 100) return {};
  for (const std::string& name : known)
    if (const size_t d = distance(word, name); d < least) {
      least = d;
      nearest = name;
    }
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

Result<std::string> read_text(const std::string& file) {
  constexpr size_t kMost = 64u << 20;
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failure{file + ": " + strerror(errno)};
  std::string text;
  char piece[65536];
  ssize_t n;
  while ((n = read(fd, piece, sizeof piece)) > 0 && text.size() < kMost) text.append(piece, static_cast<size_t>(n));
  const int error = n < 0 ? errno : 0;
  close(fd);
  if (error) return Failure{file + ": " + strerror(error)};
  if (text.size() >= kMost) return Failure{file + ": larger than 64 MiB"};
  return text;
}

}  // namespace weft::placement
