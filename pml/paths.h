// Which ways there are between processes, for reports: one row a rail, from what both sides have published.
#pragma once

#include <string>
#include <vector>

namespace weft::pml {

/// The same on both sides but for the device.
struct WayName {
  uint32_t wire = 0;  ///< see wire_name()
  uint8_t rail = 0;   ///< see btl::Endpoint::rail()
  std::string transport, device;
};

/// One way that messages to a process can take.
struct Path {
  std::string transport;            ///< "shm", "tcp", ...
  std::string device;               ///< "eth0"; empty if the transport has only one
  bool reaches = false;             ///< false: the device is open here, but has nothing in common with the other side
  double latency_us = 0;            ///< as both sides publish, or as measured
  double gigabytes_per_second = 0;  ///< the same
  bool measured = false;
  bool large = true;  ///< large messages take it; small ones take the first that reaches
};

/// A transport that this process does not use, and why.
struct Unused {
  std::string transport, why;
};

/// The rows as one short text: "tcp eth0 + eth1 (2 rails, each 15 us, 1.25 GB/s, published); also ...".
std::string to_text(const std::vector<Path>&);

}  // namespace weft::pml
