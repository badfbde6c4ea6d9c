// What the rounds of a benchmark come to.
#pragma once

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// The 5 … 95 % bootstrap interval of the median; the same one each time for the same values.
inline std::pair<double, double> IntervalOf(const std::vector<double>& values) {
  std::mt19937 random(1);
  std::uniform_int_distribution<size_t> pick(0, values.size() - 1);
  std::vector<double> medians;
  for (int i = 0; i < 1000; ++i) {
    std::vector<double> drawn;
    for (size_t j = 0; j < values.size(); ++j) drawn.push_back(values[pick(random)]);
    medians.push_back(Median(std::move(drawn)));
  }
  std::sort(medians.begin(), medians.end());
  return {medians[47], medians[950]};
}

// One figure over the rounds.
struct Figure {
  std::string name;
  std::string unit;
  std::vector<double> values{};

  void Print() const {
    const auto [low, high] = IntervalOf(values);
    // A ÷ is two bytes and one column.
    const auto more =
        std::count_if(name.begin(), name.end(), [](char c) { return (c & 0xC0) == 0x80; });
    std::printf("%-*s %8.3f %-2s %.3f … %.3f\n", 52 + static_cast<int>(more), name.c_str(),
                Median(values), unit.c_str(), low, high);
  }
  nlohmann::json Record() const {
    const auto [low, high] = IntervalOf(values);
    return {{"median", Median(values)}, {"low", low}, {"high", high}, {"values", values}};
  }
};

}  // namespace muster::bench
