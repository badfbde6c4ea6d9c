// A job as a run of TensorBoard: what stands before its steps and behind them. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "lib/domain/job.h"
#include "lib/tensorboard/events.h"

namespace muster::tensorboard {

// `run` is its name there; `unix_ms`: of its first step. So the same job has the same bytes,
// whoever writes them and when.
std::string BeginRun(const std::string& run, const JobSpec& spec, int64_t unix_ms);

// Text that the trained model made.
std::string Sample(int64_t unix_ms, int64_t step, const std::string& text);
inline constexpr char kSampleTag[] = "sample";

}  // namespace muster::tensorboard
