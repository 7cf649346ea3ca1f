#include "runtime/config/config.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "runtime/base/text.h"

extern char** environ;

namespace weft::config {
namespace {

constinit Variable* head = nullptr;

std::vector<std::string>& reserved() {
  static std::vector<std::string> names{"WEFT_LOG", "WEFT_CC", "WEFT_CXX", "WEFT_COMPAT", "WEFT_JOB", "WEFT_NEAR_NICS"};
  return names;
}

char upper(char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; }

bool parse_boolean(std::string_view text, int64_t& out) {
  for (const char* yes : {"1", "yes", "on", "true", "y"})
    if (same_word(text, yes)) return out = 1, true;
  for (const char* no : {"0", "no", "off", "false", "n"})
    if (same_word(text, no)) return out = 0, true;
  return false;
}

bool parse_number(std::string_view text, bool units, int64_t& out) {
  if (units && (same_word(text, "inf") || same_word(text, "unlimited"))) return out = std::numeric_limits<int64_t>::max(), true;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  std::string_view rest(end, size_t(text.data() + text.size() - end));
  if (units && value < 0) return false;
  if (rest.empty()) return out = value, true;
  if (!units) return false;
  if (rest.size() > 1 && upper(rest.back()) == 'B') rest.remove_suffix(1);
  if (rest.size() > 1 && upper(rest.back()) == 'I') rest.remove_suffix(1);
  if (rest.size() != 1) return false;
  const auto place = std::string_view("KMGT").find(upper(rest[0]));
  if (same_word(rest, "B")) return out = value, true;
  if (place == std::string_view::npos) return false;
  const int shift = 10 * int(place + 1);
  if (value > std::numeric_limits<int64_t>::max() >> shift) return false;
  return out = value << shift, true;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

std::string nearest(std::string_view name) {
  std::string best;
  size_t least = name.size() / 3 + 1;
  for (const Variable* v = head; v; v = v->next()) {
    const std::string candidate = v->environment_name();
    if (const size_t d = edit_distance(name, candidate); d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

const char* form_of(Type type) {
  switch (type) {
    case Type::boolean: return "yes or no";
    case Type::integer: return "a whole number";
    case Type::bytes: return "a size such as 4096, 64K, 4M or inf";
    case Type::text: return "text";
  }
  return "";
}

/// Is it one of several words, separated by ", "?
bool among(std::string_view words, std::string_view value) {
  for (;;) {
    const size_t end = std::min(words.find(", "), words.size());
    if (words.substr(0, end) == value) return true;
    if (end == words.size()) return false;
    words.remove_prefix(end + 2);
  }
}

}  // namespace

Variable::Variable(const char* module, const char* name, Type type, const char* default_value, const char* help, const char* words)
    : module_(module), name_(name), default_(default_value), help_(help), words_(words), type_(type), next_(head) {
  head = this;
  set(default_value, Origin::built_in);
}

std::string Variable::environment_name() const {
  std::string text = "WEFT_";
  if (*module_) text.append(module_).append("_");
  text += name_;
  std::ranges::transform(text, text.begin(), upper);
  return text;
}

bool Variable::set(std::string_view value, Origin origin, std::string* why) {
  int64_t number = 0;
  const bool good = words_                   ? among(words_, value)
                    : type_ == Type::text    ? true
                    : type_ == Type::boolean ? parse_boolean(value, number)
                                             : parse_number(value, type_ == Type::bytes, number);
  if (!good) {
    const std::string form = words_ ? std::string("one of ") + words_ : form_of(type_);
    if (why) *why = environment_name() + "=" + std::string(value) + " is not " + form + "; keeping " + text_;
    return false;
  }
  number_ = number;
  text_ = value;
  origin_ = origin;
  return true;
}

const Variable* all() { return head; }

Variable* find(std::string_view environment_name) {
  for (Variable* v = head; v; v = const_cast<Variable*>(v->next()))
    if (v->environment_name() == environment_name) return v;
  return nullptr;
}

void reserve_name(const char* environment_name) { reserved().push_back(environment_name); }

std::vector<std::string> load_environment() {
  std::vector<std::string> complaints;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("WEFT_")) continue;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (Variable* variable = find(name)) {
      if (variable->origin() == Origin::program) continue;
      std::string why;
      if (!variable->set(text.substr(equals + 1), Origin::environment, &why)) complaints.push_back(why);
      continue;
    }
    if (std::ranges::find(reserved(), name) != reserved().end()) continue;
    const std::string close = nearest(name);
    complaints.push_back(std::string(name) + " is not a variable of Weft" +
                         (close.empty() ? "; `weft info --variables` lists them" : "; did you mean " + close + "?"));
  }
  return complaints;
}

}  // namespace weft::config
