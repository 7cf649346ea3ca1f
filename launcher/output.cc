#include "launcher/output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/clock.h"

namespace weft::launcher {
namespace {

constexpr uint64_t sink_mark = uint64_t{1} << 32;  // epoll's word for a sink; streams have their index

bool same_file(int a, int b) {
  struct stat x, y;
  return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

}  // namespace

Output::Output() : epoll_(epoll_create1(EPOLL_CLOEXEC)), block_(64 * 1024) {
  if (!same_file(1, 2)) err_merger_.emplace(err_);
}

Output::~Output() {
  for (auto& source : sources_)
    if (source->stream.fd >= 0) close(source->stream.fd);
  close(epoll_);
}

void Output::add(int fd, uint32_t rank, bool error, const std::string& tag) {
  fcntl(fd, F_SETFL, O_NONBLOCK);
  auto source = std::make_unique<Source>();
  source->stream.fd = fd;
  source->stream.rank = rank;
  source->stream.tag = tag;
  source->merger = error ? &errors() : &out_merger_;
  sources_.push_back(std::move(source));
  open_++;
  epoll_event interest{EPOLLIN, {.u64 = sources_.size() - 1}};
  sources_.back()->watched = epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &interest) == 0;
}

void Output::end(Source& source) {
  close(source.stream.fd);  // leaves epoll by itself
  source.stream.fd = -1;
  source.stream.ended = true;
  source.watched = false;
  open_--;
  source.merger->arrived(source.stream, now_ns());
}

bool Output::read_once(Source& source) {
  if (source.stream.fd < 0 || !source.merger->wants(source.stream)) return false;
  const ssize_t n = read(source.stream.fd, block_.data(), block_.size());
  if (n < 0) return false;  // EAGAIN
  if (n == 0) {
    end(source);
    return false;
  }
  source.stream.held.append(block_.data(), size_t(n));
  source.merger->arrived(source.stream, now_ns());
  // Nobody reads our output any more: the rank learns it by SIGPIPE, as if it wrote there itself.
  if (source.merger->sink().broken()) end(source);
  return true;
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
  next_tick_ = out_merger_.tick(now);
  if (err_merger_)
    if (const uint64_t other = err_merger_->tick(now); other && (!next_tick_ || other < next_tick_)) next_tick_ = other;
  adjust();
}

/// Watches the streams that may be read from, and the sinks that have something to write.
void Output::adjust() {
  for (size_t i = 0; i < sources_.size(); i++) {
    Source& source = *sources_[i];
    if (source.stream.fd < 0) continue;
    const bool wanted = source.merger->wants(source.stream);
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
