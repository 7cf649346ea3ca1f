#include "runtime/topo/cpu_set.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>

namespace weft::topo {
namespace {

constexpr uint32_t kMost = 65536;

/// Takes a CPU's number off the front of `text`.
bool take(std::string_view& text, uint32_t& cpu) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
  if (error != std::errc() || cpu >= kMost) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

void CpuSet::add(uint32_t cpu) {
  if (words_.size() <= cpu / 64) words_.resize(cpu / 64 + 1);
  words_[cpu / 64] |= uint64_t{1} << (cpu % 64);
}

Result<CpuSet> CpuSet::parse(std::string_view list) {
  CpuSet set;
  const Failure wrong{"\"" + std::string(list) + "\" is no list of CPUs"};
  while (!list.empty()) {
    uint32_t first, last;
    if (!take(list, first)) return wrong;
    last = first;
    if (list.starts_with('-')) {
      list.remove_prefix(1);
      if (!take(list, last) || last < first) return wrong;
    }
    for (uint32_t cpu = first; cpu <= last; ++cpu) set.add(cpu);
    if (list.empty()) break;
    if (list.front() != ',' || list.size() == 1) return wrong;
    list.remove_prefix(1);
  }
  return set;
}

CpuSet CpuSet::of_this_thread() {
  CpuSet set;
  for (int count = 1024; count <= static_cast<int>(kMost); count *= 4) {  // the kernel's own mask may be larger than the standard one
    cpu_set_t* mask = CPU_ALLOC(count);
    const size_t bytes = CPU_ALLOC_SIZE(count);
    const bool known = mask && sched_getaffinity(0, bytes, mask) == 0;
    for (int cpu = 0; known && cpu < count; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, mask)) set.add(static_cast<uint32_t>(cpu));
    CPU_FREE(mask);
    if (known) break;
  }
  return set;
}

bool CpuSet::empty() const { return words_.empty(); }

bool CpuSet::includes(const CpuSet& other) const {
  if (other.words_.size() > words_.size()) return false;
  for (size_t i = 0; i < other.words_.size(); ++i)
    if (other.words_[i] & ~words_[i]) return false;
  return true;
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
  for (size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  if (words_.size() > other.words_.size()) words_.resize(other.words_.size());
  for (size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
  trim();
  return *this;
}

CpuSet& CpuSet::operator-=(const CpuSet& other) {
  for (size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i) words_[i] &= ~other.words_[i];
  trim();
  return *this;
}

void CpuSet::trim() {
  while (!words_.empty() && !words_.back()) words_.pop_back();
}

uint32_t CpuSet::count() const {
  uint32_t sum = 0;
  for (const uint64_t word : words_) sum += static_cast<uint32_t>(std::popcount(word));
  return sum;
}

std::vector<uint32_t> CpuSet::cpus() const {
  std::vector<uint32_t> all;
  for (size_t i = 0; i < words_.size(); ++i)
    for (uint64_t word = words_[i]; word; word &= word - 1) all.push_back(static_cast<uint32_t>(64 * i) + std::countr_zero(word));
  return all;
}

std::string CpuSet::to_string() const {
  std::string text;
  const std::vector<uint32_t> all = cpus();
  for (size_t i = 0; i < all.size();) {
    size_t end = i + 1;
    while (end < all.size() && all[end] == all[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(all[i]);
    if (end > i + 1) text += "-" + std::to_string(all[end - 1]);
    i = end;
  }
  return text;
}

bool CpuSet::operator==(const CpuSet& other) const { return words_ == other.words_; }

}  // namespace weft::topo
