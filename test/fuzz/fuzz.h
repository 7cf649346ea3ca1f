// What is fuzzed: things that are read from a wire, a file or another process, each as one function of bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace weft::fuzz {

/// Something that reads. Whatever the bytes are, `take` must come back, soon, with memory in bounds; what they mean does not matter.
struct Target {
  std::string name;                            ///< "tcp/stream"
  std::vector<std::string> seeds;              ///< valid input, made by the encoders where there are some
  std::function<void(std::string_view)> take;  ///< a finding: it dies, throws, is silent for long, or takes memory without bound
  int weight = 1;                              ///< its share of the time
};
using Targets = std::vector<Target>;

void add_wires(Targets&);      ///< handshakes, cards, proposals, streams
void add_messages(Targets&);   ///< whatever kind of message a peer sends
void add_launcher(Targets&);   ///< frames and messages between daemons, questions to the launcher
void add_published(Targets&);  ///< addresses in PMIx, slots of RDMA devices, notes over UCX, the library's description
void add_texts(Targets&);      ///< hostfiles and other files, PMI-1 and PMI-2, topologies, settings

/// The bytes of a plain record, and of a blob.
template <class T>
std::string bytes_of(const T& record) {
  return {reinterpret_cast<const char*>(&record), sizeof record};
}
inline std::string text_of(const std::vector<std::byte>& blob) { return {reinterpret_cast<const char*>(blob.data()), blob.size()}; }
inline std::vector<std::byte> blob_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

/// A promise of the code under test; breaking it is a finding.
void need(bool holds, const char* what);

/// Takes an input apart: what to do, with which numbers and bytes. Reads zeros past the end.
class Script {
 public:
  explicit Script(std::string_view in) : in_(in) {}
  bool over() const { return in_.empty(); }
  uint64_t number(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && !in_.empty(); ++i, in_.remove_prefix(1)) value |= uint64_t(uint8_t(in_[0])) << (8 * i);
    return value;
  }
  std::string_view piece(size_t bytes) {
    const std::string_view out = in_.substr(0, bytes);
    in_.remove_prefix(out.size());
    return out;
  }

 private:
  std::string_view in_;
};

/// Makes input from valid input.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}
  std::string make(const std::vector<std::string>& seeds);

 private:
  size_t below(size_t n) { return n ? random_() % n : 0; }
  void change(std::string& bytes, const std::vector<std::string>& seeds);
  void set_number(std::string& bytes);
  void move_part(std::string& bytes, const std::string& from);
  std::mt19937_64 random_;
};
constexpr size_t kLongest = 1 << 16;  ///< bytes of an input

}  // namespace weft::fuzz
