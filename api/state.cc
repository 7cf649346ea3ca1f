#include "api/state.h"

namespace weft::api {

State state;

}  // namespace weft::api
