// Job folders: made, locked, swept when their job is dead, never through a link.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/job_folder.h"
#include "launcher/spawn.h"

using namespace weft::launcher;
namespace fs = std::filesystem;

namespace {
struct Root {
  fs::path path = fs::temp_directory_path() / ("weft-folder-test." + std::to_string(getpid()));
  Root() {
    fs::create_directories(path);
    setenv("TMPDIR", path.c_str(), 1);
  }
  ~Root() {
    unsetenv("TMPDIR");
    fs::remove_all(path);
  }
};
}  // namespace

TEST_CASE("a live job's folder is spared, a dead one's goes with its shared memory files", "[folder]") {
  Root root;
  JobFolder live;
  REQUIRE(live.create());
  struct stat about;
  REQUIRE(stat(live.path().c_str(), &about) == 0);
  CHECK((about.st_mode & 07777) == 0700);
  CHECK(sweep_dead_jobs() == 0);

  const fs::path outside = root.path / "precious";
  std::ofstream(outside) << "keep me";
  std::string dead_path, dead_job;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    JobFolder dead;
    if (!dead.create()) _exit(1);
    fs::create_directories(dead.path() + "/a/b");
    std::ofstream(dead.path() + "/a/b/file") << "x";
    fs::create_symlink(outside, dead.path() + "/a/link");
    fs::create_directory_symlink(root.path, dead.path() + "/a/up");
    const std::string words = dead.path() + "\n" + dead.job();
    _exit(write(ends[1], words.data(), words.size()) < 0);
  }
  close(ends[1]);
  char text[1024];
  const ssize_t n = read(ends[0], text, sizeof text);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  REQUIRE(n > 0);
  const std::string words(text, size_t(n));
  dead_path = words.substr(0, words.find('\n'));
  dead_job = words.substr(words.find('\n') + 1);
  REQUIRE(fs::exists(dead_path));
  const fs::path segment = "/dev/shm/weft." + dead_job + ".0";
  std::ofstream(segment) << "x";
  CHECK(sweep_dead_jobs() == 1);
  CHECK_FALSE(fs::exists(dead_path));
  CHECK_FALSE(fs::exists(segment));
  CHECK(fs::exists(outside));
  CHECK(fs::exists(live.path()));
  remove_job(live.path(), live.job());
  CHECK_FALSE(fs::exists(live.path()));
}

TEST_CASE("a folder that cannot be made is said", "[folder]") {
  setenv("TMPDIR", "/nonexistent-folder", 1);
  JobFolder folder;
  auto made = folder.create();
  REQUIRE_FALSE(made);
  CHECK(made.failure().text.find("/nonexistent-folder") != std::string::npos);
  CHECK(made.failure().text.find("TMPDIR") != std::string::npos);
  unsetenv("TMPDIR");
}

TEST_CASE("programs are found as a shell would", "[spawn]") {
  Root root;
  const std::string program = (root.path / "prog").string();
  std::ofstream(program) << "#!/bin/sh\n";
  CHECK_FALSE(find_program(program, ""));
  CHECK(find_program(program, "").failure().text.find("chmod") != std::string::npos);
  chmod(program.c_str(), 0755);
  CHECK(*find_program(program, "") == program);
  CHECK(*find_program("./prog", root.path.string()) == "./prog");
  CHECK(find_program("sh", ""));
  CHECK(find_program("no-such-program-anywhere", "").failure().text.find("PATH") != std::string::npos);
  CHECK(find_program(root.path.string() + "/", "").failure().text.find("folder") != std::string::npos);
}

TEST_CASE("a child that cannot run is reported with its reason", "[spawn]") {
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  SpawnError error{"", 0};
  CHECK(spawn({"/etc/passwd", {"passwd"}, {}, "", nothing, nothing, nothing}, error) == -1);
  CHECK(error.exit_code == 126);
  CHECK(spawn({"/bin/true", {"true"}, {}, "/no/such/folder", nothing, nothing, nothing}, error) == -1);
  CHECK(error.text.find("/no/such/folder") != std::string::npos);
  const pid_t pid = spawn(
      {"/bin/sh", {"sh", "-c", "test \"$A\" = 1 && test $(pwd) = /tmp && exit 7"}, {"A=1"}, "/tmp", nothing, nothing, nothing}, error);
  REQUIRE(pid > 0);
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(WEXITSTATUS(status) == 7);
  close(nothing);
}
