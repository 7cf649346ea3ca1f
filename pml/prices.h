// What ways were found to cost when they were measured.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "btl/btl.h"

namespace weft::pml {

/// Of a way that was tried and carried nothing.
constexpr btl::Price kCarriesNothing{1e12, 1e3};

/// Of a host: by the host at the other end, the transport, and the device at this end.
class Prices {
 public:
  void set(const std::string& host, const std::string& transport, const std::string& device, btl::Price price) {
    prices_[{host, transport, device}] = price;
  }
  /// Null: it was not measured.
  const btl::Price* find(const std::string& host, const std::string& transport, const std::string& device) const {
    const auto at = prices_.find({host, transport, device});
    return at == prices_.end() ? nullptr : &at->second;
  }
  bool empty() const { return prices_.empty(); }

  /// A line each.
  std::string to_text() const;
  /// What is no such line is left out.
  static Prices from_text(std::string_view text);

 private:
  std::map<std::tuple<std::string, std::string, std::string>, btl::Price> prices_;
};

}  // namespace weft::pml
