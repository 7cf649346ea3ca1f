#include <sched.h>

#include "part.h"

namespace random_test {

namespace {

/// Fails with the error of the request that failed, if one of several did.
void all_ok(int code, const std::vector<MPI_Status>& statuses, std::source_location where = std::source_location::current()) {
  for (size_t i = 0; code == MPI_ERR_IN_STATUS && i < statuses.size(); ++i) {
    if (statuses[i].MPI_ERROR != MPI_ERR_PENDING) ok(statuses[i].MPI_ERROR, where);
  }
  ok(code, where);
}

}  // namespace

void Pending::add(MPI_Request request, Done done) {
  requests_.push_back(request);
  done_.push_back(std::move(done));
  ++left_;
}

void Pending::finished(size_t i, const MPI_Status& status) {
  if (done_[i]) done_[i](status);
  --left_;
}

void Pending::wait_all() {
  std::vector<MPI_Status> statuses(requests_.size(), MPI_Status{});
  all_ok(MPI_Waitall(int(requests_.size()), requests_.data(), statuses.data()), statuses);
  for (size_t i = 0; i < requests_.size(); ++i) finished(i, statuses[i]);
}

void Pending::wait_each(Rng& rng) {
  std::vector<size_t> order(requests_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  rng.shuffle(order);
  for (size_t i : order) {
    MPI_Status status;
    ok(MPI_Wait(&requests_[i], &status));
    finished(i, status);
  }
}

void Pending::wait_any() {
  while (left_ > 0) {
    int i = MPI_UNDEFINED;
    MPI_Status status;
    ok(MPI_Waitany(int(requests_.size()), requests_.data(), &i, &status));
    if (i == MPI_UNDEFINED) throw Failure("MPI_Waitany finds no active request, but " + std::to_string(left_) + " are not complete");
    finished(size_t(i), status);
  }
}

void Pending::wait_some() {
  std::vector<int> which(requests_.size());
  std::vector<MPI_Status> statuses(requests_.size(), MPI_Status{});
  while (left_ > 0) {
    int n = 0;
    all_ok(MPI_Waitsome(int(requests_.size()), requests_.data(), &n, which.data(), statuses.data()), statuses);
    if (n == MPI_UNDEFINED) throw Failure("MPI_Waitsome finds no active request, but " + std::to_string(left_) + " are not complete");
    for (size_t k = 0; k < size_t(n); ++k) finished(size_t(which[k]), statuses[k]);
  }
}

void Pending::test_all() {
  std::vector<MPI_Status> statuses(requests_.size(), MPI_Status{});
  for (int flag = 0; !flag; sched_yield()) all_ok(MPI_Testall(int(requests_.size()), requests_.data(), &flag, statuses.data()), statuses);
  for (size_t i = 0; i < requests_.size(); ++i) finished(i, statuses[i]);
}

void Pending::test_each(Rng& rng) {
  std::vector<size_t> open(requests_.size());
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  while (!open.empty()) {
    const size_t k = size_t(rng.below(int64_t(open.size())));
    int flag = 0;
    MPI_Status status;
    ok(MPI_Test(&requests_[open[k]], &flag, &status));
    if (flag) {
      finished(open[k], status);
      open.erase(open.begin() + std::ptrdiff_t(k));
    } else {
      sched_yield();
    }
  }
}

void Pending::test_any() {
  while (left_ > 0) {
    int i = MPI_UNDEFINED, flag = 0;
    MPI_Status status;
    ok(MPI_Testany(int(requests_.size()), requests_.data(), &i, &flag, &status));
    if (flag && i == MPI_UNDEFINED)
      throw Failure("MPI_Testany finds no active request, but " + std::to_string(left_) + " are not complete");
    if (flag)
      finished(size_t(i), status);
    else
      sched_yield();
  }
}

void Pending::test_some() {
  std::vector<int> which(requests_.size());
  std::vector<MPI_Status> statuses(requests_.size(), MPI_Status{});
  while (left_ > 0) {
    int n = 0;
    all_ok(MPI_Testsome(int(requests_.size()), requests_.data(), &n, which.data(), statuses.data()), statuses);
    if (n == MPI_UNDEFINED) throw Failure("MPI_Testsome finds no active request, but " + std::to_string(left_) + " are not complete");
    for (size_t k = 0; k < size_t(n); ++k) finished(size_t(which[k]), statuses[k]);
    if (n == 0) sched_yield();
  }
}

/// Looks at requests without freeing them, then waits for what is complete.
void Pending::look_each(Rng& rng) {
  const size_t first = size_t(rng.below(int64_t(requests_.size())));
  for (size_t k = 0; k < requests_.size(); ++k) {
    const size_t i = (first + k) % requests_.size();
    MPI_Status seen, status;
    for (int flag = 0; !flag; sched_yield()) ok(MPI_Request_get_status(requests_[i], &flag, &seen));
    int flag = 0;
    ok(MPI_Test(&requests_[i], &flag, &status));
    same(flag, 1, "MPI_Test's flag after MPI_Request_get_status said that the request is complete");
    finished(i, status);
  }
}

/// Each thread waits for some of the requests, whoever started them.
void Pending::wait_in_threads(Rng& rng) {
  const size_t threads = size_t(rng.between(2, 3));
  std::vector<MPI_Status> statuses(requests_.size(), MPI_Status{});
  in_threads(int(threads), [&](int thread) {
    for (size_t i = size_t(thread); i < requests_.size(); i += threads) ok(MPI_Wait(&requests_[i], &statuses[i]));
  });
  for (size_t i = 0; i < requests_.size(); ++i) finished(i, statuses[i]);
}

void Pending::complete(Rng& rng) {
  const int64_t how = rng.below(threads_ ? 11 : 9);
  if (requests_.empty()) return;
  switch (how) {
    case 0: wait_all(); break;
    case 1: wait_each(rng); break;
    case 2: wait_any(); break;
    case 3: wait_some(); break;
    case 4: test_all(); break;
    case 5: test_each(rng); break;
    case 6: test_any(); break;
    case 7: test_some(); break;
    case 8: look_each(rng); break;
    default: wait_in_threads(rng); break;
  }
  requests_.clear();
  done_.clear();
}

}  // namespace random_test
