// A rank without MPI: joins its job through runtime/boot and then behaves well or badly, as told. Run under launchers.
//   boot_client hello              join, leave
//   boot_client exchange           put, fence, get from all, twice; get without a fence; agree on secret, size, places
//   boot_client abort RANK CODE    one rank calls abort, the others wait
//   boot_client exit RANK CODE     one rank exits without leaving the job, the others wait
//   boot_client late RANK CODE     one rank leaves the job in order and then exits with CODE
//   boot_client signal RANK SIG    one rank kills itself, the others wait
//   boot_client wait               join, print "ready", wait for ever
//   boot_client orphan             as wait, each rank with a child and a child in a session of its own
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/boot/boot.h"

using namespace weft;
using boot::Blob;

namespace {

[[noreturn]] void wrong(const boot::Job& job, const std::string& what) {
  fprintf(stderr, "rank %u: %s\n", job.rank, what.c_str());
  exit(99);
}

void put(boot::Bootstrap& boot, const std::string& name, const std::string& text) {
  auto done = boot.put(name, std::as_bytes(std::span(text)));
  if (!done) wrong(boot.job(), done.failure().text);
}

std::string get(boot::Bootstrap& boot, uint32_t rank, const std::string& name) {
  auto blob = boot.get({0, rank}, name);
  if (!blob) wrong(boot.job(), blob.failure().text);
  return std::string(reinterpret_cast<const char*>(blob->data()), blob->size());
}

void fence(boot::Bootstrap& boot, bool collect) {
  auto done = boot.fence(collect);
  if (!done) wrong(boot.job(), done.failure().text);
}

void exchange(boot::Bootstrap& boot) {
  const auto& job = boot.job();
  put(boot, "early", "early " + std::to_string(job.rank));
  for (uint32_t r = 0; r < job.size; r++)
    if (get(boot, r, "early") != "early " + std::to_string(r)) wrong(job, "wrong early value");
  for (int round = 0; round < 2; round++) {
    const std::string name = "value" + std::to_string(round), body(1000 * size_t(round) + job.rank, 'x');
    put(boot, name, body);
    fence(boot, round == 0);
    for (uint32_t r = 0; r < job.size; r++)
      if (get(boot, r, name).size() != 1000 * size_t(round) + r) wrong(job, "wrong size of " + name);
  }
  put(boot, "late", "late");  // after others may have cached what we had: they must see it none the less
  if (get(boot, (job.rank + 1) % job.size, "late") != "late") wrong(job, "wrong late value");
  put(boot, "secret seen", job.secret);
  put(boot, "host seen", job.host);
  for (uint32_t r = 0; r < job.size; r++) {
    if (get(boot, r, "secret seen") != job.secret) wrong(job, "secrets differ");
    auto host = boot.host_of({0, r});
    if (!host || *host != get(boot, r, "host seen")) wrong(job, "host of rank " + std::to_string(r) + " unknown or wrong");
  }
  if (job.secret.size() != 64) wrong(job, "bad secret");
  if (job.node_ranks.at(job.local_rank) != job.rank) wrong(job, "bad local rank");
  if (!job.cpus || !job.node_count) wrong(job, "no CPUs or nodes");
  fence(boot, false);
}

void make_children() {
  if (fork() == 0) {
    pause();
    _exit(0);
  }
  if (fork() == 0) {  // a daemon that leaves the process group and loses its parent
    setsid();
    if (fork() == 0) pause();
    _exit(0);
  }
}

[[noreturn]] void wait_for_ever() {
  for (;;) pause();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "hello";
  const uint32_t chosen = argc > 2 ? uint32_t(atoi(argv[2])) : 0;
  const int code = argc > 3 ? atoi(argv[3]) : 0;
  const uint64_t begin = now_ns();
  auto opened = boot::open();
  if (!opened) {
    fprintf(stderr, "%s\n", opened.failure().text.c_str());
    return 98;
  }
  auto& boot = **opened;
  const auto& job = boot.job();
  if (getenv("BOOT_CLIENT_TIMES")) fprintf(stderr, "rank %u: open %.2f ms\n", job.rank, double(now_ns() - begin) / 1e6);
  if (what == "hello") {
    printf("rank %u of %u, local %u of %zu, node %u of %u on %s, %u cpus, by %s\n", job.rank, job.size, job.local_rank,
           job.node_ranks.size(), job.node, job.node_count, job.host.c_str(), job.cpus, job.launcher.c_str());
  } else if (what == "exchange") {
    exchange(boot);
    if (job.rank == 0) printf("exchange of %u ranks passed\n", job.size);
  } else if (what == "wait" || what == "orphan") {
    if (what == "orphan") make_children();
    fence(boot, false);
    if (job.rank == 0) printf("ready\n");
    fflush(stdout);
    wait_for_ever();
  } else if (what == "late") {
    boot.finalize();
    return job.rank == chosen ? code : 0;
  } else {
    fence(boot, false);
    if (job.rank != chosen) wait_for_ever();
    if (what == "abort") boot.abort(code, "because the test says so");
    if (what == "exit") _exit(code);
    if (what == "signal") {
      const rlimit none{};
      setrlimit(RLIMIT_CORE, &none);
      raise(code);
    }
    wait_for_ever();
  }
  const uint64_t leaving = now_ns();
  boot.finalize();
  if (getenv("BOOT_CLIENT_TIMES")) fprintf(stderr, "rank %u: finalize %.2f ms\n", job.rank, double(now_ns() - leaving) / 1e6);
  return 0;
}
