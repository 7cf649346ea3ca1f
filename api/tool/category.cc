// Categories of variables and events (MPI 5.0, 15.3.9): one for each module of the library, and one above them all.
#include <set>
#include <string>

#include "api/generated/bodies.h"
#include "api/tool/event.h"
#include "api/tool/tool.h"

namespace weft::api::tool {
namespace {

constexpr const char* kRoot = "weft";
constexpr const char* kGeneral = "general";

struct Category {
  std::string name, description;
  std::vector<int> controls, figures, events, categories;
};

std::string category_of(std::string_view module) { return std::string(module.empty() ? kGeneral : module); }

std::vector<Category> sort_into_categories() {
  std::set<std::string> names;
  for (const config::Variable* variable : controls()) names.insert(category_of(variable->module()));
  for (const obs::Figure& figure : figures()) names.insert(category_of(figure.module));
  for (const EventKind& kind : event_kinds()) names.emplace(kind.module);
  std::vector<Category> all{{kRoot, "all that this library can be told and tells", {}, {}, {}, {}}};
  for (const std::string& name : names) {
    Category made{name, "part of the library: " + name, {}, {}, {}, {}};
    for (size_t i = 0; i < controls().size(); ++i)
      if (category_of(controls()[i]->module()) == name) made.controls.push_back(static_cast<int>(i));
    for (size_t i = 0; i < figures().size(); ++i)
      if (category_of(figures()[i].module) == name) made.figures.push_back(static_cast<int>(i));
    for (size_t i = 0; i < event_kinds().size(); ++i)
      if (event_kinds()[i].module == name) made.events.push_back(static_cast<int>(i));
    all.front().categories.push_back(static_cast<int>(all.size()));
    all.push_back(std::move(made));
  }
  return all;
}

const std::vector<Category>& categories() {
  static const std::vector<Category> all = sort_into_categories();
  return all;
}

/// As many of `all` as there is room for.
int list(int index, int len, int indices[], std::vector<int> Category::*which) {
  if (!within(index, categories())) return MPI_T_ERR_INVALID_INDEX;
  const std::vector<int>& all = categories()[static_cast<size_t>(index)].*which;
  std::copy_n(all.begin(), std::min(static_cast<size_t>(len), all.size()), indices);
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace weft::api::tool

namespace weft::body {

using namespace api::tool;

int T_category_get_num(int* num_cat) {
  *num_cat = static_cast<int>(categories().size());
  return MPI_SUCCESS;
}

int T_category_get_info(int cat_index, char* name, int* name_len, char* desc, int* desc_len, int* num_cvars, int* num_pvars,
                        int* num_categories) {
  if (!within(cat_index, categories())) return MPI_T_ERR_INVALID_INDEX;
  const Category& category = categories()[static_cast<size_t>(cat_index)];
  give(name, name_len, category.name);
  give(desc, desc_len, category.description);
  give(num_cvars, category.controls.size());
  give(num_pvars, category.figures.size());
  give(num_categories, category.categories.size());
  return MPI_SUCCESS;
}

int T_category_get_num_events(int cat_index, int* num_events) {
  if (!within(cat_index, categories())) return MPI_T_ERR_INVALID_INDEX;
  *num_events = static_cast<int>(categories()[static_cast<size_t>(cat_index)].events.size());
  return MPI_SUCCESS;
}

int T_category_get_index(const char* name, int* cat_index) {
  const auto found = std::ranges::find(categories(), name, &Category::name);
  if (found == categories().end()) return MPI_T_ERR_INVALID_NAME;
  *cat_index = static_cast<int>(found - categories().begin());
  return MPI_SUCCESS;
}

int T_category_get_cvars(int cat_index, int len, int indices[]) { return list(cat_index, len, indices, &Category::controls); }
int T_category_get_pvars(int cat_index, int len, int indices[]) { return list(cat_index, len, indices, &Category::figures); }
int T_category_get_events(int cat_index, int len, int indices[]) { return list(cat_index, len, indices, &Category::events); }
int T_category_get_categories(int cat_index, int len, int indices[]) { return list(cat_index, len, indices, &Category::categories); }

/// They are all known from the start and never change.
int T_category_changed(int* update_number) {
  *update_number = 0;
  return MPI_SUCCESS;
}

}  // namespace weft::body
