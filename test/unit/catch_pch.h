// What most unit tests include, compiled once (make's rule in test/unit/Makemodule.am passes it with -include).
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "pml/pch.h"
