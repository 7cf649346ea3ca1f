#include "runtime/base/attributes.h"

#include <algorithm>
#include <vector>

namespace weft {
namespace {

constexpr int first_keyval = 0x10000;  // away from the predefined keys of the ABI (501...)

struct Keyvals {
  std::mutex lock;
  std::map<int, Keyval> table;
  int next = first_keyval;

  static Keyvals& all() {
    static auto* keyvals = new Keyvals;  // outlives every destructor that deletes attributes
    return *keyvals;
  }
  void drop_if_unused(std::map<int, Keyval>::iterator entry) {
    if (entry->second.user_freed && entry->second.uses == 0) table.erase(entry);
  }
  /// The callbacks of a key; counts `change` uses.
  Keyval use(int keyval, int change) {
    std::lock_guard hold(lock);
    const auto entry = table.find(keyval);
    if (entry == table.end()) return {};
    const Keyval copy = entry->second;
    entry->second.uses += change;
    drop_if_unused(entry);
    return copy;
  }
};

}  // namespace

int make_keyval(Keyval::For target, Keyval::Copy copy, Keyval::Delete remove, void* extra) {
  auto& keyvals = Keyvals::all();
  std::lock_guard hold(keyvals.lock);
  const int keyval = keyvals.next++;
  keyvals.table[keyval] = {target, copy, remove, extra, 0, false};
  return keyval;
}

bool valid_keyval(int keyval, Keyval::For target) {
  auto& keyvals = Keyvals::all();
  std::lock_guard hold(keyvals.lock);
  const auto entry = keyvals.table.find(keyval);
  return entry != keyvals.table.end() && !entry->second.user_freed && entry->second.target == target;
}

void free_keyval(int keyval) {
  auto& keyvals = Keyvals::all();
  std::lock_guard hold(keyvals.lock);
  const auto entry = keyvals.table.find(keyval);
  if (entry == keyvals.table.end()) return;
  entry->second.user_freed = true;
  keyvals.drop_if_unused(entry);
}

int Attributes::set(void* handle, int keyval, void* value) {
  void* former = nullptr;
  if (get(keyval, &former)) {
    if (const int error = remove(handle, keyval)) return error;
  }
  Keyvals::all().use(keyval, +1);
  std::lock_guard hold(lock_);
  values_[keyval] = {value, next_order_++};
  return 0;
}

bool Attributes::get(int keyval, void** value) const {
  std::lock_guard hold(lock_);
  const auto entry = values_.find(keyval);
  if (entry == values_.end()) return false;
  *value = entry->second.value;
  return true;
}

int Attributes::remove(void* handle, int keyval) {
  void* value = nullptr;
  if (!get(keyval, &value)) return 0;
  const Keyval key = Keyvals::all().use(keyval, 0);
  if (key.remove) {
    if (const int error = key.remove(handle, keyval, value, key.extra)) return error;
  }
  {
    std::lock_guard hold(lock_);
    values_.erase(keyval);
  }
  Keyvals::all().use(keyval, -1);
  return 0;
}

int Attributes::copy_to(void* old_handle, Attributes& target) const {
  std::vector<std::pair<int, Value>> entries;
  {
    std::lock_guard hold(lock_);
    entries.assign(values_.begin(), values_.end());
  }
  std::ranges::sort(entries, {}, [](const auto& entry) { return entry.second.order; });
  for (const auto& [keyval, value] : entries) {
    const Keyval key = Keyvals::all().use(keyval, 0);
    if (!key.copy) continue;
    void* copied = value.value;
    int flag = 1;
    if (key.copy != dup_function) {
      flag = 0;
      if (const int error = key.copy(old_handle, keyval, key.extra, value.value, &copied, &flag)) return error;
    }
    if (!flag) continue;
    Keyvals::all().use(keyval, +1);
    std::lock_guard hold(target.lock_);
    target.values_[keyval] = {copied, target.next_order_++};
  }
  return 0;
}

int Attributes::clear(void* handle) {
  for (;;) {
    int last = 0;
    {
      std::lock_guard hold(lock_);
      if (values_.empty()) return 0;
      last = std::ranges::max_element(values_, {}, [](const auto& entry) { return entry.second.order; })->first;
    }
    if (const int error = remove(handle, last)) return error;
  }
}

}  // namespace weft
