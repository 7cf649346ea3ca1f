#include "launcher/trial.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace weft::launcher {

void hold_for_test(uint32_t node, const char* state) {
  const char* wish = getenv("WEFT_LAUNCHER_HOLD");
  if (!wish) return;
  const std::string text = wish, head = std::to_string(node) + ":" + state + ":";
  if (text.compare(0, head.size(), head) != 0) return;
  const std::string file = text.substr(head.size()), fresh = file + ".new";
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return;
  dprintf(fd, "%d\n", getpid());
  close(fd);
  if (rename(fresh.c_str(), file.c_str())) return;
  for (int naps = 0; naps < 6000 && access(file.c_str(), F_OK) == 0; naps++) {
    const timespec t{0, 10'000'000};
    nanosleep(&t, nullptr);
  }
}

uint64_t start_patience_ns() {
  const char* wish = getenv("WEFT_LAUNCHER_PATIENCE");
  const double seconds = wish ? atof(wish) : 0;
  return uint64_t((seconds > 0 ? seconds : 30) * 1e9);
}

}  // namespace weft::launcher
