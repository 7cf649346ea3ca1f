#include "runtime/obs/figures.h"

#include <utility>

namespace weft::obs {
namespace {
constinit FigureTable *head = nullptr, *last = nullptr;
constinit size_t registered = 0;
}  // namespace

void FigureTable::enlist(std::vector<Figure> figures) {
  figures_ = std::move(figures);
  first_ = registered;
  registered += figures_.size();
  (last ? last->next_ : head) = this;
  last = this;
}

std::vector<Figure> all_figures() {
  std::vector<Figure> all;
  for (const FigureTable* table = head; table; table = table->next())
    all.insert(all.end(), table->figures().begin(), table->figures().end());
  return all;
}

}  // namespace weft::obs
