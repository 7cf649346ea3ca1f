#include <algorithm>
#include <cstring>

#include "test/fuzz/fuzz.h"

namespace weft::fuzz {
namespace {

/// Values at which arithmetic goes wrong.
constexpr uint64_t kNumbers[] = {0,
                                 1,
                                 2,
                                 3,
                                 4,
                                 7,
                                 8,
                                 16,
                                 24,
                                 31,
                                 32,
                                 63,
                                 64,
                                 100,
                                 127,
                                 128,
                                 255,
                                 256,
                                 4095,
                                 4096,
                                 32767,
                                 32768,
                                 65535,
                                 65536,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 0x100000000,
                                 0x7fffffffffffffff,
                                 0x8000000000000000,
                                 ~uint64_t{0},
                                 ~uint64_t{0} - 7};
constexpr const char* kWords[] = {"0",
                                  "1",
                                  "-1",
                                  "65536",
                                  "4294967295",
                                  "99999999999999999999",
                                  ",",
                                  ";",
                                  ":",
                                  "[",
                                  "]",
                                  "-",
                                  "=",
                                  "\n",
                                  " ",
                                  "\"",
                                  "\\",
                                  "#",
                                  "(",
                                  ")",
                                  "*",
                                  "^",
                                  "/",
                                  "0-",
                                  "1-1000000000",
                                  "[0-99999999]"};

}  // namespace

/// One valid input, or noise, with some changes; now and then none.
std::string Mutator::make(const std::vector<std::string>& seeds) {
  std::string bytes = seeds.empty() ? "" : seeds[below(seeds.size())];
  if (below(50) == 0) {
    bytes.resize(below(300));
    for (char& c : bytes) c = char(random_());
  }
  for (size_t n = below(8) ? 1 + below(4) : below(40); n-- > 0;) change(bytes, seeds);
  if (bytes.size() > kLongest) bytes.resize(kLongest);
  return bytes;
}

void Mutator::change(std::string& bytes, const std::vector<std::string>& seeds) {
  const size_t at = below(bytes.size() + 1);
  switch (below(10)) {
    case 0:
      if (at < bytes.size()) bytes[at] = char(bytes[at] ^ (1 << below(8)));
      return;
    case 1:
      if (at < bytes.size()) bytes[at] = char(random_());
      return;
    case 2: bytes.erase(at, 1 + below(bytes.size() - at)); return;
    case 3: bytes.resize(at); return;
    case 4: bytes.insert(at, 1 + below(32), char(random_())); return;
    case 5: bytes.insert(at, kWords[below(std::size(kWords))]); return;
    case 6: return move_part(bytes, bytes);
    case 7:
      if (!seeds.empty()) move_part(bytes, seeds[below(seeds.size())]);
      return;
    default: return set_number(bytes);
  }
}

/// A number of any width, either by one of the treacherous or next to what it was.
void Mutator::set_number(std::string& bytes) {
  const size_t width = size_t{1} << below(4);
  if (bytes.size() < width) return;
  const size_t at = below(bytes.size() - width + 1);
  uint64_t value = 0;
  memcpy(&value, bytes.data() + at, width);
  value = below(3) ? kNumbers[below(std::size(kNumbers))] : value + below(5) - 2;
  memcpy(bytes.data() + at, &value, width);
}

/// Puts a part of `from` (which may be `bytes`) somewhere, in place of what is there or between.
void Mutator::move_part(std::string& bytes, const std::string& from) {
  const size_t begin = below(from.size() + 1);
  const std::string part = from.substr(begin, 1 + below(from.size() - begin));
  const size_t at = below(bytes.size() + 1);
  bytes.replace(at, below(2) ? std::min(part.size(), bytes.size() - at) : 0, part);
}

}  // namespace weft::fuzz
