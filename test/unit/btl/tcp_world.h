// Ranks of one process joined by tcp, for tests: each has its rails, its endpoints and a record of what arrived.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "btl/tcp/rail.h"
#include "runtime/boot/boot.h"

namespace tcp_test {

using namespace weft;
using namespace weft::btl;
using Clock = std::chrono::steady_clock;

struct Message {
  Header header;
  std::vector<std::byte> payload;
};

/// One rank with one rail.
struct Node : Sink {
  boot::Bootstrap& boot;
  std::unique_ptr<tcp::Rail> rail;
  std::vector<boot::Blob>* addresses = nullptr;
  std::map<uint32_t, Endpoint*> endpoints;
  std::map<uint32_t, std::vector<Message>> received;  // by sender
  std::map<uint32_t, std::string> losses;
  std::map<uint32_t, std::vector<std::byte>> landings;
  std::function<void(uint32_t, const Header&)> on_arrival;
  bool land = true;
  bool keep = true;
  uint64_t landed = 0, met = 0, count = 0;

  Node(boot::Bootstrap& b, const tcp::Options& options) : boot(b) {
    auto rails = tcp::open_rails(Site{b}, options);
    if (!rails) throw std::runtime_error(rails.failure().text);
    rail = std::move(rails->front());
  }
  Node(boot::Bootstrap& b, std::unique_ptr<tcp::Rail> r) : boot(b), rail(std::move(r)) {}
  uint32_t rank() const { return boot.job().rank; }
  static void* cookie(uint32_t rank) { return reinterpret_cast<void*>(uintptr_t{rank} + 1); }
  static uint32_t rank_of(void* cookie) { return uint32_t(reinterpret_cast<uintptr_t>(cookie) - 1); }

  Endpoint& to(uint32_t peer) {
    auto& slot = endpoints[peer];
    if (!slot) {
      auto made = rail->connect({0, peer}, (*addresses)[peer], cookie(peer));
      if (!made) throw std::runtime_error(made.failure().text);
      slot = *made;
    }
    return *slot;
  }
  Status send(uint32_t peer, const Header& header, const void* payload) { return to(peer).try_inline(header, payload); }

  void* meet(ProcessId from) override {
    ++met;
    return cookie(from.rank);
  }
  void arrived(void* c, const Header& header, const std::byte* payload) override {
    const uint32_t from = rank_of(c);
    ++count;
    if (payload == landings[from].data() && header.length > 0) ++landed;
    if (keep) received[from].push_back({header, std::vector<std::byte>(payload, payload + header.length)});
    if (on_arrival) on_arrival(from, header);
  }
  std::byte* landing(void* c, const Header& header) override {
    if (!land) return nullptr;
    auto& place = landings[rank_of(c)];
    place.resize(header.length);
    return place.data();
  }
  void lost(void* c, const std::string& why) override { losses[rank_of(c)] = why; }
};

struct World {
  std::vector<std::unique_ptr<boot::Bootstrap>> boots;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<boot::Blob> addresses;

  explicit World(uint32_t size, tcp::Options options = {}) : boots(boot::open_fake(size)) {
    for (auto& b : boots) nodes.push_back(std::make_unique<Node>(*b, options));
    for (auto& n : nodes) addresses.push_back(n->rail->address());
    for (auto& n : nodes) n->addresses = &addresses;
  }
  Node& operator[](size_t i) { return *nodes[i]; }
  void poll() {
    for (auto& n : nodes)
      if (n && n->rail) n->rail->poll(*n);
  }
  /// Polls everybody until `done`; false when it takes implausibly long.
  bool until(const std::function<bool()>& done, int seconds = 20) {
    const auto limit = Clock::now() + std::chrono::seconds(seconds);
    while (!done()) {
      if (Clock::now() > limit) return false;
      poll();
    }
    return true;
  }
  /// Sends, polling as long as there is no room.
  Status push(uint32_t from, uint32_t to, const Header& header, const void* payload) {
    for (;;) {
      const Status status = nodes[from]->send(to, header, payload);
      if (status != Status::again) return status;
      poll();
    }
  }
};

inline Header header_of(uint32_t length, int32_t tag = 0, uint16_t sequence = 0) { return {7, tag, 0, length, sequence, 1, 0}; }

inline tcp::Options only(const char* address) {
  net::Interface lo{"lo", 1, true, true, 0, {*net::parse_address(address)}};
  tcp::Options options;
  options.interfaces = std::vector{lo};
  return options;
}

}  // namespace tcp_test
