// The bootstraps that need no server: the fake of the unit tests, and the singleton.
#include "runtime/boot/fake.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/boot/internal.h"

using namespace weft;
using namespace weft::boot;

namespace {

Blob bytes(const std::string& text) {
  auto span = std::as_bytes(std::span(text));
  return Blob(span.begin(), span.end());
}

template <class Body>
void on_all(Fake& fake, Body body) {
  std::vector<std::thread> threads;
  for (auto& rank : fake.ranks) threads.emplace_back([&] { body(*rank); });
  for (auto& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("fake jobs describe themselves consistently", "[boot]") {
  for (uint32_t size : {1u, 2u, 5u, 17u})
    for (uint32_t nodes : {1u, 2u, 3u, 40u}) {
      Fake fake = open_fake_job(size, nodes);
      REQUIRE(fake.ranks.size() == size);
      std::vector<uint32_t> seen(size);
      for (uint32_t r = 0; r < size; r++) {
        const Job& job = fake.ranks[r]->job();
        CHECK(job.rank == r);
        CHECK(job.size == size);
        CHECK(job.name == fake.ranks[0]->job().name);
        CHECK(job.node < job.node_count);
        CHECK(job.node_ranks.at(job.local_rank) == r);
        CHECK(std::is_sorted(job.node_ranks.begin(), job.node_ranks.end()));
        for (uint32_t peer : job.node_ranks) {
          seen[peer] += peer == r;
          CHECK(fake.ranks[peer]->job().node == job.node);
          CHECK(*fake.ranks[r]->host_of({0, peer}) == job.host);
        }
      }
      for (uint32_t s : seen) CHECK(s == 1);
    }
}

TEST_CASE("fake: what is put is got by all, before and after a fence", "[boot]") {
  Fake fake = open_fake_job(6, 2);
  std::atomic<int> wrong{0};
  on_all(fake, [&](Bootstrap& boot) {
    const Job& job = boot.job();
    if (!boot.put("address", bytes("addr " + std::to_string(job.rank)))) wrong++;
    for (uint32_t r = 0; r < job.size; r++) {
      auto got = boot.get({0, r}, "address");  // may have to wait for the put
      if (!got || *got != bytes("addr " + std::to_string(r))) wrong++;
    }
    for (int round = 0; round < 20; round++)
      if (!boot.fence(round % 2)) wrong++;
    if (boot.get({0, job.size}, "address")) wrong++;
  });
  CHECK(wrong == 0);
}

TEST_CASE("fake: fences separate rounds", "[boot]") {
  Fake fake = open_fake_job(5);
  std::atomic<int> inside{0}, wrong{0};
  on_all(fake, [&](Bootstrap& boot) {
    for (int round = 0; round < 50; round++) {
      inside++;
      (void)!boot.fence(false);
      if (inside < 5 * (round + 1)) wrong++;
      (void)!boot.fence(false);
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("fake: a killed rank ends waits and is reported once", "[boot][faults]") {
  Fake fake = open_fake_job(3);
  std::atomic<int> reports{0}, failed{0};
  fake.ranks[0]->on_failure([&](ProcessId who) { reports += who.rank == 2 ? 1 : 100; });
  std::thread fencing([&] { failed += !fake.ranks[0]->fence(false); });
  std::thread getting([&] { failed += !fake.ranks[1]->get({0, 2}, "never"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  fake.job->kill(2);
  fake.job->kill(2);
  fencing.join();
  getting.join();
  CHECK(failed == 2);
  CHECK(reports == 1);
  int late = 0;
  fake.ranks[1]->on_failure([&](ProcessId who) { late += who.rank == 2; });
  CHECK(late == 1);
}

TEST_CASE("fake: injected faults, patience and abort", "[boot][faults]") {
  Fake fake = open_fake_job(2);
  fake.job->fail_next(1, 2);
  CHECK_FALSE(fake.ranks[1]->put("a", {}));
  CHECK_FALSE(fake.ranks[1]->get({0, 0}, "a"));
  CHECK(fake.ranks[1]->put("a", {}));
  fake.job->set_patience(std::chrono::milliseconds(30));
  auto missing = fake.ranks[0]->get({0, 1}, "not there");
  REQUIRE_FALSE(missing);
  CHECK(missing.failure().text.find("not there") != std::string::npos);
  std::thread waiting([&] { CHECK_FALSE(fake.ranks[0]->fence(false)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(fake.job->aborted());
  fake.ranks[1]->abort(7, "enough");
  waiting.join();
  REQUIRE(fake.job->aborted());
  CHECK(fake.job->aborted()->rank == 1);
  CHECK(fake.job->aborted()->code == 7);
  CHECK(fake.job->aborted()->message == "enough");
}

TEST_CASE("a singleton is rank 0 of 1 and keeps what it is given", "[boot]") {
  auto boot = open_singleton();
  const Job& job = boot->job();
  CHECK(job.size == 1);
  CHECK(job.node_ranks == std::vector<uint32_t>{0});
  CHECK(job.secret.size() == 64);
  CHECK(job.secret != open_singleton()->job().secret);
  CHECK(job.cpus >= 1);
  CHECK_FALSE(job.host.empty());
  CHECK(boot->put("x", bytes("1")));
  CHECK(boot->put("x", bytes("22")));
  CHECK(*boot->get({0, 0}, "x") == bytes("22"));
  CHECK_FALSE(boot->get({0, 0}, "y"));
  CHECK_FALSE(boot->get({0, 1}, "x"));
  CHECK(boot->fence(true));
  CHECK_FALSE(boot->process_set("nope"));
  boot->finalize();
  boot->finalize();
}

TEST_CASE("launchers that we cannot join are recognised", "[boot]") {
  struct Case {
    const char* text;
    std::vector<std::pair<const char*, const char*>> variables;
    bool foreign;
  };
  const Case cases[] = {
      {"nothing", {}, false},
      {"Hydra", {{"PMI_FD", "7"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}, true},
      {"Hydra, one rank", {{"PMI_FD", "7"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, false},
      {"Open MPI", {{"OMPI_COMM_WORLD_SIZE", "2"}}, true},
      {"Weft's own names without PMIx", {{"WEFT_JOB", "weft-1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMI_SIZE", "2"}}, true},
      {"Weft's own names, one rank", {{"WEFT_JOB", "weft-1"}, {"OMPI_COMM_WORLD_SIZE", "1"}, {"PMI_SIZE", "1"}}, false},
      {"inside an allocation, not a step", {{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}, false},
      {"srun step", {{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}}, true},
  };
  const char* all[] = {"PMI_FD",   "PMI_PORT",     "PMI_RANK",     "PMI_SIZE",     "OMPI_COMM_WORLD_SIZE",
                       "WEFT_JOB", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_ID"};
  for (const Case& c : cases) {
    INFO(c.text);
    for (const char* name : all) unsetenv(name);
    for (auto& [name, value] : c.variables) setenv(name, value, 1);
    CHECK(foreign_launcher().empty() == !c.foreign);
  }
  for (const char* name : all) unsetenv(name);
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  CHECK(foreign_launcher().find("Open MPI") != std::string::npos);
  setenv("WEFT_JOB", "weft-1", 1);
  CHECK(foreign_launcher().find("Weft") != std::string::npos);
  setenv("PMI_FD", "7", 1);  // Hydra, started by a rank of ours
  setenv("PMI_SIZE", "4", 1);
  CHECK(foreign_launcher().find("PMI") != std::string::npos);
  for (const char* name : all) unsetenv(name);
}
