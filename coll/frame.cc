#include "coll/frame.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "include/mpi.h"
#include "runtime/base/copy.h"
#include "runtime/base/error.h"
#include "runtime/config/config.h"
#include "runtime/op/exact.h"
#include "runtime/type/cursor.h"
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

pml::Buffer View::any_at(int32_t block, int32_t n) const {
  if (kind == Kind::scattered) {
    const auto i = static_cast<size_t>(block);
    if (!types) return one_of_many(i);
    return {base + (places ? places[i] : 0), static_cast<uint64_t>(counts[i]), types[i]};
  }
  const uint64_t count = elements(block, n);
  if (single) return {base, count, type};
  const uint64_t from = block >= first ? start(block) - start(first) : start(blocks) - start(first) + start(block);
  return {base + static_cast<int64_t>(from) * type->extent, count, type};
}

void Frame::keep_arrays(Call& c, int32_t length) {
  const auto ins = static_cast<size_t>(in_blocks(c, length)), outs = static_cast<size_t>(out_blocks(c, length));
  kept_.clear();
  if (c.in_counts || c.out_counts) kept_.reserve(2 * (ins + outs));
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
  if (c.in_types || c.out_types) kept_types_.reserve(ins + outs);
  const auto keep_types = [this](const type::Datatype* const*& array, size_t n) {
    if (!array) return;
    const size_t at = kept_types_.size();
    kept_types_.insert(kept_types_.end(), array, array + n);
    array = kept_types_.data() + at;
  };
  keep_types(c.in_types, ins);
  keep_types(c.out_types, outs);
}

void copy_data(const pml::Buffer& from, const pml::Buffer& to) {
  if (from.type == to.type && from.type->contiguous && from.count == to.count) {
    if (start_of(from) != start_of(to)) copy_few(start_of(to), start_of(from), from.count * from.type->size);
    return;
  }
  if ((from.address != to.address || from.type != to.type) && from.count > 0 && to.count > 0)
    type::copy(*from.type, from.count, from.address, *to.type, to.count, to.address);
}

void put_any_part(std::byte* slot, const pml::Buffer& from, uint64_t first, uint64_t n) {
  type::Cursor cursor(from.address, from.count, *from.type);
  cursor.seek(first);
  n = std::min(n, cursor.left());
  if (cursor.contiguous()) return copy_in<2048>(slot, cursor.data(), n);
  cursor.pack(slot, n);
}

void get_any_part(const pml::Buffer& to, uint64_t first, const std::byte* slot, uint64_t n) {
  type::Cursor cursor(to.address, to.count, *to.type);
  cursor.seek(first);
  n = std::min(n, cursor.left());
  cursor.unpack(slot, n);
}

void sum_up(std::vector<uint64_t>& starts, Counts counts, size_t n, const type::Datatype* const* types, uint64_t unit) {
  starts.resize(n + 1);
  starts[0] = 0;
  for (size_t i = 0; i < n; ++i) starts[i + 1] = starts[i] + static_cast<uint64_t>(counts[i]) * (types ? types[i]->size : unit);
}

void Frame::sum(Counts counts, const type::Datatype* const* types, uint64_t unit) {
  sum_up(starts_, counts, static_cast<size_t>(schedule->blocks), types, unit);
}

bool Frame::bind(const Schedule& s, const Call& call, Rank root, Rank me, int32_t size) {
  schedule = &s;
  call_ = &call;
  op_ = call.op;
  size_ = size;
  stage_ = Stage::none;
  stage_bytes_ = 0;
  if (!s.regions.empty()) region_cut_.lay(nullptr, &byte_type(), s.blocks, 0);
  switch (pattern_of(call.what)) {
    case Pattern::barrier: return true;
    case Pattern::bcast: bind_bcast(call, me == root); break;
    case Pattern::gather:
    case Pattern::scatter:
    case Pattern::allgather: bind_data(call, me == root); break;
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

void Frame::bind_bcast(const Call& c, bool root) {
  View& out = views_[buffer_out];
  if (schedule->blocks == 1) {
    out.lay(c.out, c.out_type, 1, c.out_count);
  } else if (const uint64_t total = c.out_count * c.out_type->size; c.out_type->contiguous) {
    // Cut into bytes, whatever the types of the ranks are.
    out.cut(bytes(c.out) + c.out_type->origin, &byte_type(), schedule->blocks, total);
  } else {
    out.cut(nullptr, &byte_type(), schedule->blocks, total);
    stage_ = root ? Stage::bcast_root : Stage::bcast_leaf;
    stage_bytes_ = total;
  }
}

/// gather, scatter, allgather and their v forms.
void Frame::bind_data(const Call& c, bool root) {
  const bool scatters = pattern_of(c.what) == Pattern::scatter;
  // The side with one block a rank, and the side with one block.
  View& many = views_[scatters ? buffer_in : buffer_out];
  View& one = views_[scatters ? buffer_out : buffer_in];
  const auto lay_many = scatters ? lay_in : lay_out;
  const int32_t blocks = schedule->blocks;
  const bool has_many = root || pattern_of(c.what) == Pattern::allgather;
  const bool in_place = c.in_place && has_many;
  if (has_many) lay_many(many, c, blocks);
  if (in_place) {
    lay_many(one, c, blocks);
  } else {
    one.lay(scatters ? c.out : c.in, scatters ? c.out_type : c.in_type, blocks, scatters ? c.out_count : c.in_count);
    one.single = true;
  }
  if (schedule->regions.empty()) return;
  if (const Counts counts = scatters ? c.in_counts : c.out_counts; counts && has_many) {
    sum(counts, nullptr, many.type->size);
    region_cut_.starts = starts_.data();
  } else {
    region_cut_.each = one.each * one.type->size;
  }
}

void Frame::bind_alltoall(const Call& c) {
  View& in = views_[buffer_in];
  const int32_t blocks = schedule->blocks;
  const uint64_t block = c.out_counts ? 0 : c.out_count * c.out_type->size;
  region_cut_.each = block;
  lay_out(views_[buffer_out], c, blocks);
  if (!c.in_place) return lay_in(in, c, blocks);
  stage_ = Stage::alltoall;
  in.lay(nullptr, &byte_type(), blocks, block);
  stage_bytes_ = block * static_cast<uint64_t>(blocks);
  if (!c.out_counts) return;
  sum(c.out_counts, c.out_types, c.out_type ? c.out_type->size : 0);
  in.starts = starts_.data();
  stage_bytes_ = starts_.back();
}

void Frame::bind_neighbors(const Call& c) {
  lay_in(views_[buffer_in], c, schedule->blocks);
  lay_out(views_[buffer_out], c, schedule->blocks);
}

void Frame::bind_reduction(const Call& c) {
  const type::Datatype* const type = &reduced_type(c);
  const uint64_t count = reduced_count(c);
  views_[buffer_in].cut(c.in_place ? c.out : c.in, type, schedule->blocks, count);
  views_[buffer_out].cut(c.out, type, schedule->blocks, count);
  region_cut_.cut(nullptr, type, schedule->blocks, count);
}

void Frame::bind_reduce_scatter(const Call& c) {
  if (c.out_counts) sum(c.out_counts, nullptr, 1);
  const auto lay = [&](View& v, const void* base) {
    v.lay(base, &reduced_type(c), schedule->blocks, c.out_count);
    if (c.out_counts) v.starts = starts_.data();
  };
  lay(views_[buffer_in], c.in_place ? c.out : c.in);
  lay(views_[buffer_out], c.out);
  lay(region_cut_, nullptr);
  views_[buffer_out].single = true;
}

/// Puts staging memory of the wide type in the place of both buffers of a reduction.
void Frame::widen() {
  View& in = views_[buffer_in];
  View& out = views_[buffer_out];
  const type::Datatype& wide = working_type(*call_);
  stage_ = Stage::wide;
  const uint64_t all = in.start(in.blocks);
  wide_in_ = call_->in_place || touches(*schedule, buffer_in, false) ? all : 0;
  wide_out_ = touches(*schedule, buffer_out, true) ? all : 0;
  if (wide_out_ && out.single) {
    wide_out_ = 0;
    for (const Step& step : schedule->steps)
      for (const Place& place : {step.a, step.b, step.c})
        if (place.buffer == buffer_out && step.blocks > 0) wide_out_ = std::max(wide_out_, out.elements(block_of(place, 0), step.blocks));
  }
  in.type = out.type = region_cut_.type = &wide;
  stage_bytes_ = align_up(all * wide.size) * (call_->in_place ? 1 : 2);
}

/// Lays regions and staging memory out in scratch memory.
bool Frame::place_regions() {
  struct Piece {
    size_t at;
    int64_t offset;
  } pieces[kViews] = {};
  size_t total = align_up(stage_bytes_);
  const size_t n = schedule->regions.size();
  for (size_t i = 0; i < n; ++i) {
    const Region& r = schedule->regions[i];
    View& v = views_[first_region + i];
    v.lay(nullptr, region_cut_.type, region_cut_.blocks, region_cut_.each);
    v.longer = region_cut_.longer;
    v.starts = region_cut_.starts;
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
    const type::Span span = type::span_of(*v.type, elements);
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
    views_[buffer_out].base = call_->in_place ? memory : memory + stage_bytes_ / 2;
  }
  if (stage_ == Stage::bcast_root || stage_ == Stage::bcast_leaf) views_[buffer_out].base = memory;
  return true;
}

void Frame::prologue() {
  if (stage_ == Stage::bcast_root) {
    type::pack(*call_->out_type, call_->out_count, call_->out, views_[buffer_out].base);
  } else if (stage_ == Stage::alltoall) {
    const View& out = views_[buffer_out];
    for (int32_t b = 0; b < schedule->blocks; ++b) {
      const pml::Buffer from = out.at(b, 1);
      if (from.count > 0) type::pack(*from.type, from.count, from.address, views_[buffer_in].at(b, 1).address);
    }
  } else if (stage_ == Stage::wide && wide_in_ > 0) {
    coll::widen(*call_, call_->in_place ? call_->out : call_->in, views_[buffer_in].base, wide_in_);
  }
}

void Frame::epilogue() {
  if (stage_ == Stage::wide && wide_out_ > 0) narrow(*call_, views_[buffer_out].base, call_->out, wide_out_);
  if (stage_ == Stage::bcast_leaf) type::unpack(*call_->out_type, call_->out_count, views_[buffer_out].base, stage_bytes_, call_->out);
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
