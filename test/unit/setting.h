// A configuration variable for the duration of a test.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "runtime/config/config.h"

namespace weft {

class Setting {
 public:
  Setting(const char* name, const std::string& text) : variable_(config::find(name)), before_(variable_->text()) {
    REQUIRE(variable_->set(text, config::Origin::program));
  }
  ~Setting() { variable_->set(before_, config::Origin::program); }
  Setting(const Setting&) = delete;

 private:
  config::Variable* const variable_;
  const std::string before_;
};

}  // namespace weft
