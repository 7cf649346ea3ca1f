// Bytes of records: how numbers, texts and lists are written, and read again from bytes that nobody vouches for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

/// Numbers are little-endian, texts and lists are headed by their length.
class Writer {
 public:
  explicit Writer(std::string head = {}) : out_(std::move(head)) {}
  void number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) out_.push_back(char(value >> (8 * i)));
  }
  void u8(uint8_t v) { number(v, 1); }
  void u32(uint32_t v) { number(v, 4); }
  void u64(uint64_t v) { number(v, 8); }
  void text(std::string_view v) {
    u32(uint32_t(v.size()));
    out_.append(v);
  }
  void texts(const std::vector<std::string>& v) {
    u32(uint32_t(v.size()));
    for (const std::string& item : v) text(item);
  }
  void numbers(const std::vector<uint32_t>& v) {
    u32(uint32_t(v.size()));
    for (uint32_t item : v) u32(item);
  }
  void raw(const void* data, size_t size) { out_.append(static_cast<const char*>(data), size); }
  std::string take() { return std::move(out_); }
  std::vector<std::byte> blob() const {
    const auto* first = reinterpret_cast<const std::byte*>(out_.data());
    return {first, first + out_.size()};
  }

 private:
  std::string out_;
};

/// Never reads past the end, never reserves more than what is there; once something was wrong everything is zero.
class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}
  explicit Reader(std::span<const std::byte> in) : in_(reinterpret_cast<const char*>(in.data()), in.size()) {}
  uint64_t number(int bytes) {
    if (in_.size() < size_t(bytes)) return fail();
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= uint64_t(uint8_t(in_[size_t(i)])) << (8 * i);
    in_.remove_prefix(size_t(bytes));
    return value;
  }
  void raw(void* data, size_t size) {
    if (in_.size() < size) {
      memset(data, 0, size);
      fail();
      return;
    }
    memcpy(data, in_.data(), size);
    in_.remove_prefix(size);
  }
  uint8_t u8() { return uint8_t(number(1)); }
  bool flag() {
    const uint8_t value = u8();
    if (value > 1) fail();
    return value == 1;
  }
  uint32_t u32() { return uint32_t(number(4)); }
  uint64_t u64() { return number(8); }
  std::string text() {
    const uint32_t size = u32();
    if (in_.size() < size) return fail(), std::string();
    std::string value(in_.substr(0, size));
    in_.remove_prefix(size);
    return value;
  }
  /// Length of a list whose items take at least `least` bytes each.
  uint32_t length(size_t least) {
    const uint32_t count = u32();
    if (count > in_.size() / least) return uint32_t(fail());
    return count;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> list(length(4));
    for (std::string& item : list) item = text();
    return list;
  }
  std::vector<uint32_t> numbers() {
    std::vector<uint32_t> list(length(4));
    for (uint32_t& item : list) item = u32();
    return list;
  }
  uint64_t fail() {
    good_ = false;
    in_ = {};
    return 0;
  }
  bool complete() const { return good_ && in_.empty(); }

 private:
  std::string_view in_;
  bool good_ = true;
};

/// The record, if its bytes were all there and no more.
template <class T>
std::optional<T> whole(const Reader& in, T value) {
  if (!in.complete()) return {};
  return value;
}

}  // namespace weft
