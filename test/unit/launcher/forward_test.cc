// Lines of several streams merged into one sink.
#include "launcher/forward.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <sstream>

using namespace weft::launcher;

namespace {

struct File {
  FILE* file = tmpfile();
  ~File() { fclose(file); }
  int fd() const { return fileno(file); }
  std::string text() const {
    std::string all;
    char block[4096];
    lseek(fd(), 0, SEEK_SET);
    for (ssize_t n; (n = read(fd(), block, sizeof block)) > 0;) all.append(block, size_t(n));
    return all;
  }
};

void feed(Merger& merger, Stream& stream, const std::string& bytes, uint64_t now = 1) {
  stream.held += bytes;
  merger.arrived(stream, now);
}

}  // namespace

TEST_CASE("lines come whole, the last one also without its end", "[forward]") {
  File file;
  Sink sink(file.fd());
  Merger merger(sink);
  Stream a, b;
  feed(merger, a, "one ");
  feed(merger, b, "two\nthr");
  feed(merger, a, "line\n");
  feed(merger, b, "ee\nno end");
  a.ended = true;
  merger.arrived(a, 1);
  b.ended = true;
  merger.arrived(b, 1);
  CHECK(file.text() == "two\none line\nthree\nno end");
  merger.say("last words");
  CHECK(file.text() == "two\none line\nthree\nno end\nlast words\n");
}

TEST_CASE("tags head each line", "[forward]") {
  File file;
  Sink sink(file.fd());
  Merger merger(sink);
  Stream a;
  a.tag = "[3] ";
  feed(merger, a, "x\n\ny");
  feed(merger, a, "z\n");
  CHECK(file.text() == "[3] x\n[3] \n[3] yz\n");
}

TEST_CASE("the time stands before the tag, once a line", "[forward]") {
  File file;
  Sink sink(file.fd());
  Merger merger(sink);
  Stream a;
  a.tag = "[3] ";
  a.stamp = true;
  feed(merger, a, "one\ntw");
  feed(merger, a, "o\n");
  std::istringstream lines(file.text());
  int count = 0;
  for (std::string line; std::getline(lines, line); count++) {
    INFO(line);
    int year, month, day, hour, minute, second, milli, end = 0;
    CHECK(sscanf(line.c_str(), "%d-%d-%dT%d:%d:%d.%d [3] %n", &year, &month, &day, &hour, &minute, &second, &milli, &end) == 7);
    CHECK(line.substr(size_t(end)) == (count ? "two" : "one"));
  }
  CHECK(count == 2);
}

TEST_CASE("a full disk is not taken for a reader who has left", "[forward]") {
  const int full = open("/dev/full", O_WRONLY);
  REQUIRE(full >= 0);
  Sink sink(full);
  CHECK(sink.error() == 0);
  sink.append("x", 1);
  sink.write_some();
  CHECK(sink.broken());
  CHECK(sink.error() == ENOSPC);
  close(full);
}

TEST_CASE("a line too long to hold keeps the sink until it ends", "[forward]") {
  File file;
  Sink sink(file.fd());
  Merger merger(sink);
  Stream a, b;
  const std::string part(Merger::hold_limit, 'a');
  feed(merger, a, part);
  feed(merger, b, "other\n");
  CHECK(b.held == "other\n");
  CHECK(merger.wants(b));
  feed(merger, a, part + "\n");
  CHECK(file.text() == part + part + "\nother\n");
}

TEST_CASE("who is silent in the middle of a long line is cut while others wait", "[forward]") {
  File file;
  Sink sink(file.fd());
  Merger merger(sink);
  Stream a, b;
  const std::string part(Merger::hold_limit, 'a');
  feed(merger, a, part, 10);
  CHECK(merger.tick(20) == 0);  // nobody waits
  feed(merger, b, "other\n", 30);
  CHECK(merger.tick(40) > 40);
  merger.tick(10 + Merger::patience_ns);
  CHECK(file.text() == part + "\nother\n");
}

TEST_CASE("bytes of a single rank pass unchanged, whatever they are", "[forward]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  File file;
  Sink sink(file.fd());
  Merger merger(sink);
  Stream a;
  std::string all;
  for (int i = 0; i < 300; i++) {
    std::string block(random() % 5000, '\0');
    for (char& c : block) c = char(random());
    all += block;
    feed(merger, a, block);
  }
  a.ended = true;
  merger.arrived(a, 1);
  CHECK((file.text() == all));
}

TEST_CASE("random pieces of many streams never mix lines nor lose any", "[forward]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  File file;
  Sink sink(file.fd());
  Merger merger(sink);
  std::vector<Stream> streams(7);
  std::map<size_t, std::string> texts, rest;
  for (size_t s = 0; s < streams.size(); s++) {
    for (int line = 0; line < 200; line++)
      texts[s] += std::to_string(s) + ":" + std::to_string(line) + ":" +
                  std::string(random() % 10 ? random() % 80 : random() % 100'000, char('a' + s)) + "\n";
    rest[s] = texts[s];
  }
  while (!rest.empty()) {
    auto it = std::next(rest.begin(), long(random() % rest.size()));
    if (!merger.wants(streams[it->first])) continue;
    const size_t size = std::min<size_t>(it->second.size(), 1 + random() % 20'000);
    feed(merger, streams[it->first], it->second.substr(0, size));
    it->second.erase(0, size);
    if (it->second.empty()) {
      streams[it->first].ended = true;
      merger.arrived(streams[it->first], 1);
      rest.erase(it);
    }
  }
  std::map<size_t, std::string> seen;
  const std::string text = file.text();
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const size_t s = size_t(text[at] - '0');
    REQUIRE(s < streams.size());
    seen[s] += text.substr(at, end - at + 1);
    at = end + 1;
  }
  CHECK((seen == texts));
}

TEST_CASE("a slow reader holds the ranks back, memory stays bounded", "[forward]") {
  int ends[2];
  REQUIRE(pipe2(ends, O_NONBLOCK) == 0);
  {
    Sink sink(ends[1]);
    Merger merger(sink);
    Stream a;
    const std::string block(60'000, 'x');
    size_t sent = 0;
    while (merger.wants(a)) {
      feed(merger, a, block + "\n");
      sent += block.size() + 1;
      REQUIRE(sent < 4 * Merger::queue_limit);
    }
    CHECK(sink.pending() <= Merger::queue_limit + block.size() + 1);
    size_t got = 0;
    char buffer[65536];
    while (got < sent) {
      const ssize_t n = read(ends[0], buffer, sizeof buffer);
      if (n > 0)
        got += size_t(n);
      else
        sink.write_some();
    }
    CHECK(got == sent);
    CHECK(merger.wants(a));
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    feed(merger, a, "nobody listens\n");
    CHECK(sink.broken());
  }
  close(ends[1]);
}

TEST_CASE("many streams hold little each", "[forward]") {
  CHECK(Merger::share(2) == Merger::hold_limit);
  CHECK(Merger::share(0) == Merger::hold_limit);
  CHECK(Merger::share(256) * 256 <= Merger::hold_budget);
  CHECK(Merger::share(1000000) == Merger::least_hold);
}
