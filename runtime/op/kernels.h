// Tables of reduction kernels, one for each instruction set. Private to runtime/op.
#pragma once

#include <cstdint>
#include <utility>

#include "runtime/op/op.h"

namespace weft::op {

inline constexpr unsigned kOps = static_cast<unsigned>(OpId::user);
inline constexpr unsigned kBasics = static_cast<unsigned>(type::Basic::two_double) + 1;

struct KernelPair {
  Kernel two = nullptr;
  Kernel3 three = nullptr;
};

/// To and from float.
struct Widening {
  void (*widen)(const void* from, float* to, uint64_t count) = nullptr;
  void (*narrow)(const float* from, void* to, uint64_t count) = nullptr;
};

/// Entries are null where an instruction set has nothing of its own, or the standard does not define the pair.
struct KernelTable {
  KernelPair at[kOps][kBasics];
  Widening half, bfloat;
};

const KernelTable& kernels_base();
#if defined(__x86_64__)
const KernelTable& kernels_avx2();    // AVX2 and F16C
const KernelTable& kernels_avx512();  // AVX-512 F, BW, DQ, VL
#endif

}  // namespace weft::op
