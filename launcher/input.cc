#include "launcher/input.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

namespace weft::launcher {

Input::Input(bool wanted) {
  if (!wanted) {
    rank_end_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
    own_rank_end_ = true;
    return;
  }
  if (!isatty(0)) {
    rank_end_ = 0;
    return;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return;
  rank_end_ = ends[0];
  own_rank_end_ = true;
  pipe_ = ends[1];
  fcntl(pipe_, F_SETFL, O_NONBLOCK);
  ended_ = false;
}

Input::~Input() {
  if (own_rank_end_ && rank_end_ >= 0) close(rank_end_);
  if (pipe_ >= 0) close(pipe_);
}

void Input::started() {
  if (own_rank_end_) close(rank_end_);
  own_rank_end_ = false;
  rank_end_ = -1;
}

pollfd Input::interest() const {
  if (pipe_ < 0) return {-1, 0, 0};
  if (!held_.empty()) return {pipe_, POLLOUT, 0};
  const bool foreground = tcgetpgrp(0) == getpgrp();  // reading in the background would stop mpirun
  if (ended_ || !foreground) return {-1, 0, 0};
  return {0, POLLIN, 0};
}

void Input::process() {
  if (held_.empty()) {
    char block[16 * 1024];
    const ssize_t n = read(0, block, sizeof block);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) return stop();
    held_.assign(block, size_t(n));
  }
  const ssize_t n = write(pipe_, held_.data(), held_.size());
  if (n > 0)
    held_.erase(0, size_t(n));
  else if (errno != EAGAIN && errno != EINTR)
    stop();  // rank 0 reads no more
}

void Input::stop() {
  ended_ = true;
  held_.clear();
  close(pipe_);
  pipe_ = -1;
}

}  // namespace weft::launcher
