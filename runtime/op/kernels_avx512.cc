// Kernels for machines with avx512; chosen at run time.
#if defined(__x86_64__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // gcc 12 writes "undefined" as `__m512 y = y`
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "runtime/op/half.h"
#include "runtime/op/kernels.h"

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c,bmi,bmi2,prefer-vector-width=512")
#define WEFT_ISA avx512
#define WEFT_WIDE 64
#include "runtime/op/kernels.inc"

namespace weft::op {
const KernelTable& kernels_avx512() { return avx512::table(); }
}  // namespace weft::op
#endif
