// The numbers of a run's steps in columns, in memory that does not grow without end: once there are kMostRows, each two
// become one, which keeps their mean, lowest and highest.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/report/metric_values.h"

namespace hyperion::dash {

class Curves {
 public:
  static constexpr size_t kMostRows = size_t{1} << 17;
  static constexpr size_t kMostColumns = 64;

  // `seconds`: trained by then. A value that is no number is a gap.
  void add(int64_t step, double seconds, const std::vector<report::NamedValue>& values);
  void clear();

  size_t rows() const { return steps_.size(); }
  // Another one where rows have other content than before, but for the last one, which may still take steps in.
  int64_t generation() const { return generation_; }

  struct View {
    size_t begin = 0, end = 0;  // rows
    size_t width = 0;           // at most so many points; 0: every row
  };
  // The rows of steps from..to.
  View between(int64_t from, int64_t to, size_t width) const;
  // Of a JSON object: "generation", "rows", "begin", "end", "steps": [last step of each point], "seconds": [...],
  // "curves": {name: {"mean": [...], "low": [...], "high": [...]}}; low and high only where a point is of several
  // steps.
  std::string members(const View& view) const;

 private:
  struct Column {
    std::string name;
    std::vector<float> mean, low, high;  // low and high: empty while rows are single steps
  };
  struct Point {
    float mean, low, high;
  };
  Column& column(const std::string& name);
  void fold();
  static int64_t new_generation(int64_t last);
  Point point(const Column& column, size_t begin, size_t end) const;
  void put(Column& column, double value);

  std::vector<int64_t> steps_;
  std::vector<double> seconds_;
  std::vector<Column> columns_;
  size_t stride_ = 1, in_last_ = 0;  // steps of a row, and those in the last one
  int64_t generation_ = new_generation(0);
};

}  // namespace hyperion::dash
