// Command lines of mpirun, as users of all MPIs write them.
#include "launcher/options.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

using namespace weft::launcher;
using Words = std::vector<std::string>;

namespace {
Parsed run(Words words) { return parse(words, 6); }
}  // namespace

TEST_CASE("spellings of the number of ranks", "[options]") {
  for (Words head : {Words{"-n", "4"},
                     {"-np", "4"},
                     {"--np", "4"},
                     {"-c", "4"},
                     {"--n", "4"},
                     {"-n=4"},
                     {"--np=4"},
                     {"-ppn", "4"},
                     {"-N", "4", "-n", "4"}}) {
    head.insert(head.end(), {"prog", "-n", "9", "--help"});
    INFO(head[0]);
    const Parsed parsed = run(head);
    REQUIRE(parsed.run);
    CHECK(parsed.options.ranks() == 4);
    CHECK(parsed.options.apps.at(0).command == Words{"prog", "-n", "9", "--help"});
  }
  CHECK(run({"prog"}).options.ranks() == 6);
}

TEST_CASE("what users write", "[options]") {
  setenv("WEFT_TEST_PASSED_ON", "value", 1);
  const Parsed parsed = run({"--allow-run-as-root",
                             "-oversubscribe",
                             "--bind-to",
                             "none",
                             "-tag-output",
                             "-x",
                             "A=1=2",
                             "-x",
                             "WEFT_TEST_PASSED_ON",
                             "-genv",
                             "B",
                             "2",
                             "--set",
                             "pml.eager_limit=4K",
                             "-wdir",
                             "/tmp",
                             "--timeout",
                             "1.5",
                             "-v",
                             "--stdin",
                             "none",
                             "-np",
                             "2",
                             "./a.out",
                             "--",
                             "x"});
  REQUIRE(parsed.run);
  CHECK(parsed.warnings.empty());
  const Options& options = parsed.options;
  CHECK(options.output.tag);
  CHECK(options.verbose);
  CHECK(options.timeout_s == 1.5);
  CHECK(options.input == InputTo::none);
  const App& app = options.apps.at(0);
  CHECK(app.ranks == 2);
  CHECK(app.folder == "/tmp");
  CHECK(app.command == Words{"./a.out", "--", "x"});
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"B", "2"}, {"A", "1=2"}, {"WEFT_TEST_PASSED_ON", "value"}, {"WEFT_PML_EAGER_LIMIT", "4K"}};
  CHECK(app.variables == expected);
  CHECK(run({"-l", "prog"}).options.output.tag);
}

TEST_CASE("several programs", "[options]") {
  const Parsed parsed = run({"-n", "2", "-x", "A=1", "first", "x", ":", "-n", "3", "--wdir", "/", "second", ":", "third"});
  REQUIRE(parsed.run);
  const Options& options = parsed.options;
  REQUIRE(options.apps.size() == 3);
  CHECK(options.ranks() == 6);
  CHECK(options.apps[1].command == Words{"second"});
  CHECK(options.apps[1].variables.size() == 1);
  for (auto [rank, app] : {std::pair{0u, 0u}, {1u, 0u}, {2u, 1u}, {4u, 1u}, {5u, 2u}}) CHECK(options.app_of(rank) == app);
  CHECK_FALSE(run({"-n", "2", "first", ":"}).run);
}

TEST_CASE("process sets and kinds of memory", "[options]") {
  const Parsed parsed = run({"--pset", "a,b", "-pset", "c", "-memory-alloc-kinds", "mpi,cuda:device", "first", ":", "second"});
  REQUIRE(parsed.run);
  CHECK(parsed.options.apps[0].sets == Words{"a", "b", "c"});
  CHECK(parsed.options.apps[1].sets.empty());
  using Variables = std::vector<std::pair<std::string, std::string>>;
  CHECK(parsed.options.apps[0].variables == Variables{{"WEFT_MEM_ALLOC_KINDS", "mpi,cuda:device"}});
  for (const char* name : {"mpi://WORLD", "mpix://MINE", "", "a,,b"}) CHECK_FALSE(run({"--pset", name, "first"}).run);
}

TEST_CASE("whose environment is set", "[options]") {
  using Variables = std::vector<std::pair<std::string, std::string>>;
  const Parsed parsed = run({"-genv",  "G",   "1",        "-env",   "L=2", "-x",       "X=3", "first",     ":", "-env",  "M",     "4",
                             "--genv", "H=5", "-envnone", "second", ":",   "-envlist", "A,B", "-genvlist", "C", "--env", "torch", "third"});
  REQUIRE(parsed.run);
  const auto& apps = parsed.options.apps;
  REQUIRE(apps.size() == 3);
  CHECK(apps[0].variables == Variables{{"G", "1"}, {"X", "3"}, {"H", "5"}, {"L", "2"}});
  CHECK(apps[1].variables == Variables{{"G", "1"}, {"X", "3"}, {"H", "5"}, {"M", "4"}});
  CHECK(apps[2].command == Words{"third"});
  CHECK(apps[0].inherit == Inherit::listed);
  CHECK(apps[0].listed == Words{"C"});
  CHECK(apps[1].inherit == Inherit::none);
  CHECK(apps[2].listed == Words{"A", "B"});
  CHECK(parsed.options.torch);
  CHECK_FALSE(run({"prog"}).options.torch);
  CHECK_FALSE(run({"--env", "=1", "prog"}).run);
  setenv("WEFT_TEST_STAR_1", "one", 1);
  CHECK(run({"-x", "WEFT_TEST_STAR_*", "prog"}).options.apps[0].variables == Variables{{"WEFT_TEST_STAR_1", "one"}});
  CHECK(run({"-x", "WEFT_TEST_NOT_THERE", "prog"}).warnings.size() == 1);
}

TEST_CASE("input and output", "[options]") {
  Options options = run({"--output", "tag,timestamp,dir=a/b", "prog"}).options;
  CHECK(options.output.tag);
  CHECK(options.output.timestamp);
  CHECK(options.output.copy);
  CHECK(options.output.folder == "a/b");
  CHECK_FALSE(run({"--output=dir=x,nocopy", "prog"}).options.output.copy);
  CHECK(run({"-timestamp-output", "prog"}).options.output.timestamp);
  for (const char* bad : {"tga", "dir=", "dir", "tag,,dir=x", "nocopy"}) {
    INFO(bad);
    CHECK_FALSE(run({"--output", bad, "prog"}).run);
  }
  CHECK(run({"prog"}).options.input == InputTo::one);
  CHECK(run({"prog"}).options.input_rank == 0);
  CHECK(run({"--stdin", "5", "prog"}).options.input_rank == 5);
  CHECK(run({"--stdin", "all", "prog"}).options.input == InputTo::all);
  CHECK(run({"--stdin", "none", "prog"}).options.input == InputTo::none);
  CHECK(run({"--stdin", "2", "-n", "1", "first", ":", "-n", "2", "second"}).run);
  for (const char* bad : {"6", "-1", "x", "1x", "", "99999999999999999999"}) {
    INFO(bad);
    CHECK_FALSE(run({"--stdin", bad, "prog"}).run);
  }
}

TEST_CASE("what is not there yet is said", "[options]") {
  CHECK(run({"--mca", "btl", "tcp", "--mca", "x", "y", "prog"}).warnings.size() == 1);
  CHECK(run({"--mca", "btl", "tcp", "prog"}).run);
  CHECK(run({"--mca", "btl", "tcp", "one", ":", "--mca", "x", "y", "two"}).warnings.size() == 1);
  CHECK(run({"--host", "localhost:4", "prog"}).run);
  for (Words words : {Words{"--hostfile", "f", "prog"},
                      {"--rankfile", "f", "prog"},
                      {"-configfile", "f"},
                      {"--launcher", "lsf", "prog"},
                      {"--fanout", "0", "prog"},
                      {"--stdin", "9", "prog"}}) {
    const Parsed parsed = run(words);
    INFO(words[0]);
    CHECK_FALSE(parsed.run);
    CHECK(parsed.exit_code == exit_usage);
    CHECK_FALSE(parsed.text.empty());
  }
}

TEST_CASE("where ranks run", "[options]") {
  using weft::placement::Unit;
  const Parsed parsed =
      run({"-H", "localhost:3,b", "--map-by", "package:PE=2", "-map-by", ":oversubscribe", "--rank-by", "fill", "-bind-to", "core",
           "--cpu-set", "0-3", "--use-hwthread-cpus", "--report-bindings", "--display", "map", "--dry-run", "prog"});
  REQUIRE(parsed.run);
  const Options& options = parsed.options;
  REQUIRE(options.request.hosts.size() == 2);
  CHECK(options.request.hosts[0].slots == 3);
  CHECK(options.apps[0].hosts == Words{"localhost", "b"});
  CHECK(options.request.map_by == Unit::package);
  CHECK(options.request.cores_each == 2);
  CHECK(options.request.oversubscribe);
  CHECK(options.request.bind_to == Unit::core);
  CHECK(options.request.cpu_set.to_string() == "0-3");
  CHECK(options.request.threads_are_cores);
  CHECK(options.report_bindings);
  CHECK(options.display_map);
  CHECK(options.dry_run);
  CHECK_FALSE(options.counted);
  CHECK(run({"-n", "2", "prog"}).options.counted);
  CHECK(run({"prog", ":", "-ppn", "3", "other"}).options.apps[1].per_host == 3);
  CHECK(run({"--map-by", "sockt", "prog"}).text.find("did you mean socket") != std::string::npos);
}

TEST_CASE("words of other launchers, with one dash and with two", "[options]") {
  using weft::placement::Unit;
  const std::vector<Words> flags = {{"allow-run-as-root"}, {"oversubscribe"},    {"use-hwthread-cpus"},
                                    {"tag-output"},        {"timestamp-output"}, {"get-stack-traces"},
                                    {"report-bindings"},   {"envall"},           {"print-all-exitcodes"},
                                    {"prepend-rank"},      {"print-rank-map"},   {"verbose"},
                                    {"pernode"},           {"bynode"},           {"rr"},
                                    {"bind-to-none"}};
  const std::vector<Words> valued = {{"np", "2"},
                                     {"map-by", "core"},
                                     {"rank-by", "slot"},
                                     {"bind-to", "none"},
                                     {"host", "localhost"},
                                     {"hosts", "localhost"},
                                     {"wdir", "/"},
                                     {"output", "tag"},
                                     {"stdin", "none"},
                                     {"timeout", "5"},
                                     {"display", "map"},
                                     {"forward-signals", "USR1"},
                                     {"ppn", "2"},
                                     {"perhost", "2"},
                                     {"npernode", "2"},
                                     {"npersocket", "2"},
                                     {"genvlist", "A,B"},
                                     {"envlist", "A"},
                                     {"outfile-pattern", "o.%r"},
                                     {"errfile-pattern", "e.%r"},
                                     {"bootstrap", "ssh"},
                                     {"launcher", "rsh"},
                                     {"bootstrap-exec", "ssh -4"},
                                     {"iface", "eth0"},
                                     {"gpus-per-proc", "2"},
                                     {"cpus-per-proc", "2"}};
  for (const std::string dashes : {"-", "--"}) {
    for (const auto* list : {&flags, &valued})
      for (Words words : *list) {
        words[0].insert(0, dashes);
        words.push_back("prog");
        const Parsed parsed = run(words);
        INFO(words[0] << ": " << parsed.text);
        REQUIRE(parsed.run);
        CHECK(parsed.options.apps.at(0).command == Words{"prog"});
      }
    for (Words words : {Words{"mca", "a", "b"}, {"genv", "A", "b"}, {"env", "A", "b"}}) {
      words[0].insert(0, dashes);
      words.push_back("prog");
      CHECK(run(words).run);
    }
  }
  CHECK(run({"-f", "/dev/null", "prog"}).text.find("no host") != std::string::npos);
  const Options options =
      run({"-outfile-pattern", "o.%r", "-errfile-pattern", "e.%h", "-print-all-exitcodes", "-iface", "ib0", "-s", "all", "prog"}).options;
  CHECK(options.output.out_pattern == "o.%r");
  CHECK(options.output.error_pattern == "e.%h");
  CHECK(options.print_exits);
  CHECK(options.interfaces == "ib0");
  CHECK(options.input == InputTo::all);
  CHECK(run({"-npersocket", "3", "prog"}).options.request.per_unit == 3);
  CHECK(run({"-rr", "prog"}).options.request.map_by == Unit::node);
  CHECK(run({"-gpus-per-proc", "2", "prog"}).options.request.gpus_each == 2);
  CHECK(run({"-launcher", "rsh", "prog"}).options.agent == "rsh");
  CHECK(run({"-launcher", "lsf", "prog"}).text.find("ssh") != std::string::npos);
  CHECK_FALSE(run({"-npersocket", "prog"}).run);
}

TEST_CASE("how ssh is told its options", "[options]") {
  CHECK(run({"-bootstrap=ssh", "-bootstrap-exec-args", "-p 2222 -i key", "prog"}).options.agent == "ssh -p 2222 -i key");
  CHECK(run({"-launcher-exec", "myssh", "-launcher-exec-args", "-4", "prog"}).options.agent == "myssh -4");
  const Parsed parsed = run({"-mca", "plm_rsh_args", "-p 2222", "-mca", "pml", "ob1", "prog"});
  CHECK(parsed.options.agent == "ssh -p 2222");
  REQUIRE(parsed.warnings.size() == 1);
  CHECK(parsed.warnings[0].find("plm") == std::string::npos);
  CHECK(run({"--mca", "plm_rsh_agent=rsh", "prog"}).options.agent == "rsh");
}

TEST_CASE("variables of Intel's MPI", "[options]") {
  using weft::placement::Unit;
  const Parsed off = run({"-genv", "I_MPI_PIN", "0", "-n", "2", "prog"});
  CHECK(off.options.request.bind_to == Unit::node);
  CHECK(off.warnings.empty());
  CHECK(run({"-genv", "I_MPI_PIN", "0", "-bind-to", "core", "prog"}).options.request.bind_to == Unit::core);
  const Parsed others = run({"-genv", "I_MPI_DEBUG", "5", "-env", "I_MPI_FABRICS", "shm", "a", ":", "-env", "I_MPI_DEBUG", "5", "b"});
  REQUIRE(others.run);
  REQUIRE(others.warnings.size() == 1);
  CHECK(others.warnings[0] == "I_MPI_DEBUG, I_MPI_FABRICS: variables of Intel's MPI, without effect here");
}

TEST_CASE("programs in a file", "[options]") {
  char name[] = "/tmp/weft-configfile-XXXXXX";
  const int fd = mkstemp(name);
  REQUIRE(fd >= 0);
  const std::string text = "# two programs\n-n 2 first 'a b'\n-n 3 second\n";
  REQUIRE(write(fd, text.data(), text.size()) == ssize_t(text.size()));
  close(fd);
  const Parsed parsed = run({"-v", "-configfile", name});
  REQUIRE(parsed.run);
  CHECK(parsed.options.verbose);
  CHECK(parsed.options.ranks() == 5);
  CHECK(parsed.options.apps.at(0).command == Words{"first", "a b"});
  CHECK(parsed.options.apps.at(1).command == Words{"second"});
  CHECK(run({"-configfile", name, "prog"}).text.find("leave prog out") != std::string::npos);
  unlink(name);
}

TEST_CASE("mistakes are named", "[options]") {
  auto text = [](Words words) {
    const Parsed parsed = run(words);
    CHECK_FALSE(parsed.run);
    CHECK(parsed.exit_code == exit_usage);
    return parsed.text;
  };
  CHECK(text({}).find("no program") != std::string::npos);
  CHECK(text({"-n", "2"}).find("no program") != std::string::npos);
  CHECK(text({"--tag-ouput", "prog"}).find("--tag-output") != std::string::npos);
  CHECK(text({"--time", "3", "prog"}).find("--timeout") != std::string::npos);
  CHECK(text({"-gnev", "A", "1", "prog"}).find("--genv") != std::string::npos);
  CHECK(text({"-n", "2", "--nonsense-option", "prog"}).find("--nonsense-option") != std::string::npos);
  for (const char* bad : {"x", "-1", "0", "99999999999", "2x", ""}) {
    INFO(bad);
    CHECK_FALSE(text({"-n", bad, "prog"}).empty());
  }
  CHECK(text({"-x", "=1", "prog"}).find("VAR") != std::string::npos);
  CHECK(text({"--set", "novalue", "prog"}).find("VAR=VALUE") != std::string::npos);
  CHECK_FALSE(text({"--timeout", "-3", "prog"}).empty());
}

TEST_CASE("help and version end well", "[options]") {
  for (Words words : {Words{"--help"}, {"-h"}, {"--version"}, {"-V"}, {"-n", "2", "--help"}}) {
    const Parsed parsed = run(words);
    CHECK_FALSE(parsed.run);
    CHECK(parsed.exit_code == 0);
    CHECK_FALSE(parsed.text.empty());
  }
}
