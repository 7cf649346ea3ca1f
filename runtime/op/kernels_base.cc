// Kernels for every machine.
#include "runtime/op/half.h"
#include "runtime/op/kernels.h"

#define WEFT_ISA base
#define WEFT_WIDE 0
#include "runtime/op/kernels.inc"

namespace weft::op {
const KernelTable& kernels_base() { return base::table(); }
}  // namespace weft::op
