// Several threads of each rank on one communicator: some send, others receive whatever comes, by each way to receive.
#include <sched.h>

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <thread>

#include "part.h"

namespace random_test {

void in_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::exception_ptr> failures(static_cast<size_t>(count));
  const auto guarded = [&](int i) {
    try {
      work(i);
    } catch (...) {
      failures[size_t(i)] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < count; ++i) threads.emplace_back(guarded, i);
  guarded(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

namespace {

/// Its number comes first in its data, then a pure function of that.
struct Message {
  int side;  ///< the source's
  int source, dest, sender, tag;
  int64_t words;
};

/// A number that no message has, which receive buffers are filled with.
constexpr uint64_t nothing = ~uint64_t(0);

class Crowd : public Part {
 public:
  explicit Crowd(const Draw& draw);
  std::string text() const override;
  void begin(int round) override { round_ = round; }
  void send(Pending& pending) override;
  void check() override;
  bool fence() const override { return true; }

 private:
  bool to_me(const Message& m) const { return draw_.comm.other(m.side) == draw_.comm.side && m.dest == draw_.comm.rank; }
  bool from_me(const Message& m) const { return m.side == draw_.comm.side && m.source == draw_.comm.rank; }
  std::vector<uint64_t> content(size_t number) const;
  Rng thread_rng(int thread) const { return Rng(mix(mix(draw_.seed, uint64_t(round_)), uint64_t(draw_.comm.rank * 100 + thread))); }
  void send_some(int sender);
  void receive_some(int receiver);
  MPI_Status receive_one(std::vector<uint64_t>& words, Rng& rng);
  void received(const std::vector<uint64_t>& words, const MPI_Status& status, Rng& rng, std::vector<int64_t>& last);

  Draw draw_;
  int senders_ = 1, receivers_ = 1;
  int64_t most_ = 1;
  std::vector<Message> messages_;
  std::mutex mutex_;
  std::vector<int> seen_;  ///< how often each message came here; under the mutex
  int round_ = 0;
};

Crowd::Crowd(const Draw& draw) : draw_(draw) {
  Rng rng = draw.shared();
  senders_ = int(rng.between(1, 3));
  receivers_ = int(rng.between(1, 3));
  const int64_t tags = rng.between(1, 3);
  for (int64_t i = rng.between(1, 10 * draw.comm.size_of(0)); i > 0; --i) {
    Message m{};
    m.side = int(rng.below(draw.comm.sides()));
    m.source = int(rng.below(draw.comm.size_of(m.side)));
    m.dest = int(rng.below(draw.comm.size_of(draw.comm.other(m.side))));
    m.sender = int(rng.below(senders_));
    m.tag = draw.tag + int(rng.below(tags));
    m.words = 1 + draw_units(rng, 8, 200000);
    most_ = std::max(most_, m.words);
    messages_.push_back(m);
  }
}

std::string Crowd::text() const {
  return std::to_string(messages_.size()) + " messages of up to " + std::to_string(most_) + " words from " + std::to_string(senders_) +
         " threads to " + std::to_string(receivers_) + " threads of each rank";
}

std::vector<uint64_t> Crowd::content(size_t number) const {
  std::vector<uint64_t> words(size_t(messages_[number].words));
  for (size_t i = 1; i < words.size(); ++i) words[i] = mix(mix(draw_.seed, number), i);
  words[0] = number;
  return words;
}

void Crowd::send_some(int sender) {
  Rng rng = thread_rng(sender);
  std::vector<std::vector<uint64_t>> data;
  std::vector<MPI_Request> requests;
  for (size_t i = 0; i < messages_.size(); ++i) {
    const Message& m = messages_[i];
    if (m.sender != sender || !from_me(m)) continue;
    const std::array blocking{BOTH(MPI_Send), BOTH(MPI_Ssend)};
    const std::array immediate{BOTH(MPI_Isend), BOTH(MPI_Issend)};
    const size_t kind = size_t(rng.below(2));
    data.push_back(content(i));
    const uint64_t* const words = data.back().data();
    if (rng.chance(50)) {
      ok(blocking[kind](rng, words, m.words, MPI_UINT64_T, m.dest, m.tag, draw_.comm.handle));
    } else {
      requests.emplace_back();
      ok(immediate[kind](rng, words, m.words, MPI_UINT64_T, m.dest, m.tag, draw_.comm.handle, &requests.back()));
    }
  }
  ok(MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
}

/// Takes any message, in a way drawn at random.
MPI_Status Crowd::receive_one(std::vector<uint64_t>& words, Rng& rng) {
  const MPI_Comm comm = draw_.comm.handle;
  const int64_t how = rng.below(5);
  MPI_Status status;
  MPI_Request request;
  MPI_Message message = MPI_MESSAGE_NULL;
  if (how == 0) {
    ok(BOTH(MPI_Recv)(rng, words.data(), most_, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
    return status;
  }
  if (how == 1) {
    ok(BOTH(MPI_Irecv)(rng, words.data(), most_, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request));
    for (int flag = 0; !flag; sched_yield()) ok(MPI_Test(&request, &flag, &status));
    return status;
  }
  if (how == 2) ok(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, &status));
  for (int flag = 0; how > 2 && !flag; sched_yield()) ok(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &message, &status));
  const int64_t count = count_of(rng, status, MPI_UINT64_T);
  if (how == 4) {
    ok(BOTH(MPI_Imrecv)(rng, words.data(), count, MPI_UINT64_T, &message, &request));
    ok(MPI_Wait(&request, &status));
  } else {
    ok(BOTH(MPI_Mrecv)(rng, words.data(), count, MPI_UINT64_T, &message, &status));
  }
  return status;
}

void Crowd::received(const std::vector<uint64_t>& words, const MPI_Status& status, Rng& rng, std::vector<int64_t>& last) {
  const size_t number = size_t(words[0]);
  if (number >= messages_.size()) throw Failure("a message that nobody sent: " + std::to_string(number));
  const Message& m = messages_[number];
  const std::string what = "message " + std::to_string(number) + " from rank " + std::to_string(m.source);
  if (!to_me(m)) throw Failure(what + " is for rank " + std::to_string(m.dest));
  same(status.MPI_SOURCE, m.source, "source of " + what);
  same(status.MPI_TAG, m.tag, "tag of " + what);
  same(count_of(rng, status, MPI_UINT64_T), m.words, "count of " + what);
  const std::vector<uint64_t> expected = content(number);
  same(std::equal(expected.begin(), expected.end(), words.begin()), true, "whether all words are right of " + what);
  same(size_t(m.words) == words.size() || words[size_t(m.words)] == nothing, true, "whether nothing is written behind " + what);
  int64_t& before = last[size_t((m.source * 2 + m.side) * senders_ + m.sender)];
  if (receivers_ == 1) same(before < int64_t(number), true, "whether messages of one thread come in order, at " + what);
  before = int64_t(number);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++seen_[number];
}

void Crowd::receive_some(int receiver) {
  Rng rng = thread_rng(50 + receiver);
  std::vector<int64_t> last(size_t(2 * senders_ * std::max(draw_.comm.size_of(0), draw_.comm.size_of(draw_.comm.sides() - 1))), -1);
  int mine = 0;
  for (const Message& m : messages_) mine += to_me(m);
  for (int i = receiver; i < mine; i += receivers_) {
    std::vector<uint64_t> words(size_t(most_), nothing);
    const MPI_Status status = receive_one(words, rng);
    received(words, status, rng, last);
  }
}

void Crowd::send(Pending&) {
  seen_.assign(messages_.size(), 0);
  in_threads(senders_ + receivers_, [&](int i) { i < senders_ ? send_some(i) : receive_some(i - senders_); });
}

void Crowd::check() {
  for (size_t i = 0; i < messages_.size(); ++i)
    same(seen_[i], to_me(messages_[i]), "number of times that message " + std::to_string(i) + " came");
}

}  // namespace

std::unique_ptr<Part> draw_crowd(const Draw& draw) { return std::make_unique<Crowd>(draw); }

}  // namespace random_test
