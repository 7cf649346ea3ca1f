#include "btl/wrap/plan.h"

#include <charconv>
#include <optional>
#include <string>

namespace weft::btl::wrapping {
namespace {

template <class T>
std::optional<T> number(std::string_view text, std::string_view* rest = nullptr) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || text.starts_with('-')) return {};
  const std::string_view left = text.substr(size_t(end - text.data()));
  if (rest)
    *rest = left;
  else if (!left.empty())
    return {};
  return value;
}

std::optional<double> probability(std::string_view text) {
  const auto p = number<double>(text);
  return p && *p <= 1 ? p : std::nullopt;
}

std::optional<uint64_t> duration(std::string_view text) {
  std::string_view unit;
  const auto value = number<double>(text, &unit);
  if (!value || *value > 1e6) return {};
  if (unit == "ns") return uint64_t(*value);
  if (unit == "us") return uint64_t(*value * 1e3);
  if (unit == "ms") return uint64_t(*value * 1e6);
  if (unit == "s" && *value <= 3600) return uint64_t(*value * 1e9);
  return {};
}

template <class T, class U>
bool store(T& target, const std::optional<U>& value) {
  if (value) target = T(*value);
  return value.has_value();
}

bool set_delay(Plan& plan, std::string_view value) {
  const size_t dash = value.find('-');
  if (!store(plan.delay_least_ns, duration(value.substr(0, dash)))) return false;
  plan.delay_most_ns = plan.delay_least_ns;
  return dash == std::string_view::npos ||
         (store(plan.delay_most_ns, duration(value.substr(dash + 1))) && plan.delay_most_ns >= plan.delay_least_ns);
}

bool set_again(Plan& plan, std::string_view value) {
  const size_t times = value.find('x');
  if (times != std::string_view::npos && (!store(plan.again_run, number<uint32_t>(value.substr(times + 1))) || plan.again_run == 0))
    return false;
  return store(plan.again, probability(value.substr(0, times))) && plan.again < 1;  // 1 would never let anything through
}

bool set(Plan& plan, std::string_view key, std::string_view value) {
  if (key == "delay") return set_delay(plan, value);
  if (key == "reorder") return store(plan.reorder, probability(value));
  if (key == "again") return set_again(plan, value);
  if (key == "drop") return store(plan.drop, probability(value)) && plan.drop < 1;
  if (key == "fail_after") return store(plan.fail_after, number<uint64_t>(value));
  if (key == "fail_peer") return store(plan.fail_peer, number<uint32_t>(value));
  if (key == "seed") return store(plan.seed, number<uint64_t>(value));
  return false;
}

}  // namespace

Result<Plan> parse_plan(std::string_view text) {
  Plan plan;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos || !set(plan, item.substr(0, equals), item.substr(equals + 1)))
      return Failure{
          "\"" + std::string(item) +
          "\" is no part of a fault plan; there are delay=100us or 10us-1ms, reorder=0.1, again=0.1 or 0.1x50, drop=0.01, fail_after=1000, "
          "fail_peer=3, seed=7, separated by commas"};
  }
  return plan;
}

}  // namespace weft::btl::wrapping
