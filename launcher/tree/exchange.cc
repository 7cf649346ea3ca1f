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
    for (uint32_t rank = 0; rank < first_ranks_; rank++) add(layout_.host_of[rank]);
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

void Exchange::ask(Service what, std::string body, Done done) {
  const uint64_t number = next_question_++;
  asked_[number] = std::move(done);
  send_(Kind::ask, 0, encode(Ask{number, uint8_t(what), std::move(body)}));
}

void Exchange::deliver_fence(const Message& message) {
  auto fence = decode_fence(message.body);
  const auto known = [&](uint32_t rank) { return rank < layout_.host_of.size(); };
  if (!fence || !std::all_of(fence->members.begin(), fence->members.end(), known)) return;
  if (message.kind == Kind::fence)
    contribute(message.from, std::move(*fence));
  else
    complete(*fence);
}

void Exchange::deliver_modex(const Message& message) {
  auto modex = decode_modex(message.body);
  if (!modex || modex->rank >= layout_.host_of.size()) return;
  if (message.kind == Kind::modex) return answer(message.from, *modex);
  auto question = questions_.find(modex->number);
  if (question == questions_.end()) return;
  const ModexDone done = std::move(question->second);
  questions_.erase(question);
  done(modex->status, std::move(modex->data));
}

void Exchange::deliver_question(const Message& message) {
  if (message.kind == Kind::ask) {
    const auto ask = decode_ask(message.body);
    if (!ask || !answers_ || !ask->what || ask->what > uint8_t(Service::last)) return;
    const auto reply = [this, asker = message.from, number = ask->number](int32_t status, std::string body) {
      send_(Kind::answer, asker, encode(Answer{number, status, std::move(body)}));
    };
    return answers_(message.from, Service(ask->what), ask->body, reply);
  }
  auto answer = decode_answer(message.body);
  auto asked = answer ? asked_.find(answer->number) : asked_.end();
  if (asked == asked_.end()) return;
  const Done done = std::move(asked->second);
  asked_.erase(asked);
  done(answer->status, std::move(answer->body));
}

void Exchange::deliver(const Message& message) {
  switch (message.kind) {
    case Kind::fence:
    case Kind::fence_done: return deliver_fence(message);
    case Kind::modex:
    case Kind::modex_reply: return deliver_modex(message);
    case Kind::ask:
    case Kind::answer: return deliver_question(message);
    case Kind::notice:
      if (const auto spread = decode_spread(message.body); spread && spread->origin != layout_.self && server_)
        if (const auto notice = decode_notice(spread->body)) server_->notify(*notice);
      return;
    default: return;
  }
}

}  // namespace weft::launcher::tree
