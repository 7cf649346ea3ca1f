"""Sums and maxima of numpy arrays over all ranks, checked against what every rank can compute by itself."""
import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()
for kind in ("int32", "int64", "float32", "float64", "complex128"):
    for count in (1, 17, 4096, 300_000):
        mine = (numpy.arange(count) % 97 + rank).astype(kind)
        total = numpy.empty_like(mine)
        world.Allreduce(mine, total, op=MPI.SUM)
        expected = (numpy.arange(count) % 97 * ranks + ranks * (ranks - 1) // 2).astype(kind)
        assert numpy.array_equal(total, expected), (kind, count)
largest = numpy.array([float(rank)])
world.Allreduce(MPI.IN_PLACE, largest, op=MPI.MAX)
assert largest[0] == ranks - 1
assert world.allreduce({rank}, op=lambda a, b: a | b) == set(range(ranks))
if rank == 0:
    print(f"sums of 20 arrays (up to 4.6 MiB) right on {ranks} ranks")
