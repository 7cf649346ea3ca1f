// Reading what debuggers say, and telling it.
#include "launcher/stacks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace weft::launcher;

TEST_CASE("gdb's stacks are read", "[stacks]") {
  const auto threads = parse_stacks(
      "[New LWP 12]\nwarning: #1 is no frame\n"
      "#0  0x00007f1 in poll () from /lib/libc.so.6\n#1  0x12 in main (argc=1, argv=0x7ff) at a.c:3\n"
      "#0  inner (x=1) at b.c:2\n#1  0x33 in ?? ()\n#2 0x55\n#not a frame\n[Inferior 1 detached]\n");
  REQUIRE(threads.size() == 2);
  CHECK(threads[0] == Frames{"poll () from /lib/libc.so.6", "main (argc=1, argv=0x7ff) at a.c:3"});
  CHECK(threads[1] == Frames{"inner (x=1) at b.c:2", "?? ()", "??"});
  CHECK(function_of(threads[0][1]) == "main");
}

TEST_CASE("eu-stack's stacks are read", "[stacks]") {
  const auto threads =
      parse_stacks("PID 12 - process\nTID 12:\n#0  0x00007f1e8 __poll\n#1  0x000055d0 - 1 main\nTID 13:\n#0  0x00007f1e8 futex_wait\n");
  REQUIRE(threads.size() == 2);
  CHECK(threads[0].size() == 2);
  CHECK(function_of(threads[0][0]) == "__poll");
  CHECK(threads[1] == Frames{"futex_wait"});
}

TEST_CASE("nothing and nonsense give no threads", "[stacks]") {
  for (const char* text : {"", "#", "##\n#x\n", "gdb: no such process\n", "#a1 b"}) CHECK(parse_stacks(text).empty());
  CHECK(parse_stacks("#0").size() == 1);
}

TEST_CASE("ranks in the same functions are told together", "[stacks]") {
  std::vector<RankStacks> all;
  for (uint32_t r = 0; r < 8; r++) {
    const std::string argument = "(rank=" + std::to_string(r) + ")";
    Frames frames = {r == 5 ? "compute " + argument : "wait " + argument, "main ()"};
    all.push_back({r, pid_t(100 + r), "", {frames, {"helper ()"}, {"helper ()"}}, ""});
  }
  all.push_back({8, 108, "", {}, "state S (sleeping)"});
  const std::string text = report_stacks(all);
  INFO(text);
  CHECK(text.find("ranks 0-4,6,7\n") != std::string::npos);
  CHECK(text.find("rank 5 (pid 105)") != std::string::npos);
  CHECK(text.find("rank 8 (pid 108)\n    state S") != std::string::npos);
  CHECK(text.find("2 threads") != std::string::npos);
  CHECK(text.find("helper") != text.rfind("helper"));
  CHECK(text.find("wait") == text.rfind("wait"));
}

TEST_CASE("stacks of several hosts make one report", "[stacks]") {
  StackGathering gathering;
  CHECK(gathering.complete());
  for (uint32_t node : {0u, 2u, 5u}) gathering.expect(node, "host" + std::to_string(node));
  const RankStacks waits{0, 10, "", {{"wait (a=1)", "main ()"}}, ""};
  HostStacks first{"gdb", {waits, waits}}, second{"", {waits, {3, 13, "", {}, "state S"}}};
  first.ranks[1].rank = 4;
  second.ranks[0].rank = 1;
  gathering.add(2, second);
  gathering.add(7, first);  // nobody has asked it
  CHECK_FALSE(gathering.complete());
  gathering.add(0, first);
  gathering.add(0, {});  // it has spoken
  const std::string partly = gathering.report();
  INFO(partly);
  CHECK(partly.find("(gdb; install gdb or elfutils on host2 to see functions):\n") != std::string::npos);
  CHECK(partly.find("  ranks 0,1,4\n") != std::string::npos);
  CHECK(partly.find("rank 3 (pid 13 on host2)\n    state S") != std::string::npos);
  CHECK(partly.ends_with("no word in time from host5"));
  gathering.add(5, {"gdb", {}});
  CHECK(gathering.complete());
  CHECK(gathering.report().find("no word") == std::string::npos);
}

TEST_CASE("/proc tells of a sleeping child, and of one that is gone", "[stacks]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    char c;
    close(ends[1]);
    _exit(read(ends[0], &c, 1) < 0);
  }
  close(ends[0]);
  CHECK(from_proc(child).find("state ") == 0);
  CHECK(leaves_of(child) == std::vector<pid_t>{child});
  close(ends[1]);
  waitpid(child, nullptr, 0);
  CHECK(from_proc(child) == "has ended");
}
