/* Extensions of Weft to MPI. Their names begin with MPIX_, their constants lie outside the range of the standard ABI. */
#ifndef MPIX_H_INCLUDED
#define MPIX_H_INCLUDED

#include <mpi.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Half-precision numbers: IEEE binary16 and bfloat16. Valid in MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX. */
#define MPIX_C_FLOAT16 ((MPI_Datatype)0xe00)
#define MPIX_BFLOAT16 ((MPI_Datatype)0xe01)
#define MPIX_C_BF16 MPIX_BFLOAT16

/* The other process has failed, or no way to it works any more: ULFM's name of the class that MPI 5 has for lost peers. */
#define MPIX_ERR_PROC_FAILED MPI_ERR_PROC_ABORTED

/* 1 if buffers may lie in the memory of a CUDA device, as found at run time; callable at any time. */
int MPIX_Query_cuda_support(void);
int PMPIX_Query_cuda_support(void);

#if defined(__cplusplus)
}
#endif

#endif
