// What mpirun answers for the whole job: published names, groups, connections, notices, and who wants programs to be spawned.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "launcher/layout.h"
#include "launcher/names.h"
#include "launcher/roster.h"
#include "launcher/service.h"

namespace weft::launcher {

class Central {
 public:
  using Done = Services::Done;
  struct Upcalls {
    /// All hosts but `origin` are to tell their ranks.
    std::function<void(uint32_t origin, const std::string& notice)> spread;
    /// To be answered with a Spawned.
    std::function<void(SpawnWish wish, Done done)> spawn;
  };
  /// `roster` and `layout` outlive this and may grow.
  Central(const Roster& roster, const Layout& layout, Upcalls upcalls) : roster_(roster), layout_(layout), upcalls_(std::move(upcalls)) {}

  /// A question of the server on `host`. What is damaged, or not that host's to ask, is refused.
  void ask(uint32_t host, Service what, const std::string& body, Done done);

  /// A rank of the job has ended; `whole_space`: it was the last of its namespace.
  void gone(uint32_t rank, bool whole_space);

  uint64_t next_tick_ns() const { return names_.next_tick_ns(); }
  void tick(uint64_t now_ns) { names_.tick(now_ns); }

 private:
  struct Part {
    std::string data;
    Done done;
  };
  struct Gathering {
    std::vector<uint32_t> members;   // ranks of the job
    std::map<uint32_t, Part> parts;  // by host
  };

  const Roster& roster_;
  const Layout& layout_;
  const Upcalls upcalls_;
  NameService names_;
  std::map<std::string, Gathering> gathering_;
  std::set<uint32_t> gone_;
  uint64_t next_context_ = 1;

  bool lives_on(const Proc& who, uint32_t host) const;
  void publish(uint32_t host, const Publish& publish, const Done& done);
  void lookup(uint32_t host, Lookup lookup, Done done);
  void gather(uint32_t host, Gather gather, Done done);
  enum class Outlook : uint8_t { complete, open, hopeless };
  static void refuse(const Gathering& gathering);
  Outlook outlook(const Gathering& gathering) const;
};

}  // namespace weft::launcher
