#include "launcher/room.h"

#include <cstdlib>
#include <fstream>
#include <utility>

namespace weft::launcher {
namespace {

constexpr uint64_t pause_ns = 1'500'000'000;

/// Every client of PMIx's shared-memory store maps the server's segment of the job's data when it has been answered.
bool has_job_data(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  if (!maps) return true;  // ended, or not ours to look at
  for (std::string line; std::getline(maps, line);)
    if (line.find("/smdataseg-") != std::string::npos) return true;
  return false;
}

}  // namespace

void RoomWatch::joining(uint32_t rank, uint64_t now_ns) {
  if (getenv("PMIX_MCA_gds")) return;  // the user's choice may be a store without files
  ranks_.push_back(rank);
  next_ns_ = now_ns + pause_ns;
  looks_ = 0;
}

std::vector<uint32_t> RoomWatch::check(uint64_t now_ns, const std::function<bool()>& crowded,
                                       const std::function<pid_t(uint32_t)>& pid_of) {
  if (!next_ns_ || now_ns < next_ns_) return {};
  next_ns_ = 0;
  std::vector<uint32_t> ranks = std::exchange(ranks_, {});
  if (!crowded()) return {};
  std::erase_if(ranks, [&](uint32_t rank) {
    const pid_t pid = pid_of(rank);
    return pid <= 0 || has_job_data(pid);
  });
  if (ranks.empty() || ++looks_ > 1) return ranks;
  ranks_ = std::move(ranks);
  next_ns_ = now_ns + pause_ns;
  return {};
}

}  // namespace weft::launcher
