// What PMIx servers of different hosts have to tell each other: fences with their data, what a rank has published, and questions to
// the services of the job.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/layout.h"
#include "launcher/pmix_server.h"
#include "launcher/tree/message.h"
#include "launcher/tree/shape.h"

namespace weft::launcher::tree {

/// The part of one daemon. Contributions to a fence are gathered on the way up, the result goes back down the same way.
class Exchange final : public Remote, public Services {
 public:
  using Send = std::function<void(Kind kind, uint32_t to, std::string body)>;
  /// `layout` outlives this; as it is now, it has the job's first namespace.
  Exchange(const Layout& layout, Shape shape, Send send)
      : layout_(layout), shape_(shape), send_(std::move(send)), first_ranks_(uint32_t(layout.host_of.size())) {}

  /// In mpirun: who answers questions.
  using Answers = std::function<void(uint32_t asker, Service what, const std::string& body, Done done)>;
  void serve(Answers answers) { answers_ = std::move(answers); }

  /// The server of this host, once there is one.
  void serve(PmixServer* server) { server_ = server; }

  void fence(std::vector<uint32_t> members, std::string data, FenceDone done) override;
  void modex(uint32_t rank, ModexDone done) override;
  void ask(Service what, std::string body, Done done) override;

  /// A message of kind fence, fence_done, modex, modex_reply, ask, answer or notice; others and damaged ones are ignored.
  void deliver(const Message& message);

 private:
  using Members = std::vector<uint32_t>;
  struct Gathering {
    std::vector<uint32_t> sources;  ///< neighbours (or self) that have contributed
    std::string data;
    bool good = true;
  };

  const Layout& layout_;
  const Shape shape_;
  const Send send_;
  const uint32_t first_ranks_;
  Answers answers_;
  PmixServer* server_ = nullptr;
  std::map<Members, Gathering> gathering_;
  std::map<Members, std::deque<FenceDone>> waiting_;
  std::map<uint64_t, ModexDone> questions_;
  std::map<uint64_t, Done> asked_;
  uint64_t next_question_ = 1;

  /// Own number and the children whose part of the tree holds a member.
  std::vector<uint32_t> sources_of(const Members& members) const;
  void contribute(uint32_t source, Fence fence);
  void complete(const Fence& fence);
  void answer(uint32_t asker, const Modex& question);
  void deliver_fence(const Message& message);
  void deliver_modex(const Message& message);
  void deliver_question(const Message& message);
};

}  // namespace weft::launcher::tree
