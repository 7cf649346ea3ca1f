// One connection between two daemons of a job: proves on both sides that the other knows the job's secret, then carries messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/tree/message.h"
#include "runtime/net/doorman.h"
#include "runtime/net/socket.h"

namespace weft::launcher::tree {

constexpr int silence_s = 4;  ///< after which the other host counts as dead

/// What daemons of a job must prove to know to each other.
net::Digest key_of(const std::string& secret);
/// Who a child claims to be; nothing if it speaks another version of the launcher's protocol.
std::optional<uint32_t> node_of(const net::Claim& claim);

/// Never blocks; what the other side does not take yet waits in memory.
class Link {
 public:
  /// The child's end of a connection that is (being) made, for daemon `node`.
  Link(net::Fd fd, const std::string& secret, uint32_t node);
  /// The parent's end, of a child that has proved itself to the doorman.
  explicit Link(net::Fd fd);

  int fd() const { return fd_.get(); }
  /// Both sides have proven themselves.
  bool open() const { return open_; }
  bool broken() const { return !why_.empty(); }
  const std::string& why() const { return why_; }

  bool wants_to_write() const;
  /// Fails if the other host has been silent for too long. The kernel notices by itself, but begins to count anew when something is sent
  /// into the silence.
  void check_silence();
  /// Moves bytes both ways; then take() what has come.
  void process();
  std::optional<Message> take();
  /// Only writes.
  void flush();
  void send(const Message& message);

 private:
  net::Fd fd_;
  std::optional<net::Handshake> handshake_;
  bool open_ = false;
  std::string in_, out_, why_;
  size_t in_at_ = 0, out_at_ = 0;

  void shake();
  bool read_some();
  void write_some();
  void fail(std::string why);
};

}  // namespace weft::launcher::tree
