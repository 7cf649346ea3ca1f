#include "launcher/forward.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace weft::launcher {
namespace {

constexpr size_t kept = 1024;  // bytes of memory that something empty may keep: there are many

}  // namespace

Sink::Sink(int fd) : fd_(fd), terminal_(isatty(fd)) {
  struct stat about {};
  fstat(fd, &about);
  pollable_ = !S_ISREG(about.st_mode);
  if (!S_ISFIFO(about.st_mode) && !terminal_) return;
  // O_NONBLOCK belongs to the open file, which we share with whoever started us; an open file of our own is safe to change.
  const int again = open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (again < 0) return;
  fd_ = again;
  own_ = nonblocking_ = true;
}

Sink::~Sink() {
  if (own_) close(fd_);
}

void Sink::append(const char* data, size_t size) {
  if (broken_) return;
  if (done_ == queue_.size()) {
    queue_.clear();
    done_ = 0;
  } else if (done_ > 256 * 1024) {
    queue_.erase(0, done_);
    done_ = 0;
  }
  queue_.append(data, size);
}

void Sink::write_some() {
  while (!broken_ && done_ < queue_.size()) {
    size_t size = queue_.size() - done_;
    if (!nonblocking_ && pollable_) {  // sure not to block for so few bytes, if there is room at all
      pollfd ready{fd_, POLLOUT, 0};
      if (poll(&ready, 1, 0) <= 0) return;
      size = std::min<size_t>(size, 4096);
    }
    const ssize_t n = write(fd_, queue_.data() + done_, size);
    if (n > 0) {
      done_ += size_t(n);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      error_ = errno;
      broken_ = true;  // nobody reads, or the disk is full
      queue_.clear();
      done_ = 0;
    }
  }
  if (!pollable_ && done_ == queue_.size() && queue_.capacity() > kept) {  // a file of a rank's, among many
    std::string().swap(queue_);
    done_ = 0;
  }
}

/// What a line starts with.
void Merger::head(const Stream& stream) {
  if (stream.stamp) {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    tm parts;
    localtime_r(&now.tv_sec, &parts);
    char text[40];
    size_t size = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    size += size_t(snprintf(text + size, sizeof text - size, ".%03ld ", now.tv_nsec / 1'000'000));
    sink_.append(text, size);
  }
  sink_.append(stream.tag.data(), stream.tag.size());
}

/// Passes the first `size` bytes on, each line headed by the stream's tag.
void Merger::emit(Stream& stream, size_t size, uint64_t now_ns) {
  if (!size) return;
  if (dangling_) sink_.append("\n", 1);
  dangling_ = false;
  const char* data = stream.held.data();
  const bool complete = data[size - 1] == '\n';
  if (stream.tag.empty() && !stream.stamp) {
    sink_.append(data, size);
  } else {
    for (size_t at = 0; at < size;) {
      if (!stream.line_open) head(stream);
      const void* end = memchr(data + at, '\n', size - at);
      const size_t next = end ? size_t(static_cast<const char*>(end) - data) + 1 : size;
      sink_.append(data + at, next - at);
      stream.line_open = !end;
      at = next;
    }
  }
  stream.line_open = !complete;
  stream.held.erase(0, size);
  if (stream.held.empty() && stream.held.capacity() > kept) std::string().swap(stream.held);
  stream.since_ns = now_ns;
  owner_ = complete ? nullptr : &stream;
  owner_since_ = now_ns;
}

void Merger::pass(Stream& stream, uint64_t now_ns) {
  if (owner_ && owner_ != &stream) {
    if (std::find(waiting_.begin(), waiting_.end(), &stream) == waiting_.end()) waiting_.push_back(&stream);
    return;
  }
  if (stream.ended || (owner_ == &stream && stream.held.find('\n') == std::string::npos)) {
    emit(stream, stream.held.size(), now_ns);
  } else {
    const size_t end = stream.held.rfind('\n');
    if (end != std::string::npos) emit(stream, end + 1, now_ns);
    if (stream.held.size() >= hold_) emit(stream, stream.held.size(), now_ns);
  }
  if (stream.ended && owner_ == &stream) {
    owner_ = nullptr;
    dangling_ = true;
  }
}

void Merger::wake(uint64_t now_ns) {
  while (!owner_ && !waiting_.empty()) {
    Stream* next = waiting_.front();
    waiting_.erase(waiting_.begin());
    pass(*next, now_ns);
  }
}

void Merger::arrived(Stream& stream, uint64_t now_ns) {
  if (!stream.since_ns || stream.held.empty()) stream.since_ns = now_ns;
  pass(stream, now_ns);
  wake(now_ns);
  sink_.write_some();
  if (sink_.terminal() && !stream.held.empty() && std::find(prompting_.begin(), prompting_.end(), &stream) == prompting_.end())
    prompting_.push_back(&stream);
}

/// On a terminal an incomplete line may be a question to the user: it is shown after a moment.
uint64_t Merger::show_prompts(uint64_t now_ns) {
  uint64_t next = 0;
  std::vector<Stream*> still;
  for (Stream* stream : prompting_) {
    if (stream->held.empty() || stream->ended) continue;
    if (owner_ || now_ns < stream->since_ns + prompt_ns) {
      still.push_back(stream);
      next = now_ns + prompt_ns;
    } else {
      emit(*stream, stream->held.size(), now_ns);
      sink_.write_some();
    }
  }
  prompting_ = std::move(still);
  return next;
}

uint64_t Merger::tick(uint64_t now_ns) {
  const uint64_t prompt = prompting_.empty() ? 0 : show_prompts(now_ns);
  if (!owner_ || waiting_.empty()) return prompt;
  if (now_ns < owner_since_ + patience_ns) return owner_since_ + patience_ns;
  owner_->line_open = false;  // silent in the middle of a line while others wait, perhaps for one another: its line is cut
  owner_ = nullptr;
  dangling_ = true;
  wake(now_ns);
  sink_.write_some();
  return 0;
}

void Merger::say(const std::string& line) {
  if (owner_) {
    owner_->line_open = false;
    owner_ = nullptr;
    dangling_ = true;
  }
  if (dangling_) sink_.append("\n", 1);
  dangling_ = false;
  sink_.append(line.data(), line.size());
  if (line.empty() || line.back() != '\n') sink_.append("\n", 1);
  sink_.write_some();
}

void Merger::forget(Stream& stream) {
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), &stream), waiting_.end());
  prompting_.erase(std::remove(prompting_.begin(), prompting_.end(), &stream), prompting_.end());
  if (owner_ == &stream) owner_ = nullptr;
}

}  // namespace weft::launcher
