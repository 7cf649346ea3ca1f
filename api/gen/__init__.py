"""Everything that is generated from api/mpi.api."""
