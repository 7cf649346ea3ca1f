// Trains a small network on handwritten digits, data-parallel: each rank computes the gradient of its share of a batch,
// MPI_Allreduce sums the shares. The result does not depend on the number of ranks but for rounding.
//
//   mpirun -n 4 train digits.csv                  synchronous
//   mpirun -n 4 train digits.csv --stale 2        asynchronous: up to 2 gradient sums in flight (MPI_Iallreduce)
//   mpirun -n 4 train digits.csv --losses out.txt    writes one loss an epoch
//
// digits.csv: 1,797 lines of 64 pixels (0..16) and the digit, as in the UCI set "Optical Recognition of Handwritten Digits".
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iomanip>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kPixels = 64, kHidden = 48, kDigits = 10;
constexpr int kTestShare = 5;  // every fifth sample is for testing

struct Options {
  std::string data, losses;
  int epochs = 40, batch = 120, stale = 0;
  double rate = 0.3, momentum = 0.8;
  bool quiet = false;
};

struct Sample {
  float pixels[kPixels];
  int digit;
};

/// All parameters in one run of memory, so that one Allreduce sums all gradients.
struct Network {
  static constexpr int kW1 = 0, kB1 = kW1 + kPixels * kHidden, kW2 = kB1 + kHidden, kB2 = kW2 + kHidden * kDigits, kSize = kB2 + kDigits;
  std::vector<double> p = std::vector<double>(kSize);

  void randomise() {
    std::mt19937 random(1234);
    std::normal_distribution<double> normal;
    for (int i = kW1; i < kB1; ++i) p[i] = normal(random) * std::sqrt(2.0 / kPixels);
    for (int i = kW2; i < kB2; ++i) p[i] = normal(random) * std::sqrt(2.0 / kHidden);
  }

  /// Fills hidden and probabilities; returns the cross-entropy loss.
  double forward(const Sample& s, double* hidden, double* probability) const {
    for (int h = 0; h < kHidden; ++h) {
      double sum = p[kB1 + h];
      for (int i = 0; i < kPixels; ++i) sum += p[kW1 + h * kPixels + i] * s.pixels[i];
      hidden[h] = std::max(0.0, sum);
    }
    double highest = -1e300, total = 0;
    for (int d = 0; d < kDigits; ++d) {
      double sum = p[kB2 + d];
      for (int h = 0; h < kHidden; ++h) sum += p[kW2 + d * kHidden + h] * hidden[h];
      probability[d] = sum;
      highest = std::max(highest, sum);
    }
    for (int d = 0; d < kDigits; ++d) total += probability[d] = std::exp(probability[d] - highest);
    for (int d = 0; d < kDigits; ++d) probability[d] /= total;
    return -std::log(std::max(probability[s.digit], 1e-300));
  }

  /// Adds this sample's gradient to `gradient`; returns its loss.
  double backward(const Sample& s, std::vector<double>& gradient) const {
    double hidden[kHidden], probability[kDigits];
    const double loss = forward(s, hidden, probability);
    double back[kHidden] = {};
    for (int d = 0; d < kDigits; ++d) {
      const double error = probability[d] - (d == s.digit);
      gradient[kB2 + d] += error;
      for (int h = 0; h < kHidden; ++h) {
        gradient[kW2 + d * kHidden + h] += error * hidden[h];
        back[h] += error * p[kW2 + d * kHidden + h];
      }
    }
    for (int h = 0; h < kHidden; ++h) {
      if (hidden[h] <= 0) continue;
      gradient[kB1 + h] += back[h];
      for (int i = 0; i < kPixels; ++i) gradient[kW1 + h * kPixels + i] += back[h] * s.pixels[i];
    }
    return loss;
  }
};

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "train: %s\n", why.c_str());
  MPI_Abort(MPI_COMM_WORLD, 2);
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (++i >= argc) stop(word + " needs a value");
      return std::string(argv[i]);
    };
    if (word == "--epochs")
      o.epochs = std::stoi(value());
    else if (word == "--batch")
      o.batch = std::stoi(value());
    else if (word == "--stale")
      o.stale = std::stoi(value());
    else if (word == "--rate")
      o.rate = std::stod(value());
    else if (word == "--losses")
      o.losses = value();
    else if (word == "--quiet")
      o.quiet = true;
    else if (word[0] != '-' && o.data.empty())
      o.data = word;
    else
      stop("unknown argument " + word);
  }
  if (o.data.empty()) stop("usage: train digits.csv [--epochs N] [--batch N] [--stale K] [--rate R] [--losses FILE] [--quiet]");
  return o;
}

/// Rank 0 reads, all get the samples by MPI_Bcast.
std::vector<Sample> load(const std::string& path, int rank) {
  std::vector<Sample> samples;
  if (rank == 0) {
    std::ifstream file(path);
    if (!file) stop("cannot read " + path);
    for (std::string line; std::getline(file, line);) {
      std::stringstream fields(line);
      std::string field;
      Sample s;
      int i = 0;
      for (; i <= kPixels && std::getline(fields, field, ','); ++i) {
        if (i < kPixels)
          s.pixels[i] = std::stof(field) / 16;
        else
          s.digit = int(std::stof(field));
      }
      if (i != kPixels + 1 || s.digit < 0 || s.digit >= kDigits) stop(path + " has a line that is not 64 pixels and a digit");
      samples.push_back(s);
    }
  }
  long count = long(samples.size());
  MPI_Bcast(&count, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  samples.resize(size_t(count));
  MPI_Bcast(samples.data(), int(samples.size() * sizeof(Sample)), MPI_BYTE, 0, MPI_COMM_WORLD);
  return samples;
}

/// A gradient on its way: summed in the background, applied when its turn comes. The last element is the loss.
struct Flight {
  std::vector<double> sum = std::vector<double>(Network::kSize + 1);
  MPI_Request request = MPI_REQUEST_NULL;
};

class Trainer {
 public:
  Trainer(const Options& o, std::vector<Sample> samples) : options_(o) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    for (size_t i = 0; i < samples.size(); ++i) (i % kTestShare ? training_ : test_).push_back(samples[i]);
    network_.randomise();
  }

  double epoch(int number) {
    std::vector<int> order(training_.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(unsigned(number) + 99);  // the same shuffle on every rank
    std::shuffle(order.begin(), order.end(), random);
    loss_ = 0;
    for (size_t at = 0; at < order.size(); at += size_t(options_.batch))
      step(order, at, std::min(order.size(), at + size_t(options_.batch)));
    while (!flights_.empty()) land();
    return loss_ / double(order.size());
  }

  double accuracy() const {
    long counts[2] = {0, 0};
    for (size_t i = size_t(rank_); i < test_.size(); i += size_t(ranks_)) {
      double hidden[kHidden], probability[kDigits];
      network_.forward(test_[i], hidden, probability);
      counts[0] += std::max_element(probability, probability + kDigits) - probability == test_[i].digit;
      ++counts[1];
    }
    MPI_Allreduce(MPI_IN_PLACE, counts, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return double(counts[0]) / double(counts[1]);
  }

 private:
  void step(const std::vector<int>& order, size_t begin, size_t end) {
    flights_.emplace_back();
    Flight& flight = flights_.back();
    for (size_t i = begin + size_t(rank_); i < end; i += size_t(ranks_))
      flight.sum[Network::kSize] += network_.backward(training_[size_t(order[i])], flight.sum);
    scale_.push_back(1.0 / double(end - begin));
    if (options_.stale == 0)
      MPI_Allreduce(MPI_IN_PLACE, flight.sum.data(), int(flight.sum.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else
      MPI_Iallreduce(MPI_IN_PLACE, flight.sum.data(), int(flight.sum.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &flight.request);
    while (int(flights_.size()) > options_.stale) land();
  }

  /// Applies the oldest gradient sum.
  void land() {
    Flight& flight = flights_.front();
    MPI_Wait(&flight.request, MPI_STATUS_IGNORE);
    const double step = options_.rate * scale_.front() / (1 + options_.stale);
    for (int i = 0; i < Network::kSize; ++i) {
      velocity_[size_t(i)] = options_.momentum * velocity_[size_t(i)] - step * flight.sum[size_t(i)];
      network_.p[size_t(i)] += velocity_[size_t(i)];
    }
    loss_ += flight.sum[Network::kSize];
    flights_.pop_front();
    scale_.pop_front();
  }

  Options options_;
  int rank_ = 0, ranks_ = 1;
  std::vector<Sample> training_, test_;
  Network network_;
  std::vector<double> velocity_ = std::vector<double>(Network::kSize);
  std::deque<Flight> flights_;
  std::deque<double> scale_;
  double loss_ = 0;
};

void draw(int epoch, double loss) {
  const int width = int(std::clamp(loss * 30, 0.0, 70.0));
  std::printf("epoch %3d  loss %.6f  %s\n", epoch, loss, std::string(size_t(width), '#').c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Options options = parse(argc, argv);
  Trainer trainer(options, load(options.data, rank));
  std::ofstream losses;
  if (rank == 0 && !options.losses.empty()) losses.open(options.losses);
  const double begin = MPI_Wtime();
  double loss = 0;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    loss = trainer.epoch(epoch);
    if (rank != 0) continue;
    if (!options.quiet && (epoch <= 5 || epoch % 5 == 0)) draw(epoch, loss);
    if (losses.is_open()) losses << std::setprecision(17) << loss << "\n";
  }
  const double accuracy = trainer.accuracy();
  if (rank == 0)
    std::printf("%d ranks, %s: test accuracy %.2f %%, final loss %.6f, %.2f s\n", ranks,
                options.stale ? ("stale by up to " + std::to_string(options.stale)).c_str() : "synchronous", 100 * accuracy, loss,
                MPI_Wtime() - begin);
  MPI_Finalize();
  return accuracy > 0.95 ? 0 : 1;
}
