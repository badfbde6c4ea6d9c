// A column for each round of a benchmark, a row for each figure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "lib/base/time.h"

namespace muster::bench {

using Json = nlohmann::ordered_json;

inline Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

class Stopwatch {
 public:
  double Seconds() const { return muster::Seconds(std::chrono::steady_clock::now() - begin_); }

 private:
  const Time begin_ = std::chrono::steady_clock::now();
};

// The value that 99 of 100 do not exceed.
inline double P99(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[(values.size() * 99 + 99) / 100 - 1];
}

struct Row {
  const char* label;
  const char* phase;  // empty: of the whole round
  const char* field;
  const char* format;
};

inline std::string CellOf(const Json& round, const Row& row) {
  const Json* from = &round;
  if (*row.phase != 0) {
    if (!round.contains(row.phase)) return "-";
    from = &round[row.phase];
  }
  if (!from->contains(row.field)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, row.format, (*from)[row.field].get<double>());
  return text;
}

// `what` is what there are more of in each round: a field of it. What "failed" says stands below.
inline void PrintTable(const char* what, absl::Span<const Row> rows,
                       const std::vector<Json>& rounds) {
  std::printf("%-40s", what);
  for (const Json& round : rounds) std::printf("%12d", round[what].get<int>());
  std::printf("\n");
  for (const Row& row : rows) {
    // A µ is two bytes and one column.
    const int extra = std::string_view(row.label).find("µ") != std::string_view::npos ? 1 : 0;
    std::printf("%-*s", 40 + extra, row.label);
    for (const Json& round : rounds) std::printf("%12s", CellOf(round, row).c_str());
    std::printf("\n");
  }
  for (const Json& round : rounds)
    if (round.contains("failed"))
      std::printf("\n%d %s: %s\n", round[what].get<int>(), what,
                  round["failed"].get<std::string>().c_str());
}

}  // namespace muster::bench
