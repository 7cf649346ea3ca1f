// A rank without MPI: joins its job through runtime/boot and then behaves well or badly, as told. Run under launchers.
//   boot_client hello              join, leave
//   boot_client exchange           put, fence, get from all, twice; get without a fence; agree on secret, size, places
//   boot_client meet               put, fence with data, fence
//   boot_client abort RANK CODE    one rank calls abort, the others wait
//   boot_client exit RANK CODE     one rank exits without leaving the job, the others wait
//   boot_client late RANK CODE     one rank leaves the job in order and then exits with CODE
//   boot_client signal RANK SIG    one rank kills itself, the others wait
//   boot_client wait               join, print "ready", wait for ever
//   boot_client orphan             as wait, each rank with a child and a child in a session of its own
//   boot_client spawn N [HOST...]  each rank in turn spawns N ranks (on these hosts); they exchange among themselves and with their parent
//   boot_client often N            rank 0 spawns 2 ranks N times, one after another, and asks the last ones what they have put
//   boot_client run N PROGRAM...   rank 0 spawns N ranks of a program, all leave
//   boot_client nest N             spawns one that spawns one ... N deep
//   boot_client failing HOST       what cannot be spawned is told, leaves nobody, and others can be spawned after it
//   boot_client brood WHAT...      rank 0 spawns 2 ranks that run boot_client WHAT..., and waits for ever, as do the others
//   boot_client child ...          what spawn, nest and failing start
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/boot/boot.h"
#include "runtime/config/config.h"

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
  const uint32_t left = (job.rank + job.size - 1) % job.size;  // asked for before it is there, but over PMI, where that would be in vain
  auto seen = boot.shows_at_once() ? boot.look({0, left}, "looked for") : Result<std::optional<boot::Blob>>(std::nullopt);
  put(boot, "looked for", "found");
  if (!boot.shows_at_once()) fence(boot, false);
  while (seen && !*seen) seen = boot.look({0, left}, "looked for");
  if (!seen || (*seen)->size() != 5) wrong(job, "looked for in vain");
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

void get_matches(boot::Bootstrap& boot, ProcessId who, const std::string& name, const std::string& wanted) {
  auto blob = boot.get(who, name);
  if (!blob) wrong(boot.job(), blob.failure().text);
  const std::string got(reinterpret_cast<const char*>(blob->data()), blob->size());
  if (got != wanted) wrong(boot.job(), name + " is \"" + got + "\" instead of \"" + wanted + "\"");
}

boot::SpawnedJob spawn(boot::Bootstrap& boot, const boot::SpawnSpec& spec) {
  auto spawned = boot.spawn(spec);
  if (!spawned) wrong(boot.job(), spawned.failure().text);
  return *spawned;
}

/// Two programs, of which the second has a folder and a variable of its own.
boot::SpawnSpec children(const std::string& self, uint32_t ranks, std::vector<std::string> hosts) {
  boot::SpawnSpec spec;
  spec.programs.push_back({{self, "child", "first"}, ranks - ranks / 2, {}, {}, hosts, {}});
  if (ranks / 2) spec.programs.push_back({{self, "child", "second"}, ranks / 2, "/", {}, hosts, {{"CHILD_SEES", "this"}}});
  return spec;
}

void spawn_in_turn(boot::Bootstrap& boot, const std::string& self, uint32_t ranks, const std::vector<std::string>& hosts) {
  const auto& job = boot.job();
  put(boot, "greeting", "from " + std::to_string(job.rank));
  for (uint32_t turn = 0; turn < job.size; turn++) {
    if (turn == job.rank) {
      const auto spawned = spawn(boot, children(self, ranks, hosts));
      if (spawned.size != ranks || spawned.job == 0) wrong(job, "odd spawned job");
      for (uint32_t r = 0; r < ranks; r++)
        get_matches(boot, {spawned.job, r}, "reply", "child " + std::to_string(r) + " to " + std::to_string(job.rank));
      put(boot, "thanks to " + spawned.name, "good");
    }
    fence(boot, false);
  }
  if (job.rank == 0) printf("%u times %u spawned ranks passed\n", job.size, ranks);
}

void be_child(boot::Bootstrap& boot, const std::string& program) {
  const auto& job = boot.job();
  if (!job.parent || job.parent->job == 0) wrong(job, "no parent");
  const uint32_t firsts = job.size - job.size / 2;
  if ((job.rank < firsts ? "first" : "second") != program || job.appnum != int(job.rank >= firsts)) wrong(job, "wrong program");
  const char* seen = getenv("CHILD_SEES");
  char folder[4096] = "";
  if (!getcwd(folder, sizeof folder)) wrong(job, "no folder");
  if (program == "second" && (!seen || strcmp(seen, "this") || strcmp(folder, "/"))) wrong(job, "wrong variable or folder");
  const char* size = getenv("PMI_SIZE");
  if (!size || uint32_t(atoi(size)) != job.size) wrong(job, "wrong PMI_SIZE");
  exchange(boot);
  const std::string parent = std::to_string(job.parent->rank);
  get_matches(boot, *job.parent, "greeting", "from " + parent);
  put(boot, "reply", "child " + std::to_string(job.rank) + " to " + parent);
  get_matches(boot, *job.parent, "thanks to " + job.name, "good");
  fence(boot, true);
}

void nest(boot::Bootstrap& boot, const std::string& self, int depth) {
  if (!depth) {
    printf("nested in %s\n", boot.job().name.c_str());
    return;
  }
  boot::SpawnSpec spec;
  spec.programs.push_back({{self, "nest", std::to_string(depth - 1)}, 1, {}, {}, {}, {}});
  spawn(boot, spec);
}

void spawn_often(boot::Bootstrap& boot, const std::string& self, uint32_t times) {
  if (boot.job().rank == 0) {
    boot::SpawnSpec spec;
    spec.programs.push_back({{self, "child", "first"}, 1, {}, {}, {}, {}});
    spec.programs.push_back({{self, "child", "second"}, 1, "/", {}, {}, {{"CHILD_SEES", "this"}}});
    put(boot, "greeting", "from 0");
    for (uint32_t i = 0; i < times; i++) {
      const auto spawned = spawn(boot, spec);
      for (uint32_t r = 0; r < 2; r++) get_matches(boot, {spawned.job, r}, "reply", "child " + std::to_string(r) + " to 0");
      put(boot, "thanks to " + spawned.name, "good");
    }
    long kilobytes = 0;
    const std::string command = "du -sk " + boot.job().folder;
    if (FILE* pipe = popen(command.c_str(), "r")) {
      if (fscanf(pipe, "%ld", &kilobytes) != 1) kilobytes = -1;
      pclose(pipe);
    }
    if (kilobytes <= 0 || kilobytes > 8192) wrong(boot.job(), "the job's folder has " + std::to_string(kilobytes) + " kB");
    printf("spawned %u times\n", times);
  }
  fence(boot, false);
}

/// The failure's text must have `words`.
void must_fail(boot::Bootstrap& boot, boot::SpawnProgram program, const std::string& words) {
  boot::SpawnSpec spec;
  spec.programs.push_back(std::move(program));
  const auto spawned = boot.spawn(spec);
  if (spawned) wrong(boot.job(), "what cannot be spawned was");
  if (spawned.failure().text.find(words) == std::string::npos) wrong(boot.job(), "no \"" + words + "\" in: " + spawned.failure().text);
}

void fail_to_spawn(boot::Bootstrap& boot, const std::string& self, const std::string& host) {
  if (boot.job().rank == 0) {
    put(boot, "greeting", "from 0");
    must_fail(boot, {{"no-such-program"}, 3, {}, {}, {host}, {}}, "no-such-program is not in PATH");
    must_fail(boot, {{"no-such-program"}, 3, {}, {}, {host}, {}}, " on " + host);
    must_fail(boot, {{"/etc/passwd"}, 1, {}, {}, {}, {}}, "may not be executed");
    must_fail(boot, {{"true"}, 1, "/no/such/folder", {}, {}, {}}, "/no/such/folder");
    must_fail(boot, {{"true"}, 1, {}, {}, {"nowhere.example"}, {}}, "none of the job's hosts");
    boot::SpawnSpec half;  // the good half must not stay
    half.programs.push_back({{"sleep", "1000"}, 2, {}, {}, {}, {}});
    half.programs.push_back({{"no-such-program"}, 1, {}, {}, {}, {}});
    if (boot.spawn(half)) wrong(boot.job(), "half a job was spawned");
    const std::string name = self.substr(self.rfind('/') + 1), folder = self.substr(0, self.rfind('/'));
    boot::SpawnSpec good;
    good.programs.push_back({{name, "child", "first"}, 1, {}, folder, {host}, {}});
    const auto spawned = spawn(boot, good);
    get_matches(boot, {spawned.job, 0}, "reply", "child 0 to 0");
    put(boot, "thanks to " + spawned.name, "good");
    printf("failures to spawn passed\n");
  }
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
  config::load_environment();
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
  } else if (what == "spawn") {
    spawn_in_turn(boot, argv[0], chosen, {argv + 3, argv + argc});
  } else if (what == "child") {
    be_child(boot, argv[2]);
  } else if (what == "run") {
    if (job.rank == 0) spawn(boot, {{{{argv + 3, argv + argc}, chosen, {}, {}, {}, {}}}, {}});
  } else if (what == "often") {
    spawn_often(boot, argv[0], chosen);
  } else if (what == "nest") {
    nest(boot, argv[0], int(chosen));
  } else if (what == "failing") {
    fail_to_spawn(boot, argv[0], argv[2]);
  } else if (what == "brood") {
    if (job.rank == 0) {
      boot::SpawnSpec spec;
      spec.programs.push_back({{argv[0]}, 2, {}, {}, {}, {}});
      spec.programs[0].command.insert(spec.programs[0].command.end(), argv + 2, argv + argc);
      spawn(boot, spec);
    }
    wait_for_ever();
  } else if (what == "meet") {
    put(boot, "address", std::string(200, 'x'));
    fence(boot, true);
    fence(boot, false);
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
