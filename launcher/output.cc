#include "launcher/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/clock.h"

namespace weft::launcher {
namespace {

constexpr uint64_t sink_mark = uint64_t{1} << 32;  // epoll's word for a sink; streams have their index

bool same_file(int a, int b) {
  struct stat x, y;
  return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/// The name of a file by a pattern of Hydra's.
std::string filled(const std::string& pattern, uint32_t rank) {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  std::string path;
  for (size_t i = 0; i < pattern.size(); i++) {
    const char sign = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : 0;
    if (sign == 'r')
      path += std::to_string(rank);
    else if (sign == 'h' || sign == 'p')
      path += host;
    else if (sign == 'g')
      path += "0";
    else if (sign == '%')
      path += "%";
    else {
      path += pattern[i];
      continue;
    }
    i++;
  }
  return path;
}

}  // namespace

Output::Output(const OutputWish& wish) : wish_(wish), epoll_(epoll_create1(EPOLL_CLOEXEC)), block_(64 * 1024) {
  if (!same_file(1, 2)) err_merger_.emplace(err_);
}

Output::~Output() {
  for (auto& source : sources_)
    if (source->stream.fd >= 0) close(source->stream.fd);
  close(epoll_);
}

Result<void> Output::prepare(uint32_t ranks, uint32_t local) {
  hold_ = Merger::share(2 * size_t{local});
  out_merger_.hold_at_most(hold_);
  errors().hold_at_most(hold_);
  if (wish_.folder.empty()) return {};
  digits_ = int(std::to_string(ranks - 1).size());
  for (size_t at = 1; at <= wish_.folder.size(); at++) {  // the folders above it as well
    if (at < wish_.folder.size() && wish_.folder[at] != '/') continue;
    const std::string part = wish_.folder.substr(0, at);
    if (mkdir(part.c_str(), 0777) && errno != EEXIST && (errno != EROFS || access(part.c_str(), F_OK)))
      return Failure{"--output dir=" + wish_.folder + ": cannot make " + part + ": " + strerror(errno)};
  }
  return {};
}

/// Two streams may have one file: then their lines do not mix.
Result<Output::RankFile*> Output::file_for(const std::string& path) {
  for (const auto& file : files_)
    if (file->path == path) return file.get();
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
  if (fd < 0) return Failure{"cannot write its output to " + path + ": " + strerror(errno)};
  files_.push_back(std::make_unique<RankFile>(fd, path));
  files_.back()->merger.hold_at_most(hold_);
  return files_.back().get();
}

Result<void> Output::add(uint32_t rank, int out, int errors, const std::string& label) {
  RankFile* files[2] = {nullptr, nullptr};
  std::string number = label;
  number.insert(0, size_t(std::max(0, digits_ - int(number.size()))), '0');
  bool shown[2];
  for (int which = 0; which < 2; which++) {
    const std::string& pattern = which ? wish_.error_pattern : wish_.out_pattern;
    shown[which] = pattern.empty() && (wish_.copy || wish_.folder.empty());
    if (pattern.empty() && wish_.folder.empty()) continue;
    auto file = file_for(pattern.empty() ? wish_.folder + "/rank." + number : filled(pattern, rank));
    if (!file) return file.failure();
    files[which] = *file;
  }
  const std::string tag = wish_.tag ? "[" + label + "] " : "";
  add_stream(out, rank, false, files[0], shown[0], tag);
  add_stream(errors, rank, true, files[1], shown[1], tag);
  return {};
}

void Output::add_foreign(int fd, bool error) {
  add_stream(fd, UINT32_MAX, error, nullptr, true, "");
  sources_.back()->stream.stamp = false;
}

void Output::add_stream(int fd, uint32_t rank, bool error, RankFile* file, bool shown, const std::string& tag) {
  fcntl(fd, F_SETFL, O_NONBLOCK);
  auto source = std::make_unique<Source>();
  source->stream.fd = fd;
  source->stream.rank = rank;
  source->stream.tag = tag;
  source->stream.stamp = source->copy.stamp = wish_.timestamp;
  source->merger = error ? &this->errors() : &out_merger_;
  source->file = file;
  source->shown = shown;
  sources_.push_back(std::move(source));
  open_++;
  epoll_event interest{EPOLLIN, {.u64 = sources_.size() - 1}};
  sources_.back()->watched = epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &interest) == 0;
}

void Output::end(Source& source) {
  close(source.stream.fd);  // leaves epoll by itself
  source.stream.fd = -1;
  source.stream.ended = source.copy.ended = true;
  source.watched = false;
  open_--;
  source.merger->arrived(source.stream, now_ns());
  if (source.file) source.file->merger.arrived(source.copy, now_ns());
}

bool Output::wants(const Source& source) {
  return source.merger->wants(source.stream) && (!source.file || source.file->merger.wants(source.copy));
}

bool Output::read_once(Source& source) {
  if (source.stream.fd < 0 || !wants(source)) return false;
  size_t most = std::min(block_.size(), source.merger->room(source.stream));
  if (source.file) most = std::min(most, source.file->merger.room(source.copy));
  const ssize_t n = read(source.stream.fd, block_.data(), most);
  if (n < 0) return false;  // EAGAIN
  if (n == 0) {
    end(source);
    return false;
  }
  traffic_ += uint64_t(n);
  const uint64_t now = now_ns();
  if (source.file) {
    source.copy.held.append(block_.data(), size_t(n));
    source.file->merger.arrived(source.copy, now);
  }
  if (source.shown || source.file->sink.broken()) {  // what a full disk does not take is at least shown
    source.stream.held.append(block_.data(), size_t(n));
    source.merger->arrived(source.stream, now);
  }
  // Nobody reads our output any more: the rank learns it by SIGPIPE, as if it wrote there itself. Unless its file still grows.
  if (source.merger->sink().broken() && (!source.file || source.file->sink.broken())) end(source);
  return true;
}

std::string Output::loss() {
  std::string text;
  auto add = [&](const std::string& what, int error) {
    text += (text.empty() ? "" : "\n") + std::string("mpirun: cannot write ") + what + ": " + strerror(error);
  };
  const Sink* sinks[] = {&out_, &err_};
  for (int i = 0; i < 2; i++) {
    const bool lost = sinks[i]->broken() && sinks[i]->error() != EPIPE && !told_[i];  // who has closed a pipe wanted no more
    told_[i] |= lost;
    if (lost) add(i ? "standard error" : "the ranks' output to standard output", sinks[i]->error());
  }
  for (const auto& file : files_) {
    if (!file->sink.broken() || file->told) continue;
    file->told = true;
    add(file->path + ", the rest of that rank's output goes on here only", file->sink.error());
  }
  return text;
}

void Output::process() {
  epoll_event ready[64];
  const int count = epoll_wait(epoll_, ready, 64, 0);
  for (int i = 0; i < count; i++) {
    const uint64_t whom = ready[i].data.u64;
    if (whom >= sink_mark) continue;  // written below
    read_once(*sources_[whom]);
  }
  out_.write_some();
  err_.write_some();
  const uint64_t now = now_ns();
  next_tick_ = 0;
  auto tick = [&](Merger& merger) {
    if (const uint64_t next = merger.tick(now); next && (!next_tick_ || next < next_tick_)) next_tick_ = next;
  };
  for (const auto& file : files_) tick(file->merger);
  tick(out_merger_);
  if (err_merger_) tick(*err_merger_);
  adjust();
}

/// Watches the streams that may be read from, and the sinks that have something to write.
void Output::adjust() {
  for (size_t i = 0; i < sources_.size(); i++) {
    Source& source = *sources_[i];
    if (source.stream.fd < 0) continue;
    const bool wanted = wants(source);
    if (wanted == source.watched) continue;
    epoll_event interest{EPOLLIN, {.u64 = i}};
    epoll_ctl(epoll_, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, source.stream.fd, &interest);
    source.watched = wanted;
  }
  watch_sink(0, out_);
  watch_sink(1, err_);
}

void Output::watch_sink(int which, Sink& sink) {
  const bool wanted = sink.pending() > 0 && sink.pollable();
  if (wanted == sinks_watched_[which]) return;
  epoll_event interest{EPOLLOUT, {.u64 = sink_mark + uint64_t(which)}};
  epoll_ctl(epoll_, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, sink.fd(), &interest);
  sinks_watched_[which] = wanted;
}

void Output::drain(uint32_t rank) {
  for (auto& source : sources_)
    if (rank == UINT32_MAX || source->stream.rank == rank)
      while (read_once(*source)) continue;
  adjust();
}

void Output::say(const std::string& text) { errors().say(text); }

size_t Output::pending() const { return out_.pending() + err_.pending(); }

void Output::end_streams() {
  for (auto& source : sources_)
    if (source->stream.fd >= 0) end(*source);
}

}  // namespace weft::launcher
