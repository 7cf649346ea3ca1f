// Who may come in: listening sockets, and those who have connected and must prove that they know a key before anybody listens to them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/net/handshake.h"
#include "runtime/net/watch.h"
#include "runtime/obs/figures.h"

namespace weft::net {

/// Strangers cost it a bounded number of descriptors and bytes for a bounded time, are counted, and learn nothing. Not thread-safe.
class Doorman {
 public:
  struct Rules {
    std::string where = {};                 ///< "tcp eth0": for the log
    uint32_t guests = 256;                  ///< that may be unproven at a time; others wait in the kernel
    uint64_t patience_ns = 30'000'000'000;  ///< for a guest to prove itself
    uint64_t turn_ns = 2'000'000'000;       ///< that a guest has at least, however many others wait
    int silence_s = 60;                     ///< see tune_stream()
  };
  struct Counters {
    uint64_t refused = 0;     ///< did not speak the protocol, did not know the key, or were turned away by the host
    uint64_t unfinished = 0;  ///< ended or were dropped before they had proved themselves
  };
  struct Ruling {
    Verdict verdict;
    const char* why = "";  ///< of a refusal
  };
  /// Whose door it is. Called from serve().
  class Host {
   public:
    /// Decides about somebody who has proved to know the key and claims to be this.
    virtual Ruling judge(const Claim&) = 0;
    /// Takes over the connection of somebody who is welcome, and has been told so.
    virtual void admit(const Claim&, Fd socket) = 0;

   protected:
    ~Host() = default;
  };

  Doorman(Rules rules, const Digest& key, std::vector<Fd> listeners);
  ~Doorman();

  /// Readable when serve() has something to do; to be watched.
  Watched& door() { return watcher_; }
  /// Goes on with everybody at the door as far as that goes at once; bounded work. Returns how much happened.
  int serve(Host& host);
  bool busy() const { return !guests_.empty(); }
  const Counters& counters() const { return counters_; }
  void report(obs::Tally& tally) const;

 private:
  struct Guest : Watched {
    Handshake handshake;
    uint64_t came;
    Guest(Fd socket, Handshake h, uint64_t now) : Watched(std::move(socket)), handshake(std::move(h)), came(now) {}
  };

  void serve(Watched& who, Host& host);
  void greet(const Fd& listener);
  void open_later(uint64_t when);
  void open();
  void check_clock();
  bool converse(Guest& guest);
  void decide(Guest& guest, Host& host);
  void refuse(Guest& guest, const std::string& why);
  void give_up(Guest& guest);
  void forget(Guest& guest);

  const Rules rules_;
  const Digest key_;
  Counters counters_;
  Watcher watcher_;
  Alarm alarm_;
  std::vector<std::unique_ptr<Watched>> listeners_;
  bool opened_ = true;
  uint64_t open_at_ = 0;
  std::vector<std::unique_ptr<Guest>> guests_;  // in the order they came
  std::vector<std::unique_ptr<Guest>> gone_;    // until the end of serve(), as epoll may have reported them already
};

}  // namespace weft::net
