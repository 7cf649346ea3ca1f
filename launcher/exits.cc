#include "launcher/exits.h"

#include <algorithm>

#include "launcher/daemon_state.h"

namespace weft::launcher {

void Exits::note(const event::Exited& event) {
  ranks_[event.signal ? signal_text(event.signal) : "exit code " + std::to_string(event.code)].push_back(event.rank);
}

std::string Exits::text() const {
  std::vector<std::pair<std::vector<uint32_t>, std::string>> lines;
  for (auto [how, ranks] : ranks_) {
    std::ranges::sort(ranks);
    lines.emplace_back(std::move(ranks), how);
  }
  std::ranges::sort(lines);
  std::string text;
  for (const auto& [ranks, how] : lines)
    text += (text.empty() ? "" : "\n") + how + ": " + (ranks.size() == 1 ? "rank " : "ranks ") + ranges(ranks);
  return text;
}

std::string ranges(const std::vector<uint32_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (end > i + 1) text += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace weft::launcher
