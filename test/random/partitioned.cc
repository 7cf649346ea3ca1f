// Partitioned messages: each side divides the data in its own way; partitions become ready, and are asked for, in any order.
#include <sched.h>

#include <numeric>

#include "part.h"

namespace random_test {

namespace {

struct Message {
  int side;  ///< the source's
  int source, dest, tag;
  int64_t units;       ///< in all
  int sent, received;  ///< partitions, either of which divides the units
};

/// One end of a message.
struct End {
  size_t message;
  int partitions;
  Layout layout;
  Area area;
  MPI_Request request = MPI_REQUEST_NULL;
};

class Partitioned : public Part {
 public:
  explicit Partitioned(const Draw& draw);
  ~Partitioned() override;
  std::string text() const override;
  void begin(int round) override;
  void post(Pending& pending) override;
  void send(Pending& pending) override;
  void take(Pending& pending) override;
  void check() override;

 private:
  void draw_message(Rng& rng);
  End make(size_t message, int partitions, Rng& rng);
  MPI_Count count(const End& end) const { return messages_[end.message].units / end.partitions * unit_ / end.layout.patterns; }
  void make_ready(const End& end, Rng& rng);
  uint64_t key(size_t message) const { return mix(mix(draw_.seed, uint64_t(round_)), 50 + message); }

  Draw draw_;
  Pattern pattern_;
  int64_t unit_ = 1;
  std::vector<Message> messages_;
  std::vector<End> outs_, ins_;
  int round_ = 0;
};

Partitioned::Partitioned(const Draw& draw) : draw_(draw) {
  Rng rng = draw.shared(), local = draw.local();
  pattern_ = draw_pattern(rng);
  unit_ = draw_unit(rng);
  for (int64_t i = rng.between(1, 1 + draw.comm.size_of(0)); i > 0; --i) draw_message(rng);
  for (size_t i = 0; i < messages_.size(); ++i) {
    const Message& m = messages_[i];
    if (m.side != draw.comm.side || m.source != draw.comm.rank) continue;
    outs_.push_back(make(i, m.sent, local));
    End& end = outs_.back();
    ok(MPI_Psend_init(end.area.base(), m.sent, count(end), end.layout.type, m.dest, m.tag, draw.comm.handle, MPI_INFO_NULL, &end.request));
  }
  for (size_t i = 0; i < messages_.size(); ++i) {  // those of one source and tag match in order
    const Message& m = messages_[i];
    if (draw.comm.other(m.side) != draw.comm.side || m.dest != draw.comm.rank) continue;
    ins_.push_back(make(i, m.received, local));
    End& end = ins_.back();
    ok(MPI_Precv_init(end.area.base(), m.received, count(end), end.layout.type, m.source, m.tag, draw.comm.handle, MPI_INFO_NULL,
                      &end.request));
  }
}

Partitioned::~Partitioned() {
  for (std::vector<End>* ends : {&outs_, &ins_}) {
    for (End& end : *ends) MPI_Request_free(&end.request);
  }
}

void Partitioned::draw_message(Rng& rng) {
  static const std::vector<int> partitions = {1, 1, 2, 3, 4, 8, 20};
  Message m{};
  m.side = int(rng.below(draw_.comm.sides()));
  m.source = int(rng.below(draw_.comm.size_of(m.side)));
  m.dest = int(rng.below(draw_.comm.size_of(draw_.comm.other(m.side))));
  m.tag = draw_.tag + int(rng.below(2));
  m.sent = rng.pick(partitions);
  m.received = rng.pick(partitions);
  const int64_t both = std::lcm(m.sent, m.received);
  m.units = both * draw_units(rng, pattern_.bytes() * unit_ * both, 300000);
  messages_.push_back(m);
}

End Partitioned::make(size_t message, int partitions, Rng& rng) {
  End end{message, partitions, draw_layout(rng, pattern_, unit_), {}};
  end.area.reserve(end.layout, 0, partitions * count(end));
  end.area.open(0);
  return end;
}

std::string Partitioned::text() const {
  std::string all = "partitioned " + pattern_.text() + " x" + std::to_string(unit_);
  for (const Message& m : messages_) {
    all += "; " + std::to_string(m.units) + " from " + std::string(m.side ? "side 1's " : "") + std::to_string(m.source) + " in " +
           std::to_string(m.sent) + " to " + std::to_string(m.dest) + " in " + std::to_string(m.received);
  }
  return all;
}

void Partitioned::begin(int round) {
  round_ = round;
  for (End& end : outs_) {
    end.area.open(key(end.message));
    end.area.fill(end.layout, 0, end.partitions * count(end), Content{key(end.message)});
  }
  for (End& end : ins_) end.area.open(mix(draw_.seed, uint64_t(round)));
}

void Partitioned::post(Pending& pending) {
  for (std::vector<End>* ends : {&outs_, &ins_}) {
    for (End& end : *ends) {
      ok(MPI_Start(&end.request));
      pending.add(end.request);
    }
  }
}

/// One by one in any order, also by several threads, by ranges, or by a list.
void Partitioned::make_ready(const End& end, Rng& rng) {
  std::vector<int> order(size_t(end.partitions));
  std::iota(order.begin(), order.end(), 0);
  const int64_t how = rng.below(draw_.alone ? 3 : 5);
  if (how == 0) {
    for (int first = 0; first < end.partitions;) {
      const int last = int(rng.between(first, end.partitions - 1));
      ok(MPI_Pready_range(first, last, end.request));
      first = last + 1;
    }
    return;
  }
  rng.shuffle(order);
  if (how == 1) return ok(MPI_Pready_list(end.partitions, order.data(), end.request));
  const size_t threads = how == 2 ? 1 : size_t(rng.between(2, 4));
  in_threads(int(threads), [&](int thread) {
    for (size_t i = size_t(thread); i < order.size(); i += threads) ok(MPI_Pready(order[i], end.request));
  });
}

void Partitioned::send(Pending&) {
  Rng rng(mix(draw_.seed, mix(uint64_t(round_), uint64_t(draw_.comm.rank))));
  for (const End& end : outs_) make_ready(end, rng);
}

/// Waits for some partitions of some receives, which must be there when MPI says so.
void Partitioned::take(Pending&) {
  Rng rng(mix(draw_.seed, mix(uint64_t(round_), 100 + uint64_t(draw_.comm.rank))));
  for (End& end : ins_) {
    if (rng.chance(50)) continue;
    const int partition = int(rng.below(end.partitions));
    for (int flag = 0; !flag; sched_yield()) ok(MPI_Parrived(end.request, partition, &flag));
  }
}

void Partitioned::check() {
  for (End& end : ins_) {
    end.area.expect(end.layout, 0, end.partitions * count(end), Content{key(end.message)});
    end.area.check("partitioned message from " + std::to_string(messages_[end.message].source) + " received as " + end.layout.text);
  }
  for (const End& end : outs_) end.area.check("send buffer");
}

}  // namespace

std::unique_ptr<Part> draw_partitioned(const Draw& draw) { return std::make_unique<Partitioned>(draw); }

}  // namespace random_test
