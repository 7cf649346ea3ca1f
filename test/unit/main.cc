// Catch2's main, compiled once for all unit tests.
#define CATCH_CONFIG_MAIN
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // std::regex under AddressSanitizer, GCC 105562
#include <catch2/catch.hpp>
