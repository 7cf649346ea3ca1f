// The matcher against a model that searches lists from the front.
#include "pml/matcher.h"

#include <catch2/catch.hpp>
#include <deque>
#include <random>

using namespace weft;
using namespace weft::pml;

namespace {

/// Both sides in order, searched one by one: what the standard says, without any speed.
class Model {
 public:
  struct Key {
    Context context;
    int32_t source, tag;
  };
  struct Entry {
    Key key;
    int number;
  };
  static bool fits(const Key& receive, const Key& message) {
    return receive.context == message.context && (receive.source == any_source || receive.source == message.source) &&
           (receive.tag == any_tag || receive.tag == message.tag);
  }
  int post(const Key& key, int number) {
    for (auto it = messages.begin(); it != messages.end(); ++it)
      if (fits(key, it->key)) return take(messages, it);
    receives.push_back({key, number});
    return -1;
  }
  int arrive(const Key& key, int number) {
    for (auto it = receives.begin(); it != receives.end(); ++it)
      if (fits(it->key, key)) return take(receives, it);
    messages.push_back({key, number});
    return -1;
  }
  int probe(const Key& key) const {
    for (const Entry& m : messages)
      if (fits(key, m.key)) return m.number;
    return -1;
  }
  bool cancel(int number) {
    for (auto it = receives.begin(); it != receives.end(); ++it)
      if (it->number == number) {
        receives.erase(it);
        return true;
      }
    return false;
  }
  std::deque<Entry> receives, messages;

 private:
  static int take(std::deque<Entry>& list, std::deque<Entry>::iterator it) {
    const int number = it->number;
    list.erase(it);
    return number;
  }
};

/// The matcher's side of the same history.
struct Bench {
  Matcher matcher;
  std::deque<Transfer> receives;
  std::deque<Unexpected> messages;

  static constexpr Request::Ops ops{};
  int number_of(const Transfer& t) { return static_cast<int>(reinterpret_cast<intptr_t>(t.context)); }

  int post(const Model::Key& key, int number) {
    Transfer& t = receives.emplace_back(RequestKind::receive, &ops, nullptr);
    t.match_context = key.context;
    t.source = key.source;
    t.tag = key.tag;
    t.stage = Stage::posted;
    t.context = reinterpret_cast<void*>(static_cast<intptr_t>(number));
    Unexpected* u = matcher.post(t);
    if (u) t.stage = Stage::done;
    return u ? static_cast<int>(u->header.length) : -1;
  }
  int arrive(const Model::Key& key, int number) {
    const btl::Header header{
        key.context, key.tag, key.source, static_cast<uint32_t>(number), 0, static_cast<uint8_t>(MessageKind::eager), 0};
    if (Transfer* t = matcher.arrived(header)) {
      t->stage = Stage::done;
      return number_of(*t);
    }
    Unexpected& u = messages.emplace_back();
    u.header = header;
    matcher.keep(u);
    return -1;
  }
};

}  // namespace

TEST_CASE("the matcher agrees with a list searched from the front") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int sources : {1, 3, 40}) {
    for (int tags : {1, 2, 200}) {
      Bench bench;
      Model model;
      int posted = 0;
      // phases that favour one side let both queues grow beyond several sizes of the tables
      for (int step = 0; step < 6000; ++step) {
        const int favour = (step / 700) % 3;
        const Model::Key message{2 + 2 * (random() % 3), static_cast<int32_t>(random() % static_cast<unsigned>(sources)),
                                 static_cast<int32_t>(random() % static_cast<unsigned>(tags))};
        Model::Key receive = message;
        if (random() % 6 == 0) receive.source = any_source;
        if (random() % 6 == 0) receive.tag = any_tag;
        const unsigned choice = random() % 10;
        if (choice == 0) {
          const int victim = posted ? static_cast<int>(random() % static_cast<unsigned>(posted)) : -1;
          if (victim < 0) continue;
          const bool expected = model.cancel(victim);
          for (Transfer& t : bench.receives)
            if (bench.number_of(t) == victim) {
              REQUIRE(bench.matcher.cancel(t) == expected);
              t.stage = Stage::done;
              break;
            }
        } else if (choice == 1) {
          Unexpected* found = bench.matcher.find(receive.context, receive.source, receive.tag);
          REQUIRE((found ? static_cast<int>(found->header.length) : -1) == model.probe(receive));
        } else if (choice < (favour == 0 ? 8u : favour == 1 ? 3u : 5u)) {
          REQUIRE(bench.post(receive, posted) == model.post(receive, posted));
          ++posted;
        } else {
          REQUIRE(bench.arrive(message, step) == model.arrive(message, step));
        }
        REQUIRE(bench.matcher.posted() == model.receives.size());
        REQUIRE(bench.matcher.unexpected() == model.messages.size());
      }
    }
  }
}

TEST_CASE("the matcher reports what stands in it") {
  Bench bench;
  bench.post({2, 1, 5}, 0);
  bench.arrive({4, 2, 6}, 100);
  const std::string text = bench.matcher.dump();
  CHECK(text.find("source 1 tag 5") != std::string::npos);
  CHECK(text.find("source 2 tag 6, 100 bytes") != std::string::npos);
}

TEST_CASE("the matcher is asked for a posted receive of some kind") {
  Bench bench;
  const auto from = [&](int32_t source) { return bench.matcher.any_posted([&](const Transfer& t) { return t.source == source; }); };
  CHECK_FALSE(from(1));
  bench.post({2, 1, 5}, 0);
  bench.post({2, 1, 5}, 1);  // alike
  CHECK(from(1));
  CHECK_FALSE(from(2));
  for (int32_t source : {2, 3, int32_t{any_source}}) bench.post({2, source, any_tag}, 2 + source);
  bench.post({2, 4, 5}, 9);
  for (int32_t source : {1, 2, 3, 4, int32_t{any_source}}) CHECK(from(source));
  CHECK_FALSE(from(5));
  size_t asked = 0;
  CHECK_FALSE(bench.matcher.any_posted([&](const Transfer&) { return ++asked > 6; }));
  CHECK(asked == 6);
  bench.arrive({2, 1, 5}, 100);
  CHECK(from(1));
  bench.arrive({2, 1, 5}, 101);
  CHECK_FALSE(from(1));
}
