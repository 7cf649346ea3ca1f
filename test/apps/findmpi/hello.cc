#include <mpi.h>

#include <iostream>

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::cout << "hello from C++, rank " << rank << " of " << ranks << "\n" << std::flush;
  MPI_Finalize();
  return 0;
}
