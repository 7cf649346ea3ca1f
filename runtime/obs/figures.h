// Figures: the numbers that a structure counts, described once beside it; read by MPI_T (performance variables) and reports.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace weft::obs {

/// What a number does: `counter` only grows, `level` goes up and down, `peak` is the most that a level has been.
enum class Gauge : uint8_t { counter, level, peak };

/// One number, without the structure that it stands in.
struct Figure {
  const char* module;
  const char* name;  ///< unique in its module
  Gauge gauge;
  const char* help;
};

/// The figures of one structure. Constructed at namespace scope; registers itself.
class FigureTable {
 public:
  FigureTable(const FigureTable&) = delete;
  const std::vector<Figure>& figures() const { return figures_; }
  /// Place of its first figure among all of the process's.
  size_t first() const { return first_; }
  const FigureTable* next() const { return next_; }

 protected:
  FigureTable() = default;
  void enlist(std::vector<Figure> figures);

 private:
  std::vector<Figure> figures_;
  size_t first_ = 0;
  FigureTable* next_ = nullptr;
};

/// All figures of the process, in the order of their places.
std::vector<Figure> all_figures();

/// The figures of structures of type `Numbers`.
template <class Numbers>
class Figures final : public FigureTable {
 public:
  struct Row {
    const char* name;
    Gauge gauge;
    uint64_t Numbers::*at;
    const char* help;
  };
  Figures(const char* module, std::initializer_list<Row> rows) : rows_(rows) {
    std::vector<Figure> figures;
    for (const Row& row : rows_) figures.push_back({module, row.name, row.gauge, row.help});
    enlist(std::move(figures));
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::vector<Row> rows_;
};

/// One reading of all figures: counters and levels of several structures are added, of peaks the highest counts.
class Tally {
 public:
  template <class Numbers>
  void add(const Figures<Numbers>& table, const Numbers& numbers) {
    size_t place = table.first();
    for (const auto& row : table.rows()) enter(place++, row.gauge, numbers.*row.at);
  }
  /// Zero for what no structure has told.
  uint64_t at(size_t place) const { return place < values_.size() ? values_[place] : 0; }

 private:
  void enter(size_t place, Gauge gauge, uint64_t value) {
    if (place >= values_.size()) values_.resize(place + 1);
    uint64_t& kept = values_[place];
    kept = gauge == Gauge::peak ? std::max(kept, value) : kept + value;
  }
  std::vector<uint64_t> values_;
};

}  // namespace weft::obs
