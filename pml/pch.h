// What most files from pml upwards include: compiled once, as runtime/pch.h.
#include "pml/lane.h"
#include "runtime/pch.h"
