#include "launcher/place/config_file.h"

#include "launcher/place/words.h"

namespace weft::placement {
namespace {

/// Cuts text into words and lines.
class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Result<std::vector<std::string>> read() {
    for (; at_ < text_.size(); ++at_)
      if (!step(text_[at_])) return Failure{"line " + std::to_string(opened_) + " of " + file_ + ": a quote that is not closed"};
    end_line();
    if (words_.empty()) return Failure{file_ + ": no program is named in it"};
    return std::move(words_);
  }

 private:
  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
  uint32_t line_ = 1, opened_ = 1;
  std::string word_;
  bool in_word_ = false, fresh_line_ = true;
  std::vector<std::string> words_;

  bool step(char c) {
    if (c == '\n') {
      end_line();
      ++line_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
    } else if (c == '#' && !in_word_) {
      while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
    } else if (c == '\'' || c == '"') {
      return quoted(c);
    } else if (c == '\\' && at_ + 1 < text_.size()) {
      escaped();
    } else {
      add(c);
    }
    return true;
  }

  void add(char c) {
    word_ += c;
    in_word_ = true;
  }

  void escaped() {
    if (text_[++at_] == '\n')
      ++line_;
    else
      add(text_[at_]);
  }

  bool quoted(char quote) {
    in_word_ = true;
    opened_ = line_;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == quote) return true;
      if (text_[at_] == '\n') ++line_;
      if (quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size() && (text_[at_ + 1] == '"' || text_[at_ + 1] == '\\')) ++at_;
      word_ += text_[at_];
    }
    return false;
  }

  void end_word() {
    if (!in_word_) return;
    if (fresh_line_ && !words_.empty()) words_.emplace_back(":");
    fresh_line_ = false;
    words_.push_back(std::move(word_));
    word_.clear();
    in_word_ = false;
  }

  void end_line() {
    end_word();
    fresh_line_ = true;
  }
};

}  // namespace

Result<std::vector<std::string>> parse_config_file(std::string_view text, const std::string& file) { return Reader(text, file).read(); }

Result<std::vector<std::string>> read_config_file(const std::string& file) {
  auto text = read_text(file);
  if (!text) return Failure{"configfile " + text.failure().text};
  return parse_config_file(*text, file);
}

}  // namespace weft::placement
