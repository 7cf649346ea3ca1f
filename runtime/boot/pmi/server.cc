#include "runtime/boot/pmi/server.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace weft::boot::pmi {
namespace {

constexpr size_t kMostMessage = 256 << 10;
constexpr uint32_t kMostRanks = 1u << 24;

/// Bytes both ways, with an end to what is believed.
class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}

  Result<void> send_all(std::string_view text) const {
    while (!text.empty()) {
      ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == ENOTSOCK) n = ::write(fd_, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return Failure{std::string("the PMI server cannot be reached any more: ") + strerror(errno)};
      text.remove_prefix(static_cast<size_t>(n));
    }
    return {};
  }

  /// One line, without its end.
  Result<std::string> line() {
    size_t end;
    while ((end = held_.find('\n')) == held_.npos) {
      if (held_.size() > kMostMessage) return Failure{"the PMI server answers without end"};
      if (auto ok = more(); !ok) return ok.failure();
    }
    std::string text = held_.substr(0, end);
    held_.erase(0, end + 1);
    return text;
  }

  Result<std::string> bytes(size_t count) {
    if (count > kMostMessage) return Failure{"the PMI server announces an answer of " + std::to_string(count) + " bytes"};
    while (held_.size() < count)
      if (auto ok = more(); !ok) return ok.failure();
    std::string text = held_.substr(0, count);
    held_.erase(0, count);
    return text;
  }

 private:
  int fd_;
  std::string held_;

  Result<void> more() {
    char block[4096];
    ssize_t n;
    do n = ::read(fd_, block, sizeof block);
    while (n < 0 && errno == EINTR);
    if (n == 0) return Failure{"the PMI server has gone"};
    if (n < 0) return Failure{std::string("the PMI server cannot be read from: ") + strerror(errno)};
    held_.append(block, static_cast<size_t>(n));
    return {};
  }
};

Failure unexpected(const std::string& asked, const std::string& got) {
  return {"the PMI server answers \"" + got.substr(0, 80) + "\" to " + asked};
}

/// A length that a server tells; what makes no sense is not believed.
size_t limit(int64_t told, size_t otherwise) { return told > 0 && told < 1 << 20 ? static_cast<size_t>(told) : otherwise; }

class Pmi1 final : public Server {
 public:
  explicit Pmi1(int fd) : wire_(fd) {}
  const char* protocol() const override { return "PMI-1"; }

  Result<Facts> greet(uint32_t rank, uint32_t size) override {
    auto hello = ask({{"cmd", "init"}, {"pmi_version", "1"}, {"pmi_subversion", "1"}}, "response_to_init");
    if (!hello) return hello.failure();
    Facts facts;
    facts.rank = rank;
    facts.size = size;
    auto maxes = ask({{"cmd", "get_maxes"}}, "maxes");
    if (!maxes) return maxes.failure();
    facts.limits.key = limit(maxes->number("keylen_max", 0), facts.limits.key);
    facts.limits.value = limit(maxes->number("vallen_max", 0), facts.limits.value);
    auto name = ask({{"cmd", "get_my_kvsname"}}, "my_kvsname");
    if (!name) return name.failure();
    facts.name = space_ = (*name)["kvsname"];
    if (auto appnum = ask({{"cmd", "get_appnum"}}, "appnum")) facts.appnum = static_cast<int>(appnum->number("appnum", 0));
    if (auto universe = ask({{"cmd", "get_universe_size"}}, "universe_size"))
      facts.universe = static_cast<uint32_t>(std::clamp<int64_t>(universe->number("size", 0), 0, kMostRanks));
    auto mapping = get("PMI_process_mapping");
    if (!mapping) return mapping.failure();
    facts.mapping = mapping->value_or("");
    return facts;
  }

  Result<void> put(const std::string& key, const std::string& value) override {
    auto answer = ask({{"cmd", "put"}, {"kvsname", space_}, {"key", key}, {"value", value}}, "put_result");
    if (!answer) return answer.failure();
    return {};
  }

  Result<std::optional<std::string>> get(const std::string& key) override {
    auto answer = exchange({{"cmd", "get"}, {"kvsname", space_}, {"key", key}}, "get_result");
    if (!answer) return answer.failure();
    if (answer->number("rc", 0) != 0 || !answer->has("value")) return std::optional<std::string>();
    return std::optional<std::string>((*answer)["value"]);
  }

  Result<void> fence() override {
    auto answer = ask({{"cmd", "barrier_in"}}, "barrier_out");
    if (!answer) return answer.failure();
    return {};
  }

  void abort(int code, std::string_view) override {
    (void)wire_.send_all(write_line(Fields({{"cmd", "abort"}, {"exitcode", std::to_string(code)}})));
  }

  Result<void> leave() override {
    auto answer = ask({{"cmd", "finalize"}}, "finalize_ack");
    if (!answer) return answer.failure();
    return {};
  }

 private:
  Wire wire_;
  std::string space_;

  Result<Fields> exchange(const Fields::List& question, const std::string& expected) {
    if (auto ok = wire_.send_all(write_line(Fields(question))); !ok) return ok.failure();
    auto line = wire_.line();
    if (!line) return line.failure();
    auto answer = parse_line(*line);
    if (!answer || (*answer)["cmd"] != expected) return unexpected(question[0].second, *line);
    return std::move(*answer);
  }

  /// The same, where a refusal is a failure.
  Result<Fields> ask(const Fields::List& question, const std::string& expected) {
    auto answer = exchange(question, expected);
    if (answer && answer->number("rc", 0) != 0) return unexpected(question[0].second, write_line(*answer));
    return answer;
  }
};

class Pmi2 final : public Server {
 public:
  explicit Pmi2(int fd) : wire_(fd) {}
  const char* protocol() const override { return "PMI-2"; }

  Result<Facts> greet(uint32_t rank, uint32_t size) override {
    if (auto ok = agree(); !ok) return ok.failure();
    const char* job = getenv("PMI_JOBID");
    Fields::List words = {{"cmd", "fullinit"}};
    if (job) words.emplace_back("pmijobid", job);
    words.emplace_back("pmirank", std::to_string(rank));
    words.emplace_back("threaded", "FALSE");
    auto init = ask(words);
    if (!init) return init.failure();
    Facts facts;
    facts.rank = static_cast<uint32_t>(std::clamp<int64_t>(init->number("rank", rank), 0, kMostRanks));
    facts.size = static_cast<uint32_t>(std::clamp<int64_t>(init->number("size", size), 1, kMostRanks));
    facts.appnum = static_cast<int>(init->number("appnum", 0));
    if (auto answer = ask({{"cmd", "job-getid"}})) facts.name = (*answer)["jobid"];
    job_ = facts.name;
    facts.mapping = attribute("PMI_process_mapping");
    const Fields universe({{"size", attribute("universeSize")}});
    facts.universe = static_cast<uint32_t>(std::clamp<int64_t>(universe.number("size", 0), 0, kMostRanks));
    return facts;
  }

  Result<void> put(const std::string& key, const std::string& value) override {
    auto answer = ask({{"cmd", "kvs-put"}, {"key", key}, {"value", value}});
    if (!answer) return answer.failure();
    return {};
  }

  Result<std::optional<std::string>> get(const std::string& key) override {
    auto answer = exchange({{"cmd", "kvs-get"}, {"jobid", job_}, {"srcid", "-1"}, {"key", key}});
    if (!answer) return answer.failure();
    if (!found(*answer)) return std::optional<std::string>();
    return std::optional<std::string>((*answer)["value"]);
  }

  Result<void> fence() override {
    auto answer = ask({{"cmd", "kvs-fence"}});
    if (!answer) return answer.failure();
    return {};
  }

  void abort(int code, std::string_view message) override {
    (void)wire_.send_all(write_record(
        Fields({{"cmd", "abort"}, {"isworld", "TRUE"}, {"msg", std::string(message.substr(0, 500))}, {"exitcode", std::to_string(code)}})));
  }

  Result<void> leave() override {
    auto answer = ask({{"cmd", "finalize"}});
    if (!answer) return answer.failure();
    return {};
  }

 private:
  Wire wire_;
  std::string job_;

  static bool found(const Fields& answer) {
    const bool no = answer["found"] == "FALSE" || answer["flag"] == "FALSE";
    return answer.number("rc", 0) == 0 && !no && answer.has("value");
  }

  /// Both begin as PMI-1 does.
  Result<void> agree() {
    if (auto ok = wire_.send_all("cmd=init pmi_version=2 pmi_subversion=0\n"); !ok) return ok;
    auto line = wire_.line();
    if (!line) return line.failure();
    const auto answer = parse_line(*line);
    if (!answer || (*answer)["cmd"] != "response_to_init" || answer->number("rc", 0) != 0 || answer->number("pmi_version", 0) != 2)
      return unexpected("init", *line);
    return {};
  }

  std::string attribute(const std::string& name) {
    auto answer = exchange({{"cmd", "info-getjobattr"}, {"key", name}});
    return answer && found(*answer) ? (*answer)["value"] : "";
  }

  Result<Fields> exchange(const Fields::List& question) {
    if (auto ok = wire_.send_all(write_record(Fields(question))); !ok) return ok.failure();
    auto head = wire_.bytes(6);
    if (!head) return head.failure();
    const auto size = record_size(*head);
    if (!size) return unexpected(question[0].second, *head);
    auto record = wire_.bytes(*size);
    if (!record) return record.failure();
    auto answer = parse_record(*record);
    if (!answer || (*answer)["cmd"] != question[0].second + "-response") return unexpected(question[0].second, *record);
    return std::move(*answer);
  }

  Result<Fields> ask(const Fields::List& question) {
    auto answer = exchange(question);
    if (answer && answer->number("rc", 0) != 0) return unexpected(question[0].second, write_line(*answer));
    return answer;
  }
};

}  // namespace

std::unique_ptr<Server> speak_pmi1(int fd) { return std::make_unique<Pmi1>(fd); }
std::unique_ptr<Server> speak_pmi2(int fd) { return std::make_unique<Pmi2>(fd); }

}  // namespace weft::boot::pmi
