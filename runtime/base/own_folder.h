// Where this code was loaded from.
#pragma once

#include <string>

namespace weft {

/// The folder of the library or program that this is linked into; "." if the dynamic linker does not say.
std::string own_folder();

}  // namespace weft
