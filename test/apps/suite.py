"""mpi4py's own test/main.py, named as the first argument, for an MPI whose files are not there yet. Its tests know an MPI without files
by the NotImplementedError that File.Open raises where MPI_File_open was missing when mpi4py was built; ours answers with an error class."""
import ctypes
import gc
import runpy
import sys

from mpi4py import MPI


def not_implemented(_cls, *_args, **_kwds):
    raise NotImplementedError


not_implemented.__doc__ = MPI.File.Open.__doc__  # mpi4py tests the form of them all
# a type of an extension module takes no assignment: its dictionary does
gc.get_referents(MPI.File.__dict__)[0]["Open"] = classmethod(not_implemented)
ctypes.pythonapi.PyType_Modified(ctypes.py_object(MPI.File))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
