// How far a long piece of work is, with its rate and the time left: one line of a terminal that is
// written again and goes with its object. Nothing where standard error is no terminal. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace muster {

class ProgressLine {
 public:
  // `amount` tells how an amount reads to people: "12 samples", "3.4 GiB".
  ProgressLine(double total, std::function<std::string(double)> amount)
      : total_(total), amount_(std::move(amount)) {}
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void At(double done);

 private:
  using Moment = std::chrono::steady_clock::time_point;

  const double total_;
  const std::function<std::string(double)> amount_;
  const Moment begin_ = std::chrono::steady_clock::now();
  Moment last_ = begin_;
  bool is_shown_ = false;
};

// The text of the line. Pure.
std::string ProgressText(double done, double total, double seconds,
                         const std::function<std::string(double)>& amount);

}  // namespace muster
