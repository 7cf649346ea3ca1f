// Types that can be reduced, their operations, and the model of both.
#pragma once

#include <cstddef>

#include "large.h"
#include "layout.h"

namespace random_test {

enum class Op { max, min, sum, prod, land, lor, lxor, band, bor, bxor, maxloc, minloc, user_sum, user_compose };

/// A type with values so small that every order of additions and multiplications gives the same.
struct Number {
  const char* name;
  MPI_Datatype type;          ///< null: the user's type, made of two uint32_t
  std::vector<Place> places;  ///< where values lie; what lies between them may have any content
  int64_t extent;
  std::vector<Op> ops;
  void (*draw)(Op op, uint64_t random, char* to);
  void (*fold)(Op op, const char* left, char* right);  ///< right = left op right
};

const Number& draw_number(Rng& rng);

/// MPI's handle of an operation, freed with it if it is the user's.
class Operation {
 public:
  Operation(Rng& rng, Op op);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  MPI_Op handle = MPI_OP_NULL;
  const char* text = "";

 private:
  bool owned_ = false;
};

}  // namespace random_test
