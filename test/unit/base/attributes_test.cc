// Attributes: callbacks and their order, keys freed while in use, errors of callbacks.
#include "runtime/base/attributes.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <vector>

using namespace weft;

namespace {

std::vector<std::pair<int, void*>> deleted;
int delete_error = 0;

int note_delete(void*, int keyval, void* value, void*) {
  if (delete_error) return delete_error;
  deleted.emplace_back(keyval, value);
  return 0;
}
int copy_plus_one(void*, int, void* extra, void* in, void* out, int* flag) {
  *static_cast<void**>(out) = static_cast<char*>(in) + 1;
  *flag = extra == nullptr;
  return 0;
}
int copy_fails(void*, int, void*, void*, void*, int*) { return 34; }

int key(Keyval::Copy copy = nullptr, Keyval::Delete remove = note_delete, void* extra = nullptr) {
  return make_keyval(Keyval::For::communicator, copy, remove, extra);
}
void* at(const Attributes& a, int k) {
  void* value = nullptr;
  return a.get(k, &value) ? value : nullptr;
}
char place[64];
int object;

}  // namespace

TEST_CASE("an attribute is set, replaced and removed, its callback told each time") {
  deleted.clear();
  Attributes a;
  const int k = key();
  CHECK(at(a, k) == nullptr);
  REQUIRE(a.set(&object, k, place) == 0);
  REQUIRE(a.set(&object, k, place + 1) == 0);
  CHECK(deleted == std::vector<std::pair<int, void*>>{{k, place}});
  CHECK(at(a, k) == place + 1);
  REQUIRE(a.remove(&object, k) == 0);
  CHECK(a.empty());
  CHECK(deleted.size() == 2);
  free_keyval(k);
}

TEST_CASE("a null pointer is a value like any other") {
  Attributes a;
  const int k = key(nullptr, nullptr);
  REQUIRE(a.set(&object, k, nullptr) == 0);
  void* value = place;
  CHECK(a.get(k, &value));
  CHECK(value == nullptr);
}

TEST_CASE("copying asks each key's callback") {
  Attributes a, b;
  const int none = key(), pointer = key(dup_function), plus = key(copy_plus_one), refused = key(copy_plus_one, note_delete, &object);
  int n = 0;
  for (const int k : {none, pointer, plus, refused}) REQUIRE(a.set(&object, k, place + 10 * n++) == 0);
  REQUIRE(a.copy_to(&object, b) == 0);
  CHECK(at(b, none) == nullptr);
  CHECK(at(b, pointer) == place + 10);
  CHECK(at(b, plus) == place + 21);
  CHECK(at(b, refused) == nullptr);
  const int bad = key(copy_fails);
  REQUIRE(a.set(&object, bad, place) == 0);
  Attributes c;
  CHECK(a.copy_to(&object, c) == 34);
}

TEST_CASE("clear deletes the last one set first") {
  deleted.clear();
  Attributes a;
  const int first = key(), second = key(), third = key();
  a.set(&object, second, place);
  a.set(&object, third, place);
  a.set(&object, first, place);
  a.set(&object, second, place + 1);  // now the last
  deleted.clear();
  REQUIRE(a.clear(&object) == 0);
  REQUIRE(deleted.size() == 3);
  CHECK(deleted[0].first == second);
  CHECK(deleted[1].first == first);
  CHECK(deleted[2].first == third);
}

TEST_CASE("a delete callback that fails keeps the attribute") {
  Attributes a;
  const int k = key();
  a.set(&object, k, place);
  delete_error = 16;
  CHECK(a.remove(&object, k) == 16);
  CHECK(a.set(&object, k, place + 1) == 16);
  CHECK(at(a, k) == place);
  delete_error = 0;
  CHECK(a.clear(&object) == 0);
}

TEST_CASE("a key freed by the user serves what is cached under it, and is not valid any more") {
  deleted.clear();
  Attributes a;
  const int k = key(dup_function);
  a.set(&object, k, place);
  CHECK(valid_keyval(k, Keyval::For::communicator));
  CHECK_FALSE(valid_keyval(k, Keyval::For::datatype));
  free_keyval(k);
  CHECK_FALSE(valid_keyval(k, Keyval::For::communicator));
  Attributes b;
  REQUIRE(a.copy_to(&object, b) == 0);
  CHECK(at(b, k) == place);
  a.clear(&object);
  b.clear(&object);
  CHECK(deleted.size() == 2);
  for (const int wrong : {0, -1, 1 << 30}) CHECK_FALSE(valid_keyval(wrong, Keyval::For::communicator));
}

TEST_CASE("attributes agree with a simple model") {
  const auto seed = GENERATE(take(3, random(1, 1 << 30)));
  CAPTURE(seed);
  std::mt19937 dice(static_cast<unsigned>(seed));
  std::vector<int> keys;
  for (int i = 0; i < 6; ++i) keys.push_back(key(dup_function));
  Attributes a;
  std::map<int, void*> model;
  for (int round = 0; round < 4000; ++round) {
    const int k = keys[dice() % keys.size()];
    switch (dice() % 4) {
      case 0:
      case 1: {
        void* value = place + dice() % sizeof place;
        REQUIRE(a.set(&object, k, value) == 0);
        model[k] = value;
        break;
      }
      case 2:
        REQUIRE(a.remove(&object, k) == 0);
        model.erase(k);
        break;
      default: {
        Attributes copy;
        REQUIRE(a.copy_to(&object, copy) == 0);
        for (const int one : keys) REQUIRE(at(copy, one) == (model.contains(one) ? model[one] : nullptr));
        copy.clear(&object);
      }
    }
    REQUIRE(a.empty() == model.empty());
  }
  a.clear(&object);
  for (const int k : keys) free_keyval(k);
}
