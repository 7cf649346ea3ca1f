// Kernels for machines with avx2; chosen at run time.
#if defined(__x86_64__)
#include <immintrin.h>

#include "runtime/op/half.h"
#include "runtime/op/kernels.h"

#pragma GCC target("avx2,f16c,bmi,bmi2")
#define WEFT_ISA avx2
#define WEFT_WIDE 32
#include "runtime/op/kernels.inc"

namespace weft::op {
const KernelTable& kernels_avx2() { return avx2::table(); }
}  // namespace weft::op
#endif
