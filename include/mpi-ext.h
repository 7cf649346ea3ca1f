/* What programs probe for to learn of extensions. */
#ifndef MPI_EXT_H_INCLUDED
#define MPI_EXT_H_INCLUDED

#include <mpix.h>

/* Whether device memory is understood is known at run time only: ask MPIX_Query_cuda_support(). */
#define MPIX_CUDA_AWARE_SUPPORT 0

#endif
