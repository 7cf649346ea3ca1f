#include "launcher/input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace weft::launcher {
namespace {

constexpr size_t block_size = 256 * 1024;

bool regular(int fd) {
  struct stat about;
  return fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

/// The file behind descriptor 0 with a position of its own, where 0 stands now.
int open_again() {
  const int fd = open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) lseek(fd, lseek(0, 0, SEEK_CUR), SEEK_SET);
  return fd;
}

}  // namespace

Input::Input(InputTo to, uint32_t rank, Part part) : to_(to), rank_(rank), part_(part), terminal_(isatty(0)) {
  nothing_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const bool one_owner = to == InputTo::one && part.readers;
  if (part.passes_on || (part.to_the_end && !one_owner) || (terminal_ && part.readers)) {
    way_ = Way::pump;
  } else if (to == InputTo::all && part.readers > 1) {
    const int fd = regular(0) ? open_again() : -1;
    way_ = fd >= 0 ? Way::reopen : Way::pump;
    if (fd >= 0) close(fd);
  }
  if (way_ == Way::pump) {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    block_.resize(block_size);
  }
}

Input::~Input() {
  for (const Reader& reader : readers_) close(reader.pipe);
  for (int fd : {nothing_, given_, epoll_})
    if (fd >= 0) close(fd);
}

int Input::open_for(uint32_t rank) {
  if (!gets_it(rank)) return nothing_;
  switch (way_) {
    case Way::hand_over: return 0;
    case Way::reopen: return given_ = open_again();
    case Way::pump: return add_reader();
  }
  return -1;
}

int Input::add_reader() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return -1;
  pass_to(ends[1]);
  return given_ = ends[0];
}

void Input::pass_to(int pipe) {
  fcntl(pipe, F_SETFL, O_NONBLOCK);
  fcntl(pipe, F_SETPIPE_SZ, int(block_size));  // fewer switches; where it is denied the usual size does
  readers_.push_back({pipe, 0, false});
}

void Input::started() {
  if (given_ >= 0) close(given_);
  given_ = -1;
}

void Input::begin() {
  begun_ = true;
  watch();
}

bool Input::all_taken() const {
  return std::all_of(readers_.begin(), readers_.end(), [this](const Reader& reader) { return reader.taken == size_; });
}

/// Has epoll wait for the source, or for those readers that have not taken all of the block.
void Input::watch() {
  if (epoll_ < 0) return;
  auto set = [this](int fd, uint32_t events, bool wanted, bool& watched) {
    if (wanted == watched) return true;
    epoll_event interest{events, {.fd = fd}};
    const bool done = epoll_ctl(epoll_, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &interest) == 0;
    watched = wanted && done;
    return done;
  };
  source_waits_ = set(0, EPOLLIN, all_taken(), source_watched_);
  for (Reader& reader : readers_) set(reader.pipe, EPOLLOUT, reader.taken < size_, reader.watched);
}

pollfd Input::interest() const {
  if (epoll_ < 0 || !begun_ || (readers_.empty() && !part_.to_the_end)) return {-1, 0, 0};
  // reading a terminal in the background would stop mpirun
  if (terminal_ && all_taken() && tcgetpgrp(0) != getpgrp()) return {-1, 0, 0};
  if (!source_waits_ && all_taken()) return {0, POLLIN, 0};  // a regular file, which epoll does not take: always ready
  return {epoll_, POLLIN, 0};
}

void Input::write_all() {
  for (Reader& reader : readers_) {
    while (reader.taken < size_) {
      const ssize_t n = write(reader.pipe, block_.data() + reader.taken, size_ - reader.taken);
      if (n > 0) {
        reader.taken += size_t(n);
      } else if (errno == EAGAIN) {
        break;
      } else if (errno != EINTR) {  // it reads no more
        close(reader.pipe);
        reader.pipe = -1;
        break;
      }
    }
  }
  std::erase_if(readers_, [](const Reader& reader) { return reader.pipe < 0; });
}

/// False if there is nothing now.
bool Input::read_block() {
  pollfd ready{0, POLLIN, 0};
  if (poll(&ready, 1, 0) <= 0) return false;
  const ssize_t n = read(0, block_.data(), block_.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  size_ = n > 0 ? size_t(n) : 0;
  for (Reader& reader : readers_) reader.taken = 0;
  if (n <= 0) stop();
  return n > 0;
}

void Input::process() {
  if (epoll_ < 0 || !begun_) return;
  for (int round = 0; round < 16; round++) {  // others want to be heard as well
    write_all();
    if (readers_.empty() && !part_.to_the_end) return stop();
    if (!all_taken() || !read_block()) break;
  }
  watch();  // nothing, once the input has ended
}

void Input::stop() {
  for (const Reader& reader : readers_) close(reader.pipe);
  readers_.clear();
  close(epoll_);
  epoll_ = -1;
}

}  // namespace weft::launcher
