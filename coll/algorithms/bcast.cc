#include <algorithm>
#include <vector>

#include "coll/algorithms/algorithms.h"
#include "coll/algorithms/tree.h"
#include "coll/hosts.h"

namespace weft::coll {

Schedule pipeline(Rank parent, const std::vector<Rank>& children, int32_t segments) {
  Builder b(segments);
  auto pass_on = [&](int32_t block, int32_t stride) {
    for (Rank child : children) b.send(child, {buffer_out, block, stride});
  };
  if (parent < 0) {
    b.begin_loop();
    pass_on(0, 1);
    b.end_loop(segments);
  } else if (children.empty()) {
    b.begin_loop().receive(parent, {buffer_out, 0, 1}).end_loop(segments);
  } else {
    b.receive(parent, {buffer_out, 0}).next();
    b.begin_loop().receive(parent, {buffer_out, 1, 1});
    pass_on(0, 1);
    b.end_loop(segments - 1);
    pass_on(segments - 1, 0);
  }
  return b.done();
}

/// ceil(log2 p) rounds of whole messages, the largest subtree served first.
Schedule bcast_binomial(const Topology&, Rank me, int32_t size, const Parameters& p) {
  const Kin kin = Kin::binomial(me, size, p.root);
  return pipeline(kin.parent, kin.children, 1);
}

/// ceil(log4 p) rounds of up to three messages: short data, where a message takes much longer than it keeps a processor busy.
Schedule bcast_knomial_4(const Topology&, Rank me, int32_t size, const Parameters& p) {
  const Kin kin = Kin::knomial<4>(me, size, p.root);
  return pipeline(kin.parent, kin.children, 1);
}

/// Binomial scatter, then ring allgather: each rank sends and receives about twice the data, whatever p is (van de Geijn).
/// Blocks are numbered from the root on.
Schedule bcast_scatter_allgather(const Topology&, Rank me, int32_t size, const Parameters& p) {
  Builder b(size);
  const int32_t self = wrap(me - p.root, size);
  const Kin kin = Kin::binomial(me, size, p.root);
  b.receive(kin.parent, {buffer_out, self}, Kin::below(self, size)).next();
  for (const Rank child : kin.children) {
    const int32_t theirs = wrap(child - p.root, size);
    b.send(child, {buffer_out, theirs}, Kin::below(theirs, size));
  }
  b.begin_loop();
  b.receive(wrap(me - 1, size), {buffer_out, wrap(self - 1, size), -1}).send(wrap(me + 1, size), {buffer_out, self, -1});
  b.end_loop(size - 1);
  return b.done();
}

/// A pipeline from rank to rank, which enters each host and switch once: best for long data on few ranks.
Schedule bcast_chain(const Topology& topology, Rank me, int32_t size, const Parameters& p) {
  const Kin kin = topology.hosts ? Kin::chain(tour(topology.hosts, size, p.root), me) : Kin::complete<1>(me, size, p.root);
  return pipeline(kin.parent, kin.children, p.segments);
}

/// A pipeline down a complete binary tree: long data on many ranks.
Schedule bcast_binary_tree(const Topology&, Rank me, int32_t size, const Parameters& p) {
  const Kin kin = Kin::complete<2>(me, size, p.root);
  return pipeline(kin.parent, kin.children, p.segments);
}

}  // namespace weft::coll
