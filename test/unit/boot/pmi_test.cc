// PMI-1 and PMI-2 against servers as threads of this test: good ones, and some that answer nonsense.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "runtime/boot/internal.h"
#include "runtime/boot/pmi/server.h"
#include "runtime/boot/pmi/text.h"

using namespace weft;
using namespace weft::boot;
using namespace weft::boot::pmi;

namespace {

Blob random_bytes(std::mt19937& random, size_t size) {
  Blob blob(size);
  for (std::byte& b : blob) b = static_cast<std::byte>(random());
  return blob;
}

std::string line_of(int fd) {
  std::string text;
  char c;
  while (read(fd, &c, 1) == 1 && c != '\n') text += c;
  return text;
}

void say(int fd, const std::string& text) { REQUIRE(write(fd, text.data(), text.size()) == ssize_t(text.size())); }

/// A server for one rank of one, which answers each message as told; what it does not know it answers with nothing.
class Server1 {
 public:
  using Answer = std::string (*)(std::map<std::string, std::string>& kvs, const Fields& question);
  explicit Server1(Answer answer) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    fd_ = ends[0];
    client_ = ends[1];
    thread_ = std::thread([this, answer] {
      for (std::string line; !(line = line_of(fd_)).empty();)
        if (auto question = parse_line(line)) {
          const std::string text = answer(kvs_, *question);
          if (!text.empty() && send(fd_, text.data(), text.size(), MSG_NOSIGNAL) < 0) break;
        }
      shutdown(fd_, SHUT_RDWR);
    });
  }
  ~Server1() {
    shutdown(client_, SHUT_RDWR);
    close(client_);
    thread_.join();
    close(fd_);
  }
  int client() const { return client_; }

 private:
  int fd_, client_;
  std::map<std::string, std::string> kvs_;
  std::thread thread_;
};

std::string good(std::map<std::string, std::string>& kvs, const Fields& q) {
  const std::string& cmd = q["cmd"];
  if (cmd == "init") return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
  if (cmd == "get_maxes") return "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=200\n";
  if (cmd == "get_my_kvsname") return "cmd=my_kvsname rc=0 kvsname=kvs_1\n";
  if (cmd == "get_appnum") return "cmd=appnum rc=0 appnum=2\n";
  if (cmd == "get_universe_size") return "cmd=universe_size rc=0 size=7\n";
  if (cmd == "barrier_in") return "cmd=barrier_out rc=0\n";
  if (cmd == "finalize") return "cmd=finalize_ack rc=0\n";
  if (cmd == "put") {
    if (q["value"].size() >= 200 || q["key"].size() >= 64) return "cmd=put_result rc=-1 msg=too_long\n";
    kvs[q["key"]] = q["value"];
    return "cmd=put_result rc=0 msg=success\n";
  }
  if (cmd == "get" && q["key"] == "PMI_process_mapping") return "cmd=get_result rc=0 msg=success value=(vector,(0,1,1))\n";
  if (cmd == "get")
    return kvs.count(q["key"]) ? "cmd=get_result rc=0 msg=success value=" + kvs[q["key"]] + "\n"
                               : "cmd=get_result rc=-1 msg=key_not_found value=unknown\n";
  return {};
}

/// The environment of a rank of one.
struct Environment {
  explicit Environment(int fd) {
    setenv("PMI_FD", std::to_string(fd).c_str(), 1);
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "1", 1);
  }
  ~Environment() {
    for (const char* name : {"PMI_FD", "PMI_RANK", "PMI_SIZE"}) unsetenv(name);
  }
};

}  // namespace

TEST_CASE("pmi: values in pieces and back", "[boot]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (const size_t limit : {32ul, 64ul, 101ul, 256ul, 1024ul, 100000ul})
    for (size_t size : {0ul, 1ul, 2ul, 3ul, 17ul, 511ul, 512ul, 513ul, 1000ul + random() % 3000}) {
      const Blob value = random_bytes(random, size);
      const Limits limits{64, limit};
      auto pieces = cut(3, "address", value, limits);
      REQUIRE(pieces);
      Joiner joiner;
      for (size_t i = 0; i < pieces->size(); ++i) {
        const auto& [key, text] = (*pieces)[i];
        CHECK(key == piece_key(3, "address", i, limits));
        CHECK(key.size() < limits.key);
        CHECK(text.size() < limit);
        CHECK(text.find_first_of(" =;\n") == text.npos);
        REQUIRE_FALSE(joiner.complete());
        REQUIRE(joiner.add(text));
      }
      REQUIRE(joiner.complete());
      CHECK(joiner.take() == value);
    }
  CHECK(piece_key(16777215, std::string(100, 'n'), 99999, {}).size() < 64);
  CHECK(piece_key(1, "a b", 0, {}).find(' ') == std::string::npos);
  CHECK(piece_key(1, "a", 1, {}) != piece_key(11, "a", 0, {}));
  CHECK_FALSE(cut(0, "x", Blob(2 << 20), {}));
  CHECK_FALSE(cut(0, "x", Blob(2), {20, 1024}));
  for (const char* wrong : {"", "x", "3", ".AAA", "99999999.AAAA", "1.A", "1.AAAA", "2.A*A", "-1.AA"}) {
    INFO(wrong);
    Joiner joiner;
    CHECK_FALSE((joiner.add(wrong) && joiner.complete()));
  }
}

TEST_CASE("pmi: messages", "[boot]") {
  const auto line = parse_line("cmd=put_result rc=0 msg=all is=well  value=a=b");
  REQUIRE(line);
  CHECK((*line)["value"] == "a=b");
  CHECK(line->number("rc", 7) == 0);
  CHECK(line->number("msg", 7) == 7);
  CHECK_FALSE(parse_line(""));
  CHECK_FALSE(parse_line("rc=0 cmd=x"));
  const Fields fields({{"cmd", "kvs-put"}, {"value", "a;b;;"}, {"empty", ""}});
  const std::string record = write_record(fields);
  CHECK(record == "    34cmd=kvs-put;value=a;;b;;;;;empty=;");
  const auto back = parse_record(record.substr(6));
  REQUIRE(back);
  CHECK(back->list() == fields.list());
  CHECK(record_size("    34") == 34u);
  CHECK(record_size("36    ") == 36u);
  for (const char* wrong : {"", "      ", "3x    ", "    -1", "1234567"}) CHECK_FALSE(record_size(wrong));
  for (const char* wrong : {"", "cmd", "cmd=x", "=x;", "rc=0;cmd=x;", "cmd=x;;"}) {
    INFO(wrong);
    CHECK_FALSE(parse_record(wrong));
  }
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::string noise = "cmd=x;rc=0;value=abc;";
    for (int i = 0; i < 4; ++i) noise[random() % noise.size()] = " =;c0\0\n"[random() % 7];
    (void)parse_record(noise);
    (void)parse_line(noise);
    (void)parse_mapping(noise, 0, 4);
  }
}

TEST_CASE("pmi: who is on which node", "[boot]") {
  using Ranks = std::vector<uint32_t>;
  auto place = parse_mapping("(vector,(0,2,2))", 3, 4);
  REQUIRE(place);
  CHECK(place->node == 1);
  CHECK(place->node_count == 2);
  CHECK(place->node_ranks == Ranks{2, 3});
  place = parse_mapping("(vector,(0,3,1))", 4, 7);  // begins again
  REQUIRE(place);
  CHECK(place->node_ranks == Ranks{1, 4});
  CHECK(place->node_count == 3);
  place = parse_mapping("(vector,(0,1,2),(1,2,1))", 2, 4);
  REQUIRE(place);
  CHECK(place->node_ranks == Ranks{2});
  CHECK(place->node_count == 3);
  place = parse_mapping("(vector,(0,8,1))", 0, 2);  // more nodes than ranks
  REQUIRE(place);
  CHECK(place->node_count == 2);
  for (const char* wrong :
       {"", "(vector,)", "(vector,(0,1))", "(vector,(0,0,1))", "(vector,(0,1,0))", "(vector,(0,1,1)", "(vector,(0,1,1)x)",
        "(matrix,(0,1,1))", "(vector,(4294967295,4294967295,1))", "(vector,(-1,1,1))", "(vector,(0,1,99999999999))"}) {
    INFO(wrong);
    CHECK_FALSE(parse_mapping(wrong, 0, 2));
  }
}

TEST_CASE("pmi: a rank joins, publishes and leaves", "[boot]") {
  Server1 server(good);
  const Environment environment(server.client());
  REQUIRE(has_pmi());
  auto joined = open_pmi();
  if (!joined) FAIL(joined.failure().text);
  Bootstrap& boot = **joined;
  CHECK(boot.job().size == 1);
  CHECK(boot.job().appnum == 2);
  CHECK(boot.job().universe_size == 7);
  CHECK(boot.job().node_ranks == std::vector<uint32_t>{0});
  CHECK(boot.job().secret.size() == 64);
  CHECK(boot.job().name.starts_with("pmi."));
  CHECK(boot.job().secret.find(boot.job().name.substr(4)) == std::string::npos);
  CHECK(boot.job().launcher.find("PMI-1") != std::string::npos);
  std::mt19937 random(1);
  const Blob value = random_bytes(random, 2500);
  REQUIRE(boot.put("large", value));
  REQUIRE(boot.fence(true));
  auto got = boot.get({0, 0}, "large");
  REQUIRE(got);
  CHECK(*got == value);
  CHECK_FALSE(boot.get({0, 1}, "large"));
  CHECK(*boot.host_of({0, 0}) == boot.job().host);
  CHECK_FALSE(boot.process_set("any"));
  boot.finalize();
  boot.finalize();
}

TEST_CASE("pmi: servers that answer nonsense", "[boot]") {
  const Server1::Answer hostile[] = {
      [](std::map<std::string, std::string>&, const Fields&) { return std::string("\n"); },
      [](std::map<std::string, std::string>&, const Fields&) { return std::string("cmd=response_to_init rc=-1\n"); },
      [](std::map<std::string, std::string>&, const Fields&) { return std::string(1 << 20, 'x'); },
      [](std::map<std::string, std::string>& kvs, const Fields& q) {
        return q["cmd"] == "get_maxes" ? "cmd=maxes rc=0 keylen_max=2 vallen_max=-5\n" : good(kvs, q);
      },
      [](std::map<std::string, std::string>& kvs, const Fields& q) {
        return q["cmd"] == "get" && q["key"][0] == 'w' ? "cmd=get_result rc=0 value=5.A\n" : good(kvs, q);
      },
      [](std::map<std::string, std::string>& kvs, const Fields& q) {
        return q["cmd"] == "get" && q["key"][0] == 'w' ? "cmd=get_result rc=0 value=3.AAAA\n" : good(kvs, q);
      },
      [](std::map<std::string, std::string>& kvs, const Fields& q) { return q["cmd"] == "put" ? "cmd=put_result rc=-1\n" : good(kvs, q); },
      [](std::map<std::string, std::string>& kvs, const Fields& q) {
        return q["cmd"] == "barrier_in" ? "cmd=finalize_ack rc=0\n" : good(kvs, q);
      }};
  for (const auto& answer : hostile) {
    Server1 server(answer);
    const Environment environment(server.client());
    const auto joined = open_pmi();
    REQUIRE_FALSE(joined);
    CHECK_FALSE(joined.failure().text.empty());
  }
  const int file = open("/dev/null", O_RDWR);  // the server's number, used again
  {
    const Environment environment(file);
    CHECK_FALSE(has_pmi());
  }
  close(file);
  for (const char* fd : {"-1", "x", "", "99999", "3000000000"}) {
    const Environment environment(0);
    setenv("PMI_FD", fd, 1);
    CHECK_FALSE(has_pmi());
    CHECK_FALSE(open_pmi());
  }
}

TEST_CASE("pmi: the second protocol", "[boot]") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  std::string script = "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";
  for (const Fields& answer : {Fields({{"cmd", "fullinit-response"}, {"rank", "3"}, {"size", "4"}, {"appnum", "1"}, {"rc", "0"}}),
                               Fields({{"cmd", "job-getid-response"}, {"jobid", "7.0"}, {"rc", "0"}}),
                               Fields({{"cmd", "info-getjobattr-response"}, {"found", "TRUE"}, {"value", "(vector,(0,2,2))"}, {"rc", "0"}}),
                               Fields({{"cmd", "info-getjobattr-response"}, {"found", "FALSE"}, {"rc", "0"}}),
                               Fields({{"cmd", "kvs-put-response"}, {"rc", "0"}}), Fields({{"cmd", "kvs-fence-response"}, {"rc", "0"}}),
                               Fields({{"cmd", "kvs-get-response"}, {"found", "TRUE"}, {"value", "a;b"}, {"rc", "0"}}),
                               Fields({{"cmd", "kvs-get-response"}, {"flag", "FALSE"}, {"rc", "0"}}),
                               Fields({{"cmd", "kvs-get-response"}, {"found", "TRUE"}, {"rc", "-1"}})})
    script += write_record(answer);
  say(ends[0], script);
  auto server = speak_pmi2(ends[1]);
  const auto facts = server->greet(3, 4);
  if (!facts) FAIL(facts.failure().text);
  CHECK(facts->rank == 3);
  CHECK(facts->size == 4);
  CHECK(facts->appnum == 1);
  CHECK(facts->name == "7.0");
  CHECK(facts->mapping == "(vector,(0,2,2))");
  CHECK(facts->universe == 0);
  CHECK(server->put("k", "a;b"));
  CHECK(server->fence());
  CHECK(**server->get("k") == "a;b");
  CHECK_FALSE(*server->get("k"));
  CHECK_FALSE(*server->get("k"));
  say(ends[0], "999999");
  CHECK_FALSE(server->fence());
  close(ends[0]);
  CHECK_FALSE(server->leave());
  close(ends[1]);
}
