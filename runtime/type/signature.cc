#include "runtime/type/signature.h"

#include <algorithm>

namespace weft::type {
namespace {

constexpr uint32_t kMaxSignatureDepth = 1024;
constexpr size_t kSpliceParts = 64;

void add(Signature& to, const SignaturePtr& part) {
  if (!to.children.empty()) {
    const Signature& last = *to.children.back();
    if (last.shape == Signature::Shape::run && part->shape == Signature::Shape::run && last.element == part->element) {
      const uint64_t joined = last.count + part->count;
      to.size += part->size;
      to.children.back() = Signature::run(part->element, joined);
      return;
    }
  }
  to.starts.push_back(to.size);
  to.children.push_back(part);
  to.size += part->size;
}

/// Adds every run of a nest that is too deep to be kept as it is.
void add_flat(Signature& to, const SignaturePtr& part) {
  auto visit = [&](Element element, uint64_t n) {
    add(to, Signature::run(element, n));
    return true;
  };
  part->each(visit);
}

SignaturePtr finish(std::shared_ptr<Signature> made) {
  if (made->children.empty()) return nullptr;
  if (made->children.size() == 1) return made->children[0];
  const auto& first = made->children[0];
  if (std::all_of(made->children.begin(), made->children.end(), [&](auto& c) { return c == first; }))
    return Signature::repeat(made->children.size(), first);
  for (const auto& child : made->children) {
    made->elements += child->elements;
    made->external_size += child->external_size;
    made->depth = std::max(made->depth, child->depth + 1);
  }
  return made;
}

}  // namespace

SignaturePtr Signature::run(Element element, uint64_t count) {
  if (!count) return nullptr;
  auto made = std::make_shared<Signature>();
  made->element = element;
  made->count = made->elements = count;
  made->size = count * element.size;
  made->external_size = count * element.external;
  return made;
}

SignaturePtr Signature::repeat(uint64_t count, const SignaturePtr& child) {
  if (!count || !child) return nullptr;
  if (count == 1) return child;
  if (child->shape == Shape::run) return run(child->element, child->count * count);
  auto made = std::make_shared<Signature>();
  made->shape = Shape::repeat;
  made->count = child->shape == Shape::repeat ? count * child->count : count;
  made->child = child->shape == Shape::repeat ? child->child : child;
  made->depth = made->child->depth + 1;
  made->size = child->size * count;
  made->external_size = child->external_size * count;
  made->elements = child->elements * count;
  return made;
}

SignaturePtr Signature::sequence(const std::vector<std::pair<uint64_t, SignaturePtr>>& parts) {
  auto made = std::make_shared<Signature>();
  made->shape = Shape::sequence;
  for (const auto& [count, child] : parts) {
    const auto part = repeat(count, child);
    if (!part) continue;
    if (part->depth >= kMaxSignatureDepth) {
      add_flat(*made, part);
    } else if (part->shape == Shape::sequence && part->children.size() <= kSpliceParts) {
      for (const auto& inner : part->children) add(*made, inner);
    } else {
      add(*made, part);
    }
  }
  return finish(std::move(made));
}

uint64_t Signature::elements_in(uint64_t bytes, uint64_t& rest) const {
  uint64_t found = 0;
  const Signature* at = this;
  for (;;) {
    if (at->shape == Shape::run) {
      rest = bytes % at->element.size;
      return found + bytes / at->element.size;
    }
    if (at->shape == Shape::repeat) {
      found += bytes / at->child->size * at->child->elements;
      bytes %= at->child->size;
      at = at->child.get();
    } else {
      const size_t i = static_cast<size_t>(std::upper_bound(at->starts.begin(), at->starts.end(), bytes) - at->starts.begin()) - 1;
      for (size_t k = 0; k < i; ++k) found += at->children[k]->elements;
      bytes -= at->starts[i];
      at = at->children[i].get();
    }
  }
}

uint64_t Signature::bytes_of(uint64_t n) const {
  uint64_t bytes = 0;
  const Signature* at = this;
  for (;;) {
    if (at->shape == Shape::run) return bytes + n * at->element.size;
    if (at->shape == Shape::repeat) {
      bytes += n / at->child->elements * at->child->size;
      n %= at->child->elements;
      at = at->child.get();
      continue;
    }
    size_t i = 0;
    while (i + 1 < at->children.size() && n >= at->children[i]->elements) {
      n -= at->children[i]->elements;
      bytes += at->children[i++]->size;
    }
    at = at->children[i].get();
  }
}

}  // namespace weft::type
