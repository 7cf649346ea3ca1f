// What a PMI server does for its client, whichever of the two protocols it speaks. Not thread-safe but for abort().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/boot/pmi/text.h"

namespace weft::boot::pmi {

struct Facts {
  std::string name;  ///< of the job; may be empty
  uint32_t rank = 0, size = 1;
  int appnum = 0;
  uint32_t universe = 0;  ///< 0: not told
  std::string mapping;    ///< PMI_process_mapping; empty: not told
  Limits limits;
};

class Server {
 public:
  virtual ~Server() = default;
  /// "PMI-1"
  virtual const char* protocol() const = 0;
  /// The first words; `rank` and `size` as the environment has them.
  virtual Result<Facts> greet(uint32_t rank, uint32_t size) = 0;
  virtual Result<void> put(const std::string& key, const std::string& value) = 0;
  /// Nothing if nobody has put it before the last fence.
  virtual Result<std::optional<std::string>> get(const std::string& key) = 0;
  virtual Result<void> fence() = 0;
  /// May be called while another thread waits in any of the others.
  virtual void abort(int code, std::string_view message) = 0;
  virtual Result<void> leave() = 0;
};

/// Speak over a descriptor, which they do not own.
std::unique_ptr<Server> speak_pmi1(int fd);
std::unique_ptr<Server> speak_pmi2(int fd);

}  // namespace weft::boot::pmi
