// What collective parts have in common: one of the three modes, and the request of a persistent one.
#pragma once

#include "part.h"

namespace random_test {

class CollectivePart : public Part {
 public:
  explicit CollectivePart(const Draw& draw) : calls_(draw.calls()) {}
  void post(Pending& pending) override {
    MPI_Request request = persistent_;
    if (mode_ == Mode::persistent)
      ok(MPI_Start(&persistent_));
    else
      run(mode_, &request);
    if (mode_ != Mode::blocking) pending.add(request);
  }

 protected:
  /// Calls MPI in that mode; the request is left alone by blocking calls.
  virtual void run(Mode mode, MPI_Request* request) = 0;
  /// At the end of construction: makes the request of a persistent operation.
  void prepare() {
    if (mode_ != Mode::persistent) return;
    begin(0);
    run(mode_, &persistent_);
  }
  /// At destruction, while types and operations are still there.
  void free_request() {
    if (persistent_ != MPI_REQUEST_NULL) MPI_Request_free(&persistent_);
  }

  Mode mode_ = Mode::blocking;
  Rng calls_;

 private:
  MPI_Request persistent_ = MPI_REQUEST_NULL;
};

}  // namespace random_test
