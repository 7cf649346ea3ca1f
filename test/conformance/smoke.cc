// A short job that touches every floor: for running hundreds of times.
#include "check.h"

int main(int argc, char** argv) {
  check::begin(argc, argv);
  const int right = (check::rank + 1) % check::ranks, left = (check::rank + check::ranks - 1) % check::ranks;
  std::vector<int> out(50000, check::rank), in(out.size());
  for (int count : {1, 50000}) {
    MPI_Sendrecv(out.data(), count, MPI_INT, right, 0, in.data(), count, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(in[0] == left && in[size_t(count) - 1] == left);
  }
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, check::rank % 2, 0, &half);
  int mine = 1, all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, half);
  CHECK(all == (check::ranks + 1 - check::rank % 2) / 2);
  MPI_Comm_free(&half);
  return check::end("smoke");
}
