// Reductions and scans in shared memory.
#include <algorithm>
#include <bit>
#include <cstring>

#include "coll/node/inside.h"

namespace weft::coll::node {

/// The operands of some ranks in one; null: one of them does not come any more. The result is in `to`, or the only operand where it was.
template <class Operand>
const std::byte* Segment::combine(const Work& w, Operand operand, int32_t first, int32_t last, std::byte* to, std::byte* spare) {
  if (w.order == Order::chain) {
    const std::byte* sum = operand(static_cast<uint32_t>(last - 1));
    for (int32_t r = last - 2; r >= first && sum; --r) {
      const std::byte* const left = operand(static_cast<uint32_t>(r));
      if (left) op::apply3(w.op, w.type, left, sum, to, w.count);
      sum = left ? to : nullptr;
    }
    return sum;
  }
  if (last - first == 1) return operand(static_cast<uint32_t>(first));
  const int32_t middle = parting(w.order, static_cast<int32_t>(size_), first, last);
  const std::byte* const right = combine(w, operand, middle, last, to, spare);
  const std::byte* const left = right ? combine(w, operand, first, middle, spare, spare + plan_.chunk) : nullptr;
  if (!left) return nullptr;
  op::apply3(w.op, w.type, left, right, to, w.count);
  return to;
}

/// Private memory for a slot's worth of results.
std::byte* Segment::scratch() {
  if (scratch_.empty()) scratch_.resize(plan_.chunk);
  return scratch_.data();
}

/// A chain has no partial result but its last one; other orders have one for each level of their trees.
std::byte* Segment::spare_for(Order order) {
  const size_t levels = order == Order::chain ? 0 : static_cast<size_t>(std::bit_width(size_));
  if (spare_.size() < levels * plan_.chunk) spare_.resize(levels * plan_.chunk);
  return spare_.data();
}

Status Segment::allreduce(const void* in, void* out, uint64_t count, const type::Datatype& type, const op::Op& op, Order order) {
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  if (count * type.size > (roomy_ ? most_by_each() : most_by_all(size_)) && most_shared(type.size) > 0)
    return allreduce_shared_out(from, to, {count, type, op, order});
  return in_steps(count, type.size, plan_.chunk, [&](uint64_t first, uint64_t n) {
    return allreduce_chunk(from + first * type.size, to + first * type.size, {n, type, op, order});
  });
}

/// An operand slot is written again two rounds later. By then all ranks have come to the round between, so they are done with it.
Status Segment::allreduce_chunk(const std::byte* in, std::byte* out, const Work& work) {
  const uint64_t n = ++allreduces_, bytes = work.count * work.type.size;
  const int parity = static_cast<int>(n & 1);
  copy_bytes(offered(rank_, bytes), in, bytes);
  const std::byte* own = in;  // to read one's own slot would take its lines back from who reads them
  auto operand = [&](uint32_t r) { return r == rank_ ? own : offered(r, bytes); };
  auto fold = [&](std::byte* to) { combine(work, operand, 0, static_cast<int32_t>(size_), to, spare_for(work.order)); };
  if (by_groups(work.order, work.op)) return allreduce_in_groups(n, out, work);
  if (size_ <= kFlat || groups_) {
    offer(rank_).sequence.store(n, std::memory_order_release);
    if (in == out) own = static_cast<std::byte*>(std::memcpy(scratch(), in, bytes));  // partial results fall upon it
    for (uint32_t r = 0; r < size_; ++r) {
      if (const Status s = wait_for(offer(r).sequence, n); s != Status::ok) return s;
    }
    fold(out);
    return Status::ok;
  }
  // The last one to come does the work for all.
  Line& result = header().result[parity];
  std::byte* const place = data(result, result_area(parity), bytes);
  if (header().offers.fetch_add(1, std::memory_order_acq_rel) + 1 == n * size_) {
    fold(place);
    result.sequence.store(n, std::memory_order_release);
  } else if (const Status s = wait_for(result.sequence, n); s != Status::ok) {
    return s;
  }
  copy_out(out, place, bytes);
  return Status::ok;
}

/// The operands are where they are offered. Each leader combines those of its group, then what all leaders have, so that all have the same
/// bits; its group takes that from it. Slots are free two rounds later: whoever read them has given something since that was waited for.
Status Segment::allreduce_in_groups(uint64_t n, std::byte* out, const Work& work) {
  const uint64_t bytes = work.count * work.type.size;
  const int parity = static_cast<int>(n & 1);
  const std::vector<Rank>& group = groups_->on(groups_->of(static_cast<Rank>(rank_)));
  const auto leader = static_cast<uint32_t>(group.front());
  const auto place = [&](Line& line, uint32_t of, Sum which) { return data(line, sum_area(of, which, parity), bytes); };
  Line& outcome = desk(leader).outcome[parity];
  offer(rank_).sequence.store(n, std::memory_order_release);
  if (rank_ != leader) {
    if (const Status s = wait_for(outcome.sequence, n); s != Status::ok) return s;
    copy_out(out, place(outcome, leader, Sum::of_all), bytes);
    return Status::ok;
  }
  Status status = Status::ok;
  const auto of_member = [&](uint32_t i) -> const std::byte* {
    const auto r = static_cast<uint32_t>(group[i]);
    status = wait_for(offer(r).sequence, n);
    return status == Status::ok ? offered(r, bytes) : nullptr;
  };
  const auto of_group = [&](uint32_t g) -> const std::byte* {
    const uint32_t of = leader_of(static_cast<int32_t>(g));
    Line& line = desk(of).partial[parity];
    status = wait_for(line.sequence, n);
    return status == Status::ok ? place(line, of, Sum::of_group) : nullptr;
  };
  const auto publish = [&](Line& line, Sum which, const std::byte* what) {
    copy_bytes(place(line, leader, which), what, bytes);
    line.sequence.store(n, std::memory_order_release);
  };
  const std::byte* sum = combine(work, of_member, 0, static_cast<int32_t>(group.size()), out, nullptr);
  if (!sum) return status;
  publish(desk(leader).partial[parity], Sum::of_group, sum);
  sum = combine(work, of_group, 0, groups_->count(), out, nullptr);
  if (!sum) return status;
  publish(outcome, Sum::of_all, sum);
  return Status::ok;
}

Status Segment::reduce(const void* in, void* out, uint64_t count, const type::Datatype& type, const op::Op& op, int root, Order order) {
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  if (roomy_ && size_ > 2 && count * type.size > most_by_root() && most_collected(type.size) > 0)
    return reduce_shared_out(from, to, {count, type, op, order}, static_cast<uint32_t>(root));
  return in_steps(count, type.size, plan_.large.bytes, [&](uint64_t first, uint64_t n) {
    return reduce_chunk(from + first * type.size, to ? to + first * type.size : nullptr, {n, type, op, order}, static_cast<uint32_t>(root));
  });
}

/// The ranks' shares of a reduction, one each: all give the others what is theirs, and the own share is combined in `to`. `part(r)` is rank
/// r's share here; `most` elements are in the largest one.
template <class Part>
Status Segment::reduce_shares(Part part, uint64_t most, const Work& w, std::byte* to) {
  const uint64_t length = most * w.type.size;
  const Share own = part(rank_);
  const auto give = [&](std::byte*) {
    for (uint32_t r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const Share theirs = part(r);
      copy_bytes(between(rank_, r, length), theirs.address, theirs.count * w.type.size);
    }
  };
  if (const Status s = exchange(size_ * length, give, [](uint32_t, const std::byte*) {}); s != Status::ok) return s;
  if (own.count == 0) return Status::ok;
  const auto operand = [&](uint32_t r) -> const std::byte* { return r == rank_ ? own.address : between(r, rank_, length); };
  combine({own.count, w.type, w.op, w.order}, operand, 0, static_cast<int32_t>(size_), to, spare_for(w.order));
  return Status::ok;
}

/// Each rank combines a share of each piece, and all take the results of all: two meetings, but each operand goes once to one rank.
Status Segment::allreduce_shared_out(const std::byte* in, std::byte* out, const Work& w) {
  const uint64_t unit = w.type.size, most = even_share(w.count, most_shared(unit), size_);
  for (uint64_t done = 0; done < w.count; done += most * size_) {
    const auto from = [&](uint32_t r) { return std::min(w.count, done + r * most); };
    const auto part = [&](uint32_t r) { return Share{in + from(r) * unit, from(r + 1) - from(r)}; };
    std::byte* const own = out + from(rank_) * unit;
    std::byte* const sums = own == part(rank_).address ? scratch() : own;  // partial sums must not fall upon the operand
    if (const Status s = reduce_shares(part, most, w, sums); s != Status::ok) return s;
    const bool pairs = by_pairs(most * unit);
    const auto give = [&](std::byte* place) {
      for (uint32_t r = 0; r < (pairs ? size_ : 1); ++r)
        if (!pairs || r != rank_) copy_bytes(pairs ? between(rank_, r, most * unit) : place, sums, part(rank_).count * unit);
    };
    const auto take = [&](uint32_t r, const std::byte* theirs) {
      if (r != rank_)
        copy_out(out + from(r) * unit, pairs ? between(r, rank_, most * unit) : theirs, part(r).count * unit);
      else if (own != sums)
        copy_out(own, sums, part(r).count * unit);
    };
    if (const Status s = exchange(plan_.chunk, give, take); s != Status::ok) return s;
  }
  return Status::ok;
}

/// All but the root combine a share of each piece, and the root takes the sums: it has as much to copy so as the others have to read. It
/// takes those of a piece when it has given them the next one, which they would wait for otherwise.
Status Segment::reduce_shared_out(const std::byte* in, std::byte* out, const Work& w, uint32_t root) {
  const uint32_t helpers = size_ - 1;
  const uint64_t unit = w.type.size, most = even_share(w.count, most_collected(unit), helpers), step = most * helpers;
  const auto part_from = [&](uint64_t first) {
    return [=, &w](uint32_t r) {
      const uint64_t begin = std::min(w.count, first + (r > root ? r - 1 : r) * most), end = std::min(w.count, begin + most);
      return Share{in + begin * unit, r == root ? 0 : end - begin};
    };
  };
  const auto sums_of = [&](uint64_t first) {
    const auto part = part_from(first);
    const auto give = [&](std::byte* place) { copy_bytes(place, scratch(), part(rank_).count * unit); };
    const auto take = [&](uint32_t r, const std::byte* sums) { copy_out(out + (part(r).address - in), sums, part(r).count * unit); };
    return collect(most * unit, root, give, take);
  };
  for (uint64_t first = 0; first < w.count; first += step) {
    if (const Status s = reduce_shares(part_from(first), most, w, scratch()); s != Status::ok) return s;
    if (rank_ == root && first == 0) continue;
    if (const Status s = sums_of(rank_ == root ? first - step : first); s != Status::ok) return s;
  }
  return rank_ == root ? sums_of((w.count - 1) / step * step) : Status::ok;
}

Status Segment::reduce_scatter(const void* in, void* out, const Shares& shares, const type::Datatype& type, const op::Op& op) {
  uint64_t longest = shares.each;
  for (uint32_t r = 0; shares.starts && r < size_; ++r) longest = std::max(longest, shares.count(r));
  const uint64_t most = std::min(longest, most_shared(type.size));
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  for (uint64_t done = 0; done < longest; done += most) {
    const auto part = [&](uint32_t r) {
      const uint64_t all = shares.count(r), before = std::min(done, all);
      return Share{from + (shares.start(r) + before) * type.size, std::min(most, all - before)};
    };
    const Share mine = part(rank_);
    const uint64_t bytes = mine.count * type.size;
    std::byte* const own = to + done * type.size;
    const bool over_operand = own < mine.address + bytes && mine.address < own + bytes;  // partial sums must not fall upon it
    std::byte* const sums = over_operand ? scratch() : own;
    if (const Status s = reduce_shares(part, most, {mine.count, type, op, Order::chain}, sums); s != Status::ok) return s;
    if (over_operand) std::memcpy(own, sums, bytes);
  }
  return Status::ok;
}

namespace {

/// Puts an operand into a slot, whose lines its last reader's cache holds.
void put_operand(std::byte* slot, const std::byte* operand, uint64_t bytes, bool brief) {
  brief ? copy_few(slot, operand, bytes) : copy_bytes(slot, operand, bytes);
}

}  // namespace

Status Segment::reduce_chunk(const std::byte* in, std::byte* out, const Work& work, uint32_t root) {
  const uint64_t bytes = work.count * work.type.size;
  const Size size = size_for(bytes);
  const uint64_t n = next_share(size);
  const Place mine = share(rank_, n, size);
  const bool in_place = in == out;  // partial results would fall upon the operand
  if (rank_ != root || in_place) {
    if (const Status s = await_reader(n, size); s != Status::ok) return s;
    put_operand(mine.data, in, bytes, size == Size::brief);
  }
  if (rank_ != root) {
    show(n, size, bytes, root);
    return Status::ok;
  }
  Status status = Status::ok;
  const auto arrived = [&](uint32_t r) -> const std::byte* {
    if (r == rank_) return in_place ? mine.data : in;
    status = await_share(r, n, size, bytes);
    return status == Status::ok ? share(r, n, size).data : nullptr;
  };
  if (!combine(work, arrived, 0, static_cast<int32_t>(size_), out, spare_for(work.order))) return status;
  have_read(n, size, rank_);
  for (uint32_t r = 0; r < size_; ++r)
    if (r != rank_) give_back(share(r, n, size), bytes);
  return Status::ok;
}

Status Segment::scan(const void* in, void* out, uint64_t count, const type::Datatype& type, const op::Op& op, bool exclusive) {
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  return in_steps(count, type.size, plan_.large.bytes, [&](uint64_t first, uint64_t n) {
    return scan_chunk(from + first * type.size, to + first * type.size, {n, type, op, Order::chain}, exclusive);
  });
}

/// What the lower ranks have together comes from the one before, and goes on to the one behind with what this rank has.
Status Segment::scan_chunk(const std::byte* in, std::byte* out, const Work& w, bool exclusive) {
  const uint64_t bytes = w.count * w.type.size;
  const bool first = rank_ == 0, last = rank_ + 1 == size_;
  const Size size = size_for(bytes);
  const uint64_t n = next_share(size);
  const std::byte* left = nullptr;
  if (!first) {
    if (const Status s = await_share(rank_ - 1, n, size, bytes); s != Status::ok) return s;
    left = share(rank_ - 1, n, size).data;
  }
  if (!last) {
    if (const Status s = await_reader(n, size); s != Status::ok) return s;
    std::byte* const onward = share(rank_, n, size).data;
    if (first)
      put_operand(onward, in, bytes, size == Size::brief);
    else
      op::apply3(w.op, w.type, left, in, onward, w.count);
    if (!exclusive && (out != in || !first)) copy_few(out, first ? in : onward, bytes);
    show(n, size, bytes, rank_ + 1);
  } else if (!exclusive) {
    op::apply3(w.op, w.type, left, in, out, w.count);
  }
  if (!first) {
    if (exclusive) copy_few(out, left, bytes);
    have_read(n, size, last ? rank_ : rank_ + 1);
    give_back(share(rank_ - 1, n, size), bytes);
  }
  return Status::ok;
}

}  // namespace weft::coll::node
