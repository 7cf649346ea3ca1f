#include "coll/frame.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "include/mpi.h"
#include "runtime/base/error.h"
#include "runtime/config/config.h"
#include "runtime/op/exact.h"
#include "runtime/type/predefined.h"

namespace weft::coll {

namespace {

constexpr size_t kAlign = 64;
constexpr size_t align_up(size_t n) { return (n + kAlign - 1) & ~(kAlign - 1); }

const type::Datatype& byte_type() {
  static const type::Datatype& byte = type::of(type::Basic::byte);
  return byte;
}

config::Bool widens(
    "coll", "wide_sums", "true",
    "sums and products of 16-bit floats over several ranks are made in 32 bits and rounded at the end, with twice the bytes "
    "on the wires; false: rounded at each step. The same on all ranks");

/// Do steps read or write a buffer?
bool touches(const Schedule& s, uint8_t buffer, bool write) {
  return std::ranges::any_of(s.steps, [&](const Step& step) {
    switch (step.kind) {
      case StepKind::send: return !write && step.a.buffer == buffer;
      case StepKind::receive: return write && step.a.buffer == buffer;
      case StepKind::copy: return (write ? step.b : step.a).buffer == buffer;
      case StepKind::reduce: return step.b.buffer == buffer || (!write && step.a.buffer == buffer);
      case StepKind::combine: return write ? step.c.buffer == buffer : step.a.buffer == buffer || step.b.buffer == buffer;
    }
    return false;
  });
}

std::byte* bytes(const void* p) { return static_cast<std::byte*>(const_cast<void*>(p)); }

}  // namespace

Pattern pattern_of(Collective what) {
  switch (what) {
    case Collective::barrier: return Pattern::barrier;
    case Collective::bcast: return Pattern::bcast;
    case Collective::gather:
    case Collective::gatherv: return Pattern::gather;
    case Collective::scatter:
    case Collective::scatterv: return Pattern::scatter;
    case Collective::allgather:
    case Collective::allgatherv: return Pattern::allgather;
    case Collective::reduce: return Pattern::reduce;
    case Collective::allreduce: return Pattern::allreduce;
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_block: return Pattern::reduce_scatter;
    case Collective::scan: return Pattern::scan;
    case Collective::exscan: return Pattern::exscan;
    case Collective::neighbor_allgather:
    case Collective::neighbor_allgatherv: return Pattern::neighbor_allgather;
    case Collective::neighbor_alltoall:
    case Collective::neighbor_alltoallv:
    case Collective::neighbor_alltoallw: return Pattern::neighbor_alltoall;
    default: return Pattern::alltoall;
  }
}

namespace {

std::optional<op::ExactSum> exact_sum(const Call& c) {
  return c.terms > 0 && c.op ? op::ExactSum::of(*c.op, reduced_type(c), c.terms) : std::nullopt;
}

}  // namespace

void widen(const Call& c, const void* from, void* to, uint64_t count) {
  if (const auto exact = exact_sum(c))
    exact->widen(from, to, count);
  else
    op::widen(reduced_type(c), from, to, count);
}

void narrow(const Call& c, const void* from, void* to, uint64_t count) {
  if (const auto exact = exact_sum(c))
    exact->narrow(from, to, count);
  else
    op::narrow(reduced_type(c), from, to, count);
}

const type::Datatype& working_type(const Call& c) {
  if (const auto exact = exact_sum(c)) return exact->accumulator();
  const type::Datatype* const wide = c.op ? op::wide_type(*c.op, reduced_type(c)) : nullptr;
  return wide && widens.get() ? *wide : reduced_type(c);
}

std::byte* Scratch::take(size_t bytes) {
  if (bytes <= size_) return data_;
  std::free(data_);
  data_ = static_cast<std::byte*>(std::aligned_alloc(kAlign, align_up(bytes)));
  size_ = data_ ? align_up(bytes) : 0;
  return data_;
}

void Scratch::trim(size_t bytes) {
  if (size_ <= bytes) return;
  std::free(data_);
  data_ = nullptr;
  size_ = 0;
}

pml::Buffer View::at(int32_t block, int32_t n) const {
  if (kind == Kind::scattered) {
    const auto i = static_cast<size_t>(block);
    const type::Datatype* t = types ? types[i] : type;
    const int64_t place = places ? places[i] : 0;
    return {base + place * (places_in_bytes ? 1 : t->extent), static_cast<uint64_t>(counts[i]), t};
  }
  const uint64_t count = elements(block, n);
  if (single) return {base, count, type};
  const uint64_t from = block >= first ? start(block) - start(first) : start(blocks) - start(first) + start(block);
  return {base + static_cast<int64_t>(from) * type->extent, count, type};
}

void Frame::keep_arrays(Call& c, int32_t length) {
  const auto ins = static_cast<size_t>(in_blocks(c, length)), outs = static_cast<size_t>(out_blocks(c, length));
  kept_.clear();
  kept_.reserve(2 * (ins + outs));
  const auto keep = [this](Counts& array, size_t n) {
    if (!array) return;
    const size_t at = kept_.size();
    for (size_t i = 0; i < n; ++i) kept_.push_back(array[i]);
    array = Counts(kept_.data() + at);
  };
  keep(c.in_counts, ins);
  keep(c.in_displs, ins);
  keep(c.out_counts, outs);
  keep(c.out_displs, outs);
  kept_types_.clear();
  kept_types_.reserve(ins + outs);
  const auto keep_types = [this](const type::Datatype* const*& array, size_t n) {
    if (!array) return;
    const size_t at = kept_types_.size();
    kept_types_.insert(kept_types_.end(), array, array + n);
    array = kept_types_.data() + at;
  };
  keep_types(c.in_types, ins);
  keep_types(c.out_types, outs);
}

View Frame::scattered(void* base, Counts counts, Counts places, const type::Datatype* type, const type::Datatype* const* types) const {
  View v;
  v.base = bytes(base);
  v.kind = View::Kind::scattered;
  v.blocks = schedule->blocks;
  v.type = type;
  v.types = types;
  v.counts = counts;
  v.places = places;
  v.places_in_bytes = types != nullptr;
  return v;
}

/// Prefix sums of counts, each times the size of its type, or times `unit`.
void Frame::sum(Counts counts, const type::Datatype* const* types, uint64_t unit) {
  const auto n = static_cast<size_t>(schedule->blocks);
  starts_.resize(n + 1);
  starts_[0] = 0;
  for (size_t i = 0; i < n; ++i) starts_[i + 1] = starts_[i] + static_cast<uint64_t>(counts[i]) * (types ? types[i]->size : unit);
}

bool Frame::bind(const Schedule& s, const Call& given, Rank root, Rank me, int32_t size) {
  schedule = &s;
  call_ = given;
  call_.root = root;
  const Call& call = call_;
  op_ = call.op;
  size_ = size;
  stage_ = Stage::none;
  stage_bytes_ = 0;
  region_cut_ = View{};
  region_cut_.type = &byte_type();
  region_cut_.blocks = s.blocks;
  switch (pattern_of(call.what)) {
    case Pattern::barrier: return true;
    case Pattern::bcast: bind_bcast(call, me); break;
    case Pattern::gather:
    case Pattern::scatter:
    case Pattern::allgather: bind_data(call, me); break;
    case Pattern::alltoall: bind_alltoall(call); break;
    case Pattern::neighbor_allgather:
    case Pattern::neighbor_alltoall: bind_neighbors(call); break;
    case Pattern::reduce_scatter: bind_reduce_scatter(call); break;
    default: bind_reduction(call); break;
  }
  if (call.op && &working_type(call) != &reduced_type(call)) widen();
  if (s.regions.empty() && stage_ == Stage::none) return true;
  return place_regions();
}

void Frame::bind_bcast(const Call& c, int32_t me) {
  View& out = views_[buffer_out];
  out = View{};
  out.base = bytes(c.out);
  if (schedule->blocks == 1) {
    out.type = c.out_type;
    out.cut(c.out_count, 1);
    return;
  }
  // Cut into bytes, whatever the types of the ranks are.
  const uint64_t total = c.out_count * c.out_type->size;
  out.type = &byte_type();
  out.cut(total, schedule->blocks);
  if (c.out_type->contiguous) {
    out.base += c.out_type->origin;
  } else {
    stage_ = me == c.root ? Stage::bcast_root : Stage::bcast_leaf;
    stage_bytes_ = total;
  }
}

/// gather, scatter, allgather and their v forms.
void Frame::bind_data(const Call& c, int32_t me) {
  const bool scatters = pattern_of(c.what) == Pattern::scatter;
  View& in = views_[buffer_in];
  View& out = views_[buffer_out];
  in = out = View{};
  // The side with one block a rank, and the side with one block.
  View& many = scatters ? in : out;
  View& one = scatters ? out : in;
  const Counts counts = scatters ? c.in_counts : c.out_counts;
  const type::Datatype* many_type = scatters ? c.in_type : c.out_type;
  const bool all_known = pattern_of(c.what) == Pattern::allgather;
  const bool has_many = all_known || me == c.root;
  const bool in_place = c.in_place && has_many;
  if (has_many) {
    void* const base = scatters ? const_cast<void*>(c.in) : c.out;
    if (counts) {
      many = scattered(base, counts, scatters ? c.in_displs : c.out_displs, many_type, nullptr);
    } else {
      many.base = bytes(base);
      many.type = many_type;
      many.blocks = schedule->blocks;
      many.each = scatters ? c.in_count : c.out_count;
    }
  }
  if (in_place) {
    one = many;
  } else {
    one.base = scatters ? bytes(c.out) : bytes(c.in);
    one.type = scatters ? c.out_type : c.in_type;
    one.blocks = schedule->blocks;
    one.each = scatters ? c.out_count : c.in_count;
    one.single = true;
  }
  if (schedule->regions.empty()) return;
  if (counts && has_many) {
    sum(counts, nullptr, many_type->size);
    region_cut_.starts = starts_.data();
  } else {
    region_cut_.each = in_place ? many.each * many.type->size : one.each * one.type->size;
  }
}

void Frame::bind_alltoall(const Call& c) {
  View& in = views_[buffer_in];
  View& out = views_[buffer_out];
  in = out = View{};
  if (c.out_counts) {
    out = scattered(c.out, c.out_counts, c.out_displs, c.out_type, c.out_types);
    if (!c.in_place) in = scattered(const_cast<void*>(c.in), c.in_counts, c.in_displs, c.in_type, c.in_types);
  } else {
    out.base = bytes(c.out);
    out.type = c.out_type;
    out.blocks = schedule->blocks;
    out.each = c.out_count;
    if (!c.in_place) {
      in.base = bytes(c.in);
      in.type = c.in_type;
      in.blocks = schedule->blocks;
      in.each = c.in_count;
    }
    region_cut_.each = c.out_count * c.out_type->size;
  }
  if (!c.in_place) return;
  stage_ = Stage::alltoall;
  in.type = &byte_type();
  in.blocks = schedule->blocks;
  if (c.out_counts) {
    sum(c.out_counts, c.out_types, c.out_type ? c.out_type->size : 0);
    in.starts = starts_.data();
    stage_bytes_ = starts_.back();
  } else {
    in.each = region_cut_.each;
    stage_bytes_ = in.each * static_cast<uint64_t>(schedule->blocks);
  }
}

void Frame::bind_neighbors(const Call& c) {
  const auto dense = [this](void* base, const type::Datatype* type, uint64_t each) {
    View v;
    v.base = bytes(base);
    v.type = type;
    v.blocks = schedule->blocks;
    v.each = each;
    return v;
  };
  void* const in = const_cast<void*>(c.in);
  views_[buffer_in] = c.in_counts ? scattered(in, c.in_counts, c.in_displs, c.in_type, c.in_types) : dense(in, c.in_type, c.in_count);
  views_[buffer_out] =
      c.out_counts ? scattered(c.out, c.out_counts, c.out_displs, c.out_type, c.out_types) : dense(c.out, c.out_type, c.out_count);
}

void Frame::bind_reduction(const Call& c) {
  View v;
  v.type = &reduced_type(c);
  v.cut(reduced_count(c), schedule->blocks);
  views_[buffer_out] = views_[buffer_in] = region_cut_ = v;
  views_[buffer_out].base = bytes(c.out);
  views_[buffer_in].base = bytes(c.in_place ? c.out : c.in);
}

void Frame::bind_reduce_scatter(const Call& c) {
  View v;
  v.type = &reduced_type(c);
  v.blocks = schedule->blocks;
  if (c.out_counts) {
    sum(c.out_counts, nullptr, 1);
    v.starts = starts_.data();
  } else {
    v.each = c.out_count;
  }
  views_[buffer_out] = views_[buffer_in] = region_cut_ = v;
  views_[buffer_in].base = bytes(c.in_place ? c.out : c.in);
  views_[buffer_out].base = bytes(c.out);
  views_[buffer_out].single = true;
}

/// Puts staging memory of the wide type in the place of both buffers of a reduction.
void Frame::widen() {
  View& in = views_[buffer_in];
  View& out = views_[buffer_out];
  const type::Datatype& wide = working_type(call_);
  stage_ = Stage::wide;
  const uint64_t all = in.start(in.blocks);
  wide_in_ = call_.in_place || touches(*schedule, buffer_in, false) ? all : 0;
  wide_out_ = touches(*schedule, buffer_out, true) ? all : 0;
  if (wide_out_ && out.single) {
    wide_out_ = 0;
    for (const Step& step : schedule->steps)
      for (const Place& place : {step.a, step.b, step.c})
        if (place.buffer == buffer_out && step.blocks > 0) wide_out_ = std::max(wide_out_, out.elements(block_of(place, 0), step.blocks));
  }
  in.type = out.type = region_cut_.type = &wide;
  stage_bytes_ = align_up(all * wide.size) * (call_.in_place ? 1 : 2);
}

/// Lays regions and staging memory out in scratch memory.
bool Frame::place_regions() {
  const type::Datatype& t = *region_cut_.type;
  struct Piece {
    size_t at;
    int64_t offset;
  } pieces[kViews] = {};
  size_t total = align_up(stage_bytes_);
  const size_t n = schedule->regions.size();
  for (size_t i = 0; i < n; ++i) {
    const Region& r = schedule->regions[i];
    View& v = views_[first_region + i];
    v = region_cut_;
    v.first = r.first;
    v.single = r.single;
    uint64_t elements = 0;
    if (!r.single) {
      elements = v.elements(r.first, r.blocks);
    } else if (v.starts) {
      for (int32_t b = 0; b < v.blocks; ++b) elements = std::max(elements, v.elements(b, 1));
    } else {
      elements = v.elements(0, 1);
    }
    const type::Span span = type::span_of(t, elements);
    pieces[i] = {total, span.offset};
    total += align_up(span.length);
  }
  std::byte* const memory = scratch_.take(std::max<size_t>(total, kAlign));
  if (!memory) {
    fail(MPI_ERR_NO_MEM, "no memory for the %zu bytes that this collective works in", total);
    return false;
  }
  for (size_t i = 0; i < n; ++i) views_[first_region + i].base = memory + pieces[i].at - pieces[i].offset;
  if (stage_ == Stage::alltoall) views_[buffer_in].base = memory;
  if (stage_ == Stage::wide) {
    views_[buffer_in].base = memory;
    views_[buffer_out].base = call_.in_place ? memory : memory + stage_bytes_ / 2;
  }
  if (stage_ == Stage::bcast_root || stage_ == Stage::bcast_leaf) views_[buffer_out].base = memory;
  return true;
}

void Frame::prologue() {
  if (stage_ == Stage::bcast_root) {
    type::pack(*call_.out_type, call_.out_count, call_.out, views_[buffer_out].base);
  } else if (stage_ == Stage::alltoall) {
    const View& out = views_[buffer_out];
    for (int32_t b = 0; b < schedule->blocks; ++b) {
      const pml::Buffer from = out.at(b, 1);
      if (from.count > 0) type::pack(*from.type, from.count, from.address, views_[buffer_in].at(b, 1).address);
    }
  } else if (stage_ == Stage::wide && wide_in_ > 0) {
    coll::widen(call_, call_.in_place ? call_.out : call_.in, views_[buffer_in].base, wide_in_);
  }
}

void Frame::epilogue() {
  if (stage_ == Stage::wide && wide_out_ > 0) narrow(call_, views_[buffer_out].base, call_.out, wide_out_);
  if (stage_ == Stage::bcast_leaf) type::unpack(*call_.out_type, call_.out_count, views_[buffer_out].base, stage_bytes_, call_.out);
}

Frame::Wire Frame::wire(const Step& step, int32_t k) const {
  const Rank peer = wrap(step.peer + int64_t{k} * step.peer_stride, size_);
  if (step.blocks == 0) return {{nullptr, 0, &byte_type()}, peer, false};
  const pml::Buffer buffer = views_[step.a.buffer].at(block_of(step.a, k), step.blocks);
  return {buffer, peer, buffer.count * buffer.type->size == 0};
}

void Frame::local(const Step& step, int32_t k) const {
  const View& a = views_[step.a.buffer];
  const View& b = views_[step.b.buffer];
  const int32_t block_a = block_of(step.a, k), block_b = block_of(step.b, k);
  if (step.kind == StepKind::copy) {
    // Scattered blocks one by one.
    const bool apart = a.kind == View::Kind::scattered || b.kind == View::Kind::scattered;
    const int32_t n = apart ? 1 : step.blocks;
    for (int32_t i = 0; i < step.blocks; i += n) {
      const pml::Buffer from = a.at((block_a + i) % schedule->blocks, n), to = b.at((block_b + i) % schedule->blocks, n);
      if (from.count > 0 && to.count > 0) type::copy(*from.type, from.count, from.address, *to.type, to.count, to.address);
    }
    return;
  }
  const pml::Buffer left = a.at(block_a, step.blocks), right = b.at(block_b, step.blocks);
  if (left.count == 0) return;
  if (step.kind == StepKind::reduce) {
    op::apply(*op_, *left.type, left.address, right.address, left.count);
  } else {
    const pml::Buffer to = views_[step.c.buffer].at(block_of(step.c, k), step.blocks);
    op::apply3(*op_, *left.type, left.address, right.address, to.address, left.count);
  }
}

}  // namespace weft::coll
