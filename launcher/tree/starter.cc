#include "launcher/tree/starter.h"

#include <sstream>
#include <string_view>

namespace weft::launcher::tree {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// The last lines that say something, on one line.
std::string gist(const std::string& words) {
  std::string text;
  std::istringstream in(words.size() > 600 ? words.substr(words.size() - 600) : words);
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty()) continue;
    if (!text.empty()) text += "; ";
    text += line;
  }
  return text;
}

bool says(const std::string& words, std::string_view what) { return words.find(what) != std::string::npos; }

struct Symptom {
  const char* sign;
  const char* meaning;
  bool again;
};

/// In the words of OpenSSH; the first that fits.
constexpr Symptom symptoms[] = {
    {"Could not resolve hostname", "its name was not found (check the name, /etc/hosts and DNS)", false},
    {"Name or service not known", "its name was not found (check the name, /etc/hosts and DNS)", false},
    {"Host key verification failed", "its host key is not known or has changed (ssh there once by hand)", false},
    {"Permission denied", "ssh has no key that it accepts (a login without password is needed: ssh-keygen, ssh-copy-id)", false},
    {"Too many authentication failures", "ssh has no key that it accepts (a login without password is needed)", false},
    {"Connection refused", "it refused the connection: no sshd listens there", true},
    {"No route to host", "there is no route to it", true},
    {"Network is unreachable", "there is no route to it", false},
    {"not responding", "it does not answer any more", false},
    {"timed out", "it did not answer", true},
    {"Connection reset", "its sshd dropped the connection (see MaxStartups in sshd_config)", true},
    {"Connection closed", "its sshd dropped the connection (see MaxStartups in sshd_config)", true},
    {"kex_exchange_identification", "its sshd dropped the connection (see MaxStartups in sshd_config)", true},
};

}  // namespace

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (char c : text) {
    if (c == '\'')
      result += "'\\''";
    else
      result += c;
  }
  return result + "'";
}

std::vector<std::string> ssh_command(const std::string& agent, const std::string& host, const std::string& program) {
  std::vector<std::string> command = words_of(agent.empty() ? "ssh" : agent);
  const size_t slash = command[0].rfind('/');
  if (command[0].substr(slash == std::string::npos ? 0 : slash + 1) == "ssh")
    for (const char* option : {"-x", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=1", "-o",
                               "ServerAliveCountMax=3"})  // a host may die before its daemon has connected
      command.push_back(option);
  command.push_back(host);
  command.push_back("exec " + quoted(program) + " --daemon");
  return command;
}

std::vector<std::string> srun_command(const std::vector<std::string>& hosts, const std::string& program) {
  std::string list;
  for (const std::string& host : hosts) list += (list.empty() ? "" : ",") + host;
  const std::string count = std::to_string(hosts.size());
  return {"srun",
          "--nodes=" + count,
          "--ntasks=" + count,
          "--ntasks-per-node=1",
          "--nodelist=" + list,
          "--overlap",
          "--mpi=none",
          "--input=all",
          "--kill-on-bad-exit=1",
          "--cpu-bind=none",
          "--quiet",
          program,
          "--daemon"};
}

Diagnosis diagnose(How how, const std::string& host, const std::string& program, int status, const std::string& words) {
  const std::string where = "cannot start a daemon on " + host + ": ";
  const std::string said = gist(words);
  const std::string tail = said.empty() ? "" : "\n        it said: " + said;
  if (status == exit_not_joined) return {where + (said.empty() ? "it could not join the job" : said), false};
  if (status == 127 || says(words, "No such file") || says(words, "command not found"))
    return {where + program + " is not on that host (Weft must be installed in the same folder on all hosts)" + tail, false};
  if (status == 126) return {where + program + " may not be executed on that host" + tail, false};
  const std::string starter = how == How::ssh ? "ssh" : "srun";
  if (how == How::ssh && status == 255) {
    for (const Symptom& symptom : symptoms)
      if (says(words, symptom.sign)) return {where + symptom.meaning + tail, symptom.again};
    return {where + "ssh failed" + tail, true};
  }
  if (status > 128) return {where + starter + " or the daemon was killed by signal " + std::to_string(status - 128) + tail, false};
  return {where + starter + " ended with code " + std::to_string(status) + tail, false};
}

}  // namespace weft::launcher::tree
