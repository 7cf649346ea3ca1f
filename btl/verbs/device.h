// Devices opened, their memory registrations, and pools of registered slots for messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/mem/registration.h"
#include "runtime/net/rdma.h"
#include "runtime/net/verbs_library.h"

namespace weft::btl::verbs {

/// "cannot make a queue pair on mlx5_0:1: <errno>; <what helps>".
Failure trouble(const std::string& what, const std::string& device, int error);

/// One device opened for one of its ports.
class Device final : public mem::Registrar {
 public:
  static Result<std::unique_ptr<Device>> open(const net::VerbsLibrary& library, const net::RdmaPort& port);
  ~Device() override;
  Device(const Device&) = delete;

  const net::VerbsLibrary& verbs;
  const net::RdmaPort port;
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_device_attr limits{};

  Result<void*> enroll(mem::Range, bool writable, const mem::DmaBuf*) override;
  void dismiss(void* handle) override;
  static ibv_mr* mr(void* handle) { return static_cast<ibv_mr*>(handle); }

  /// Is there no hardware behind it (soft-RoCE)?
  bool software() const { return limits.vendor_id == 0xffffff; }
  /// Does it do atomic operations on this host's memory?
  bool atomics() const { return limits.atomic_cap != IBV_ATOMIC_NONE; }
  /// Of the port, now: "active", "down", ...
  std::string link_state() const;

 private:
  Device(const net::VerbsLibrary& library, net::RdmaPort p) : verbs(library), port(std::move(p)) {}
};

/// What the rails of a process share.
struct Shared {
  std::vector<std::unique_ptr<Device>> devices;
  mem::RegistrationCache cache;  // goes before the devices
  Shared(std::unique_ptr<mem::Watcher> watcher, mem::RegistrationCache::Limits limits) : cache(std::move(watcher), limits) {}
};

/// Registered memory in pieces of one size, named by number; grows by slabs.
class Slots {
 public:
  Slots(Device& device, uint32_t bytes, uint32_t most) : device_(device), bytes_(bytes), most_(most) {}
  ~Slots();
  Slots(const Slots&) = delete;

  static constexpr uint32_t kNone = ~0u;
  /// kNone if there are no more, for good or because memory cannot be had.
  uint32_t take() {
    if (free_.empty() && !grow()) return kNone;
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give(uint32_t slot) { free_.push_back(slot); }
  std::byte* at(uint32_t slot) const { return slabs_[slot / kPerSlab].base + size_t{slot % kPerSlab} * bytes_; }
  uint32_t key(uint32_t slot) const { return slabs_[slot / kPerSlab].mr->lkey; }
  uint32_t bytes() const { return bytes_; }
  uint32_t count() const { return uint32_t(slabs_.size()) * kPerSlab; }
  /// Are so many in use that none should stay so for long?
  bool scarce() const { return count() - free_.size() > most_ / 2; }

 private:
  static constexpr uint32_t kPerSlab = 64;
  struct Slab {
    std::byte* base;
    ibv_mr* mr;
  };
  bool grow();

  Device& device_;
  const uint32_t bytes_, most_;
  std::vector<Slab> slabs_;
  std::vector<uint32_t> free_;
};

}  // namespace weft::btl::verbs
