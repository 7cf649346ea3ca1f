// A learning Ethernet switch in user space with latency, loss and rate per
// port, for kernels that have no sch_netem. One TAP device per port; the
// caller moves each TAP into a node's network namespace.
//
//   tapswitch --latency US --loss PERCENT --rate MBIT --ports FILE TAP...
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
  uint64_t next_free_ns = 0;
  std::deque<Pending> queue;
};

constexpr size_t kQueueLimit = 20000;

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

}  // namespace

int main(int argc, char** argv) {
  double latency_us = 0, loss_pct = 0, rate_mbit = 0;
  std::string ports_file;
  std::vector<Port> ports;
  for (int i = 1; i < argc; ++i) {
    std::string a = argv[i];
    auto val = [&]() -> const char* {
      if (i + 1 >= argc) {
        std::fprintf(stderr, "tapswitch: %s needs a value\n", a.c_str());
        std::exit(2);
      }
      return argv[++i];
    };
    if (a == "--latency")
      latency_us = std::atof(val());
    else if (a == "--loss")
      loss_pct = std::atof(val());
    else if (a == "--rate")
      rate_mbit = std::atof(val());
    else if (a == "--ports")
      ports_file = val();
    else {
      Port p;
      p.name = a;
      ports.push_back(std::move(p));
    }
  }
  prctl(PR_SET_TIMERSLACK, 1);
  for (auto& p : ports) p.fd = open_tap(p.name);
  std::printf("ready\n");
  std::fflush(stdout);

  const uint64_t latency_ns = uint64_t(latency_us * 1000);
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> uni(0, 100);
  std::unordered_map<uint64_t, size_t> fdb;
  std::vector<pollfd> pfds(ports.size());
  for (size_t i = 0; i < ports.size(); ++i) pfds[i] = {ports[i].fd, POLLIN, 0};

  timespec seen{};
  uint64_t next_check = 0;
  auto reload = [&] {
    if (ports_file.empty()) return;
    struct stat st;
    if (stat(ports_file.c_str(), &st) != 0) return;
    if (st.st_mtim.tv_sec == seen.tv_sec && st.st_mtim.tv_nsec == seen.tv_nsec) return;
    seen = st.st_mtim;
    std::ifstream in(ports_file);
    std::map<std::string, std::string> m;
    std::string n, s;
    while (in >> n >> s) m[n] = s;
    for (auto& p : ports) p.cut = m.count(p.name) && m[p.name] == "cut";
  };

  auto enqueue = [&](Port& p, const Frame& f, uint64_t now) {
    if (p.cut || p.queue.size() >= kQueueLimit) return;
    if (loss_pct > 0 && uni(rng) < loss_pct) return;
    uint64_t t = std::max(now, p.next_free_ns);
    if (rate_mbit > 0) t += uint64_t(double(f->size()) * 8000.0 / rate_mbit);
    p.next_free_ns = t;
    p.queue.push_back({t + latency_ns, f});
  };

  std::vector<uint8_t> buf(65536 + 64);
  for (;;) {
    uint64_t now = now_ns();
    if (now >= next_check) {
      reload();
      next_check = now + 20000000;
    }
    uint64_t due = next_check;
    for (auto& p : ports) {
      while (!p.queue.empty() && p.queue.front().due_ns <= now) {
        Frame f = std::move(p.queue.front().frame);
        p.queue.pop_front();
        if (!p.cut && write(p.fd, f->data(), f->size()) < 0) { /* link down or full: lost */
        }
      }
      if (!p.queue.empty()) due = std::min(due, p.queue.front().due_ns);
    }
    now = now_ns();
    timespec to{0, 0};
    if (due > now) to.tv_nsec = long(due - now);  // never above 20 ms
    if (ppoll(pfds.data(), pfds.size(), &to, nullptr) <= 0) continue;
    for (size_t i = 0; i < ports.size(); ++i) {
      if (pfds[i].revents & (POLLERR | POLLHUP | POLLNVAL)) {
        // The TAP went away with its node's network namespace: offer a new one.
        close(ports[i].fd);
        ports[i].fd = pfds[i].fd = open_tap(ports[i].name);
        ports[i].queue.clear();
        continue;
      }
      if (!(pfds[i].revents & POLLIN)) continue;
      for (int burst = 0; burst < 64; ++burst) {
        ssize_t n = read(ports[i].fd, buf.data(), buf.size());
        if (n < 14) break;
        if (ports[i].cut) continue;
        fdb[mac_key(&buf[6])] = i;
        auto f = std::make_shared<std::vector<uint8_t>>(buf.begin(), buf.begin() + n);
        uint64_t t = now_ns();
        auto it = (buf[0] & 1) ? fdb.end() : fdb.find(mac_key(&buf[0]));
        if (it != fdb.end()) {
          if (it->second != i) enqueue(ports[it->second], f, t);
        } else {
          for (size_t j = 0; j < ports.size(); ++j)
            if (j != i) enqueue(ports[j], f, t);
        }
      }
    }
  }
}
