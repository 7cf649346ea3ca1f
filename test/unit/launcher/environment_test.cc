// What a rank's environment holds.
#include "launcher/environment.h"

#include <catch2/catch.hpp>

using namespace weft::launcher;
using Words = std::vector<std::string>;

TEST_CASE("an outer job leaves no traces", "[environment]") {
  const char* const outer[] = {"PATH=/bin", "PMI_RANK=1",        "OMPI_COMM_WORLD_RANK=1", "PMIX_RANK=1",
                               "RANK=7",    "MPI_LOCALRANKID=1", "PMIX_MCA_x=y",           nullptr};
  CHECK(inherited(App{}, outer) == Words{"PATH=/bin", "RANK=7", "PMIX_MCA_x=y"});
  const char* const rank[] = {"PATH=/bin", "RANK=7", "MASTER_PORT=1", "RANKING=1", "WEFT_JOB=weft-1", "WEFT_LOG=info", nullptr};
  CHECK(inherited(App{}, rank) == Words{"PATH=/bin", "RANKING=1", "WEFT_LOG=info"});
}

TEST_CASE("only what is asked for is inherited", "[environment]") {
  const char* const all[] = {"A=1", "AB=2", "B=", nullptr};
  App app;
  app.inherit = Inherit::listed;
  app.listed = {"A", "B", "C"};
  CHECK(inherited(app, all) == Words{"A=1", "B="});
  app.inherit = Inherit::none;
  CHECK(inherited(app, all).empty());
}

TEST_CASE("setting replaces", "[environment]") {
  Words all = {"AB=1", "A=2"};
  set_variable(all, "A", "3");
  set_variable(all, "B", "x=y");
  CHECK(all == Words{"AB=1", "A=3", "B=x=y"});
}

TEST_CASE("local numbers are not global ones", "[environment]") {
  JobEnvironment job{"weft-1", true, "10.0.0.1", 20001, "64"};
  Words all;
  for (auto& [name, value] : contract(job, {5, 8, 1, 4}, {"MASTER_ADDR=mine"})) set_variable(all, name, value);
  for (const char* expected :
       {"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=4",
        "OMPI_COMM_WORLD_NODE_RANK=1", "OMPI_UNIVERSE_SIZE=64", "PMI_RANK=5", "PMI_SIZE=8", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=4",
        "RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "MASTER_PORT=20001", "WEFT_JOB=weft-1"}) {
    INFO(expected);
    CHECK(std::find(all.begin(), all.end(), expected) != all.end());
  }
  for (const std::string& entry : all) CHECK(entry.substr(0, 12) != "MASTER_ADDR=");
}

TEST_CASE("a free port is outside the range of connections", "[environment]") {
  const uint16_t port = free_port();
  CHECK(port >= 20000);
  CHECK(port < 32000);
}
