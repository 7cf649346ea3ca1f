#include "pml/team.h"

#include <algorithm>

#include "pml/lane.h"
#include "pml/peer.h"

namespace weft::pml {

Members Members::range(uint32_t first, uint32_t count, int32_t stride, uint32_t job) {
  Members m;
  m.size_ = count;
  m.first_ = first;
  m.stride_ = count > 1 ? stride : 1;
  m.job_ = job;
  return m;
}

Members Members::list(std::vector<ProcessId> ids) {
  if (ids.empty()) return range(0, 0);
  const int64_t stride = ids.size() > 1 ? int64_t{ids[1].rank} - ids[0].rank : 1;
  bool regular = stride != 0;
  for (size_t i = 0; i < ids.size() && regular; ++i)
    regular = ids[i].job == ids[0].job && int64_t{ids[i].rank} == ids[0].rank + stride * static_cast<int64_t>(i);
  if (regular) return range(ids[0].rank, static_cast<uint32_t>(ids.size()), static_cast<int32_t>(stride), ids[0].job);
  Members m;
  m.size_ = static_cast<uint32_t>(ids.size());
  m.table_ = std::move(ids);
  return m;
}

int64_t Members::find(ProcessId id) const {
  if (!table_.empty()) {
    auto at = std::find(table_.begin(), table_.end(), id);
    return at == table_.end() ? -1 : at - table_.begin();
  }
  const int64_t distance = int64_t{id.rank} - first_;
  if (id.job != job_ || distance % stride_ != 0) return -1;
  const int64_t rank = distance / stride_;
  return rank >= 0 && rank < size_ ? rank : -1;
}

bool Members::operator==(const Members& other) const {
  // list() recognises ranges, so that equal sets in equal order have equal representations
  return size_ == other.size_ && (size_ == 0 || (first_ == other.first_ && job_ == other.job_ && stride_ == other.stride_)) &&
         table_ == other.table_;
}

Team::Team(Lane& lane, Context context, std::shared_ptr<const Members> local, uint32_t rank, std::shared_ptr<const Members> remote)
    : lane_(&lane), context_(context), rank_(rank), local_(std::move(local)), remote_(remote ? std::move(remote) : local_) {
  lane_->enlist(*this);
}

Team::~Team() { lane_->discharge(*this); }

std::shared_ptr<const Members> Team::united_members() const {
  std::vector<ProcessId> all;
  all.reserve(size_t{size()} + remote_size());
  for (const Members* group : {in_front() ? local_.get() : remote_.get(), in_front() ? remote_.get() : local_.get()})
    for (uint32_t rank = 0; rank < group->size(); ++rank) all.push_back(group->at(rank));
  return std::make_shared<const Members>(Members::list(std::move(all)));
}

bool Team::may_come_from(int source, ProcessId who) const {
  return source == any_source ? remote_->find(who) >= 0 : process(static_cast<uint32_t>(source)) == who;
}

void Team::promise(const Promises& promises) {
  lane_->locked([&] { promises_ = promises; });
}

int32_t Team::take_tags(int32_t n) {
  if (n > int64_t{any_tag} - next_tag_) return any_tag;
  const int32_t first = next_tag_;
  next_tag_ += n;
  return first;
}

Peer& Team::find_peer(uint32_t rank) {
  if (rank >= cached_.size()) cached_.resize(rank + 1);
  cached_[rank] = &lane_->peer_of(process(rank), context_);
  return *cached_[rank];
}

}  // namespace weft::pml
