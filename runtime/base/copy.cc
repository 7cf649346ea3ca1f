#include "runtime/base/copy.h"

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <cpuid.h>

namespace weft::detail {

const bool fast_strings = [] {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 9);  // Enhanced REP MOVSB/STOSB
}();

}  // namespace weft::detail
#endif
