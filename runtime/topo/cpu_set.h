// A set of CPUs, by the operating system's numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace weft::topo {

class CpuSet {
 public:
  /// Linux's list form, "0-3,8"; "" is the empty set. CPUs are numbered below 65,536.
  static Result<CpuSet> parse(std::string_view list);
  /// The CPUs that the calling thread may run on (sched_getaffinity(2)); empty if that cannot be told.
  static CpuSet of_this_thread();

  bool empty() const;
  bool includes(const CpuSet& other) const;
  bool has(uint32_t cpu) const { return cpu / 64 < words_.size() && (words_[cpu / 64] >> (cpu % 64) & 1); }
  bool operator==(const CpuSet&) const;

  /// `cpu` below 65,536.
  void add(uint32_t cpu);
  CpuSet& operator|=(const CpuSet& other);
  CpuSet& operator&=(const CpuSet& other);
  CpuSet& operator-=(const CpuSet& other);
  uint32_t count() const;
  /// In ascending order.
  std::vector<uint32_t> cpus() const;
  /// What parse() reads.
  std::string to_string() const;

 private:
  void trim();
  std::vector<uint64_t> words_;  ///< no zeros at the end
};

}  // namespace weft::topo
