// `weft paths`: a job that does nothing but show which ways its messages would take.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tools/report.h"

namespace weft::tools {

int show_paths(const std::vector<std::string>& options) {
  const std::string mpirun = own_folder() + "/mpirun", self = own_folder() + "/weft";
  std::vector<std::string> words = {mpirun, "--report-paths"};
  for (const std::string& option : options) {
    if (option == "--measure")
      setenv("WEFT_NET_MEASURE", "yes", 1);
    else
      words.push_back(option);
  }
  words.insert(words.end(), {self, "trial-rank"});
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  execv(list[0], list.data());
  std::fprintf(stderr, "weft paths: cannot start %s: %s\n", list[0], strerror(errno));
  return 1;
}

int be_trial_rank() {
  const auto library = open_library();
  if (!library) {
    std::fprintf(stderr, "weft: %s\n", library.failure().text.c_str());
    return 1;
  }
  const auto init = reinterpret_cast<int (*)(int*, char***)>(library->symbol("MPI_Init"));
  const auto finalize = reinterpret_cast<int (*)()>(library->symbol("MPI_Finalize"));
  if (!init || !finalize) {
    std::fprintf(stderr, "weft: %s has no MPI_Init\n", library->file.c_str());
    return 1;
  }
  return init(nullptr, nullptr) || finalize();
}

}  // namespace weft::tools
