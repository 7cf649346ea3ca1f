#include "launcher/stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "launcher/spawn.h"
#include "runtime/topo/cpus.h"

extern char** environ;

namespace weft::launcher {
namespace {

constexpr size_t most_frames = 40, most_threads = 8, most_processes = 256, most_bytes = 4u << 20, most_leaves = 4;

std::string read_text(const std::string& path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char block[4096];
  for (ssize_t n; (n = read(fd, block, sizeof block)) > 0;) text.append(block, size_t(n));
  close(fd);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  return text;
}

std::string proc(pid_t pid, const char* name) { return read_text("/proc/" + std::to_string(pid) + "/" + name); }

/// "#3  0x00007f12 in poll () from /lib/libc.so" -> "poll () from /lib/libc.so".
std::string without_address(const std::string& line) {
  size_t at = line.find_first_not_of("0123456789", 1);
  at = line.find_first_not_of(' ', at);
  if (at == std::string::npos) return {};
  if (line.compare(at, 2, "0x") == 0) {
    at = line.find(' ', at);
    at = at == std::string::npos ? at : line.find_first_not_of(' ', at);
    if (at == std::string::npos) return "??";
    if (line.compare(at, 3, "in ") == 0) at += 3;
    if (line.compare(at, 2, "- ") == 0) at += 2;  // eu-stack's mark of a return address
  }
  return line.substr(at, 200);
}

std::string ranks_text(std::vector<uint32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) last++;
    text += (i ? "," : "") + std::to_string(ranks[i]);
    if (last > i) text += (last > i + 1 ? "-" : ",") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string functions_of(const Frames& frames) {
  std::string key;
  for (const std::string& frame : frames) key += function_of(frame) + "\n";
  return key;
}

/// Equal threads once, with their number; what decides whether two ranks are told together.
struct Shape {
  std::string key;
  std::vector<std::pair<const Frames*, int>> threads;
  explicit Shape(const RankStacks& stacks) : key(stacks.program + "\n" + stacks.instead) {
    for (const Frames& frames : stacks.threads) {
      const std::string functions = functions_of(frames);
      auto same = std::find_if(threads.begin(), threads.end(), [&](const auto& t) { return functions_of(*t.first) == functions; });
      if (same != threads.end())
        same->second++;
      else
        threads.emplace_back(&frames, 1);
    }
    for (const auto& [frames, count] : threads) key += "|" + std::to_string(count) + "\n" + functions_of(*frames);
  }
};

std::string body_of(const RankStacks& stacks, const Shape& shape) {
  if (shape.threads.empty()) return "    " + stacks.instead + "\n";
  std::string text;
  size_t told = 0;
  for (const auto& [frames, count] : shape.threads) {
    if (told++ == most_threads) {
      text += "    ... and " + std::to_string(shape.threads.size() - most_threads) + " other threads\n";
      break;
    }
    if (shape.threads.size() > 1 || count > 1) text += count == 1 ? "    a thread\n" : "    " + std::to_string(count) + " threads\n";
    for (size_t i = 0; i < frames->size(); i++) text += "      #" + std::to_string(i) + (i < 10 ? "  " : " ") + (*frames)[i] + "\n";
  }
  return text;
}

}  // namespace

std::string function_of(const std::string& frame) {
  const size_t end = frame.find(" (");
  return frame.substr(0, end == std::string::npos ? frame.find(" at ") : end);
}

std::vector<Frames> parse_stacks(const std::string& text) {
  std::vector<Frames> threads;
  std::istringstream lines(text);
  bool fresh = true;
  for (std::string line; std::getline(lines, line);) {
    const bool frame = line.size() > 1 && line[0] == '#' && isdigit(static_cast<unsigned char>(line[1]));
    if (!frame) {
      fresh |= line.starts_with("Thread ") || line.starts_with("TID ");
      continue;
    }
    if (fresh || line.starts_with("#0 ")) threads.emplace_back();
    fresh = false;
    if (threads.back().size() < most_frames) threads.back().push_back(without_address(line));
  }
  return threads;
}

std::string report_stacks(const std::vector<RankStacks>& stacks) {
  struct Group {
    Shape shape;
    std::vector<const RankStacks*> members;
  };
  std::vector<Group> groups;
  for (const RankStacks& one : stacks) {
    Shape shape(one);
    auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.shape.key == shape.key; });
    if (same == groups.end())
      groups.push_back({std::move(shape), {&one}});
    else
      same->members.push_back(&one);
  }
  std::string text;
  for (const Group& group : groups) {
    std::vector<uint32_t> ranks;
    for (const RankStacks* member : group.members) ranks.push_back(member->rank);
    text += "  " + ranks_text(ranks);
    const RankStacks& first = *group.members[0];
    if (group.members.size() == 1) text += " (pid " + std::to_string(first.pid) + (first.host.empty() ? "" : " on " + first.host) + ")";
    if (!first.program.empty()) text += ", in its child " + first.program;
    text += "\n" + body_of(first, group.shape);
  }
  return text;
}

bool same_place(const RankStacks& a, const RankStacks& b) { return Shape(a).key == Shape(b).key; }

void StackGathering::add(uint32_t node, HostStacks found) {
  const auto host = hosts_.find(node);
  if (host == hosts_.end() || host->second.heard) return;
  host->second.heard = true;
  if (hosts_.size() > 1)
    for (RankStacks& rank : found.ranks) rank.host = host->second.name;
  host->second.found = std::move(found);
}

bool StackGathering::complete() const {
  return std::all_of(hosts_.begin(), hosts_.end(), [](const auto& host) { return host.second.heard; });
}

std::string StackGathering::report() const {
  std::string tools, bare, silent;
  size_t with_tool = 0;
  const auto list = [](std::string& names, const std::string& name) {
    if (names.find(name) == std::string::npos) names += (names.empty() ? "" : ", ") + name;
  };
  std::vector<RankStacks> all;
  for (const auto& [node, host] : hosts_) {
    if (!host.heard) {
      list(silent, host.name);
      continue;
    }
    with_tool += !host.found.tool.empty();
    list(host.found.tool.empty() ? bare : tools, host.found.tool.empty() ? host.name : host.found.tool);
    all.insert(all.end(), host.found.ranks.begin(), host.found.ranks.end());
  }
  std::sort(all.begin(), all.end(), [](const RankStacks& a, const RankStacks& b) { return a.rank < b.rank; });
  const std::string remedy = "install gdb or elfutils" + (with_tool ? " on " + bare : "") + " to see functions";
  std::string text = "mpirun: where the ranks are";
  if (!tools.empty() || !bare.empty())
    text += " (" + tools + (!tools.empty() && !bare.empty() ? "; " : "") + (bare.empty() ? "" : remedy) + ")";
  text += ":\n" + report_stacks(all);
  if (!silent.empty()) text += "  no word in time from " + silent + "\n";
  text.pop_back();
  return text;
}

std::string from_proc(pid_t pid) {
  const std::string status = proc(pid, "status");
  const size_t at = status.find("State:");
  if (at == std::string::npos) return "has ended";
  std::string state = status.substr(at + 6, status.find('\n', at) - at - 6);
  state.erase(0, state.find_first_not_of(" \t"));
  std::string text = "state " + state;
  if (const std::string wchan = proc(pid, "wchan"); !wchan.empty() && wchan != "0") text += ", waits in the kernel's " + wchan;
  if (std::string call = proc(pid, "syscall"); !call.empty() && call != "running")
    text += ", system call " + call.substr(0, call.find(' ')) + " (see ausyscall, or asm/unistd.h)";
  return text;
}

std::vector<pid_t> leaves_of(pid_t pid) {
  std::vector<pid_t> leaves, open{pid};
  for (size_t i = 0; i < open.size() && i < 64; i++) {
    const std::string children = proc(open[i], ("task/" + std::to_string(open[i]) + "/children").c_str());
    std::istringstream list(children);
    bool any = false;
    for (pid_t child; list >> child; any = true) open.push_back(child);
    if (!any && leaves.size() < most_leaves) leaves.push_back(open[i]);
  }
  return leaves;
}

StackReader::StackReader() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

StackReader::~StackReader() {
  for (Job& job : jobs_) {
    kill(-job.tool, SIGKILL);
    waitpid(job.tool, nullptr, 0);
    close(job.pipe);
  }
  close(epoll_);
}

void StackReader::start(const std::vector<std::pair<uint32_t, pid_t>>& ranks, uint64_t now_ns) {
  if (auto path = find_program("gdb", ""); path) gdb_ = *path;
  if (auto path = find_program("eu-stack", ""); path) eu_stack_ = *path;
  for (const auto& [rank, pid] : ranks)
    for (const pid_t leaf : leaves_of(pid))
      if (found_.size() < most_processes) found_.push_back({rank, leaf, leaf == pid ? "" : proc(leaf, "comm"), {}, ""});
  until_ = now_ns + all_ns;
  active_ = true;
  fill(now_ns);
}

/// Starts the debugger for one process; false if there is none, or none could be started.
bool StackReader::launch(size_t which, uint64_t now_ns) {
  const std::string pid = std::to_string(found_[which].pid);
  Child child;
  if (!gdb_.empty()) {
    child.path = gdb_;
    child.arguments = {"gdb", "-nx", "-batch"};
    for (const std::string& command :
         {std::string("set pagination off"), std::string("set width 0"), std::string("set print frame-arguments scalars"),
          "thread apply all -q bt " + std::to_string(most_frames)})
      child.arguments.insert(child.arguments.end(), {"-ex", command});
    child.arguments.insert(child.arguments.end(), {"-p", pid});
  } else if (!eu_stack_.empty()) {
    child.path = eu_stack_;
    child.arguments = {"eu-stack", "-n", std::to_string(most_frames), "-p", pid};
  } else {
    return false;
  }
  for (char** v = environ; *v; v++)
    if (!std::string_view(*v).starts_with("DEBUGINFOD_URLS=")) child.environment.emplace_back(*v);  // nothing is fetched for this
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return false;
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  child.input = nothing;
  child.output = child.errors = ends[1];
  SpawnError error;
  const pid_t tool = spawn(child, error);
  close(ends[1]);
  close(nothing);
  if (tool < 0) {
    close(ends[0]);
    return false;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  epoll_event interest{EPOLLIN, {.fd = ends[0]}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, ends[0], &interest);
  jobs_.push_back({which, tool, ends[0], now_ns + one_ns, ""});
  return true;
}

/// As many debuggers at once as there are processors.
void StackReader::fill(uint64_t now_ns) {
  const size_t at_once = std::clamp<size_t>(topo::usable_cpus(), 2, 16);
  while (next_ < found_.size() && jobs_.size() < at_once) {
    if (now_ns >= until_ || !launch(next_, now_ns)) found_[next_].instead = from_proc(found_[next_].pid);
    next_++;
  }
}

void StackReader::finish(Job& job) {
  RankStacks& stacks = found_[job.which];
  stacks.threads = parse_stacks(job.text);
  if (stacks.threads.empty()) {
    stacks.instead = from_proc(stacks.pid);
    std::istringstream lines(job.text);
    for (std::string line; std::getline(lines, line);)
      if (line.find("ot permitted") != std::string::npos) {
        stacks.instead += "; no debugger may look (" + line.substr(0, 120) + ")";
        break;
      }
  }
  close(job.pipe);
  kill(-job.tool, SIGKILL);
  waitpid(job.tool, nullptr, 0);
  job.tool = -1;
}

bool StackReader::process(uint64_t now_ns) {
  if (!active_) return false;
  for (Job& job : jobs_) {
    char block[16 * 1024];
    ssize_t n;
    while ((n = read(job.pipe, block, sizeof block)) > 0)
      if (job.text.size() < most_bytes) job.text.append(block, size_t(n));
    if (n == 0 || now_ns >= job.until || now_ns >= until_) finish(job);
  }
  std::erase_if(jobs_, [](const Job& job) { return job.tool < 0; });
  fill(now_ns);
  if (!jobs_.empty()) return false;
  active_ = false;
  return true;
}

uint64_t StackReader::next_tick_ns() const {
  if (!active_) return 0;
  uint64_t next = jobs_.empty() ? 1 : until_;  // 1: at once
  for (const Job& job : jobs_) next = std::min(next, job.until);
  return next;
}

HostStacks StackReader::result() const { return {!gdb_.empty() ? "gdb" : !eu_stack_.empty() ? "eu-stack" : "", found_}; }

}  // namespace weft::launcher
