// A daemon's place in the tree: the link to its parent, its children with what starts them, and the way of messages between them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/output.h"
#include "launcher/tree/link.h"
#include "launcher/tree/message.h"
#include "launcher/tree/shape.h"
#include "launcher/tree/starter.h"
#include "runtime/base/status.h"

namespace weft::launcher::tree {

class Node : private net::Doorman::Host {
 public:
  struct Upcalls {
    std::function<void(const Message&)> deliver;                            ///< a message for this node
    std::function<void(uint32_t node, const std::string& why)> child_lost;  ///< a child of ours that cannot be started, or has died
    std::function<void()> parent_lost;
  };

  Node(uint32_t self, Shape shape, std::string secret, Upcalls upcalls);
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// A daemon's first step: connects to its parent and proves itself. Blocks for a bounded time.
  Result<void> join(const std::vector<std::string>& parents);
  /// The shape as the plan tells it.
  void learn(Shape shape) { shape_ = shape; }

  /// Takes what children's daemons pass on; before start_children().
  void use(Output& output) { output_ = &output; }
  /// Where children connect to.
  Result<void> listen();
  Result<void> start_children(const Plan& plan);

  void send(const Message& message);

  int fd() const { return epoll_; }  ///< readable when process() has something to do
  void process();
  uint64_t next_tick_ns() const;
  /// Some child of this process has ended.
  void reap();

  /// Pipes to the standard input of the daemons below, once all of these are there: of all, or of that one child. The caller's now.
  std::vector<int> take_inputs(std::optional<uint32_t> node);

  /// Children are told to go, or have been: from now on their end is in order. If the parent is lost, cuts them off instead.
  void end_children();
  /// Ends the programs that start daemons.
  void cut_children();
  bool below_gone() const;
  /// A daemon was lost and the others have gone: srun may still wait for the one that was lost.
  bool only_starters_left() const;
  /// Sends what is waiting for the parent; blocks for a bounded time.
  void flush();

 private:
  struct Child {
    uint32_t node;
    std::unique_ptr<Link> link;
    bool gone = false;
  };
  /// ssh for one daemon, or srun for many.
  struct Starter {
    How how;
    std::vector<uint32_t> nodes;
    std::string name;  ///< of the host, for messages
    std::vector<std::string> command;
    std::string summons = {};
    int attempts = 0;
    pid_t pid = -1;
    int out = -1, err = -1, in = -1;
    size_t summoned = 0;
    std::string words = {};  ///< on stderr, before its daemons were there
    uint64_t give_up_ns = 0, retry_ns = 0;
  };

  const uint32_t self_;
  Shape shape_;
  const std::string secret_;
  Output* output_ = nullptr;
  const Upcalls upcalls_;
  std::unique_ptr<Link> parent_;
  std::optional<net::Doorman> doorman_;  // once it listens
  std::vector<std::string> addresses_;
  std::vector<Child> children_;
  std::vector<Starter> starters_;
  std::string plan_, program_;
  std::vector<std::string> hosts_;
  bool maimed_ = false;               // a daemon was lost
  uint64_t suspicious_until_ns_ = 0;  // where one host is lost, others may be: it may be us who are cut off
  int epoll_;
  bool leaving_ = false, parent_is_lost_ = false;

  Result<void> try_to_join(const std::vector<std::string>& parents);
  void watch(int fd, bool write = false, bool change = false);
  void start(Starter& starter);
  void write_summons(Starter& starter);
  void read_words(Starter& starter);
  net::Doorman::Ruling judge(const net::Claim& claim) override;
  void admit(const net::Claim& claim, net::Fd socket) override;
  void hand_over_streams(uint32_t node);
  void serve(Link& link, uint32_t from);
  void post(Link& link, const Message& message);
  void route(const Message& message);
  void check_links();
  void check_clocks();
  void ended(Starter& starter, int status);
  void lose_broken();
  void lose(Child& child, const std::string& why);
  void close_streams(Starter& starter);
  Child* child(uint32_t node);
  Starter* starter_of(uint32_t node);
  std::string missing(const Starter& starter) const;
};

}  // namespace weft::launcher::tree
