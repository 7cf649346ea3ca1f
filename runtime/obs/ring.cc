#include "runtime/obs/ring.h"

namespace weft::obs {

const char* to_string(What what) {
  switch (what) {
    case What::none: return "none";
    case What::send: return "send";
    case What::receive: return "receive";
    case What::isend: return "isend";
    case What::ireceive: return "ireceive";
    case What::probe: return "probe";
    case What::collective: return "collective";
    case What::wait: return "wait";
    case What::put: return "put";
    case What::get: return "get";
    case What::file: return "file";
    case What::way_lost: return "way_lost";
    case What::way_back: return "way_back";
  }
  return "unknown";
}

}  // namespace weft::obs
