// Ranks as threads over a fake bootstrap, each with a lane over the wire under test.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "pml/lane.h"
#include "runtime/boot/fake.h"
#include "runtime/config/config.h"
#include "runtime/type/predefined.h"
#include "test/unit/pml/broken_rails.h"
#include "test/unit/pml/thread_transport.h"
#include "test/unit/setting.h"

namespace weft::test {

/// One wire under test: its name and how a rank's lane is opened over it.
struct Bed {
  std::string name;
  Abilities abilities;
  bool real = false;                ///< shm, tcp, ucx: the first word of `name` is the value of WEFT_NET
  const char* tls = "";             ///< UCX's transports
  std::shared_ptr<Yard> yard = {};  ///< instead: rails that break
};

/// Makes the plugins of the build folder known, and says whether there is one for ucx.
inline bool ucx_is_there() {
#ifdef WEFT_TEST_PLUGINS
  static const bool known = config::find("WEFT_PLUGINS")->set(WEFT_TEST_PLUGINS, config::Origin::program);
  return known;
#else
  return false;
#endif
}

/// What a rank's body sees.
struct Rank {
  pml::Lane& lane;
  pml::Team& world;
  uint32_t rank, size;
  boot::Bootstrap& boot;
};

/// Catch's assertions are not thread-safe: bodies call this instead.
inline void need(bool holds, const char* what, int line) {
  if (!holds) throw std::runtime_error(std::string(what) + " (line " + std::to_string(line) + ")");
}
#define NEED(x) ::weft::test::need(static_cast<bool>(x), #x, __LINE__)

inline Result<std::unique_ptr<pml::Lane>> open_lane(const Bed& bed, const std::shared_ptr<Post>& post, boot::Bootstrap& boot,
                                                    bool threads) {
  std::vector<std::unique_ptr<btl::Transport>> wires;
  if (bed.yard) {
    for (uint32_t rail = 0; rail < bed.yard->rails; ++rail) wires.push_back(std::make_unique<BrokenRail>(bed.yard, boot.job().rank, rail));
    return pml::Lane::open_over(boot, threads, std::move(wires));
  }
  if (!bed.real) {
    wires.push_back(std::make_unique<ThreadTransport>(post, boot.job().rank));
    return pml::Lane::open_over(boot, threads, std::move(wires));
  }
  return pml::Lane::open_named(boot, threads, bed.name.substr(0, bed.name.find(' ')));
}

/// Runs `body` on `size` ranks; throws what the first failing rank threw. The others see it as dead, so that none waits for it.
inline void run_ranks(uint32_t size, const Bed& bed, bool threads, const std::function<void(Rank&)>& body) {
  setenv("UCX_TLS", bed.tls, 1);
  const boot::Fake job = boot::open_fake_job(size);
  const auto& boots = job.ranks;
  auto post = std::make_shared<Post>(size, bed.abilities);
  std::vector<std::thread> ranks;
  std::mutex lock;
  std::string complaint;
  for (uint32_t r = 0; r < size; ++r)
    ranks.emplace_back([&, r] {
      try {
        auto lane = open_lane(bed, post, *boots[r], threads);
        if (!lane) throw std::runtime_error(lane.failure().text);
        if (auto met = boots[r]->fence(true); !met) throw std::runtime_error(met.failure().text);
        {
          auto everyone = std::make_shared<const pml::Members>(pml::Members::range(0, size));
          pml::Team world(**lane, 8, everyone, r);
          Rank me{**lane, world, r, size, *boots[r]};
          body(me);
          need((*lane)->close() == Status::ok, "close", 0);
        }
      } catch (const std::exception& e) {
        const std::string text = "rank " + std::to_string(r) + ": " + e.what();
        fprintf(stderr, "%s\n", text.c_str());
        {
          std::lock_guard hold(lock);
          if (complaint.empty()) complaint = text;
        }
        job.job->kill(r);
      }
    });
  for (auto& t : ranks) t.join();
  if (!complaint.empty()) throw std::runtime_error(complaint);
}

inline pml::Buffer bytes(void* at, uint64_t n) { return {at, n, &type::of(type::Basic::byte)}; }
inline pml::Buffer bytes(const void* at, uint64_t n) { return bytes(const_cast<void*>(at), n); }

}  // namespace weft::test
