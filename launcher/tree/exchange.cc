#include "launcher/tree/exchange.h"

#include <algorithm>
#include <utility>

namespace weft::launcher::tree {

std::vector<uint32_t> Exchange::sources_of(const Members& members) const {
  const std::vector<uint32_t> children = shape_.children(layout_.self);
  std::vector<bool> found(children.size() + 1);  // the last: self
  const auto add = [&](uint32_t host) {
    if (host == layout_.self)
      found.back() = true;
    else if (shape_.below(host, layout_.self))
      found[size_t(std::find(children.begin(), children.end(), shape_.next(layout_.self, host)) - children.begin())] = true;
  };
  if (members.empty()) {
    for (uint32_t host : layout_.host_of) add(host);
  } else {
    for (uint32_t rank : members) add(layout_.host_of[rank]);
  }
  std::vector<uint32_t> result;
  for (size_t c = 0; c < children.size(); c++)
    if (found[c]) result.push_back(children[c]);
  if (found.back()) result.push_back(layout_.self);
  return result;
}

void Exchange::fence(std::vector<uint32_t> members, std::string data, FenceDone done) {
  waiting_[members].push_back(std::move(done));
  contribute(layout_.self, {std::move(members), true, std::move(data)});
}

void Exchange::contribute(uint32_t source, Fence fence) {
  const std::vector<uint32_t> expected = sources_of(fence.members);
  Gathering& gathering = gathering_[fence.members];
  if (std::find(expected.begin(), expected.end(), source) == expected.end() ||
      std::find(gathering.sources.begin(), gathering.sources.end(), source) != gathering.sources.end())
    return;  // nobody of ours does that
  gathering.sources.push_back(source);
  gathering.good = gathering.good && fence.good;
  gathering.data += fence.data;
  if (gathering.sources.size() < expected.size()) return;
  const Fence whole{fence.members, gathering.good, std::move(gathering.data)};
  gathering_.erase(fence.members);
  if (layout_.self == 0)
    complete(whole);
  else
    send_(Kind::fence, shape_.parent(layout_.self), encode(whole));
}

void Exchange::complete(const Fence& fence) {
  const std::string body = encode(fence);
  for (uint32_t source : sources_of(fence.members))
    if (source != layout_.self) send_(Kind::fence_done, source, body);
  auto waiting = waiting_.find(fence.members);
  if (waiting == waiting_.end()) return;
  FenceDone done = std::move(waiting->second.front());
  waiting->second.pop_front();
  if (waiting->second.empty()) waiting_.erase(waiting);
  done(fence.good, fence.data);
}

void Exchange::modex(uint32_t rank, ModexDone done) {
  const uint64_t number = next_question_++;
  questions_[number] = std::move(done);
  send_(Kind::modex, layout_.host_of[rank], encode(Modex{number, rank, 0, {}}));
}

void Exchange::answer(uint32_t asker, const Modex& question) {
  if (!server_) return;
  server_->published(question.rank, [this, asker, number = question.number, rank = question.rank](int status, std::string data) {
    send_(Kind::modex_reply, asker, encode(Modex{number, rank, status, std::move(data)}));
  });
}

void Exchange::deliver(const Message& message) {
  const auto known = [&](uint32_t rank) { return rank < layout_.host_of.size(); };
  if (message.kind == Kind::fence || message.kind == Kind::fence_done) {
    auto fence = decode_fence(message.body);
    if (!fence || !std::all_of(fence->members.begin(), fence->members.end(), known)) return;
    if (message.kind == Kind::fence)
      contribute(message.from, std::move(*fence));
    else
      complete(*fence);
  } else if (message.kind == Kind::modex || message.kind == Kind::modex_reply) {
    auto modex = decode_modex(message.body);
    if (!modex || !known(modex->rank)) return;
    if (message.kind == Kind::modex) return answer(message.from, *modex);
    auto question = questions_.find(modex->number);
    if (question == questions_.end()) return;
    const ModexDone done = std::move(question->second);
    questions_.erase(question);
    done(modex->status, std::move(modex->data));
  }
}

}  // namespace weft::launcher::tree
