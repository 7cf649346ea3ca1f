// A learning Ethernet switch in user space with latency, loss and rate per
// port, for kernels that have no sch_netem. One TAP device per port; the
// caller moves each TAP into a node's network namespace.
//
//   tapswitch --latency US --loss PERCENT --rate MBIT --ports FILE TAP...
//
// The rate is that of the cable, in either direction: a frame comes in when those before it on its host's cable have, and goes out when
// those before it on the other one have; it does not wait to be whole in between.
//
// FILE holds one line per port, "NAME up" or "NAME cut"; it is read again
// whenever it changes (checked every 20 ms). A cut port drops every frame in
// both directions without losing carrier. Prints "ready" once all TAPs exist.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using Frame = std::shared_ptr<std::vector<uint8_t>>;

struct Pending {
  uint64_t due_ns;
  Frame frame;
};

struct Port {
  std::string name;
  int fd = -1;
  bool cut = false;
  uint64_t next_in_ns = 0, next_free_ns = 0;  // until when each direction is busy
  std::deque<Pending> entering, queue;
};

constexpr size_t kQueueLimit = 20000;
constexpr uint64_t kLongest_ns = 50000000;  // of waiting for a cable: switches have little memory
constexpr size_t kEnteringLimit = 64;       // more wait in the host itself

uint64_t now_ns() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return uint64_t(ts.tv_sec) * 1000000000u + uint64_t(ts.tv_nsec);
}

int open_tap(const std::string& name) {
  int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    std::perror("tapswitch: /dev/net/tun");
    std::exit(1);
  }
  ifreq ifr{};
  ifr.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::strncpy(ifr.ifr_name, name.c_str(), IFNAMSIZ - 1);
  if (ioctl(fd, TUNSETIFF, &ifr) < 0) {
    std::fprintf(stderr, "tapswitch: TUNSETIFF %s: %s\n", name.c_str(), std::strerror(errno));
    std::exit(1);
  }
  return fd;
}

uint64_t mac_key(const uint8_t* p) {
  uint64_t k = 0;
  for (int i = 0; i < 6; ++i) k = k << 8 | p[i];
  return k;
}

struct Options {
  double latency_us = 0, loss_pct = 0, rate_mbit = 0;
  std::string ports_file;
  std::vector<Port> ports;
};

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    const auto value = [&]() -> const char* {
      if (i + 1 < argc) return argv[++i];
      std::fprintf(stderr, "tapswitch: %s needs a value\n", a.c_str());
      std::exit(2);
    };
    if (a == "--latency")
      options.latency_us = std::atof(value());
    else if (a == "--loss")
      options.loss_pct = std::atof(value());
    else if (a == "--rate")
      options.rate_mbit = std::atof(value());
    else if (a == "--ports")
      options.ports_file = value();
    else
      options.ports.emplace_back().name = a;
  }
  return options;
}

/// Learns which address is behind which port, and holds each frame back for as long as a real network would.
class Switch {
 public:
  explicit Switch(Options options) : options_(std::move(options)), pfds_(options_.ports.size()) {
    for (size_t i = 0; i < ports().size(); ++i) {
      ports()[i].fd = open_tap(ports()[i].name);
      pfds_[i] = {ports()[i].fd, POLLIN, 0};
    }
  }

  [[noreturn]] void run() {
    for (;;) {
      const uint64_t due = deliver_due();
      const uint64_t now = now_ns();
      timespec to{0, 0};
      if (due > now) to.tv_nsec = long(due - now);  // never above 20 ms
      if (ppoll(pfds_.data(), pfds_.size(), &to, nullptr) <= 0) continue;
      for (size_t i = 0; i < ports().size(); ++i) {
        if (pfds_[i].revents & (POLLERR | POLLHUP | POLLNVAL))
          reopen(i);
        else if (pfds_[i].revents & POLLIN)
          accept(i);
      }
    }
  }

 private:
  std::vector<Port>& ports() { return options_.ports; }

  /// Which ports are cut, if the file that says so has changed.
  void reload() {
    if (options_.ports_file.empty()) return;
    struct stat st;
    if (stat(options_.ports_file.c_str(), &st) != 0) return;
    if (st.st_mtim.tv_sec == seen_.tv_sec && st.st_mtim.tv_nsec == seen_.tv_nsec) return;
    seen_ = st.st_mtim;
    std::ifstream in(options_.ports_file);
    std::map<std::string, std::string> m;
    std::string n, s;
    while (in >> n >> s) m[n] = s;
    for (auto& p : ports()) p.cut = m.count(p.name) && m[p.name] == "cut";
  }

  void enqueue(Port& p, const Frame& f, uint64_t now) {
    if (p.cut || p.queue.size() >= kQueueLimit || p.next_free_ns > now + kLongest_ns) return;
    if (options_.loss_pct > 0 && percent_(random_) < options_.loss_pct) return;
    p.next_free_ns = std::max(now, p.next_free_ns) + on_cable(*f);
    p.queue.push_back({p.next_free_ns + uint64_t(options_.latency_us * 1000), f});
  }

  /// How long a frame keeps one busy, in ns.
  uint64_t on_cable(const std::vector<uint8_t>& f) const {
    return options_.rate_mbit > 0 ? uint64_t(double(f.size()) * 8000.0 / options_.rate_mbit) : 0;
  }

  /// Hands over the frames whose time has come; when the next one's will.
  uint64_t deliver_due() {
    const uint64_t now = now_ns();
    if (now >= next_check_) {
      reload();
      next_check_ = now + 20000000;
    }
    uint64_t due = next_check_;
    for (size_t i = 0; i < ports().size(); ++i) {
      auto& entering = ports()[i].entering;
      for (; !entering.empty() && entering.front().due_ns <= now; entering.pop_front()) pass_on(i, entering.front());
      if (!entering.empty()) due = std::min(due, entering.front().due_ns);
      pfds_[i].events = entering.size() < kEnteringLimit ? POLLIN : 0;
    }
    for (auto& p : ports()) {
      while (!p.queue.empty() && p.queue.front().due_ns <= now) {
        Frame f = std::move(p.queue.front().frame);
        p.queue.pop_front();
        if (!p.cut && write(p.fd, f->data(), f->size()) < 0) { /* link down or full: lost */
        }
      }
      if (!p.queue.empty()) due = std::min(due, p.queue.front().due_ns);
    }
    return due;
  }

  /// The TAP went away with its node's network namespace: offers a new one.
  void reopen(size_t i) {
    close(ports()[i].fd);
    ports()[i].fd = pfds_[i].fd = open_tap(ports()[i].name);
    ports()[i].queue.clear();
    ports()[i].entering.clear();
  }

  void accept(size_t i) {
    for (int burst = 0; burst < 64; ++burst) {
      const ssize_t n = read(ports()[i].fd, buffer_.data(), buffer_.size());
      if (n < 14) break;
      if (ports()[i].cut) continue;
      addresses_[mac_key(&buffer_[6])] = i;
      Port& p = ports()[i];
      const Pending arrived{std::max(now_ns(), p.next_in_ns), std::make_shared<std::vector<uint8_t>>(buffer_.begin(), buffer_.begin() + n)};
      p.next_in_ns = arrived.due_ns + on_cable(*arrived.frame);
      if (options_.rate_mbit > 0)
        p.entering.push_back(arrived);
      else
        pass_on(i, arrived);
      if (p.entering.size() >= kEnteringLimit) break;
    }
  }

  /// What begins to come in over a port now goes to where its address is, or to all.
  void pass_on(size_t i, const Pending& arrived) {
    const uint8_t* const bytes = arrived.frame->data();
    const auto it = (bytes[0] & 1) ? addresses_.end() : addresses_.find(mac_key(bytes));
    for (size_t j = 0; j < ports().size(); ++j)
      if (j != i && (it == addresses_.end() || it->second == j)) enqueue(ports()[j], arrived.frame, arrived.due_ns);
  }

  Options options_;
  std::vector<pollfd> pfds_;
  std::unordered_map<uint64_t, size_t> addresses_;
  std::vector<uint8_t> buffer_ = std::vector<uint8_t>(65536 + 64);
  std::mt19937_64 random_{1};
  std::uniform_real_distribution<double> percent_{0, 100};
  timespec seen_{};
  uint64_t next_check_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_TIMERSLACK, 1);
  Switch network(read_options(argc, argv));
  std::printf("ready\n");
  std::fflush(stdout);
  network.run();
}
