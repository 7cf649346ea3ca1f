// Variables: parsing, origins, complaints about misspelt names.
#include "runtime/config/config.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace weft::config;

namespace {

Bool flag{"sample", "flag", "no", "a switch"};
Integer count{"sample", "count", "7", "a number"};
Bytes limit{"sample", "limit", "64K", "a size"};
Text name{"sample", "name", "red", "a word"};
Choice mode{"sample", "mode", "auto", "auto, always, never", "one of several words"};
Text bare{"", "bare", "x", "a variable without a module"};

/// Sets an environment variable for the life of the object.
class Environment {
 public:
  Environment(std::string key, const std::string& value) : key_(std::move(key)) { setenv(key_.c_str(), value.c_str(), 1); }
  ~Environment() { unsetenv(key_.c_str()); }

 private:
  std::string key_;
};

bool mentions(const std::vector<std::string>& complaints, const std::string& text) {
  for (const auto& one : complaints)
    if (one.find(text) != std::string::npos) return true;
  return false;
}

uint64_t size_of(const std::string& text) {
  std::string why;
  INFO(text);
  REQUIRE(limit.set(text, Origin::program, &why));
  return limit.get();
}

bool refuses(Variable& variable, const std::string& text) {
  const std::string before = variable.text();
  std::string why;
  const bool refused = !variable.set(text, Origin::program, &why);
  INFO("'" << text << "' -> " << why);
  if (refused) {
    CHECK(variable.text() == before);
    CHECK(why.find(variable.environment_name()) != std::string::npos);
  }
  return refused;
}

}  // namespace

TEST_CASE("variables have their defaults and are listed") {
  CHECK(name.default_value() == std::string("red"));
  CHECK(bare.environment_name() == "WEFT_BARE");
  CHECK(limit.environment_name() == "WEFT_SAMPLE_LIMIT");
  CHECK(find("WEFT_SAMPLE_COUNT") == &count);
  CHECK(find("WEFT_SAMPLE_COUN") == nullptr);
  int seen = 0;
  for (const Variable* v = all(); v; v = v->next()) seen += v->module() == std::string("sample");
  CHECK(seen == 5);
}

TEST_CASE("one of several words") {
  CHECK(mode.get() == "auto");
  for (const char* word : {"never", "always", "auto"}) {
    REQUIRE(mode.set(word, Origin::program));
    CHECK(mode.get() == word);
  }
  for (const char* bad : {"", "Auto", "auto, always", "alway", "never ", ", ", "nevers"}) CHECK(refuses(mode, bad));
  mode.set(mode.default_value(), Origin::built_in);
  Environment set_mode("WEFT_SAMPLE_MODE", "perhaps");
  CHECK(mentions(load_environment(), "WEFT_SAMPLE_MODE=perhaps is not one of auto, always, never; keeping auto"));
}

TEST_CASE("sizes know their units") {
  CHECK(size_of("0") == 0);
  CHECK(size_of("4096") == 4096);
  CHECK(size_of("17B") == 17);
  CHECK(size_of("64K") == 65536);
  CHECK(size_of("64k") == 65536);
  CHECK(size_of("64KB") == 65536);
  CHECK(size_of("64KiB") == 65536);
  CHECK(size_of("3M") == 3u << 20);
  CHECK(size_of("2G") == 2ull << 30);
  CHECK(size_of("1T") == 1ull << 40);
  CHECK(size_of("inf") == uint64_t(std::numeric_limits<int64_t>::max()));
  for (const char* bad : {"", " ", "K", "4X", "4KK", "-4", "-4K", "4 K", "4.5M", "9000000000G", "99999999999999999999", "0x10", "B", "4iB"})
    CHECK(refuses(limit, bad));
}

TEST_CASE("switches and numbers") {
  for (const char* yes : {"1", "yes", "YES", "on", "true", "y"}) {
    REQUIRE(flag.set(yes, Origin::program));
    CHECK(flag.get());
  }
  for (const char* no : {"0", "no", "Off", "false", "n"}) {
    REQUIRE(flag.set(no, Origin::program));
    CHECK_FALSE(flag.get());
  }
  for (const char* bad : {"", "2", "maybe", "yess", "-1"}) CHECK(refuses(flag, bad));
  REQUIRE(count.set("-12", Origin::program));
  CHECK(count.get() == -12);
  for (const char* bad : {"", "12x", "1.5", "64K", "--1", "12 "}) CHECK(refuses(count, bad));
}

TEST_CASE("hostile values never crash and never half-apply") {
  const auto seed = GENERATE(take(3, random(1, 1 << 30)));
  CAPTURE(seed);
  std::mt19937 dice(static_cast<unsigned>(seed));
  const std::string alphabet = "0123456789KMGTiBb-+. xinfyeso\x01\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string text(dice() % 24, ' ');
    for (char& c : text) c = alphabet[dice() % alphabet.size()];
    for (Variable* v : std::initializer_list<Variable*>{&flag, &count, &limit}) {
      const std::string before = v->text();
      if (!v->set(text, Origin::program)) REQUIRE(v->text() == before);
    }
    REQUIRE(limit.get() <= uint64_t(std::numeric_limits<int64_t>::max()));
  }
}

TEST_CASE("the environment is read, and says where a value came from") {
  for (Variable* v : std::initializer_list<Variable*>{&count, &name}) v->set(v->default_value(), Origin::built_in);
  Environment set_count("WEFT_SAMPLE_COUNT", "31"), set_name("WEFT_SAMPLE_NAME", "");
  const auto complaints = load_environment();
  CHECK(count.get() == 31);
  CHECK(count.origin() == Origin::environment);
  CHECK(name.get().empty());
  CHECK_FALSE(mentions(complaints, "SAMPLE"));
}

TEST_CASE("what the program has set stays, whatever the environment says") {
  REQUIRE(count.set("7", Origin::program));
  Environment set_count("WEFT_SAMPLE_COUNT", "31");
  load_environment();
  CHECK(count.get() == 7);
  CHECK(count.origin() == Origin::program);
}

TEST_CASE("misspelt and malformed variables are complained about") {
  Environment misspelt("WEFT_SAMPEL_COUNT", "1"), far("WEFT_ZEBRA_CROSSING_STRIPES", "1"), bad("WEFT_SAMPLE_LIMIT", "lots"),
      log("WEFT_LOG", "info");
  limit.set(limit.default_value(), Origin::built_in);
  const auto before = limit.get();
  const auto complaints = load_environment();
  CHECK(mentions(complaints, "WEFT_SAMPEL_COUNT is not a variable of Weft; did you mean WEFT_SAMPLE_COUNT?"));
  CHECK(mentions(complaints, "WEFT_ZEBRA_CROSSING_STRIPES is not a variable of Weft; `weft info"));
  CHECK(mentions(complaints, "WEFT_SAMPLE_LIMIT=lots is not a size"));
  CHECK(limit.get() == before);
  CHECK_FALSE(mentions(complaints, "WEFT_LOG"));
}

TEST_CASE("reserved names are left alone") {
  reserve_name("WEFT_JOB_TICKET");
  Environment ticket("WEFT_JOB_TICKET", "1");
  CHECK_FALSE(mentions(load_environment(), "WEFT_JOB_TICKET"));
}
