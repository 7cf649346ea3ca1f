#include <array>

#include "runtime/op/op.h"

namespace weft::op {
namespace {

struct Row {
  uint32_t handle;
  OpId id;
};
constexpr Row kRows[] = {
    {33, OpId::sum}, {34, OpId::min}, {35, OpId::max},  {36, OpId::prod}, {40, OpId::band},   {41, OpId::bor},    {42, OpId::bxor},
    {48, OpId::land}, {49, OpId::lor}, {50, OpId::lxor}, {56, OpId::minloc}, {57, OpId::maxloc}, {60, OpId::replace}, {61, OpId::no_op},
};

auto make_table() {
  std::array<Op*, 64> table{};
  for (const Row& row : kRows) {
    Op* made = new Op;
    made->id = row.id;
    made->commutative = row.id != OpId::replace && row.id != OpId::no_op;
    made->predefined = true;
    made->abi_handle = row.handle;
    table[row.handle] = made;
  }
  return table;
}

}  // namespace

Op* predefined(uint32_t abi_handle) {
  static const auto table = make_table();
  return abi_handle < table.size() ? table[abi_handle] : nullptr;
}

}  // namespace weft::op
