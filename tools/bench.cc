// `weft bench`: hands over to the comparison that is installed with its benchmarks (test/perf/compare.py).
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/report.h"

namespace weft::tools {

int bench(const std::vector<std::string>& options) {
  const std::string script = own_folder() + "/" WEFT_BENCH_FROM_BIN "/compare.py";
  const std::string prefix = std::filesystem::path(own_folder()).parent_path().string();
  if (access(script.c_str(), R_OK) != 0) {
    std::fprintf(stderr, "weft bench: %s: %s\n", script.c_str(), strerror(errno));
    return 1;
  }
  std::vector<std::string> words = {"python3", script, "--own", prefix};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  execvp(list[0], list.data());
  std::fprintf(stderr, "weft bench: needs Python 3: cannot start python3: %s\n", strerror(errno));
  return 1;
}

}  // namespace weft::tools
