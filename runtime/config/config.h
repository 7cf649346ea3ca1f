// Configuration variables: declared once, beside their use; found in the environment, mpirun --set, MPI_T, `weft info`, docs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::config {

enum class Type : uint8_t { boolean, integer, bytes, text };

/// Most bytes of a variable that is handed from process to process: the kernel takes 128 KiB for one.
constexpr size_t kMostOfVariable = 100 << 10;

/// Where a value came from.
enum class Origin : uint8_t { built_in, file, environment, program };

/// One declared variable, without its C++ type. Constructed at namespace scope; registers itself.
class Variable {
 public:
  /// `words`: what a text may be, separated by ", "; null: anything.
  Variable(const char* module, const char* name, Type type, const char* default_value, const char* help, const char* words = nullptr);
  Variable(const Variable&) = delete;

  const char* module() const { return module_; }
  const char* name() const { return name_; }
  const char* help() const { return help_; }
  const char* default_value() const { return default_; }
  Type type() const { return type_; }
  Origin origin() const { return origin_; }
  const std::string& text() const { return text_; }
  /// WEFT_<MODULE>_<NAME> in capitals; a module of "" gives WEFT_<NAME>.
  std::string environment_name() const;
  const Variable* next() const { return next_; }

  /// Sets the value; false (with a reason in `why`) if it does not parse.
  bool set(std::string_view value, Origin origin, std::string* why = nullptr);

 protected:
  int64_t number_ = 0;  // boolean 0/1, integer, bytes
  std::string text_;

 private:
  const char* module_;
  const char* name_;
  const char* default_;
  const char* help_;
  const char* words_;
  Type type_;
  Origin origin_ = Origin::built_in;
  Variable* next_;
};

struct Bool : Variable {
  Bool(const char* module, const char* name, const char* def, const char* help) : Variable(module, name, Type::boolean, def, help) {}
  bool get() const { return number_ != 0; }
};
struct Integer : Variable {
  Integer(const char* module, const char* name, const char* def, const char* help) : Variable(module, name, Type::integer, def, help) {}
  int64_t get() const { return number_; }
};
/// A size: accepts 4096, 64K, 4M, 1G (powers of 1024) and "inf".
struct Bytes : Variable {
  Bytes(const char* module, const char* name, const char* def, const char* help) : Variable(module, name, Type::bytes, def, help) {}
  uint64_t get() const { return static_cast<uint64_t>(number_); }
};
struct Text : Variable {
  Text(const char* module, const char* name, const char* def, const char* help) : Variable(module, name, Type::text, def, help) {}
  const std::string& get() const { return text_; }
};
/// One of several words, such as "auto, always, never".
struct Choice : Variable {
  Choice(const char* module, const char* name, const char* def, const char* words, const char* help)
      : Variable(module, name, Type::text, def, help, words) {}
  const std::string& get() const { return text_; }
};

/// All declared variables (an intrusive list through next()).
const Variable* all();
Variable* find(std::string_view environment_name);

/// Reads every WEFT_* of the environment into the variables. Returns one readable complaint per unknown name (with the
/// nearest known one) or value that does not parse; what the program has set stays. `known` names of others (the launcher's own) are not
/// complained about.
std::vector<std::string> load_environment();

/// Names under WEFT_ that are no variables (set by the launcher for its ranks); load_environment() leaves them alone.
void reserve_name(const char* environment_name);

}  // namespace weft::config
