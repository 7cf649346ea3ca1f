// Standard headers that most files include: compiled once for those below pml (make's rule in Makefile.am passes it with -include). A file
// still includes what it uses itself; this only saves the time.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>
