// The table of weft tune: what is read and written, what newer ones replace, what it says in the words of WEFT_COLL; hostile files.
#include "runtime/config/coll_table.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "launcher/coll_words.h"

using namespace weft;
using namespace weft::config;

namespace {

CollTable::Measurement measured(const char* collective, uint64_t bytes, std::vector<CollTable::Time> times, const char* usual = "") {
  return {.collective = collective, .ranks = 4, .hosts = 2, .bytes = bytes, .run = 0, .usual = usual, .times = std::move(times)};
}

CollTable sample() {
  CollTable t;
  t.runs = {{.date = "2026-03-01T12:00:00Z", .weft = "1", .cpu = "a \"cpu\"", .ranks = 4, .hosts = {"n1", "n2"}, .network = {"tcp eth0"}}};
  t.machine = {{"leaf.latency", {1500.5, 0}}, {"copy", {0.03, 0}}};
  t.settings = {{"shm.get_from", {1 << 20, 0}}};
  t.measurements = {measured("allreduce", 8, {{"ring", 100}, {"rabenseifner", 50}}),
                    measured("allreduce", 128, {{"ring", 100}, {"rabenseifner", 50}}),
                    measured("allreduce", 2048, {{"ring", 40}, {"rabenseifner", 50}}), measured("barrier", 0, {{"dissemination", 7}})};
  return t;
}

std::string wrong_with(const std::string& json) {
  const auto table = CollTable::parse(json);
  return table ? "nothing" : table.failure().text;
}

/// The sample with one part of its text changed.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = sample().to_json();
  const size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a table is what it was when it is read again") {
  const std::string text = sample().to_json();
  const auto again = CollTable::parse(text);
  REQUIRE(again);
  CHECK(again->to_json() == text);
  CHECK(again->runs[0].cpu == "a \"cpu\"");
  CHECK(again->machine_words() == "copy=0.03,leaf.latency=1500.5");
}

TEST_CASE("what a table says in the words of WEFT_COLL") {
  CollTable t = sample();
  CHECK(t.words(100) == "allreduce@4/2:-512=rabenseifner;allreduce@4/2:512-8192=ring;barrier@4/2=dissemination;");
  CHECK(t.words(3) == "");
  REQUIRE(t.about("allreduce", 4, 2, 511));
  CHECK(t.about("allreduce", 4, 2, 511)->bytes == 128);
  CHECK(t.about("allreduce", 4, 2, 512)->bytes == 2048);
  CHECK(t.about("allreduce", 4, 2, 8192) == nullptr);
  CHECK(t.about("allreduce", 4, 1, 8) == nullptr);
  CHECK(CollTable().about("allreduce", 4, 1, 8) == nullptr);
}

TEST_CASE("what is usual stays where others are hardly faster") {
  CHECK(measured("scan", 8, {{"chain", 100}, {"doubling", 96}}, "chain").best().algorithm == "chain");
  CHECK(measured("scan", 8, {{"chain", 100}, {"doubling", 94}}, "chain").best().algorithm == "doubling");
  CHECK(measured("scan", 8, {{"chain", 100}, {"doubling", 99}}, "gone").best().algorithm == "doubling");
}

TEST_CASE("newer measurements replace older ones on the same, and runs that nothing is from go") {
  CollTable t = sample(), newer = sample();
  newer.runs[0].date = "2027";
  newer.machine = {{"copy", {0.01, 0}}, {"reduce", {0.02, 0}}};
  newer.settings = {{"shm.get_from_crowded", {8192, 0}}};
  newer.measurements = {measured("allreduce", 8, {{"ring", 1}}), measured("scan", 8, {{"chain", 3}})};
  t.merge(newer);
  CHECK(t.measurements.size() == 5);
  CHECK(t.measurements[0].best().algorithm == "ring");
  CHECK(t.runs[t.measurements[0].run].date == "2027");
  CHECK(t.runs[t.measurements[1].run].date == "2026-03-01T12:00:00Z");
  CHECK(t.machine_words() == "copy=0.01,leaf.latency=1500.5,reduce=0.02");
  CHECK(t.settings.size() == 2);
  newer = sample();
  newer.runs[0].date = "2028";
  t.merge(newer);
  CHECK(t.runs.size() == 2);  // of the first one nothing is left
  CollTable empty;
  empty.merge(sample());
  CHECK(empty.to_json() == sample().to_json());
}

TEST_CASE("files that are no tables are refused, with what is wrong") {
  CHECK(wrong_with("") == "it is not JSON");
  CHECK(wrong_with("[1]") == "it is no JSON object");
  CHECK(wrong_with("{}").find("no table of weft tune") != std::string::npos);
  CHECK(wrong_with(changed("\"weft-collectives\": 1", "\"weft-collectives\": 2")).find("another version") != std::string::npos);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"\"ranks\": 4", "\"ranks\": -4"},
                                                                                 {"\"ranks\": 4", "\"ranks\": 4e99"},
                                                                                 {"\"ranks\": 4", "\"ranks\": 99999999999"},
                                                                                 {"\"hosts\": 2", "\"hosts\": 5"},
                                                                                 {"\"hosts\": 2", "\"hosts\": 0"},
                                                                                 {"\"bytes\": 128", "\"bytes\": 18446744073709551615"},
                                                                                 {"\"run\": 0", "\"run\": 1"},
                                                                                 {"\"ring\": 100.0", "\"ring\": -1"},
                                                                                 {"\"ring\": 100.0", "\"ring;bcast\": 1"},
                                                                                 {"\"ring\": 100.0", "\"ring\": null"},
                                                                                 {"\"allreduce\"", "\"all=reduce\""},
                                                                                 {"\"allreduce\"", "[]"},
                                                                                 {"\"copy\"", "\"copy,x\""},
                                                                                 {"\"shm.get_from\"", "\"shm.cma\""},
                                                                                 {"1048576.0", "1e300"},
                                                                                 {"0.03", "\"0.03\""},
                                                                                 {"\"tcp eth0\"", "7"}}) {
    INFO(from << " -> " << to);
    CHECK(wrong_with(changed(from, to)) != "nothing");
  }
  CHECK(wrong_with(std::string(1 << 20, '[')) == "it is not JSON");
}

TEST_CASE("damaged files are refused or hold what can be used") {
  const std::string whole = sample().to_json();
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string text = whole;
    if (random() % 3 == 0) text.resize(random() % text.size());
    for (int n = static_cast<int>(random() % 4); n > 0 && !text.empty(); --n)
      text[random() % text.size()] = "0-9e.{}[]\",:x\xff"[random() % 14];
    const auto table = CollTable::parse(text);
    if (!table) continue;
    CHECK(table->words(INT32_MAX).find_first_not_of("abcdefghijklmnopqrstuvwxyz_.0123456789@/:-=;") == std::string::npos);
    (void)table->about("allreduce", 4, 2, random());
    CHECK(CollTable::parse(table->to_json()));
  }
}

TEST_CASE("which table holds, and what mpirun hands out of it") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("weft-table-" + std::to_string(getpid()));
  fs::create_directories(root / "etc/weft");
  fs::create_directories(root / "bin");
  fs::create_directories(root / "home/weft");
  setenv("XDG_CONFIG_HOME", (root / "home").c_str(), 1);
  unsetenv("WEFT_COLL_TABLE");
  const std::string bin = root / "bin";
  CHECK(find_coll_table("", bin) == "");
  std::ofstream(root / "etc/weft/collectives.json") << sample().to_json();
  CHECK(find_coll_table("", bin) == bin + "/../etc/weft/collectives.json");
  std::ofstream(root / "home/weft/collectives.json") << "{}";
  CHECK(find_coll_table("", bin) == own_coll_table());
  CHECK(find_coll_table("none", bin) == "");
  CHECK(find_coll_table("x", bin) == "x");

  launcher::Options options;
  options.apps.resize(2);
  options.apps[0].ranks = options.apps[1].ranks = 2;
  options.apps[1].variables = {{"WEFT_COLL_TUNED", "bcast=chain"}};  // ranks would not agree
  CHECK(launcher::hand_out_table(options, bin).find("no table of weft tune is used: ") == 0);
  CHECK(options.apps[1].variables.empty());
  options.apps[0].variables = {{"WEFT_COLL_TABLE", bin + "/../etc/weft/collectives.json"}};
  CHECK(launcher::hand_out_table(options, bin) == "");
  for (const launcher::App& app : options.apps) {
    REQUIRE(app.variables.size() >= 3);
    CHECK(app.variables.end()[-3] == std::pair<std::string, std::string>("WEFT_COLL_TUNED", sample().words(4)));
    CHECK(app.variables.end()[-2].first == "WEFT_COLL_MACHINE");
    CHECK(app.variables.end()[-1] == std::pair<std::string, std::string>("WEFT_SHM_GET_FROM", "1048576"));
  }
  options.apps[0].variables = {{"WEFT_COLL_TABLE", bin + "/../etc/weft/collectives.json"}};
  options.apps[1].variables = {{"WEFT_SHM_GET_FROM", "4M"}};
  CHECK(launcher::hand_out_table(options, bin) == "");
  CHECK(options.apps[0].variables.back().first == "WEFT_COLL_MACHINE");  // the user's word holds
  options.apps[0].variables = {{"WEFT_COLL_TABLE", "none"}};
  options.apps[1].variables.clear();
  CHECK(launcher::hand_out_table(options, bin) == "");
  CHECK(options.apps[1].variables.empty());
  options.apps[0].variables = {{"WEFT_COLL_TABLE", root / "nowhere"}};
  CHECK(launcher::hand_out_table(options, bin).find("nowhere: cannot be read") != std::string::npos);
  fs::remove_all(root);
}

TEST_CASE("the network that mpirun hands out: the same lines for the ranks of all programs") {
  namespace fs = std::filesystem;
  const fs::path file = fs::temp_directory_path() / ("weft-network-" + std::to_string(getpid()));
  unsetenv("WEFT_NETWORK");
  unsetenv("WEFT_COLL_NETWORK");
  launcher::Options options;
  options.apps.resize(2);
  const auto handed_out = [&](size_t app) {
    std::string last;
    for (const auto& [name, value] : options.apps[app].variables)
      if (name == "WEFT_COLL_NETWORK") last = value;
    return last;
  };
  CHECK(launcher::hand_out_network(options) == "");
  CHECK(options.apps[0].variables.empty());
  std::ofstream(file) << "# racks\nSwitchName=a Nodes=n[1-2] LinkSpeed=1\nSwitchName=b  Nodes=n3\n";
  options.apps[1].variables = {{"WEFT_NETWORK", file}};
  CHECK(launcher::hand_out_network(options) == "");
  for (size_t app = 0; app < 2; ++app) CHECK(handed_out(app) == "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n3\n");
  options.apps[0].variables = {{"WEFT_COLL_NETWORK", "SwitchName=c Nodes=n1"}};  // the user's word holds, for all
  options.apps[1].variables = {{"WEFT_NETWORK", file}};
  CHECK(launcher::hand_out_network(options) == "");
  for (size_t app = 0; app < 2; ++app) CHECK(handed_out(app) == "SwitchName=c Nodes=n1");
  options.apps[0].variables.clear();
  options.apps[1].variables = {{"WEFT_NETWORK", file}};
  std::ofstream(file) << "SwitchName=a";
  CHECK(launcher::hand_out_network(options).find("collectives go by no network: line 1 of ") == 0);
  CHECK(handed_out(0) == "");
  {
    std::ofstream many(file);
    for (int i = 0; i < 20000; ++i) many << "SwitchName=s" << i << " Nodes=n" << i << "\n";
  }
  CHECK(launcher::hand_out_network(options).find("names too much for one job") != std::string::npos);
  CHECK(handed_out(0) == "");
  fs::remove(file);
}
