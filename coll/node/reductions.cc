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
    tell(offer(rank_).sequence, n);
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
    tell(result.sequence, n);
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
  tell(offer(rank_).sequence, n);
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
    tell(line.sequence, n);
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
  if (roomy_ && size_ > 2 && count * type.size > most_by_root() && most_shared(type.size) > 0)
    return reduce_shared_out(from, to, {count, type, op, order}, static_cast<uint32_t>(root));
  return in_steps(count, type.size, plan_.large.bytes, [&](uint64_t first, uint64_t n) {
    return reduce_chunk(from + first * type.size, to ? to + first * type.size : nullptr, {n, type, op, order}, static_cast<uint32_t>(root));
  });
}

/// The ranks' shares of a piece of a reduction, one each, at most `length` bytes: gives the others theirs, and returns the number of that
/// round. `part(r)` is rank r's share here. Pairs change places, so that a rank writes where it has read itself: it may give what is next
/// there as soon as it has, even if others still read theirs.
template <class Part>
uint64_t Segment::give_shares(Part part, uint64_t length, uint64_t unit) {
  return give_all(size_ * length, [&](std::byte*) {
    for (uint32_t r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const Share theirs = part(r);
      copy_bytes(between(rank_, r, length), theirs.address, theirs.count * unit);
    }
  });
}

/// The own share of what has been given in round n, combined in `to`, but for that of rank `apart`, unless that is this one.
Status Segment::combine_shares(uint64_t n, Share own, uint64_t length, const Work& w, std::byte* to, uint32_t apart) {
  const auto operand = [&](uint32_t r) -> const std::byte* { return r == rank_ ? own.address : between(r, rank_, length, n); };
  const bool turning = turns(w);
  const std::byte* sum = own.address;
  const auto add = [&](uint32_t r, const std::byte*) {
    if (!turning || r == rank_ || r == apart || own.count == 0) return;
    about_to_read(length);
    op::apply3(w.op, w.type, operand(r), sum, to, own.count);
    sum = to;
  };
  if (const Status s = take_all(n, size_ * length, add); s != Status::ok || turning || own.count == 0) return s;
  combine({own.count, w.type, w.op, w.order}, operand, 0, static_cast<int32_t>(size_), to, spare_for(w.order));
  return Status::ok;
}

/// Where a rank's sums are for another one in round n. Those of two pieces after each other lie in two places, unless each pair has its
/// own.
std::byte* Segment::sums_of(uint32_t from, uint32_t to, uint64_t length, uint64_t n) {
  if (sums_by_pairs(length)) return between(from, to, length, n);
  return offer_area(from, static_cast<int>(n & 1)) + (n / 2 & 1) * (plan_.chunk / 2);
}

/// Each rank combines a share of each piece, and all take the results of all: two meetings, but each operand goes once to one rank. What
/// the others have combined is waited for when the shares of the next piece have been given.
Status Segment::allreduce_shared_out(const std::byte* in, std::byte* out, const Work& w) {
  const uint64_t unit = w.type.size, most = even_share(w.count, most_shared(unit), size_), length = most * unit, step = most * size_;
  const bool pairs = sums_by_pairs(length);
  const auto part = [&](uint64_t first, uint32_t r) {
    const uint64_t begin = std::min(w.count, first + r * most);
    return Share{in + begin * unit, std::min(w.count, begin + most) - begin};
  };
  const auto give = [&](uint64_t first) { return give_shares([&](uint32_t r) { return part(first, r); }, length, unit); };
  uint64_t given = give(0);
  for (uint64_t first = 0; first < w.count; first += step) {
    const Share mine = part(first, rank_);
    std::byte* const own = out + (mine.address - in);
    std::byte* const sums = own == mine.address && !turns(w) ? scratch() : own;  // partial sums must not fall upon the operand
    if (const Status s = combine_shares(given, mine, length, w, sums, rank_); s != Status::ok) return s;
    const auto show = [&](std::byte*) {
      for (uint32_t r = 0; r < (pairs ? size_ : 1); ++r)
        if (!pairs || r != rank_) copy_bytes(sums_of(rank_, r, length, allreduces_), sums, mine.count * unit);
    };
    const uint64_t shown = give_all(length, show);
    if (first + step < w.count) given = give(first + step);
    const auto take = [&](uint32_t r, const std::byte*) {
      const Share theirs = part(first, r);
      std::byte* const to = out + (theirs.address - in);
      if (r != rank_)
        copy_out(to, sums_of(r, rank_, length, shown), theirs.count * unit);
      else if (own != sums)
        copy_out(to, sums, theirs.count * unit);
    };
    if (const Status s = take_all(shown, length, take); s != Status::ok) return s;
  }
  return Status::ok;
}

/// All but the root combine a share of each piece, and the root takes the sums of a piece in the round of the next one. Its own operand it
/// adds then; if it cannot be the last one, it gives it to the others as they do.
Status Segment::reduce_shared_out(const std::byte* in, std::byte* out, const Work& w, uint32_t root) {
  const uint32_t helpers = size_ - 1;
  const uint64_t unit = w.type.size, most = even_share(w.count, most_shared(unit), helpers), length = most * unit, step = most * helpers;
  const bool adds = turns(w);
  const auto share = [&](uint64_t first, uint32_t r) {
    const uint64_t begin = std::min(w.count, first + (r > root ? r - 1 : r) * most);
    return Share{in + begin * unit, std::min(w.count, begin + most) - begin};
  };
  for (uint64_t first = 0;; first += step) {
    const auto before = [&](uint32_t r) { return first > 0 ? share(first - step, r) : Share{in, 0}; };
    const auto part = [&](uint32_t r) {
      if (r == root) return Share{scratch(), before(rank_).count};
      return rank_ == root && adds ? Share{in, 0} : share(first, r);
    };
    const uint64_t given = give_shares(part, length, unit);
    const auto take = [&](uint32_t r, const std::byte*) {
      const Share own = before(r);
      if (r == root || own.count == 0) return;
      const std::byte* const sums = between(r, root, length, given);
      std::byte* const to = out + (own.address - in);
      adds ? op::apply3(w.op, w.type, sums, own.address, to, own.count) : copy_out(to, sums, own.count * unit);
    };
    const Status s = rank_ == root ? take_all(given, length, take)
                                   : combine_shares(given, share(first, rank_), length, w, scratch(), adds ? root : rank_);
    if (s != Status::ok || first >= w.count) return s;
  }
}

Status Segment::reduce_scatter(const void* in, void* out, const Shares& shares, const type::Datatype& type, const op::Op& op) {
  uint64_t longest = shares.each;
  for (uint32_t r = 0; shares.starts && r < size_; ++r) longest = std::max(longest, shares.count(r));
  if (longest == 0) return Status::ok;
  const uint64_t unit = type.size, most = even_share(longest, most_shared(unit), 1), length = most * unit;
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  const auto part = [&](uint64_t done, uint32_t r) {
    const uint64_t all = shares.count(r), before = std::min(done, all);
    return Share{from + (shares.start(r) + before) * unit, std::min(most, all - before)};
  };
  const auto give = [&](uint64_t done) { return give_shares([&](uint32_t r) { return part(done, r); }, length, unit); };
  uint64_t given = give(0);
  for (uint64_t done = 0; done < longest; done += most) {
    // All but the last ones are given ahead. Who has come to the last ones has read those before, which the next call relies on.
    const uint64_t now = given;
    const bool more = done + most < longest, ahead = done + 2 * most < longest;
    if (ahead) {
      if (const Status s = done == 0 ? take_all(now, length, [](uint32_t, const std::byte*) {}) : Status::ok; s != Status::ok) return s;
      given = give(done + most);
    }
    const Share mine = part(done, rank_);
    const uint64_t bytes = mine.count * unit;
    std::byte* const own = to + done * unit;
    const bool over_operand = own < mine.address + bytes && mine.address < own + bytes;  // partial sums must not fall upon it
    std::byte* const sums = over_operand ? scratch() : own;
    if (const Status s = combine_shares(now, mine, length, {mine.count, type, op, Order::chain}, sums, rank_); s != Status::ok) return s;
    if (over_operand) std::memcpy(own, sums, bytes);
    if (more && !ahead) given = give(done + most);
  }
  return Status::ok;
}

namespace {

/// Puts an operand into a slot, whose lines its last reader's cache holds.
void put_operand(std::byte* slot, const std::byte* operand, uint64_t bytes, bool brief) {
  brief ? copy_few(slot, operand, bytes) : copy_in(slot, operand, bytes);
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
