// Collectives among ranks of one node, by flags and slots in a shared segment: matching messages would cost more than the work.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "btl/copy/joint.h"
#include "coll/hosts.h"
#include "coll/node/board.h"
#include "coll/node/readings.h"
#include "coll/node/waking.h"
#include "coll/order.h"
#include "coll/view.h"
#include "pml/lane.h"
#include "pml/patience.h"
#include "runtime/base/copy.h"
#include "runtime/op/op.h"
#include "runtime/topo/lent.h"

namespace weft::coll::node {

/// The messages that go beside a kernel, of what does not fit its slots.
class Post {
 public:
  virtual void send(uint32_t to, const pml::Buffer&) = 0;
  virtual void receive(uint32_t from, const pml::Buffer&) = 0;
  /// What was to be received from that rank does not come.
  virtual void withdraw(uint32_t from) = 0;
  /// Waits until all have come and gone.
  virtual void settle() = 0;

 protected:
  ~Post() = default;
};

/// The memory that the ranks of a team share, and the kernels on it. All ranks call the same kernels in the same order, with the
/// same sizes, types and roots. A kernel's wait progresses the lane, yields on crowded nodes, and ends when the job does.
class Segment final : private pml::Household {
  static constexpr size_t kBoards = 3;

 public:
  /// What rank 0 decides of a segment: slots that keep to the caches, or, where each meeting costs switches, hold more.
  struct Plan {
    bool grouped = false;  ///< some ranks meet among themselves first
    uint64_t chunk = 0;    ///< bytes of a slot for what a rank offers
    /// Slots for what one rank gives to all, or to one, many of which may be under way: who only sends runs ahead. Powers of two.
    struct Slots {
      uint64_t bytes = 0;   ///< of each
      uint64_t pieces = 0;  ///< of broadcasts
      uint64_t shares = 0;  ///< each rank's operands of reduces
    };
    Slots medium, large;   ///< none of medium size where each rank has a CPU
    uint64_t briefs = 0;   ///< short ones, of both kinds
    uint64_t parcels = 0;  ///< each rank's large slots for blocks of unknown length, where ranks share CPUs

    Plan() = default;
    Plan(uint32_t ranks, bool crowded, bool grouped);
    size_t bytes(uint32_t ranks) const;
    size_t front(uint32_t ranks) const;                           ///< of these, before the boards
    size_t heads(uint32_t ranks, size_t boards = kBoards) const;  ///< with so many of them
    size_t slots(uint32_t ranks) const;                           ///< with all, before the slots
    /// Who only sends runs ahead, as far as in blocking calls and at most so far; meetings take turns.
    std::array<Board::Shape, kBoards> boards() const {
      return {Board::kBrief, {std::min(large.pieces, kMostOneWay), large.bytes}, {kMeetingSlots, chunk}};
    }
    static constexpr uint64_t kMostOneWay = 32, kMeetingSlots = 2;
    /// Bytes of a rank's slots, the medium ones after those that it offers in, then the large ones, then parcels.
    uint64_t areas() const { return sums() + (grouped ? 4 : 0) * chunk; }
    uint64_t sums() const { return parcels_at() + parcels * large.bytes; }
    uint64_t parcels_at() const { return 2 * chunk + medium.shares * medium.bytes + large.shares * large.bytes; }
    uint64_t shares() const { return medium.shares + large.shares; }
    uint64_t pieces() const { return medium.pieces + large.pieces; }
    uint64_t piece_bytes() const { return medium.pieces * medium.bytes + large.pieces * large.bytes; }
  };

  ~Segment();
  Segment(const Segment&) = delete;

  /// As far as this rank knows.
  static bool crowded(const boot::Job& job) { return job.node_ranks.size() > job.cpus; }
  /// Has each rank a CPU of its own, as far as all of them know? The same on all ranks.
  bool roomy() const { return roomy_; }

  Status barrier();
  Status bcast(const pml::Buffer&, int root);
  /// `in` may be `out`. The type is contiguous and fits (see fits()). Operands stay in rank order and are combined as `order` says on
  /// one rank or on all, so that all get the same bits.
  Status allreduce(const void* in, void* out, uint64_t count, const type::Datatype&, const op::Op&, Order);
  /// `out` means something at the root only.
  Status reduce(const void* in, void* out, uint64_t count, const type::Datatype&, const op::Op&, int root, Order);

  /// Each rank's block to all: `out` has as many elements as `in`, of each rank, one after another. `in` may be the own place in it.
  /// Here and in the next one all meet once for each slot's worth that a rank gives.
  Status allgather(const pml::Buffer& in, const pml::Buffer& out);
  /// The same of blocks whose lengths differ; `out` has one of each rank.
  Status allgather(const pml::Buffer& in, const View& out);
  /// To each rank a block; both have `count` elements a rank. `in` may be `out`.
  Status alltoall(const pml::Buffer& in, const pml::Buffer& out);
  /// The same of blocks whose lengths only the two know whom they are between: what does not fit a slot is for the post, unless it is read
  /// where it lies, or there are two ranks. They have no memory in common.
  Status alltoall(const View& in, const View& out, Post&);
  /// Elements of each rank's share of a vector: so many, or where they start, a value more than there are ranks.
  struct Shares {
    uint64_t each = 0;
    const uint64_t* starts = nullptr;
    uint64_t start(uint32_t r) const { return starts ? starts[r] : r * each; }
    uint64_t count(uint32_t r) const { return starts ? starts[r + 1] - starts[r] : each; }
  };
  /// To each rank its share of the sums of `in`. `in` may begin where `out` does. An element of each rank takes at most `most_exchanged`
  /// bytes.
  Status reduce_scatter(const void* in, void* out, const Shares&, const type::Datatype&, const op::Op&);
  /// Each rank's block to the root, whose `out` has one of each rank; it means nothing elsewhere. All are equally long.
  Status gather(const pml::Buffer& in, const View& out, int root);
  /// The same of blocks whose lengths only the root and their ranks know; beyond most_gathered() they are for the post.
  Status gather(const pml::Buffer& in, const View& out, int root, Post&);
  /// Does long data of so many ranks go through shared memory? More send messages.
  static constexpr bool few(uint64_t ranks) { return ranks <= 64; }
  /// Bytes of a block of a gather up to which slots pay. Longer ones go as fast by messages, which need not be cut. On shared CPUs whoever
  /// only gives runs ahead through its slots; of three ranks two do, and messages are ahead (blocks of 256 KiB: 32 us, in slots 45).
  static constexpr uint64_t most_gathered(uint64_t ranks, bool roomy) { return (roomy || ranks < 4 ? 64 : 512) << 10; }
  /// Do blocks of so many bytes come in parcels, if their lengths are not known to all?
  bool in_parcels(uint64_t bytes) const { return plan_.parcels > 0 && bytes > plan_.large.bytes && bytes <= most_gathered(size_, roomy_); }
  /// And if they are equally long? Each rank has fewer of these slots, which stay in caches (4 ranks on 2 CPUs of an Intel Granite Rapids,
  /// blocks of 256 KiB: 84 to 78 us; of 16 ranks 570 to 630, as those are waited for).
  bool gathers_apart(uint64_t bytes) const { return size_ <= kFlat && in_parcels(bytes); }
  /// The root's blocks to all; the other way round. Up to 65 ranks if there is a post.
  Status scatter(const View& in, const pml::Buffer& out, int root);
  Status scatter(const View& in, const pml::Buffer& out, int root, Post&);
  static constexpr uint32_t most_scattered = 65;
  /// Are blocks of so many bytes, the same of all, scattered as if they differed? So they go by messages, which begin when their receivers
  /// have come (8 ranks of an Intel Emerald Rapids, blocks of 128 KiB: 80 us, or 96 by messages that are sent ahead; 8 KiB: 8, in slots
  /// 11).
  bool scatters_apart(uint64_t bytes) const { return roomy_ && size_ > 2 && size_ <= most_scattered && bytes >= least_scattered_apart; }
  static constexpr uint64_t least_scattered_apart = 4 << 10;
  /// Each rank's operand combined with those of all lower ranks, in the order of ranks; `exclusive`: without its own, and nothing for rank
  /// 0. `in` may be `out`. From one rank to the next.
  Status scan(const void* in, void* out, uint64_t count, const type::Datatype&, const op::Op&, bool exclusive);
  static constexpr uint64_t most_exchanged = 16384;

  /// For collectives that nobody waits in: in which a rank gives little; only one gives, or only one takes; all give and take.
  enum class BoardKind : uint8_t { brief, one_way, meeting };
  Board& board(BoardKind kind) { return boards_[static_cast<size_t>(kind)]; }
  const Board& board(BoardKind kind) const { return boards_[static_cast<size_t>(kind)]; }
  /// Are those that are not brief worth it? All look at all there.
  bool shows_long() const { return !roomy_ || size_ <= kFlat; }

  /// Does a rank write what all take once for each of them? A line that several have read takes long to write again where it is read to
  /// stay, four times as long between packages as one that its only reader writes next.
  bool by_pairs(uint64_t bytes) const { return touching_pays && !roomy_ && size_ > 2 && size_ <= kMostPairs && bytes > Brief::most; }
  /// Bytes of an allreduce up to which all combine all, where they share CPUs, or nobody waits. Two read as much then as of shares, for one
  /// meeting less.
  static constexpr uint64_t most_by_all(uint32_t ranks) { return ranks == 2 ? 32 << 10 : 8 << 10; }
  static constexpr uint64_t kUnit = 64;  ///< elements, so that shares begin at lines
  /// Elements of each rank's share of a step, at most `most`: as few steps as that allows, all about as long.
  static constexpr uint64_t even_share(uint64_t count, uint64_t most, uint32_t ranks) {
    const uint64_t steps = (count + most * ranks - 1) / (most * ranks);
    const uint64_t share = (count + steps * ranks - 1) / (steps * ranks);
    return std::min(most, (share + kUnit - 1) / kUnit * kUnit);
  }

  /// True if elements of the type can be combined in slots.
  static bool fits(const type::Datatype& t) { return t.contiguous && t.origin == 0 && t.lower == 0 && t.size <= 4096; }

 private:
  /// A cache line that one rank writes and others read: the sequence number says that the data before it is there.
  struct alignas(64) Line {
    std::atomic<uint64_t> sequence;
    uint64_t note;  ///< for Readings
    std::byte data[48];
  };
  /// Something short on its own, many of which may stand for others to take: who is ahead need not wait for their turns on a shared CPU.
  struct alignas(64) Brief {
    static constexpr uint64_t most = 512;
    std::atomic<uint64_t> sequence;
    uint64_t unused;
    std::byte data[most];
  };
  static constexpr uint64_t kBriefs = 64, kMostBriefs = 256;  ///< short reduces, and short broadcast pieces, under way
  static constexpr uint64_t kClaimed = 6;  ///< of these, who writes them claims the one so far ahead: as many pass while a line comes
  static constexpr uint64_t kAhead = 2;    ///< who reads them and is behind has the one so far ahead come
  /// Large pieces and shares under way, and those of two ranks where leaving_pays: twice an L2 cache in all, so that lines have left the
  /// readers' when they are written again. Elsewhere few slots stay in the L2 caches, whoever else fills the L3.
  static constexpr uint64_t kLongs = 8, kMostLongs = 128;
  /// Where ranks share CPUs, the more are under way the fewer switches they take; but what all have in shares should not outgrow the
  /// caches.
  static constexpr uint64_t kCrowdedPieces = 32, kCrowdedMediums = 128;
  static constexpr uint64_t kParcels = 8;  ///< what a rank fills ahead of the root of a gather: one of the longest blocks
  static constexpr bool is_brief(uint64_t bytes) { return bytes <= Brief::most; }
  /// Of slots: what is up to so long goes through those.
  enum class Size : uint8_t { brief, medium, large };
  static constexpr size_t kSizes = 3;
  static constexpr size_t at(Size size) { return static_cast<size_t>(size); }
  Size longer(uint64_t bytes) const { return bytes <= plan_.medium.bytes ? Size::medium : Size::large; }
  Size size_for(uint64_t bytes) const { return is_brief(bytes) ? Size::brief : longer(bytes); }
  const Plan::Slots& slots_of(Size longer) const { return longer == Size::medium ? plan_.medium : plan_.large; }
  /// How many there are. Half of them are given back at a time: who waits for room pulls the line that tells it from its writer.
  uint64_t piece_slots(Size size) const { return size == Size::brief ? plan_.briefs : slots_of(size).pieces; }
  uint64_t share_slots(Size size) const { return size == Size::brief ? plan_.briefs : slots_of(size).shares; }
  static_assert(std::has_single_bit(kBriefs) && std::has_single_bit(kMostBriefs) && std::has_single_bit(kLongs) &&
                std::has_single_bit(kMostLongs));
  /// Whose memory the others may read, and where what shows that they can lies in it: the segment's nonce.
  struct Owner {
    pid_t process;
    const uint64_t* nonce;
  };
  /// What a rank writes.
  struct Desk {
    alignas(64) topo::LentCpu lent;
    Owner owner;
    btl::copy::Joint joint;  ///< what it reads of a broadcast's root, who may take part
    Line barrier;
    Line offer[2];           ///< its operand of an allreduce, or what it gives to an exchange
    Line partial[2];         ///< a leader's: what its group gives to an allreduce
    Line outcome[2];         ///< a leader's: the result, for its group
    Line released;           ///< a leader's: the latest barrier that all have come to
    Line consumed[kSizes];   ///< the latest broadcast piece of each size it has taken, as far as it has told
    Line collected[kSizes];  ///< the latest reduce of each size that it has done as a root, as far as it has told
  };
  struct Header {
    uint64_t nonce;
    alignas(64) std::atomic<uint64_t> arrivals;
    alignas(64) std::atomic<uint64_t> released;
    alignas(64) std::atomic<uint64_t> offers;
    Line result[2];
  };
  static constexpr uint64_t kChunk = 32 << 10, kChunkOfFew = 128 << 10;  ///< least bytes of a slot for what a rank offers; of up to 16
  static_assert(most_exchanged <= kChunk);
  static constexpr uint64_t kInline = sizeof(Line::data);
  static constexpr uint32_t kMostPairs = 4;
  static constexpr uint32_t kFlat = 8;  ///< up to so many ranks, each looks at all others itself

  friend class Wiring;
  /// `groups`: by rank, numbers of groups; empty: there are none.
  Segment(pml::Team&, std::byte* memory, bool roomy, const Plan&, std::span<const int32_t> groups);
  Header& header() { return *reinterpret_cast<Header*>(memory_); }
  Desk& desk(uint32_t rank) { return desks_[rank]; }
  std::byte* data(Line& line, std::byte* area, uint64_t bytes) { return bytes <= kInline ? line.data : area; }
  /// A rank's slots: for what it offers, for its operands of reduces, and, if there are groups, for sums.
  std::byte* areas_of(uint32_t rank) { return areas_ + rank * stride_; }
  std::byte* offer_area(uint32_t rank, int parity) { return areas_of(rank) + static_cast<uint32_t>(parity) * plan_.chunk; }
  /// Where a rank writes in this round of meetings. Two ranks change places each time: each writes where it has read, as what it read came
  /// to its cache to stay; to write again what the other one holds takes several times as long.
  uint32_t place_of(uint32_t rank, uint64_t round) const { return size_ == 2 && round & 1 ? 1 - rank : rank; }
  std::atomic<uint64_t>& met(uint32_t rank) { return desk(place_of(rank, barriers_)).barrier.sequence; }
  /// What a rank gives in this round, or in round n: its slots take turns.
  Line& offer(uint32_t rank) { return offer(rank, allreduces_); }
  Line& offer(uint32_t rank, uint64_t n) { return desk(place_of(rank, n / 2)).offer[n & 1]; }
  std::byte* offered(uint32_t rank, uint64_t bytes) { return offered(rank, bytes, allreduces_); }
  std::byte* offered(uint32_t rank, uint64_t bytes, uint64_t n) {
    return data(offer(rank, n), offer_area(place_of(rank, n / 2), static_cast<int>(n & 1)), bytes);
  }
  /// Something that stands for others to take.
  struct Place {
    std::atomic<uint64_t>& sequence;
    std::byte* data;
  };
  static Place place_in(Brief& brief) { return {brief.sequence, brief.data}; }
  /// A rank's operand of a reduce.
  Place share(uint32_t rank, uint64_t n, Size size) {
    if (size == Size::brief) return place_in(briefs_[(rank + 1) * plan_.briefs + (n & (plan_.briefs - 1))]);
    const Plan::Slots& slots = slots_of(size);
    const uint64_t slot = n & (slots.shares - 1), before = size == Size::large ? plan_.medium.shares : 0;
    Line& line = shares_[rank * plan_.shares() + before + slot];
    return {line.sequence, areas_of(rank) + 2 * plan_.chunk + before * plan_.medium.bytes + slot * slots.bytes};
  }
  /// A rank's own large slots, which it numbers itself: who gets what stands in them is told the number of the first.
  struct Parcel {
    std::atomic<uint64_t>&written, &taken;
    std::byte* data;
  };
  Parcel parcel(uint32_t rank, uint64_t n) {
    const uint64_t slot = n % plan_.parcels;
    Line* const lines = parcel_lines_ + 2 * (rank * plan_.parcels + slot);
    return {lines[0].sequence, lines[1].sequence, areas_of(rank) + plan_.parcels_at() + slot * plan_.large.bytes};
  }
  Place piece(uint64_t n, Size size) {
    if (size == Size::brief) return place_in(briefs_[n & (plan_.briefs - 1)]);
    const Plan::Slots& slots = slots_of(size);
    const uint64_t slot = n & (slots.pieces - 1), before = size == Size::large ? plan_.medium.pieces : 0;
    return {pieces_[before + slot].sequence, piece_areas_ + before * plan_.medium.bytes + slot * slots.bytes};
  }
  Line& piece_line(uint64_t n) { return pieces_[plan_.medium.pieces + (n & (plan_.large.pieces - 1))]; }
  std::byte* result_area(int parity) { return areas_of(size_) + static_cast<uint32_t>(parity) * plan_.chunk; }
  /// A leader's slots for results: of its group, of all.
  enum class Sum : uint8_t { of_group, of_all };
  std::byte* sum_area(uint32_t leader, Sum which, int parity) {
    const uint64_t slot = 2 * static_cast<uint64_t>(which) + static_cast<uint64_t>(parity);
    return areas_of(leader) + plan_.sums() + slot * plan_.chunk;
  }
  uint32_t leader_of(int32_t group) const { return static_cast<uint32_t>(groups_->on(group).front()); }
  /// Can operands be combined by groups? Theirs are together then, so that those of operations that do not commute have to be adjacent.
  bool by_groups(Order order, const op::Op& op) const {
    return groups_ && order == Order::chain && (op.commutative || groups_->in_blocks());
  }

  void lends(uint32_t cpu, topo::Ties ties, uint64_t now) override { desk(rank_).lent.set({cpu, ties}, now); }
  void sleeps() override { desk(rank_).lent.clear(); }
  bool lies_down(bool briefly) override;
  bool is_woken() const override { return waking_.is_woken(); }
  void gets_up() override { waking_.gets_up(); }
  topo::Place way_out(topo::Ties, std::span<const uint32_t> cpus, uint64_t now) override;
  template <class Ready>
  Status wait(Ready ready, Waking::Cause = {});
  Status wait_for(const std::atomic<uint64_t>& word, uint64_t at_least);
  void tell(std::atomic<uint64_t>& word, uint64_t number) { waking_.tell(word, number); }
  static void let_get_ahead(const std::atomic<uint64_t>& word, uint64_t n);
  static void about_to_read(uint64_t bytes);
  /// What is combined, in which order.
  struct Work {
    uint64_t count;
    const type::Datatype& type;
    const op::Op& op;
    Order order;
  };
  Status allreduce_chunk(const std::byte* in, std::byte* out, const Work&);
  Status allreduce_in_groups(uint64_t n, std::byte* out, const Work&);
  Status barrier_in_groups(uint64_t n);
  Status reduce_chunk(const std::byte* in, std::byte* out, const Work&, uint32_t root);
  Status scan_chunk(const std::byte* in, std::byte* out, const Work&, bool exclusive);
  template <class Operand>
  const std::byte* combine(const Work&, Operand operand, int32_t first, int32_t last, std::byte* to, std::byte* spare);
  std::byte* spare_for(Order);
  std::byte* scratch();
  template <class Give>
  uint64_t give_all(uint64_t bytes, Give give);
  template <class Take>
  Status take_all(uint64_t n, uint64_t bytes, Take take);
  template <class Give, class Take>
  Status exchange(uint64_t bytes, Give give, Take take);
  /// The place of what a rank has for another one among all that it has: what is for itself is the last, as nobody else reads it.
  uint64_t place_for(uint32_t to, uint32_t from) const { return to == from ? size_ - 1 : to > from ? to - 1 : to; }
  std::byte* between(uint32_t from, uint32_t to, uint64_t length) { return between(from, to, length, allreduces_); }
  std::byte* between(uint32_t from, uint32_t to, uint64_t length, uint64_t n);
  Status exchange_brief(const std::byte* in, std::byte* out, uint64_t block, bool to_each);
  Status gather_brief(const std::byte* in, std::byte* out, uint64_t block, uint32_t root);
  Status scatter_brief(const std::byte* in, std::byte* out, uint64_t block, uint32_t root);
  struct LongerShares;
  struct Contents;
  Status send_contents(const Contents&, const View& in, Post&);
  Status take_contents(const Contents&, const pml::Buffer& out, uint32_t root, Post&);
  struct Showing;
  struct Hidden;
  template <class Shows>
  Status exchange_blocks(type::Cursor mine, const pml::Buffer& out, uint64_t block, Shows);
  template <class Shows>
  Status allgather(const pml::Buffer& in, const View& out, uint64_t longest, Shows);
  bool can_read(uint32_t rank);
  void has_done() const;
  void follows(uint32_t rank);
  void follows_all();
  void hear_readers();
  Status show_all(const std::byte* data, uint64_t n);
  struct Read;
  Read read_all(uint32_t root, const type::Cursor& to, uint64_t n);
  Read read_jointly(uint32_t root, const std::byte* data, std::span<std::byte> to);
  bool help_readers();
  /// Does a root help its readers? If they are more, it is one among many, and its looks at their lines are in their way.
  bool reads_jointly() const { return roomy_ && size_ <= 4; }
  pid_t process_of(uint32_t rank);
  Status give_long(type::Cursor&);
  Status take_long(type::Cursor&, uint32_t root);
  Status bcast_pieces(type::Cursor&, bool sends);
  Status read_from(uint32_t rank, const std::byte* where, type::Cursor to, uint64_t bytes);
  struct Letter;
  struct Letters;
  Letter letter(uint32_t from, uint32_t to);
  Status alltoall_of_two(const View& in, const View& out);
  Status gather_from_one(const pml::Buffer& block, uint32_t length, uint32_t root);
  struct Parcels;
  Status send_parcels(const pml::Buffer& block);
  Status take_parcels(uint32_t from, const Parcels&, const pml::Buffer& to);
  /// Of a slot for blocks of unknown length.
  uint64_t letter_bytes() const { return plan_.chunk / size_ & ~uint64_t{63}; }
  /// What all give to one rank: `give(place)` writes it, `take(rank, place)` reads it at the root.
  template <class Give, class Take>
  Status collect(uint64_t bytes, uint32_t root, Give give, Take take);
  /// A rank's share of what is reduced: its first element here, and how many there are.
  struct Share {
    const std::byte* address;
    uint64_t count;
  };
  /// Does each rank combine a share from its own operand on, so that not all read the same rank's memory at the same time?
  bool turns(const Work& w) const { return w.order == Order::chain && w.op.commutative; }
  /// Most elements of a share: those of all others fit a slot. Of many, so many that shares begin at lines.
  uint64_t most_shared(uint64_t unit) const {
    const uint64_t most = plan_.chunk / (size_ - 1) / unit;
    return most < kUnit ? most : most / kUnit * kUnit;
  }
  /// Where each rank has a CPU: bytes up to which all combine all of an allreduce, or the root of a reduce. Beyond, to share them out is
  /// worth a meeting, or the way through another rank.
  uint64_t most_by_each() const { return size_ == 2 ? most_by_all(2) : (8 << 10) / size_; }
  uint64_t most_by_root() const { return size_ <= 4 ? 128 << 10 : (32 << 10) / size_; }
  template <class Part>
  uint64_t give_shares(Part part, uint64_t length, uint64_t unit);
  Status combine_shares(uint64_t n, Share own, uint64_t length, const Work&, std::byte* to, uint32_t apart);
  bool sums_by_pairs(uint64_t length) const { return size_ == 2 || by_pairs(length); }
  std::byte* sums_of(uint32_t from, uint32_t to, uint64_t length, uint64_t n);
  Status allreduce_shared_out(const std::byte* in, std::byte* out, const Work&);
  Status reduce_shared_out(const std::byte* in, std::byte* out, const Work&, uint32_t root);
  template <bool kBrief, class Move>
  Status bcast_piece(uint64_t bytes, bool sends, Move move);
  template <class Move>
  Status piece_beside(uint64_t bytes, bool sends, Move move);
  Status await_piece(uint64_t n, Size);
  void tell_taken(uint64_t n, Size);
  Status await_readers(uint64_t piece, Size);
  Status await_reader(uint64_t n, Size);
  uint64_t next_share(Size);
  void show(uint64_t n, Size, uint64_t bytes, uint32_t reader);
  Status await_share(uint32_t of, uint64_t n, Size, uint64_t bytes);
  void read_by(uint64_t n, Size, uint32_t reader);
  void have_read(uint64_t n, Size, uint32_t reader);
  static void claim(const Place&, uint64_t bytes);
  static void expect(const Place& now, const Place& later, uint64_t n, uint64_t bytes);
  static void give_back(const Place&, uint64_t bytes);
  void tell_collected(uint64_t n, Size);

  pml::Lane& lane_;
  const uint32_t rank_, size_;
  std::byte* const memory_;
  const bool roomy_;
  const Plan plan_;
  const uint64_t part_;                // bytes of a piece for each rank but one
  const uint64_t stride_;              // from one rank's slots to the next
  const std::optional<Hosts> groups_;  // of ranks that meet among themselves first
  Desk* desks_;
  Line* pieces_;        // Plan::pieces() of them
  Brief* briefs_;       // Plan::briefs of broadcasts' pieces, and as many of each rank
  Line* shares_;        // as many of each rank: its operands of the latest reduces
  Line* parcel_lines_;  // two of each parcel
  std::byte* piece_areas_;
  std::byte* areas_;
  Waking waking_;
  Waking::Cause awaited_ = {};  // by a wait that has become long, if that is for a word
  std::array<Board, kBoards> boards_;
  std::vector<std::byte> spare_;    // partial results of orders that have several at once
  std::vector<std::byte> scratch_;  // a share's result
  pml::Patience patience_;          // looks at a line before others may run
  Reach reach_;
  enum class Access : uint8_t { untried, denied, granted };
  std::vector<Access> access_;  // to each rank's memory
  OpenMemory open_memory_;
  Readings readings_;
  RootReadings root_readings_;
  btl::copy::JointReader joint_;         // on the own desk
  const uint64_t nonce_;                 // where others look whether they can read it
  std::vector<const std::byte*> shown_;  // by rank: what it gives to the exchange at hand, to be read there; null: it goes through slots
  uint64_t parcels_ = 0;                 // that this rank has written
  // How far this rank is, equal on all ranks between calls.
  uint64_t barriers_ = 0, allreduces_ = 0;  // and exchanges
  /// Reduces and their like of a size: each rank has something for another one.
  struct Reduces {
    uint64_t number = 0;
    std::array<uint32_t, std::max({kMostBriefs, kMostLongs, kCrowdedMediums})> readers = {};  ///< of the own latest slots
    uint32_t reader = 0;                                                                      ///< this one is known
    uint64_t collected = 0;                                                                   ///< to have collected so far
    uint64_t done = 0, told = 0;  ///< the latest ones that this rank has collected, and has told of
  } reduces_[kSizes];
  /// Broadcast pieces of a size.
  struct Broadcasts {
    uint64_t number = 0;
    uint64_t all_consumed = 0;  ///< all ranks are known to have taken so many
  } broadcasts_[kSizes];
};

}  // namespace weft::coll::node
