// Where Datatype objects live. Private to runtime/type.
#pragma once

#include "runtime/base/object.h"
#include "runtime/type/datatype.h"

namespace weft::type {

Pool<Datatype>& pool();

}  // namespace weft::type
