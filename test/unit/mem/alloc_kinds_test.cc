// Kinds of memory in the words of MPI's hints.
#include "runtime/mem/alloc_kinds.h"

#include <catch2/catch.hpp>

using namespace weft::mem;

TEST_CASE("whoever asks for kinds of memory gets those that there are, and the default ones") {
  CHECK(offered_alloc_kinds("") == "mpi,system");
  CHECK(offered_alloc_kinds("system") == "system,mpi");
  CHECK(offered_alloc_kinds(" mpi:alloc_mem , cuda:device,system,system") == "mpi:alloc_mem,system,mpi");
  CHECK(offered_alloc_kinds("mpi:win_allocate:win_allocate_shared") == "mpi:win_allocate:win_allocate_shared,mpi,system");
  for (const char* nonsense : {",", ":", "mpi:", "mpi:dust", "system:alloc_mem", "SYSTEM", ",,:,", "mpi::alloc_mem", "\xff"})
    CHECK(offered_alloc_kinds(nonsense) == "mpi,system");
}

TEST_CASE("a kind is covered by itself and by the kind without restrictors") {
  CHECK(covers_alloc_kinds("mpi,system", "mpi:alloc_mem,system"));
  CHECK(covers_alloc_kinds("mpi,system", ""));
  CHECK(covers_alloc_kinds("mpi:alloc_mem,system", "mpi:alloc_mem"));
  CHECK_FALSE(covers_alloc_kinds("mpi:alloc_mem,system", "mpi"));
  CHECK_FALSE(covers_alloc_kinds("mpi:alloc_mem,system", "mpi:win_allocate"));
  CHECK_FALSE(covers_alloc_kinds("mpi,system", "cuda:device"));
  CHECK_FALSE(covers_alloc_kinds("mpi,system", "system,moon"));
  CHECK_FALSE(covers_alloc_kinds("mpi,system", "mpi:moon"));
}
